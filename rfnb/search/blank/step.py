"""One frame of a search where each hypothesis gets a label or a blank, and those with the same labels merge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather, scatter
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
    where,
)
from rfnb.ops.shape import expand_dim, merge_dims, set_sparse_dim, split_dims
from rfnb.ops.sort import top_k
from rfnb.search.blank.prefixes import Prefixes
from rfnb.search.rules import Merge


class FrameStep(NamedTuple):
    """The hypotheses after a frame. {…, out_beam}

    labels: the label that each got; blank if it got none. parents: the hypothesis that it extends, the better one of
    two that merge. scores: of all its alignments. joined: the other one of two that merge, or -1. prefixes: its labels.
    in_blank, in_label: for CTC, the scores of its alignments that end in blank, and of those that end in a label.
    """

    labels: Tensor
    parents: Tensor
    scores: Tensor
    joined: Tensor
    prefixes: Prefixes
    in_blank: Tensor | None
    in_label: Tensor | None


@op()
def frame_step(
    scores: Tensor,
    base: Tensor,
    *,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    blank: int,
    prefixes: Prefixes,
    of_labels: Tensor | None = None,
    in_blank: Tensor | None = None,
    in_label: Tensor | None = None,
    ended: Tensor | None = None,
    merge: Merge | None = "sum",
) -> FrameStep:
    """The best label sequences after one more frame. {…, beam, axis}, {…, beam} → {…, out_beam}

    A hypothesis gets one more label, or blank and keeps its labels. If the labels are then those of another hypothesis,
    the two merge. With `in_blank` and `in_label`, as for CTC, a frame may also repeat the last label, and a label that
    is equal to the last one needs a blank before it.

    Prefix search: Graves, Sequence Transduction with Recurrent Neural Networks, 2012 (arXiv:1211.3711); with blank and
    labels apart: Hannun, Maas, Jurafsky, Ng, First-Pass Large Vocabulary Continuous Speech Recognition using
    Bi-Directional Recurrent DNNs, 2014 (arXiv:1408.2873).

    Args:
        scores: of the labels and of blank. base: of each hypothesis; -∞ for a place without one.
        prefixes: the labels of each hypothesis so far.
        of_labels: scores that are added where a hypothesis gets one more label, such as those of a language model, but
            not where a frame repeats the last one. {…, beam, axis}
        ended: which hypotheses have ended: they keep their scores, and get a blank that does not count.
        merge: the score of two that merge: the log of the sum of their probabilities, or the larger one. None: two
            alignments of the same labels stay apart.
    """
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
        return _apart(total, axis, beam, out_beam, blank, prefixes, in_label)
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


def _apart(
    total: Tensor, axis: Dim, beam: Dim, out_beam: Dim, blank: int, prefixes: Prefixes, in_label: Tensor | None
) -> FrameStep:
    """The best alignments."""
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
) -> FrameStep:
    """The results, all with the same order of dims. ends: the scores in blank and in a label."""

    def ordered(x: Tensor, sparse_dim: Dim | None = None) -> Tensor:
        return set_sparse_dim(x.copy_transpose(best.dims), sparse_dim)

    in_blank, in_label = (None, None) if ends is None else map(ordered, ends)
    sparse = ordered(labels, axis), ordered(parents, beam)
    return FrameStep(*sparse, best, ordered(joined), after, in_blank, in_label)
