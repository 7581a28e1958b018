"""The live tree of a search: read, followed and searched by mouse and keyboard, in both themes and at all widths."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

import rfnb as rf
from rfnb.display.kit.page import STATIC
from rfnb.search.tree import Tree
from tests.browser.looks import faults, weak_words
from tests.display.beam.test_beam_view import endless, found_of
from tests.search.test_choice import Net

pytestmark = pytest.mark.browser

SCHEMES = ["light", "dark"]


@pytest.fixture
def saved(page: Page, tmp_path, missing):
    """Opens the page of a view; the test fails if it said or fetched anything."""
    if not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or said.append(request.url))

    def opened(view, width: int = 1400, scheme: str = "light") -> Locator:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.goto(view.save(tmp_path / "tree.html").as_uri())
        return page.locator(".rfnb-Tree")

    yield opened
    assert said == []


def lost_tree() -> tuple[Tree, tuple[int, ...]]:
    """A tree, and a reference that fell out of it."""
    labels = ["laugh", "</s>", "▁the", "▁cat", "s", "▁don", "ate", "▁a"]
    tree = found_of(Net(8, 1, 2), beam=4, labels=labels, limit=9).tree[0]
    wide = found_of(Net(8, 1, 2), beam=40, labels=labels, limit=9).tree[0]
    lost = (each.labels for each in wide.hypotheses)
    return tree, next(ref for ref in lost if (fall := tree.where(ref).fall) is not None and fall.step > 2)


def family(tree: Tree, step: int, place: int) -> set[str]:
    """The ancestors and descendants of a node, as the page names them."""
    nodes, row = {f"{step}:{place}"}, place
    for at in range(step, 0, -1):
        row = int(tree.parents[at, row])
        nodes.add(f"{at - 1}:{row}")
    rows = {place}
    for at in range(step + 1, tree.steps):
        rows = {node.place for node in tree.nodes(at) if node.parent in rows}
        nodes |= {f"{at}:{row}" for row in rows}
    return nodes


def marked(root: Locator, which: str) -> set[str]:
    return set(root.locator(f"[data-node]{which}").evaluate_all("all => all.map(node => node.dataset.node)"))


def test_hover_and_click_tell_what_the_tree_knows(saved):
    tree, reference = lost_tree()
    root = saved(rf.show(tree, reference=reference))
    facts, node = root.locator(".rfnb-Tree-facts"), tree.nodes(5)[1]
    box = root.locator(f"[data-node='5:{node.place}']")
    box.hover()
    expect(facts).to_contain_text(f"step 5 · {node.text} · rank 2 · score −{-node.compared:.3g} (")
    expect(facts).to_contain_text(f"text so far: {tree.text_of(tree.prefix(5, node.place))}")
    box.click()
    assert marked(root, "[data-family=true][data-state]:not([data-state=pruned])") == family(tree, 5, node.place)
    root.page.mouse.move(1, 1)
    expect(facts).to_contain_text("chosen")
    fall = tree.where(reference).fall
    root.locator(f"[data-node='{fall.step}:4']").hover()
    expect(facts).to_contain_text("✂ fell out at step")
    for words in ("the best hypothesis", "pruned", "▣ ends here", "the reference", "✂ the reference fell out"):
        expect(root.locator(".rfnb-Tree-legend")).to_contain_text(words)


def test_the_tree_is_walked_by_keyboard_alone(saved):
    tree, _ = lost_tree()
    root = saved(rf.show(tree))
    press = root.page.keyboard.press
    root.locator("input[type=search]").focus()
    for _ in range(4):
        press("Tab")
    plot = root.locator(".rfnb-Tree-plot:focus-visible")
    assert plot.locator(".rfnb-Tree-ring").evaluate("ring => getComputedStyle(ring).strokeWidth") == "3px"
    facts = root.locator(".rfnb-Tree-facts")
    for step in range(1, tree.steps):
        press("ArrowRight")
        expect(facts).to_contain_text(f"step {step} · ")
    expect(facts).to_contain_text(f"score −{-tree.best.score:.3g}")
    expect(facts).to_contain_text(f"text so far: {tree.best.text}")
    press("Enter")
    assert marked(root, "[data-chosen]") == {f"{tree.steps - 1}:{tree.best.place}"}
    press("Escape")
    count = root.locator("[data-state=pruned]").count()
    press("p")
    assert root.locator("[data-state=pruned]").count() == count - 8
    press("Tab")
    press("Enter")  # the table
    rows = root.locator(".rfnb-Tree-rows tbody tr")
    expect(rows).to_have_count(sum(len(tree.nodes(step)) + len(tree.pruned(step)) for step in range(tree.steps)))


def test_a_long_tree_scrolls_under_its_numbers_and_is_searched(saved):
    found = endless(12, 200, candidates=8)
    root = saved(rf.show(found), width=600)
    page, frame = root.page, root.locator(".rfnb-Tree-frame")
    assert root.locator(".rfnb-Tree-column").count() < 30  # only what is near
    frame.evaluate("frame => { frame.style.maxHeight = '200px'; frame.scrollLeft = 9000; frame.scrollTop = 150; }")
    number = root.locator(".rfnb-Tree-head [data-at='115']")
    number.wait_for()
    head, outside = number.bounding_box(), frame.bounding_box()
    assert outside["y"] <= head["y"] <= outside["y"] + 4
    column = root.locator("[data-node='115:0'] rect").first.bounding_box()
    assert abs(head["x"] + head["width"] / 2 - column["x"] - column["width"] / 2) < 1
    number.click()
    assert len(marked(root, "[data-state=pruned]")) == 8
    [*_, last] = (node for step in range(200) for node in found.tree[0].nodes(step) if node.text == "label19")
    root.locator("input[type=search]").fill("LABEL19")
    page.keyboard.press("Shift+Enter")
    expect(root.locator(".rfnb-Search-count")).to_contain_text(" of ")
    where = root.locator(".rfnb-Tree-facts").inner_text().split(" ")[1]
    assert int(where) >= last.step and marked(root, "[data-match]")
    ring, inside = root.locator(".rfnb-Tree-ring").bounding_box(), frame.bounding_box()
    assert inside["x"] <= ring["x"] and ring["x"] + ring["width"] <= inside["x"] + inside["width"]


def test_all_words_of_the_tree_can_be_read_and_axe_finds_no_fault(saved, missing):
    tree, reference = lost_tree()
    root = saved(rf.show(tree, reference=reference))
    page = root.page
    root.locator("[data-node='1:0']").click()
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    root.locator(".rfnb-Tree-rows td").first.wait_for()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width in (280, 600, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
        assert weak_words(page) == [], scheme
    page.set_viewport_size({"width": 280, "height": 800})
    assert faults(page, missing) == []
    page.keyboard.press("Escape")
    assert weak_words(page) == [], "nothing chosen"


def test_a_page_of_12_by_40_has_less_than_300_kb(saved, tmp_path):
    view = rf.show(endless(12, 40, candidates=8))
    root = saved(view)
    assert len(marked(root, "[data-at], [data-state=pruned]")) > 8
    assert (tmp_path / "tree.html").stat().st_size < 300_000


CELL = """\
import torch, rfnb as rf
from tests.browser.test_tree import lost_tree
tree, reference = lost_tree()
rf.show(tree, reference=reference)"""


@pytest.mark.usefixtures("extension")
def test_in_jupyterlab(open_notebook):
    notebook = open_notebook(cells=[CELL])
    notebook.run_all()
    root = notebook.cell(0).locator(".rfnb-Tree")
    root.locator("[data-node='2:1']").click()
    expect(root.locator(".rfnb-Tree-facts")).to_contain_text("step 2 · ")
    notebook.page.keyboard.press("ArrowRight")
    expect(root.locator(".rfnb-Tree-facts")).to_contain_text("step 3 · ")
    assert notebook.cell_count() == 1
