"""Where CPython has the objects of a list, read from memory: which of them are there, without a look at each."""

from __future__ import annotations

import struct
import sys
from ctypes import c_size_t, string_at
from functools import cache
from typing import Any

ITEMS = object.__basicsize__ + 8
"""Where in a list its pointer to the objects is, behind its length."""


def places_in(value: list[Any], length: int) -> bytes:
    """The addresses of the first objects of a list; empty where it is not known where they are.

    As long as the objects live, the same addresses are the same objects.
    """
    return string_at(c_size_t.from_address(id(value) + ITEMS).value, 8 * length) if _is_known() else b""


@cache
def _is_known() -> bool:
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    trial = [object(), None, []]
    place = c_size_t.from_address(id(trial) + ITEMS).value
    return string_at(place, 24) == struct.pack("3P", *map(id, trial))
