"""The view of `config.training()`: a table of what to write."""

from __future__ import annotations

from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.netdict.report.training import Training

COLUMNS = ("for", "in the config", "write")
CELL = f"{style.LEFT_CELL};white-space:normal;overflow-wrap:break-word;max-width:32em"


@page.shows("net_training", "rfnb.netdict.report.training.Training")
def describe(training: Training) -> page.Page:
    """A row for each topic."""
    rows = [list(row) for row in training.rows]
    head = page.Line(page.name(training.name), " the training, in Torch", look=style.HEAD)
    return page.Page(
        "net_training", training.name, [head, page.Grid(rows, COLUMNS, [CELL] * 3)], page.Table(COLUMNS, rows)
    )
