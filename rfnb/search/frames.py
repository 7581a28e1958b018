"""A search over frames, where each hypothesis gets a label or a blank, and those with the same labels merge.

`ctc_beam` is prefix beam search for CTC, for scores that are known for all frames.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.index import first_outside, warn_once
from rfnb.backend.base.loss import ROUNDING, not_log_probs
from rfnb.backend.base.tape import untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import CountFrom1
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, ParameterError
from rfnb.loop.loop import Loop
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather, scatter, top_k
from rfnb.ops.math import (
    cast,
    compare_bc,
    equal,
    greater,
    is_neg_infinite,
    log_add_exp,
    logical_and as both,
    logical_not as no,
    logical_or as one_of,
    maximum,
    mod,
    where,
)
from rfnb.ops.reduce import reduce_all, reduce_any, reduce_argmax
from rfnb.ops.shape import expand_dim, merge_dims, replace_dim, set_sparse_dim, split_dims
from rfnb.search.result import Found
from rfnb.search.rules import BeamRules, ChoiceOptions, Merge

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.search.score.scorer import ScorePart


PRIME = 2**31 - 1
"""Modulus of the hashes; a product of two numbers below it is an int64."""

FACTORS = (1_583_458_089, 784_588_716, 1_046_527_319, 348_183_511)
"""A factor for each of the independent hashes, which make a key of 124 bits."""

HASH = Dim(len(FACTORS), name="hash")


class Prefixes(NamedTuple):
    """The labels of each hypothesis so far, without blanks.

    last: the last label; any number if there is none. {…, beam} int64
    key: polynomial hashes of the labels. Sequences of up to n labels that differ have the same key with a probability
        of at most (n / 2³¹)⁴ (Carter, Wegman: Universal classes of hash functions, 1979). {…, beam, HASH} int64
    shorter: the key without the last label; -1 if there is none. {…, beam, HASH} int64
    """

    last: Tensor
    key: Tensor
    shorter: Tensor

    def after(self, labels: Tensor, parents: Tensor, stays: Tensor, beam: Dim) -> Prefixes:
        """The labels of new hypotheses. {…, beam} → {…, dim of `parents`}

        stays: the new hypotheses that get no label.
        """
        last, key, shorter = (gather(x, indices=parents, axis=beam) for x in self)
        number = cast(set_sparse_dim(labels, None), "int64")
        longer = mod(key * _factors(key) + (number + 1), PRIME)
        order = parents.dims
        return Prefixes(
            where(stays, last, number).copy_transpose(order),
            where(stays, key, longer).copy_transpose([*order, HASH]),
            where(stays, shorter, key).copy_transpose([*order, HASH]),
        )

    def shortened(self, scores: Tensor, beam: Dim) -> tuple[Tensor, Tensor]:
        """For each hypothesis the place of the one that has all its labels but the last one, and whether there is one.

        {…, beam}. Places whose score is -∞ have no hypothesis. No two hypotheses may have the same labels.
        """
        twin = _other(beam)
        alive = no(is_neg_infinite(scores))
        keys, others_alive = (replace_dim(x, in_dim=beam, out_dim=twin)[0] for x in (self.key, alive))
        matches = reduce_all(compare_bc(self.shorter, "equal", keys), axis=HASH)
        matches = both(both(matches, alive), others_alive)
        return set_sparse_dim(reduce_argmax(cast(matches, "int32"), axis=twin), None), reduce_any(matches, axis=twin)


def none_yet(like: Tensor) -> dict[str, np.ndarray]:
    """The Prefixes of hypotheses without labels, in the order of its fields. like: {…, beam}"""
    shape = [like.size_of(dim).max for dim in like.dims]
    hashes = [*shape, len(FACTORS)]
    return {
        "last": np.zeros(shape, np.int64),
        "key": np.zeros(hashes, np.int64),
        "shorter": np.full(hashes, -1, np.int64),
    }


_others: weakref.WeakKeyDictionary[Dim, Dim] = weakref.WeakKeyDictionary()


def _other(beam: Dim) -> Dim:
    """A second dim of the same hypotheses. The same each time, so that plans are found again."""
    dim = _others.get(beam)
    if dim is None:
        dim = _others[beam] = Dim(beam.get_dim_value(), name="other hypotheses")
    return dim


def _factors(like: Tensor) -> Tensor:
    """{HASH} int64"""
    with untaped():
        raw = backend_of_raw(like._raw).from_numpy_raw(np.array(FACTORS, np.int64), like.device)
        return tensor_of(raw, align.sig([HASH]), EMPTY)


class FrameState(NamedTuple):
    """The hypotheses of a beam over frames. {…, beam}

    Args:
        labels: the label that each got in the last frame; blank if it got none. None before the first frame.
        parents: the hypothesis that it extends, the better one of two that merged. None before the first frame.
        scores: of all its alignments; -∞ for a place without one.
        joined: the other one of two that merged, or -1. None before the first frame.
        prefixes: its labels so far.
        in_blank: for CTC, the score of its alignments that end in blank.
        in_label: for CTC, the score of those that end in a label.
        ended: which have ended; None if none has, or if this is not known yet.
    """

    labels: Any
    parents: Any
    scores: Tensor
    joined: Any
    prefixes: Prefixes
    in_blank: Tensor | None = None
    in_label: Tensor | None = None
    ended: Tensor | None = None


@op(name="frame_step")
def advance_frame(
    state: FrameState,
    scores: Tensor,
    rules: BeamRules,
    *,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    of_labels: Tensor | None = None,
) -> FrameState:
    """The best label sequences after one more frame. {…, beam}, {…, beam, axis} → {…, out_beam}

    A hypothesis gets one more label, or blank and keeps its labels. If the labels are then those of another hypothesis,
    the two merge. With `in_blank` and `in_label`, as for CTC, a frame may also repeat the last label, and a label that
    is equal to the last one needs a blank before it.

    Prefix search: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (arXiv:1211.3711); with blank and
    labels apart: Hannun, Maas, Jurafsky, Ng, First-Pass Large Vocabulary Continuous Speech Recognition using
    Bi-Directional Recurrent DNNs, 2014 (arXiv:1408.2873).

    Args:
        state: ended hypotheses keep their scores, and get a blank that does not count.
        scores: of the labels and of blank.
        of_labels: scores that are added where a hypothesis gets one more label, such as those of a language model, but
            not where a frame repeats the last one. {…, beam, axis}
    """
    _, _, base, _, prefixes, in_blank, in_label, ended = state
    blank, merge = rules.blank, rules.merge
    assert blank is not None
    order = [*(dim for dim in base.dims if dim is not beam), beam, axis]
    number = set_sparse_dim(range_over_dim(axis, device=scores.device), None)
    is_blank = equal(number, blank)
    scores = scores if beam in scores.dims_set else expand_dim(scores, beam)
    if ended is not None:
        scores = where(ended, where(is_blank, 0.0, -np.inf), scores)
    new = scores
    if of_labels is not None:
        new = scores + where(is_blank if ended is None else one_of(is_blank, ended), 0.0, of_labels)
    total = (base + new).copy_transpose(order)
    if merge is None:
        if of_labels is not None and in_label is not None:
            repeated = both(compare_bc(prefixes.last, "equal", number), no(is_neg_infinite(in_label)))
            total = where(repeated, base + scores, total).copy_transpose(order)
        return _apart(total, state, blank, axis, beam, out_beam)
    blanks = stays = gather(total, indices=blank, axis=axis)
    repeats = None
    if in_blank is not None and in_label is not None:
        repeats = gather(scores, indices=prefixes.last, axis=axis) + in_label
        stays = merged(blanks, repeats, merge)
        is_last = compare_bc(prefixes.last, "equal", number)
        total = where(is_last, in_blank + new, total).copy_transpose(order)
    shorter, met = prefixes.shortened(base, beam)
    met = met if ended is None else both(met, no(ended))
    comes, extended = _longer(total, shorter, prefixes.last, met, axis, beam)
    total = where(is_blank, merged(stays, comes, merge), where(extended, -np.inf, total)).copy_transpose(order)
    labels, parents, best = _best(total, axis, beam, out_beam)

    def of_parents(x: Tensor) -> Tensor:
        return gather(x, indices=parents, axis=beam)

    keeps = equal(labels, blank)
    longer = prefixes.after(labels, parents, keeps, beam)
    ends = None
    if repeats is not None:
        in_label = of_parents(merged(repeats, comes, merge))
        ends = where(keeps, of_parents(blanks), -np.inf), where(keeps, in_label, best)
    longer_leads = both(keeps, of_parents(greater(comes, stays)))
    two = no(one_of(is_neg_infinite(stays), is_neg_infinite(comes)))
    joined = where(both(keeps, of_parents(two)), where(longer_leads, parents, of_parents(shorter)), -1)
    labels, parents = where(longer_leads, longer.last, labels), where(longer_leads, of_parents(shorter), parents)
    return _ordered(best, labels, parents, joined, longer, ends, axis, beam)


def merged(a: Tensor, b: Tensor, merge: Merge) -> Tensor:
    """The score of two hypotheses that merge. {…}"""
    if merge == "max":
        return maximum(a, b)
    no_a, no_b = is_neg_infinite(a), is_neg_infinite(b)  # -∞ has no gradient, and frames after the end may not have it
    return where(no_b, a, where(no_a, b, log_add_exp(where(no_a, 0.0, a), where(no_b, 0.0, b))))


def _longer(total: Tensor, shorter: Tensor, last: Tensor, met: Tensor, axis: Dim, beam: Dim) -> tuple[Tensor, Tensor]:
    """For each hypothesis the score of the one without its last label, with that label now, {…, beam}; and whether each
    candidate is such a one, {…, beam, axis}."""
    cells, cell = merge_dims(total, dims=[beam, axis])
    place = where(met, shorter * axis.get_dim_value() + last, 0)
    comes = where(met, gather(cells, indices=place, axis=cell), -np.inf)
    counts = scatter(cast(met, "int32"), indices=place, indices_dim=beam, out_dim=cell)
    return comes, greater(split_dims(counts, axis=cell, dims=[beam, axis]), 0)


def _best(total: Tensor, axis: Dim, beam: Dim, out_beam: Dim) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, parents and scores of the best candidates."""
    best, (parents, labels), _ = top_k(total, axis=[beam, axis], k_dim=out_beam)
    return set_sparse_dim(labels, None), set_sparse_dim(parents, None), best


