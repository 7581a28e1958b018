"""The tensors of a checkpoint of TensorFlow by name: its files, what the index says, and values in the shards."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from math import prod
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.core.ground.scope import not_searched
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


def key_of_slice(name: str, extents: Iterable[tuple[int, int | None]]) -> bytes:
    """The key of a slice of a variable, by the start and the length along each axis.

    >>> key_of_slice("w", [(0, 3), (64, None)])
    b'\\x00w\\x00\\x01\\x01\\x02\\x80\\x83\\xc0@\\x7f'
    """
    extents = list(extents)
    parts = [_number(0), name.encode().replace(b"\0", b"\0\xff"), b"\0\x01", _number(len(extents))]
    for start, length in extents:
        parts += [_signed(start), _signed(-1 if length is None else length)]
    return b"".join(parts)


def _number(value: int) -> bytes:
    """The number of its bytes, and the bytes."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """The bytes of a signed number: their count is in the leading bits, one for −64 to 63."""
    bits = (~value if value < 0 else value).bit_length()
    size = bits // 7 + 1
    content = bytearray((value & (1 << 80) - 1).to_bytes(10, "big"))[-size:]
    leading = ((1 << size) - 1) << (16 - size)
    content[0] ^= leading >> 8
    if size > 1:
        content[1] ^= leading & 255
    return bytes(content)


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_AXES = 254
Slice = tuple[tuple[int, int | None], ...]
"""For each axis the start, and the length; None for the whole axis."""


class Header(NamedTuple):
    """The first entry of an index."""

    shards: int
    big_endian: bool


class TensorInfo(NamedTuple):
    """What an index knows of a tensor. byte: where it says so. slices: the parts that are stored apart."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int | None
    slices: tuple[Slice, ...]
    byte: int


class MessageReader:
    """Reads the messages of a file."""

    def __init__(self, file: Path):
        self.file = file
        self._shapes: dict[bytes, tuple[int, ...]] = {}  # many tensors have the same

    def header(self, entry: TableEntry) -> Header:
        """The number of shards, and the order of bytes."""
        fields = {field: value for field, _, value in self._fields(entry.value, entry.byte) if isinstance(value, int)}
        return Header(fields.get(1, 0), bool(fields.get(2, 0)))

    def tensor(self, entry: TableEntry) -> TensorInfo:
        """What is known of a tensor."""
        numbers = [0] * 6
        shape: tuple[int, ...] = ()
        checksum, slices = None, []
        for field, byte, value in self._fields(entry.value, entry.byte):
            if field == 2 or field == 7:
                content = self._bytes(value, byte)
                if field == 2:
                    if content not in self._shapes:
                        self._shapes[content] = self._shape(content, byte)
                    shape = self._shapes[content]
                else:
                    slices.append(self._slice(content, byte))
            elif not isinstance(value, int):
                if field <= 6:
                    raise broken(self.file, byte, f"field {field} with bytes", "a number")
            elif field < 6:
                numbers[field] = value
            elif field == 6:
                checksum = value
        _, dtype, _, shard, offset, size = numbers
        return TensorInfo(dtype, shape, shard, offset, size, checksum, tuple(slices), entry.byte)

    def _shape(self, content: bytes, base: int) -> tuple[int, ...]:
        sizes = []
        for field, byte, value in self._fields(content, base):
            if field == 3 and value:
                raise broken(self.file, byte, "an unknown number of axes", "a shape")
            if field == 2:
                axis = self._fields(self._bytes(value, byte), byte)
                sizes.append(next((size for field, _, size in axis if field == 1 and isinstance(size, int)), 0))
                if sizes[-1] >= 2**63 or len(sizes) > _MOST_AXES:
                    raise broken(self.file, byte, f"axis {len(sizes)} of size {sizes[-1]}", "a shape")
        return tuple(sizes)

    def _slice(self, content: bytes, base: int) -> Slice:
        extents = []
        for field, byte, value in self._fields(content, base):
            if field == 1:
                extent = {name: n for name, _, n in self._fields(self._bytes(value, byte), byte) if isinstance(n, int)}
                extents.append((extent.get(1, 0), extent.get(2)))
        return tuple(extents)

    def _bytes(self, value: int | bytes, byte: int) -> bytes:
        if isinstance(value, int):
            raise broken(self.file, byte, "a number", "a message")
        return value

    def _fields(self, content: bytes, base: int) -> Iterator[tuple[int, int, int | bytes]]:
        """For each field its number, its place in the file, and its value."""
        at, end, file = 0, len(content), self.file
        while at < end:
            start = at
            tag = content[at]
            at += 1
            if tag > 127:
                tag, at = varint(file, content, start, end, base)
            kind = tag & 7
            if kind == _VARINT:
                if at < end and content[at] < 128:
                    value: int | bytes = content[at]
                    at += 1
                else:
                    value, at = varint(file, content, at, end, base)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
                value = int.from_bytes(content[at : at + size], "little")
                at += size
            elif kind == _BYTES:
                size, at = varint(file, content, at, end, base)
                value = content[at : at + size]
                at += size
            else:
                raise broken(file, base + start, f"a field of kind {kind}", "a field of kind 0, 1, 2 or 5")
            if at > end:
                raise broken(file, base + start, f"a field of {at - start} bytes", f"at most {end - start} bytes")
            yield tag >> 3, base + start, value


