"""Runs the cells of a notebook in this process."""

from __future__ import annotations

import ast
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rfnb as rf
import tour_cells
from rfnb.errors import LoopWarning
from rfnb.trace import pause as hold

FOLDER = Path(__file__).parents[2] / "notebooks"


def cells_of(file: str) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    return json.loads((FOLDER / file).read_text(encoding="utf-8"))["cells"]


@contextmanager
def ran(file: str) -> Iterator[dict[str, Any]]:
    """The names that the cells define; "cell x" is the result of the cell with the id x, "warnings" those of loops."""
    names: dict[str, Any] = {"__name__": "__main__"}
    results: dict[str, Any] = {}
    before, written = (Path.cwd(), rf.options.pause_folder), hold._written[:]
    hold._written.clear()
    os.chdir(FOLDER)
    try:
        with rf.recording("last"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for cell in cells_of(file):
                if cell["cell_type"] == "code":
                    tour_cells.run(keeping("".join(cell["source"])), name=f"{file}, {cell['id']}", into=names)
                    results[f"cell {cell['id']}"] = names.pop("_", None)
        loop_warnings = [str(warning.message) for warning in caught if issubclass(warning.category, LoopWarning)]
        yield names | results | {"warnings": loop_warnings}
    finally:
        os.chdir(before[0])
        rf.options.pause_folder, hold._written[:] = before[1], written
        rf.pauses.clear()
        rf.runs.clear()


def keeping(code: str) -> str:
    """The code of a cell, which puts the value of its last line into `_`."""
    last, lines = ast.parse(code).body[-1], code.splitlines()
    if isinstance(last, ast.Expr):
        lines[last.lineno - 1] = f"_ = {lines[last.lineno - 1]}"
    return "\n".join(lines)
