"""Sentences of numbers and short commands, and how eSpeak NG says them in several voices.

    python notebooks/speech_data.py      speaks all sentences, in minutes, and writes the examples of the repository

Sounds have 8,000 samples a second, as on the telephone. A fixed seed chooses sentences, voices, speeds and pitches.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import wave
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

RATE = 8_000
FOLDER = Path(__file__).parent / "data" / "speech"

DIGITS = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
ROOMS = "kitchen bedroom bathroom garage garden office".split()
DEVICES = "light heating radio fan television".split()

ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-us-nyc")
SPEAKERS = {
    "train": ("m1", "m2", "m3", "m5", "m7", "m8", "f1", "f2", "f4", "adam", "linda", "steph", "Alex", "Annie", "Mario"),
    "dev": ("m4", "f3"),
    "test": ("m6", "f5"),
}
"""Voices of eSpeak NG. Those of dev and test are heard in no sentence of the training."""
COUNTS = {"train": 2_000, "dev": 150, "test": 300}
EXAMPLES = (0, 31, 164, 70, 191, 224, 138, 109, 157, 237)
"""Sentences of the test whose sounds are in the repository, by number: those that are hard for the model."""


class Utterance(NamedTuple):
    """A sentence, and who says it: speed in words per minute, pitch from 0 to 99."""

    text: str
    accent: str
    speaker: str
    speed: int
    pitch: int


# -- sentences


def number(chance: random.Random) -> str:
    """A number from 0 to 99, in words."""
    tens, ones = chance.choice(TENS), chance.choice(DIGITS[1:])
    return chance.choice((chance.choice(DIGITS), chance.choice(TEENS), tens, f"{tens} {ones}", f"{tens} {ones}"))


def sentence(chance: random.Random) -> str:
    """A command, a sum or a telephone number."""
    some, other, room, device = number(chance), number(chance), chance.choice(ROOMS), chance.choice(DEVICES)
    switch, digits = chance.choice(("on", "off")), " ".join(chance.choices(DIGITS, k=4))
    unit, sign = chance.choice(("seconds", "minutes", "hours")), chance.choice(("plus", "minus", "times"))
    return chance.choice(
        (
            f"call {digits}",
            f"what is {some} {sign} {other}",
            f"turn {switch} the {device} in the {room}",
            f"turn the {room} {device} {switch}",
            f"set a timer for {some} {unit}",
            f"set the {room} to {some} degrees",
            f"wake me in {some} {unit}",
            f"play song number {some}",
        )
    )


def sentences(counts: dict[str, int] = COUNTS) -> dict[str, list[str]]:
    """Different sentences for each part: none is in two of them."""
    chance = random.Random(1)
    known: dict[str, None] = {}
    while len(known) < sum(counts.values()):
        known[sentence(chance)] = None
    texts = iter(known)
    return {part: [next(texts) for _ in range(count)] for part, count in counts.items()}


def utterances(counts: dict[str, int] = COUNTS) -> dict[str, list[Utterance]]:
    """Who says which sentence, and how."""
    chance = random.Random(2)
    return {
        part: [
            Utterance(
                text, chance.choice(ACCENTS), chance.choice(SPEAKERS[part]), chance.randint(130, 200),
                chance.randint(25, 75),
            )
            for text in texts
        ]
        for part, texts in sentences(counts).items()
    }  # fmt: skip


# -- sounds


def speak(said: Utterance) -> np.ndarray:
    """The sound of an utterance, between -1 and 1, without the silence around it. Needs eSpeak NG."""
    voice, options = f"{said.accent}+{said.speaker}", ["-s", str(said.speed), "-p", str(said.pitch)]
    command = ["espeak-ng", "-v", voice, *options, "--stdout", said.text]
    sound, rate = read_wav(_with_length(subprocess.run(command, capture_output=True, check=True).stdout))
    loud = np.flatnonzero(np.abs(sound) > 0.01)
    return resampled(sound[loud[0] : loud[-1] + rate // 20], rate)


def _with_length(wav: bytes) -> bytes:
    """What eSpeak NG wrote without knowing how long it would be."""
    return wav[:4] + (len(wav) - 8).to_bytes(4, "little") + wav[8:40] + (len(wav) - 44).to_bytes(4, "little") + wav[44:]


def resampled(sound: np.ndarray, rate: int, to: int = RATE) -> np.ndarray:
    """The sound with another number of samples a second; frequencies beyond are cut off."""
    count = len(sound) * to // rate
    spectrum = np.fft.rfft(sound)
    kept = np.zeros(count // 2 + 1, complex)
    kept[: len(spectrum)] = spectrum[: len(kept)]
    return (np.fft.irfft(kept, count) * count / len(sound)).astype("float32")


def read_wav(data: bytes) -> tuple[np.ndarray, int]:
    """The samples in a WAV file of 16 bits, and how many there are in a second."""
    with wave.open(io.BytesIO(data)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(2**15), file.getframerate()


# -- the cache


class Spoken(NamedTuple):
    """An utterance and its sound."""

    said: Utterance
    sound: np.ndarray


def load(counts: dict[str, int] = COUNTS) -> dict[str, list[Spoken]]:
    """All utterances with their sounds: spoken at the first call, from the cache afterwards."""
    said = utterances(counts)
    name = hashlib.sha256(repr(said).encode()).hexdigest()[:12]
    file = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rfnb" / f"speech-{name}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.npz")
        np.savez_compressed(partial, **as_arrays({part: spoken(said[part]) for part in said}))
        partial.rename(file)
    return {part: read(file, part, said[part]) for part in said}


def spoken(said: Sequence[Utterance]) -> list[Spoken]:
    """Utterances as eSpeak NG says them."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [*map(Spoken, said, pool.map(speak, said))]


def as_arrays(parts: dict[str, list[Spoken]]) -> dict[str, np.ndarray]:
    """Of each part all sounds after each other, as numbers of 16 bits, and where each one ends."""
    arrays = {}
    for part, some in parts.items():
        sounds = np.concatenate([one.sound for one in some])
        arrays[f"{part}_sounds"] = (np.clip(sounds, -1, 1) * (2**15 - 1)).astype("int16")
        arrays[f"{part}_ends"] = np.cumsum([len(one.sound) for one in some])
    return arrays


def read(file: Path, part: str, said: Sequence[Utterance]) -> list[Spoken]:
    """A part of a file, with the utterances that it is of."""
    with np.load(file) as arrays:
        sounds = np.split(arrays[f"{part}_sounds"] / np.float32(2**15), arrays[f"{part}_ends"][:-1])
    return [*map(Spoken, said, sounds)]


def examples() -> list[Spoken]:
    """Some sentences of the test, from the repository: they need no eSpeak NG."""
    said = utterances()["test"]
    return read(FOLDER / "examples.npz", "test", [said[i] for i in EXAMPLES])


if __name__ == "__main__":
    test = load()["test"]
    np.savez_compressed(FOLDER / "examples.npz", **as_arrays({"test": [test[i] for i in EXAMPLES]}))
