"""The view of `config.training()`: a table of what to write."""

from __future__ import annotations

from rfnb.display.kit.blocks import Grid, Line, Page, name
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table
from rfnb.netdict.report.training import Training

COLUMNS = ("for", "in the config", "write")
CELL = f"{style.LEFT_CELL};white-space:normal;overflow-wrap:break-word;max-width:32em"


def describe(training: Training) -> Page:
    """A row for each topic."""
    rows = [list(row) for row in training.rows]
    head = Line(name(training.name), " the training, in Torch", look=style.HEAD)
    return Page("net_training", training.name, [head, Grid(rows, COLUMNS, [CELL] * 3)], Table(COLUMNS, rows))
