"""Kinds of dtypes, which are given by name."""

from __future__ import annotations


def is_float_dtype(dtype: str) -> bool:
    """Whether this dtype is one of real floating-point numbers: "float32", "bfloat16".

    >>> rf.is_float_dtype("bfloat16"), rf.is_float_dtype("complex64")
    (True, False)
    """
    return dtype.startswith(("float", "bfloat")) and dtype.lstrip("abflot").isdigit()


def is_int_dtype(dtype: str) -> bool:
    """Whether this dtype is one of integers: "int64", "uint8". It is False for "bool"."""
    return dtype.startswith(("int", "uint"))


def has_fractions(dtype: str) -> bool:
    """Whether this dtype is one of floating-point numbers, real or complex."""
    return dtype.startswith(("float", "bfloat", "complex"))
