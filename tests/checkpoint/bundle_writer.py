"""Writes checkpoints in TensorFlow's format, for tests: from the description of the format, apart from the reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 10, "float16": 19}
MAGIC = 0xDB4775248B80FB57
TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 * (_byte & 1))
    TABLE.append(_byte)


def masked_crc(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    state ^= 0xFFFFFFFF
    return (((state >> 15) | (state << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return number(key << 3 | 2) + number(len(value)) + value
    return number(key << 3) + number(value)


def entry(dtype: int, shape: tuple[int, ...], shard: int, offset: int, size: int, crc: int = 0) -> bytes:
    dims = b"".join(field(2, field(1, n)) for n in shape)
    parts = [field(1, dtype), field(2, dims)]
    parts += [field(key, value) for key, value in ((3, shard), (4, offset), (5, size)) if value]
    return b"".join(parts) + number(6 << 3 | 5) + struct.pack("<I", crc)


def block(entries: list[tuple[bytes, bytes]], interval: int = 16) -> bytes:
    out, restarts, last = bytearray(), [], b""
    for i, (key, value) in enumerate(entries):
        shared = 0
        if i % interval:
            size = min(len(key), len(last))
            differ = np.frombuffer(key, np.uint8, size) != np.frombuffer(last, np.uint8, size)
            shared = int(differ.argmax()) if differ.any() else size
        else:
            restarts.append(len(out))
        out += number(shared) + number(len(key) - shared) + number(len(value)) + key[shared:] + value
        last = key
    return (
        bytes(out) + b"".join(struct.pack("<I", n) for n in restarts or [0]) + struct.pack("<I", len(restarts or [0]))
    )


def sealed(content: bytes, kind: int = 0) -> bytes:
    """A block with its trailer."""
    return content + bytes([kind]) + struct.pack("<I", masked_crc(content + bytes([kind])))


def table(blocks: list[list[tuple[bytes, bytes]]], interval: int = 16) -> bytes:
    """An index of these blocks of entries. interval: of the entries with a whole key."""
    out, handles = bytearray(), []
    for entries in blocks:
        content = block(entries, interval)
        handles.append((entries[-1][0], number(len(out)) + number(len(content))))
        out += sealed(content)
    ends = []
    for entries in ([], handles):
        content = block(entries)
        ends.append(number(len(out)) + number(len(content)))
        out += sealed(content)
    return bytes(out) + b"".join(ends).ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def header(shards: int = 1) -> bytes:
    return field(1, shards) + field(3, field(1, 1))


def write(prefix: Path, values: Mapping[str, Any], *, shards: int = 1, per_block: int = 1000) -> Path:
    """Writes arrays by name, one after the other into the shards. Returns the prefix."""
    data = [bytearray() for _ in range(shards)]
    entries = [(b"", header(shards))]
    for i, name in enumerate(sorted(values, key=str.encode)):
        array = np.asarray(values[name])
        raw, into = array.tobytes(), data[i % shards]
        found = entry(DTYPES[str(array.dtype)], array.shape, i % shards, len(into), len(raw), masked_crc(raw))
        entries.append((name.encode(), found))
        into += raw
    blocks = [entries[i : i + per_block] for i in range(0, len(entries), per_block)]
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(blocks))
    for i, raw in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{i:05d}-of-{shards:05d}").write_bytes(bytes(raw))
    return prefix
