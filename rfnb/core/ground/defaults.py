"""Kinds of dtypes, and the dtype and the device of new tensors, where none is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rfnb.core.ground.backends import selected
from rfnb.errors import DtypeError


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


_float = "float32"
_device: str | None = None


def get_default_float_dtype() -> str:
    """The dtype of new float tensors, including parameters.

    >>> rf.get_default_float_dtype(), rf.zeros([rf.Dim(2, name="feat")]).dtype
    ('float32', 'float32')
    """
    return _float


def set_default_float_dtype(dtype: str) -> None:
    """Sets the dtype of new float tensors.

    >>> rf.set_default_float_dtype("bfloat16")
    >>> rf.zeros([rf.Dim(2, name="feat")]).dtype
    'bfloat16'
    >>> rf.set_default_float_dtype("float32")

    To change it temporarily, use `rf.set_default_float_dtype_ctx`. Raises DtypeError if `dtype` is not a float type.
    """
    global _float
    if not isinstance(dtype, str) or not is_float_dtype(dtype):
        raise DtypeError(
            "set_default_float_dtype: `dtype` is not a float type", got=repr(dtype), expected='"float32", "bfloat16", …'
        )
    selected().as_dtype_raw(dtype)  # which knows the dtypes that exist
    _float = dtype


@contextmanager
def set_default_float_dtype_ctx(dtype: str) -> Iterator[None]:
    """Sets the dtype of new float tensors inside the block.

    >>> feat = rf.Dim(2, name="feat")
    >>> with rf.set_default_float_dtype_ctx("float64"):
    ...     inside = rf.zeros([feat])
    >>> inside.dtype, rf.zeros([feat]).dtype
    ('float64', 'float32')
    """
    old = _float
    set_default_float_dtype(dtype)
    try:
        yield
    finally:
        set_default_float_dtype(old)


def get_default_int_dtype() -> str:
    """The dtype of new integer tensors.

    >>> rf.get_default_int_dtype(), rf.convert_to_tensor([1, 2], dims=[rf.Dim(2, name="feat")]).dtype
    ('int64', 'int64')
    """
    return "int64"


def get_default_array_index_dtype() -> str:
    """The dtype of new indices, which all backends accept without a cast.

    >>> time = rf.Dim(3, name="time")
    >>> rf.get_default_array_index_dtype(), rf.reduce_argmax(rf.ones([time]), axis=time).dtype
    ('int64', 'int64')
    """
    return "int64"


def get_default_device() -> str | None:
    """The device of new tensors; None: the default of the backend.

    >>> with rf.set_default_device_ctx("cpu"):
    ...     rf.get_default_device()
    'cpu'
    """
    return _device


def set_default_device(device: str | None) -> None:
    """Sets the device of new tensors.

    >>> before = rf.get_default_device()
    >>> rf.set_default_device("cpu")
    >>> rf.zeros([rf.Dim(2, name="feat")]).device
    'cpu'
    >>> rf.set_default_device(before)

    Args:
        device: "cuda", "cuda:1", "cpu"; None: the default of the backend.
    """
    global _device
    _device = device


@contextmanager
def set_default_device_ctx(device: str | None) -> Iterator[None]:
    """Sets the device of new tensors inside the block.

    >>> with rf.set_default_device_ctx("cpu"):
    ...     rf.zeros([rf.Dim(2, name="feat")]).device
    'cpu'
    """
    old = _device
    set_default_device(device)
    try:
        yield
    finally:
        set_default_device(old)
