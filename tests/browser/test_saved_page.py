"""A run saved as a page, opened by somebody without rfnb and without a network."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import rfnb as rf
from rfnb import batch_dim
from rfnb.display.kit.page import STATIC

HOSTILE = "<img src=x onerror=alert(1)>"


def saved(folder):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [5.0]], dims=[batch_dim, time], tags=["kiwi", HOSTILE])
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.total = rf.zeros([batch_dim])
    with loop:
        frame = loop.unstack(x)
        loop.state.total = loop.state.total + frame
    return loop.run.save(folder / "x.html")


@pytest.mark.browser
def test_it_is_stepped_by_keyboard_and_fetches_nothing(page: Page, tmp_path, missing):
    if not (STATIC / "page.js").exists():
        missing("the script of saved pages is not built (make test builds it where there is Node)")
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(saved(tmp_path).as_uri())
    stepper = page.locator(".rfnb-Stepper")
    expect(stepper).to_contain_text("sum")
    stepper.focus()
    page.keyboard.press("ArrowRight")
    expect(stepper).to_contain_text("3 ·")  # the total after the second step; the other has ended
    page.keyboard.press("End")
    expect(stepper).to_contain_text("6 ·")
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert (said, asked) == ([], [page.url])
