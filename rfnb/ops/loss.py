"""Losses and error measures, and connectionist temporal classification: labels without known positions.

Graves, Fernández, Gomez, Schmidhuber: Connectionist Temporal Classification, ICML 2006.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.loss import class_dim, ctc_problem
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, require_no_inner_dims
from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, size_from
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.tensor.op import guarded, op, op_of_backend
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError
from rfnb.ops.convert import convert_to_tensor, tensor
from rfnb.ops.create import zeros
from rfnb.ops.grad import scaled_gradient_ext
from rfnb.ops.index import one_hot, scatter, scatter_count
from rfnb.ops.math import add, cast, equal, logical_and, maximum, mul, neg, not_equal, sub, where
from rfnb.ops.reduce import reduce_argmax, reduce_sum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import cumsum, shift_right

cross_entropy = op_of_backend(Backend.cross_entropy, __name__, frames="any")


@guarded
def label_smoothing(prob: Tensor, smoothing: Tensor | float, *, axis: Dim | None = None) -> Tensor:
    """Targets that give `smoothing` of their weight to the other classes. {…, axis} or {…} sparse → {…, axis}

    >>> word = rf.Dim(3, name="word")
    >>> rf.label_smoothing(rf.convert_to_tensor(1, sparse_dim=word), 0.5).raw_tensor.tolist()
    [0.25, 0.5, 0.25]

    smoothing: 0 to 1. Raises DimError for other numbers; the entries of a Tensor are not checked.
    """
    _check_smoothing("label_smoothing", smoothing)
    axis = axis or prob.feature_dim or prob.sparse_dim
    if axis is None or axis.dimension is None:
        raise DimError(
            "label_smoothing: it is not clear which dim holds the classes",
            got=prob.describe_dims(),
            hint="label_smoothing(…, axis=dim)",
        )
    if prob.sparse_dim is axis:
        prob = one_hot(prob)
    share = mul(tensor(smoothing), 1.0 / (axis.dimension - 1))
    return add(mul(prob, sub(1.0 - smoothing, share)), share)


@guarded
def label_smoothed_log_prob_gradient(
    log_prob: Tensor,
    smoothing: Tensor | float,
    *,
    axis: Dim | None = None,
    exclude_labels: Sequence[int] | None = None,
) -> Tensor:
    """The same log probabilities, with a gradient smoothed as by `label_smoothing`. {…, axis} → the same

    For losses such as cross entropy or CTC, whose gradient in each frame is minus the probabilities of the labels.

    >>> word = rf.Dim(3, name="word")
    >>> x = rf.zeros([word])
    >>> rf.set_requires_gradient(x)
    >>> smooth = rf.label_smoothed_log_prob_gradient(x, 0.5, axis=word)
    >>> rf.gradient(-rf.gather(smooth, indices=1, axis=word), x).raw_tensor.tolist()
    [-0.25, -0.5, -0.25]

    Args:
        axis: the dim of the labels; by default the feature dim.
        exclude_labels: labels, such as blank, that the smoothing leaves out.
    """
    _check_smoothing("label_smoothed_log_prob_gradient", smoothing)
    axis = axis or log_prob.feature_dim
    excluded = set(exclude_labels or ())
    if axis is None or axis.dimension is None or axis.dimension - len(excluded) < 2:
        raise DimError(
            "label_smoothed_log_prob_gradient: needs a fixed dim with at least two labels",
            got=log_prob.describe_dims() if axis is None else axis.describe(),
            hint=f"rf.label_smoothed_log_prob_gradient(…, axis={likely_features(log_prob) or 'dim'})",
        )
    share = mul(tensor(smoothing), 1.0 / (axis.dimension - len(excluded) - 1))
    scale, shift = sub(1.0, add(tensor(smoothing), share)), neg(share)
    if excluded:
        labels = [label not in excluded for label in range(axis.dimension)]
        included = convert_to_tensor(labels, dims=[axis], device=log_prob.device)
        scale, shift = (
            where(included, value, default, allow_broadcast_all_sources=True)
            for value, default in ((scale, 1.0), (shift, 0.0))
        )
    return scaled_gradient_ext(log_prob, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis)


def _check_smoothing(op: str, smoothing: Tensor | float) -> None:
    """Raises DimError for a number that is not a probability. A Tensor is not read."""
    if not isinstance(smoothing, Tensor) and not 0.0 <= smoothing <= 1.0:
        raise DimError(f"{op}: `smoothing` must be a probability", got=smoothing, expected="0 to 1")


@op(frames="any")
def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *, dtype: str = "int32") -> Tensor:
    """The fewest insertions, deletions and substitutions from `a` to `b`.

    {…, a_spatial_dim}, {…, b_spatial_dim} → {…}

    >>> old, new = rf.Dim(3, name="old"), rf.Dim(4, name="new")
    >>> a, b = rf.convert_to_tensor([1, 2, 3], dims=[old]), rf.convert_to_tensor([1, 5, 3, 4], dims=[new])
    >>> rf.edit_distance(a, old, b, new).item()  # 5 for 2, and a 4
    2
    """
    backend: type[Backend] = backend_of_raw(a._raw)
    axis_of("edit_distance", a, a_spatial_dim, "a")
    axis_of("edit_distance", b, b_spatial_dim, "b")
    for x, dim in ((a, a_spatial_dim), (b, b_spatial_dim)):
        require_no_inner_dims("edit_distance", x, [dim])
        if has_fractions(x.dtype):
            raise DtypeError("edit_distance: labels must be integers", got=x.dtype, expected="int64, int32, …")
    batch = [d for d in a.dims if d is not a_spatial_dim] + [
        d for d in b.dims if d is not b_spatial_dim and d not in a.sig.index
    ]
    lengths = a.lengths.join(b.lengths, a.sig, b.sig)
    distance = backend.edit_distance_raw(
        align.apply(align.move(a.dims, [*batch, a_spatial_dim], trailing=False), a._raw),
        _lengths(backend, a, a_spatial_dim, batch, lengths),
        align.apply(align.move(b.dims, [*batch, b_spatial_dim], trailing=False), b._raw),
        _lengths(backend, b, b_spatial_dim, batch, lengths),
    )
    return tensor_of(backend.cast_raw(distance, dtype), align.sig(batch), lengths)


def _lengths(backend: type[Backend], x: Tensor, dim: Dim, rest: Sequence[Dim], lengths: Lengths) -> RawTensor:
    """The raw lengths of `dim`, shaped to broadcast against `rest`."""
    return backend.from_numpy_raw(lengths[dim].over(rest), backend.device_key_raw(x._raw))


ctc_loss = op_of_backend(Backend.ctc_loss, __name__, frames="any")


@op(frames="any")
def ctc_best_path(
    *,
    logits: Tensor,
    logits_normalized: bool = False,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    label_loop: bool = True,
) -> Tensor:
    """The most probable alignment: for each frame its label, or blank. → {…, input_spatial_dim} sparse in the classes

    If the targets are too long for their frames, all frames are blank. The other arguments are those of `rf.ctc_loss`.

    >>> time, word, vocab = rf.Dim(4, name="time"), rf.Dim(2, name="word"), rf.Dim(3, name="vocab")
    >>> words = rf.convert_to_tensor([0, 1], dims=[word], sparse_dim=vocab)
    >>> frames = rf.one_hot(rf.convert_to_tensor([2, 0, 0, 1], dims=[time], sparse_dim=vocab))
    >>> spaces = {"input_spatial_dim": time, "targets_spatial_dim": word}
    >>> rf.ctc_best_path(logits=frames, targets=words, blank_index=2, **spaces).raw_tensor.tolist()
    [2, 0, 0, 1]
    """
    backend: type[Backend] = backend_of_raw(logits._raw)
    problem = ctc_problem(
        backend, "ctc_best_path", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index
    )
    raw = backend.ctc_best_path_raw(*problem.raws, blank_index, label_loop)
    time = backend.get_shape_tuple_raw(raw)[0]
    dims = [input_spatial_dim, *problem.rest]
    raw = backend.cast_raw(backend.reshape_raw(raw, [time, *problem.shape]), targets.dtype)
    path = tensor_of(raw, align.sig(dims, problem.classes), problem.lengths)
    order = [dim for dim in logits.dims if dim in dims]
    return path.copy_transpose([*order, *(dim for dim in dims if dim not in order)])


@guarded
def ctc_greedy_decode(
    logits: Tensor,
    *,
    in_spatial_dim: Dim,
    blank_index: int,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    wb_target_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The best label of each frame, without repetitions and blanks. {…, in_spatial_dim, class} → {…, labels}

    >>> time, classes = rf.Dim(4, name="time"), rf.Dim(3, name="classes")
    >>> frames = rf.one_hot(rf.convert_to_tensor([0, 0, 2, 1], dims=[time], sparse_dim=classes))
    >>> found, _ = rf.ctc_greedy_decode(frames, in_spatial_dim=time, blank_index=2, wb_target_dim=classes)
    >>> found.raw_tensor.tolist()
    [0, 1]

    Args:
        out_spatial_dim: dim of the labels found; by default a new one.
        target_dim: the labels without blank, which comes after them: the sparse dim of the result.
        wb_target_dim: the classes: labels and blank; by default the feature dim of `logits`.
    """
    if wb_target_dim is None:
        wb_target_dim = class_dim("ctc_greedy_decode", logits, in_spatial_dim, None, blank_index)
    if target_dim is not None and target_dim.dimension != blank_index:
        raise DimError(
            "ctc_greedy_decode: with a `target_dim`, the blank label must come after the labels",
            got=f"{target_dim.describe()}, blank {blank_index}",
            expected=f"blank {target_dim.dimension}",
        )
    path = reduce_argmax(logits, axis=wb_target_dim)
    starts = _starts(path, in_spatial_dim, blank_index)
    out = out_spatial_dim or Dim(None, name="labels")
    bound(path.lengths, out, _count(starts, in_spatial_dim), "ctc_greedy_decode")
    labels = where(starts, set_sparse_dim(path, None), 0)  # each sum has a single label
    place = maximum(sub(cumsum(cast(starts, "int64"), spatial_dim=in_spatial_dim), 1), 0)
    if out.get_dim_value():
        decoded = scatter(labels, indices=place, indices_dim=in_spatial_dim, out_dim=out)
    else:
        decoded = zeros([*(dim for dim in path.dims if dim is not in_spatial_dim), out], dtype=path.dtype)
    return set_sparse_dim(decoded, target_dim or wb_target_dim), out


