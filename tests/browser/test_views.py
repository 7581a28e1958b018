"""Scripts on views: by keyboard alone, in untrusted and saved notebooks, as a widget, and in saved pages."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

import rfnb as rf
from rfnb.display.kit.page import STATIC
from rfnb.display.kit.view import View
from tests.browser.notebook_page import NotebookPage

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

SETUP = """\
import torch, rfnb as rf
from rfnb import batch_dim
time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
x = rf.convert_to_tensor([[[1.0] * 3] * 4, [[2.0] * 3] * 2], dims=[batch_dim, time, feat])
weights = torch.softmax(torch.arange(2 * 2 * 4 * 5).reshape(2, 1, 2, 4, 5) % 7 * 1.0, -1)
attention = rf.show_attention(weights, rows=list("abcd"), cols=list("vwxyz"))
inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
graph = rf.show(torch.nn.Sequential(inner, torch.nn.Linear(3, 2)), torch.zeros(1, 3))"""
CELLS = [SETUP, "x", "graph", "attention", "x + 1"]
TENSOR, GRAPH, ATTENTION, SUM = 1, 2, 3, 4


def highlight(page: Page) -> str:
    """The rules that show a dim wherever it is."""
    return page.evaluate("() => document.querySelector('style[data-rfnb-dims]').textContent")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def walk_dims(root: Locator) -> None:
    """Along the pills of a view; the second one is pinned, then let go."""
    page = root.page
    root.locator(".rfnb-dim[tabindex='0']").focus()
    press(page, "ArrowRight", "Enter")
    serial = root.locator(".rfnb-dim").nth(1).get_attribute("data-rfnb-dim")
    assert f'"{serial}"' in highlight(page)
    expect(page.locator(f".rfnb-dim[data-rfnb-dim='{serial}']").first).to_have_attribute("aria-pressed", "true")
    assert "solid" in highlight(page)
    press(page, "Escape")
    assert "solid" not in highlight(page)


def walk_graph(root: Locator) -> None:
    """Down to the module that is folded or open, folds it and unfolds it, goes in and out."""
    page = root.page
    nodes = root.locator("[data-node]")
    count = nodes.count()
    root.locator("[data-node][tabindex='0']").focus()
    press(page, "ArrowDown")
    module = root.locator("[data-node]:focus")
    was = module.get_attribute("aria-expanded")
    press(page, "Enter")
    expect(module).to_have_attribute("aria-expanded", "false" if was == "true" else "true")
    assert nodes.count() != count
    press(page, "Enter")
    expect(module).to_have_attribute("aria-expanded", str(was))
    assert nodes.count() == count
    search = root.locator("input[type=search]")
    search.focus()
    page.keyboard.type("relu")
    press(page, "Enter")
    expect(root.locator(".rfnb-Search-count")).to_contain_text("1 of ")
    expect(root.locator(".rfnb-Graph .rfnb-Facts")).to_contain_text("relu", ignore_case=True)


def walk_attention(root: Locator) -> None:
    """Chooses another head, reads a weight of it, keeps the row."""
    page = root.page
    root.locator("img[data-rfnb-head][tabindex='0']").focus()
    press(page, "ArrowRight", "Enter")
    expect(root.locator(".rfnb-Matrix")).to_contain_text("layer 0, head 1")
    root.locator(".rfnb-Matrix-plot").focus()
    said = root.locator(".rfnb-Matrix .rfnb-Facts[role=status]")
    press(page, "ArrowDown", "ArrowRight", "ArrowRight")
    expect(said).to_contain_text("row b → col x: ")
    weights = torch.softmax(torch.arange(2 * 2 * 4 * 5).reshape(2, 1, 2, 4, 5) % 7 * 1.0, -1)
    shown = float(said.inner_text().split("≈ ")[1].split()[0])
    assert shown == pytest.approx(float(weights[0, 0, 1, 1, 2]), abs=0.01)
    press(page, "Enter", "ArrowDown")
    expect(said).to_contain_text("row b → col x")
    expect(root.locator(".rfnb-Strip span")).to_have_count(5)
    press(page, "Escape")
    expect(said).to_contain_text("row c → col x")


def walk(notebook: NotebookPage) -> None:
    walk_dims(notebook.cell(TENSOR))
    walk_graph(notebook.cell(GRAPH))
    walk_attention(notebook.cell(ATTENTION))


def errors_of(page: Page) -> list[str]:
    """What goes wrong from now on."""
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_views_in_a_notebook_by_keyboard_alone(open_notebook):
    notebook = open_notebook(cells=CELLS)
    errors = errors_of(notebook.page)
    notebook.run_all()
    walk(notebook)
    assert notebook.cell_count() == len(CELLS)  # no key went to the notebook
    notebook.screenshot("views-light")
    notebook.command("apputils:change-theme", theme="JupyterLab Dark")
    notebook.page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
    notebook.cell(GRAPH)
    notebook.screenshot("views-dark")
    assert errors == []


WIDE = """\
import torch, rfnb as rf
from tests.display.beam.test_beam_view import endless
display(rf.show(endless(12, 60, candidates=8)))
rf.show_attention(torch.full((30, 60), 1 / 60))"""


def test_pictures_wider_than_their_cell_are_not_cut(open_notebook):
    notebook = open_notebook(cells=[WIDE])
    notebook.page.set_viewport_size({"width": 600, "height": 800})
    notebook.run_all()
    size = "svg => [svg.clientWidth, svg.clientHeight, svg.parentElement.clientWidth]"
    for picture in (".rfnb-Tree-plot", ".rfnb-Matrix-plot"):
        svg = notebook.cell(0).locator(picture)
        wide, high, room = svg.evaluate(size)
        assert [wide, high] == [round(float(svg.get_attribute(side))) for side in ("width", "height")], picture
        assert wide > room, picture


def test_a_pinned_dim_is_seen_in_cells_that_are_drawn_later(open_notebook):
    notebook = open_notebook(cells=CELLS)
    notebook.run_all()
    pill = notebook.cell(TENSOR).locator(".rfnb-dim", has_text="time").first
    pill.click()
    other = notebook.cell(SUM).locator(".rfnb-dim", has_text="time").first
    assert other.evaluate("pill => getComputedStyle(pill).outlineStyle") == "solid"
    notebook.run_cell(SUM)
    other = notebook.cell(SUM).locator(".rfnb-dim", has_text="time").first
    assert other.evaluate("pill => getComputedStyle(pill).outlineStyle") == "solid"


def test_a_saved_notebook_is_enhanced_without_a_kernel_if_it_is_trusted(open_notebook):
    notebook = open_notebook(cells=CELLS)
    notebook.run_all()
    notebook.save()
    notebook.shutdown_kernels()
    notebook = open_notebook()
    assert notebook.trusted(ATTENTION)
    walk(notebook)


def test_an_untrusted_notebook_shows_the_static_views(open_notebook):
    notebook = open_notebook(cells=CELLS)
    notebook.run_all()
    notebook.save()
    notebook = open_notebook(change=lambda text: text.replace('"x + 1"', '"x + 2"'))
    assert not notebook.trusted(GRAPH)
    for cell in (GRAPH, ATTENTION):
        output = notebook.cell(cell).locator(".jp-OutputArea-output")
        expect(output.locator("img").first).to_be_visible()
        expect(output.locator("svg, .rfnb-Graph, .rfnb-Matrix")).to_have_count(0)
    expect(notebook.cell(TENSOR).locator("[role=button]")).to_have_count(0)


def test_a_view_as_a_widget(open_notebook):
    show = "import ipywidgets\nipywidgets.VBox([graph.widget(), attention.widget()])"
    notebook = open_notebook(cells=[SETUP, show])
    errors = errors_of(notebook.page)
    notebook.run_all()
    cell = notebook.cell(1)
    walk_graph(cell)
    walk_attention(cell)
    assert errors == []


def saved_views() -> dict[str, View]:
    """As in the notebook."""
    made: dict[str, View] = {}
    exec(SETUP, made)  # type: ignore[arg-type]
    return {"graph": made["graph"], "attention": made["attention"], "tensor": rf.show(made["x"])}


def test_a_long_graph_is_seen_as_a_whole_and_as_wide_as_the_page(page: Page, tmp_path: Path, missing):
    if not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    layers = [torch.nn.Linear(4, 4) for _ in range(12)]

    def model(x: torch.Tensor) -> torch.Tensor:
        skips = [x]
        for layer in layers:
            skips.append(layer(skips[-1]))
        return sum(skips)

    page.set_viewport_size({"width": 600, "height": 400})
    page.goto(rf.show(model, torch.ones(1, 4)).save(tmp_path / "x.html").as_uri())
    canvas, fit = page.locator(".rfnb-Canvas"), page.get_by_role("button", name="Fit the whole graph, or its width")
    hidden = "canvas => canvas.scrollHeight - canvas.clientHeight"
    wide = canvas.locator("> svg").bounding_box()["width"]
    assert canvas.evaluate(hidden) > 100
    for all_of_it in (True, False, True):
        fit.click()
        assert (canvas.evaluate(hidden) <= 2) == all_of_it
        assert (canvas.locator("> svg").bounding_box()["width"] < wide) == all_of_it


WALKS = {"graph": walk_graph, "attention": walk_attention, "tensor": walk_dims}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", WALKS)
def test_a_saved_page_works_alone(page: Page, tmp_path: Path, missing, kind, scheme):
    if not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.emulate_media(color_scheme=scheme)
    page.goto(saved_views()[kind].save(tmp_path / "x.html").as_uri())
    WALKS[kind](page.locator("body"))
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page.url]
    page.screenshot(path=tmp_path / f"{kind}.png")


def test_a_saved_page_plays_its_sound_from_a_column(page: Page, tmp_path: Path, missing):
    if not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    shown = rf.show_attention(torch.full((4, 5), 0.2), audio=(torch.sin(torch.arange(16_000) / 3), 8_000))
    page.goto(shown.save(tmp_path / "x.html").as_uri())
    plot, sound = page.locator(".rfnb-Matrix-plot"), page.locator("audio")
    page.wait_for_function("() => document.querySelector('audio').duration === 2")
    plot.focus()
    press(page, "ArrowRight", "ArrowRight")
    assert sound.evaluate("audio => [audio.currentTime, audio.paused]") == [0.8, True]
    picture = plot.locator("image").first.bounding_box()
    page.mouse.click(picture["x"] + picture["width"] * 0.7, picture["y"] + 5)
    page.wait_for_function("() => document.querySelector('audio').currentTime > 1.2")
    page.wait_for_function("() => document.querySelector('.rfnb-Matrix-heard').getAttribute('x') > 1")
    assert said == []
