"""The type and the place of new tensors, where none is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rfnb.core.dtype import is_float_dtype
from rfnb.errors import DtypeError

_float = "float32"
_device: str | None = None


def get_default_float_dtype() -> str:
    """The type of new float tensors, parameters among them."""
    return _float


def set_default_float_dtype(dtype: str) -> None:
    """New float tensors have this type from now on."""
    global _float
    if not isinstance(dtype, str) or not is_float_dtype(dtype):
        raise DtypeError(
            "set_default_float_dtype: not a float type", got=repr(dtype), expected='"float32", "bfloat16", …'
        )
    _float = dtype


@contextmanager
def set_default_float_dtype_ctx(dtype: str) -> Iterator[None]:
    """New float tensors have this type inside the block."""
    before = _float
    set_default_float_dtype(dtype)
    try:
        yield
    finally:
        set_default_float_dtype(before)


def get_default_int_dtype() -> str:
    """The type of new integer tensors."""
    return "int64"


def get_default_array_index_dtype() -> str:
    """The type of new indices: the one that all backends take without a cast."""
    return "int64"


def get_default_device() -> str | None:
    """Where new tensors are made; None: where the backend makes them."""
    return _device


def set_default_device(device: str | None) -> None:
    """New tensors are made there from now on."""
    global _device
    _device = device


@contextmanager
def set_default_device_ctx(device: str | None) -> Iterator[None]:
    """New tensors are made there inside the block."""
    before = _device
    set_default_device(device)
    try:
        yield
    finally:
        set_default_device(before)
