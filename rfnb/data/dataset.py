"""The sequences in HDF files as a data set for torch's DataLoader."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.ground.source import public_function
from rfnb.core.ground.suggestions import did_you_mean, number_of
from rfnb.data.layout import Layout, frames_of, layout_of, opened
from rfnb.errors import DataError
from rfnb.printable import terminal_text


class HdfDataset:
    """Sequences by number or tag, each a dict of arrays and its tag: what `rf.hdf` gives.

    Attributes:
        tags: the names of the sequences, in order.
        streams: by name, what is known of each of their arrays: dtype, dim, whether it is sparse, labels.
    """

    def __init__(self, paths: Sequence[Path], keys: Sequence[str] | None = None):
        self.paths = list(paths)
        self._files: dict[int, Any] = {}
        self._layouts: list[Layout] = []
        for number, path in enumerate(self.paths):
            self._layouts.append(layout_of(self._file(number), path))
        if not self.paths:
            raise DataError(f"{public_function()}: there is no file", expected='rf.hdf("train.hdf")')
        self.streams = self._common(keys)
        self.tags = [tag for layout in self._layouts for tag in layout.tags]
        self._ends = np.cumsum([len(layout.tags) for layout in self._layouts]).tolist()

    def _common(self, keys: Sequence[str] | None) -> dict[str, Any]:
        first = self._layouts[0].streams
        for key in keys or ():
            if key not in first:
                hint = did_you_mean(key, first)
                raise DataError(
                    f"{public_function()}: there is no stream {key!r}", expected=", ".join(first), hint=hint
                )
        chosen = {name: stream for name, stream in first.items() if keys is None or name in keys}
        for path, layout in zip(self.paths, self._layouts, strict=True):
            for name, stream in chosen.items():
                other = layout.streams.get(name)
                if other is None or (other.shape[1:], other.sparse, other.dim) != (
                    stream.shape[1:],
                    stream.sparse,
                    stream.dim,
                ):
                    what = f"{public_function()}: {path} has other streams than {self.paths[0]}"
                    raise DataError(what, got=f"{name!r}: {other}", expected=str(stream))
        return chosen

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int | str) -> dict[str, Any]:
        """A sequence by number or tag: `{"seq_tag": …, "data": array, …}`."""
        if isinstance(number, str):
            number = number_of(number, self.tags, "rf.hdf", DataError)
        wanted = number + len(self) if number < 0 else number
        if not 0 <= wanted < len(self):
            raise IndexError(f"there is no sequence {number}: the data set has {len(self)}")
        part = bisect_right(self._ends, wanted)
        layout = self._layouts[part]
        i = wanted - (self._ends[part - 1] if part else 0)
        found: dict[str, Any] = {"seq_tag": layout.tags[i]}
        for name in self.streams:
            start, end = (int(n) for n in layout.starts[name][i : i + 2])
            found[name] = frames_of(self._file(part), self.paths[part], layout.streams[name], start, end)
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def lengths(self, key: str | None = None) -> np.ndarray:
        """The number of frames of each sequence; key: of which stream, by default the first."""
        key = next(iter(self.streams)) if key is None else key
        if key not in self.streams:
            hint = did_you_mean(key, self.streams)
            raise DataError(f"lengths: there is no stream {key!r}", expected=", ".join(self.streams), hint=hint)
        return np.concatenate([np.diff(layout.starts[key]) for layout in self._layouts])

    def extern_data(self) -> dict[str, dict[str, Any]]:
        """The streams as `rf.ExternData` takes them."""
        found: dict[str, dict[str, Any]] = {}
        for name, stream in self.streams.items():
            dim = stream.dim if stream.dim is not None else (stream.shape[-1] if len(stream.shape) > 1 else None)
            found[name] = {"dim": dim, "sparse": True} if stream.sparse else {"dim": dim}
            if len(stream.shape) != (1 if stream.sparse else 2):
                found[name]["shape"] = (None, *stream.shape[1:])
        return found

    def close(self) -> None:
        """Closes the files; they are opened again when needed."""
        while self._files:
            self._files.popitem()[1].close()

    def __repr__(self) -> str:
        words = {name: ("labels" if s.sparse else s.dtype, s.dim) for name, s in self.streams.items()}
        streams = ", ".join(f"{name}: {kind}{'' if dim is None else f' {dim}'}" for name, (kind, dim) in words.items())
        return terminal_text(f"<HdfDataset: {len(self):,} sequences, {streams}>")

    def _file(self, number: int) -> Any:
        if number not in self._files:
            self._files[number] = opened(self.paths[number])
        return self._files[number]

    def __getstate__(self) -> dict[str, Any]:
        """Without open files: a worker of the DataLoader opens its own."""
        return {**self.__dict__, "_files": {}}


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def hdf(path: Paths, *, keys: Sequence[str] | None = None) -> HdfDataset:
    """The sequences in HDF files, as RETURNN writes them, as a data set for torch's DataLoader.

    >>> with rf.HdfWriter(folder / "train.hdf", dim=3, classes=5) as file:
    ...     for n in (4, 2):
    ...         file.write(f"seq-{n}", np.ones((n, 3), "float32"), classes=np.arange(n))
    >>> data = rf.hdf(folder / "train.hdf")
    >>> data, data[1]["classes"], data.lengths()
    (<HdfDataset: 2 sequences, data: float32 3, classes: labels 5>, array([0, 1], dtype=int32), array([4, 2]))
    >>> data.extern_data()
    {'data': {'dim': 3}, 'classes': {'dim': 5, 'sparse': True}}

    Lengths and tags are read and checked at once, frames when a sequence is asked for.

    Args:
        path: one file, or several whose sequences follow each other.
        keys: the streams to read; "data" is the input, others have the names of targets.

    Raises DataError if a file is of another kind, is cut short, or has lengths that do not add up; if streams of files
    differ; or if h5py is missing, an optional dependency.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    return HdfDataset([Path(each) for each in paths], keys)
