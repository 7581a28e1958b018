"""Saved pages as courses and slides embed them: in a sandbox with and without scripts, at 200 %, in other scripts."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest
import torch
from playwright.sync_api import FrameLocator, Page, expect

import rfnb as rf
from rfnb.display.kit.page import STATIC

pytestmark = pytest.mark.browser

WORDS = ["</s>", "שלום", "مرحبا", "猫は", "眠る", "안녕", "hello"]


def saved_pages(folder: Path) -> dict[str, str]:
    """A search, attention, a graph and a run, with labels from right to left and of CJK."""
    torch.manual_seed(1)
    follows = torch.randn(7, 7)
    found = rf.search.decode(
        lambda prev, state: (follows[prev], state),
        torch.zeros(1, 1),
        beam=3,
        start=0,
        end=0,
        limit=5,
        labels=WORDS,
    )
    time = rf.Dim(None, name="זמן")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [5.0]], dims=[rf.batch_dim, time], tags=["قطة", "猫"])
    loop = rf.Loop(axis=time, name="合計", debug=True)
    loop.state.total = rf.zeros([rf.batch_dim])
    with loop:
        loop.state.total = loop.state.total + loop.unstack(x)
    made = {
        "search": rf.show(found),
        "attention": rf.show_attention(torch.softmax(follows[1:4, 1:5], -1), rows=WORDS[1:4], cols=WORDS[1:5]),
        "graph": rf.show(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.zeros(1, 3)),
        "run": loop.run,
    }
    return {name: shown.save(folder / f"{name}.html").read_text(encoding="utf-8") for name, shown in made.items()}


@pytest.fixture
def embedded(page: Page, tmp_path: Path, missing):
    """Opens a page from right to left that embeds all four at 200 %; the test fails if one says or fetches anything."""
    if not (STATIC / "page.js").exists():
        missing("the scripts of saved pages are not built (make test builds them where there is Node)")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(("file:", "data:", "about:")) or said.append(request.url))

    def opened(sandbox: str) -> dict[str, FrameLocator]:
        pages = saved_pages(tmp_path)
        look = "width:100%;height:420px;zoom:2"
        frames = [
            f'<iframe title="{name}" sandbox="{sandbox}" style="{look}" srcdoc="{escape(text)}"></iframe>'
            for name, text in pages.items()
        ]
        file = tmp_path / "course.html"
        file.write_text(f'<!doctype html><meta charset="utf-8"><html dir="rtl">{"".join(frames)}', encoding="utf-8")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(file.as_uri())
        return {name: page.frame_locator(f'iframe[title="{name}"]') for name in pages}

    yield opened
    assert [words for words in said if "sandboxed" not in words] == []


def fits(frame: FrameLocator) -> bool:
    return frame.locator("html").evaluate("html => html.scrollWidth <= html.clientWidth")


def test_in_a_sandbox_without_scripts_all_is_shown(embedded, tmp_path):
    frames = embedded("")
    expect(frames["search"].locator("img").first).to_be_visible()
    expect(frames["search"].locator("body")).to_contain_text("hello")
    expect(frames["attention"].locator("img").first).to_be_visible()
    expect(frames["graph"].locator("img").first).to_be_visible()
    expect(frames["run"].locator("body")).to_contain_text("قطة")
    assert [name for name, frame in frames.items() if not fits(frame)] == []


def test_in_a_sandbox_with_scripts_all_is_live(embedded):
    frames = embedded("allow-scripts")
    tree = frames["search"].locator(".rfnb-Tree-plot")
    tree.focus()
    tree.press("ArrowRight")
    expect(frames["search"].locator(".rfnb-Tree-facts")).to_contain_text("step 1 · ")
    plot = frames["attention"].locator(".rfnb-Matrix-plot")
    plot.focus()
    plot.press("ArrowDown")
    expect(frames["attention"].locator(".rfnb-Matrix .rfnb-Facts[role=status]")).to_contain_text("مرحبا")
    frames["graph"].locator("[data-node]").first.press("ArrowDown")
    expect(frames["graph"].locator(".rfnb-Graph .rfnb-Facts b")).to_have_count(1)
    frames["run"].locator(".rfnb-Stepper").press("ArrowRight")
    expect(frames["run"].locator(".rfnb-Transport-step")).to_have_text("1")
    assert [name for name, frame in frames.items() if not fits(frame)] == []
