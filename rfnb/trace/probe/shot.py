"""Shots of a probe: what its function gave at a training step, each in a folder of its own.

Results are JSON and tensors: text, numbers, tensors, and dicts and lists of them; others become text.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from operator import index
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from rfnb.core.ground.backends import BACKENDS
from rfnb.core.ground.nested import named_parts
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import LoopError, RunFileError
from rfnb.printable import visible
from rfnb.trace.capture.capture import Captured, Seen
from rfnb.trace.run.file.fields import Text, conform, count, get, reading
from rfnb.trace.run.file.load import load_run
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.file.store import Reader, Writer, versions
from rfnb.trace.run.run import Run

LONGEST = 100_000
"""Longest text, in characters."""
DEEPEST = 20


def write_result(value: object, file: Writer, depth: int = 0) -> dict[str, object]:
    """The result as JSON `{"kind": content}`; tensors are added to the file."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return {"value": value}
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, str):
        return {"text": value[:LONGEST]}
    if isinstance(value, Tensor) and value.raw_tensor is not None:
        series = Series.like(value, value.name or "")
        series.add(0, value)
        return {"tensor": series.write(file, 1)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": file.array(value)}
    if isinstance(value, tuple(BACKENDS)) and not (
        isinstance(value, np.ndarray) or getattr(value, "is_quantized", False)
    ):
        raw: RawTensor = value
        with suppress(Exception):  # of sparse, nested and quantized tensors, and those without data, the text is kept
            return {"raw": file.add([raw]), "dtype": str(raw.dtype).removeprefix("torch.")}
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif not isinstance(value, list | tuple):  # a namespace, or an object of a class of attrs
        value = dict(named_parts(value) or ()) or value
    if isinstance(value, dict) and depth < DEEPEST:
        return {"dict": [[str(key)[:LONGEST], write_result(part, file, depth + 1)] for key, part in value.items()]}
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return {"list": [write_result(part, file, depth + 1) for part in value]}
    return {"text": visible(repr(value))[:LONGEST]}


def read_result(data: object, file: Reader) -> object:
    """The result; tuples are lists. Raises RunFileError for anything that `write_result` does not write."""
    kind = next(iter(conform(data, dict, "result")), None)
    if kind not in READERS:
        raise RunFileError("the file has a result of an unknown kind", got=repr(kind)[:40])
    return READERS[kind](data, file)


def _number(data: object, *_: object) -> float:
    word = get(data, "number", str)
    if word not in ("nan", "inf", "-inf"):
        raise RunFileError("the file has a number that is none", got=word[:40])
    return float(word)


def _dict(data: object, file: Reader) -> dict[str, object]:
    return {conform(key, Text, "dict"): read_result(part, file) for key, part in get(data, "dict", list)}


READERS: dict[str, Callable[[Any, Reader], object]] = {
    "value": lambda data, file: get(data, "value", bool | float | None),
    "number": _number,
    "text": lambda data, file: get(data, "text", Text),
    "tensor": lambda data, file: Series.read(data["tensor"], file, 1).tensor(0),
    "array": lambda data, file: file.array(data["array"]),
    "raw": lambda data, file: file.parts(data["raw"], get(data, "dtype", str))[0],
    "dict": _dict,
    "list": lambda data, file: [read_result(part, file) for part in get(data, "list", list)],
}
"""By kind, what reads it."""


FILE = "shot.safetensors"
KEY = "rfnb.probe"
FORMAT = 1
MOST_RUNS = 16
"""Largest number of runs in a shot."""
LEVELS = ("", "the runs are left out", "runs and attention are left out", "everything is left out")
"""What is left out of a shot that is larger than its budget, one after the other."""


class Shot:
    """What a probe has of one training step. Runs and attention are read when they are asked for.

    step: how many training steps were done. measures: what the training had reported, by name. result: what the
    function returned. loops: the names of those that it ran. note: what is left out, and why; None if it is complete.
    """

    def __init__(self, folder: Path, shots: ShotFolder):
        self._folder, self._shots = folder, shots
        file = Reader(folder / FILE, KEY, "the file contains no shot", FORMAT)
        data = file.data
        self.name, self.step = get(data, "name", str), count(data, "step", 2**62)
        self.every, self.time = count(data, "every", 2**62), float(get(data, "time", float))
        self.note: str | None = get(data, "note", str | None)
        self.measures = {name: float(value) for name, value in get(data, "measures", dict).items()}
        self.result = read_result(data["result"], file)
        self.attention = Captured([_seen(entry, file) for entry in get(data, "attention", list)])
        self.attention.left_out = get(data, "left_out", list[str])
        self.loops = get(data, "runs", list[str])
        self._files = [f"{number}.rfrun" for number in range(len(self.loops))]

    def __repr__(self) -> str:
        return f"Shot(step {self.step}: {len(self.loops)} runs, {len(self.attention)} attention)"

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of the loops, with the training step as their place."""
        runs = [load_run(self._folder / file) for file in self._files]
        for number, run in enumerate(runs):
            run.training = AtShot(self, self._shots, number)
            run.name, run.place = f"{run.name} · {self.name}", f"training step {self.step}"
        return runs

    def run(self, loop: str | None = None) -> Run:
        """The first run, or that of the loop with this name. Raises LoopError if there is none."""
        if loop is None and self.loops:
            return self.runs[0]
        if loop in self.loops:
            return self.runs[self.loops.index(str(loop))]
        raise LoopError(
            f"probe: step {self.step} has no run" + ("" if loop is None else f" of a loop {loop!r}"),
            expected=", ".join(dict.fromkeys(self.loops)) or None,
            hint=self.note or (None if self.loops else "the function runs no rf.Loop"),
        )

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return size_of(self._folder)


class AtShot:
    """Where in the training the run of a shot was made: the `Run.training` of the run with this number."""

    def __init__(self, shot: Shot, shots: ShotFolder, number: int):
        self.step, self._shots = shot.step, shots
        self.measures: Mapping[str, float] = shot.measures
        self._loop, self._which = shot.loops[number], shot.loops[:number].count(shot.loops[number])

    def steps(self) -> list[int]:
        """The training steps of all shots."""
        return sorted({self.step, *self._shots.steps()})

    def run(self, step: int) -> Run:
        """The run of the same loop in another shot: of several with its name, the one with the same place."""
        shot = self._shots.shot(step)
        runs = [run for run, name in zip(shot.runs, shot.loops, strict=True) if name == self._loop]
        return runs[self._which] if self._which < len(runs) else shot.run(self._loop)


@dataclass
class Material:
    """What a shot is made of, before it is written.

    attention: by `rf.capture`. runs: the recorded loops. note: why something is missing from the start.
    """

    name: str
    step: int
    every: int
    measures: Mapping[str, float]
    result: object = None
    attention: Captured = field(default_factory=Captured)
    runs: list[Run] = field(default_factory=list)
    note: str | None = None

    def write(self, folder: Path, budget: int) -> None:
        """Writes the files to an empty folder; leaves something out if they were larger than `budget` bytes."""
        runs = self.runs[:MOST_RUNS]
        notes = [self.note, f"only the first {MOST_RUNS} of {len(self.runs)} runs" if runs != self.runs else None]
        for number, run in enumerate(runs):
            run.save(folder / f"{number}.rfrun", limit=budget // (4 * len(runs)))
        for level, left_out in enumerate(LEVELS):
            if level == 1:
                for file in folder.glob("*.rfrun"):
                    file.unlink()
            note = "; ".join(filter(None, [*notes, left_out and f"{left_out}: larger than the budget"])) or None
            self._write_file(folder / FILE, runs if level < 1 else [], level < 2, level < 3, budget, note)
            if size_of(folder) <= budget:
                return

    def _write_file(
        self, path: Path, runs: list[Run], attention: bool, result: bool, budget: int, note: str | None
    ) -> None:
        file = Writer()
        items, left_out = _fitting(self.attention if attention else [], budget // 4)
        data = {
            "format": FORMAT,
            "versions": versions(),
            "name": self.name,
            "step": self.step,
            "every": self.every,
            "time": time.time(),
            "measures": {name: value if math.isfinite(value) else repr(value) for name, value in self.measures.items()},
            "result": write_result(self.result if result else None, file),
            "attention": [_write_seen(item, file) for item in items],
            "left_out": [*self.attention.left_out, *left_out] if attention else [],
            "runs": [run.name for run in runs],
            "note": note,
        }
        file.write(path, KEY, data)


def _fitting(attention: Iterable[Seen], room: int) -> tuple[list[Seen], list[str]]:
    """The attention that fits, and the names of the rest."""
    items, left_out = [], []
    for item in attention:
        rows, cols, heads = item.shape
        n_bytes = 4 * rows * cols * heads
        if n_bytes <= room:
            items.append(item)
            room -= n_bytes
        else:
            left_out.append(item.name)
    return items, left_out


def _write_seen(seen: Seen, file: Writer) -> dict[str, object]:
    weights = seen.weights
    series = Series.like(weights, seen.name)
    series.add(0, weights)
    return {
        "name": seen.name,
        "call": seen.call,
        "path": seen.path,
        "variable": seen.variable,
        "rows": file.dim(seen.rows),
        "cols": file.dim(seen.cols),
        "weights": series.write(file, 1),
    }


def _seen(data: Mapping[str, object], file: Reader) -> Seen:
    series = Series.read(get(data, "weights", dict), file, 1)
    weights: Tensor = series.tensor(0)
    rows, cols = file.dim_or_none(data.get("rows")), file.dim(data.get("cols"))
    if series.raws is None or cols not in weights.dims or (rows is not None and rows not in weights.dims):
        raise RunFileError("the attention in the file does not have its dims")
    axes = tuple((dim, weights.size_of(dim).max) for dim in weights.dims)
    path, variable = get(data, "path", str), get(data, "variable", str)
    name, call = get(data, "name", str), count(data, "call")
    return Seen(path, variable, None, rows, cols, axes, series.bytes, lambda: weights, name=name, call=call)


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder; 0 for one that is not there."""
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.is_dir() else 0


STEP = re.compile(r"step-(\d{9,18})")
"""The names of the folders of shots."""


class ShotFolder:
    """Writes, reads and removes shots. Other processes may read while this one writes."""

    def __init__(self, path: Path):
        self.path = path
        self.unreadable: list[str] = []
        self._known: dict[int, tuple[int, Shot]] = {}  # by step: when it was written

    def __contains__(self, step: object) -> bool:
        return hasattr(step, "__index__") and self._of(index(step)).is_dir()

    def steps(self) -> list[int]:
        """The training steps of all shots, in order."""
        names = [STEP.fullmatch(entry.name) for entry in self.path.iterdir()] if self.path.is_dir() else []
        return sorted(int(match[1]) for match in names if match)

    def shots(self) -> list[Shot]:
        """All readable shots, in order; those that are new are read. `unreadable` has what is wrong with the others."""
        shots, self.unreadable = [], []
        for step in self.steps():
            try:
                shots.append(self.shot(step))
            except RunFileError as error:
                if step in self:  # otherwise the writer has just removed it
                    self.unreadable.append(f"step {step}: {error.got or error.what}")
        self._known = {shot.step: self._known[shot.step] for shot in shots if shot.step in self._known}
        return shots

    def shot(self, step: int) -> Shot:
        """The shot of one step. Raises RunFileError if it cannot be read."""
        folder = self._of(step)
        try:
            written = folder.stat().st_mtime_ns
        except OSError as error:
            raise RunFileError(f"load_probe: {folder} cannot be read", got=error) from error
        if step not in self._known or self._known[step][0] != written:
            with reading(f"load_probe: {folder} cannot be read"):
                shot = Shot(folder, self)
            if shot.step != step:
                raise RunFileError(f"load_probe: {folder} has another step", got=shot.step, expected=step)
            self._known[step] = written, shot
        return self._known[step][1]

    def write(self, step: int, fill: Callable[[Path], None]) -> None:
        """Adds a shot: `fill` writes its files to an empty folder, which then gets its name."""
        self.path.mkdir(parents=True, exist_ok=True)
        unfinished = self.path / f".{self._of(step).name}.{uuid4().hex[:8]}.unfinished"
        unfinished.mkdir()
        try:
            fill(unfinished)
            self.remove(step)
            unfinished.rename(self._of(step))
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def remove(self, step: int) -> None:
        """Removes a shot; none is fine too."""
        trash = self.path / f".{self._of(step).name}.{uuid4().hex[:8]}.gone"
        if step in self:
            self._of(step).rename(trash)
            shutil.rmtree(trash, ignore_errors=True)

    def sweep(self) -> None:
        """Removes what a process left behind that was ended while it wrote."""
        for folder in self.path.glob(".step-*"):
            if folder.suffix in (".unfinished", ".gone"):
                shutil.rmtree(folder, ignore_errors=True)

    def fit(self, budget: int) -> None:
        """Removes shots until all are within `budget` bytes: those with the closest neighbours; first and last stay."""
        steps = self.steps()
        sizes = {step: size_of(self._of(step)) for step in steps}
        while sum(sizes.values()) > budget and len(steps) > 1:
            inner = range(1, len(steps) - 1)
            at = min(inner, key=lambda i: steps[i + 1] - steps[i - 1], default=0)
            step = steps.pop(at)
            sizes.pop(step)
            self.remove(step)

    @property
    def bytes(self) -> int:
        """The size of all shots."""
        return sum(size_of(self._of(step)) for step in self.steps())

    def copy_to(self, path: Path) -> None:
        """Copies all shots. Raises RunFileError if something else is there."""
        if path.exists() and (not path.is_dir() or any(not STEP.fullmatch(entry.name) for entry in path.iterdir())):
            raise RunFileError(f"save: {path} is not a folder of a probe", hint="a path that does not exist")
        if path.resolve() == self.path.resolve():
            return
        target = ShotFolder(path)
        path.mkdir(parents=True, exist_ok=True)
        steps = self.steps()
        for step in steps:
            target.write(step, partial(shutil.copytree, self._of(step), dirs_exist_ok=True))
        for step in set(target.steps()) - set(steps):
            target.remove(step)

    def _of(self, step: int) -> Path:
        return self.path / f"step-{step:09d}"
