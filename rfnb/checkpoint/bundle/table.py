"""The entries of a sorted string table, as LevelDB stores them: blocks whose keys share prefixes, and a footer.

CRC32C (Castagnoli) of bytes is computed with numpy: the checksum is linear, so lanes of the data are computed side by
side.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError


def broken(file: Path, byte: int, got: object, expected: object, hint: str | None = None) -> CheckpointError:
    """The error for a file that is not as it should be at a byte."""
    return CheckpointError(
        f"{public_function()}: {file} cannot be read, byte {byte}",
        got=got,
        expected=expected,
        hint=hint,
    )


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
    result = 0
    for bit, image in enumerate(images):
        if state >> bit & 1:
            result ^= image
    return result


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
_TRAILER = 5  # behind each block: how it is compressed, and its checksum
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
    """A number of variable length, and the place behind it. base: the place of `data` in the file."""
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
    """The place and size of a block, and the place behind these two numbers."""
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
