"""Two searches of the same sequences: the first step at which their beams differ, by the labels of the prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.text_result import TextResult, number
from rfnb.search.trace import Hypothesis

if TYPE_CHECKING:
    from rfnb.search.result import Found
    from rfnb.search.tree import Tree, Trees

VERBS = ["agree", "differ"]


@dataclass(frozen=True)
class BeamPrefix:
    """A hypothesis in one beam after a step: its labels as text, its rank and its score."""

    text: str
    rank: int
    score: float


@dataclass(frozen=True, repr=False)
class BeamsCompared(TextResult):
    """One sequence in two searches.

    step: the first step after which the beams differ; None if they never do. If the sizes of the beams differ, the
    best ones of the larger beam are compared. only_a, only_b: the hypotheses that only one of the two has there, the
    best first. a, b: the best hypotheses at the end. trees: those that were compared.
    """

    name: str
    step: int | None
    only_a: tuple[BeamPrefix, ...]
    only_b: tuple[BeamPrefix, ...]
    a: Hypothesis | None
    b: Hypothesis | None
    trees: tuple[Tree, Tree] = field(compare=False)

    @property
    def same_output(self) -> bool:
        """Whether the best hypotheses have the same text."""
        return (self.a and self.a.text) == (self.b and self.b.text)

    @property
    def agree(self) -> bool:
        """Whether neither the beams nor the outputs differ."""
        return self.step is None and self.same_output

    @property
    def words(self) -> str:
        """The first difference as a sentence."""
        outputs = f'outputs "{self.a.text if self.a else "—"}" and "{self.b.text if self.b else "—"}"'
        if self.step is None:
            return "the beams agree" + ("" if self.same_output else f"; {outputs}")
        sides = (("first", self.only_a), ("second", self.only_b))
        had = [f'only the {side} has "{has[0].text}" ({number(has[0].score)})' for side, has in sides if has]
        return "; ".join([f"step {self.step}", *had, "the outputs agree" if self.same_output else outputs])

    @property
    def text(self) -> str:
        """The name of the sequence, and the first difference."""
        return f"{printable_name(self.name)}: {printable_name(self.words)}"


@dataclass(frozen=True, eq=False, repr=False)
class SearchComparison(TextResult):
    """The result of `rf.compare` for two searches. It is true if all common sequences have the same beams and outputs.

    sequences: those in both searches, matched by tag, or else by position. only_a, only_b: the tags in one of them.
    """

    sequences: tuple[BeamsCompared, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Whether there are common sequences, and all of them agree."""
        return bool(self.sequences) and all(pair.agree for pair in self.sequences)

    def __bool__(self) -> bool:
        return self.agree

    @property
    def differing(self) -> list[BeamsCompared]:
        """The sequences whose beams or outputs differ, by the first step that differs."""
        pairs = [pair for pair in self.sequences if not pair.agree]
        return sorted(pairs, key=lambda pair: (pair.step is None, pair.step or 0))

    @property
    def first(self) -> BeamsCompared | None:
        """The sequence whose beams differ first; None if none does."""
        return next(iter(self.differing), None)

    def table(self) -> list[dict[str, Any]]:
        """A row for each sequence: the first step that differs, and the two outputs."""
        return [
            {
                "sequence": pair.name,
                "step": pair.step,
                "a": pair.a.text if pair.a else None,
                "b": pair.b.text if pair.b else None,
                "score a": pair.a.score if pair.a else None,
                "score b": pair.b.score if pair.b else None,
            }
            for pair in self.sequences
        ]

    @property
    def text(self) -> str:
        """How many sequences differ, and the first of them."""
        differing = self.differing
        beams = sum(pair.step is not None for pair in self.sequences)
        outputs = sum(not pair.same_output for pair in self.sequences)
        count = count_of(len(self.sequences), "sequence")
        lines = [f"{count}: the beams of {beams} differ, and the outputs of {outputs}"]
        if len(self.sequences) == 1:
            lines = [f"{count}: the beams {VERBS[beams]}, the outputs {VERBS[outputs]}"]
        lines += [f"  {pair.text}" for pair in differing[:10]]
        lines += [f"  … {len(differing) - 10} more"] if len(differing) > 10 else []
        for side, only in (("first", self.only_a), ("second", self.only_b)):
            if only:
                lines.append(f"  only in the {side}: {printable_name(', '.join(only[:10]))}")
        return "\n".join(lines)


