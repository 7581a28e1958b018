"""The tour in a browser: run all cells, step, and compare with what plain code computes in the same kernel."""

from __future__ import annotations

from itertools import accumulate
from time import monotonic

import pytest

from tests.browser.clicks import CLICKS
from tests.browser.panel import Panel, numbers

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("extension")]

WORD = "alphabet"
STEPS = [(None, 0), ("next", 1), ("next", 2), ("previous", 1)]

BY_HAND = f"""
def by_hand(steps):
    decoder = model.decoder
    encoded = model.encoder(rf.convert_to_tensor([{WORD!r}], dims=[batch_dim, spelling], sparse_dim=letter))
    keys = decoder.key(encoded)
    state = decoder.lstm.default_initial_state(batch_dims=[batch_dim])
    context = rf.zeros([batch_dim, memory])
    prev = rf.full(dims=[batch_dim], fill_value=end, sparse_dim=phone)
    for _ in range(steps):
        h, state = decoder.advance(prev, context, state)
        att = decoder.attend(h, keys)
        context = rf.dot(att, encoded, reduce=spelling)
        best = rf.reduce_argmax(decoder.scores(h, context), axis=phone)
        yield {{
            "prev": phone.vocab.decode(int(prev.raw_tensor)),
            "best": phone.vocab.decode(int(best.raw_tensor)),
            "att": att.raw_tensor.flatten().tolist(),
            "h": h.raw_tensor.flatten().tolist(),
            "context": context.raw_tensor.flatten().tolist(),
        }}
        prev = best
"""
"""One word, one step after the other, without a loop of rfnb."""


def test_stepping_through_the_tour(open_notebook):
    notebook = open_notebook("01_tour.ipynb")
    panel = Panel(notebook.page).open()
    begin = monotonic()
    notebook.run_all()
    print(f"\nall cells of the tour: {monotonic() - begin:.1f} s")
    running_sum(notebook, panel)
    decoder(notebook, panel)
    times = notebook.page.evaluate(CLICKS, 30)
    print(f"a click on step until it is shown: p50 {times[15]:.0f} ms, p95 {times[28]:.0f} ms")


def running_sum(notebook, panel):
    frames = notebook.value("digits['pi']")
    totals = [0, *accumulate(frames)]
    cell = notebook.index_of("running-sum-loop")
    panel.choose("running sum").sequence("pi")
    for button, step in STEPS:
        if button:
            panel.go(button, step)
        assert float(panel.state("total", "before")) == totals[step]
        assert float(panel.state("total", "after")) == totals[step + 1]
        assert float(panel.value("x_t")) == frames[step]
        [line] = notebook.highlighted(cell, ".rfnb-cm-current", value=f"x_t = {frames[step]:g}")
        assert line.strip() == f"x_t = loop.unstack(x)x_t = {frames[step]:g}"  # the text, then the value beside it


def decoder(notebook, panel):
    notebook.execute(BY_HAND)
    expected = notebook.value("list(by_hand(3))")
    cell = notebook.index_of("decode")
    notebook.execute("[run for run in rf.runs if run.name == 'decoder' and run.batch == len(words)][0].open()")
    panel.sequence(WORD)
    panel.look("rf.reduce_argmax")
    for button, step in STEPS:
        if button:
            panel.go(button, step)
        plain = expected[step]
        assert panel.state("prev", "before") == plain["prev"]
        assert panel.state("prev", "after") == panel.value("best") == plain["best"]
        assert_shown(panel.value("att"), plain["att"])
        assert_shown(panel.state("lstm.h", "after"), plain["h"])
        assert_shown(panel.state("context", "after"), plain["context"])
        h = plain["h"]
        assert panel.stats("lstm.h") == pytest.approx([min(h), sum(h) / len(h), max(h)], rel=1e-2, abs=1e-4)
        [line] = notebook.highlighted(cell, ".rfnb-cm-current", value=f"best = {plain['best']}")
        assert line.strip() == f"best = rf.reduce_argmax(scores, axis=phone)best = {plain['best']}"


def assert_shown(text, values):
    """The first of them, in three digits."""
    shown = numbers(text)
    assert len(shown) >= 6
    assert shown == pytest.approx(values[: len(shown)], rel=1e-2, abs=1e-5)
