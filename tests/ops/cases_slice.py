"""Cases of pieces of a dim, and frames added, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, OUT, Batch

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
    "slice by tensor": lambda b: rf.slice(b.x, axis=b.time, start=b.at, step=b.at + 1)[0],
    "slice one": lambda b: rf.slice(b.x, axis=b.time, start=b.at, size=1)[0],
    "slice from the end": lambda b: rf.slice(b.x, axis=b.time, start=b.at - b.at - 1, size=1)[0],
    "pad": lambda b: rf.pad(b.x, axes=[b.time], padding=[(1, 2)], value=3.0)[0],
    "pad tensor": lambda b: rf.pad(b.x, axes=[b.time], padding=[(2, 1)], value=b.v)[0],
    "pad replicate": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 1)], mode="replicate")[0],
    "pad reflect": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="reflect")[0],
    "pad circular": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="circular")[0],
    "pad by dims": lambda b: rf.pad(b.x, axes=[b.time], padding=[(b.other, b.time)], value=b.v)[0],
    "pad by dims replicate": lambda b: rf.pad(b.z, axes=[b.other], padding=[(b.other, b.time)], mode="replicate")[0],
    "pad cut": lambda b: rf.pad(b.x, axes=[b.time], padding=[(-2, 1)], value=3.0)[0],
    "pad time and feat": lambda b: rf.pad(b.x, axes=[b.time, FEAT], padding=(1, 2))[0],
    "shift_right": lambda b: rf.shift_right(b.x, axis=b.time, pad_value=9.0, amount=2),
    "shift_left": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=9.0),
    "shift_left tensor": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=b.v, amount=2),
    "reverse_sequence": lambda b: rf.reverse_sequence(b.x, axis=b.time),
    "cumsum labels": lambda b: rf.cumsum(b.labels, spatial_dim=b.time),
    "repeat": lambda b: rf.repeat(b.z, in_spatial_dim=b.other, repeats=b.index)[0],
    "repeat alike": lambda b: rf.repeat(b.x, in_spatial_dim=b.time, repeats=3)[0],
    "window": lambda b: rf.window(b.x, spatial_dim=b.time, window_dim=OUT, pad_value=2.0)[0],
    "window strided": lambda b: rf.window(b.x, spatial_dim=b.time, window_dim=OUT, window_left=2, stride=2)[0],
    "window valid": lambda b: rf.window(b.x, spatial_dim=b.time, window_dim=OUT, padding="valid", stride=2)[0],
}
STAY = {"slice from tensor", "slice to tensor", "slice by tensor", "repeat"}  # no row says frames="any"
NEEDS_FRAMES = {"slice one", "slice from the end"}
