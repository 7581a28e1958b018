"""Searches as data: `found.save("x.rfbeam")` writes arrays and JSON to one file, which `rf.search.load` reads; and the
tree of one sequence as JSON: columns by step, small enough to stand in a page.

Both are untrusted: they are only data, and all of it is checked. The arrays must fit together, so that nothing that
reads them later can fail.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.errors import RunFileError
from rfnb.search.trace import BY_SEQUENCE, BY_STEP, Candidates, Trace
from rfnb.trace.run.file.fields import MOST, Text, conform, count, get, reading, within
from rfnb.trace.run.file.store import TensorReader, TensorWriter, check_format, loaded, saved, versions

if TYPE_CHECKING:
    from rfnb.search.tree import Tree

FORMAT = 1
"""Version of the format, increased when the meaning of an entry changes."""

KEY = "rfnb.search"
"""Key of the JSON in the metadata of the file."""

ENDING = ".rfbeam"

OF_CANDIDATES = ("labels", "parents", "scores")


def write(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Writes the file. Raises RunFileError if the ending is another one, or the folder does not exist."""
    path = Path(path)
    if path.suffix != ENDING:
        raise RunFileError("save: a search has another ending", got=repr(path.name), expected=f'"x{ENDING}"')
    return saved(path, lambda path: _write(trace, path))


def _write(trace: Trace, path: Path) -> None:
    facts, arrays = parts_of(trace)
    file = TensorWriter()
    for name, array in arrays.items():
        file.array(array, name)
    file.write(path, KEY, facts)


def parts_of(trace: Trace) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """The search as JSON and arrays, from which `trace_of` makes it again."""
    return _facts(trace), {name: _small(array) for name, array in _arrays(trace).items()}


def trace_of(facts: object, arrays: Mapping[str, np.ndarray]) -> Trace:
    """The search of JSON and arrays. Raises RunFileError if they are not valid."""
    return checked(_read(facts, arrays))


def _arrays(trace: Trace) -> dict[str, np.ndarray]:
    """All arrays by name; entries after the steps of a sequence are 0."""
    valid = np.arange(len(trace.labels))[:, None, None] < trace.steps[:, None]

    def clean(array: np.ndarray) -> np.ndarray:
        return np.where(valid, array, array.dtype.type(0))

    arrays = {name: getattr(trace, name) for name in (*BY_STEP, *BY_SEQUENCE, "limit")}
    arrays = {name: clean(array) if name in BY_STEP else array for name, array in arrays.items() if array is not None}
    arrays |= {f"part {i}": clean(part) for i, part in enumerate(trace.parts.values())}
    if trace.pruned is not None:
        arrays |= {f"pruned {name}": clean(getattr(trace.pruned, name)) for name in OF_CANDIDATES}
        arrays |= {f"pruned part {i}": clean(part) for i, part in enumerate(trace.pruned.parts.values())}
    return arrays


def _small(array: np.ndarray) -> np.ndarray:
    """The array with the smallest integers that hold it."""
    if array.dtype.kind not in "iu":
        return array
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(max(high, 0) * 2)))


class Facts(TypedDict):
    """Fields of a Trace that a file has as they are. The first files did not have the last three."""

    include_eos: bool
    framewise: bool
    blank: int | None
    length_normalization_exponent: float
    length_normalization_offset: float
    living: int | None
    stops: bool
    sampled: bool


LATER = {"living": None, "stops": False, "sampled": False}


def facts_of(trace: Trace) -> dict[str, object]:
    """What is known of a search, apart from its arrays and labels, as JSON."""
    values = {name: getattr(trace, name) for name in Facts.__annotations__}
    end = trace.end_label
    prompts = {} if trace.prompts is None else {"prompts": [[int(label) for label in row] for row in trace.prompts]}
    return {
        "format": FORMAT,
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()},
        "end_label": end if end is None or isinstance(end, int) else np.asarray(end).tolist(),
        "scales": {name: float(scale) for name, scale in trace.scales.items()},
        **prompts,
    }


def read_facts(data: Any, batch: int) -> dict[str, Any]:
    """The fields of a Trace that `facts_of` has written, for so many sequences."""
    ends = get(data, "end_label", int | tuple[int, ...] | None)
    scales = {name: float(conform(scale, float, name)) for name, scale in get(data, "scales", dict).items()}
    prompts = _prompts(data, batch) if "prompts" in data else None
    facts = conform(LATER | data, Facts, "facts")
    return {**facts, "end_label": ends, "scales": scales, "prompts": prompts, "why_not": FROM_FILE}


