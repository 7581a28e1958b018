"""Tensors, and how ops on them are called.

Read `tensor` first: a raw tensor with Dims and lengths. `op` has the table of all ops, `op_call` the generated wrapper
of each, and `listener` observes the calls. `parameter` is the Tensor that a module trains; `state`, `tensor_dict` and
`template` hold several tensors, or tensors without data. `axes` finds an axis by Dim or by name. `tensor_protocols`
answers Python, numpy and torch habits; `argument_errors` words the errors for wrong arguments; `pickling` keeps the
identity of dims in pickles.
"""
