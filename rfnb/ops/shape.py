"""The same entries under other dims."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backend.base.shape import product
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor


@op(frames="any")
def expand_dim(source: Tensor, dim: Dim) -> Tensor:
    """The same entries for each position of `dim`. {…} → {dim, …}"""
    return backend_of_raw(source._raw).expand_dim(source, dim)


def expand_dims(source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """The same entries for each position of `dims`. {…} → {dims…, …}"""
    for dim in reversed(dims):
        source = expand_dim(source, dim)
    return source


@op(frames="any")
def squeeze(source: Tensor, axis: Dim) -> Tensor:
    """Without an axis of size 1. {…, axis} → {…}"""
    return backend_of_raw(source._raw).squeeze(source, axis)


def replace_dim(source: Tensor, *, in_dim: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """Another dim of the same size, and that dim. {…, in_dim} → {…, out_dim}

    A tensor that is sparse in `in_dim` is sparse in `out_dim` then.
    """
    if out_dim is None:
        out_dim = Dim(in_dim.dimension, name=in_dim.name, kind=in_dim.kind, vocab=in_dim.vocab)
    return replace_dim_v2(source, in_dim=in_dim, out_dim=out_dim), out_dim


@op(frames="any")
def replace_dim_v2(source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
    """Another dim of the same size. {…, in_dim} → {…, out_dim}"""
    return backend_of_raw(source._raw).replace_dim(source, in_dim=in_dim, out_dim=out_dim)


@op(frames="any")
def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
    """The same entries, as labels of `sparse_dim`."""
    return source.like(source._raw, align.sig(source.dims, sparse_dim, source.feature_dim))


@op(frames="any")
def merge_dims(source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """Several dims as one, the first of them slowest, and that dim. {…, dims…} → {…, out_dim}

    >>> height, width = rf.Dim(2, name="height"), rf.Dim(3, name="width")
    >>> rf.merge_dims(rf.zeros([height, width]), dims=[height, width])[1] is height * width
    True

    Raises DimError if padding would end up between the frames.
    """
    if len(dims) == 1 and out_dim is None:
        return source, dims[0]
    out_dim = product(dims) if out_dim is None else out_dim
    if out_dim.kind is None and any(dim.is_batch_dim() for dim in dims):
        out_dim.kind = "batch"
    return backend_of_raw(source._raw).merge_dims(source, dims=dims, out_dim=out_dim), out_dim


@op(frames="any")
def split_dims(
    source: Tensor,
    *,
    axis: Dim,
    dims: Sequence[Dim],
    pad_to_multiples: bool | None = None,
    pad_value: float | None = None,
) -> Tensor:
    """One dim as several, the first of them slowest. {…, axis} → {…, dims…}

    One of `dims` may be a new Dim(None), which gets the size that is left. If that does not come out even,
    `pad_value` (0 if not given) is added, unless `pad_to_multiples` is False; by default only if `axis` is dynamic.
    """
    return backend_of_raw(source._raw).split_dims(
        source, axis=axis, dims=dims, pad_to_multiples=pad_to_multiples, pad_value=pad_value
    )
