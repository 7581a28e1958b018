"""Starts a function of the notebook in several processes by torchrun, and shows here what they print and report."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from rfnb.core.ground.source import warn
from rfnb.core.tensor.op import guarded
from rfnb.display.training.progress import ShownLoops
from rfnb.errors import LaunchError, ParameterError
from rfnb.jobs.job import Job
from rfnb.jobs.script import Script
from rfnb.jobs.worker import GROUP
from rfnb.trace.run.job import JOB, KERNEL

PAUSE = 0.1
"""Seconds between two looks at what the processes wrote."""
PATIENCE = 10.0
"""Seconds that processes have to end after a signal."""


@guarded
def launch(
    function: Callable[..., object],
    /,
    *args: object,
    num_processes: int = 2,
    folder: str | os.PathLike[str] | None = None,
    group: str | None = "auto",
    **kwargs: object,
) -> Any:
    """Calls a function in several processes, started by torchrun, and returns the result of the first.

    The function goes to the processes as a script, with all that it uses from other cells: imports, functions, classes,
    and values that can be pickled. The processes are new ones: nothing of this kernel, such as its CUDA context, is
    shared. What they print appears below the cell, with the rank before lines of others than the first, and
    `rf.progress` of the first draws its curves there. An interrupt ends all of them.

    >>> def train(steps):
    ...     for step in rf.progress(range(steps)):
    ...         pass
    ...     return torch.distributed.get_world_size()
    >>> rf.launch(train, 3, num_processes=2)  # doctest: +SKIP
    2

    Args:
        function: outside of other functions.
        args, kwargs: arguments of the call.
        num_processes: all on this machine.
        folder: where scripts, output, curves and runs stay, to be opened by `rf.attach`. By default they are removed.
        group: the backend of the process group that is made before the call and destroyed after it, as for
            `torch.distributed.init_process_group`; "auto": gloo, and NCCL for CUDA. None: the function makes its own.

    Raises LaunchError before the start for a function or value that cannot go along and for a folder in which a job
    still runs, and after the first failure of a process, with its rank and place.
    """
    if isinstance(num_processes, bool) or not isinstance(num_processes, int) or num_processes < 1:
        raise ParameterError(
            "launch: `num_processes` is not a number of processes", got=repr(num_processes), expected="1 or more"
        )
    script = Script(function, (args, kwargs))
    if folder is not None:
        path = Path(folder).absolute()
        path.mkdir(parents=True, exist_ok=True)
        _check_free(path)
        return Launched(script.name, script.write(path), num_processes, group).result()
    with tempfile.TemporaryDirectory(prefix="rfnb-launch-") as temporary:
        return Launched(script.name, script.write(Path(temporary)), num_processes, group).result()


def _check_free(folder: Path) -> None:
    """Raises LaunchError if a job runs in the folder: a second one would replace its files."""
    running = [process for process in Job(folder).processes if process.may_run]
    if running:
        pids = " ".join(str(process.pid) for process in running if process.is_here)
        raise LaunchError(
            f"launch: a job still runs in the folder {folder}",
            got="\n".join(f"rank {process.rank}: process {process.pid} on {process.host}" for process in running),
            expected="a folder without a job that runs",
            hint="another folder; rf.attach(folder) follows that job" + (f"; `kill {pids}` ends it" if pids else ""),
        )


class Launched:
    """Processes that run a script."""

    def __init__(self, name: str, script: Path, count: int, group: str | None):
        self.name, self.folder, self.count = name, script.parent, count
        for name in ("result.pt", "no-result.txt"):
            (self.folder / name).unlink(missing_ok=True)
        for process in self.folder.glob("rank-*/process.json"):
            shutil.rmtree(process.parent)  # of an earlier launch, perhaps with more processes
        self.job = Job(self.folder)
        self._loops = ShownLoops()
        self._seen: dict[str, int] = {}
        self._offsets: dict[Path, int] = {}
        self._logs = tempfile.mkdtemp(prefix="logs-", dir=self.folder)
        self._said = (self.folder / "torchrun.txt").open("wb")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        command += ["--log-dir", self._logs, "--redirects", "3", os.fspath(script)]
        self._process = subprocess.Popen(
            command, env=self._environment(group), stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said,
            start_new_session=True,
        )  # fmt: skip

    def _environment(self, group: str | None) -> Mapping[str, str]:
        import torch

        auto = "cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= self.count else "gloo"
        threads = str(max(1, (os.cpu_count() or 1) // self.count))
        return {
            "OMP_NUM_THREADS": threads,
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)]),
            "PYTHONUNBUFFERED": "1",
            "PYTHONSAFEPATH": "1",  # the script may be called copy.py
            JOB: os.fspath(self.folder),
            GROUP: (auto if group == "auto" else group) or "",
            KERNEL: str(os.getpid()),
        }

    def result(self) -> Any:
        """What the first process returns, once all have ended. Raises LaunchError if one fails."""
        try:
            while self._process.poll() is None:
                self._follow()
                time.sleep(PAUSE)
        finally:
            self._end()
            self._follow()
            self._loops.close()
            self._said.close()
        if self._process.returncode:
            raise self._failure()
        return self._loaded()

    def _follow(self) -> None:
        for stream, text in self._printed():
            print(text, end="", file=stream, flush=True)
        for name, view in self.job.new_progress(0, self._seen):
            self._loops.update(name, view)

    def _printed(self) -> Iterator[tuple[IO[str], str]]:
        """What the processes wrote since the last call, line by line."""
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            for path in sorted(Path(self._logs).glob(f"*/attempt_*/*/{name}.log")):
                number = path.parent.name
                prefix = "" if number == "0" else f"[rank {number}] "
                for line in self._new_lines(path):
                    yield stream, f"{prefix}{line}\n"

    def _new_lines(self, path: Path) -> list[str]:
        """The complete lines of a file since the last call."""
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            complete, end, _ = file.read().rpartition(b"\n")
        self._offsets[path] = self._offsets.get(path, 0) + len(complete) + len(end)
        return complete.decode("utf-8", "replace").split("\n") if end else []

    def _end(self) -> None:
        """Ends all processes, if they have not ended."""
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            self._process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        for process in self.job.processes:
            if process.pid > 0 and process.is_here and not process.ended:
                with suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)

    def _failure(self) -> LaunchError:
        """The first failure. If a process was killed, that is it: others then fail for want of this one."""
        output = (self.folder / "torchrun.txt").read_text("utf-8", errors="replace")
        codes = re.findall(r"rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)", output)
        killed = [(rank, -int(code)) for rank, code in codes if int(code) < 0 and int(code) != -signal.SIGTERM]
        errors = [(process.rank, process.error) for process in self.job.processes if process.error]
        if killed:
            rank, got = killed[0][0], f"the process ended with {_signal(killed[0][1])}"
        elif errors:
            number, error = min(errors, key=lambda pair: pair[1]["time"])
            rank, got = str(number), f"{error['error']}\n{error['at']}"
        else:
            ends = "\n".join(f"rank {rank} ended with exit code {code}" for rank, code in codes)
            return LaunchError(f"launch: {self.name!r} failed", got=ends or output[-2000:])
        return LaunchError(f"launch: {self.name!r} failed in rank {rank} of {self.count}", got=got)

    def _loaded(self) -> object:
        import torch

        if (path := self.folder / "result.pt").exists():
            return torch.load(path, weights_only=False)
        if (path := self.folder / "no-result.txt").exists():
            warn(f"launch: the result of {self.name!r} cannot come back: {path.read_text('utf-8')}")
        return None


def _signal(number: int) -> str:
    """The name of a signal. SIGKILL often means that memory was short."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
