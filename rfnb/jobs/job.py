"""What the processes of a job wrote to its folder: errors, curves, runs, pauses and probes, as objects and as a page.

The files may come from others, and from a job that is being killed: each is checked, and read again when it changes.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from platform import node
from time import time
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.op import guarded
from rfnb.display.kit import blocks as page
from rfnb.display.kit.view import View
from rfnb.display.markup import style
from rfnb.display.training.progress import ProgressView
from rfnb.errors import LaunchError, RunFileError
from rfnb.printable import error_message
from rfnb.trace.probe.probe import Probe
from rfnb.trace.run.file.fields import conform
from rfnb.trace.run.file.load import load_run
from rfnb.trace.run.job import is_alive
from rfnb.trace.run.options import options
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs

MOST_BYTES = 2**22
"""Largest size of a file of JSON that is read."""
MOST_RANKS = 64
"""Largest number of processes whose files are read."""
MOST_RUNS = 12
"""Largest number of runs of a process that are loaded."""
PAUSE = 1.0
"""Seconds between two looks for new runs."""


@dataclass(frozen=True)
class JobProcess:
    """A process of a job.

    Args:
        rank: its number.
        pid, host: where it runs.
        began: when, as `beginning` gives it.
        error: what ended it, with its place and time; None if nothing did.
        step: how far its training loop is, in words.
        quiet_for: seconds since it last wrote something.
    """

    rank: int
    pid: int
    host: str
    began: str
    error: dict[str, Any] | None
    step: str
    quiet_for: float

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine."""
        return self.host == node()

    @property
    def ended(self) -> bool:
        """Whether it has ended. On another machine, only an error tells."""
        if self.error is not None or not self.is_here:
            return self.error is not None
        return self.pid > 0 and not is_alive(self.pid, self.began)

    @property
    def may_run(self) -> bool:
        """Whether it writes, or may write, to its folder. On another machine, if it did so in the last minute."""
        return self.pid > 0 and not self.ended and (self.is_here or self.quiet_for < 60)


