"""Cases of pieces of a dim, and frames added, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import FEAT, Batch

import rfnb as rf

CASES: dict[str, Callable[[Batch], Any]] = {
    "slice start": lambda b: rf.slice(b.x, axis=b.time, start=2)[0],
    "slice end": lambda b: rf.slice(b.x, axis=b.time, end=-1)[0],
    "slice first": lambda b: rf.slice(b.x, axis=b.time, start=1, end=3)[0],
    "slice last": lambda b: rf.slice(b.x, axis=b.time, start=-2)[0],
    "slice middle": lambda b: rf.slice(b.x, axis=b.time, start=-3, end=-1)[0],
    "slice step": lambda b: rf.slice(b.x, axis=b.time, start=1, step=2)[0],
    "slice back": lambda b: rf.slice(b.x, axis=b.time, step=-2)[0],
    "slice feat": lambda b: rf.slice(b.x, axis=FEAT, start=1, size=2)[0],
    "slice from tensor": lambda b: rf.slice(b.x, axis=b.time, start=b.at)[0],
    "slice to tensor": lambda b: rf.slice(b.x, axis=b.time, end=b.at)[0],
    "pad": lambda b: rf.pad(b.x, axes=[b.time], padding=[(1, 2)], value=3.0)[0],
    "pad tensor": lambda b: rf.pad(b.x, axes=[b.time], padding=[(2, 1)], value=b.v)[0],
    "pad replicate": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 1)], mode="replicate")[0],
    "pad reflect": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="reflect")[0],
    "pad circular": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="circular")[0],
    "shift_right": lambda b: rf.shift_right(b.x, axis=b.time, pad_value=9.0, amount=2),
    "shift_left": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=9.0),
    "shift_left tensor": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=b.v, amount=2),
    "reverse_sequence": lambda b: rf.reverse_sequence(b.x, axis=b.time),
}
STAY = {"slice from tensor", "slice to tensor"}  # no row says frames="any"
