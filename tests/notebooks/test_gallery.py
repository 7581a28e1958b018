"""The gallery as a file: one view a cell, one line of words above it. That it runs is tested by `test_run_all`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

CELLS = json.loads((Path(__file__).parents[2] / "notebooks" / "03_views.ipynb").read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def test_above_each_view_is_a_line_of_words():
    for above, cell in itertools.pairwise(CELLS):
        if cell in CODE and cell["id"] not in ("setup", "model"):
            assert above["id"] == f"{cell['id']}-words", cell["id"]
            assert len(above["source"]) == 1 and not above["source"][0].startswith("#")