@guarded
def ctc_durations_from_path(
    *,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
) -> tuple[Tensor, Dim]:
    """The number of frames of an alignment for blank, label 1, blank, label 2, …, blank.

    {…, path_spatial_dim} → {…, 2 * labels + 1} int32

    >>> time, vocab = rf.Dim(5, name="time"), rf.Dim(4, name="vocab")
    >>> path = rf.convert_to_tensor([3, 1, 1, 3, 1], dims=[time], sparse_dim=vocab)
    >>> durations, _ = rf.ctc_durations_from_path(path=path, path_spatial_dim=time, blank_index=3)
    >>> durations.raw_tensor.tolist()
    [1, 2, 1, 1, 0]

    Args:
        targets_spatial_dim: dim of the labels; by default a new one.
        out_spatial_dim: dim of the result; by default 2 * targets_spatial_dim + 1.
        check_dims: whether to check that both dims have the sizes that follow from the path.
        stop_on_failed_check: whether a failed check raises DimError, else it only warns.
    """
    axis_of("ctc_durations_from_path", path, path_spatial_dim, "path")
    starts = _starts(path, path_spatial_dim, blank_index)
    labels = _labels(starts, path_spatial_dim, targets_spatial_dim, check_dims, stop_on_failed_check)
    out = _out(out_spatial_dim, 2 * labels + 1, path, check_dims, stop_on_failed_check)
    label = mul(2, cumsum(cast(starts, "int32"), spatial_dim=path_spatial_dim))
    state = sub(label, cast(not_equal(path, blank_index), "int32"))
    return scatter_count(indices=state, indices_dim=path_spatial_dim, out_dim=out), out


