"""Tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import Lengths, too_large
from rfnb.core.ground.default import is_int_dtype
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class CreateOps:
    """Raw part: `full_raw(shape, value, dtype, device)`, `range_raw(size, dtype, device)`."""

    full_raw: Callable[[Sequence[int], RawTensor, str, str | None], RawTensor]
    range_raw: Callable[[int, str, str | None], RawTensor]

    @classmethod
    def full(
        cls: type[Backend],
        dims: Sequence[Dim],
        fill_value: object,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """A constant, or a Tensor with some of `dims` repeated along the others. → {dims}"""
        shape, lengths = sizes_of(dims)
        if isinstance(fill_value, Tensor):
            value = fill_value.copy_compatible_to_dims_raw(dims)
            value = cls.cast_raw(cls.copy_to_device_raw(value, device), dtype)
            raw = cls.copy_raw(cls.broadcast_raw(value, shape))
            lengths = lengths.join(fill_value.lengths, align.sig(dims), fill_value.sig)
        else:
            try:
                raw = cls.full_raw(shape, fill_value, dtype, device)
            except Exception as error:
                raise too_large("full", dims, shape, error) from None
        return tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), lengths)

    @classmethod
    def range_over_dim(cls: type[Backend], dim: Dim, *, dtype: str, device: str | None = None) -> Tensor:
        """0, 1, … along `dim`. → {dim}, sparse in it with an integer dtype"""
        (size,), lengths = sizes_of([dim])
        sparse = dim if is_int_dtype(dtype) else None
        try:
            raw = cls.range_raw(size, dtype, device)
        except Exception as error:
            raise too_large("range_over_dim", [dim], [size], error) from None
        return tensor_of(raw, align.sig([dim], sparse), lengths)


def sizes_of(dims: Sequence[Dim]) -> tuple[list[int], Lengths]:
    """The sizes of the padded axes in the current batch, and its lengths. Raises DimError if a size is unknown."""
    check_dims(dims)
    lengths, sizes = current_lengths(dims), []
    for dim in dims:
        if dim.dimension is not None:
            sizes.append(dim.dimension)
            continue
        size = lengths.size(dim)
        if size is None:
            raise DimError(
                f"{dim.name} has no size yet",
                got=align.show_dims(dims),
                expected="dims of known size",
                hint=f"make a tensor from data with {dim.name} first, or give it a number: Dim(…, name={dim.name!r})",
                dims=[dim],
            )
        sizes.append(size.max)
    return sizes, lengths
