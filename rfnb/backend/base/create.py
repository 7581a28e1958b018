"""Tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core import align
from rfnb.core.binding import current_lengths
from rfnb.core.dim import Dim, check_dims
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class CreateOps:
    """Raw part: `full_raw(shape, value, dtype, device)`, `range_raw(size, dtype, device)`."""

    full_raw: Callable[[Sequence[int], Any, str, str | None], Any]
    range_raw: Callable[[int, str, str | None], Any]

    @classmethod
    def full(
        cls: type[Backend],
        dims: Sequence[Dim],
        fill_value: Any,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """One value everywhere, or a Tensor with some of `dims` along the others. → {dims}"""
        shape, lengths = shape_of(dims), current_lengths(dims)
        if isinstance(fill_value, Tensor):
            value = fill_value.copy_compatible_to_dims_raw(dims)
            value = cls.cast_raw(cls.copy_to_device_raw(value, device), dtype)
            raw = cls.copy_raw(cls.broadcast_raw(value, shape))
            lengths = lengths.join(fill_value.lengths, align.sig(dims), fill_value.sig)
        else:
            raw = cls.full_raw(shape, fill_value, dtype, device)
        return tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), lengths)

    @classmethod
    def range_over_dim(cls: type[Backend], dim: Dim, *, dtype: str, device: str | None = None) -> Tensor:
        """0, 1, … along `dim`. → {dim}, sparse in it if these are whole numbers"""
        raw = cls.range_raw(shape_of([dim])[0], dtype, device)
        sparse = dim if dtype.startswith(("int", "uint")) else None
        return tensor_of(raw, align.sig([dim], sparse), current_lengths([dim]))


def shape_of(dims: Sequence[Dim]) -> list[int]:
    """The sizes of the padded axes, in the batch that is bound now. Raises DimError if one has none."""
    check_dims(dims)
    lengths = current_lengths(dims)
    sizes = [lengths.size(dim) for dim in dims]
    for dim, size in zip(dims, sizes, strict=True):
        if size is None:
            raise DimError(
                f"{dim.name} has no size yet",
                got=align.show_dims(dims),
                expected="dims whose sizes are known",
                hint=f"make a tensor from data with {dim.name} first, or give it a number: Dim(…, name={dim.name!r})",
                dims=[dim],
            )
    return [size.max for size in sizes if size is not None]
