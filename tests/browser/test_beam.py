"""A search in the stepper: the tree grows, and a click or a key shows the values of one hypothesis."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import ARTIFACTS
from tests.browser.panel import Panel, Stepper, numbers

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

EVIL = "<script>alert(1)</script>"

SEARCH = f"""\
import numpy as np
import rfnb as rf
from rfnb import batch_dim

rf.options.record = "last"
labels = ["</s>", "AE", "AH", "F", "L", "{EVIL}"]
tags = ["laugh", "{EVIL}"]
random = np.random.RandomState(2)
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
    """The steps of the tree that are drawn."""
    return [int(step) for step in stepper.root.locator("[data-column]").evaluate_all(STEPS)]


STEPS = "all => all.map(column => column.dataset.column)"


def chosen(stepper, node):
    """Waits until this node of the last column is the chosen one; the step and place of each node on its path."""
    stepper.root.locator(f"[data-current=true] [data-node='{node}'][data-chosen=true]").wait_for()
    return stepper.root.locator("[data-node][data-chosen=true]").evaluate_all("all => all.map(g => g.dataset.node)")


def path_of(notebook, step, place):
    """The same, by the kernel."""
    parents = notebook.value("loop.found.tree['laugh'].parents.tolist()")
    path = []
    for at in range(step, -1, -1):
        path.insert(0, f"{at}:{place}")
        place = parents[at][place]
    return path


def shows_hypothesis(notebook, stepper, step, place):
    """The state after the step is that of the hypothesis, and attention is that of its parent, which computed it."""
    after = notebook.value(f"loop.run[{step}].after.h.copy_transpose([batch_dim, beam, hidden]).raw_tensor.tolist()")
    low, _, high = stepper.stats("h")
    assert (low, high) == pytest.approx((min(after[0][place]), max(after[0][place])), abs=6e-3)
    att = notebook.value(f"loop.run[{step}].att.copy_transpose([batch_dim, beam, frame]).raw_tensor.tolist()")
    parent = notebook.value(f"loop.found.tree['laugh'].parents.tolist()[{step}][{place}]")
    assert numbers(stepper.value("att")) == pytest.approx(att[0][parent], rel=0.01, abs=1e-6)


def rows(stepper):
    """The texts in the table of hypotheses."""
    return stepper.root.locator("[data-place] bdi").all_inner_texts()


def test_the_tree_grows_and_a_click_chooses_step_and_hypothesis(searched):
    notebook, panel = searched
    dialogs = []
    notebook.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    assert columns(panel) == [0]
    panel.go("next", 1).go("next", 2).go("next", 3)
    assert columns(panel) == [0, 1, 2, 3]
    tree = "loop.found.tree['laugh']"
    assert rows(panel) == notebook.value(f"[{tree}.text_of({tree}.prefix(3, node.place)) for node in {tree}.nodes(3)]")
    assert any(EVIL in text for text in rows(panel))
    panel.root.locator("[data-node='2:1']").click()
    panel.at(2)
    assert chosen(panel, "2:1") == path_of(notebook, 2, 1)
    assert columns(panel) == [0, 1, 2]
    shows_hypothesis(notebook, panel, 2, 1)
    notebook.screenshot("panel-beam")
    panel.go("previous", 1)
    assert chosen(panel, path_of(notebook, 2, 1)[1]) == path_of(notebook, 2, 1)[:2]
    panel.root.get_by_role("button", name="all hypotheses").click()
    panel.root.locator("[data-node][data-chosen=true]").first.wait_for(state="detached")
    panel.sequence(EVIL)
    panel.root.locator(".rfnb-Beam", has_text=EVIL).wait_for()
    assert notebook.page.locator("script", has_text="alert(1)").count() == 0
    assert dialogs == []


def test_the_keyboard_chooses_hypotheses(searched):
    notebook, _ = searched
    inline = notebook.stepper(2).at(0)
    press = notebook.page.keyboard.press
    inline.root.locator(".rfnb-Stepper").focus()
    press("ArrowRight")
    inline.at(1)
    for place in (0, 1, 2):
        press("]")
        assert chosen(inline, f"1:{place}") == path_of(notebook, 1, place)
    shows_hypothesis(notebook, inline, 1, 2)
    press("[")
    chosen(inline, "1:1")
    press("[")
    press("[")  # above the best are all of them
    inline.root.locator("[data-node][data-chosen=true]").first.wait_for(state="detached")
    row = inline.root.locator("[data-place='2'] button")
    row.focus()
    press("Enter")
    chosen(inline, "1:2")
    assert row.evaluate("row => row === document.activeElement && row.matches(':focus-visible')")


def test_a_pruned_candidate_is_kept(searched):
    notebook, panel = searched
    panel.sequence("laugh")
    panel.go("next", 1)
    pruned = notebook.value("[[node.text, node.parent] for node in loop.found.tree['laugh'].pruned(1, 4)]")
    pencil = panel.root.locator(".rfnb-Beam-keep").nth(1)
    pencil.focus()
    notebook.page.keyboard.press("Enter")
    panel.root.locator(".rfnb-Origin", has_text="at step 1").wait_for()
    kept = notebook.value("[[node.text, node.parent] for node in rf.runs[0].found.tree['laugh'].nodes(1)]")
    assert pruned[1] in kept
    assert len(rows(panel.at(1))) == 3
    notebook.screenshot("panel-kept")
    pruned = notebook.value("[[node.text, node.parent] for node in rf.runs[0].found.tree['laugh'].pruned(1, 4)]")
    panel.root.locator(".rfnb-Beam-keep").first.click()
    panel.root.locator(".rfnb-Run[aria-current=true]", has_text="#3").wait_for()
    assert pruned[0] in notebook.value("[[n.text, n.parent] for n in rf.runs[0].found.tree['laugh'].nodes(1)]")


def test_the_search_for_steps_knows_hypotheses_and_references(searched):
    notebook, panel = searched
    panel.find("best changes")
    assert panel.hits() == notebook.value("loop.run.find(rf.when.best_changes(batch='laugh'))") == [3, 4, 6]
    panel.root.locator(".rfnb-Find-kind").select_option("falls out")
    field = panel.root.locator(".rfnb-Find-text")
    field.fill("AE AE")
    field.press("Enter")
    panel.searched()
    assert panel.hits() == notebook.value("loop.run.find(rf.when.falls_out('AE AE', batch='laugh'))") != []


def test_a_saved_page_has_the_whole_tree_without_scripts(searched, browser, tmp_path):
    notebook, _ = searched
    page = tmp_path / "search.html"
    notebook.execute(f"loop.run.save({str(page)!r})")
    still = browser.new_context(java_script_enabled=False, offline=True).new_page()
    still.goto(page.as_uri())
    picture = still.get_by_role("img", name="beam of laugh")
    picture.wait_for()
    assert picture.bounding_box()["width"] > 300
    moving = browser.new_context(offline=True).new_page()
    moving.goto(page.as_uri())
    stepper = Stepper(moving.locator("body"))
    assert columns(stepper.at(0)) == [0]
    stepper.go("next", 1).go("next", 2)
    assert columns(stepper) == [0, 1, 2]
    stepper.root.locator("[data-node='1:1']").click()
    assert columns(stepper.at(1)) == [0, 1]
    stepper.go("last", 6)
    moving.set_viewport_size({"width": 480, "height": 1000})
    moving.screenshot(path=ARTIFACTS / "saved-beam.png")
    assert columns(stepper) == list(range(7))
