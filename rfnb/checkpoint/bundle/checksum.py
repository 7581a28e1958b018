"""CRC32C (Castagnoli) of bytes, with numpy: the checksum is linear, so lanes of the data are computed side by side.

Lanes of 256 bytes are computed from a state of 0, four bytes at a time; the lanes are then combined pairwise, each
state moved over the bytes behind it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

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
