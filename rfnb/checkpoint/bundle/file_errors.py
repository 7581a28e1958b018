"""The error for a malformed file: which file, at which byte, what was expected there."""

from __future__ import annotations

from pathlib import Path

from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError


def broken(file: Path, byte: int, got: object, expected: object, hint: str | None = None) -> CheckpointError:
    """The error for a file that is not as it should be at a byte."""
    return CheckpointError(
        f"{public_function()}: {file} cannot be read, byte {byte}",
        got=got,
        expected=expected,
        hint=hint,
    )
