"""Small PNG pictures without a library: one byte a pixel, and a palette that knows NaN, Inf and padding.

A value from -1 to 1 (diverging: blue, white, red) or 0 to 1 (sequential: pale to dark) becomes a palette index.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Literal

import numpy as np

Scale = Literal["diverging", "sequential"]

LEVELS = 249
NAN, POSITIVE_INF, NEGATIVE_INF, PADDING, HATCH, MARK = 250, 251, 252, 253, 254, 255

DIVERGING = ("#1f4e8c", "#4a86c0", "#9cc3de", "#f4f1ec", "#eeb18f", "#cf6a4c", "#972432")
SEQUENTIAL = ("#f4f1ec", "#cfdfd6", "#93c1bd", "#4f9aa9", "#2d6e93", "#1f4577", "#15234e")
SPECIAL = ((214, 39, 183), (255, 140, 0), (106, 60, 210), (128, 128, 128), (128, 128, 128), (20, 20, 20))
ALPHA = bytes([255] * NAN + [255, 255, 255, 18, 90, 255])


def picture(
    values: np.ndarray, *, valid: np.ndarray | None = None, scale: Scale, cell: int | tuple[int, int] = 1
) -> str:
    """A data URI. `values` is a matrix, already scaled; what is not `valid` is hatched; `cell` is in pixels."""
    cell = (cell, cell) if isinstance(cell, int) else cell
    return data_uri(encode(pixels(values, valid, scale, cell), PALETTES[scale]))


def pixels(values: np.ndarray, valid: np.ndarray | None, scale: Scale, cell: tuple[int, int]) -> np.ndarray:
    """The palette index of each pixel of a picture."""
    image = _enlarged(indices(values, scale), cell)
    return image if valid is None else np.where(_enlarged(valid, cell), image, hatching(image.shape))


def hatching(shape: tuple[int, ...]) -> np.ndarray:
    """Hatched padding of this many rows and columns of pixels."""
    diagonal = np.add.outer(*map(np.arange, shape)) % 4 == 0
    return np.where(diagonal, HATCH, PADDING).astype(np.uint8)


def _enlarged(matrix: np.ndarray, cell: tuple[int, int]) -> np.ndarray:
    return matrix.repeat(cell[0], axis=0).repeat(cell[1], axis=1)


def indices(values: np.ndarray, scale: Scale) -> np.ndarray:
    """Palette indices of a matrix of numbers."""
    values = np.asarray(values, np.float32)
    with np.errstate(invalid="ignore"):
        unit = (values + 1) / 2 if scale == "diverging" else values
        level = np.rint(np.clip(np.nan_to_num(unit), 0, 1) * LEVELS).astype(np.uint8)
    level[np.isnan(values)] = NAN
    level[np.isposinf(values)] = POSITIVE_INF
    level[np.isneginf(values)] = NEGATIVE_INF
    return level


def ramp(stops: tuple[str, ...]) -> np.ndarray:
    """Colours between the stops, as [levels, 3] bytes."""
    rgb = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops])
    at = np.linspace(0, len(stops) - 1, LEVELS + 1)
    return np.stack([np.interp(at, np.arange(len(stops)), rgb[:, c]) for c in range(3)], axis=1).astype(np.uint8)


def encode(pixels: np.ndarray, palette: bytes, *, bits: int = 8, level: int = 1) -> bytes:
    """The bytes of a PNG file, with the colours of the palette that occur.

    bits: bits per pixel; four are enough for sixteen colours. level: compression level of zlib.
    """
    height, width = pixels.shape
    entries = np.flatnonzero(np.bincount(pixels.reshape(-1), minlength=256))
    place = np.zeros(256, np.uint8)
    place[entries] = np.arange(len(entries))
    packed = _packed(place[pixels], bits)
    lines = np.zeros((height, packed.shape[1] + 1), np.uint8)
    lines[:, 1:] = packed
    colours = b"".join(palette[3 * i : 3 * i + 3] for i in entries.tolist())
    alphas = bytes(ALPHA[i] for i in entries.tolist())
    header = struct.pack(">IIBBBBB", width, height, bits, 3, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), level)
    chunks = [(b"IHDR", header), (b"PLTE", colours), (b"tRNS", alphas), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _packed(pixels: np.ndarray, bits: int) -> np.ndarray:
    """Pixels packed into bytes, the first in the highest bits."""
    if bits == 8:
        return pixels
    per_byte = 8 // bits
    wide = np.pad(pixels, ((0, 0), (0, -pixels.shape[1] % per_byte)))
    packed = np.zeros((wide.shape[0], wide.shape[1] // per_byte), np.uint8)
    for place in range(per_byte):
        packed |= wide[:, place::per_byte] << (8 - bits * (place + 1))
    return packed


def data_uri(png: bytes) -> str:
    """A PNG as a data URI, for `<img src=…>`."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _palette(stops: tuple[str, ...]) -> bytes:
    return ramp(stops).tobytes() + bytes(byte for colour in SPECIAL for byte in colour)


PALETTES = {"diverging": _palette(DIVERGING), "sequential": _palette(SEQUENTIAL)}


def scale_of(*parts: np.ndarray) -> tuple[float, Scale]:
    """The value of the strongest colour shared by several pictures, and the kind of scale."""
    finite = np.concatenate([part[np.isfinite(part)].reshape(-1) for part in parts])
    return float(np.abs(finite).max(initial=0)), "diverging" if (finite < 0).any() else "sequential"


def block_for(shape: tuple[int, ...], most: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns to pool into one cell, so that at most `most` of each remain."""
    rows, cols = (max(1, -(-size // limit)) for size, limit in zip(shape, most, strict=True))
    return rows, cols


def pooled(matrix: np.ndarray, block: tuple[int, int], choose: np.ufunc = np.maximum) -> np.ndarray:
    """The largest entry of each block, or another choice. […, rows, columns] → […, fewer rows, fewer columns]"""
    for axis, step in zip((-2, -1), block, strict=True):
        if step > 1 and matrix.shape[axis]:
            matrix = choose.reduceat(matrix, np.arange(0, matrix.shape[axis], step), axis=axis)
    return matrix


def extremes(matrix: np.ndarray, valid: np.ndarray | None, block: tuple[int, int]) -> np.ndarray:
    """The valid entry of each block that is furthest from zero; NaN and infinities take precedence."""
    low, high = (
        pooled(matrix if valid is None else np.where(valid, matrix, np.float32(filler)), block, choose)
        for filler, choose in ((np.inf, np.minimum), (-np.inf, np.maximum))
    )
    finite = np.isfinite(low) & np.isfinite(high)
    return np.where(np.where(finite, np.abs(low) > np.abs(high), ~np.isfinite(low)), low, high)
