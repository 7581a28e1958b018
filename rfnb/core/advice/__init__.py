"""The texts of errors that show the corrected call, with the names and dims of the user's own tensors.

`torch_equivalents` is the table from PyTorch calls to their rfnb equivalents; `tensor/tensor_protocols` and
`tensor/arguments` raise the errors. `similar_dims` says which dims look alike, and explains why they do not match.
"""