def _apart(total: Tensor, state: FrameState, blank: int, axis: Dim, beam: Dim, out_beam: Dim) -> FrameState:
    """The best alignments."""
    prefixes, in_label = state.prefixes, state.in_label
    labels, parents, best = _best(total, axis, beam, out_beam)
    keeps = is_blank = equal(labels, blank)
    if in_label is not None:
        last, ends_in_label = (gather(x, indices=parents, axis=beam) for x in (prefixes.last, in_label))
        repeats = both(equal(labels, last), no(is_neg_infinite(ends_in_label)))
        keeps = one_of(is_blank, repeats)
    longer = prefixes.after(labels, parents, keeps, beam)
    ends = None if in_label is None else (where(is_blank, best, -np.inf), where(is_blank, -np.inf, best))
    return _ordered(best, where(keeps, blank, labels), parents, parents * 0 - 1, longer, ends, axis, beam)


def _ordered(
    best: Tensor,
    labels: Tensor,
    parents: Tensor,
    joined: Tensor,
    after: Prefixes,
    ends: tuple[Tensor, Tensor] | None,
    axis: Dim,
    beam: Dim,
) -> FrameState:
    """The results, all with the same order of dims. ends: the scores in blank and in a label."""

    def ordered(x: Tensor, sparse_dim: Dim | None = None) -> Tensor:
        return set_sparse_dim(x.copy_transpose(best.dims), sparse_dim)

    in_blank, in_label = (None, None) if ends is None else map(ordered, ends)
    sparse = ordered(labels, axis), ordered(parents, beam)
    return FrameState(*sparse, best, ordered(joined), after, in_blank, in_label)


