"""Expressions in strings, such as conditions in a panel: parsed and computed here, never run as code.

`expression` parses, checks and computes a text with the names and functions of the caller; `torch_ops` is what it may
use of torch and numpy.
"""