def _prompts(data: object, batch: int) -> tuple[tuple[int, ...], ...]:
    """The labels before the first step. Raises RunFileError if they are not those of `batch` sequences."""
    rows: list[tuple[int, ...]] = get(data, "prompts", list[tuple[int, ...]])
    if len(rows) != batch:
        raise RunFileError("the file does not have a prompt for each sequence", got=len(rows), expected=batch)
    return tuple(rows)


def _facts(trace: Trace) -> dict[str, object]:
    vocab = trace.vocab
    return {
        **facts_of(trace),
        "versions": versions(),
        "tags": None if trace.tags is None else list(trace.tags),
        "labels": None if vocab is None else [str(vocab.decode(number)) for number in range(len(vocab))],
        "roles": {} if vocab is None else roles_of(vocab),
        "parts": list(trace.parts),
        "parts_of_pruned": [] if trace.pruned is None else list(trace.pruned.parts),
    }


def read(path: str | os.PathLike[str]) -> Trace:
    """Reads the search in a file. Raises RunFileError if it does not exist, or does not contain a readable search."""
    return loaded(path, "load", f'a file of found.save("x{ENDING}")', _content)


def _content(path: Path) -> Trace:
    file = TensorReader(path, KEY, "the file contains arrays, but not a search", FORMAT)
    return trace_of(file.data, {name: file.array(name) for name in file.tensors})


def _read(data: object, arrays: Mapping[str, np.ndarray]) -> Trace:
    check_format(data, FORMAT)

    def array(name: str) -> np.ndarray:
        if name not in arrays:
            raise RunFileError(f"the file has no array {name!r}")
        values = arrays[name]
        return values.astype(np.int64) if values.dtype.kind in "iu" else values

    def parts(key: str, name: str) -> dict[str, np.ndarray]:
        return {part: array(f"{name} {i}") for i, part in enumerate(get(data, key, list[Text]))}

    pruned = None
    if "pruned labels" in arrays:
        three = {name: array(f"pruned {name}") for name in OF_CANDIDATES}
        pruned = Candidates(**three, parts=parts("parts_of_pruned", "pruned part"))
    labels = get(data, "labels", list[Text] | None)
    columns = {name: array(name) for name in (*BY_STEP[:4], *BY_SEQUENCE)}
    optional = {name: array(name) for name in (*BY_STEP[4:], "limit") if name in arrays}
    facts: dict[str, Any] = {**columns, **optional, **read_facts(data, columns["steps"].size)}
    return Trace(
        **facts,
        vocab=None if labels is None else vocab_with([*labels], get(data, "roles", dict)),
        tags=get(data, "tags", list[Text] | None),
        parts=parts("parts", "part"),
        pruned=pruned,
    )


FROM_FILE = "it was read from a file"
"""Why the steps of such a search cannot be computed again."""


KINDS = {"labels": "i", "parents": "i", "scores": "f", "ended": "b", "ends": "b", "joined": "i", "entropies": "f"}
KINDS |= {"final_scores": "f", "lengths": "i", "complete": "b", "steps": "i", "limit": "i"}
"""The kinds of the dtypes of arrays."""