@guarded
def ctc_no_label_loop_blank_durations_from_path(
    *,
    path: Tensor,
    path_spatial_dim: Dim,
    blank_index: int,
    targets_spatial_dim: Dim | None = None,
    out_spatial_dim: Dim | None = None,
    check_dims: bool = True,
    stop_on_failed_check: bool = True,
) -> tuple[Tensor, Dim]:
    """The number of blanks around each label, in an alignment without label loops. → {…, labels + 1} int32

    Each label takes one frame. The arguments are those of `rf.ctc_durations_from_path`.

    >>> time, vocab = rf.Dim(5, name="time"), rf.Dim(4, name="vocab")
    >>> path = rf.convert_to_tensor([3, 1, 1, 3, 3], dims=[time], sparse_dim=vocab)
    >>> blanks, _ = rf.ctc_no_label_loop_blank_durations_from_path(path=path, path_spatial_dim=time, blank_index=3)
    >>> blanks.raw_tensor.tolist()
    [1, 0, 2]
    """
    is_label = not_equal(path, blank_index)
    labels = _labels(is_label, path_spatial_dim, targets_spatial_dim, check_dims, stop_on_failed_check)
    out = _out(out_spatial_dim, labels + 1, path, check_dims, stop_on_failed_check)
    place = cumsum(cast(is_label, "int32"), spatial_dim=path_spatial_dim)
    is_blank = cast(equal(path, blank_index), "int32")
    return scatter(is_blank, indices=place, indices_dim=path_spatial_dim, out_dim=out), out


