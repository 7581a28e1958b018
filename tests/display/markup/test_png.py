"""The PNG writer: read back by hand."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from rfnb.display.markup import png


def pixels(uri: str) -> np.ndarray:
    data = base64.b64decode(uri.partition("base64,")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    at, found, palette = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        found += body if kind == b"IDAT" else b""
        palette += body if kind == b"PLTE" else b""
        at += 12 + length
    places = np.frombuffer(zlib.decompress(found), np.uint8).reshape(height, width + 1)[:, 1:]
    return np.frombuffer(palette, np.uint8).reshape(-1, 3)[places]


def colours(scale: str, *levels: int) -> list[list[int]]:
    table = np.frombuffer(png.PALETTES[scale], np.uint8).reshape(-1, 3)
    return table[list(levels)].tolist()


def test_values_become_levels_of_the_palette():
    made = pixels(png.picture(np.array([[-1.0, 0.0, 1.0]]), scale="diverging"))
    assert made.tolist() == [colours("diverging", 0, 124, 249)]
    assert pixels(png.picture(np.array([[0.0, 1.0]]), scale="sequential")).tolist() == [colours("sequential", 0, 249)]


def test_what_is_not_finite_has_its_own_colour():
    made = pixels(png.picture(np.array([[np.nan, np.inf, -np.inf]]), scale="diverging"))
    assert made.tolist() == [[list(colour) for colour in png.SPECIAL[:3]]]


def test_padding_is_hatched_and_cells_have_a_size():
    valid = np.array([[True, False]])
    made = pixels(png.picture(np.ones((1, 2)), valid=valid, scale="sequential", cell=(2, 3)))
    assert made.shape == (2, 6, 3)
    assert (made[:, :3] == colours("sequential", 249)).all()
    assert (made[:, 3:] == png.SPECIAL[png.PADDING - png.NAN]).all()


def test_a_small_picture_is_a_small_file():
    assert len(png.picture(np.zeros((2, 8)), scale="diverging", cell=12)) < 200


def test_the_palette_fits_the_file_format():
    assert all(len(palette) == 256 * 3 for palette in png.PALETTES.values())
    assert len(png.ALPHA) == 256
