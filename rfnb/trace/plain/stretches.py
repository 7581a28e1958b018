"""In a job, the newest iterations of a loop that runs are in files: a process that is killed loses the one it is in."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from time import monotonic

from rfnb.core.ground.source import warn
from rfnb.printable import error_text
from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.log import Log
from rfnb.trace.plain.remembered import name_of, run_of
from rfnb.trace.plain.syntax import BEFORE, Use
from rfnb.trace.run.file.save import write_run_file
from rfnb.trace.run.job import file_name, in_job
from rfnb.trace.run.options import options

MOST_STEPS, MOST_FILES = 16, 4
"""Largest number of iterations of a file, and of files of a loop."""
SHARE, CREDIT = 0.05, 0.2
"""Largest part of the time that writing takes, and the seconds that it may take before."""


class Stretches:
    """Writes the iterations of a loop as runs of a few each, in the job's folder, and removes these when it has ended.

    Where iterations are quick, some are left out, so that the loop takes hardly longer.
    """

    def __init__(self) -> None:
        self._paths: list[Path] = []
        self._first = self._end = 0  # of the newest file
        self._began, self._spent = monotonic(), 0.0

    def after_step(self, loop: Iterations) -> None:
        """An iteration has ended."""
        now = monotonic()
        if self._spent <= SHARE * (now - self._began) + CREDIT:
            try:
                in_job(partial(self._write, loop))
            except Exception as error:  # a problem of the file never becomes one of the loop
                self._spent = math.inf
                warn(f"the steps of a loop are not written while it runs: {error_text(error)}")
            self._spent += monotonic() - now

    def _write(self, loop: Iterations, folder: Path) -> None:
        end = len(loop.starts)
        if end - self._first > MOST_STEPS:
            self._first = max(self._end, end - MOST_STEPS)
        self._end, first = end, max(self._first, loop.first)
        name = loop.name or name_of(loop)
        path = folder / "runs" / f"{file_name(name)}-from-{first:06d}.rfrun"
        path.parent.mkdir(exist_ok=True)
        run = run_of(stretch(loop, first), loop.dims)
        run.name = f"{name}, steps {first} … {end - 1}"
        write_run_file(run, path, limit=None, states=options.trace_budget)
        self._paths = [*dict.fromkeys([*self._paths, path])]
        for old in self._paths[:-MOST_FILES]:
            old.unlink(missing_ok=True)
        del self._paths[:-MOST_FILES]

    def end(self) -> None:
        """The loop has ended, and its run is written as a whole."""
        for path in self._paths:
            path.unlink(missing_ok=True)


def stretch(loop: Iterations, first: int) -> Iterations:
    """The iterations from one on, as a loop of their own, without the loops inside of them."""
    log, part = Log(), Iterations(loop.code, loop.outline, loop.number, Log())
    for name, entry in loop.before(first).items():
        part.places[name] = len(log)
        log.add(Use(name, BEFORE, entry.line, True, False), entry.value, entry.version)
    start, ran, before = loop.starts[first], loop.ran[first], len(log)
    log.uses += loop.log.uses[start:]
    log.values += loop.log.values[start:]
    log.versions += loop.log.versions[start:]
    log.statements += loop.log.statements[ran:]
    part.log, part.around, part.name = log, loop.around, loop.name
    part.starts = [at - start + before for at in loop.starts[first:]]
    part.ran = [at - ran for at in loop.ran[first:]]
    part.moments = loop.moments[first:]
    part.end, part.ran_end = len(log), len(log.statements)
    return part
