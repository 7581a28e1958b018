"""Sequences in HDF files as a data set for torch's DataLoader, in batches of similar length; a writer of such files."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from rfnb.core.ground.atomic import replacing
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean, number_of
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DataError
from rfnb.printable import terminal_text

INPUT = "data"
"""The name of the input."""


T = TypeVar("T")


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
        problem = f"{public_function()}: HDF files need the package h5py"
        raise DataError(problem, expected="h5py, an optional dependency", hint='pip install "rfnb[hdf]"') from error
    if not path.is_file():
        raise DataError(f"{public_function()}: {path} does not exist", expected="an HDF file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        got = f"{path.stat().st_size} bytes: {error}"
        raise DataError(
            f"{public_function()}: {path} cannot be read", got=got, expected="a complete HDF file"
        ) from error


def layout_of(file: object, path: Path) -> Layout:
    """Reads lengths and tags, and checks them. Raises DataError with the first sequence that does not fit."""
    return _reading(path, lambda: _layout(file, path))


def _reading(path: Path, read: Callable[[], T]) -> T:
    """Turns errors of h5py into a DataError about the file."""
    try:
        return read()
    except DataError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        problem = f"{public_function()}: {path} cannot be read"
        raise DataError(problem, got=error, expected="a complete HDF file") from error


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
    streams: dict[str, DataStream] = {}
    if "inputs" in file:
        streams[INPUT] = _stream(file, "inputs", None if size is None else int(size), None, "labels")
    targets = file.get("targets/data", {})
    sizes = file["targets/size"].attrs if "targets/size" in file else {}
    for name in sorted(targets):
        numbers = np.atleast_1d(sizes[name]).tolist() if name in sizes else []
        dim, ndim = (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else (None, None)
        streams[name] = _stream(file, f"targets/data/{name}", dim, ndim, f"targets/labels/{name}")
    return streams


def _stream(file: Any, place: str, dim: int | None, ndim: int | None, labels: str) -> DataStream:
    data = file[place]
    sparse = ndim == 1 or (ndim is None and data.ndim == 1 and data.dtype.kind in "iu")
    names = tuple(_text(label) for label in file[labels][()]) if labels in file else ()
    vocab = names if len(names) == dim else ()
    return DataStream(place, tuple(data.shape), data.dtype.name, dim, sparse and data.ndim == 1, vocab)


def _starts(path: Path, name: str, stream: DataStream, lengths: np.ndarray, tags: list[str]) -> np.ndarray:
    """Where each sequence begins. Raises DataError at the first one that goes beyond the frames that are there."""
    starts = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    frames = stream.shape[0] if stream.shape else 0
    wrong = np.flatnonzero((lengths < 0) | (starts[1:] > frames))
    if len(wrong):
        i = int(wrong[0])
        problem = f"{public_function()}: {path}: sequence {i} ({tags[i]!r:.60}) does not fit into {name!r}"
        got = f"{int(lengths[i])} frames from frame {int(starts[i])}"
        raise DataError(problem, got=got, expected=f"{frames} frames in all sequences together")
    if starts[-1] != frames:
        problem = f"{public_function()}: {path}: the lengths of {name!r} do not add up"
        place = f"after sequence {len(tags) - 1} ({tags[-1]!r:.60})" if tags else "without sequences"
        raise DataError(problem, got=f"{int(starts[-1])} frames {place}", expected=f"{frames} frames, which are there")
    return starts


def frames_of(file: Any, path: Path, stream: DataStream, start: int, end: int) -> np.ndarray:
    """Some frames of a stream."""
    return _reading(path, lambda: np.asarray(file[stream.place][start:end]))


def _text(given: object) -> str:
    """The text of a name, which ends at the first NUL."""
    text = given.decode("utf-8", errors="replace") if isinstance(given, bytes) else str(given)
    return text.partition("\0")[0]


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

    def _common(self, keys: Sequence[str] | None) -> dict[str, DataStream]:
        reference = self._layouts[0].streams
        for key in keys or ():
            if key not in reference:
                hint = did_you_mean(key, reference)
                raise DataError(
                    f"{public_function()}: there is no stream {key!r}", expected=", ".join(reference), hint=hint
                )
        streams = {name: stream for name, stream in reference.items() if keys is None or name in keys}
        for path, layout in zip(self.paths, self._layouts, strict=True):
            for name, stream in streams.items():
                twin = layout.streams.get(name)
                if twin is None or (twin.shape[1:], twin.sparse, twin.dim) != (
                    stream.shape[1:],
                    stream.sparse,
                    stream.dim,
                ):
                    problem = f"{public_function()}: {path} has other streams than {self.paths[0]}"
                    raise DataError(problem, got=f"{name!r}: {twin}", expected=str(stream))
        return streams

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int | str) -> dict[str, Any]:
        """A sequence by number or tag: `{"seq_tag": …, "data": array, …}`."""
        if isinstance(number, str):
            number = number_of(number, self.tags, "rf.hdf", DataError)
        position = number + len(self) if number < 0 else number
        if not 0 <= position < len(self):
            raise IndexError(f"there is no sequence {number}: the data set has {len(self)}")
        part = bisect_right(self._ends, position)
        layout = self._layouts[part]
        i = position - (self._ends[part - 1] if part else 0)
        sequence: dict[str, Any] = {"seq_tag": layout.tags[i]}
        for name in self.streams:
            start, end = (int(n) for n in layout.starts[name][i : i + 2])
            sequence[name] = frames_of(self._file(part), self.paths[part], layout.streams[name], start, end)
        return sequence

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def lengths(self, key: str | None = None) -> np.ndarray:
        """The number of frames of each sequence; key: of which stream, by default the first."""
        key = next(iter(self.streams)) if key is None else key
        if key not in self.streams:
            hint = did_you_mean(key, self.streams)
            raise DataError(f"lengths: there is no stream {key!r}", expected=", ".join(self.streams), hint=hint)
        return np.concatenate([np.diff(layout.starts[key]) for layout in self._layouts])

    def extern_data(self) -> dict[str, dict[str, object]]:
        """The streams as `rf.ExternData` takes them."""
        options: dict[str, dict[str, object]] = {}
        for name, stream in self.streams.items():
            dim = stream.dim if stream.dim is not None else (stream.shape[-1] if len(stream.shape) > 1 else None)
            options[name] = {"dim": dim, "sparse": True} if stream.sparse else {"dim": dim}
            if len(stream.shape) != (1 if stream.sparse else 2):
                options[name]["shape"] = (None, *stream.shape[1:])
        return options

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

    def __getstate__(self) -> dict[str, object]:
        """Without open files: a worker of the DataLoader opens its own."""
        return {**self.__dict__, "_files": {}}


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@guarded
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
    return HdfDataset([Path(file) for file in paths], keys)


class FrameBatches:
    """Numbers of sequences in batches of at most `max_frames` frames, padding included: a `batch_sampler`.

    >>> batches = rf.FrameBatches([3, 9, 4, 8, 2], max_frames=12, shuffle=False)
    >>> list(batches), len(batches)
    ([[4, 0, 2], [3], [1]], 3)
    >>> loader = torch.utils.data.DataLoader(range(5), batch_sampler=batches, collate_fn=list)
    >>> next(iter(loader))
    [4, 0, 2]

    The sequences are shuffled and cut into buckets; those of a bucket are sorted by length and cut into batches, which
    are shuffled again. `set_epoch(n)` gives another order; the same epoch is always the same. A sequence that is longer
    than `max_frames` is a batch of its own. With torch.distributed, each process gets its share of the batches, all
    processes as many: some of the first are repeated at the end.

    Args:
        lengths: of all sequences: `rf.hdf(…).lengths()`.
        max_seqs: the largest number of sequences in a batch.
        shuffle: without it, there is one bucket, and batches are in the order of their lengths.
        bucket: the number of sequences that are sorted together.
        seed: of the order.
        rank, world_size: of this process, and the number of processes; by default those of torch.distributed.

    Raises DataError if a limit is below 1, or a length below 0.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        *,
        max_frames: int,
        max_seqs: int | None = None,
        shuffle: bool = True,
        bucket: int = 1000,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ):
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1 or (self.lengths.size and (self.lengths.dtype.kind not in "iu" or min(lengths) < 0)):
            got = f"{self.lengths.dtype} {self.lengths.shape}"
            raise DataError(
                "FrameBatches: `lengths` are not the lengths of sequences", got=got, expected="whole numbers"
            )
        for name, limit in (("max_frames", max_frames), ("max_seqs", max_seqs), ("bucket", bucket)):
            if limit is not None and limit < 1:
                raise DataError(f"FrameBatches: `{name}` is below 1", got=limit)
        ours = _process() if rank is None or world_size is None else (rank, world_size)
        self.rank, self.world_size = (
            number if number is not None else default for number, default in zip((rank, world_size), ours, strict=True)
        )
        if not 0 <= self.rank < self.world_size:
            got = f"rank={self.rank}, world_size={self.world_size}"
            raise DataError("FrameBatches: this process is none of them", got=got, expected="0 ≤ rank < world_size")
        self.max_frames, self.max_seqs, self.shuffle, self.bucket = max_frames, max_seqs, shuffle, bucket
        self.seed, self.epoch = seed, 0
        self._made: tuple[int, list[list[int]]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter([list(batch) for batch in self._batches()])

    def __len__(self) -> int:
        return len(self._batches())

    def _batches(self) -> list[list[int]]:
        """The batches of this process."""
        if self._made is None or self._made[0] != self.epoch:
            batches = self._of_all()
            batches += [batches[i % len(batches)] for i in range(-len(batches) % self.world_size)]
            self._made = self.epoch, batches[self.rank :: self.world_size]
        return self._made[1]

    def _of_all(self) -> list[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        number = len(self.lengths)
        order = random.permutation(number) if self.shuffle else np.arange(number)
        size = self.bucket if self.shuffle else max(number, 1)
        batches: list[list[int]] = []
        for start in range(0, number, size):
            part = order[start : start + size]
            batches += self._cut(part[np.argsort(self.lengths[part], kind="stable")].tolist())
        return [batches[i] for i in random.permutation(len(batches))] if self.shuffle else batches

    def _cut(self, numbers: list[int]) -> list[list[int]]:
        """Batches of sequences that are sorted by length."""
        batches: list[list[int]] = []
        for number in numbers:
            size = len(batches[-1]) + 1 if batches else 1
            full = size * int(self.lengths[number]) > self.max_frames or size > (self.max_seqs or size)
            if not batches or full:
                batches.append([])
            batches[-1].append(number)
        return batches


def _process() -> tuple[int, int]:
    """The rank of this process, and the number of processes."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class HdfWriter:
    """An HDF file that is written sequence by sequence; it appears under its name when the `with` block ends.

    >>> with rf.HdfWriter(folder / "posteriors.hdf", dim=2, align=4) as file:
    ...     file.write("seq-0", np.ones((3, 2), "float32"), align=[0, 3, 3])
    >>> rf.hdf(folder / "posteriors.hdf")["seq-0"]["align"].tolist()
    [0, 3, 3]

    Args:
        path: an existing file is replaced when the new one is complete.
        dim: the number of features of the input, or of labels if it has no feature axis.
        labels: the names of the labels of the input.
        streams: by name, the number of features or labels of each other stream.

    Raises DataError if a sequence does not fit to those before, or if h5py is missing.
    """

    def __init__(self, path: str | os.PathLike[str], *, dim: int, labels: list[str] | None = None, **streams: int):
        try:
            import h5py
        except ImportError as error:
            raise DataError("HdfWriter: HDF files need the package h5py", hint='pip install "rfnb[hdf]"') from error
        self.path = Path(path)
        self.dims = {INPUT: dim, **dict(sorted(streams.items()))}
        self._labels = labels
        self._text, self._open = h5py.string_dtype(), h5py.File
        self._tags: list[str] = []
        self._lengths: list[list[int]] = []
        self._stack: ExitStack | None = None
        self._file: Any = None

    def __enter__(self) -> HdfWriter:
        if not self.path.parent.is_dir():
            raise DataError(f"HdfWriter: the folder {self.path.parent} does not exist")
        self._stack = ExitStack()
        unfinished = self._stack.enter_context(replacing(self.path))
        self._file = self._stack.enter_context(self._open(unfinished, "w"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        with self._stack:  # which removes the unfinished file if there is an error
            file, self._file = self._file, None
            if error is not None:
                raise error
            self._finish(file)

    def write(self, tag: str, data: object, **streams: object) -> None:
        """Adds a sequence: the array of the input, with its frames first, and those of all other streams."""
        if self._file is None:
            raise DataError("HdfWriter: the file is not open", hint='with rf.HdfWriter("x.hdf", dim=…) as file:')
        values = {INPUT: data, **streams}
        if set(values) != set(self.dims):
            raise DataError(
                f"HdfWriter: {tag!r:.60} has other streams", got=", ".join(values), expected=", ".join(self.dims)
            )
        arrays = {name: self._array(tag, name, values[name]) for name in self.dims}
        for name, array in arrays.items():
            self._append(name, array)
        self._tags.append(str(tag))
        self._lengths.append([len(array) for array in arrays.values()])

    def write_batch(self, tags: list[str], data: Tensor, **streams: Tensor) -> None:
        """Adds the sequences of a batch, each without its padding. data, streams: {batch, time, …}"""
        parts = {name: _sequences(x) for name, x in {INPUT: data, **streams}.items()}
        for name, sequences in parts.items():
            if len(sequences) != len(tags):
                raise DataError(f"HdfWriter: {len(tags)} tags for {len(sequences)} sequences of {name!r}")
        for i, tag in enumerate(tags):
            arrays = {name: sequences[i] for name, sequences in parts.items()}
            self.write(tag, arrays.pop(INPUT), **arrays)

    def _array(self, tag: str, name: str, given: object) -> np.ndarray:
        array = np.asarray(given)
        labels = array.dtype.kind in "iub" or (array.ndim == 1 and not array.size)
        dim, words = self.dims[name], f"HdfWriter: {name!r} of {tag!r:.60}"
        if array.dtype.kind not in "fiub":
            raise DataError(words, got=array.dtype, expected="numbers")
        array = array.astype("int32" if labels else "float32")
        if not array.ndim or (array.ndim > 1 and array.shape[-1] != dim):
            raise DataError(words, got=f"shape {array.shape}", expected=f"{{frames}} labels, or {{frames, {dim}}}")
        if array.ndim == 1 and array.dtype.kind == "i" and array.size and not 0 <= array.min() <= array.max() < dim:
            raise DataError(words, got=f"labels {array.min()} to {array.max()}", expected=f"labels from 0 to {dim - 1}")
        old = self._file.get(_place(name))
        if old is not None and (old.shape[1:], old.dtype) != (array.shape[1:], array.dtype):
            got = f"{array.dtype} {array.shape[1:]}"
            raise DataError(words, got=got, expected=f"{old.dtype} {old.shape[1:]}, as in those before")
        return array

    def _append(self, name: str, array: np.ndarray) -> None:
        place = _place(name)
        if place not in self._file:
            shape = {"shape": (0, *array.shape[1:]), "maxshape": (None, *array.shape[1:])}
            self._file.create_dataset(place, dtype=array.dtype, chunks=True, **shape)
        stored = self._file[place]
        stored.resize(len(stored) + len(array), axis=0)
        stored[len(stored) - len(array) :] = array

    def _finish(self, file: Any) -> None:
        names = list(self.dims)
        for name in names:
            if _place(name) not in file:
                file.create_dataset(_place(name), shape=(0,), dtype="int32")
        lengths = np.array(self._lengths, "int32").reshape(len(self._tags), len(names))
        file["seqLengths"] = lengths if len(names) > 1 else np.concatenate([lengths, np.zeros_like(lengths)], axis=1)
        file.create_dataset("seqTags", data=self._tags, dtype=self._text, shape=(len(self._tags),))
        labels = [label.encode() for label in self._labels or []]
        file["labels"] = np.array(labels, dtype=f"S{max(map(len, labels), default=5)}")
        attributes = {"inputPattSize": self.dims[INPUT], "numLabels": self.dims[INPUT], "numDims": 1}
        attributes |= {"numSeqs": len(self._tags), "numTimesteps": int(lengths[:, 0].sum())}
        file.attrs.update(attributes)
        sizes = file.create_group("targets/size")
        for name in names[1:]:
            sizes.attrs[name] = np.array([self.dims[name], file[_place(name)].ndim])
            file[f"targets/labels/{name}"] = np.array([b"dummy-label"])


def _place(name: str) -> str:
    return "inputs" if name == INPUT else f"targets/data/{name}"


def _sequences(x: Tensor) -> list[np.ndarray]:
    """The sequences of a batch without padding."""
    batch = [dim for dim in x.dims if dim.is_batch_dim()]
    time = [dim for dim in x.dims if dim not in batch and dim.need_masking()]
    time = time or [dim for dim in x.dims if dim not in batch and dim is not x.feature_dim][:1]
    if len(batch) != 1 or len(time) != 1:
        raise DataError(
            "HdfWriter: this is not a batch of sequences", got=x.describe_dims(), expected="{batch, time, …}"
        )
    features = [dim for dim in x.dims if dim not in (*batch, *time)]
    array = x.copy_transpose([*batch, *time, *features]).numpy()
    lengths = [int(n) for n in np.broadcast_to(np.asarray(x.size_of(time[0]).values), (len(array),))]
    return [sequence[:n] for sequence, n in zip(array, lengths, strict=True)]
