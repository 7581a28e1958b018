"""The tree of the hypotheses of one sequence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rfnb.core.ground.show import view_of
from rfnb.core.ground.text import count_of, number_of
from rfnb.core.tensor.op import guard_methods
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.explain.fork import keep, run_of
from rfnb.search.explain.position import Where, Why, where, why
from rfnb.search.file import read_tree, write_tree
from rfnb.search.text_result import TextResult, number, place_of
from rfnb.search.trace import Hypothesis, Node, Trace, TreeArrays, normalized

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


@dataclass(frozen=True, eq=False, repr=False)
class Tree(TreeArrays, TextResult):
    """All hypotheses that a search kept for one sequence; a node is a (step, place in the beam).

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> tree = loop.found.tree[0]
    >>> [node.text for node in tree.nodes(0)], [(each.text, each.complete) for each in tree.hypotheses]
    (['a', 'b'], [('ab', True), ('b', True)])
    >>> tree.where("a a").fall.step, rf.search.Tree.from_json(tree.to_json()).best.text
    (1, 'ab')

    Steps and places count from 0, ranks from 1. Places without a hypothesis have the score −inf and are not returned.

    Args:
        trace: the search.
        sequence: the position of the sequence in the batch.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.trace, Trace):
            raise SearchError("Tree: `trace` is not the trace of a search", got=type(self.trace).__name__)
        place_of("Tree", "sequence", self.sequence, len(self.trace.steps))

    # -- names and texts

    @property
    def tag(self) -> str | None:
        """The name of the sequence, if it has one."""
        return None if self.own.tags is None else self.own.tags[0]

    @property
    def name(self) -> str:
        """The name of the sequence, or its position as text: "sequence 3"."""
        return f"sequence {self.sequence}" if self.tag is None else self.tag

    @property
    def prompt(self) -> tuple[int, ...]:
        """The labels before the first step, where a search goes on from some."""
        return () if self.own.prompts is None else tuple(self.own.prompts[0])

    def label(self, label: int) -> str:
        """The text of a label; its number if there is no vocabulary."""
        if label == self.own.blank and not (self.own.vocab is not None and 0 <= label < len(self.own.vocab)):
            return "<blank>"
        return str(int(label)) if self.own.vocab is None else str(self.own.vocab.decode(int(label)))

    def text_of(self, labels: Iterable[int]) -> str:
        """The text of a sequence of labels."""
        numbers = [int(label) for label in labels]
        vocab = self.own.vocab
        if vocab is None or not all(0 <= label < len(vocab) for label in numbers):
            return " ".join(map(self.label, numbers))
        return vocab.join(numbers)

    def prefix_text(self, labels: Sequence[int]) -> str:
        """The text of the labels of a prefix, with the end label if it has ended."""
        text = self.text_of(labels)
        ends = bool(labels) and labels[-1] in self.end_labels and self.own.vocab is not None
        return f"{self.text_of(labels[:-1])} {self.label(labels[-1])}".strip() if ends else text

    @cached_property
    def end_labels(self) -> frozenset[int]:
        """The labels by which hypotheses end; empty if they end by the number of frames."""
        if self.own.framewise:
            return frozenset()
        if self.own.end_label is not None:
            return frozenset(np.ravel(self.own.end_label).tolist())
        labels = frozenset(self.labels[self.ends].tolist())
        end = None if self.own.vocab is None else self.own.vocab.eos_id
        if end is not None and (end in labels or not labels):
            return frozenset([end])
        return labels if len(labels) == 1 else frozenset()  # several: it is not the label by which they end

    # -- nodes and hypotheses

    @cached_property
    def survives(self) -> np.ndarray:
        """Whether a hypothesis that was left at the end goes through each place, or one that joined it. [steps, beam]
        bool"""
        marks = np.zeros_like(self.ended)
        final = self.places[:, [hypothesis.place for hypothesis in self.hypotheses]]
        np.put_along_axis(marks, final, True, axis=1)
        if self.joined is not None:
            for step in range(self.steps - 1, 0, -1):
                survivors = marks[step] & self.alive[step]
                marks[step - 1, self.parents[step, survivors]] = True
                marks[step - 1, self.joined[step, survivors & (self.joined[step] >= 0)]] = True
        return marks & self.alive

    @cached_property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses that were left at the end, the best first; of equal scores, the lower place first."""
        final = self.own.final_scores[0]
        order = [int(place) for place in np.argsort(-final, kind="stable") if final[place] > -np.inf]
        return [self._hypothesis(place, rank) for rank, place in enumerate(order, 1)]

    @property
    def best(self) -> Hypothesis | None:
        """The best hypothesis; None if none is left."""
        return next(iter(self.hypotheses), None)

    def _hypothesis(self, place: int, rank: int) -> Hypothesis:
        trace, at = self.own, (np.arange(self.steps), self.places[:, place])
        labels = tuple(self.labels[at][self.counts[at]].tolist())
        parts = {name: float(part[:, 0][at][~self.ended[at]].sum()) for name, part in trace.parts.items()}
        counted = labels[: int(trace.lengths[0, place])]
        return Hypothesis(
            rank=rank,
            place=place,
            labels=counted,
            text=self.text_of(counted),
            score=float(trace.final_scores[0, place]),
            sum=float(self.scores[-1, place]) if self.steps else float(trace.final_scores[0, place]),
            parts=parts,
            complete=bool(trace.complete[0, place]),
            places=tuple(at[1].tolist()),
            taken=len(labels),
        )

    def prefix(self, step: int, place: int) -> tuple[int, ...]:
        """The labels of a hypothesis up to a step, its end label included.

        Raises SearchError if there is no such step or place; before step 0, no hypothesis has labels.
        """
        if step != -1:
            step, place = place_of("tree", "step", step, self.steps), place_of("tree", "place", place, self.beam)
        labels: list[int] = []
        counts = self.counts
        for at in range(step, -1, -1):
            if counts[at, place]:
                labels.append(int(self.labels[at, place]))
            place = int(self.parents[at, place])
        return tuple(reversed(labels))

    def node(self, step: int, place: int) -> Node:
        """The node at a place of the beam. Raises SearchError if there is no hypothesis at it."""
        step, place = index(step), index(place)
        if not (0 <= step < self.steps and 0 <= place < self.beam and self.alive[step, place]):
            raise SearchError(
                f"tree: no hypothesis is at step {step}, place {place}",
                expected=f"steps 0 to {self.steps - 1}, places 0 to {self.beam - 1}" if self.steps else "a step",
            )
        return Node(
            step=step,
            place=place,
            parent=int(self.parents[step, place]) if step else None,
            label=int(self.labels[step, place]),
            text=self.label(self.labels[step, place]),
            score=float(self.scores[step, place]),
            compared=float(self.compared[step, place]),
            rank=int(self.ranks[step, place]),
            parts={name: float(part[step, 0, place]) for name, part in self.own.parts.items()},
            ended=bool(self.ended[step, place]),
            ends=bool(self.ends[step, place]),
            survives=bool(self.survives[step, place]),
            joined=None if self.joined is None or self.joined[step, place] < 0 else int(self.joined[step, place]),
        )

    def nodes(self, step: int) -> list[Node]:
        """The nodes of a step in the order of their ranks, without places that have no hypothesis.

        Raises SearchError if there is no such step.
        """
        step = place_of("tree", "step", step, self.steps)
        places = np.flatnonzero(self.alive[step])
        return [self.node(step, int(place)) for place in places[np.argsort(self.ranks[step, places])]]

    def pruned(self, step: int, most: int | None = None) -> list[Node]:
        """The candidates that found no place in a step, the best first.

        most: how many. By default those that the search kept (`candidates=8`), or, if it kept none and its run is
        recorded, the 8 best. Of a recorded run there may be any number; its step is computed again for them.
        """
        step = place_of("tree", "step", step, max(self.steps, 1))  # without steps, none were pruned
        if most is not None and not most >= 0:
            raise SearchError("pruned: `most` is negative", got=most, expected="0 or more")
        recorded, replayed = self.own.pruned, self.trace.replayed
        if most is None or replayed is None or (recorded is not None and most <= recorded.labels.shape[2]):
            candidates = None if self.candidates is None else self.candidates.at(slice(step, step + 1), slice(None))
        else:
            candidates = replayed.ranked(step, most).at(slice(None), slice(self.sequence, self.sequence + 1))
        if candidates is None:
            return []
        arrays = candidates.labels[0, 0], candidates.parents[0, 0], candidates.scores[0, 0]
        nodes: list[Node] = []
        for i, (label, parent, score) in enumerate(zip(*(array[:most].tolist() for array in arrays), strict=True)):
            if score > -np.inf:
                parts = {name: float(part[0, 0, i]) for name, part in candidates.parts.items()}
                nodes.append(self._candidate(step, label, parent, score, parts, len(nodes)))
        return nodes

    def _candidate(self, step: int, label: int, parent: int, score: float, parts: Any, before: int) -> Node:
        copied = bool(step and (self.ended | self.ends)[step - 1, parent])
        length = (int(self.taken[step - 1, parent]) if step else 0) + (not copied)
        compared = float(normalized(np.array(score), length, self.own))
        better = int((self.alive[step] & (self.compared[step] >= compared)).sum())
        ends = not copied and label in self.end_labels
        return Node(
            step=step,
            place=None,
            parent=parent if step else None,
            label=label,
            text=self.label(label),
            score=score,
            compared=compared,
            rank=better + before + 1,
            parts=parts,
            ended=copied,
            ends=ends,
        )

    # -- explained

    def where(self, reference: object, forced: float | Sequence[float] | None = None) -> Where:
        """Where a reference is in the beam: its rank and score at each step, where it fell out, and who is to blame.

        reference: text, labels or numbers; several as a set, or as a list of lists. Of several, the one that came
        furthest is returned. forced: the final score that the model gives to the reference and its end, which decides
        between search error and model error; one for each reference. It is computed if the search was recorded.

        Raises SearchError for a reference with labels that the vocabulary does not have.
        """
        return where(self, reference, forced)

    def why(self, which: object) -> Why:
        """The life of a hypothesis: its rank at each step, what it is below the best by, and what became of it.

        which: its position in `hypotheses`; a Hypothesis or Node; or its labels as text, labels or numbers.
        """
        return why(self, which)

    @property
    def run(self) -> Run:
        """The recorded run of the search. Raises SearchError if there is none."""
        return run_of(self.trace)

    def keep(self, step: int | Node, label: int | str | None = None, parent: int | None = None) -> Tree:
        """The tree of a fork in which a pruned candidate takes the last place of the beam, and the search goes on.

        step: the step, or a node of `pruned`. label: its label, as text or number. parent: the place, in the beam
        before, of the hypothesis that it extends; by default, that with which it has the best score. `run` of the
        result is the new run; the other sequences are searched as before.

        Raises SearchError if the candidate has a place already or the score −inf, or if the steps of the search cannot
        be computed again; LoopError if the loop changes something that it reads.
        """
        at = (step.step, step.label, step.parent) if isinstance(step, Node) else (step, label, parent)
        return Tree(keep(self, *at), self.sequence)

    # -- as data

    def to_json(self) -> dict[str, Any]:
        """The tree as JSON, in columns by step; parts of scores are rounded to 0.001. `from_json` reads it.

        12 places, 80 steps and 48 pruned candidates, each with three parts, take less than 130 kB.
        """
        return write_tree(self)

    @classmethod
    def from_json(cls, data: object) -> Tree:
        """The tree that was written by `to_json`, with a vocabulary of the labels that occur in it.

        Raises RunFileError if the data is not that of a tree. It is only data, so that of any origin may be read.
        """
        return cls(read_tree(data), 0)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the picture or data of the tree, as `rf.show(tree).save(path)`; "x.html", "x.svg", "x.json", …

        Raises SearchError if trees have no view here, and ViewError if the view cannot be written.
        """
        view = view_of(self)
        if view is None:
            raise SearchError("save: no view of trees is registered", hint="json.dump(tree.to_json(), file)")
        saved: Path = view.save(path)
        return saved

    # -- shown

    def table(self) -> list[dict[str, Any]]:
        """A row for each node and pruned candidate, by step and rank; `pandas.DataFrame` takes it."""
        rows = []
        for step in range(self.steps):
            for node in [*self.nodes(step), *self.pruned(step)]:
                row = {name: getattr(node, name) for name in COLUMNS}
                rows.append(row | {f"score of {name}": part for name, part in node.parts.items()})
        return rows

    @property
    def text(self) -> str:
        """The hypotheses that were left, with their scores."""
        sizes = f"{count_of(self.steps, 'step')}, {self.trace.beam_text}"
        return "\n".join([f"{printable_name(self.name)}: {sizes}", *nbest_lines(self)])


