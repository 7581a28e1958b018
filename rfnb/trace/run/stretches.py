"""In a job, the newest steps of a loop that runs are in files: a process that is killed loses the one it is in."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

from rfnb.core.ground.source import warn
from rfnb.printable import error_text
from rfnb.trace.run.file.save import write_run_file
from rfnb.trace.run.job import file_name, in_job
from rfnb.trace.run.options import options
from rfnb.trace.run.run import Run

MOST_STEPS, MOST_FILES = 16, 4
"""Largest number of steps of a file, and of files of a loop."""
SHARE, CREDIT = 0.05, 0.2
"""Largest part of the time that writing takes, and the seconds that it may take before."""


class Stretches:
    """Writes the steps of a loop as runs of a few each, in the job's folder, and removes these when it has ended.

    Where steps are quick, some are left out, so that the loop takes hardly longer.

    Args:
        credit: the seconds that writing may take at first; negative: it begins later.
    """

    def __init__(self, credit: float | None = None) -> None:
        self._credit = CREDIT if credit is None else credit
        self._paths: list[Path] = []
        self._first = self._end = 0  # of the newest file
        self._began, self._spent = monotonic(), 0.0

    def after_step(self, end: int, run_from: Callable[[int], Run]) -> None:
        """A step has ended.

        Args:
            end: the number of steps until now.
            run_from: the steps from one on, as a run; it may begin elsewhere if these are not kept.
        """
        time = monotonic()
        if self._spent <= SHARE * (time - self._began) + self._credit:
            try:
                in_job(partial(self._write, end, run_from))
            except Exception as error:  # a problem of the file never becomes one of the loop
                self._spent = math.inf
                warn(f"the steps of a loop are not written while it runs: {error_text(error)}")
            self._spent += monotonic() - time

    def _write(self, end: int, run_from: Callable[[int], Run], folder: Path) -> None:
        if end - self._first > MOST_STEPS:
            self._first = max(self._end, end - MOST_STEPS)
        self._end, run = end, run_from(self._first)
        start = end - run.steps
        path = folder / "runs" / f"{file_name(run.name)}-from-{start:06d}.rfrun"
        path.parent.mkdir(exist_ok=True)
        run.name = f"{run.name}, steps {start} … {end - 1}"
        write_run_file(run, path, limit=None, states=options.trace_budget)
        self._paths = [*dict.fromkeys([*self._paths, path])]
        for old in self._paths[:-MOST_FILES]:
            old.unlink(missing_ok=True)
        del self._paths[:-MOST_FILES]

    def end(self) -> None:
        """The loop has ended, and its run is written as a whole."""
        for path in self._paths:
            path.unlink(missing_ok=True)
