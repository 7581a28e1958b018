"""The entries of a sorted string table, as LevelDB stores them: blocks whose keys share prefixes, and a footer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rfnb.checkpoint.bundle.checksum import crc32c, masked
from rfnb.checkpoint.bundle.file_errors import broken

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