class Blanks:
    """What a search with a blank carries: the labels of the hypotheses so far, and for CTC the two kinds of scores."""

    def __init__(self, body: Body, like: Tensor, initial: object, options: ChoiceOptions):
        """like: {…, beam}. initial: the scores before the first step, a raw tensor."""
        self.places: dict[str, int] = {}  # of each carried value, by name
        for name, numbers in none_yet(like).items():
            dims = like.dims if numbers.ndim == len(like.dims) else (*like.dims, HASH)
            self._carry(body, name, numbers, tensor_of(like._raw, align.sig(dims), like.lengths))
        if options.label_loop:
            self.places["in_blank"] = body.carry("search", like, like.dtype, initial)
            self._carry(
                body, "in_label", np.full([like.size_of(dim).max for dim in like.dims], -np.inf, like.dtype), like
            )

    def _carry(self, body: Body, name: str, numbers: np.ndarray, like: Tensor) -> None:
        with body.untraced():
            raw = body.backend.from_numpy_raw(numbers, like.device)
            initial = tensor_of(raw, like.sig, like.lengths)
        self.places[name] = body.carry("search", initial, initial.dtype, raw)

    def before(self, body: Body, hypotheses: Hypotheses, scores: Tensor, ended: Tensor) -> FrameState:
        """The newest hypotheses, before a frame."""
        values = {name: self._value(body, hypotheses, place) for name, place in self.places.items()}
        prefixes = Prefixes(*(values.pop(name) for name in Prefixes._fields))
        return FrameState(None, None, scores, None, prefixes, ended=ended, **values)

    def take(self, body: Body, hypotheses: Hypotheses, frame: FrameState) -> None:
        """Carries what is known of the hypotheses after a frame."""
        values = frame.prefixes._asdict() | {"in_blank": frame.in_blank, "in_label": frame.in_label}
        for name, place in self.places.items():
            hypotheses.carried[place] = body.of_body(values[name], "choice")

    def _value(self, body: Body, hypotheses: Hypotheses, place: int) -> Tensor:
        """A carried value of the newest hypotheses."""
        carried = hypotheses.carried.get(place)
        return hypotheses.follow(body.carried[place].before if carried is None else carried)


