"""The built front end that widgets and saved pages carry, and the type of what it reads in an output."""

from __future__ import annotations

from pathlib import Path

from rfnb.errors import ViewError

STATIC = Path(__file__).parents[1] / "static"

MIME = "application/vnd.rfnb.view+json"
"""Beside the HTML of an output: what scripts need to enhance it, or which live widget it belongs to."""


def asset(name: str) -> Path:
    """A built file. Raises ViewError if it is not there."""
    path = STATIC / name
    if not path.is_file():
        raise ViewError(
            f"{path.stem}: its front end is not built",
            got=f"no file {name} in rfnb/display/static",
            expected="the output of the extension's build",
            hint="run `make lab` in the checkout, or install a wheel",
        )
    return path
