"""Making and reading numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.numpy.math import Array, type_of
from rfnb.errors import BackendError

if TYPE_CHECKING:
    from rfnb.core.tensor.parameter import Parameter


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise BackendError("the numpy backend runs on the CPU only", got=device, expected='"cpu"')


class NumpyData:
    """Types, shapes, and arrays from numbers."""

    device_key_raw = staticmethod(lambda raw: "numpy")
    get_device_raw = staticmethod(lambda raw_tensor: "cpu")
    version_raw = staticmethod(lambda raw: 0)  # arrays do not count their changes
    copy_raw = staticmethod(Array.copy)
    to_numpy_raw = staticmethod(Array.copy)

    @staticmethod
    def get_dtype_name_raw(raw_tensor: Array) -> str:
        """ "float32" """
        return raw_tensor.dtype.name

    @staticmethod
    def get_ndim_raw(raw_tensor: Array) -> int:
        """The number of axes."""
        return raw_tensor.ndim

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: Array) -> tuple[int, ...]:
        """The sizes of the axes."""
        return raw_tensor.shape

    @staticmethod
    def copy_to_device_raw(raw_tensor: Array, device: str | None) -> Array:
        """The array itself, since there is only the CPU."""
        _check_device(device)
        return raw_tensor

    @staticmethod
    def from_numpy_raw(values: Array, device: str | None = None) -> Array:
        """The array itself, as a constant."""
        return np.array(values)

    @staticmethod
    def convert_raw(value: Any, dtype: str | None, device: str | None) -> Array:
        """A copy of numbers, lists or arrays, in `dtype` if given; Python floats are float32."""
        _check_device(device)
        array = np.array(value, None if dtype is None else type_of(dtype))
        plain = dtype is None and not isinstance(value, np.ndarray | np.generic)
        return array.astype(np.float32) if plain and array.dtype == np.float64 else array

    @staticmethod
    def full_raw(shape: Sequence[int], value: Any, dtype: str, device: str | None) -> Array:
        """An array filled with one value."""
        _check_device(device)
        return np.full(shape, value, type_of(dtype))

    @staticmethod
    def range_raw(size: int, dtype: str, device: str | None) -> Array:
        """0, 1, … size-1"""
        _check_device(device)
        return np.arange(size, dtype=type_of(dtype))

    @classmethod
    def create_parameter_raw(cls, tensor: Parameter, *, device: str | None = None) -> Array:
        """Zeros with the dims and dtype of `tensor`."""
        return cls.full_raw([dim.dimension or 0 for dim in tensor.dims], 0, tensor.dtype, device)

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Does nothing, since there are no gradients."""

    @staticmethod
    def parameter_assign_raw(raw: Array, value: Any, *, op: str = "assign") -> None:
        """Sets the values, or adds to them, in place."""
        raw[...] = raw + value if op == "add" else value

    @staticmethod
    def parameter_assign_at_raw(raw: Array, index: tuple[Any, ...], value: Any, *, op: str) -> None:
        """Sets, or adds to, the values at `index`: positions for each axis, or a slice."""
        if op == "add":
            np.add.at(raw, index, value)
        else:
            raw[index] = value