def check_blank(options: ChoiceOptions, axis: Dim) -> None:
    """Raises ParameterError for a blank that is not a label, or options that a search with a blank does not have."""
    if options.blank is None:
        if options.label_loop:
            raise ParameterError("choice: `label_loop` needs the number of the blank", hint="choice(…, blank=0)")
        return
    if options.merge not in ("sum", "max", None):
        raise ParameterError("choice: unknown `merge`", got=options.merge, expected='"sum", "max" or None')
    if not 0 <= options.blank < axis.get_dim_value():
        expected = f"0 to {axis.get_dim_value() - 1}"
        raise ParameterError("choice: `blank` is not a label", got=options.blank, expected=expected)
    conflicts = {name: getattr(options, name) for name in ("custom_score_combine", "keep_beams", "cheating")}
    for name, value in conflicts.items():
        if value and options.by_frame:
            hint = "leave one of the two out; merge=None keeps alignments apart"
            raise ParameterError(f"choice: `{name}` cannot be used where hypotheses merge", got=value, hint=hint)


def check_parts(name: str, parts: Sequence[ScorePart], axis: Dim, options: ChoiceOptions) -> None:
    """Raises ParameterError for parts of scores that a search with a blank cannot have."""
    check_blank(options, axis)
    for part in parts:
        if hasattr(part.value, "change"):  # a ChangingScorer
            raise ParameterError(
                f"{name}: choice: with a blank, {part.name!r} cannot change the sum of scores",
                hint="a scorer, whose scores are added where a hypothesis gets a label",
            )
    if not any(isinstance(part.value, Tensor) for part in parts):
        raise ParameterError(
            f"{name}: choice: with a blank, frames need scores too", got=", ".join(part.name for part in parts),
            hint='{"model": frame_scores, "lm": (lm, 0.4)}',
        )  # fmt: skip


