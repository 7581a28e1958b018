"""Atomic writes: a file is either replaced completely or left as it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from rfnb.errors import RfError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; that file replaces `path` if the block ends without an error.

    If `path` is a link, the file that it points to is replaced. Raises FileExistsError if `path` is a device, a pipe or
    a folder, which must not be replaced.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "the path exists and is not a regular file", str(path))
    unfinished = path.with_name(f".{path.name[:200]}.{uuid4().hex[:8]}.unfinished")
    try:
        yield unfinished
        unfinished.chmod(_mode(path))
        _to_disk(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


Unwritable = TypeVar("Unwritable", bound=RfError)


def unwritable(path: Path, why: Exception, error: type[Unwritable]) -> Unwritable:
    """The error for a file that cannot be written because of `why`: a full disk, a missing folder."""
    unchanged = f"{path.name} is unchanged" if os.path.exists(path) else None  # noqa: PTH110, Path.exists raises for long names
    return error(f"save: {path} cannot be written", got=why, hint=unchanged)


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or the default of new files."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _to_disk(path: Path) -> None:
    """Waits until the content is on disk, so that a power failure does not leave an empty file under the final name."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
