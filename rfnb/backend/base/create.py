"""Tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core import align
from rfnb.core.dim import Dim, check_dims, current_lengths
from rfnb.core.scope import random_stream
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError


class CreateOps:
    """Raw part: `full_raw`, `range_raw`, `random_raw`, `dropout_raw`, `convert_raw`."""

    full_raw: Callable[[Sequence[int], Any, str, str | None], Any]
    range_raw: Callable[[int, str, str | None], Any]
    random_raw: Callable[..., Any]
    dropout_raw: Callable[[Any, float, Sequence[int], Any], Any]
    get_shape_tuple_raw: Callable[[Any], tuple[int, ...]]

    @classmethod
    def full(
        cls,
        dims: Sequence[Dim],
        fill_value: Any,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """One value everywhere. → {dims}"""
        raw = cls.full_raw(shape_of(dims), fill_value, dtype, device)
        return tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), current_lengths(dims))

    @classmethod
    def range_over_dim(cls, dim: Dim, *, dtype: str, device: str | None = None) -> Tensor:
        """0, 1, … along `dim`. → {dim}, sparse in it"""
        raw = cls.range_raw(shape_of([dim])[0], dtype, device)
        return tensor_of(raw, align.sig([dim], dim), current_lengths([dim]))

    @classmethod
    def random(
        cls,
        *,
        dims: Sequence[Dim],
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        seed: int | None = None,
        **parameters: Any,
    ) -> Tensor:
        """Random numbers: "uniform" in [minval, maxval), "normal", "truncated_normal", "bernoulli" (mean). → {dims}"""
        generator = random_stream(device or "cpu") if seed is None else None
        raw = cls.random_raw(shape_of(dims), dtype, device, distribution, generator, seed, **parameters)
        return tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), current_lengths(dims))

    @classmethod
    def dropout(cls, source: Tensor, drop_prob: float, dims: Sequence[Dim]) -> Tensor:
        """0 with probability `drop_prob`, else scaled up; the same along all dims but `dims`. {…} → the same"""
        shape = cls.get_shape_tuple_raw(source._raw)
        missing = [dim for dim in dims if dim not in source.sig.index]
        if missing:
            raise DimError(
                f"dropout: `source` has no dim {missing[0].name}",
                got=source.describe_dims(),
                expected=align.show_dims(dims),
            )
        sizes = [n if dim in dims else 1 for dim, n in zip(source.dims, shape, strict=True)]
        generator = random_stream(source.device or "cpu")
        return source.like(cls.dropout_raw(source._raw, drop_prob, sizes, generator))


def shape_of(dims: Sequence[Dim]) -> list[int]:
    """The sizes of the padded axes, in the batch that is bound now. Raises DimError if one has none."""
    check_dims(dims, "dims")
    lengths = current_lengths(dims)
    sizes = [lengths.size(dim) for dim in dims]
    for dim, size in zip(dims, sizes, strict=True):
        if size is None:
            raise DimError(
                f"{dim.name} has no size yet",
                got=align.show_dims(dims),
                expected="dims whose sizes are known",
                hint=f"make a tensor from data with {dim.name} first, or give it a number: Dim(…, name={dim.name!r})",
            )
    return [size.max for size in sizes if size is not None]
