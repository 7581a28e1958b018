"""Types of entries, by their names."""

from __future__ import annotations


def is_float_dtype(dtype: str) -> bool:
    """Whether entries of this type are real floating-point numbers: "float32", "bfloat16".

    >>> rf.is_float_dtype("bfloat16"), rf.is_float_dtype("complex64")
    (True, False)
    """
    return dtype.startswith(("float", "bfloat")) and dtype.lstrip("abflot").isdigit()


def is_int_dtype(dtype: str) -> bool:
    """Whether entries of this type are whole numbers: "int64", "uint8"; bool is another type."""
    return dtype.startswith(("int", "uint"))


def has_fractions(dtype: str) -> bool:
    """Whether entries of this type are floating-point numbers, real or complex."""
    return dtype.startswith(("float", "bfloat", "complex"))
