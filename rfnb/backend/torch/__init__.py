"""The torch backend: raw functions on torch tensors, in the families of `base`.

Read `backend` first: it lists the families. `tape` records the raw calls of a loop's body, `fuse` joins them;
`module_graph` and `attention` observe plain torch modules.
"""
