"""Hints in errors, phrased with the tensors and dims of the failing call.

`torch_equivalents` answers what users of torch write by habit; `broadcast_errors` explains dims that were combined by
accident.
"""
