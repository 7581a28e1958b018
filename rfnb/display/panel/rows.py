"""A value that is a row of weights at each step, such as attention: all rows as one picture, steps × columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.attention import view as attention_view
from rfnb.display.kit.data import Data
from rfnb.display.panel.schema import RowsView
from rfnb.display.run.step import of_sequence
from rfnb.display.tensor.value import axis_of_weights, one_entry, valid_weights
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

MOST_STEPS = 500
MOST_ROWS = 16
"""At most so many rows of a step, which are shown as heads."""


def describe_rows(run: Run, name: str, sequence: int | None) -> RowsView:
    """The JSON of the rows of a value at all steps. Raises ViewError if it is not a row of weights."""
    sequence = 0 if sequence is None and run.batch else sequence
    columns: Dim | None = None
    rows: dict[int, np.ndarray] = {}
    for step, data in _values(run, name, sequence):
        axis = axis_of_weights(data, least=1)
        if axis is not None:
            columns = columns or data.axes[axis].dim
            weights = np.moveaxis(valid_weights(data), axis, -1)
            rows[step] = weights.reshape(-1, weights.shape[-1])[:MOST_ROWS]
    if columns is None:
        raise ViewError(f"{name} is not a row of weights with the sum 1", got=f"loop {run.name}")
    count, width = (max(row.shape[axis] for row in rows.values()) for axis in (0, 1))
    matrix = np.zeros((count, max(rows) + 1, width), np.float32)
    for step, weights in rows.items():
        matrix[: len(weights), step, : weights.shape[1]] = weights
    side = columns if columns.vocab is not None else None
    view = attention_view.describe(matrix, dims=["head", run.axis.name or "step", _other(columns, run)], cols=side)
    return {
        "name": name,
        "sequence": sequence,
        "pictures": view["pictures"] or [view["picture"]],
        "scripts": attention_view.to_scripts(view),
    }


def _other(columns: Dim, run: Run) -> str:
    return columns.name if columns.name and columns.name != run.axis.name else "column"


def _values(run: Run, name: str, sequence: int | None) -> Iterator[tuple[int, Data]]:
    """The value at each step that has it."""
    steps = run.steps if sequence is None or run.lengths is None else int(run.lengths[sequence])
    for step in range(min(run.steps, steps, MOST_STEPS)):
        at = run[step]
        value = next((entry.tensor for entry in reversed(at.values()) if entry.name == name), None)
        if value is None and name in run.states:
            value = at.after[name]
        if isinstance(value, Tensor):
            yield step, one_entry(value, of_sequence(run, sequence))
