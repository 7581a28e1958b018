"""The texts of errors that show the corrected call, with the names and dims of the user's own tensors.

`torch_equivalents` is the table from PyTorch calls to their rfnb equivalents; `tensor/tensor_protocols` and
`tensor/argument_errors` raise the errors. `broadcast_errors` explains why two dims that look alike do not match.
"""
