"""The messages in an index, in the encoding of protocol buffers, and the keys of the slices of a variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rfnb.checkpoint.bundle.table import TableEntry, broken, varint


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
_SHAPE, _CHECKSUM, _NUMBERS = 2 << 3 | _BYTES, 6 << 3 | _FIXED32, frozenset(field << 3 for field in (1, 3, 4, 5))
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
        return self._as_usual(entry) or self._in_any_order(entry)

    def _as_usual(self, entry: TableEntry) -> TensorInfo | None:
        """A message with the fields that most have, which are thousands; None if it is anything else."""
        content = entry.value
        at, end = 0, len(content)
        numbers = [0] * 6
        shape: tuple[int, ...] | None = None
        checksum = None
        try:
            while at < end:
                tag = content[at]
                at += 1
                if tag == _SHAPE:
                    size = content[at]
                    at += 1
                    shape = self._shapes.get(content[at : at + size]) if size < 128 else None
                    if shape is None:
                        return None
                    at += size
                elif tag == _CHECKSUM:
                    checksum = int.from_bytes(content[at : at + 4], "little")
                    at += 4
                elif tag in _NUMBERS:
                    byte = content[at]
                    at += 1
                    value, shift = byte & 127, 7
                    while byte > 127:
                        byte = content[at]
                        at += 1
                        value |= (byte & 127) << shift
                        shift += 7
                    numbers[tag >> 3] = value
                else:
                    return None
        except IndexError:
            return None
        if shape is None or at != end or max(numbers) >= 2**63:
            return None
        _, dtype, _, shard, offset, size = numbers
        return TensorInfo(dtype, shape, shard, offset, size, checksum, (), entry.byte)

    def _in_any_order(self, entry: TableEntry) -> TensorInfo:
        numbers = [0] * 6
        shape: tuple[int, ...] = ()
        checksum, slices = None, []
        for field, byte, value in self._fields(entry.value, entry.byte):
            if field == 2 or field == 7:
                content = self._bytes(value, byte)
                if field == 2:
                    shape = self._shapes[content] = self._shape(content, byte)
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