def checked(trace: Trace) -> Trace:
    """The trace. Raises RunFileError if shapes or dtypes do not fit, or a number refers to a missing place."""
    if trace.labels.ndim != 3 or max(trace.labels.shape) > MOST:
        raise RunFileError("the labels in the file have the wrong shape", got=trace.labels.shape)
    steps, batch, beam = trace.labels.shape
    by_step, by_place = (steps, batch, beam), (batch, beam)
    limits = {"parents": beam, "lengths": steps + 1, "steps": steps + 1}
    forms = {
        **dict.fromkeys(BY_STEP, by_step),
        **dict.fromkeys(BY_SEQUENCE, by_place),
        "steps": (batch,),
        "limit": (batch,),
    }
    for name, shape in forms.items():
        _fits(name, getattr(trace, name), shape, KINDS[name], limits.get(name))
    _fits("joined", None if trace.joined is None else trace.joined + 1, by_step, "i", beam + 1)
    _parts(trace.parts, by_step)
    if trace.pruned is not None:
        width = trace.pruned.labels.shape[-1] if trace.pruned.labels.ndim else 0
        for name in OF_CANDIDATES:
            array = getattr(trace.pruned, name)
            _fits(f"{name} of pruned candidates", array, (steps, batch, width), KINDS[name], limits.get(name))
        _parts(trace.pruned.parts, (steps, batch, width))
    if trace.tags is not None and len(trace.tags) != batch:
        raise RunFileError(
            "the file does not have a tag for each sequence", got=len(trace.tags), expected=f"{batch} tags"
        )
    offset = trace.length_normalization_offset
    if not np.isfinite([trace.length_normalization_exponent, offset, *trace.scales.values()]).all() or offset < 0:
        raise RunFileError("a scale in the file is not a finite number")
    if trace.living is not None and not 1 <= trace.living <= beam:
        raise RunFileError("the number of places of a beam is out of range", got=trace.living, expected=f"1 to {beam}")
    return trace


def _parts(parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
    for part in parts.values():
        _fits("scores of a scorer", part, shape, "f")


def _fits(name: str, array: np.ndarray | None, shape: tuple[int, ...], kind: str, below: int | None = None) -> None:
    """Raises RunFileError for another shape or kind, or, with `below`, a number outside of 0 … below − 1."""
    if array is None:
        return
    if array.shape != shape or array.dtype.kind != kind or max(shape) > MOST:
        raise RunFileError(f"{name} in the file: wrong shape or dtype", got=array.shape, expected=shape)
    if below is not None and array.size and not 0 <= int(array.min()) <= int(array.max()) < below:
        raise RunFileError(f"{name} in the file: a number is out of range", expected=f"0 to {below - 1}")


SPECIAL = {"bos_label": "bos_id", "eos_label": "eos_id", "unknown_label": "unk_id"}
"""The labels with a role that are kept beside the texts, by argument and attribute of a Vocab."""


def roles_of(vocab: Vocab) -> dict[str, int]:
    """The labels of a vocabulary that have a role."""
    labels = {name: getattr(vocab, attribute) for name, attribute in SPECIAL.items()}
    return {name: label for name, label in labels.items() if label is not None and 0 <= label < len(vocab)}


def vocab_with(labels: list[str], roles: Mapping[str, int]) -> Vocab:
    """The vocabulary of these labels, with roles as `roles_of` gives them."""
    if not set(roles) <= set(SPECIAL) or not all(type(n) is int and 0 <= n < len(labels) for n in roles.values()):
        raise RunFileError("the labels with a role in the file are not valid")
    return Vocab.create_vocab_from_labels(labels, **dict(roles))  # type: ignore[arg-type]


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
        return checked(_read_columns(data))


def _read_columns(data: Any) -> Trace:
    check_format(data, FORMAT, "the data")
    steps, beam = count(data, "steps"), count(data, "beam")
    columns, final, tag = get(data, "columns", dict), get(data, "final", dict), get(data, "tag", Text | None)
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
        tags=None if tag is None else [tag],
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

    def rows(source: object, name: str, filler: float | None) -> Rows:
        sizes = [len(row) for row in data["label"]]
        column = ragged(source, name)
        if [len(row) for row in column] != sizes:
            raise RunFileError(f"the column {name!r} has the wrong size")
        return [[*row, *[filler] * (width - len(row))] for row in column]

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


def _read_labels(data: object) -> tuple[Vocab | None, list[int]]:
    """The vocabulary, with numbers in brackets for labels that are not in the data; and the numbers of its labels."""
    numbers = get(data, "numbers", list[int])
    texts = get(data, "texts", list[Text] | None)
    if texts is None:
        return None, numbers
    pairs = [(number, text) for number, text in zip(numbers, texts, strict=True) if number >= 0]
    size = 1 + max((number for number, text in pairs if text != f"⟨{number}?⟩"), default=-1)
    if size > LARGEST_LABEL:
        raise RunFileError("the number of a label is out of range", got=size - 1, expected=f"up to {LARGEST_LABEL}")
    labels = [f"<{number}?>" for number in range(size)]
    for number, text in pairs:
        if number < size:
            labels[number] = text
    return vocab_with(labels, get(data, "roles", dict)), numbers
