"""Every notebook runs from top to bottom in a fresh kernel, each cell twice in a row, and stays small.

A cell with the tag `raises-exception` shows an error; all others have none.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT = 15 * 60
"""Seconds for a cell: only to end a test that hangs."""
LARGEST = 3_000_000
"""Bytes of a notebook with its outputs."""
LOADED = "data = g2p_data.load()"
SAID = "alphabet hummingbird knickerbocker laugh psyches saxophones while xantippe"
"""Words for which notebooks show what a model says."""
SHORTER = {
    "SECONDS = 60\n": "SECONDS = 0.5\n",
    "steps=60": "steps=3",
    "range(400)": "range(40)",
    'pairs = dictionary["train"]': 'pairs = dictionary["train"][::100]',
    "[one], words=0.3) for one in examples]": "[one], words=0.3) for one in examples[:2]]",
    LOADED: f'''{LOADED}
data["test"] = dict(list(data["test"].items())[::300])
said = "{SAID}".split()
data["dev"] = {{word: data["dev"][word] for word in [*list(data["dev"])[::60], *said]}}''',
}
"""Lines that say how long a model is trained, or on which words it is tested: nothing after them depends on it."""


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_it_is_committed_without_outputs(file):
    notebook = nbformat.read(file, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_each_cell_runs_twice(file, forked_kernels, monkeypatch):
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    notebook = nbformat.read(file, as_version=4)
    notebook.cells = [nbformat.v4.new_code_cell(cell.source, metadata=cell.metadata) for cell in twice(notebook)]
    client = NotebookClient(notebook, kernel_name="python3", timeout=LIMIT, store_widget_state=False)
    client.execute(cwd=str(file.parent))
    for cell in notebook.cells:
        raised = any(output.output_type == "error" for output in cell.outputs)
        assert raised == ("raises-exception" in cell.metadata.get("tags", ())), cell.source
    assert len(nbformat.writes(notebook).encode()) < 2 * LARGEST


def twice(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The code cells, each one two times; trainings and tests are short."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        for line, shorter in SHORTER.items():
            cell.source = cell.source.replace(line, shorter)
    return [cell for cell in cells for _ in range(2)]
