"""A search of `rf.search.decode` that is recorded: the run of its steps, and what it did not keep, by running again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import map_leaves
from rfnb.core.ground.scope import within
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import SearchError
from rfnb.search.rules import BeamRules
from rfnb.search.trace import DEPTH, Candidates, Sums, Trace
from rfnb.search.variants.constraints import forced
from rfnb.trace.plain.record import record_loops
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs

if TYPE_CHECKING:
    from rfnb.search.beam import BeamState
    from rfnb.search.result import Found


@dataclass
class Injection:
    """A candidate that gets the last place of the beam of a step, which is for such ones.

    Args:
        sequence, step, label, parent: which one. place: that place; None: no place is given.
        scores: of all hypotheses, extended by this label, once the step was made. [beam]
    """

    sequence: int
    step: int
    label: int
    parent: int
    place: int | None
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def order(self, wide: BeamState, beam: int) -> np.ndarray:
        """The order in which candidates of the sequence have places then. [candidates]"""
        labels, parents, scores = (np.asarray(part[self.sequence]) for part in wide[:3])
        fits = (labels == self.label) & (scores > -np.inf)
        self.scores = np.full(beam, -np.inf)
        self.scores[parents[fits]] = scores[fits]
        order, matches = np.arange(len(labels)), np.flatnonzero(fits & (parents == self.parent))
        if self.place is None or not len(matches):
            return order
        order_without = np.delete(order, [self.place, matches[0]])
        behind = np.insert(order_without[beam - 1 :], 0, self.place)
        return np.concatenate([np.insert(order_without[: beam - 1], self.place, matches[0]), behind])


injected: ContextVar[tuple[Injection, ...]] = ContextVar("injected", default=())
"""What the search that runs now changes."""


def copied(state: object) -> Any:
    """A copy of tensors, arrays and numbers in containers. Raises SearchError for anything else."""

    def of(leaf: object) -> Any:
        if leaf is None or isinstance(leaf, bool | int | float | str | Dim):
            return leaf
        if isinstance(leaf, Tensor):
            return leaf.like(of(leaf._raw))
        copy = getattr(leaf, "clone", leaf.copy if isinstance(leaf, np.ndarray) else None)
        if copy is None:
            raise SearchError(
                "decode: `record` needs a copy of the first state", got=type(leaf).__name__,
                hint="decode(…, record=True, copy_state=copy.deepcopy)",
            )  # fmt: skip
        return copy()

    return map_leaves(of, state)


@dataclass(frozen=True)
class KeptCandidate:
    """The search in which a candidate was kept."""

    found: Found


class RepeatedDecode:
    """A search that can be run again, from a copy of its first state.

    Args:
        again: runs it, with other options.
        trace: what it kept.
        rules: those of the search.
        constraints: those of the search.
        changed: whether a function changes its scores.
    """

    def __init__(self, again: Callable[..., Found], trace: Trace, rules: BeamRules, constraints: Any, changed: bool):
        self._again, self._trace, self.rules, self.constraints, self.changed = again, trace, rules, constraints, changed
        self._ranked: dict[int, Candidates] = {}
        self._injected = injected.get()
        self._run: Callable[[], Run | None] = lambda: None

    why_not: str | None = None

    @property
    def run(self) -> Run | None:
        """The run of its steps, if it is still kept."""
        return self._run()

    def take_run(self, run: Run | None) -> None:
        """Takes the run, which it does not keep alive."""
        if run is not None:
            self._run = weakref.ref(run)

    def pruned(self) -> Candidates | None:
        """The best pruned candidates of each step."""
        return self._candidates(DEPTH)

    def ranked(self, step: int, most: int) -> Candidates:
        """The best candidates that found no place in a step, [1, batch, most]."""
        return self._candidates(most).at(slice(step, step + 1), slice(None))

    def _candidates(self, most: int) -> Candidates:
        if most not in self._ranked:
            pruned = self._repeated(None, candidates=most).trace.pruned
            assert pruned is not None
            self._ranked = {most: pruned}
        return self._ranked[most]

    def forced(self, sequences: Mapping[int, Sequence[Sequence[int]]]) -> dict[int, Sums]:
        """The sums of the scores of sequences of labels, by position in the batch; None where a function changes the
        scores."""
        sums: dict[int, Sums] = {b: [None] * len(group) for b, group in sequences.items()}
        usual = {"ended": "compete", "patience": None, "groups": 1, "threshold": None, "early_stop": 0, "candidates": 0}
        for i in range(0 if self.changed else max(map(len, sums.values()), default=0)):
            rows = {b: [*group[i]] for b, group in sequences.items() if i < len(group) and len(group[i])}
            prefix = [rows.get(b, []) for b in range(len(self._trace.steps))]
            limited = [*self.constraints, forced(prefix)]
            result = self._again(**usual, beam=1, partial_candidates=2**31, constraints=limited)
            for b, labels in rows.items():
                tree = result.tree[b]
                best = tree.best
                is_reference = best is not None and best.complete and best.labels[: len(labels)] in (
                    tuple(labels), tuple(labels[:-1])
                )  # fmt: skip
                sums[b][i] = [-np.inf] * len(labels)
                if best is not None and is_reference:
                    after = tree.scores[np.arange(tree.steps), best.places]
                    sums[b][i] = [*after[: len(labels) - 1].tolist(), best.sum]
        return sums

    def extended(self, sequence: int, step: int, label: int) -> np.ndarray:
        """The score of each hypothesis of a sequence, extended by a label. [beam]"""
        probe = Injection(sequence, step, label, -1, None)
        self._repeated(probe)
        return probe.scores

    def keep(self, sequence: int, step: int, label: int, parent: int) -> KeptCandidate | None:
        """The search in which a hypothesis with this label has the last place that is for such ones; None if it has the
        score −inf."""
        beam = self._trace.labels.shape[2]
        place = self.rules.last_place(beam, step, label, parent, copy=False)
        injection = Injection(sequence, step, label, parent, place)
        result = self._repeated(injection, record=True)
        run = result.trace.again.run if result.trace.again is not None else None
        if run is not None:
            run.parent, run.forked_at = self.run, step
        return KeptCandidate(result) if injection.scores[parent] > -np.inf else None

    def _repeated(self, injection: Injection | None, **options: object) -> Found:
        """The search again. Raises SearchError if it is another one up to the step where it is changed."""
        with within(injected, (*self._injected, *([injection] if injection else []))):
            result = self._again(**options)
        count = len(self._trace.labels) if injection is None else injection.step
        for name in ("labels", "parents"):
            if not np.array_equal(getattr(result.trace, name)[:count], getattr(self._trace, name)[:count]):
                raise SearchError(
                    "decode: the search is not the same when it runs again", got=f"other {name}",
                    hint="the model has changed since, draws random numbers, or changes what is not in its state",
                )  # fmt: skip
        return result


class SearchRecorder(record_loops):
    """Records the steps of the search inside the block.

    Args:
        function: the one whose loop makes the steps.
        labels: their dim, if it is known.
    """

    def __init__(self, function: Callable[..., None], labels: Dim | None):
        names: dict[str, list[str | Dim]] = {
            "scores": ["hypotheses", labels or "labels"],
            "prev": ["hypotheses", *([labels] if labels else [])],
            "rows": ["hypotheses"],
        }
        super().__init__(function, dims=names)
        self.warns = False  # of a search without steps
        self._code = function.__code__
        self._before = self._newest()

    def run_of(self, result: Found, batch: Dim, tags: Sequence[str] | None) -> Run | None:
        """The run of the search, which has its tree; None if it was not recorded."""
        run = self._newest()
        if run is None or run is self._before:
            return None
        replay: Any = run.replay
        replay.searched, replay.sequences = result, (batch, Size([], len(result), tags=tags))
        return run

    def _newest(self) -> Run | None:
        return next((run for run in runs if run.name == self._code.co_name), None)

    def _chosen(self, code: CodeType) -> bool:
        return code is self._code
