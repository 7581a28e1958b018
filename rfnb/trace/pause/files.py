"""Runs of loops that would have been paused, written to files where nobody can look at them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rfnb.core.run_ctx import get_run_ctx_step
from rfnb.printable import error_text
from rfnb.trace.run.file.save import write_run_file
from rfnb.trace.run.options import options
from rfnb.trace.run.training import OneStep
from rfnb.trace.run.warn import warn

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

MOST_FILES = 5
"""Largest number of files that a process writes."""
MOST_BYTES = 2**30
"""Largest size of these files together."""

_written: list[int] = []  # their sizes


def write_pause(run: Run, step: int, what: str) -> Path | None:
    """Writes the run to `rf.options.pause_folder`, with one warning; None if there is no room or it cannot be written.

    The name of the file has the name of the loop, the rank of the process, if there are several, and the step: that of
    the training, if `rf.init_train_step_run_ctx(step=…)` gave one, or else that of the loop.

    what: the first words of the warning.
    """
    if len(_written) >= MOST_FILES or sum(_written) >= MOST_BYTES:
        return None
    folder, training_step = Path(options.pause_folder), get_run_ctx_step()
    if training_step and run.training is None:
        run.training = OneStep(training_step, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{_plain(run.name)}{_rank()}-step{training_step or step}"
        limit = MOST_BYTES // MOST_FILES // 2
        path = write_run_file(run, _free(folder, name), limit=limit, states=limit)
    except Exception as error:
        warn(f"{what}; its run could not be written: {error_text(error)}")
        _written.append(0)
        return None
    _written.append(path.stat().st_size)
    is_last = len(_written) >= MOST_FILES or sum(_written) >= MOST_BYTES
    ending = "; no more are written: a process writes at most 5 files, together 1 GiB" if is_last else ""
    warn(f'{what}; its run is in a file: rf.load_run("{path}"){ending}')
    return path


def _rank() -> str:
    """The rank of this process as a part of a file name; empty if it is the only one."""
    is_only = os.environ.get("WORLD_SIZE", "1") == "1"
    return "" if is_only else f"-rank{_plain(os.environ.get('RANK', '0'))}"


def _plain(name: str) -> str:
    """A name without characters that have a meaning in file names."""
    return re.sub(r"[^\w-]+", "_", name)[:80] or "loop"


def _free(folder: Path, name: str) -> Path:
    """The path of a file that does not exist yet."""
    paths = (folder / f"{name}{f'-{n}' if n else ''}.rfrun" for n in range(10_000))
    return next(path for path in paths if not path.exists())
