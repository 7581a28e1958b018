"""Values of plain Python code in run files that are neither tensors nor numbers: texts, and lists and dicts of them."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from rfnb.trace.run.names import NoValue, variable_names

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

LIMIT = 2**23
"""Characters of the values that a file has."""
ABSENT = "is not in the file"
"""What is said about values that a file does not have."""

FROM = ("forgotten", "kept_from")
"""How many steps were forgotten, and the first that has all of its values."""


def write_variables(run: Run) -> dict[str, Any] | None:
    """The values after the steps that assign them, and the rows of the views; None for other runs than plain Python.

    With lists that grow, which are written once with their length at each step, rows are numbers of a table.
    """
    replay: Any = run.replay
    if not variable_names(replay):
        return None
    values: dict[str, list[Any]] = {name: [] for name in variable_names(replay)}
    lists, table = GrowingLists(), dict[Any, int]()
    texts: list[tuple[int, list[Any]]] = []
    size = size_of_rows = size_of_table = 0
    for step in range(run.steps + (run.failed is not None)):
        is_full = size + (size_of_table if lists.are_used else size_of_rows) >= LIMIT
        rows = [] if is_full else replay.texts(step)
        for name in replay.odd_names(step):
            value = {"lost": ABSENT} if is_full else lists.encode(replay, name, step) or _encoded(replay, name, step)
            values[name].append([step, value])
            size += len(json.dumps(value))
        for row in rows:
            size_of_rows += (length := len(row.name) + len(row.text) + 20)
            size_of_table += 8 if row in table else length + 8
            table.setdefault(row, len(table))
        texts += [(step, rows)] if rows else []
    data = {"values": values, "initial": replay.initial_names()}
    data |= {name: number for name in FROM if (number := getattr(replay, name))}
    if not lists.are_used:
        return {**data, "texts": texts}
    numbers = [[step, [table[row] for row in rows]] for step, rows in texts]
    return {**data, "texts": numbers, "rows": [*table], "lists": lists.codes}


class GrowingLists:
    """Encodes lists that grow: each once, and its value at a step as the number of the list and how long it is.

    codes: the parts of each list.
    """

    def __init__(self) -> None:
        self.codes: list[list[Any]] = []
        self.are_used = False
        self._numbers: dict[Hashable, int] = {}  # by what the values of a list share

    def encode(self, replay: Any, name: str, step: int) -> Any:
        """The value of a variable after a step; None if it is no list that grows."""
        shared, length = replay.growing(name, step)
        if shared is None:
            return None
        number = self._numbers.setdefault(shared, len(self.codes))
        if number == len(self.codes):
            self.codes.append([])
        codes = self.codes[number]
        try:
            for part in replay.parts(name, shared, len(codes), length):
                codes.append(_code(part))
        except TypeError:
            return {"lost": ABSENT}
        self.are_used = True
        return {"first": [number, length]}


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
