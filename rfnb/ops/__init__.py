"""Functions on Tensors, in the families of the backends.

Read `math` first: an elementwise op is one row there. `convert` makes operands of an op from numbers and arrays,
`create` makes new tensors; `public` lists the names of `rf` that are imported at once.
"""