class Job(Shown):
    """The processes of a job, read from its folder; nothing is written there. Shown, it is as it is now.

    >>> rf.attach(folder).processes
    []
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._runs: dict[Path, tuple[int, Run | None]] = {}
        self._unreadable: dict[Path, str] = {}
        self._lock = threading.Lock()  # `list_runs` reads in a thread
        self._stop = threading.Event()

    # -- processes and curves

    @property
    def processes(self) -> list[JobProcess]:
        """Each process that has begun."""
        return [self._process(rank, folder) for rank, folder in self._ranks()]

    def _ranks(self) -> list[tuple[int, Path]]:
        paths = [path for path in self.folder.glob("rank-*") if path.is_dir()]
        folders = [(path.name[5:], path) for path in paths if path.name[5:].isdecimal()]
        return sorted((int(number), path) for number, path in folders)[:MOST_RANKS]

    def _process(self, rank: int, folder: Path) -> JobProcess:
        unknown = {"pid": 0, "host": "", "began": ""}
        process = self._read(folder / "process.json", {"pid": int, "host": str, "began": str}) or unknown
        error = self._read(folder / "error.json", {"error": str, "at": str, "traceback": str, "time": float})
        views = [view for _, view in self.progress(rank)]
        written = max(map(_written, [folder, *folder.glob("*.json")])) / 1e9
        step = ", ".join(f"{view['name'] or 'training'}: step {view['steps']}" for view in views)
        return JobProcess(rank, **process, error=error, step=step, quiet_for=time() - written)

    def progress(self, rank: int) -> list[tuple[str, ProgressView]]:
        """The curves of each training loop of a process, by the name of their file."""
        return [*self.new_progress(rank, {})]

    def new_progress(self, rank: int, seen: dict[str, int]) -> Iterator[tuple[str, ProgressView]]:
        """Those that changed since the last call with this `seen`."""
        for path in sorted((self.folder / f"rank-{rank}").glob("progress-*.json")):
            written = _written(path)
            if seen.get(path.name) != written and (view := self._read(path, ProgressView)):
                seen[path.name] = written
                yield path.name, view

    def _read(self, path: Path, form: object) -> Any:
        """The content of a file of JSON; None if it is not there, or is not what it should be."""
        try:
            content = conform(json.loads(_read_bytes(path)), form, path.name)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._unreadable[path] = error_message(error).partition("\n")[0][:200]
            return None
        self._unreadable.pop(path, None)
        return content

    # -- runs and probes

    @property
    def runs(self) -> list[Run]:
        """The newest runs of loops, and of pauses; the newest last. Their names have the rank.

        Those are the last 12 of each process, as far as all fit into `rf.options.trace_budget`.
        """
        paths, _ = self._files()
        with self._lock:
            self._runs = {path: entry for path, entry in self._runs.items() if path in paths}
            return [run for path in paths if (run := self._run(path)) is not None]

    @property
    def older_runs(self) -> list[Path]:
        """The files of the runs that `runs` has no longer, for `rf.load_run`; the newest last."""
        return self._files()[1]

    def _files(self) -> tuple[list[Path], list[Path]]:
        """The files of the newest runs, and those of others, by age."""
        ranks, parts = self._ranks(), ("runs", "pauses")
        paths = [path for _, folder in ranks for part in parts for path in folder.glob(f"{part}/*.rfrun")]
        newest, older, counts, free = list[Path](), list[Path](), Counter[str](), options.trace_budget
        for path in sorted(paths, key=_written, reverse=True):
            counts[path.parts[-3]] += 1
            if counts[path.parts[-3]] <= MOST_RUNS and (n_bytes := _size(path)) <= free:
                newest, free = [path, *newest], free - n_bytes
            else:
                older = [path, *older]
        return newest, older

    def _run(self, path: Path) -> Run | None:
        written = _written(path)
        if path not in self._runs or self._runs[path][0] != written:
            try:
                run = load_run(path)
                run.name = f"{run.name} · rank {path.parts[-3][5:]}"
            except Exception as error:  # whatever is in the file, the others are read
                self._unreadable[path] = page.reason(error)
                run = None
            self._runs[path] = written, run
        return self._runs[path][1]

    @property
    def probes(self) -> list[Probe]:
        """The probes that its trainings run, as `rf.load_probe` gives them."""
        folders = [path for _, folder in self._ranks() for path in sorted(folder.glob("probes/*")) if path.is_dir()]
        return [Probe(path, name=path.name) for path in folders]

    def list_runs(self) -> None:
        """Puts runs into `rf.runs` as they come, where the panel finds them, until `stop`."""

        def look() -> None:
            listed: set[int] = set()
            while not self._stop.wait(PAUSE if listed else 0):
                for run in self.runs:
                    if run.serial not in listed:
                        listed.add(run.serial)
                        runs.add(run)
                listed.add(-1)

        threading.Thread(target=look, daemon=True, name="rfnb-job").start()

    def stop(self) -> None:
        """Looks for new runs no more."""
        self._stop.set()


def _read_bytes(path: Path) -> bytes:
    """The content of a file. Raises RunFileError for a large one, and for what has no end, such as a pipe."""
    if not path.is_file() and path.exists():
        raise RunFileError(f"{path.name} is not a file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise RunFileError(f"{path.name} has more than {MOST_BYTES} bytes")
    return content


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@guarded
def attach(folder: str | os.PathLike[str]) -> Job:
    """Follows a job that runs elsewhere: under torchrun or Slurm, in another notebook, on another machine.

    The job is started with `RFNB_JOB=folder` in its environment. Its processes then write there what `rf.progress`
    shows, the runs that they record, pauses that nobody can answer, probes without a path, and the error that ends
    them. Here, the runs come into the panel, with the rank in their names. Nothing is written by this side, and no port
    is opened.

    >>> job = rf.attach(folder)
    >>> job
    job 0 ranks
    >>> job.stop()

    Args:
        folder: need not have anything in it yet.

    Raises LaunchError if it is a file.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise LaunchError("attach: this is not a folder", got=path, hint="the folder that RFNB_JOB names for the job")
    job = Job(path)
    job.list_runs()
    return job


# -- the view


@page.shows("job", "rfnb.jobs.job.Job")
def describe(job: Job) -> page.Page:
    """A row for each process; then curves of the first, errors, runs and probes."""
    processes = job.processes
    failed = [process for process in processes if process.error]
    rows = [[str(p.rank), _state(p), p.step, page.quiet(f"{p.host} · {p.pid}")] for p in processes]
    blocks: list[page.Block] = [
        page.Line(page.bold("job "), count_of(len(processes), "rank"), look=style.HEAD),
        page.Grid(rows, ["rank", "state", "step", "process"]) if rows else None,
    ]
    for process in sorted(failed, key=lambda process: process.error["time"] if process.error else 0.0):
        assert process.error is not None
        lines = [page.Line(page.mono(line)) for line in process.error["traceback"].splitlines()[-40:]]
        blocks.append(page.Fold(page.chip(f"rank {process.rank}: {process.error['error']}", style.ALARM), lines))
    for _, view in job.progress(processes[0].rank) if processes else ():
        blocks += View(view).page.blocks
    recorded = job.runs
    if recorded:
        blocks.append(page.Grid([[run.name, f"{len(run)} steps"] for run in recorded[-12:]], ["run", ""]))
    if older := job.older_runs:
        blocks.append(page.Note(f"{count_of(len(older), 'older run')} in files: rf.load_run(job.older_runs[-1])"))
    if probes := job.probes:
        blocks.append(page.Grid([[probe.name, count_of(len(probe), "shot")] for probe in probes], ["probe", ""]))
    blocks += [page.Note(f"{path.name}: {why}") for path, why in [*job._unreadable.items()][:5]]
    return page.Page("job", job.folder.name, blocks)


def _state(process: JobProcess) -> page.Words:
    if process.error:
        return page.chip("failed", style.ALARM)
    if process.ended:
        return "ended"
    return "runs" if process.quiet_for < 60 else f"wrote nothing for {process.quiet_for:.0f} s"
