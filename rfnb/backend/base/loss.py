"""Losses and error measures; connectionist temporal classification (CTC): losses over all alignments, and the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from rfnb.backend.base.index import NEGATIVE_LABEL, check_range, first_outside, warn_once
from rfnb.backend.base.require import axis_of, require_ints
from rfnb.core.advice.similar_dims import nearest
from rfnb.core.advice.torch_equivalents import called, likely_features
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, ParameterError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


ROUNDING = 0.02
"""By how much rounding may move a probability beyond 0 or 1, or its logarithm above 0."""
RANGES = {"logits": (-math.inf, math.inf), "log-probs": (-math.inf, ROUNDING), "probs": (-ROUNDING, 1 + ROUNDING)}
EstimatedType = Annotated[str, OneOf(*RANGES)]


class LossOps:
    """Raw part: `cross_entropy_raw(logits, labels)`, `edit_distance_raw`."""

    cross_entropy_raw: Callable[[RawTensor, RawTensor], RawTensor]
    edit_distance_raw: Callable[[RawTensor, RawTensor, RawTensor, RawTensor], RawTensor]

    @classmethod
    def cross_entropy(
        cls: type[Backend], *, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: EstimatedType
    ) -> Tensor:
        """-Σ target · log estimated over `axis`. {…, axis}, {…} sparse in axis or {…, axis} → {…}

        >>> vocab = rf.Dim(4, name="vocab")
        >>> label = rf.convert_to_tensor(3, dims=[], sparse_dim=vocab)
        >>> loss = rf.cross_entropy(estimated=rf.zeros([vocab]), target=label, axis=vocab, estimated_type="logits")
        >>> round(rf.exp(loss).item(), 4)
        4.0

        Args:
            target: labels, or probabilities.
            estimated_type: "logits", "log-probs" or "probs".

        Raises ParameterError for "probs" that are below 0 or above 1, and warns of "log-probs" above 0, outside of
        loops and on the CPU. For labels, only their own entries are looked at.
        """
        plan = (
            estimated.sig.plans.get(("cross_entropy", axis, target.sig.serial)) if estimated_type == "logits" else None
        )
        if plan is not None:
            return _sparse(cls, estimated, target, plan)
        axis_of("cross_entropy", estimated, axis, "estimated")
        _check_frames(estimated, target, axis)
        dense = axis in target.sig.index and target.sparse_dim is None
        if not dense and target.sparse_dim is not axis:
            raise _other_labels(estimated, target, axis)
        batch = [dim for dim in estimated.dims if dim is not axis]
        scores = estimated
        if estimated_type == "logits":
            if not dense and axis.dimension is not None and set(batch) == set(target.dims):
                plan = align.move(estimated.dims, [*batch, axis]), align.move(target.dims, batch), align.sig(batch)
                estimated.sig.keep(("cross_entropy", axis, target.sig.serial), plan)
                return _sparse(cls, estimated, target, plan)
            scores = cls.log_softmax(estimated, axis=axis)
        if dense:
            return _dense(cls, target, _log_probs(cls, scores, estimated_type), axis)
        picked = _log_probs(cls, cls.gather(scores, indices=target, axis=axis), estimated_type)
        return picked.like(cls.activation_raw(picked._raw, "neg"), align.sig(picked.dims))

    @classmethod
    def softmax_cross_entropy_with_logits(cls: type[Backend], *, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """Cross entropy of softmax(logits). {…, axis}, {…} sparse or {…, axis} → {…}"""
        return cls.cross_entropy(estimated=logits, target=targets, axis=axis, estimated_type="logits")


def _log_probs(backend: type[Backend], x: Tensor, kind: str) -> Tensor:
    """The log probabilities of entries of this kind, or of log probabilities made of logits."""
    low, high = RANGES[kind]
    got = None if kind == "logits" else first_outside(backend, x, low, high)
    if kind == "probs":
        if got is not None:
            raise ParameterError(
                "cross_entropy: `estimated` are not probabilities",
                got=got,
                expected="0 to 1",
                hint='estimated_type="logits" for scores, "log-probs" for log probabilities',
            )
        return backend.safe_log(x)
    if got is not None:  # a warning, since a model may use other scores on purpose
        hint = 'estimated_type="probs" for probabilities, "logits" for scores'
        warn_once("cross_entropy", lambda: not_log_probs("cross_entropy: `estimated`", got, "at most 0", hint))
    return x


def not_log_probs(what: str, got: str | None, expected: str, hint: str) -> ParameterError:
    """The fault of scores that are used as log probabilities."""
    return ParameterError(f"{what} are not log probabilities", got=got, expected=expected, hint=hint)


def _check_frames(estimated: Tensor, target: Tensor, axis: Dim) -> None:
    """Raises DimError if each side has a dim that the other lacks, which would compare all pairs."""
    odd = [dim for dim in target.dims if dim not in estimated.sig.index]
    lacking = [dim for dim in estimated.dims if dim is not axis and dim not in target.sig.index]
    if odd and lacking:
        raise DimError(
            "cross_entropy: `estimated` and `target` each have a dim that the other lacks",
            got=f"estimated {estimated.describe_dims()}, target {target.describe_dims()}",
            expected="one target for each entry of `estimated`",
            hint=nearest(odd[0], lacking)
            or f"bring one side to the frames of the other (rf.slice, rf.pad, rf.replace_dim); "
            f"if all pairs are intended: rf.expand_dim(target, {lacking[0].name})",
            dims=[*odd, *lacking],
        )


def _other_labels(estimated: Tensor, target: Tensor, axis: Dim) -> DimError:
    labels = target.sparse_dim
    hint = f"rf.set_sparse_dim(target, {axis.name}), if this is intended"
    if labels is not None and labels in estimated.sig.index:
        hint = f"axis={labels.name}"
    return DimError(
        "cross_entropy: the labels of `target` are not the classes of `estimated`",
        got=f"labels of {labels.describe()}" if labels else target.describe_dims(),
        expected=f"labels of {axis.describe()}, or probabilities with this dim",
        hint=hint,
    )


def _dense(backend: type[Backend], target: Tensor, log_probs: Tensor, axis: Dim) -> Tensor:
    """-Σ target · log_probs, where 0 · -∞ is 0."""
    unwanted = target.like(backend.compare_raw(target._raw, "equal", 0))
    out = backend.combine(unwanted, "logical_and", backend.activation(log_probs, "is_neg_infinite"))
    weighted = backend.combine(target, "mul", backend.where(out, 0.0, log_probs))
    total = backend.reduce(weighted, mode="sum", axis=axis)
    return total.like(backend.activation_raw(total._raw, "neg"), align.sig(total.dims))


def _sparse(
    backend: type[Backend], logits: Tensor, target: Tensor, plan: tuple[align.Move, align.Move, align.Sig]
) -> Tensor:
    logits_there, labels_there, out = plan
    lengths = logits.lengths.join(target.lengths, logits.sig, target.sig)
    labels = backend.move_raw(backend.fill_padding(target, 0), labels_there)
    try:
        raw = backend.cross_entropy_raw(backend.move_raw(logits._raw, logits_there), labels)
    except IndexError:
        classes: Any = target.sparse_dim
        size = [classes.dimension]
        check_range(backend, "cross_entropy", target, [classes], size, noun="a label", hint=NEGATIVE_LABEL)
        raise
    return tensor_of(raw, out, lengths)


class Problem(NamedTuple):
    """Operands of an alignment, in the layout of kernels: [time, batch, class], [batch], [batch, label], [batch]."""

    raws: tuple[RawTensor, RawTensor, RawTensor, RawTensor]
    log_probs: Tensor
    classes: Dim
    rest: list[Dim]  # the dims of the sequences, which are merged to `batch`
    shape: list[int]  # sizes of `rest`
    lengths: Lengths


class CtcOps:
    """Raw part: `ctc_loss_raw(log_probs, frames, targets, labels, blank, max_approx, label_loop)`,
    `ctc_best_path_raw(log_probs, frames, targets, labels, blank, label_loop)`.
    """

    ctc_loss_raw: Callable[..., RawTensor]
    ctc_best_path_raw: Callable[..., RawTensor]

    @classmethod
    def ctc_loss(
        cls: type[Backend],
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        max_approx: bool = False,
        use_native_op: bool | None = None,
        label_loop: bool = True,
    ) -> Tensor:
        """-log Σ p(alignment), over all alignments of the targets.

        {…, input_spatial_dim, class}, {…, targets_spatial_dim} → {…}

        In an alignment, each label takes one or more frames, with blanks before, between and after the labels. Two
        equal labels need a blank between them. Targets that are too long for their frames have no alignment: their loss
        is ∞, and its gradient 0, so that training on the rest of the batch still works.

        >>> batch, time, word = rf.Dim(2, name="batch"), rf.Dim(3, name="time"), rf.Dim(2, name="word")
        >>> vocab = rf.Dim(4)
        >>> words = rf.convert_to_tensor([[0, 1], [2, 2]], dims=[batch, word], sparse_dim=vocab)
        >>> spaces = {"input_spatial_dim": time, "targets_spatial_dim": word}
        >>> loss = rf.ctc_loss(logits=rf.zeros([batch, time, vocab]), targets=words, blank_index=3, **spaces)
        >>> [round(p) for p in (rf.exp(-loss).raw_tensor * 4**3).tolist()]  # of 64: 011, 001, 301, 031, 013; and 232
        [5, 1]

        Args:
            logits_normalized: whether `logits` are log probabilities already, or other scores to be used as they are.
            max_approx: use only the best alignment instead of the sum over all.
            label_loop: if False, each label takes exactly one frame, and equal labels need no blank between them.
            use_native_op: accepted for compatibility and ignored.

        Raises ParameterError for probabilities with `logits_normalized`, outside of loops and on the CPU.
        """
        problem = ctc_problem(cls, "ctc_loss", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index)
        raw = cls.ctc_loss_raw(*problem.raws, blank_index, max_approx, label_loop)
        loss = tensor_of(cls.reshape_raw(raw, problem.shape), align.sig(problem.rest), problem.lengths)
        if not logits_normalized:
            return loss
        # in each frame, log_softmax(logits) differs from the logits by this number
        sums = cls.reduce(problem.log_probs, mode="logsumexp", axis=problem.classes)
        _check_scores(cls, problem.log_probs, sums, problem.classes)
        total = cls.reduce(sums, mode="sum", axis=input_spatial_dim)
        normalized = cls.combine(loss, "sub", total)
        return cls.where(cls.activation(loss, "is_infinite"), loss, normalized)


def _check_scores(backend: type[Backend], scores: Tensor, sums: Tensor, classes: Dim) -> None:
    """Raises ParameterError for probabilities in place of their logarithms, if the numbers are known.

    sums: the logarithm of the sum of exp(scores) in each frame. Only for few other scores is it near log(classes) too.
    """
    values, equal = backend.known_numbers_raw(sums._raw), math.log(classes.size.max)
    if values is None or not values.size or not ((equal - ROUNDING < values) & (values < equal + 1 + ROUNDING)).all():
        return
    total = backend.reduce(scores, mode="sum", axis=classes)
    ranges = (total, 1 - ROUNDING, 1 + ROUNDING), (scores, -ROUNDING, 1 + ROUNDING)
    if all(first_outside(backend, *entry) is None for entry in ranges):
        raise ParameterError(
            "ctc_loss: with `logits_normalized`, `logits` are log probabilities",
            got="probabilities: in each frame, their sum is 1",
            hint="logits=rf.safe_log(…)",
        )


def ctc_problem(
    backend: type[Backend], op: str, logits: Tensor, targets: Tensor, input_dim: Dim, targets_dim: Dim, blank: int
) -> Problem:
    """The operands of a kernel for `op`. Raises DimError for those that do not fit together."""
    axis_of(op, logits, input_dim, "logits")
    axis_of(op, targets, targets_dim, "targets")
    require_ints(op, targets, "targets")
    classes = class_dim(op, logits, input_dim, targets.sparse_dim, blank)
    if input_dim in targets.sig.index or classes in targets.sig.index:
        raise DimError(
            f"{op}: `targets` must be labels, one dim with lengths",
            got=targets.describe_dims(),
            expected=f"{{…, {targets_dim.name}}}",
        )
    batch = [dim for dim in logits.dims if dim is not input_dim and dim is not classes]
    batch += [dim for dim in targets.dims if dim is not targets_dim and dim not in batch]
    lengths = logits.lengths.join(targets.lengths, logits.sig, targets.sig)
    scores = logits.like(backend.fill_padding(logits, 0))
    if scores.dtype not in ("float32", "float64"):
        scores = backend.cast(scores, "float32")
    shape = _shape(backend, batch, logits, targets)
    log_probs = backend.log_softmax(scores, axis=classes)
    labels = backend.cast(targets.like(backend.fill_padding(targets, 0)), "int64")
    raws = (
        _merged(backend, log_probs, [input_dim, *batch, classes], 1, shape),
        _counts(backend, logits, input_dim, batch, shape, lengths),
        _merged(backend, labels, [*batch, targets_dim], 0, shape),
        _counts(backend, targets, targets_dim, batch, shape, lengths),
    )
    return Problem(raws, scores, classes, batch, shape, lengths)


def class_dim(op: str, logits: Tensor, spatial_dim: Dim, labels: Dim | None, blank: int) -> Dim:
    """The dim of the classes: that of the labels, the feature dim, or the only fixed one besides the frames.

    Raises DimError if `blank` is not one of its entries, or is a label.
    """
    named = [dim for dim in (labels, logits.feature_dim) if dim in logits.sig.index]
    fixed = [dim for dim in logits.dims if dim.dimension is not None and dim is not spatial_dim]
    classes = named[0] if named else fixed[-1] if len(fixed) == 1 else None
    if classes is None:
        dim = likely_features(logits) or "…"
        raise DimError(
            f"{op}: it is not clear which dim of `logits` holds the classes",
            got=logits.describe_dims(),
            hint=f"rf.set_feature_dim({called(logits)}, {dim}); or labels that are sparse in it",
        )
    if not 0 <= blank < classes.size.max:
        raise DimError(f"{op}: the blank label is not a class", got=blank, expected=f"an entry of {classes.describe()}")
    if labels is not None and labels is not classes and not labels.size.max <= blank:
        raise DimError(
            f"{op}: labels and classes have different dims, and the blank label is one of the labels",
            got=f"labels of {labels.describe()}, classes of {classes.describe()}, blank {blank}",
            expected="blank after all labels, or labels with the dim of the classes as `sparse_dim`",
            hint=f"rf.set_sparse_dim(…, {classes.name}), if the labels are indices of {classes.name}",
        )
    return classes


def _shape(backend: type[Backend], rest: list[Dim], *tensors: Tensor) -> list[int]:
    sizes = {dim: n for x in tensors for dim, n in zip(x.dims, backend.get_shape_tuple_raw(x._raw), strict=True)}
    return [sizes[dim] for dim in rest]


def _merged(backend: type[Backend], x: Tensor, order: list[Dim], start: int, shape: list[int]) -> RawTensor:
    """The raw tensor in the order of dims, with those of `shape`, which begin at `start`, as one axis."""
    raw = backend.move_raw(x._raw, align.move(x.dims, order, trailing=False))
    sizes = list(backend.get_shape_tuple_raw(raw))
    end = start + len(shape)
    raw = backend.broadcast_raw(raw, [*sizes[:start], *shape, *sizes[end:]])
    return backend.reshape_raw(raw, [*sizes[:start], int(np.prod(shape)), *sizes[end:]])


def _counts(backend: type[Backend], x: Tensor, dim: Dim, rest: list[Dim], shape: list[int], lengths: Lengths) -> object:
    """How many entries of `dim` each sequence has. [batch]"""
    values = np.broadcast_to(lengths[dim].over(rest), shape).reshape(-1)
    return backend.from_numpy_raw(values, backend.device_key_raw(x._raw))
