"""Sorting, searching in sorted sequences, and selecting the largest entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.convert import tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import scatter
from rfnb.ops.math import Value, cast, compare_bc, greater, less, logical_or, sub
from rfnb.ops.sequence import cumsum


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


@op(frames="any")
def top_k(
    source: Tensor,
    *,
    axis: Dim | Sequence[Dim],
    k: int | Tensor | None = None,
    k_dim: Dim | None = None,
    sorted: bool = True,
) -> tuple[Tensor, Tensor | list[Tensor], Dim]:
    """The `k` largest over `axis`: values, positions, and the new dim. {…, axis} → {…, k_dim}, the same

    >>> beam, vocab = rf.Dim(2, name="beam"), rf.Dim(5, name="vocab")
    >>> scores, (parents, labels), beam = rf.top_k(rf.zeros([beam, vocab]), axis=[beam, vocab], k=2)
    >>> labels.sparse_dim is vocab
    True

    Of equal entries, the one with the lower position comes first; NaN comes after all numbers but -∞. If there are
    fewer than `k` entries, the places that are left have the value -∞, or the smallest integer, and position 0.

    Args:
        axis: several dims are searched as one; for a list of dims, the positions are a list, one for each dim.
        k, k_dim: one of the two suffices. The values of a Tensor `k` {…} are read, and become the lengths of `k_dim`.
        sorted: whether the largest entry comes first.
    """
    if k is None:
        if k_dim is None or not k_dim.is_defined():
            raise DimError("top_k: `k` is missing", expected="`k`, or a `k_dim` of known size", got=k_dim)
        k = k_dim.size.max
    if isinstance(k, Tensor) and k.dtype.startswith(("int", "uint")):
        strange = [dim for dim in k.dims if dim not in source.sig.index]
        if strange:
            raise DimError(
                "top_k: `k` has dims that `source` lacks", got=k.describe_dims(), expected=source.describe_dims()
            )
    elif not isinstance(k, int):
        raise DimError("top_k: `k` must be an int", got=type(k).__name__, expected="int")
    return backend_of_raw(source._raw).top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=sorted)


@guarded
def top_k_mask(values: Tensor, *, axis: Dim, k: int | Tensor) -> Tensor:
    """Whether an entry is among the `k` largest entries over `axis`. {…, axis} → {…, axis} bool

    Exactly `k` entries are marked; of equal entries, the first.

    >>> vocab = rf.Dim(4, name="vocab")
    >>> rf.top_k_mask(rf.convert_to_tensor([3, 1, 3, 2], dims=[vocab]), axis=vocab, k=2).raw_tensor.tolist()
    [True, False, True, False]
    """
    _, places, ranks = sort(values, axis=axis, descending=True)
    return _marked(compare_bc(range_over_dim(ranks, device=values.device), "less", k), places, ranks, axis)


@guarded
def top_p_mask(
    probs: Tensor, *, axis: Dim, p: float | Tensor, one_more: bool = True, min_tokens_to_keep: int = 1
) -> Tensor:
    """Whether an entry is among the largest entries over `axis` whose probabilities sum to `p`.

    {…, axis} → {…, axis} bool

    Nucleus sampling, https://arxiv.org/abs/1904.09751.

    Args:
        one_more: whether to include the entry that reaches `p`; without it, the sum stays below `p`.
        min_tokens_to_keep: number of largest entries that are always kept.

    >>> vocab = rf.Dim(3, name="vocab")
    >>> rf.top_p_mask(rf.convert_to_tensor([0.3, 0.1, 0.6], dims=[vocab]), axis=vocab, p=0.75).raw_tensor.tolist()
    [True, False, True]
    """
    largest, places, ranks = sort(probs, axis=axis, descending=True)
    total = cumsum(largest, spatial_dim=ranks)
    mask = compare_bc(sub(total, largest), "less", p) if one_more else compare_bc(total, "less_equal", p)
    mask = logical_or(mask, less(range_over_dim(ranks, device=probs.device), min_tokens_to_keep))
    return _marked(mask, places, ranks, axis)


def _marked(kept: Tensor, places: Tensor, ranks: Dim, axis: Dim) -> Tensor:
    """Moves marks of sorted entries to the places of these entries."""
    return greater(scatter(cast(kept, "int32"), indices=places, indices_dim=ranks, out_dim=axis), 0)
