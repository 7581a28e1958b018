"""Back from a picture of `drawing` to numbers: for figures, which are made of the JSON of a view alone."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from rfnb.display.markup.png import SEQUENTIAL, ramp


def shares(picture: str) -> np.ndarray:
    """Each pixel as a share of the darkest colour, 0 to 1; NaN for what is no number, masked or padding."""
    data = base64.b64decode(picture.partition(",")[2])
    chunks = dict(_chunks(data))
    width, height, bits = struct.unpack(">IIB", chunks[b"IHDR"][:9])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)[:, 1:]
    each = 8 // bits
    spread = [(lines >> (8 - bits * (place + 1))) & (2**bits - 1) for place in range(each)]
    indices = np.stack(spread, axis=-1).reshape(height, -1)[:, :width]
    return _values(chunks[b"PLTE"])[indices]


def _values(palette: bytes) -> np.ndarray:
    known = {colour.tobytes(): i for i, colour in enumerate(ramp(SEQUENTIAL))}
    colours = [palette[i : i + 3] for i in range(0, len(palette), 3)]
    return np.array([known.get(colour, np.nan) for colour in colours]) / (len(ramp(SEQUENTIAL)) - 1)


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    at, found = 8, []
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return found
