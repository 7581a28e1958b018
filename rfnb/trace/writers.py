"""Who writes a run to a file, by the ending of its name. The writers register here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rfnb.errors import RunFileError

if TYPE_CHECKING:
    from rfnb.trace.run import Run

WRITERS: dict[str, Callable[[Run, Path, int | None], Path]] = {}
"""`writer(run, path, limit)` gives the path; limit: bytes, None for its default."""


def write(run: Run, path: str | os.PathLike[str], limit: int | None) -> Path:
    """The file. Raises RunFileError if nobody writes such files, or the folder is not there."""
    path = Path(path)
    writer = WRITERS.get(path.suffix)
    if writer is None:
        known = " or ".join(f'"x{ending}"' for ending in sorted(WRITERS, reverse=True))
        raise RunFileError("save: the ending of the name says what is written", got=repr(path.name), expected=known)
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise RunFileError("save: the limit is a number of bytes", got=repr(limit))
    if not path.parent.is_dir():
        raise RunFileError(f"save: there is no folder {path.parent}")
    return writer(run, path, limit)
