"""The built front end that widgets and saved pages carry, and the type of what it reads in an output."""

from __future__ import annotations

from pathlib import Path

from rfnb.errors import ViewError

STATIC = Path(__file__).parents[1] / "static"

MIME = "application/vnd.rfnb.view+json"
"""MIME type, next to the HTML of an output, of the data with which scripts enhance it."""


def asset(name: str) -> Path:
    """The path of a built file. Raises ViewError if it does not exist."""
    path = STATIC / name
    if not path.is_file():
        raise ViewError(
            f"{path.stem}: its front end is not built",
            got=f"no file {name} in rfnb/display/static",
            expected="the output of the extension's build",
            hint="run `make lab` in the checkout, or install a wheel",
        )
    return path
