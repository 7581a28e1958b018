"""Values of plain Python code in run files that are neither tensors nor numbers: texts, and lists and dicts of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rfnb.trace.run.names import NoValue, variable_names

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

LIMIT = 2**23
"""Characters of the values that a file has."""
ABSENT = "is not in the file"
"""What is said about values that a file does not have."""


def write_variables(run: Run) -> dict[str, Any] | None:
    """The values after the steps that assign them, and the rows of the views; None for other runs than plain Python."""
    replay: Any = run.replay
    if not variable_names(replay):
        return None
    values: dict[str, list[Any]] = {name: [] for name in variable_names(replay)}
    rows, size = [], 0
    for step in range(run.steps + (run.failed is not None)):
        texts = [list(row) for row in replay.texts(step)] if size < LIMIT else []
        for name in replay.odd_names(step):
            value = _encoded(replay, name, step) if size < LIMIT else {"lost": ABSENT}
            values[name].append([step, value])
            size += len(json.dumps(value))
        size += sum(len(row[0]) + len(row[3]) + 20 for row in texts)
        rows += [[step, texts]] if texts else []
    return {"values": values, "texts": rows, "initial": replay.initial_names()}


def _encoded(replay: Any, name: str, step: int) -> Any:
    try:
        value = replay.variable(name, step, after=True)
        return _code(value)
    except NoValue as error:
        return {"lost": error.what.partition(": ")[2]}
    except TypeError:
        return {"lost": ABSENT}


def _code(value: Any) -> Any:
    """Raises TypeError for values that JSON does not have, and for more than a few levels."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    if type(value) is dict:
        if any(type(key) not in (str, bool, int, float) for key in value):
            raise TypeError
        return {"dict": [[key, _code(item)] for key, item in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_code(item) for item in value]}
    raise TypeError