COLUMNS = "step rank label text place parent joined score compared ended ends survives".split()
"""What `table` gives of each node."""


def nbest_lines(tree: Tree, most: int | None = None) -> list[str]:
    """The best hypotheses of a tree, a line each."""
    if not tree.hypotheses:
        step = "" if tree.died_at is None else f" after step {tree.died_at}"
        return [f"  no hypothesis is left{step}" + (": none may end there" if tree.refused.any() else "")]
    entries = tree.hypotheses[:most]
    scores = [number(entry.score) for entry in entries]
    wide = max(map(len, scores))
    notes = ["" if entry.complete or tree.own.framewise else "  (reached the limit of steps)" for entry in entries]
    return [
        f"  {entry.rank:>2}  {score:>{wide}}  {printable_name(entry.text) or '(no labels)'}{note}"
        for entry, score, note in zip(entries, scores, notes, strict=True)
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Trees(TextResult, Sequence[Tree]):
    """The trees of all sequences of a search, by position or tag: `found.tree["laugh"]`."""

    trace: Trace

    def __len__(self) -> int:
        return len(self.trace.steps)

    @overload
    def __getitem__(self, which: int | str) -> Tree: ...

    @overload
    def __getitem__(self, which: slice) -> list[Tree]: ...

    def __getitem__(self, which: int | str | slice) -> Tree | list[Tree]:
        if isinstance(which, slice):
            return [Tree(self.trace, i) for i in range(*which.indices(len(self)))]
        if isinstance(which, str):
            return Tree(self.trace, number_of(which, self.trace.tags, "tree", SearchError))
        return Tree(self.trace, place_of("tree", "sequence", which, len(self)))

    def __iter__(self) -> Iterator[Tree]:
        return (Tree(self.trace, i) for i in range(len(self)))

    @property
    def text(self) -> str:
        """The best hypothesis of each sequence."""
        return "\n".join(
            f"{printable_name(tree.name)}: {printable_name(tree.best.text) if tree.best else 'no hypothesis is left'}"
            for tree in self
        )


guard_methods(
    Tree, "__init__", *"from_json keep label node nodes prefix prefix_text pruned save text_of where why".split()
)
guard_methods(Trees, "__getitem__")
