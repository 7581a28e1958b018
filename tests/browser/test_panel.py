"""The panel steps through a loop: what it shows is what the kernel computes by itself, and the line that runs is marked."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

DATA = """\
import rfnb as rf
from rfnb import batch_dim

time = rf.Dim(None, name="time")
rows = [[1.0, 2.0, 3.0, 4.0], [10.0, 20.0], [5.0, 5.0, 5.0]]
x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=["rising", "<script>alert(1)</script>", "flat"])"""

LOOP = """\
loop = rf.Loop(axis=time, name="running sum")
loop.state.total = rf.zeros([batch_dim])
with loop:
    x_t = loop.unstack(x)
    loop.state.total = loop.state.total + x_t
    sums = loop.stack(loop.state.total)"""


class Panel:
    """What the panel shows."""

    def __init__(self, page):
        self.page = page
        self.root = page.locator(".rfnb-Loops")

    def open(self):
        self.page.evaluate("() => window.jupyterapp.commands.execute('rfnb-lab:open-panel')")
        self.root.wait_for()
        return self

    def choose(self, name):
        """The newest run of the loop with this name."""
        group = self.root.locator(".rfnb-Runs-groups > *", has_text=name).first
        group.locator(".rfnb-Run-open").first.click()
        self.root.locator(".rfnb-Transport-where").wait_for()

    def step(self, button):
        self.root.locator(f"[data-step={button}]").click()

    def at(self, step):
        """Waits until this step is shown."""
        self.root.locator(".rfnb-Transport-step", has_text=re.compile(rf"^{step}$")).wait_for()
        return self

    def sequence(self, tag):
        self.root.locator(".rfnb-Sequences-tag", has_text=tag).click()
        self.root.locator("[aria-pressed=true] .rfnb-Sequences-tag", has_text=tag).wait_for()

    def state(self, name, moment):
        """The number of a state of the chosen sequence, "before" or "after"."""
        return float(self.root.locator(f'[data-state="{name}"] .rfnb-State-{moment} .rfnb-Value-text').inner_text())


def running_sum(rows, row, steps):
    return sum(rows[row][: min(steps, len(rows[row]))])


def test_stepping_shows_what_the_kernel_computes(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("running sum")
    rows = notebook.value("rows")
    panel.at(0).sequence("rising")
    for button, step in [("next", 1), ("next", 2), ("previous", 1)]:
        panel.step(button)
        panel.at(step)
        assert panel.state("total", "before") == running_sum(rows, 0, step)
        assert panel.state("total", "after") == running_sum(rows, 0, step + 1)
        if step == 2:
            notebook.screenshot("panel-forward")
    notebook.screenshot("panel-back")
    [line] = notebook.highlighted(1, ".rfnb-cm-current")
    assert line.strip() == f"x_t = loop.unstack(x)x_t = {rows[0][1]:g}"  # the text, then the value beside it
