"""`found.save("x.rfbeam")` writes a search to one file of arrays and JSON; `rf.search.load` reads it.

The file is untrusted: it is only data, and all of it is checked. Its arrays must fit together, so that nothing that
reads them later can fail."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.vocab import Vocab
from rfnb.errors import RfError, RunFileError
from rfnb.search.trace import BY_SEQUENCE, BY_STEP, Candidates, Trace
from rfnb.trace.run.file.fields import MOST, get, list_of, of_type, optional, raw_strings
from rfnb.trace.run.file.save import versions

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
    if not path.parent.is_dir():
        raise RunFileError(f"save: there is no folder {path.parent}")
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    facts, arrays = parts_of(trace)
    try:
        with replacing(path) as unfinished:
            save_file(arrays, unfinished, {KEY: json.dumps(facts)})
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error, RunFileError) from error
    return path


def parts_of(trace: Trace) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The search as JSON and arrays, from which `trace_of` makes it again."""
    return _facts(trace), {name: np.ascontiguousarray(_small(array)) for name, array in _arrays(trace).items()}


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


def ends_of(trace: Trace) -> int | list[int] | None:
    """The label that ends hypotheses, or several."""
    end = trace.end_label
    return None if end is None else int(end) if isinstance(end, int | np.integer) else [int(label) for label in end]


def read_ends(data: Any) -> int | tuple[int, ...] | None:
    """What `ends_of` gave."""
    ends = optional(data, "end_label", (int, list))
    return tuple(of_type(end, int, "end_label") for end in ends) if isinstance(ends, list) else ends


def _facts(trace: Trace) -> dict[str, Any]:
    vocab = trace.vocab
    return {
        "format": FORMAT,
        "versions": versions(),
        "include_eos": bool(trace.include_eos),
        "framewise": bool(trace.framewise),
        "end_label": ends_of(trace),
        **prompts_in(trace),
        "blank": None if trace.blank is None else int(trace.blank),
        "length_normalization_exponent": float(trace.length_normalization_exponent),
        "length_normalization_offset": float(trace.length_normalization_offset),
        "living": None if trace.living is None else int(trace.living),
        "stops": bool(trace.stops),
        "sampled": bool(trace.sampled),
        "tags": None if trace.tags is None else list(trace.tags),
        "labels": None if vocab is None else [str(vocab.decode(number)) for number in range(len(vocab))],
        "roles": {} if vocab is None else roles_of(vocab),
        "parts": list(trace.parts),
        "parts_of_pruned": [] if trace.pruned is None else list(trace.pruned.parts),
        "scales": {name: float(scale) for name, scale in trace.scales.items()},
    }


def read(path: str | os.PathLike[str]) -> Trace:
    """Reads the search in a file. Raises RunFileError if it does not exist, or does not contain a readable search."""
    path = Path(path)
    if not path.is_file():
        raise RunFileError(f"load: there is no file {path}", hint=_beside(path))
    try:
        return trace_of(*_content(path))
    except RunFileError as error:
        facts = " ".join(str(fact) for fact in (error.got, error.expected and f"expected {error.expected}") if fact)
        raise _unreadable(path, f"{error.what}: {facts}" if facts else error.what) from error
    except RfError as error:
        raise _unreadable(path, error.what) from error
    except Exception as error:  # a damaged file can cause any error
        raise _unreadable(path, f"{type(error).__name__}: {error}"[:200]) from error


def _unreadable(path: Path, why: str) -> RunFileError:
    return RunFileError(f"load: {path} cannot be read", got=why, expected=f'a file of found.save("x{ENDING}")')


