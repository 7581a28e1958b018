"""What a training pays for somebody who watches it: python tests/bench/bench_live.py

A cell trains in JupyterLab in a real browser. In turn, for a second each, the kernel has no panel, and one that is
hidden, shown (it follows the newest run), or stepped twice a second. The ratio of both is what a training step takes
more: of time, and of CPU time in the thread that trains. Needs Chromium and the built extension.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.in_lab import in_lab
from tests.browser.lab_server import LabServer
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel

SECONDS = 30

MODEL = """\
import json, statistics, time as clock
import torch
import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.panel import comm

torch.set_num_threads(1)
time, feat, hidden = Dim(None, name="time"), Dim(64, name="feat"), Dim(256, name="hidden")
x = rf.convert_to_tensor(torch.randn(16, 50, 64), dims=[batch_dim, time, feat])
inp, rec, out = rf.Linear(feat, hidden), rf.Linear(hidden, hidden), rf.Linear(hidden, feat)
parameters = [p for layer in (inp, rec, out) for p in rf.torch_parameters(layer)]
optimizer = torch.optim.Adam(parameters, lr=1e-4)

def step():
    loop = rf.Loop(axis=time, name="rnn")
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        loop.state.h = rf.tanh(rec(loop.state.h) + inp(loop.unstack(x)))
        ys = loop.stack(out(loop.state.h))
    loss = rf.reduce_mean(rf.square(ys - x), axis=list(ys.dims))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for _ in range(5):
    step()"""

TRAIN = f"""\
panels, kept = comm._links[0].panels, list(comm._links[0].panels)
taken = {{False: [], True: []}}
end = clock.time() + {SECONDS}
while clock.time() < end:
    watched = int(clock.time()) % 2 == 1
    panels[:] = kept if watched else []
    wall, cpu = clock.perf_counter(), clock.thread_time()
    step()
    taken[watched].append((clock.perf_counter() - wall, clock.thread_time() - cpu))
panels[:] = kept
means = {{watched: [statistics.fmean(row) for row in zip(*rows)] for watched, rows in taken.items()}}
print(json.dumps([means[False], means[True]]))"""
"""Seconds with an odd number have the panel. Means, since what is rare and long counts."""

STEPPING = """() => {
  window.stepping_ = setInterval(() => {
    if (Math.floor(Date.now() / 1000) % 2) {
      document.querySelector('.rfnb-Loops [data-step=next]:not([aria-disabled=true])')?.click();
    }
  }, 500);
}"""


def row(what: str, notebook: NotebookPage) -> str:
    """A line of the table."""
    notebook.run_cell(1)
    (wall, cpu), (wall_watched, cpu_watched) = json.loads(notebook.text(1))
    return f"{what:<28}  {1e3 * wall:>6.1f}  {wall_watched / wall:>6.3f}  {1e3 * cpu:>6.1f}  {cpu_watched / cpu:>6.3f}"


def measured(notebook: NotebookPage, page: Page) -> None:
    """Prints the table."""
    print(f"{'panel':<28}  {'ms':>6}  {'ratio':>6}  {'CPU ms':>6}  {'ratio':>6}")
    page.evaluate("() => window.jupyterapp.shell.collapseRight()")
    print(row("hidden", notebook))
    Panel(page).open()
    print(row("shown, follows the runs", notebook))
    page.evaluate(STEPPING)
    print(row("stepped twice a second", notebook))


def main(server: LabServer, page: Page) -> NotebookPage:
    """Opens the notebook and measures."""
    page.set_default_timeout(1000 * (SECONDS + 60))
    nbformat.write(made_of([MODEL, TRAIN]), server.notebooks / "train.ipynb")
    notebook = NotebookPage(page).open(server.address("train.ipynb"))
    Panel(page).open()
    notebook.run_cell(0)
    page.locator(".rfnb-Status-pause").wait_for()
    measured(notebook, page)
    return notebook


if __name__ == "__main__":
    in_lab(main)
