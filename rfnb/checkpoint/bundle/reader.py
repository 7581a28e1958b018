"""The tensors of a checkpoint of TensorFlow by name: its files, what the index says, and values in the shards."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

import numpy as np
import torch

from rfnb.checkpoint.bundle.messages import MessageReader, Slice, TensorInfo, key_of_slice
from rfnb.checkpoint.bundle.table import MAGIC, broken, crc32c, masked, read_table
from rfnb.core.ground.gc_pause import not_searched
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import count_of
from rfnb.errors import CheckpointError

_STATE = "checkpoint"
"""The text file in a folder that names its newest checkpoint."""
_LARGEST_STATE = 1_000_000
_CONVERT = (
    "where TensorFlow is installed: load it there, and save it with "
    "tf.compat.v1.train.Saver(write_version=tf.compat.v1.train.SaverDef.V2)"
)


def index_of(path: Path) -> Path | None:
    """The `.index` of the checkpoint that a path means; None if it means none of TensorFlow.

    path: the prefix `model/network.040`, a file of the checkpoint, or a folder with a file `checkpoint`.
    Raises CheckpointError for a checkpoint of version 1, or if files are missing.
    """
    if path.is_dir():
        return _newest(path) if (path / _STATE).is_file() else None
    name = re.sub(r"\.data-\d{5}-of-\d{5}$|\.index$|\.meta$", "", path.name)
    if path.name == _STATE and _is_state(path):
        return _newest(path.parent)
    index = path.with_name(f"{name}.index")
    if index.is_file():
        return index if name != path.name or not path.is_file() else None
    if name != path.name:
        raise CheckpointError(f"{public_function()}: {index} is missing", hint=_beside(path.parent))
    if _is_of_version_1(path):
        fault = f"{public_function()}: {path} is a checkpoint of TensorFlow's version 1"
        raise CheckpointError(fault, expected=f"version 2: {path.name}.index and {path.name}.data-…", hint=_CONVERT)
    return None


def _newest(folder: Path) -> Path:
    """The checkpoint that the file `checkpoint` names, in the same folder, wherever it was written."""
    state = folder / _STATE
    if state.stat().st_size > _LARGEST_STATE:
        raise CheckpointError(f"{public_function()}: {state} is not a list of checkpoints", got="more than a megabyte")
    text = state.read_text(encoding="utf-8", errors="replace")
    named = re.search(r'^\s*model_checkpoint_path\s*:\s*"((?:[^"\\]|\\.)*)"', text, re.MULTILINE)
    if named is None:
        expected = 'a line model_checkpoint_path: "…"'
        raise CheckpointError(
            f"{public_function()}: {state} names no checkpoint", got=repr(text[:80]), expected=expected
        )
    index = folder / f"{named[1].replace(chr(92), '').rpartition('/')[2]}.index"
    if not index.is_file():
        raise CheckpointError(
            f"{public_function()}: {index} is missing",
            expected=f"the checkpoint that {state} names",
            hint=_beside(folder),
        )
    return index


def _is_state(path: Path) -> bool:
    with path.open("rb") as file:
        return b"model_checkpoint_path" in file.read(1000)


def _is_of_version_1(path: Path) -> bool:
    parts = [path] if path.is_file() else sorted(path.parent.glob(f"{_literal(path.name)}-?????-of-?????"))
    for part in parts[:1]:
        with part.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - len(MAGIC), 0))
            return file.read() == MAGIC
    return False


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _beside(folder: Path) -> str | None:
    names = sorted(file.stem for file in folder.glob("*.index"))[:5] if folder.is_dir() else []
    return f"in that folder: {', '.join(names)}" if names else None


DTYPES: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    4: torch.uint8,
    5: torch.int16,
    6: torch.int8,
    8: torch.complex64,
    9: torch.int64,
    10: torch.bool,
    11: torch.int8,
    12: torch.uint8,
    13: torch.int32,
    14: torch.bfloat16,
    15: torch.int16,
    16: torch.uint16,
    17: torch.uint16,
    18: torch.complex128,
    19: torch.float16,
    22: torch.uint32,
    23: torch.uint64,
    24: torch.float8_e5m2,
    25: torch.float8_e4m3fn,
}
"""By TensorFlow's number. Quantized integers are read as integers."""
OTHERS = {7: "string", 20: "resource", 21: "variant", 29: "int4", 30: "uint4"}
"""Tensors of these kinds are listed, but not read."""
_REFERENCE = 100
_MOST_OF_TORCH = 2**62


