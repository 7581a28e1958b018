"""What each process of `rf.launch` runs: the function, in a process group, with its error and result written down."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from rfnb.printable import error_text
from rfnb.trace.run.job import KERNEL, is_alive, job_folder, rank, write_error

GROUP = "RFNB_GROUP"
"""The environment variable with the backend of the process group; empty: none."""


class Process:
    """This process: the values that go along with the script, and the call of its function."""

    def __init__(self, script: str):
        self.folder = Path(script).parent
        os.environ.pop("PYTHONSAFEPATH", None)  # it was for this script, not for what it starts
        job_folder()

    @cached_property
    def first(self) -> dict[str, object]:
        """Values of the notebook by name, but for instances of classes that it defines."""
        loaded = _load(self.folder / "first.pt")
        _first_objects.extend(loaded["objects"])
        return dict(loaded["values"])

    @cached_property
    def _later(self) -> dict[str, Any]:
        assert self.first is not None  # read before: later values refer to them
        return dict(_load(self.folder / "later.pt"))

    @property
    def later(self) -> dict[str, object]:
        """The other values of the notebook by name."""
        return dict(self._later["values"])

    def run(self, function: Callable[..., object]) -> None:
        """Calls the function; the first process writes the result."""
        threading.Thread(target=_end_with_kernel, daemon=True).start()
        try:
            positional, named = self._later["arguments"]
            _begin_group()
            result = function(*positional, **named)
        except BaseException as error:
            write_error(error)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)  # the other processes may wait for this one in a collective call
        if rank() == 0:
            self._write(result)
        _end_group()

    def _write(self, result: object) -> None:
        import torch

        try:
            torch.save(result, self.folder / "result.pt")
        except Exception as error:
            (self.folder / "result.pt").unlink(missing_ok=True)
            (self.folder / "no-result.txt").write_text(f"{type(result).__name__}: {error_text(error)}", "utf-8")


_first_objects: list[object] = []


def first_object(number: int) -> object:
    """What the first values consist of, by number."""
    return _first_objects[number]


def _load(path: Path) -> Any:
    import torch

    return torch.load(path, weights_only=False, map_location=_own_device)


def _own_device(storage: Any, place: str) -> Any:
    """Values that were on an accelerator come to that of this process."""
    if not place.startswith("cuda"):
        return storage
    return storage.cuda(int(os.environ.get("LOCAL_RANK", 0)))


def _begin_group() -> None:
    import torch

    backend = os.environ.get(GROUP, "")
    if torch.cuda.is_available() and torch.cuda.device_count() > (local := int(os.environ.get("LOCAL_RANK", 0))):
        torch.cuda.set_device(local)
    if backend:
        torch.distributed.init_process_group(backend)


def _end_group() -> None:
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _end_with_kernel() -> None:
    """Ends this process when the one that launched it has gone: a killed kernel leaves nothing that trains on."""
    launched_by = int(os.environ.get(KERNEL, "0"))
    while launched_by:
        if not is_alive(launched_by):
            os._exit(1)
        time.sleep(1)
