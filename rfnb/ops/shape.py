"""Changing the dims of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.require import axis_of
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.dim_math import extreme
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.op import guarded, op, op_of_backend
from rfnb.core.tensor.tensor import Tensor

expand_dim = op_of_backend(Backend.expand_dim, __name__, frames="any")


@guarded
def expand_dims(source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """The tensor repeated along new axes `dims`. {…} → {dims…, …}

    >>> rf.expand_dims(rf.convert_to_tensor(7), [rf.Dim(1, name="one"), rf.Dim(2, name="pair")]).raw_tensor.tolist()
    [[7, 7]]
    """
    for dim in reversed(dims):
        source = expand_dim(source, dim)
    return source


squeeze = op_of_backend(Backend.squeeze, __name__, frames="any")


@op(frames="any")
def expand_make_non_empty(source: Tensor, *, axis: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """`source`, with one frame of zeros if all sequences are empty, and the dim. {…, axis} → {…, axis or out_dim}

    For raw functions that do not support an empty axis.

    >>> none = rf.Dim(0, name="none")
    >>> rf.expand_make_non_empty(rf.ones([none]), axis=none)[0].raw_tensor.tolist()
    [0.0]
    """
    backend: type[Backend] = backend_of_raw(source._raw)
    axis = source.sig.resolve(axis)
    axis_of("expand_make_non_empty", source, axis)
    if source.size_of(axis).max:
        renamed = source if out_dim is None else backend.replace_dim(source, in_dim=axis, out_dim=out_dim)
        return renamed, out_dim or axis
    out_dim = extreme("max", [axis, 1]) if out_dim is None else out_dim
    return backend.pad(source, axes=[axis], padding=[(0, 1)], out_dims=[out_dim]), out_dim


@guarded
def replace_dim(source: Tensor, *, in_dim: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """`source` with `out_dim` of the same size in place of `in_dim`, and that dim. {…, in_dim} → {…, out_dim}

    A tensor that is sparse in `in_dim` becomes sparse in `out_dim`.

    >>> time = rf.Dim(3, name="time")
    >>> keys, key_time = rf.replace_dim(rf.range_over_dim(time), in_dim=time)  # to compare all pairs of frames
    >>> rf.compare_bc(keys, "equal", rf.range_over_dim(time)).dims == (key_time, time)
    True
    """
    if out_dim is None:
        out_dim = Dim(in_dim.dimension, name=in_dim.name, kind=in_dim.kind, vocab=in_dim.vocab)
    return replace_dim_v2(source, in_dim=in_dim, out_dim=out_dim, allow_expand=False, allow_shrink=False), out_dim


@op(frames="any")
def replace_dim_v2(
    source: Tensor, *, in_dim: Dim, out_dim: Dim, allow_expand: bool = True, allow_shrink: bool = True
) -> Tensor:
    """`source` with `out_dim` in place of `in_dim`; sequences are padded with zeros or cut if the size differs.

    {…, in_dim} → {…, out_dim}

    >>> three, five = rf.Dim(3, name="three"), rf.Dim(5, name="five")
    >>> rf.replace_dim_v2(rf.ones([three]), in_dim=three, out_dim=five).raw_tensor.tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]

    Raises DimError if the size differs in a way that is not allowed.
    """
    return backend_of_raw(source._raw).replace_dim(**locals())


@op(frames="any")
def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
    """The same entries as labels of `sparse_dim`.

    {…} → the same, sparse

    >>> word = rf.Dim(3, name="word")
    >>> rf.set_sparse_dim(rf.convert_to_tensor(1), word).sparse_dim is word
    True
    """
    return source.like(source._raw, align.sig(source.dims, sparse_dim, source.feature_dim))


@guarded
def set_feature_dim(source: Tensor, feature_dim: Dim | None) -> Tensor:
    """The same entries, with this axis as that of the features. {…} → the same

    >>> feat = rf.Dim(3, name="feat")
    >>> rf.set_feature_dim(rf.zeros([rf.batch_dim, feat]), feat).feature_dim is feat
    True
    """
    if isinstance(source, Tensor) and source.feature_dim is feature_dim:
        return source
    return _set_feature_dim(source, feature_dim)


@op(frames="any", name="set_feature_dim")
def _set_feature_dim(source: Tensor, feature_dim: Dim | None) -> Tensor:
    """The same entries, with this axis as that of the features."""
    return source.like(source._raw, align.sig(source.dims, source.sparse_dim, feature_dim))


merge_dims = op_of_backend(Backend.merge_dims, __name__, frames="any")


split_dims = op_of_backend(Backend.split_dims, __name__, frames="any")


reshape = op_of_backend(Backend.reshape, __name__, frames="any")
