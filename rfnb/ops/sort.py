"""Sorting, and searching in sorted sequences."""

from __future__ import annotations

from typing import Annotated

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.convert import tensor
from rfnb.ops.math import Value


@op(frames="any")
def sort(source: Tensor, *, axis: Dim, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor, Dim]:
    """The sorted entries, their former positions, and the new dim. {…, axis} → {…, out_dim}, the same sparse in axis

    Padding stays at the end.

    >>> time = rf.Dim(3, name="time")
    >>> values, places, _ = rf.sort(rf.convert_to_tensor([3, 1, 2], dims=[time]), axis=time)
    >>> values.raw_tensor.tolist(), places.raw_tensor.tolist()
    ([1, 2, 3], [1, 2, 0])

    Args:
        stable: whether equal entries keep their order.
    """
    return backend_of_raw(source._raw).sort(source, axis=axis, descending=descending, stable=stable)


@op(frames="any")
def search_sorted(
    sorted_seq: Tensor,
    values: Value,
    *,
    axis: Dim,
    side: Annotated[str, OneOf("left", "right")] = "left",
    out_dtype: str = "int32",
) -> Tensor:
    """Where to insert each of `values` in `sorted_seq`, sorted along `axis`. {…, axis}, {…} → {… of both}

    It is the number of entries that are less ("left") or not greater ("right"). Shared dims are batch dims.

    >>> time = rf.Dim(4, name="time")
    >>> rf.search_sorted(rf.range_over_dim(time) * 10, 20, axis=time).raw_tensor.item()
    2
    """
    backend = backend_of_raw(sorted_seq._raw)
    return backend.search_sorted(sorted_seq, tensor(values, sorted_seq), axis=axis, side=side, out_dtype=out_dtype)
