"""The sound that the columns of attention stand for: its spectrogram, and a player."""

from __future__ import annotations

import base64
import io
import math
import wave
from typing import Any

import numpy as np

from rfnb.display.attention.schema import AttentionSound
from rfnb.display.markup import png
from rfnb.display.markup.html import Html, el
from rfnb.errors import ViewError

LONGEST = 2_000_000
"""Samples of a sound."""
FRAMES, BANDS = 600, 64
"""The largest size of the picture, in pixels."""
DECIBELS = 60
"""What is so much below the loudest is white."""


def describe_sound(audio: Any) -> AttentionSound:
    """The sound and its spectrogram as data URIs. audio: (samples, samples a second).

    Raises ViewError for what is not the sound of one channel.
    """
    try:
        samples, rate = audio
        samples, rate = np.asarray(getattr(samples, "raw_tensor", samples)), float(rate)
        is_sound = samples.ndim == 1 and samples.dtype.kind in "fi" and np.isfinite(samples).all()
    except (TypeError, ValueError):
        is_sound = False
    if not is_sound or not 1 <= rate <= 1e6 or not 0 < len(samples) <= LONGEST:
        raise ViewError(
            "show_attention: `audio` is not a sound",
            got=type(audio).__name__ if not isinstance(audio, tuple) else f"({', '.join(map(_word, audio))})",
            expected=f"(samples of one channel, samples a second), at most {LONGEST:,} samples",
            hint="audio=(sound, 16000)",
        )
    if samples.dtype.kind == "i":
        samples = samples / -float(np.iinfo(samples.dtype).min)
    samples = np.clip(samples.astype(np.float32), -1, 1)
    return {"spectrum": _spectrum(samples, rate), "sound": _wav(samples, round(rate)), "duration": len(samples) / rate}


def player(sound: AttentionSound) -> Html:
    """The element that plays the sound."""
    words, look = "the sound of the columns", "display:block;height:32px;width:320px;max-width:100%;margin:4px 0"
    return el("audio", controls=True, src=sound["sound"], aria_label=words, style=look)


def _word(part: object) -> str:
    shape = getattr(part, "shape", None)
    return repr(part)[:20] if shape is None else f"{type(part).__name__} of shape {tuple(shape)}"


def _wav(samples: np.ndarray, rate: int) -> str:
    """The sound as a data URI of a WAV file of 16 bits."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.rint(samples * 32767).astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(buffer.getvalue()).decode()


def _spectrum(samples: np.ndarray, rate: float) -> str:
    """The energy of each frequency, from low at the bottom to half of the rate, over time, in decibels."""
    window = 2 ** max(4, math.ceil(math.log2(0.025 * rate)))
    count = min(FRAMES, max(1, len(samples) * 4 // window))
    begins = np.linspace(0, len(samples), count, endpoint=False).astype(int)
    frames = np.pad(samples, (window // 2, window))[begins[:, None] + np.arange(window)]
    energy = np.abs(np.fft.rfft(frames * np.hanning(window))[:, 1:]) ** 2
    bands = png.pooled(energy.T[::-1], (max(1, window // 2 // BANDS), 1))
    loudness = 10 * np.log10(np.maximum(bands / max(bands.max(), 1e-12), 1e-12))
    return png.picture(1 + loudness / DECIBELS, scale="sequential")