def _beside(path: Path) -> str | None:
    """A hint with the files of searches in the same folder."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    names = sorted(file.name for file in path.parent.glob(f"*{ENDING}"))[:5]
    return f"in that folder: {', '.join(names)}" if names else None


def _content(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    if KEY not in metadata:
        raise RunFileError("the file contains arrays, but not a search")
    return json.loads(metadata[KEY]), arrays


def _read(data: Any, arrays: Mapping[str, np.ndarray]) -> Trace:
    if get(data, "format", int) != FORMAT:
        raise RunFileError("the file was written by another version of rfnb", got=data["format"], expected=FORMAT)

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
    columns: dict[str, Any] = {name: array(name) for name in (*BY_STEP[:4], *BY_SEQUENCE)}
    return Trace(
        **columns,
        include_eos=get(data, "include_eos", bool),
        vocab=None if labels is None else vocab_with(labels, get(data, "roles", dict)),
        tags=None if data.get("tags") is None else raw_strings(data, "tags"),
        length_normalization_exponent=float(get(data, "length_normalization_exponent", (int, float))),
        length_normalization_offset=float(get(data, "length_normalization_offset", (int, float))),
        parts=parts("parts", "part"),
        scales={name: float(of_type(scale, (int, float), name)) for name, scale in get(data, "scales", dict).items()},
        pruned=pruned,
        ends=array("ends") if "ends" in arrays else None,
        limit=array("limit") if "limit" in arrays else None,
        framewise=get(data, "framewise", bool),
        end_label=read_ends(data),
        prompts=read_prompts(data, arrays["steps"].size if "steps" in arrays else 0),
        why_not=FROM_FILE,
        blank=optional(data, "blank", int),
        joined=array("joined") if "joined" in arrays else None,
        entropies=array("entropies") if "entropies" in arrays else None,
        living=optional({"living": None} | data, "living", int),
        stops=get({"stops": False} | data, "stops", bool),
        sampled=get({"sampled": False} | data, "sampled", bool),
    )


def prompts_in(trace: Trace) -> dict[str, Any]:
    """The prompts of a search as JSON, if it has some."""
    prompts = trace.prompts
    return {} if prompts is None else {"prompts": [[int(label) for label in row] for row in prompts]}


def read_prompts(data: Any, batch: int) -> tuple[tuple[int, ...], ...] | None:
    """The prompts in `data`, if there are some. Raises RunFileError if they are not those of `batch` sequences."""
    if "prompts" not in data:
        return None
    rows = list_of(data, "prompts", list)
    if len(rows) != batch:
        raise RunFileError("the file does not have a prompt for each sequence", got=len(rows), expected=batch)
    return tuple(tuple(list_of({"prompt": row}, "prompt", int)) for row in rows)


FROM_FILE = "it was read from a file"
"""Why the steps of such a search cannot be computed again."""


def checked(trace: Trace) -> Trace:
    """The trace. Raises RunFileError if shapes or dtypes do not fit, or a number refers to a missing place."""
    if trace.labels.ndim != 3 or max(trace.labels.shape) > MOST:
        raise RunFileError("the labels in the file have the wrong shape", got=trace.labels.shape)
    steps, batch, beam = trace.labels.shape
    by_step, by_place = (steps, batch, beam), (batch, beam)
    _fits("labels", trace.labels, by_step, "i")
    _fits("parents", trace.parents, by_step, "i", beam)
    _fits("scores", trace.scores, by_step, "f")
    _fits("ended", trace.ended, by_step, "b")
    _fits("final_scores", trace.final_scores, by_place, "f")
    _fits("lengths", trace.lengths, by_place, "i", steps + 1)
    _fits("complete", trace.complete, by_place, "b")
    _fits("steps", trace.steps, (batch,), "i", steps + 1)
    _fits("ends", trace.ends, by_step, "b")
    _fits("limit", trace.limit, (batch,), "i")
    _fits("joined", None if trace.joined is None else trace.joined + 1, by_step, "i", beam + 1)
    _fits("entropies", trace.entropies, by_step, "f")
    _parts(trace.parts, by_step)
    if trace.pruned is not None:
        _candidates(trace.pruned, by_step)
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


def _candidates(pruned: Candidates, shape: tuple[int, int, int]) -> None:
    steps, batch, beam = shape
    shape = (steps, batch, pruned.labels.shape[-1] if pruned.labels.ndim else 0)
    _fits("labels of pruned candidates", pruned.labels, shape, "i")
    _fits("parents of pruned candidates", pruned.parents, shape, "i", beam)
    _fits("scores of pruned candidates", pruned.scores, shape, "f")
    _parts(pruned.parts, shape)


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
