"""How an HDF file holds sequences: the frames of all of them one behind the other, their lengths, and their tags.

`inputs` are the frames of the input, which may be missing, `targets/data/…` of other streams, `seqLengths` has a row
for each sequence with the length of the input and of each other stream in the order of their names, `seqTags` the names
of sequences. The attribute `inputPattSize`, and those of `targets/size`, say how many features or labels there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.ground.source import public_function
from rfnb.errors import DataError

INPUT = "data"
"""The name of the input."""


@dataclass(frozen=True)
class DataStream:
    """One of several arrays that each sequence has. place: in the file. dim: how many features, or labels if sparse."""

    place: str
    shape: tuple[int, ...]
    dtype: str
    dim: int | None
    sparse: bool
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """What is in a file. starts: by stream, where each sequence begins, and the end of the last one."""

    streams: dict[str, DataStream]
    starts: dict[str, np.ndarray]
    tags: list[str]


def opened(path: Path) -> Any:
    """The open file. Raises DataError if it cannot be opened, or if h5py is missing."""
    try:
        import h5py
    except ImportError as error:
        what = f"{public_function()}: HDF files need the package h5py"
        raise DataError(what, expected="h5py, an optional dependency", hint='pip install "rfnb[hdf]"') from error
    if not path.is_file():
        raise DataError(f"{public_function()}: {path} does not exist", expected="an HDF file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        got = f"{path.stat().st_size} bytes: {error}"
        raise DataError(
            f"{public_function()}: {path} cannot be read", got=got, expected="a complete HDF file"
        ) from error


def layout_of(file: Any, path: Path) -> Layout:
    """Reads lengths and tags, and checks them. Raises DataError with the first sequence that does not fit."""
    return _reading(path, lambda: _layout(file, path))


def _reading(path: Path, read: Callable[[], Any]) -> Any:
    """Turns errors of h5py into a DataError about the file."""
    try:
        return read()
    except DataError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"{public_function()}: {path} cannot be read"
        raise DataError(what, got=error, expected="a complete HDF file") from error


def _layout(file: Any, path: Path) -> Layout:
    streams = _streams(file)
    if not streams or not all(hasattr(file.get(name), "shape") for name in ("seqLengths", "seqTags")):
        expected = "seqLengths, seqTags, and inputs or streams in targets/data"
        raise _of_another_kind(path, ", ".join(list(file)[:8]) or "an empty file", expected)
    tags = [_text(tag) for tag in file["seqTags"][()]]
    lengths = np.asarray(file["seqLengths"][()])
    lengths = lengths[:, None] if lengths.ndim == 1 else lengths
    if lengths.ndim != 2 or lengths.shape[0] != len(tags) or lengths.dtype.kind not in "iu" or not lengths.shape[1]:
        got = f"{len(tags)} tags, and lengths of shape {lengths.shape}"
        raise DataError(
            f"{public_function()}: {path}: tags and lengths differ", got=got, expected="a length for each tag"
        )
    columns = _columns(file, path, streams, lengths.shape[1])
    starts = {
        name: _starts(path, name, stream, lengths[:, column], tags)
        for (name, stream), column in zip(streams.items(), columns, strict=True)
    }
    return Layout(streams, starts, tags)


def _of_another_kind(path: Path, got: str, expected: str) -> DataError:
    return DataError(f"{public_function()}: {path} is an HDF file of another kind", got=got, expected=expected)


def _columns(file: Any, path: Path, streams: Mapping[str, DataStream], count: int) -> list[int]:
    """The column of lengths of each stream. Columns may also be those of streams that have a size, but no data."""
    sizes = file["targets/size"].attrs if "targets/size" in file else {}
    inputs = [INPUT] if "inputs" in file else []
    for names in (list(streams), [*inputs, *sorted({*file.get("targets/data", {}), *sizes})]):
        if len(names) == count:
            return [names.index(name) for name in streams]
    if not inputs:
        raise _of_another_kind(path, f"{count} lengths of each sequence, without inputs", f"{len(streams)} lengths")
    return [column if column < count else min(1, count - 1) for column in range(len(streams))]


def _streams(file: Any) -> dict[str, DataStream]:
    size = file.attrs.get("inputPattSize")
    found: dict[str, DataStream] = {}
    if "inputs" in file:
        found[INPUT] = _stream(file, "inputs", None if size is None else int(size), None, "labels")
    targets = file.get("targets/data", {})
    sizes = file["targets/size"].attrs if "targets/size" in file else {}
    for name in sorted(targets):
        given = np.atleast_1d(sizes[name]).tolist() if name in sizes else []
        dim, ndim = (int(given[0]), int(given[1])) if len(given) == 2 else (None, None)
        found[name] = _stream(file, f"targets/data/{name}", dim, ndim, f"targets/labels/{name}")
    return found


def _stream(file: Any, place: str, dim: int | None, ndim: int | None, labels: str) -> DataStream:
    data = file[place]
    sparse = ndim == 1 or (ndim is None and data.ndim == 1 and data.dtype.kind in "iu")
    names = tuple(_text(label) for label in file[labels][()]) if labels in file else ()
    known = names if len(names) == dim else ()
    return DataStream(place, tuple(data.shape), data.dtype.name, dim, sparse and data.ndim == 1, known)


def _starts(path: Path, name: str, stream: DataStream, lengths: np.ndarray, tags: list[str]) -> np.ndarray:
    """Where each sequence begins. Raises DataError at the first one that goes beyond the frames that are there."""
    starts = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    frames = stream.shape[0] if stream.shape else 0
    wrong = np.flatnonzero((lengths < 0) | (starts[1:] > frames))
    if len(wrong):
        i = int(wrong[0])
        what = f"{public_function()}: {path}: sequence {i} ({tags[i]!r:.60}) does not fit into {name!r}"
        got = f"{int(lengths[i])} frames from frame {int(starts[i])}"
        raise DataError(what, got=got, expected=f"{frames} frames in all sequences together")
    if starts[-1] != frames:
        what = f"{public_function()}: {path}: the lengths of {name!r} do not add up"
        last = f"after sequence {len(tags) - 1} ({tags[-1]!r:.60})" if tags else "without sequences"
        raise DataError(what, got=f"{int(starts[-1])} frames {last}", expected=f"{frames} frames, which are there")
    return starts


def frames_of(file: Any, path: Path, stream: DataStream, start: int, end: int) -> np.ndarray:
    """Some frames of a stream."""
    array: np.ndarray = _reading(path, lambda: np.asarray(file[stream.place][start:end]))
    return array


def _text(given: Any) -> str:
    """The text of a name, which ends at the first NUL."""
    text = given.decode("utf-8", errors="replace") if isinstance(given, bytes) else str(given)
    return text.partition("\0")[0]
