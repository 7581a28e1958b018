"""Whether the panel stays smooth with a large run: python tests/bench/bench_panel.py

A run of 10,000 steps with 40 values in its body, in JupyterLab in a real browser: how long until it is shown, and how
long frames and tasks of the page take while its slider is dragged. Needs Chromium and the built extension.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import nbformat
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.in_lab import in_lab
from tests.browser.lab_server import LabServer
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel

STEPS, VALUES, OTHERS = 10_000, 40, 9
DRAG = 3.0
"""How long the slider is dragged, in seconds."""

LARGE = f"""\
import rfnb as rf
from rfnb import Dim, batch_dim

time, feat = Dim(None, name="time"), Dim(8, name="feat")
x = rf.random_normal([Dim(4, name="batch", kind="batch"), Dim({STEPS}, name="time"), feat])
loop = rf.Loop(axis=x.dims[1], name="large")
loop.state.h = rf.zeros([x.dims[0], feat])
with loop:
    v0 = loop.unstack(x)
"""
SMALL = """\
small = rf.Loop(max_seq_len=3, name="small")
small.state.n = rf.convert_to_tensor(1.0)
with small:
    small.state.n = small.state.n * 2"""

OPEN = """async () => {
  const root = document.querySelector('.rfnb-Loops');
  const row = [...root.querySelectorAll('.rfnb-Group')].find(group => group.textContent.includes('large'));
  const shown = () => root.querySelector('.rfnb-Stepper-name')?.textContent === 'large'
    && root.querySelector('.rfnb-Transport-step')?.textContent === '0';
  const begin = performance.now();
  row.querySelector('.rfnb-Run-open').click();
  while (!shown()) await new Promise(requestAnimationFrame);
  return performance.now() - begin;
}"""
"""Clicks on the large run; the time until it is shown, in ms."""

WATCH = """() => {
  window.frames_ = [];
  window.tasks_ = [];
  new PerformanceObserver(list => window.tasks_.push(...list.getEntries().map(each => each.duration)))
    .observe({ type: 'longtask' });
  window.steps_ = new Set();
  const number = document.querySelector('.rfnb-Loops .rfnb-Transport-step');
  new MutationObserver(() => window.steps_.add(number.textContent))
    .observe(number, { subtree: true, childList: true, characterData: true });
  let last = performance.now();
  const look = now => { window.frames_.push(now - last); last = now; window.looking_ = requestAnimationFrame(look); };
  window.looking_ = requestAnimationFrame(now => { last = now; window.looking_ = requestAnimationFrame(look); });
}"""
WATCHED = "() => { cancelAnimationFrame(window.looking_); return [window.frames_, window.tasks_, window.steps_.size]; }"


def body() -> str:
    """The loop with its 40 values."""
    names = [f"v{i}" for i in range(VALUES - 1)]
    lines = [f"    {after} = rf.tanh({before})" for before, after in itertools.pairwise(names)]
    return LARGE + "\n".join([*lines, f"    loop.state.h = loop.state.h + {names[-1]}"])


def opened(page: Page, panel: Panel, times: int = 7) -> list[float]:
    """How long it takes until the large run is shown, sorted, in ms; between, a small one is shown."""
    found = []
    for _ in range(times):
        panel.choose("small")
        page.wait_for_timeout(300)
        found.append(page.evaluate(OPEN))
    return sorted(found)


def dragged(page: Page, panel: Panel) -> tuple[list[float], list[float], int]:
    """Frames and long tasks in ms while the slider is dragged from end to end, and how many steps were shown."""
    box = panel.root.locator(".rfnb-Transport-slider input").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8, y)
    page.mouse.down()
    page.evaluate(WATCH)
    begin = time.monotonic()
    while (done := (time.monotonic() - begin) / DRAG) < 1:
        page.mouse.move(box["x"] + 8 + (box["width"] - 16) * done, y)
    page.mouse.up()
    frames, tasks, shown = page.evaluate(WATCHED)
    return sorted(frames), sorted(tasks), shown


def main(server: LabServer, page: Page) -> NotebookPage:
    """Prints the table."""
    for number in range(OTHERS + 1):
        nbformat.write(made_of([body(), SMALL]), server.notebooks / f"{number}.ipynb")
    notebook = NotebookPage(page).open(server.address("0.ipynb"))
    panel = Panel(page).open()
    notebook.run_all()
    report("one notebook", page, panel)
    for number in range(1, OTHERS + 1):
        notebook.open_beside(f"{number}.ipynb")
    notebook.activate("0.ipynb")
    report(f"{OTHERS + 1} notebooks", page, panel)
    return notebook


def report(what: str, page: Page, panel: Panel) -> None:
    """Prints what was measured."""
    times = opened(page, panel)
    print(f"{what}: a run of {STEPS:,} steps × {VALUES} values is shown in {times[len(times) // 2]:.0f} ms", end="")
    print(f" (longest {times[-1]:.0f})")
    frames, tasks, shown = dragged(page, panel)
    middle, most = frames[len(frames) // 2], frames[len(frames) * 99 // 100]
    print(
        f"  its slider dragged for {DRAG:.0f} s: {len(frames)} frames, median {middle:.0f} ms, 99 % below {most:.0f}",
        end="",
    )
    print(f", {shown} steps shown, {len(tasks)} tasks over 50 ms, longest {max(tasks, default=0):.0f}")


if __name__ == "__main__":
    in_lab(main)
