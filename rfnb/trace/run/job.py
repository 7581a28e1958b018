"""The folder of a job: what each of its processes writes for `rf.launch` and `rf.attach`, in another process.

`RFNB_JOB` names it. Each process has a folder in it, `rank-0`, with files that are there completely or not at all:
`process.json`, `error.json`, `progress-*.json`, and the folders `runs`, `pauses` and `probes`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import cache, partial
from linecache import getline
from pathlib import Path
from time import time
from types import TracebackType

from rfnb.core.ground.atomic import replacing
from rfnb.core.ground.source import is_users
from rfnb.printable import error_text

JOB = "RFNB_JOB"
"""The environment variable with the folder of the job that this process belongs to."""
KERNEL = "RFNB_KERNEL"
"""That with the process that launched this one, and shows its progress."""


def rank() -> int:
    """The number of this process among those of a job."""
    number = os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0")  # of torchrun, else of srun
    return int(number) if number.isdigit() else 0


def is_alive(pid: int, began: str = "") -> bool:
    """Whether a process of this machine runs. began: as `beginning` gave it, if its number may be that of another."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    facts = _facts(pid)
    return not facts or (facts[0] != "Z" and began in ("", facts[19]))


def beginning(pid: int) -> str:
    """When a process of this machine began, in ticks of Linux; "" where that is not known."""
    return "".join(_facts(pid)[19:20])


def _facts(pid: int) -> list[str]:
    """What Linux tells of a process, from its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def job_folder() -> Path | None:
    """The folder of this process in that of its job; None without a job."""
    path = os.environ.get(JOB)
    return _prepared(Path(path) / f"rank-{rank()}") if path else None


@cache
def _prepared(folder: Path) -> Path:
    """The folder, with `process.json`. What ends this process is written there too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "error.json").unlink(missing_ok=True)  # of an earlier start
    pid = os.getpid()
    write_json(folder / "process.json", {"pid": pid, "host": os.uname().nodename, "began": beginning(pid)})
    outer_hook = sys.excepthook

    def write_and_print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        write_error(error)
        outer_hook(kind, error, trace)

    sys.excepthook = write_and_print
    return folder


def write_error(error: BaseException) -> None:
    """Writes the error that ends this process, with its place in the user's code."""
    in_job(partial(_write_error, error))


def _write_error(error: BaseException, folder: Path) -> None:
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [(code, line) for code, line in frames if is_users(code)] or frames
    places = [
        f"{Path(code.co_filename).name}, line {line}, in {code.co_name}: {getline(code.co_filename, line).strip()}"
        for code, line in frames
    ]
    text = "".join(traceback.format_exception(error))
    write_json(
        folder / "error.json", {"error": error_text(error), "at": "\n".join(places), "traceback": text, "time": time()}
    )


def file_name(name: str) -> str:
    """A name without characters that have a meaning in file names."""
    return re.sub(r"[^\w-]+", "_", name)[:80] or "loop"


def write_json(path: Path, data: object) -> None:
    """Replaces a file."""
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(data), encoding="utf-8")


def in_job(write: Callable[[Path], object]) -> None:
    """Calls `write` with the folder of this process, if it belongs to a job. A full disk does not end the training."""
    try:
        if (folder := job_folder()) is not None:
            write(folder)
    except OSError as error:
        print(f"rfnb: {os.environ.get(JOB)} cannot be written: {error_text(error)}", file=sys.stderr)
