"""Writes sequences to an HDF file, in the form in which `rf.hdf` and RETURNN read them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rfnb.core.ground.atomic import replacing
from rfnb.core.tensor.tensor import Tensor
from rfnb.data.dataset import INPUT
from rfnb.errors import DataError


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
        self._text = h5py.string_dtype()
        self._h5py: Any = h5py
        self._tags: list[str] = []
        self._lengths: list[list[int]] = []
        self._stack: ExitStack | None = None
        self._file: Any = None

    def __enter__(self) -> HdfWriter:
        if not self.path.parent.is_dir():
            raise DataError(f"HdfWriter: the folder {self.path.parent} does not exist")
        self._stack = ExitStack()
        unfinished = self._stack.enter_context(replacing(self.path))
        self._file = self._stack.enter_context(self._h5py.File(unfinished, "w"))
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
        given = {INPUT: data, **streams}
        if set(given) != set(self.dims):
            raise DataError(
                f"HdfWriter: {tag!r:.60} has other streams", got=", ".join(given), expected=", ".join(self.dims)
            )
        arrays = {name: self._array(tag, name, given[name]) for name in self.dims}
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
            found = {name: sequences[i] for name, sequences in parts.items()}
            self.write(tag, found.pop(INPUT), **found)

    def _array(self, tag: str, name: str, given: object) -> np.ndarray:
        array = np.asarray(given)
        labels = array.dtype.kind in "iub" or (array.ndim == 1 and not array.size)
        dim, what = self.dims[name], f"HdfWriter: {name!r} of {tag!r:.60}"
        if array.dtype.kind not in "fiub":
            raise DataError(what, got=array.dtype, expected="numbers")
        array = array.astype("int32" if labels else "float32")
        if not array.ndim or (array.ndim > 1 and array.shape[-1] != dim):
            raise DataError(what, got=f"shape {array.shape}", expected=f"{{frames}} labels, or {{frames, {dim}}}")
        if array.ndim == 1 and array.dtype.kind == "i" and array.size and not 0 <= array.min() <= array.max() < dim:
            raise DataError(what, got=f"labels {array.min()} to {array.max()}", expected=f"labels from 0 to {dim - 1}")
        old = self._file.get(_place(name))
        if old is not None and (old.shape[1:], old.dtype) != (array.shape[1:], array.dtype):
            got = f"{array.dtype} {array.shape[1:]}"
            raise DataError(what, got=got, expected=f"{old.dtype} {old.shape[1:]}, as in those before")
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
    rest = [dim for dim in x.dims if dim not in (*batch, *time)]
    array = x.copy_transpose([*batch, *time, *rest]).numpy()
    lengths = [int(n) for n in np.broadcast_to(np.asarray(x.size_of(time[0]).values), (len(array),))]
    return [sequence[:n] for sequence, n in zip(array, lengths, strict=True)]
