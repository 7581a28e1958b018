"""Cases of signals, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, Batch


def energy(b: Batch, **options: Any) -> rf.Tensor:
    spectrum = rf.stft(b.x, in_spatial_dim=b.time, **{"frame_step": 1, "frame_length": 2, "fft_length": 4, **options})[
        0
    ]
    return rf.square(rf.abs(spectrum))


CASES: dict[str, Callable[[Batch], Any]] = {
    "stft": lambda b: energy(b),
    "stft in the middle": lambda b: energy(b, frame_step=2, fft_length=5, align_window_left=False),
    "mel_filterbank": lambda b: rf.audio.mel_filterbank(
        b.x, in_dim=FEAT, out_dim=rf.Dim(2, name="bands"), sampling_rate=8000
    ),
}
