"""Lets a reader start the tour at any part: runs the cells of `01_tour.ipynb` that the part builds on.

The metadata of these cells has tags: "imports", "data", "batch", "model", "training", "weights", "decoding", "words".
"""

from __future__ import annotations

import ast
import json
import linecache
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOTEBOOK = HERE / "01_tour.ipynb"


def cells(tags: Collection[str], file: Path = NOTEBOOK) -> list[dict[str, Any]]:
    """The code cells that have one of these tags, in the order of the notebook."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in code if set(cell["metadata"].get("tags", ())) & set(tags)]


def run_missing(*tags: str, into: dict[str, Any], file: Path = NOTEBOOK) -> None:
    """Runs the cells that have one of these tags, except where all names that a cell defines exist already.

    The code is that of the saved notebook. Names are defined in `into`, which is `globals()` in a notebook.
    """
    ran = []
    for cell in cells(tags, file):
        code = "".join(cell["source"])
        if not set(defined_names(code)) <= into.keys():
            run(code, name=f"{file.name}, cell {cell['id']}", into=into)
            ran.append(cell["id"])
    if ran:
        print("Ran these cells of the tour:", ", ".join(ran))


def run(code: str, *, name: str, into: dict[str, Any]) -> None:
    """Runs the code under this file name, so that recorded loops and errors show its lines."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    exec(compile(code, name, "exec"), into)


def defined_names(code: str) -> Iterator[str]:
    """The names that the top-level statements bind: imports, classes, functions and assignments."""
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            targets = [node for target in statement.targets for node in ast.walk(target)]
            yield from (node.id for node in targets if isinstance(node, ast.Name))