class Bundle:
    """An open checkpoint. Values are mapped into memory: only what is used is read.

    tensors: what the index says, by name. Raises CheckpointError, with file and byte, if something is malformed.
    """

    def __init__(self, index: Path):
        self.index = index
        self.tensors: dict[str, TensorInfo] = {}
        self._slices: dict[bytes, TensorInfo] = {}
        self._shards: dict[int, mmap.mmap | bytes] = {}
        with _readable(index):
            data = index.read_bytes()
        with not_searched():
            self._read(data)
            self._check()

    def _read(self, data: bytes) -> None:
        index, reader = self.index, MessageReader(self.index)
        entries = read_table(index, data)
        if not entries or entries[0].key:
            raise broken(index, 0, "no header", 'an entry with the key ""')
        self.header = reader.header(entries[0])
        for entry in entries[1:]:
            tensor = reader.tensor(entry)
            if entry.key[0]:
                try:
                    self.tensors[entry.key.decode()] = tensor
                except UnicodeDecodeError as error:
                    raise broken(index, entry.byte, f"the name {entry.key!r:.60}", "a name in UTF-8") from error
            else:
                self._slices[entry.key] = tensor

    def dtype(self, name: str) -> torch.dtype | str:
        """The dtype of a tensor; a word if it is of a kind that is not read."""
        number = _plain(self.tensors[name].dtype)
        return DTYPES.get(number) or OTHERS.get(number, f"dtype {number}")

    def read(self, name: str, *, verify: bool = False) -> torch.Tensor:
        """The value of a tensor, which is a view of the file unless slices are joined.

        verify: whether its checksum is compared.
        """
        tensor, dtype = self.tensors[name], self.dtype(name)
        if not isinstance(dtype, torch.dtype):
            raise CheckpointError(f"{public_function()}: {name} has no numbers", got=dtype)
        if not tensor.slices:
            return self._stored(name, tensor, dtype, verify)
        value = torch.empty(tensor.shape, dtype=dtype)
        covered = torch.zeros(tensor.shape, dtype=torch.bool)
        for extents in tensor.slices:
            places = tuple(slice(start, None if n is None else start + n) for start, n in extents)
            value[places] = self._stored(name, self._slices[key_of_slice(name, extents)], dtype, verify)
            covered[places] = True
        if not covered.all():
            raise broken(self.index, tensor.byte, f"slices of {name} that overlap", "slices that cover it")
        return value

    def shard(self, number: int) -> Path:
        """The file with the values of a shard."""
        return self.index.with_name(f"{self.index.stem}.data-{number:05d}-of-{self.header.shards:05d}")

    def _stored(self, name: str, tensor: TensorInfo, dtype: torch.dtype, verify: bool) -> torch.Tensor:
        if not tensor.size:
            return torch.empty(tensor.shape, dtype=dtype)
        file = self.shard(tensor.shard)
        data = self._mapped(tensor.shard)
        if len(data) < tensor.offset + tensor.size:
            raise broken(
                file, len(data), "the end of the file", f"{tensor.size} bytes from {tensor.offset}, for {name}"
            )
        if verify and tensor.checksum is not None:
            computed = masked(crc32c(memoryview(data)[tensor.offset : tensor.offset + tensor.size]))
            if computed != tensor.checksum:
                got = f"{name} with checksum {computed:08x}"
                raise broken(file, tensor.offset, got, f"{tensor.checksum:08x}, as {self.index.name} says")
        itemsize = dtype.itemsize
        if tensor.offset % itemsize or self.header.big_endian:
            raw = np.frombuffer(data, np.uint8, tensor.size, tensor.offset).copy()
            width = itemsize // 2 if dtype.is_complex else itemsize
            if self.header.big_endian and width > 1:
                raw = raw.reshape(-1, width)[:, ::-1].copy().reshape(-1)
            return torch.from_numpy(raw).view(dtype).view(tensor.shape)
        flat = torch.frombuffer(data, dtype=dtype, count=tensor.size // itemsize, offset=tensor.offset)
        return flat.view(tensor.shape)

    def _mapped(self, number: int) -> mmap.mmap | bytes:
        if number not in self._shards:
            file = self.shard(number)
            with _readable(file), file.open("rb") as opened:
                self._shards[number] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        return self._shards[number]

    # -- what an index may claim

    def _check(self) -> None:
        """Raises CheckpointError if a tensor is not inside of a shard, or has not the size of its shape."""
        sizes: dict[int, int] = {}
        dtypes: dict[int, torch.dtype | str] = {}
        for name, tensor in self.tensors.items():
            if tensor.dtype not in dtypes:
                dtypes[tensor.dtype] = self.dtype(name)
            dtype = dtypes[tensor.dtype]
            if tensor.slices and isinstance(dtype, torch.dtype):
                self._check_slices(name, tensor, dtype, sizes)
            elif not tensor.slices:
                self._check_stored(name, tensor, tensor.shape, dtype, sizes)

    def _check_stored(
        self, name: str, tensor: TensorInfo, shape: tuple[int, ...], dtype: torch.dtype | str, sizes: dict[int, int]
    ) -> None:
        if isinstance(dtype, torch.dtype):
            size = prod(shape) * dtype.itemsize
            if tensor.size != size or (not size and prod(filter(None, shape)) > _MOST_OF_TORCH):
                got = f"{name} with {tensor.size} bytes"
                raise broken(self.index, tensor.byte, got, f"{size} bytes for the shape {shape} of {dtype}")
        if tensor.shard >= self.header.shards:
            got = f"{name} in shard {tensor.shard}"
            raise broken(self.index, tensor.byte, got, f"one of {self.header.shards} shards")
        if tensor.shard not in sizes:
            sizes[tensor.shard] = self._size(tensor.shard)
        if tensor.offset + tensor.size > sizes[tensor.shard]:
            got = f"{name} up to byte {tensor.offset + tensor.size}"
            expected = f"{sizes[tensor.shard]} bytes, as {self.shard(tensor.shard).name} has"
            raise broken(self.index, tensor.byte, got, expected, "a file that is cut short, or of another checkpoint")

    def _check_slices(self, name: str, tensor: TensorInfo, dtype: torch.dtype, sizes: dict[int, int]) -> None:
        total = 0
        for extents in tensor.slices:
            part = self._slices.get(key_of_slice(name, extents))
            shape = _shape_of(extents, tensor.shape)
            if part is None or shape is None or _plain(part.dtype) != _plain(tensor.dtype):
                got = f"{name} with a slice {extents}" + ("" if part else ", which is not there")
                raise broken(self.index, tensor.byte, got, f"slices of the shape {tensor.shape} of {dtype}")
            self._check_stored(name, part, shape, dtype, sizes)
            if part.shape != shape:
                raise broken(self.index, part.byte, f"a slice of {name} of shape {part.shape}", shape)
            total += prod(shape)
            if total * dtype.itemsize > sum(sizes.values()):
                break
        if total != prod(tensor.shape) or total * dtype.itemsize > sum(sizes.values()):
            got = f"slices of {name} with {total} values"
            raise broken(self.index, tensor.byte, got, f"{prod(tensor.shape)} values, each in a place of its own")

    def _size(self, number: int) -> int:
        file = self.shard(number)
        try:
            return file.stat().st_size
        except OSError as error:
            names = sorted(shard.name for shard in self.index.parent.glob("*.data-*"))[:4]
            raise CheckpointError(
                f"{public_function()}: {file} is missing",
                got=", ".join(names) or "no data files",
                expected=f"{count_of(self.header.shards, 'data file')} beside {self.index.name}",
            ) from error


def _plain(number: int) -> int:
    """The number of a dtype, also for a variable that is a reference."""
    return number - _REFERENCE if _REFERENCE < number < 2 * _REFERENCE else number


def _shape_of(extents: Slice, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a slice; None if it is not a slice of this shape."""
    if len(extents) != len(shape):
        return None
    sizes = []
    for (start, length), size in zip(extents, shape, strict=True):
        sizes.append(size - start if length is None else length)
        if start > size or sizes[-1] > size - start:
            return None
    return tuple(sizes)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turns errors of the file system in the block into a CheckpointError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{public_function()}: {file} cannot be read", got=error) from error
