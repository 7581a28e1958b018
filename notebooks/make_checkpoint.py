"""Trains the model of the tour and saves `data/g2p.safetensors`: the code is that of the notebook's own cells.

    python notebooks/make_checkpoint.py [CPU seconds, 480 if not given]

Seeds are fixed, and the notebook gives torch one thread. Time is CPU time, so that what else runs on the machine
changes little.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from time import process_time
from typing import Any

import torch

import rfnb as rf

HERE = Path(__file__).parent
NOTEBOOK = HERE / "01_tour.ipynb"
CHECKPOINT = HERE / "data" / "g2p.safetensors"
PARTS = ("data", "model", "training", "decoding")
"""The tags of the cells that are needed, in the order of the notebook."""


def cells(parts: Collection[str] = PARTS, file: Path = NOTEBOOK) -> list[dict[str, Any]]:
    """The code cells of the tour that have one of these tags."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    tagged = [(cell, cell["metadata"].get("tags", ())) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell, tags in tagged if set(tags) & set(parts)]


def namespace(parts: Collection[str] = PARTS, file: Path = NOTEBOOK) -> dict[str, Any]:
    """What these cells define, run in order."""
    names: dict[str, Any] = {"__name__": "tour"}
    for cell in cells(parts, file):
        exec(compile("".join(cell["source"]), f"{file.name}, cell {cell['id']}", "exec"), names)
    return names


def error_rates(tour: dict[str, Any], references: dict[str, list[list[str]]]) -> str:
    """Of greedy decoding, a few hundred words at a time."""
    words = sorted(references, key=len)
    answers: dict[str, list[str]] = {}
    for start in range(0, len(words), 500):
        answers |= tour["pronounce"](tour["model"], words[start : start + 500])
    per, wer = tour["g2p_data"].error_rates(answers, references)
    return f"PER {per:.2f} %, WER {wer:.2f} % of {len(words):,} words"


def main(seconds: float = 480) -> None:
    """Trains, tells the error rates, saves."""
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
