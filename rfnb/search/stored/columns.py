"""The tree of one sequence as JSON: columns by step, small enough to stand in a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rfnb.errors import RunFileError
from rfnb.search.stored.file import FORMAT, checked, facts_of, read_facts, roles_of, vocab_with
from rfnb.search.trace import Candidates, Trace
from rfnb.trace.run.file.fields import count, get, raw_strings, reading, within
from rfnb.trace.run.file.store import check_format

if TYPE_CHECKING:
    from rfnb.core.vocab import Vocab
    from rfnb.search.tree import Tree

T = TypeVar("T")
Rows = list[list[float | None]]
"""Numbers by step; None where there is none."""

UNIT = 0.001
"""The unit of costs and gaps, which are written as whole numbers."""

ALL_LABELS = 8_000
"""Up to this number of characters, a vocabulary is written as a whole; of a larger one only the labels that occur."""

LARGEST_LABEL = 2**20
"""Largest number of a label that may be read."""


def write_tree(tree: Tree) -> dict[str, object]:
    """The tree as JSON. The keys:

    labels: the number and text of each label that occurs; `label` in the columns is a position in these lists.
    columns: by step, for each place of the beam: label, parent, score (null without a hypothesis), and, by scorer,
    costs: the score of the label, negated, in units of 0.001. ended, ends: by step, the places for which it holds.
    single: whether scores have single precision, whose digits are written then.
    joined: by step, the place of a second parent for each place of the beam, or -1; null if hypotheses do not merge.
    pruned: by step, the candidates that were pruned: label, parent, costs, and gaps: how much lower each score is than
    the one before, in units of 0.001; the first one is compared with the lowest score of the beam.
    """
    trace, single = tree.own, _single(tree.scores, tree.own.final_scores)
    numbers = _labels(tree)
    places = {number: place for place, number in enumerate(numbers)}
    return {
        **facts_of(trace),
        "tag": tree.tag,
        "sequence": tree.sequence,
        "steps": tree.steps,
        "beam": tree.beam,
        "limit": None if trace.limit is None else int(trace.limit[0]),
        "single": single,
        "labels": {
            "numbers": numbers,
            "texts": None if trace.vocab is None else [tree.label(number) for number in numbers],
            "roles": {} if trace.vocab is None else roles_of(trace.vocab),
        },
        "final": {
            "scores": [_number(score, single) for score in trace.final_scores[0]],
            "lengths": trace.lengths[0].tolist(),
            "complete": np.flatnonzero(trace.complete[0]).tolist(),
        },
        "columns": {
            "label": [[places[label] for label in row] for row in tree.labels.tolist()],
            "parent": tree.parents.tolist(),
            "score": [[_number(score, single) for score in row] for row in tree.scores],
            "costs": {name: _units(-part[:, 0]) for name, part in trace.parts.items()},
            "ended": [np.flatnonzero(row).tolist() for row in tree.ended],
            "ends": [np.flatnonzero(row).tolist() for row in tree.ends],
            "joined": None if tree.joined is None else tree.joined.tolist(),
        },
        "pruned": None if tree.candidates is None else _pruned(tree, tree.candidates, places),
    }


def _pruned(tree: Tree, pruned: Candidates, places: dict[int, int]) -> dict[str, object]:
    depths = _lowest(tree.scores)[:, None] - pruned.scores[:, 0]
    sizes = np.where(np.isfinite(depths), depths, 0) / UNIT
    gaps = np.diff(np.rint(sizes).astype(np.int64), axis=1, prepend=0)
    choices = [np.flatnonzero(row > -np.inf).tolist() for row in pruned.scores[:, 0]]

    def chosen(rows: Sequence[Sequence[T]]) -> list[list[T]]:
        return [[row[i] for i in indices] for row, indices in zip(rows, choices, strict=True)]

    return {
        "most": int(pruned.labels.shape[2]),
        "label": [[places[label] for label in row] for row in chosen(pruned.labels[:, 0].tolist())],
        "parent": chosen(pruned.parents[:, 0].tolist()),
        "gaps": chosen(gaps.tolist()),
        "costs": {name: chosen(_units(-part[:, 0])) for name, part in pruned.parts.items()},
    }


def _labels(tree: Tree) -> list[int]:
    """The numbers of the labels that are written, the most frequent ones first."""
    trace, counts = tree.own, Counter(tree.labels.ravel().tolist())
    if tree.candidates is not None:
        counts.update(tree.candidates.labels[:, 0].ravel().tolist())
    counts.update(trace.prompts[0] if trace.prompts else ())
    if trace.vocab is not None:
        counts.update(roles_of(trace.vocab).values())
        counts.update(_whole(trace.vocab))
    return [number for number, _ in counts.most_common()]


def _whole(vocab: Vocab) -> Iterable[int]:
    """The numbers of all labels of a small vocabulary."""
    small = len(vocab) < ALL_LABELS and sum(map(len, vocab.labels)) < ALL_LABELS
    return range(len(vocab)) if small else ()


def _lowest(scores: np.ndarray) -> np.ndarray:
    """The lowest score of each step; 0 if there is no hypothesis. [steps]"""
    finite = np.where(np.isfinite(scores), scores, np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(finite), finite, 0.0).astype(np.float64)


def _single(*several: np.ndarray) -> bool:
    """Whether scores have single precision; they may still be in double precision, as those that were read."""
    return all(np.array_equal(_rounded(scores), scores.astype(np.float64)) for scores in several)


def _rounded(scores: np.ndarray) -> np.ndarray:
    """Scores in single precision, as numbers of double precision."""
    with np.errstate(over="ignore"):  # infinite in data of another origin
        return scores.astype(np.float32).astype(np.float64)


def _number(score: Any, single: bool) -> float | None:
    """A score with as many digits as it takes; None for −inf."""
    return float(str(np.float32(score) if single else float(score))) if np.isfinite(score) else None


def _units(values: np.ndarray) -> list[list[int | None]]:
    finite = np.isfinite(values)
    rounded = np.rint(np.where(finite, values, 0) / UNIT).astype(np.int64).tolist()
    return [
        [number if exists else None for number, exists in zip(row, marks, strict=True)]
        for row, marks in zip(rounded, finite.tolist(), strict=True)
    ]


def read_tree(data: object) -> Trace:
    """The search of a tree that was written as JSON, with its sequence alone.

    Raises RunFileError if the data is not that of a tree.
    """
    with reading("from_json: the data is not that of a tree"):
        return checked(_read(data))


def _read(data: Any) -> Trace:
    check_format(data, FORMAT, "the data")
    steps, beam = count(data, "steps"), count(data, "beam")
    columns, final, tag = get(data, "columns", dict), get(data, "final", dict), data.get("tag")
    vocab, numbers = _read_labels(get(data, "labels", dict))
    shape, rows = (steps, 1, beam), _reader(steps, beam)
    single = get({"single": True} | data, "single", bool)
    scores, final_scores = (
        _rounded(array) if single else array
        for array in map(_scores, (rows(columns, "score"), [get(final, "scores", list[float | None])]))
    )
    scores = scores.reshape(shape)
    return Trace(
        labels=_numbers(rows(columns, "label"), numbers).reshape(shape),
        parents=np.array(rows(columns, "parent"), np.int64).reshape(shape),
        scores=scores,
        ended=_marks(columns, "ended", steps, beam),
        final_scores=final_scores,
        lengths=np.array([get(final, "lengths", list[int])], np.int64),
        complete=_marks({"complete": [get(final, "complete", list)]}, "complete", 1, beam)[:, 0],
        **read_facts(data, 1),
        steps=np.array([steps]),
        vocab=vocab,
        tags=None if tag is None else raw_strings({"tag": [tag]}, "tag"),
        parts=_costs(columns, rows, shape),
        pruned=None if data.get("pruned") is None else _read_pruned(get(data, "pruned", dict), scores[:, 0], numbers),
        ends=_marks(columns, "ends", steps, beam),
        limit=None if get(data, "limit", int | None) is None else np.array([data["limit"]]),
        joined=_joined(columns, rows, shape),
    )


def _reader(steps: int, most: int, exact: bool = True) -> Callable[[object, str], Rows]:
    """Reads columns of numbers: a list for each step with `most` entries, or at most so many."""

    def rows(data: object, name: str) -> Rows:
        column: Rows = get(data, name, list[list[float | None]])
        if len(column) != steps or any(len(row) > most or (exact and len(row) < most) for row in column):
            raise RunFileError(f"the column {name!r} has the wrong size")
        return column

    return rows


def _scores(rows: Iterable[Iterable[float | None]]) -> np.ndarray:
    return np.array([[-np.inf if score is None else score for score in row] for row in rows], np.float64)


def _numbers(rows: Rows, numbers: list[int]) -> np.ndarray:
    places = np.array(rows, np.int64)
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < len(numbers):
        raise RunFileError("a label of the tree is missing in its list of labels")
    return np.array(numbers, np.int64)[places] if places.size else places


def _marks(data: object, name: str, steps: int, beam: int) -> np.ndarray:
    marks = np.zeros((steps, 1, beam), bool)
    for step, places in enumerate(_reader(steps, beam, exact=False)(data, name)):
        marks[step, 0, [within(place, beam - 1, name) for place in places]] = True
    return marks


def _joined(data: Any, rows: Callable[[object, str], Rows], shape: tuple[int, ...]) -> np.ndarray | None:
    return None if data.get("joined") is None else np.array(rows(data, "joined"), np.int64).reshape(shape)


def _costs(data: object, rows: Callable[[object, str], Rows], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    costs = get(data, "costs", dict)
    return {name: _scores(_negated(rows(costs, name))).reshape(shape) for name in costs}


def _negated(rows: Rows) -> Rows:
    return [[None if cost is None else -cost * UNIT for cost in row] for row in rows]


def _read_pruned(data: Any, scores: np.ndarray, numbers: list[int]) -> Candidates:
    steps, width = len(scores), max(map(len, get(data, "label", list)), default=0)
    width = max(width, min(count(data, "most"), width + 1))  # one more says that further candidates had the score −inf
    ragged = _reader(steps, width, exact=False)

    def rows(source: object, name: str, rest: float | None) -> Rows:
        sizes = [len(row) for row in data["label"]]
        column = ragged(source, name)
        if [len(row) for row in column] != sizes:
            raise RunFileError(f"the column {name!r} has the wrong size")
        return [[*row, *[rest] * (width - len(row))] for row in column]

    shape = (steps, 1, width)
    gaps = np.array(rows(data, "gaps", 0), np.float64).reshape(steps, width)
    column = _lowest(scores)[:, None] - np.cumsum(gaps, axis=1) * UNIT
    missing = np.array([[i >= len(row) for i in range(width)] for row in data["label"]], bool).reshape(column.shape)
    costs = get(data, "costs", dict)
    return Candidates(
        labels=_numbers([[*row, *[0] * (width - len(row))] for row in ragged(data, "label")], numbers).reshape(shape),
        parents=np.array(rows(data, "parent", 0), np.int64).reshape(shape),
        scores=np.where(missing, -np.inf, column).reshape(shape),
        parts={name: _scores(_negated(rows(costs, name, 0))).reshape(shape) for name in costs},
    )


def _read_labels(data: Any) -> tuple[Vocab | None, list[int]]:
    """The vocabulary, with numbers in brackets for labels that are not in the data; and the numbers of its labels."""
    numbers = get(data, "numbers", list[int])
    if data.get("texts") is None:
        return None, numbers
    texts = raw_strings(data, "texts")
    pairs = [(number, text) for number, text in zip(numbers, texts, strict=True) if number >= 0]
    size = 1 + max((number for number, text in pairs if text != f"⟨{number}?⟩"), default=-1)
    if size > LARGEST_LABEL:
        raise RunFileError("the number of a label is out of range", got=size - 1, expected=f"up to {LARGEST_LABEL}")
    labels = [f"<{number}?>" for number in range(size)]
    for number, text in pairs:
        if number < size:
            labels[number] = text
    return vocab_with(labels, get(data, "roles", dict)), numbers
