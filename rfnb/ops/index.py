"""Entries at indices, gathered and scattered; and the indices that sort entries, or of the largest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.index import MODES, check_range, warn_of_padding
from rfnb.backend.base.math import join
from rfnb.backend.base.reduce import EXACT
from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.backend.base.sizes import bound, renamed, require_no_inner_dims, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import get_default_float_dtype
from rfnb.core.tensor.arguments import OneOf, Probability
from rfnb.core.tensor.op import guarded, method_of, op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError
from rfnb.ops.convert import tensor
from rfnb.ops.create import ones, range_over_dim
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import (
    Value,
    add,
    cast,
    compare_bc,
    equal,
    exp,
    greater,
    is_finite,
    less,
    log,
    logical_or,
    sub,
    where,
)
from rfnb.ops.shape import merge_dims, set_sparse_dim
from rfnb.ops.slice import cumsum


@op(frames="any")
def gather(
    source: Tensor, *, indices: Tensor | int | str, axis: Dim | None = None, clip_to_valid: bool = False
) -> Tensor:
    """Entries of `source` at `indices` along `axis`. {…, axis}, {…} → {… of both}

    Shared dims are batch dims. A negative int counts from the end of each sequence. A str is a label of
    the vocab of `axis`, or the tag of a sequence.

    After the last frame of a sequence, but not of the longest one, an index gives what stands in the padding: use
    `clip_to_valid`, or mask such results. A Tensor with an index for each sequence warns of that, once for each line,
    outside of loops and on the CPU. `rf.check.batch_invariance` finds it anywhere.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> rf.gather(rf.zeros([time, feat]), indices=2, axis=time).dims == (feat,)
    True

    Args:
        axis: the dim that is indexed; by default the `sparse_dim` of `indices`.
        clip_to_valid: indices before the first or after the last frame of a sequence are clipped to that frame.
    """
    if axis is None:
        axis = indices.sparse_dim if isinstance(indices, Tensor) else None
        if axis is None:
            raise DimError(
                "gather: `axis` is missing, and the indices do not imply it",
                got=_told(indices),
                hint="gather(…, axis=dim)",
            )
    backend: type[Backend] = backend_of_raw(source._raw)
    result = backend.gather(source, indices, axis, clip_to_valid)
    if axis.dimension is None and not clip_to_valid and isinstance(indices, Tensor) and result.lengths.ragged:
        warn_of_padding(backend, indices, axis, result.lengths)
    return result


def _told(indices: Tensor | int | str) -> str:
    return f"{indices.describe_dims()} without sparse_dim" if isinstance(indices, Tensor) else str(indices)


@op(frames="any")
def one_hot(source: Tensor) -> Tensor:
    """1 at the label, 0 elsewhere. {…} sparse → {…, sparse_dim} float

    Raises DimError if a label of a valid frame is outside the sparse dim.

    >>> word = rf.Dim(3, name="word")
    >>> rf.one_hot(rf.convert_to_tensor(1, sparse_dim=word)).raw_tensor.tolist()
    [0.0, 1.0, 0.0]
    """
    backend: type[Backend] = backend_of_raw(source._raw)
    dim = source.sparse_dim
    if dim is None:
        raise DimError(
            "one_hot: `source` is not sparse", got=source.describe_dims(), hint="rf.set_sparse_dim(source, dim)"
        )
    lengths = source.lengths if dim.dimension is not None else source.lengths.bind({dim: dim.size})
    size = lengths[dim].max
    try:
        raw = backend.one_hot_raw(backend.in_range(source, size, source.dims), size, get_default_float_dtype())
    except (IndexError, RuntimeError):
        check_range(backend, "one_hot", source, (dim,), (size,), noun="a label", hint=None)
        raise
    return tensor_of(raw, align.sig([*source.dims, dim], None, dim), lengths)


@guarded
def sparse_to_dense(
    labels: Tensor | int,
    *,
    label_value: Value,
    other_value: Value,
    axis: Dim | None = None,
) -> Tensor:
    """`label_value` at the label, `other_value` elsewhere. {…} sparse → {…, axis}

    axis: the dim of the classes; by default the `sparse_dim` of `labels`.

    >>> word = rf.Dim(3, name="word")
    >>> rf.sparse_to_dense(1, axis=word, label_value=5, other_value=-1).raw_tensor.tolist()
    [-1, 5, -1]
    """
    labels = tensor(labels)
    axis = labels.sparse_dim if axis is None else axis
    if axis is None:
        raise DimError("sparse_to_dense: `labels` is not sparse", got=labels.describe_dims(), hint="axis=dim")
    is_label = compare_bc(labels, "equal", range_over_dim(axis, device=labels.device))
    return where(is_label, label_value, other_value, allow_broadcast_all_sources=True)


@guarded
def smooth_one_hot(source: Tensor, *, label_prob: Probability) -> Tensor:
    """`label_prob` at the label; the other labels share the rest. {…} sparse → {…, sparse_dim} float

    https://arxiv.org/abs/1512.00567, section 7.

    >>> word = rf.Dim(3, name="word")
    >>> label = rf.convert_to_tensor(1, sparse_dim=word)
    >>> rf.smooth_one_hot(label, label_prob=0.5).raw_tensor.tolist()
    [0.25, 0.5, 0.25]
    """
    if source.sparse_dim is None:
        raise DimError("smooth_one_hot: `source` is not sparse", got=source.describe_dims())
    count = source.sparse_dim.size.max - 1
    return sparse_to_dense(source, label_value=label_prob, other_value=(1.0 - label_prob) / max(count, 1))


@method_of(Tensor)
def labels(self: Tensor) -> Any:
    """The vocab labels of the entries, as nested lists in the order of the axes, without padding.

    >>> time, letter = rf.Dim(None, name="time"), rf.Dim(4, name="letter", vocab=list("acht"))
    >>> rf.convert_to_tensor(["cat", "a"], dims=[rf.batch_dim, time], sparse_dim=letter).labels()
    [['c', 'a', 't'], ['a']]
    """
    vocab = self.sparse_dim.vocab if self.sparse_dim is not None else None
    if vocab is None:
        raise DimError(
            "labels: the sparse dim has no vocab", got=self.describe_dims(), hint="rf.Dim(n, vocab=[…]) as sparse_dim"
        )
    sizes = {dim: self.size_of(dim) for dim in self.dims}

    def is_frame(at: dict[Dim, int]) -> bool:
        sized = [(dim, size) for dim, size in sizes.items() if dim in at and all(owner in at for owner in size.dims)]
        return all(at[dim] < size.values[tuple(at[owner] for owner in size.dims)] for dim, size in sized)

    def read(values: Any, at: dict[Dim, int]) -> Any:
        if len(at) == len(self.dims):
            return vocab.decode(int(values))
        dim = self.dims[len(at)]
        return [read(row, {**at, dim: i}) for i, row in enumerate(values) if is_frame({**at, dim: i})]

    return read(self.numpy(), {})


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
    out_dim, use_mask = _counted(indices, out_dim), use_mask is not False
    return _scatter(**locals())


@op(frames="any", name="scatter")
def _scatter(source: Tensor, *, indices: Tensor, **options: object) -> Tensor:
    return backend_of_raw(source._raw).scatter(source, indices=indices, **options)


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
    return scatter(mode="mean", **locals())


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
    if exact := EXACT.get(source.dtype):
        return cast(scatter_logsumexp(cast(source, exact), fill_value=fill_value, **places), source.dtype)
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
    if exact := EXACT.get(source.dtype):
        return cast(scatter_logmeanexp(cast(source, exact), fill_value=fill_value, **places), source.dtype)
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


_COMPOSED: dict[str, Callable[..., Tensor]] = {
    "logsumexp": scatter_logsumexp,
    "logmeanexp": scatter_logmeanexp,
    "argmax": scatter_argmax,
}


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
    backend: type[Backend] = backend_of_raw(source._raw)
    place = axis_of("sort", source, axis)
    require_no_inner_dims("sort", source, [axis])
    require_owner_dims("sort", source, (axis,))
    size = size_in(source, axis)
    raw, padding = source._raw, backend.padding_for(source, (axis,))
    if padding is not None:
        raw = backend.masked_fill_raw(raw, padding, backend.lowest_raw(raw) if descending else backend.highest_raw(raw))
    stable = stable or padding is not None  # padding comes after equal entries
    values, index = backend.sort_raw(raw, place, descending, stable)
    out_dim = Dim(axis.dimension, name=f"{axis.name}_sorted")
    lengths = bound(source.lengths, out_dim, size, "sort")
    sorted_lengths = lengths if padding is None else lengths.infinite()
    out = renamed(source, axis, out_dim)
    places = tensor_of(index, align.sig(out.dims, axis, out.feature_dim), lengths)
    return tensor_of(values, out, sorted_lengths), places, out_dim


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
    backend: type[Backend] = backend_of_raw(sorted_seq._raw)
    queries = tensor(values, sorted_seq)
    axis_of("search_sorted", sorted_seq, axis, "sorted_seq")
    require_no_inner_dims("search_sorted", sorted_seq, [axis])
    require_owner_dims("search_sorted", sorted_seq, (axis,))
    batch = [dim for dim in sorted_seq.dims if dim is not axis]
    inner = [dim for dim in queries.dims if dim not in batch]
    lengths = join(sorted_seq, queries)
    raw, padding = sorted_seq._raw, backend.padding_for(sorted_seq, (axis,))
    if padding is not None:
        raw = backend.masked_fill_raw(raw, padding, backend.highest_raw(raw))
    raw = align.apply(align.move(sorted_seq.dims, [*batch, axis]), raw)
    query_raw = align.apply(align.move(queries.dims, [*batch, *inner], trailing=False), queries._raw)
    shape = backend.get_shape_tuple_raw(query_raw)[len(batch) :]
    query_raw = backend.broadcast_raw(query_raw, [*backend.get_shape_tuple_raw(raw)[:-1], *shape])
    index = backend.search_sorted_raw(raw, query_raw, side == "right")
    place = tensor_of(backend.cast_raw(index, out_dtype), align.sig([*batch, *inner], axis), lengths)
    if padding is None:
        return place
    size = size_in(sorted_seq, axis)
    limit = backend.cast_raw(backend.from_numpy_raw(size.values, backend.device_key_raw(raw)), out_dtype)
    limit = tensor_of(limit, align.sig(size.dims), sorted_seq.lengths)
    return backend.combine(place, "minimum", limit, allow_broadcast_all_sources=True)


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
