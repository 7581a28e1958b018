"""The keys under which an index stores the slices of a variable: numbers and text as bytes that sort like them."""

from __future__ import annotations

from collections.abc import Iterable


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
