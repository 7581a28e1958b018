"""A search in the stepper: the tree grows, and a click or a key shows the values of one hypothesis."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.clicks import CLICKS
from tests.browser.panel import Panel

EVIL = "<script>alert(1)</script>"

SEARCH = f"""\
import numpy as np
import rfnb as rf
from rfnb import batch_dim

rf.options.record = "last"
labels = ["</s>", "AE", "AH", "F", "L", "{EVIL}"]
tags = ["laugh", "{EVIL}"]
random = np.random.RandomState(4)
phone, before = (rf.Dim(6, name=name, vocab=labels) for name in ("phone", "before"))
hidden, frame = rf.Dim(8, name="hidden"), rf.Dim(5, name="frame")
weights = {{
    name: rf.convert_to_tensor(random.randn(*(dim.dimension or 2 for dim in dims)).astype("float32"), dims=dims)
    for name, dims in {{
        "embed": [before, hidden], "out": [hidden, phone], "shift": [batch_dim, hidden], "keys": [frame, hidden]
    }}.items()
}}
beam = rf.Dim(3, name="beam")
start = rf.zeros([batch_dim], dtype="int64")
shift = rf.convert_to_tensor(random.randn(2, 8).astype("float32"), dims=[batch_dim, hidden], tags=tags)"""

LOOP = """\
loop = rf.Loop(max_seq_len=7, name="search")
loop.state.prev = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=phone)
loop.state.h = rf.zeros([batch_dim, beam, hidden])
with loop:
    last = rf.gather(weights["embed"], indices=loop.state.prev, axis=before)
    h = rf.tanh(loop.state.h * 0.7 + last + shift)
    att = rf.softmax(rf.matmul(h, weights["keys"], reduce=hidden), axis=frame)
    logits = rf.matmul(h, weights["out"], reduce=hidden)
    chosen = loop.choice(logits, beam=beam, axis=phone, input_type="logits", length_normalization=False)
    loop.state.h = h
    loop.state.prev = chosen.labels
    loop.end(chosen.labels == 0, include_eos=False)"""


@pytest.fixture
def searched(open_notebook):
    """A notebook that has run the search, and the panel at its first step."""
    notebook = open_notebook(cells=[SEARCH, LOOP, "rf.stepper(loop.run, batch='laugh')"])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    return notebook, panel.choose("search")


def columns(stepper):
    return [int(n) for n in stepper.root.locator("[data-column]").evaluate_all("all => all.map(g => g.dataset.column)")]


def picked(stepper):
    """The step and place of the chosen node of the last column."""
    chosen = stepper.root.locator("[data-current=true] [data-node][data-chosen=true]")
    return chosen.get_attribute("data-node")


def state_of(notebook, name, step, place):
    """An entry of a state after a step, as the kernel knows it."""
    return notebook.value(
        f"loop.run[{step}].after[{name!r}].copy_transpose([batch_dim, beam, ...]).raw_tensor[0, {place}].tolist()"
    )


@pytest.mark.browser
@pytest.mark.usefixtures("extension")
def test_the_tree_grows_and_a_click_chooses_step_and_hypothesis(searched):
    notebook, panel = searched
    dialogs = []
    notebook.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    notebook.screenshot("beam-0")
    assert columns(panel) == [0]
    panel.go("next", 1).go("next", 2).go("next", 3)
    assert columns(panel) == [0, 1, 2, 3]
    notebook.screenshot("beam-3")
    panel.root.locator("[data-node='2:1']").click()
    panel.at(2)
    notebook.screenshot("beam-2-1")
