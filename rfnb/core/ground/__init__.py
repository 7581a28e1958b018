"""What everything else stands on: places in the user's code, names, nested structures, defaults and registries.

Read `source` first: a `Source` is a place in the user's code, which gives dims and values their names, and errors their
lines. `nested` walks structures of tensors. `scope` holds the module path and the random stream of the code that is
running, `default` the default types and device. `hook` declares functions that a higher rank registers, among
them those for models of other libraries; `raw` and `show` are registries of backends and views. `text` words messages;
`atomic` replaces files safely, and `scope.not_searched` speeds up imports.
"""