@guarded
def ctc_beam(
    log_probs: Tensor,
    *,
    spatial_dim: Dim,
    axis: Dim | None = None,
    blank: int,
    beam: CountFrom1 = 8,
    merge: Merge | None = "sum",
    labels: object = None,
    scorers: Mapping[str, object] | None = None,
    start: int | str = 0,
) -> Found:
    """The best label sequences by the sum over their alignments. {…, spatial_dim, axis} → found, with {…, beam}

    In an alignment, each label takes one or more frames, with blanks before, between and after the labels, as for
    `rf.ctc_loss`; with a beam that holds all label sequences, the scores are its negated losses.

    >>> time, axis = rf.Dim(3, name="time"), rf.Dim(3, name="axis")
    >>> probs = rf.convert_to_tensor([[0.6, 0.4, 0.0], [0.6, 0.4, 0.0], [0.2, 0.0, 0.8]], dims=[time, axis])
    >>> found = rf.search.ctc_beam(rf.log(probs), spatial_dim=time, axis=axis, blank=0, beam=3, labels=["-", "a", "b"])
    >>> found.nbest(3), [round(p, 3) for p in rf.exp(found.scores).tolist()]
    ([['ab', 'b', 'a']], [0.512, 0.288, 0.128])

    The best single alignment is "- - b", with 0.288; the three of "ab" sum up to more.

    Prefix beam search with the scores of blank and label apart: Hannun, Maas, Jurafsky, Ng, First-Pass Large
    Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs, 2014 (arXiv:1408.2873).
    `loop.choice(…, blank=…, label_loop=True)` does the same in a loop of your own.

    Args:
        log_probs: of the labels and blank in each frame.
        spatial_dim: the frames; their number may differ by sequence. axis: the labels; default: the feature dim.
        blank: the number of blank.
        beam: the number of label sequences that are kept in each frame.
        merge: "sum" over the alignments of the same labels, or the "max" of them. None: they are kept apart, as if
            they were different.
        labels: a list, an `rf.Vocab` or a tokenizer, for texts; default: the vocabulary of `axis`.
        scorers: parts that are added for each label, but not for blanks, as for `loop.choice`: {"lm": (lm, 0.4)}.
            start: the label that they see before the first one.

    Warns, once for a line, of values above 0, which are not log probabilities; scaled likelihoods may have them.
    Raises DimError if `log_probs` does not have the dims, ParameterError for numbers out of range.
    """
    axis = axis or log_probs.feature_dim
    if axis is None or axis not in log_probs.dims or spatial_dim not in log_probs.dims:
        raise DimError(
            "ctc_beam: `log_probs` needs the frames and the labels",
            got=log_probs.describe_dims(),
            expected="spatial_dim and axis among its dims",
            hint="rf.search.ctc_beam(log_probs, spatial_dim=time, axis=label_dim, blank=0)",
        )
    got = first_outside(backend_of_raw(log_probs._raw), log_probs, -math.inf, ROUNDING)
    if got is not None:  # a warning, since they may be divided by priors
        expected = "at most 0, except of scaled likelihoods"
        hint = "rf.log_softmax(logits, axis=…) for logits, rf.safe_log(probs) for probabilities"
        warn_once("ctc_beam", lambda: not_log_probs("ctc_beam: these", got, expected, hint))
    loop, hypotheses = Loop(axis=spatial_dim, name="ctc_beam"), Dim(beam, name="beam")
    with loop:
        frame = loop.unstack(log_probs)
        parts = frame if scorers is None else {"model": frame, **scorers}
        options: dict[str, Any] = {"blank": blank, "merge": merge, "label_loop": True, "start": start}
        loop.choice(parts, beam=hypotheses, axis=axis, input_type="log_prob", **options)
    result: Found = loop.found
    if labels is None:
        return result
    vocab = labels if isinstance(labels, Vocab) else Vocab(labels)
    return Found(replace(result.trace, vocab=vocab), result.scores, result.lengths, result.beam)