def compare_searches(a: Found, b: object, sequence: int | str | None = None) -> SearchComparison:
    """Compares two searches. Raises SearchError if `b` is not one, or their sequences cannot be matched."""
    if not isinstance(b, type(a)):
        raise SearchError("compare: a search can only be compared with another search", got=type(b).__name__)
    tags = a.trace.tags, b.trace.tags
    if sequence is not None:
        pairs = [(a.tree[sequence], b.tree[sequence])]
        return SearchComparison(tuple(compare_trees(*pair) for pair in pairs), (), ())
    if tags[0] is None or tags[1] is None:
        if len(a) != len(b):
            raise SearchError(
                "compare: the sequences have no tags and their numbers differ", got=f"{len(a)} and {len(b)} sequences"
            )
        return SearchComparison(tuple(map(compare_trees, a.tree, b.tree)), (), ())
    common = [tag for tag in tags[0] if tag in set(tags[1])]
    return SearchComparison(
        tuple(compare_trees(a.tree[tag], b.tree[tag]) for tag in common),
        tuple(tag for tag in tags[0] if tag not in set(tags[1])),
        tuple(tag for tag in tags[1] if tag not in set(tags[0])),
    )


def compare_trees(a: Tree, b: object, sequence: object = None) -> BeamsCompared:
    """Compares the trees of one sequence in two searches. Raises SearchError if `b` is not a tree."""
    del sequence  # a tree has one
    if not isinstance(b, type(a)):
        raise SearchError("compare: a tree can only be compared with another tree", got=type(b).__name__)
    size = min(a.beam, b.beam)
    last_a: dict[object, BeamPrefix] = {}
    last_b: dict[object, BeamPrefix] = {}
    by_step_a, by_step_b = _prefixes(a, size), _prefixes(b, size)
    for step in range(max(a.steps, b.steps)):
        last_a, last_b = next(by_step_a, last_a), next(by_step_b, last_b)
        only_a, only_b = _only(last_a, last_b), _only(last_b, last_a)
        if only_a or only_b:
            return BeamsCompared(a.name, step, only_a, only_b, a.best, b.best, (a, b))
    return BeamsCompared(a.name, None, (), (), a.best, b.best, (a, b))


def _only(mine: dict[object, BeamPrefix], theirs: dict[object, BeamPrefix]) -> tuple[BeamPrefix, ...]:
    return tuple(prefix for key, prefix in mine.items() if key not in theirs)


def _prefixes(tree: Tree, most: int) -> Iterator[dict[object, BeamPrefix]]:
    """By step, the best prefixes by the texts of their labels, the best first."""
    parents: dict[int | None, tuple[int, ...]] = {}
    for step in range(tree.steps):
        nodes = tree.nodes(step)
        added = {node.place: () if node.ended or node.label == tree.own.blank else (node.label,) for node in nodes}
        prefixes = {node.place: parents.get(node.parent, ()) + added[node.place] for node in nodes}
        beam: dict[Any, BeamPrefix] = {}
        for node in nodes[:most]:
            labels = prefixes[node.place]
            key = tuple(map(tree.label, labels))
            beam.setdefault(key, BeamPrefix(tree.prefix_text(labels), node.rank, node.score))
        yield beam
        parents = prefixes


def same_hypotheses(
    a: Trees, b: Trees, pairs: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray, tuple[BeamsCompared, ...]]:
    """For each step and place of `a` the place in `b` with the same labels, -1 if there is none; the same for `b`; and
    the comparison of each pair of sequences.

    The first row is that before the first step, where all hypotheses have no labels. [1 + steps, pairs, beam]
    """
    trees = [(a[i], b[j]) for i, j in pairs]
    steps, sizes = min(len(a.trace.labels), len(b.trace.labels)), [x.trace.labels.shape[2] for x in (a, b)]
    matches = [np.full((1 + steps, len(pairs), size), -1) for size in sizes]
    for match in matches:
        match[0, :, : min(sizes)] = np.arange(min(sizes))
    for n, two in enumerate(trees):
        columns = [list(_places(tree)) for tree in two]
        for step in range(min(steps, *(len(column) for column in columns))):
            row_a, row_b = (column[step] for column in columns)
            for key in row_a.keys() & row_b.keys():
                matches[0][1 + step, n, row_a[key]], matches[1][1 + step, n, row_b[key]] = (
                    row_b[key],
                    row_a[key],
                )
    return matches[0], matches[1], tuple(compare_trees(*two) for two in trees)


def _places(tree: Tree) -> Iterator[dict[object, int]]:
    """By step, the places of the best hypotheses by the texts of their labels."""
    for step in range(tree.steps):
        places: dict[object, int] = {}
        for node in tree.nodes(step):
            assert node.place is not None
            places.setdefault(tuple(map(tree.label, tree.prefix(step, node.place))), node.place)
        yield places