def broken(file: Path, byte: int, got: object, expected: object, hint: str | None = None) -> CheckpointError:
    """The error for a file that is not as it should be at a byte."""
    fault = f"{public_function()}: {file} cannot be read, byte {byte}"
    return CheckpointError(fault, got=got, expected=expected, hint=hint)


_POLYNOMIAL = 0x82F63B78
_LANE = 256
_MOST_LANES = 2**14
_SMALL = 2048
"""Fewer bytes are computed by a loop."""


def crc32c(data: Any) -> int:
    """The checksum of bytes, or of anything that has a buffer.

    >>> hex(crc32c(b"123456789")), hex(crc32c(bytes(5000)) ^ crc32c(bytes(4999) + b"1"))
    ('0xe3069283', '0xc288cab2')
    """
    array = np.frombuffer(data, np.uint8)
    state, at = 0xFFFFFFFF, 0
    while array.size - at >= _SMALL:
        lanes = min(_MOST_LANES, 1 << ((array.size - at) // _LANE).bit_length() - 1)
        state = _moved(state, _over(lanes * _LANE)) ^ _of_lanes(array[at : at + lanes * _LANE].reshape(lanes, _LANE))
        at += lanes * _LANE
    table = _bytes()
    for byte in array[at:].tobytes():
        state = table[(state ^ byte) & 255] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """The form in which files store a checksum: rotated by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _of_lanes(lanes: np.ndarray) -> int:
    """The state after all lanes, from a state of 0."""
    low, high = _words()
    states = np.zeros(len(lanes), np.uint32)
    for words in np.ascontiguousarray(lanes.view("<u4").T):
        states ^= words
        states = low[states & 0xFFFF] ^ high[states >> 16]
    size = _LANE
    while states.size > 1:
        states = _moved_all(states[0::2], size) ^ states[1::2]
        size *= 2
    return int(states[0])


@cache
def _bytes() -> tuple[int, ...]:
    """The state after one byte, by the low byte of the state."""
    table = []
    for state in range(256):
        for _ in range(8):
            state = state >> 1 ^ (_POLYNOMIAL if state & 1 else 0)
        table.append(state)
    return tuple(table)


@cache
def _words() -> tuple[np.ndarray, np.ndarray]:
    """The state after four bytes, by the low and the high half of the state: both are added."""
    table = np.array(_bytes(), np.uint32)
    low = np.arange(2**16, dtype=np.uint32)
    for _ in range(2):
        low = table[low & 255] ^ (low >> 8)
    high = low.copy()
    for _ in range(2):
        low = table[low & 255] ^ (low >> 8)
    return low, high


@cache
def _over(size: int) -> tuple[int, ...]:
    """What becomes of each bit of a state over `size` bytes of 0; size: a power of two."""
    if size == 1:
        return tuple(_bytes()[bit & 255] ^ (bit >> 8) for bit in (1 << i for i in range(32)))
    half = _over(size // 2)
    return tuple(_moved(image, half) for image in half)


def _moved(state: int, images: tuple[int, ...]) -> int:
    return reduce(xor, (image for bit, image in enumerate(images) if state >> bit & 1), 0)


@cache
def _tables(size: int) -> list[np.ndarray]:
    """The same by each byte of a state: four tables, whose entries are added."""
    images, tables = np.array(_over(size), np.uint32), []
    for bits in images.reshape(4, 8):
        table = np.zeros(1, np.uint32)
        for image in bits:
            table = np.concatenate([table, table ^ image])
        tables.append(table)
    return tables


def _moved_all(states: np.ndarray, size: int) -> np.ndarray:
    a, b, c, d = _tables(size)
    return a[states & 255] ^ b[states >> 8 & 255] ^ c[states >> 16 & 255] ^ d[states >> 24]


MAGIC = bytes.fromhex("57fb808b247547db")
"""The last eight bytes of a table."""
_FOOTER = 48
_TRAILER = 5  # after each block: how it is compressed, and its checksum
_LONGEST = 16
"""How many times larger than the file all its keys may be together: shared prefixes would allow any size."""


class TableEntry(NamedTuple):
    """A key with its value, and the place of the value in the file."""

    key: bytes
    value: bytes
    byte: int


class _Block(NamedTuple):
    content: bytes
    byte: int


def read_table(file: Path, data: bytes) -> list[TableEntry]:
    """All entries, whose keys increase. Raises CheckpointError if anything is malformed or a checksum differs."""
    end = len(data) - _FOOTER
    if end < 0 or data[-8:] != MAGIC:
        hint = "the file is cut short, or is of another kind"
        raise broken(
            file, max(len(data) - 8, 0), data[-8:].hex(" ") or "no bytes", f"{MAGIC.hex(' ')} at the end", hint
        )
    start, size, at = _handle(file, data, end, len(data) - 8)
    _block(file, data, start, size, end)  # properties of the table, of which there are none
    start, size, _ = _handle(file, data, at, len(data) - 8)
    entries: list[TableEntry] = []
    budget, last, last_end = _LONGEST * len(data) + 4096, b"", 0
    for _, handle, byte in _entries(file, _block(file, data, start, size, end)):
        start, size, _ = _handle(file, handle, 0, len(handle), byte)
        if start < last_end:
            raise broken(file, byte, f"a block at byte {start}", f"a block behind byte {last_end}")
        last_end = start + size + _TRAILER
        for entry in _entries(file, _block(file, data, start, size, end, byte)):
            budget -= len(entry.key)
            if budget < 0:
                raise broken(file, entry.byte, f"keys of {len(entry.key)} bytes", "keys as long as names are")
            if entries and entry.key <= last:
                raise broken(file, entry.byte, f"the key {entry.key!r:.60}", f"a key behind {last!r:.60}")
            last = entry.key
            entries.append(entry)
    return entries


def varint(file: Path, data: bytes, at: int, end: int, base: int = 0) -> tuple[int, int]:
    """A number of variable length, and the place after it. base: the place of `data` in the file."""
    number = shift = 0
    start = at
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise broken(file, base + start, data[start:at].hex(" ") or "nothing", "a number, of at most ten bytes")


def _handle(file: Path, data: bytes, at: int, end: int, base: int = 0) -> tuple[int, int, int]:
    """The place and size of a block, and the place after these two numbers."""
    start, at = varint(file, data, at, end, base)
    size, at = varint(file, data, at, end, base)
    return start, size, at


def _block(file: Path, data: bytes, start: int, size: int, end: int, byte: int | None = None) -> _Block:
    """The content of a block. end: where the footer begins; byte: where the block is named."""
    behind = start + size
    if behind + _TRAILER > end:
        at = end if byte is None else byte
        raise broken(file, at, f"a block of {size} bytes at byte {start}", f"a block that ends before byte {end}")
    if data[behind]:
        kind = {1: "compressed with snappy", 2: "compressed with zlib"}.get(data[behind], f"of kind {data[behind]}")
        raise broken(file, behind, f"a block {kind}", "a block that is not compressed, as TensorFlow writes it")
    stored = int.from_bytes(data[behind + 1 : behind + _TRAILER], "little")
    computed = masked(crc32c(data[start : behind + 1]))
    if stored != computed:
        raise broken(file, behind + 1, f"checksum {stored:08x}", f"{computed:08x}, that of bytes {start} to {behind}")
    return _Block(data[start:behind], start)


def _entries(file: Path, block: _Block) -> Iterator[TableEntry]:
    content, base = block
    restarts = int.from_bytes(content[-4:], "little")
    end = len(content) - 4 - 4 * restarts
    if len(content) < 4 or end < 0:
        raise broken(file, base + max(len(content) - 4, 0), f"{restarts} restarts", f"a block of {len(content)} bytes")
    at, key = 0, b""
    while at < end:
        start = at
        numbers = []
        for _ in range(3):
            if content[at] < 128:
                numbers.append(content[at])
                at += 1
            else:
                number, at = varint(file, content, at, end, base)
                numbers.append(number)
        shared, extra, size = numbers
        if shared > len(key) or at + extra + size > end:
            got = f"{shared} shared, {extra} own bytes of a key, {size} of a value"
            expected = f"at most {len(key)} shared ones, and a block of {len(content)} bytes"
            raise broken(file, base + start, got, expected)
        key = key[:shared] + content[at : at + extra]
        at += extra
        yield TableEntry(key, content[at : at + size], base + at)
        at += size
