"""The shots of a probe as folders `step-000000200`. Each is there completely or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from operator import index
from pathlib import Path
from uuid import uuid4

from rfnb.errors import RunFileError
from rfnb.trace.probe.shot import STEP, Shot, read_shot, size_of


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
            shot = read_shot(folder, self)
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
            target.write(step, lambda to, step=step: shutil.copytree(self._of(step), to, dirs_exist_ok=True))  # type: ignore[misc]
        for step in set(target.steps()) - set(steps):
            target.remove(step)

    def _of(self, step: int) -> Path:
        return self.path / f"step-{step:09d}"
