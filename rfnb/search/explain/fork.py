"""A pruned candidate that is kept after all: a fork of the recorded run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfnb.errors import SearchError
from rfnb.search.explain.reference import references_of
from rfnb.search.trace import Trace

if TYPE_CHECKING:
    from rfnb.search.repeated_decode import RepeatedDecode
    from rfnb.search.search_steps import SearchSteps
    from rfnb.search.tree import Tree
    from rfnb.trace.run.run import Run

NO_RUN = "it is no longer kept"
"""Why a search of `decode` that was recorded has none."""

HINT = "rf.Loop(…, debug=True) records; loop.run holds the run; or rf.search.decode(…, record=True)"
"""Hint of errors about a search without a run."""


def run_of(trace: Trace) -> Run:
    """The recorded run of a search. Raises SearchError if there is none."""
    run = None if trace.again is None else trace.again.run
    if run is None:
        why = trace.why_not if trace.again is None else trace.again.why_not or NO_RUN
        raise SearchError(f"run: the search has no run: {why}", hint=HINT)
    return run


def keep(tree: Tree, step: int, label: int | str | None, parent: int | None) -> Trace:
    """The search in which a pruned candidate has the last place of the beam of a step."""
    model = tree.trace.model
    steps = None if model is not None else _steps(tree)
    if not 0 <= step < tree.steps:
        expected = f"0 to {tree.steps - 1}" if tree.steps else "nothing, as the search took no steps"
        raise SearchError("keep: there is no such step", got=step, expected=expected)
    number = _number(tree, label)
    if model is not None or steps is None:
        assert model is not None
        return model.keep(tree, step, number, parent)
    choosable = step > 0 or steps.rules.groups > 1
    place = _best_parent(tree, steps, step, number) if parent is None and choosable else parent or 0
    _check(tree, step, number, place, tree.beam // steps.rules.groups)
    run = steps.keep(tree.sequence, step, number, place)
    if run is None:
        raise SearchError(f"keep: {tree.label(number)!r} has the score −inf at step {step}")
    trace: Trace = run.found.trace
    return trace


def reason_against(trace: Trace) -> str | None:
    """Why no pruned candidate of a search can be kept; None if those that fit can be."""
    if trace.model is not None:
        return None
    why_not = trace.why_not if trace.again is None else trace.again.why_not
    return why_not and f"the steps of the search cannot be computed again: {why_not}"


def _steps(tree: Tree) -> SearchSteps | RepeatedDecode:
    steps, reason = tree.trace.again, reason_against(tree.trace)
    if steps is None or reason is not None:
        recorded = tree.trace.forcing is not None or (steps is not None and steps.run is not None)
        raise SearchError(f"keep: {reason}", hint=None if recorded else HINT)
    return steps


def _number(tree: Tree, label: int | str | None) -> int:
    labels = () if label is None else references_of([label], tree, ends=True)[0].labels
    if len(labels) != 1:
        raise SearchError("keep: `label` is one label, as text or number", got=label)
    return labels[0]


def _best_parent(tree: Tree, steps: SearchSteps | RepeatedDecode, step: int, label: int) -> int:
    """The place of the hypothesis with which a label has the best score, among those in which it was pruned."""
    scores = steps.extended(tree.sequence, step, label)
    excluded = tree.ended[step - 1] | tree.ends[step - 1] | ~tree.alive[step - 1] if step else np.isneginf(scores)
    excluded[tree.parents[step, tree.alive[step] & (tree.labels[step] == label)]] = True
    if excluded.all():
        raise SearchError(f"keep: {tree.label(label)!r} was not pruned at step {step}", hint=f"tree.pruned({step})")
    return int(np.argmax(np.where(excluded, -np.inf, scores)))


def _check(tree: Tree, step: int, label: int, parent: int, group: int) -> None:
    """Raises SearchError if the parent has no hypothesis, or has ended, or the label has a place already. group: the
    number of places of each group."""
    ended = False
    if step:
        tree.node(step - 1, parent)
        ended = bool((tree.ended | tree.ends)[step - 1, parent])
    elif parent % group or not 0 <= parent < tree.beam:
        places = "that at place 0" if group == tree.beam else f"those at places 0, {group}, …"
        raise SearchError(f"keep: the hypotheses of step 0 extend {places}", got=parent)
    if ended and label:
        raise SearchError(f"keep: the hypothesis at place {parent} has ended before step {step}", got=tree.label(label))
    doubles = tree.alive[step] & (tree.parents[step] == parent) & (ended | (tree.labels[step] == label))
    if doubles.any():
        raise SearchError(f"keep: {tree.label(label)!r} has a place at step {step}", hint=f"tree.pruned({step})")
