"""Trains the model of the tour with the code of the notebook's cells, and saves `data/g2p.safetensors`.

    python notebooks/make_checkpoint.py [CPU seconds, 480 by default]

Seeds are fixed, and the notebook gives torch one thread. Time is CPU time, so other programs on the machine have
little influence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from time import process_time
from typing import Any

import torch

import rfnb as rf
from tour_cells import HERE, NOTEBOOK, cells, run

CHECKPOINT = HERE / "data" / "g2p.safetensors"
TAGS = ("imports", "data", "model", "training", "decoding")
"""The tags of the cells that training needs, in the order of the notebook."""


def namespace(tags: Collection[str] = TAGS, file: Path = NOTEBOOK) -> dict[str, Any]:
    """The names that these cells define, run in order."""
    names: dict[str, Any] = {"__name__": "tour"}
    for cell in cells(tags, file):
        run("".join(cell["source"]), name=f"{file.name}, cell {cell['id']}", into=names)
    return names


def error_rates(tour: dict[str, Any], references: dict[str, list[list[str]]]) -> str:
    """The error rates of greedy decoding, as text. Decodes a few hundred words at a time."""
    words = sorted(references, key=len)
    answers: dict[str, list[str]] = {}
    for start in range(0, len(words), 500):
        answers |= tour["pronounce"](tour["model"], words[start : start + 500])
    per, wer = tour["g2p_data"].error_rates(answers, references)
    return f"PER {per:.2f} %, WER {wer:.2f} % of {len(words):,} words"


def main(seconds: float = 480) -> None:
    """Trains the model, saves it, and prints its error rates."""
    tour = namespace()
    rf.set_random_seed(1)
    torch.manual_seed(1)
    tour["model"] = tour["Model"]()
    steps = tour["train"](tour["model"], seconds, clock=process_time)
    print(f"{steps:,} steps in {seconds:.0f} CPU seconds, {steps / seconds:.1f} per second")
    rf.save_checkpoint(tour["model"], CHECKPOINT)
    print(f"{CHECKPOINT.name}: {CHECKPOINT.stat().st_size:,} bytes")
    for part in ("dev", "test"):
        print(f"{part}: {error_rates(tour, tour['data'][part])}")


if __name__ == "__main__":
    os.chdir(HERE)
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    main(*map(float, sys.argv[1:]))
