"""Raw tensors: their properties, measures of their entries, and making Tensors of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import bind_shape
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.tensor.template import NoData
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import BackendError, DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.core.tensor.parameter import Parameter


class DataOps:
    """Raw part: `get_dtype_name_raw`, `as_dtype_raw`, `get_ndim_raw`, `get_shape_tuple_raw`, `get_device_raw`,
    `device_key_raw`, `copy_raw`, `copy_to_device_raw`, `convert_raw`, `from_numpy_raw`, `to_numpy_raw`, `array_raw`,
    and for parameters `create_parameter_raw`, `set_parameter_trainable`.
    """

    get_dtype_name_raw: Callable[[RawTensor], str]
    as_dtype_raw: Callable[[str], object]
    get_ndim_raw: Callable[[RawTensor], int]
    get_shape_tuple_raw: Callable[[RawTensor], tuple[int, ...]]
    get_device_raw: Callable[[RawTensor], str]
    to_numpy_raw: Callable[[RawTensor], np.ndarray]
    array_raw: Callable[[RawTensor], object]
    is_ready_raw: Callable[[RawTensor], bool]
    convert_raw: Callable[[RawTensor, str | None, str | None], RawTensor]
    create_parameter_raw: Callable[..., RawTensor]
    copy_raw: Callable[[RawTensor], RawTensor]
    set_parameter_trainable: Callable[[Parameter, bool], None]
    copy_to_device_raw: Callable[[RawTensor, str | None], object]
    from_numpy_raw: Callable[[np.ndarray, str | None], RawTensor]
    device_key_raw: Callable[[RawTensor], RawTensor]

    @staticmethod
    def outside_modes() -> AbstractContextManager[None]:
        """Inside, tensors made for a batch can be used in any mode, also in training if made during inference."""
        return nullcontext()

    @staticmethod
    def shapes_only() -> AbstractContextManager[object]:
        """Inside, what tensors without numbers need is their shapes: the backend may take a short way to them."""
        return nullcontext()

    @staticmethod
    def mixes_dtypes() -> bool:
        """Whether kernels accept operands of different dtypes at the moment, as under `torch.autocast`."""
        return False

    @classmethod
    def numbers(cls: type[Backend], tensor: Tensor, largest: int) -> np.ndarray:
        """The numbers of a tensor, which decide on a size; without numbers, `largest` for each, or symbols."""
        return cls.to_numpy_raw(tensor._raw)

    @classmethod
    def without_numbers_raw(cls: type[Backend], raw_tensor: RawTensor) -> RawTensor:
        """A tensor of the same shape and dtype that takes no memory. Raises BackendError if the backend has none."""
        raise BackendError("meta: this backend has no tensors without data", got=cls.name, expected="torch")

    @classmethod
    def get_shape_raw(cls: type[Backend], raw_tensor: RawTensor) -> tuple[int, ...]:
        """The sizes of the axes."""
        return cls.get_shape_tuple_raw(raw_tensor)

    @classmethod
    def get_known_shape_raw(cls: type[Backend], raw_tensor: RawTensor) -> tuple[int, ...]:
        """The sizes of the axes, which are all known."""
        return cls.get_shape_tuple_raw(raw_tensor)

    @classmethod
    def set_known_shape_raw(cls: type[Backend], raw_tensor: RawTensor, shape: tuple[int | None, ...]) -> None:
        """Checks the shape; None stands for any size. Raises DimError if it differs."""
        sizes = cls.get_shape_tuple_raw(raw_tensor)
        if len(sizes) != len(shape) or any(n not in (None, size) for n, size in zip(shape, sizes, strict=True)):
            raise DimError("the raw tensor has a different shape", got=sizes, expected=shape)

    @classmethod
    def get_new_dim_raw(cls: type[Backend], raw_tensor: RawTensor, axis: int, *, name: str) -> Dim:
        """A new Dim of the size of this axis."""
        return Dim(cls.get_shape_tuple_raw(raw_tensor)[axis], name=name)

    @classmethod
    def fill_raw(cls: type[Backend], shape: Sequence[int], value: object) -> RawTensor:
        """Fills the tensor with `value`."""
        return cls.copy_raw(cls.broadcast_raw(cls.convert_raw(value, None, None), shape))

    @classmethod
    def get_device(cls: type[Backend], x: Tensor) -> str | None:
        """The device of the data, such as "cpu" or "cuda:0"; None for a template."""
        return None if isinstance(x._raw, NoData) else cls.get_device_raw(x._raw)

    @classmethod
    def convert_to_tensor(
        cls: type[Backend],
        value: object,
        *,
        dims: Sequence[Dim],
        dtype: str,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Numbers, arrays or a raw tensor as a Tensor. → {dims}"""
        if isinstance(value, Tensor):
            return value
        check_dims(dims, "convert_to_tensor")
        raw = cls.convert_raw(value, dtype, device)
        lengths = bind_shape(name or "convert_to_tensor", dims, cls.get_shape_tuple_raw(raw))
        result = tensor_of(raw, align.sig(dims, sparse_dim), lengths)
        result._name = name or "tensor"
        return result

    @classmethod
    def runtime_sanity_checks(cls: type[Backend], tensor: Tensor) -> None:
        """Checks the raw tensor against the dims, their lengths and `sparse_dim`. This reads the labels.

        Raises DimError or DtypeError if they do not fit.
        """
        cls.set_known_shape_raw(tensor._raw, tuple(tensor.size_of(dim).max for dim in tensor.dims))
        labels = tensor.sparse_dim
        if labels is None:
            return
        if not is_int_dtype(tensor.dtype):
            raise DtypeError(f"{tensor.name}: labels must be integers", got=tensor.dtype, expected="int32 or int64")
        values = cls.to_numpy_raw(cls.fill_padding(tensor, 0))
        count: float = labels.size.max if labels.is_defined() else math.inf
        if values.size and (values.min() < 0 or values.max() >= count):
            raise DimError(
                f"{tensor.name}: a label is outside {labels.name}",
                got=f"{values.min()} to {values.max()}",
                expected=f"0 to {count - 1}",
            )


class Magnitude(NamedTuple):
    """How large entries are: the sum of squares, the largest absolute value and the number of the finite ones, and
    whether there are a NaN, +Inf and −Inf."""

    squares: float
    most: float
    entries: int
    nan: bool = False
    infinite: bool = False
    minus_infinite: bool = False


class MeasureOps:
    """Raw part: `magnitude_raw(raw, mask)`, None for entries that are not floats."""

    magnitude_raw: Callable[[RawTensor, np.ndarray | None], Magnitude | None]

    @staticmethod
    def watch_gradient_raw(raw: RawTensor, see: Callable[[RawTensor], None]) -> bool:
        """Calls `see` with the gradient of a computed tensor in the backward pass; by default False: it has none."""
        return False

    @staticmethod
    def synchronize() -> str:
        """Waits until all devices have computed what they were asked to; returns where this one computes: "cpu"."""
        return "cpu"
