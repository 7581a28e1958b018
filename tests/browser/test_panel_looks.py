"""The panel is as wide as it was last, and has no serious fault for axe: empty, with its runs, stepped and compared."""

from __future__ import annotations

import pytest

from tests.browser.looks import faults, weak_words
from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

CELL = """\
import torch, rfnb as rf
time = rf.Dim(None, name="time")
x = rf.convert_to_tensor([[1.0, 2.0, 4.0], [1.0, 2.0]], dims=[rf.batch_dim, time], tags=["one", "two"])
loop = rf.Loop(axis=time, name="sum")
loop.state.total = rf.zeros([rf.batch_dim])
with loop:
    loop.state.total = loop.state.total + loop.unstack(x)
fork = loop.run.fork(1, total=3.0)
following = torch.eye(4).roll(1, 1)
label, before = rf.Dim(4, name="label", vocab=list("abcd")), rf.Dim(4, name="before")
table = rf.convert_to_tensor(following, dims=[before, label])
search = rf.Loop(max_seq_len=4, name="search")
search.state.prev = rf.zeros([rf.Dim(3, name="beam")], dtype="int64", sparse_dim=label)
with search:
    scores = rf.gather(table, indices=search.state.prev, axis=before)
    chosen = search.choice(scores, beam=search.state.prev.dims[0], input_type="logits")
    search.state.prev = chosen.labels
    search.end(chosen.labels == 3, include_eos=True)"""
PANEL = ".rfnb-Panel"


def width_of(panel: Panel) -> int:
    return round(panel.page.locator(PANEL).bounding_box()["width"])


def pull(panel: Panel, pixels: int) -> None:
    """Its left edge, to the left."""
    page, box = panel.page, panel.page.locator("#jp-right-stack").bounding_box()
    page.mouse.move(box["x"] - 2, 400)
    page.mouse.down()
    page.mouse.move(box["x"] - 2 - pixels, 400, steps=3)
    page.mouse.up()


def test_the_panel_is_as_wide_as_last_and_axe_finds_no_fault(open_notebook, missing):
    notebook = open_notebook(cells=[CELL])
    page, panel = notebook.page, Panel(notebook.page).open()
    page.wait_for_function("() => document.querySelector('#jp-right-stack').clientWidth > 400")
    assert abs(width_of(panel) - 420) < 4
    pull(panel, 100)
    wide = width_of(panel)
    assert abs(wide - 520) < 8
    panel.close()
    panel.open()
    page.wait_for_function("wide => Math.abs(document.querySelector('.rfnb-Panel').clientWidth - wide) < 4", arg=wide)
    found = [f"empty: {words}" for words in faults(page, missing, PANEL)]
    notebook.run_all()
    panel.choose("sum").go("next", 1)
    panel.root.get_by_role("button", name="Compare with run", exact=False).first.click()
    panel.root.locator(".rfnb-Comparison").wait_for()
    panel.root.locator(".rfnb-Marks summary").click()
    for theme in ("Light", "Dark"):
        notebook.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        page.locator(f"body[data-jp-theme-light={str(theme == 'Light').lower()}]").wait_for(state="attached")
        page.wait_for_timeout(500)
        found += [f"{theme}: {words}" for words in [*faults(page, missing, PANEL), *weak_words(page, PANEL)]]
        in_cell = weak_words(page, ".jp-Notebook")  # whose code has the colours of JupyterLab
        found += [f"{theme}: {words}" for words in in_cell if "rfnb-cm-value" in words]
    panel.choose("search").go("next", 1)
    assert panel.root.locator(".rfnb-Sequences").count() == 0  # there is no batch
    found += [f"search: {words}" for words in [*faults(page, missing, PANEL), *weak_words(page, PANEL)]]
    assert found == [], "\n".join(found)