def _starts(path: Tensor, dim: Dim, blank: int) -> Tensor:
    """Where a label begins; repetitions belong to one label."""
    path = set_sparse_dim(path, None)
    return logical_and(not_equal(path, blank), not_equal(path, shift_right(path, axis=dim, pad_value=blank)))


def _count(starts: Tensor, dim: Dim) -> Size:
    counts = reduce_sum(cast(starts, "int64"), axis=dim)
    return size_from(counts)


def _labels(starts: Tensor, dim: Dim, labels: Dim | None, check: bool, stop: bool) -> Dim:
    """The dim of the labels, with the sizes that follow from a path."""
    if labels is not None and labels.is_defined() and not check:
        return labels
    size = _count(starts, dim)
    if labels is None or not labels.is_defined():
        labels = labels or Dim(None, name="labels")
        bound(starts.lengths, labels, size, "ctc_durations_from_path")
    elif not _same(labels.size, size):
        _complain(labels, size, stop)
    return labels


def _out(out: Dim | None, wanted: Dim, path: Tensor, check: bool, stop: bool) -> Dim:
    if out is None:
        return wanted
    if not out.is_defined():
        bound(path.lengths, out, wanted.size, "ctc_durations_from_path")
    elif check and not _same(out.size, wanted.size):
        _complain(out, wanted.size, stop)
    return out


def _same(known: Size, size: Size) -> bool:
    return known.agrees(size) or (not (known.ragged or size.ragged) and known.max == size.max)


def _complain(dim: Dim, size: Size, stop: bool) -> None:
    error = DimError(f"ctc: {dim.name} does not fit the path", got=dim.size, expected=size)
    if stop:
        raise error
    warnings.warn(str(error), stacklevel=3)
