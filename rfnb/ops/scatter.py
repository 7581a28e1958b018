"""Scattering: entries are put at indices, and combined where indices are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from rfnb.backend.base.scatter import MODES
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.op_call import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.create import ones, range_over_dim
from rfnb.ops.grad import stop_gradient
from rfnb.ops.index import gather
from rfnb.ops.math import add, cast, equal, exp, greater, is_finite, less, log, sub, where
from rfnb.ops.shape import merge_dims, set_sparse_dim

Dims = Dim | Sequence[Dim]


@guarded
def scatter(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dims,
    mode: Annotated[str, OneOf(*MODES, "logsumexp", "logmeanexp", "argmax")] = "sum",
    fill_value: float | None = None,
    out_dim: Dims | None = None,
    use_mask: bool | None = None,
) -> Tensor:
    """Puts the entries of `source` at `indices` along `out_dim`. {…, indices_dim}, {…, indices_dim} → {…, out_dim}

    Shared dims other than `indices_dim` are batch dims. Padding is ignored: if the lengths of `indices_dim` depend on a
    dim that `indices` lacks, that dim is a batch dim too, and the result has it.

    >>> time, word = rf.Dim(4, name="time"), rf.Dim(3, name="word")
    >>> words = rf.convert_to_tensor([0, 0, 2, 2], dims=[time], sparse_dim=word)
    >>> rf.scatter(rf.range_over_dim(time), indices=words, indices_dim=time).raw_tensor.tolist()
    [1, 0, 5]

    Args:
        mode: how entries at one place are combined: "sum", "mean", "max", "min", "logsumexp", "logmeanexp", "argmax".
        fill_value: the value of places without an entry; by default 0 for "sum" and "mean", -∞ for "max",
            "logsumexp" and "logmeanexp", ∞ for "min", -1 for "argmax".
        out_dim: by default the `sparse_dim` of `indices`. Of several dims, the last varies fastest.
    """
    if mode in _COMPOSED:
        places: Any = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim}
        if mode == "argmax":
            return scatter_argmax(source, invalid_idx=-1 if fill_value is None else int(fill_value), **places)
        return _COMPOSED[mode](source, fill_value=fill_value, **places)
    return _scatter(
        source,
        indices=indices,
        indices_dim=indices_dim,
        mode=mode,
        fill_value=fill_value,
        out_dim=_counted(indices, out_dim),
        use_mask=use_mask,
    )


@op(frames="any", name="scatter")
def _scatter(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dims,
    mode: str,
    fill_value: float | None,
    out_dim: Dims,
    use_mask: bool | None,
) -> Tensor:
    return backend_of_raw(source._raw).scatter(
        source,
        indices=indices,
        indices_dim=indices_dim,
        out_dim=out_dim,
        mode=mode,
        fill_value=fill_value,
        use_mask=use_mask is not False,
    )


def _counted(indices: Tensor, out_dim: Dims | None) -> Dims:
    if out_dim is not None:
        return out_dim
    if indices.sparse_dim is None:
        raise DimError(
            "scatter: `out_dim` is missing, and the indices do not imply it",
            got=f"{indices.describe_dims()} without sparse_dim",
            hint="scatter(…, out_dim=dim)",
        )
    return indices.sparse_dim


@guarded
def scatter_mean(
    source: Tensor, *, indices: Tensor, indices_dim: Dims, fill_value: float | None = None, out_dim: Dims | None = None
) -> Tensor:
    """The mean of the entries at each place; 0 without entries. {…, indices_dim} → {…, out_dim}

    >>> time, word = rf.Dim(3, name="time"), rf.Dim(2, name="word")
    >>> words = rf.convert_to_tensor([0, 0, 1], dims=[time], sparse_dim=word)
    >>> x = rf.convert_to_tensor([1.0, 3.0, 5.0], dims=[time])
    >>> rf.scatter_mean(x, indices=words, indices_dim=time).raw_tensor.tolist()
    [2.0, 5.0]
    """
    return scatter(
        source, indices=indices, indices_dim=indices_dim, mode="mean", fill_value=fill_value, out_dim=out_dim
    )


@guarded
def scatter_count(
    *, indices: Tensor, indices_dim: Dims, out_dim: Dims | None = None, fill_value: float | None = None
) -> Tensor:
    """The number of indices of each place. {…, indices_dim} → {…, out_dim} int32

    >>> time, word = rf.Dim(4, name="time"), rf.Dim(3, name="word")
    >>> words = rf.convert_to_tensor([0, 0, 2, 0], dims=[time], sparse_dim=word)
    >>> rf.scatter_count(indices=words, indices_dim=time).raw_tensor.tolist()
    [3, 0, 1]
    """
    unit = ones([], dtype="int32", device=indices.device)
    return scatter(unit, indices=indices, indices_dim=indices_dim, fill_value=fill_value, out_dim=out_dim)


@guarded
def scatter_logsumexp(
    source: Tensor, *, indices: Tensor, indices_dim: Dims, fill_value: float | None = None, out_dim: Dims | None = None
) -> Tensor:
    """log Σ exp(x) of the entries at each place; -∞ without entries. {…, indices_dim} → {…, out_dim}

    >>> time, word = rf.Dim(2, name="time"), rf.Dim(2, name="word")
    >>> words = rf.convert_to_tensor([0, 0], dims=[time], sparse_dim=word)
    >>> rf.exp(rf.scatter_logsumexp(rf.zeros([time]), indices=words, indices_dim=time)).raw_tensor.tolist()
    [2.0, 0.0]
    """
    places: Any = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim}
    source = source.copy_masked(0.0)  # otherwise exp(NaN) in padding would get into the gradient
    highest = stop_gradient(scatter(source, mode="max", **places))
    highest = where(is_finite(highest), highest, 0.0)
    total = scatter(exp(sub(source, _at(highest, indices, out_dim))), **places)
    positive = greater(total, 0.0)
    result = where(positive, add(log(where(positive, total, 1.0)), highest), float("-inf"))
    if fill_value is None:
        return result
    return where(greater(scatter_count(**places), 0), result, fill_value, allow_broadcast_all_sources=True)


@guarded
def scatter_logmeanexp(
    source: Tensor, *, indices: Tensor, indices_dim: Dims, fill_value: float | None = None, out_dim: Dims | None = None
) -> Tensor:
    """The log of the mean of exp(x) at each place; -∞ without entries. {…, indices_dim} → {…, out_dim}

    >>> time, word = rf.Dim(2, name="time"), rf.Dim(2, name="word")
    >>> words = rf.convert_to_tensor([0, 0], dims=[time], sparse_dim=word)
    >>> x = rf.log(rf.convert_to_tensor([1.0, 3.0], dims=[time]))
    >>> rf.exp(rf.scatter_logmeanexp(x, indices=words, indices_dim=time)).raw_tensor.tolist()
    [2.0, 0.0]
    """
    places: Any = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim}
    total = scatter_logsumexp(source, fill_value=fill_value, **places)
    return sub(total, log(cast(scatter_count(fill_value=1, **places), total.dtype)))


@guarded
def scatter_argmax(
    source: Tensor, *, indices: Tensor, indices_dim: Dims, invalid_idx: int = -1, out_dim: Dims | None = None
) -> Tensor:
    """The index of the largest entry at each place. {…, indices_dim} → {…, out_dim} int64

    Of equal entries, it is the first. The result is sparse in `indices_dim`. Places without entries: `invalid_idx`.

    >>> time, word = rf.Dim(3, name="time"), rf.Dim(3, name="word")
    >>> words = rf.convert_to_tensor([0, 0, 2], dims=[time], sparse_dim=word)
    >>> x = rf.convert_to_tensor([1.0, 3.0, 5.0], dims=[time])
    >>> rf.scatter_argmax(x, indices=words, indices_dim=time).raw_tensor.tolist()
    [1, -1, 2]
    """
    dims = as_dims(indices_dim)
    if len(dims) != 1:
        raise DimError("scatter_argmax: only one `indices_dim` is supported", got=dims, expected="one `indices_dim`")
    places: Any = {"indices": indices, "indices_dim": dims[0], "out_dim": out_dim}
    highest = scatter(source, mode="max", **places)
    position = range_over_dim(dims[0], dtype="int64", device=source.device)
    nowhere = 2**62
    is_highest = equal(source, _at(highest, indices, out_dim))
    winners = scatter(where(is_highest, position, nowhere), mode="min", fill_value=nowhere, **places)
    return set_sparse_dim(where(less(winners, nowhere), winners, invalid_idx), dims[0])


def _at(values: Tensor, indices: Tensor, out_dim: Dims | None) -> Tensor:
    """The value at the place of each index."""
    into = _counted(indices, out_dim)
    if isinstance(into, Dim):
        return gather(values, indices=indices, axis=into)
    merged, dim = merge_dims(values, dims=into)
    return gather(merged, indices=set_sparse_dim(indices, None), axis=dim)


_COMPOSED: dict[str, Any] = {
    "logsumexp": scatter_logsumexp,
    "logmeanexp": scatter_logmeanexp,
    "argmax": scatter_argmax,
}
