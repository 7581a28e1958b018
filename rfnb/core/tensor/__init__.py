"""Tensors, and the ops that make them.

Read `tensor` first: a `Tensor` is a raw tensor with a signature (its dims) and the lengths of its batch. It inherits
methods from `axes` (finding an axis), `template` (tensors without data) and `tensor_protocols` (Python, numpy, torch).
`op` holds the table of ops and their fast paths, `op_call` the wrapper of each op, and `listener` what observes calls.
`parameter`, `state` and `tensor_dict` hold tensors in modules, loops and batches. `argument_kinds` checks arguments by
their annotations, and `argument_errors` explains calls that failed; `pickling` keeps the identity of dims in pickles.
"""
