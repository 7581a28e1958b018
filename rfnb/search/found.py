"""What a search returns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.op import guard_methods, guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.explain.compare import compare_searches, compare_trees, same_hypotheses
from rfnb.search.explain.keep import run_of
from rfnb.search.explain.rerank import Doubt, rescaled
from rfnb.search.stored import file
from rfnb.search.trace import Trace
from rfnb.search.tree import Tree, Trees, nbest_lines
from rfnb.search.words import InWords
from rfnb.trace.compare.compare import OTHERS

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

SHOWN, BEST = 3, 4
"""Sequences, and hypotheses of each, that the text of a search shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Found(InWords):
    """What a search returns: hypotheses, their scores, and all that was tried.

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> found = loop.found
    >>> found.nbest(2), found.tree[0].best.text, found.tree[0].where("b").verdict
    ([['ab', 'b']], 'ab', 'model error')

    Args:
        trace: what the search kept of each step.
        scores: the final scores, {batch, beam}; −inf for a place without a hypothesis.
        lengths: how many labels of each hypothesis count, {batch, beam}.
        beam: the dim of the final hypotheses.
        doubts: after `rerank`, the pruned candidates that the beam would have kept with the new scales; None if pruned
            candidates were not recorded, so that this is not known.

    Without Tensors, as after `rf.search.load`, scores and lengths are arrays, [batch, beam].
    """

    trace: Trace
    scores: Tensor | np.ndarray = None  # type: ignore[assignment]
    lengths: Tensor | np.ndarray = None  # type: ignore[assignment]
    beam: Dim | None = None
    doubts: tuple[Doubt, ...] | None = ()

    def __post_init__(self) -> None:
        if not isinstance(self.trace, Trace):
            raise SearchError(
                "Found: `trace` is not the trace of a search", got=type(self.trace).__name__, expected="found.trace"
            )
        for name, array in (("scores", self.trace.final_scores), ("lengths", self.trace.lengths)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, array)

    @property
    def tree(self) -> Trees:
        """The tree of each sequence, by position or tag: `found.tree["laugh"]`."""
        return Trees(self.trace)

    @property
    def run(self) -> Run:
        """The recorded run of the search, for `found.run.fork(…)`. Raises SearchError if there is none."""
        return run_of(self.trace)

    def __len__(self) -> int:
        """How many sequences were searched."""
        return len(self.trace.steps)

    @property
    def flags(self) -> list[str]:
        """Short descriptions of problems: "no hypothesis left at step 3: laugh", for all sequences of which it is true.

        In that step, no label was allowed for any hypothesis: all scores were −inf. "no hypothesis may end where the
        search ended": those that were left there begin with allowed labels, but a scorer gives −inf to their end.
        """
        died: dict[str, list[str]] = {}
        for tree in sorted((tree for tree in self.tree if not tree.hypotheses), key=lambda tree: tree.died_at or 0):
            words = "no hypothesis may end where the search ended"
            words = words if tree.refused.any() else f"no hypothesis left at step {tree.died_at}"
            died.setdefault(words, []).append(tree.name)
        return [f"{words}: {_names(names)}" for words, names in died.items()]

    def nbest(self, n: int = 4, text: bool = True) -> list[list[Any]]:
        """For each sequence the `n` best hypotheses, the best first, as text or as tuples of labels.

        There are fewer if fewer are left.
        """
        if n < 1:
            raise SearchError("nbest: `n` is the number of hypotheses", got=n, expected="1 or more")
        return [[item.text if text else item.labels for item in tree.hypotheses[:n]] for tree in self.tree]

    def best(self, x: Tensor) -> Tensor:
        """The entry of the best hypothesis, {…, beam} → {…}; of equal scores, the first.

        An axis whose lengths differ by hypothesis has those of the best one in the result. Raises SearchError
        if `x` does not have the dim of the final hypotheses, or if the search was loaded from a file.
        """
        from rfnb.ops.index import gather
        from rfnb.ops.reduce import reduce_argmax

        if self.beam is None:
            raise SearchError("best: a search without Tensors has no beam", hint='found.nbest(1), found.tree["…"].best')
        if self.beam not in x.dims:
            raise SearchError("best: the Tensor does not have the beam of this search", got=x.dims, expected=self.beam)
        return gather(x, indices=reduce_argmax(self.scores, axis=self.beam), axis=self.beam)

    def rerank(
        self,
        scales: Mapping[str, float] | None = None,
        *,
        length_normalization_exponent: float | None = None,
        **more: float,
    ) -> Found:
        """The same hypotheses with other scales, in the order of their new scores, without the model.

        `found.rerank(lm=0.6)`, or `found.rerank({"my lm": 0.6})`. Scores that are not named keep their scales. With
        other scales, the beam might have kept other candidates: `doubts` lists those that were recorded and would have
        found a place, and whether they might have won.

        Raises SearchError for a score that was not recorded.
        """
        scales = {**(scales or {}), **more}
        trace, doubts = rescaled(self.tree, scales, length_normalization_exponent)
        return Found(trace, _like(self.scores, trace.final_scores, self.beam), self.lengths, self.beam, doubts)

    def same_hypotheses(self, other: Found, pairs: Sequence[tuple[int, int]]) -> Any:
        """The places of hypotheses with the same labels in two searches, by step; for `rf.compare` of two runs."""
        return same_hypotheses(self.tree, other.tree, pairs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the search to a file "x.rfbeam", which `rf.search.load` reads without the model; returns the path.

        Raises RunFileError if the file cannot be written; an existing one is then unchanged.
        """
        return file.write(self.trace.with_candidates(), path)

    @property
    def text(self) -> str:
        """The best hypotheses of the first sequences."""
        trees = self.tree[:SHOWN]
        lines = [f"search: {count_of(len(self), 'sequence')}, beam {self.trace.labels.shape[2]}"]
        for tree in trees:
            lines += [printable_name(tree.name), *nbest_lines(tree, BEST)]
        lines += [f"… {count_of(len(self) - SHOWN, 'more sequence')}"] if len(self) > SHOWN else []
        lines += self.flags
        if self.doubts is None:
            lines.append("pruned candidates were not recorded: with these scales, others might have had a place")
        elif self.doubts:
            may_win = sum(doubt.may_win for doubt in self.doubts)
            lines.append(
                f"{count_of(len(self.doubts), 'pruned candidate')} would have had a place; {may_win} might win"
            )
        return "\n".join(lines)


def _names(names: list[str]) -> str:
    text = ", ".join(map(printable_name, names[:SHOWN]))
    return text + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _like(scores: Any, array: np.ndarray, beam: Dim | None) -> Any:
    """An array of [batch, beam] as a Tensor with the dims of `scores`, if that is one."""
    if beam is None or isinstance(scores, np.ndarray):
        return array
    from rfnb.ops.convert import convert_to_tensor

    dims = [dim for dim in scores.dims if dim != beam]
    shaped = array.reshape([*(dim.get_dim_value() for dim in dims), array.shape[1]])
    return convert_to_tensor(shaped.astype(scores.dtype), dims=[*dims, beam], device=scores.device)


@guarded
def load(path: str | os.PathLike[str]) -> Found:
    """Loads the search in a file of `found.save("x.rfbeam")`, without model, code or data.

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> found = rf.search.load(loop.found.save(folder / "table.rfbeam"))
    >>> found.nbest(1), found.scores.shape
    ([['ab']], (1, 2))

    Raises RunFileError if the file does not exist, or does not contain a readable search. It is only data, so files
    from anywhere may be loaded.
    """
    return Found(file.read(path))


OTHERS.update({Found: compare_searches, Tree: compare_trees})
guard_methods(Found, "__init__", "best", "nbest", "rerank", "same_hypotheses", "save")
