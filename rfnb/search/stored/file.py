"""`found.save("x.rfbeam")` writes a search to one file of arrays and JSON; `rf.search.load` reads it.

The file is untrusted: it is only data, and all of it is checked. Its arrays must fit together, so that nothing that
reads them later can fail."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.errors import RunFileError
from rfnb.search.trace import BY_SEQUENCE, BY_STEP, Candidates, Trace
from rfnb.trace.run.file.fields import MOST, conform, get, raw_strings
from rfnb.trace.run.file.store import TensorReader, TensorWriter, check_format, loaded, saved, versions

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


def trace_of(facts: Any, arrays: Mapping[str, np.ndarray]) -> Trace:
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


def _read(data: Any, arrays: Mapping[str, np.ndarray]) -> Trace:
    check_format(data, FORMAT)

    def array(name: str) -> np.ndarray:
        if name not in arrays:
            raise RunFileError(f"the file has no array {name!r}")
        values = arrays[name]
        return values.astype(np.int64) if values.dtype.kind in "iu" else values

    def parts(key: str, name: str) -> dict[str, np.ndarray]:
        return {part: array(f"{name} {i}") for i, part in enumerate(raw_strings(data, key))}

    pruned = None
    if "pruned labels" in arrays:
        three = {name: array(f"pruned {name}") for name in OF_CANDIDATES}
        pruned = Candidates(**three, parts=parts("parts_of_pruned", "pruned part"))
    labels = None if data.get("labels") is None else raw_strings(data, "labels")
    columns = {name: array(name) for name in (*BY_STEP[:4], *BY_SEQUENCE)}
    more = {name: array(name) for name in (*BY_STEP[4:], "limit") if name in arrays}
    facts: dict[str, Any] = {**columns, **more, **read_facts(data, columns["steps"].size)}
    return Trace(
        **facts,
        vocab=None if labels is None else vocab_with(labels, get(data, "roles", dict)),
        tags=None if data.get("tags") is None else raw_strings(data, "tags"),
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
