"""Tensors, and the ops that make them.

Read `tensor` first: a `Tensor` is a raw tensor with a signature (its dims) and the lengths of its batch. It inherits
methods from `template` (tensors without data) and `tensor_protocols` (Python, numpy, torch). `op` holds the table of
ops, their wrapper and their fast paths, and `listener` what observes calls. `parameter` and `tensor_dict` hold tensors
in modules, loops and batches. `arguments` checks arguments by their annotations, and explains calls that failed;
`pickling` keeps the identity of dims in pickles.
"""
