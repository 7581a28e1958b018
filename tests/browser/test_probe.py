"""The two sliders of a probe: the training step, and the step of the loop."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

TRAIN = """\
import rfnb as rf
from rfnb import Dim, batch_dim

time, feat = Dim(None, name="time"), Dim(3, name="feat")
x = rf.convert_to_tensor([[[1.0, 2.0, 3.0]] * 6], dims=[batch_dim, time, feat])
weight = rf.Parameter([feat], initial=0.0)

def decode():
    loop = rf.Loop(axis=time, name="decoder")
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        frame = loop.unstack(x)
        loop.state.h = loop.state.h + frame * weight
    return loop.state.h

probe = rf.probe(decode, every=1)
for step in range(8):
    weight.assign(float(step + 1))
    probe.step(loss=1 / (step + 1))"""


@pytest.fixture
def probed(open_notebook):
    """A notebook with a probe of 8 training steps, and the panel at its newest run."""
    notebook = open_notebook(cells=[TRAIN])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.at(0)
    trained(panel, 8)
    return notebook, panel


def trained(panel, step):
    expect(panel.root.locator(".rfnb-Training-step")).to_have_text(str(step))
    return panel


def slider(panel):
    return panel.root.get_by_role("slider", name="Training step")


def h(panel):
    return panel.state("h", "after").split()[0]


def test_both_sliders_move_and_each_keeps_the_other(probed):
    notebook, panel = probed
    assert notebook.value("len(rf.runs)") < 8  # the older runs are read from the probe's files
    panel.go("next", 1).go("next", 2)
    assert h(panel) == "24"  # 3 steps of 8 * 1
    slider(panel).fill("2")
    trained(panel, 3).at(2)
    assert h(panel) == "9"
    panel.go("next", 3)
    assert h(panel) == "12"
    trained(panel, 3)
    expect(slider(panel)).to_have_attribute("aria-valuetext", "training step 3, 3 of 8")
    expect(panel.root.locator(".rfnb-Training")).to_contain_text("loss 0.333")


def test_by_keyboard_alone_the_focus_stays_on_the_slider(probed):
    _, panel = probed
    panel.root.locator(".rfnb-Stepper").press("ArrowRight")
    panel.at(1)
    slider(panel).focus()
    for step in (7, 6, 5):
        slider(panel).press("ArrowLeft")
        trained(panel, step).at(1)
        expect(slider(panel)).to_be_focused()
    slider(panel).press("Home")
    trained(panel, 1).at(1)
    slider(panel).press("t")
    trained(panel, 2).at(1)
    panel.root.locator(".rfnb-Stepper").press("Shift+T")
    trained(panel, 1).at(1)
    assert h(panel) == "2"


def test_the_slider_follows_a_training_that_goes_on(probed):
    notebook, panel = probed
    panel.root.locator("[data-training=first]").click()
    trained(panel, 1)
    notebook.execute("weight.assign(20.0); probe.step()")
    expect(slider(panel)).to_have_attribute("max", "8")
    trained(panel, 1)
    panel.root.locator("[data-training=last]").click()
    trained(panel, 9).go("next", 1)
    assert h(panel) == "40"
    notebook.execute("weight.assign(30.0); probe.step()")
    trained(panel, 10).at(1)
    assert h(panel) == "60"


def test_the_stepper_in_a_cell_has_both_sliders(open_notebook):
    notebook = open_notebook(cells=[TRAIN, "rf.stepper(probe[-1].run())"])
    notebook.run_all()
    stepper = notebook.stepper(1)
    stepper.go("next", 1)
    slider(stepper).fill("0")
    trained(stepper, 1).at(1)
    assert h(stepper) == "2"


ATTEND = """\
keys = rf.random_normal([Dim(6, name="dec"), feat])
enc = Dim(4, name="enc")

def decode():
    loop = rf.Loop(axis=time, name="decoder")
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        frame = loop.unstack(x)
        loop.state.h = loop.state.h + frame * weight
    rf.dot_attention(keys * weight, rf.random_normal([enc, feat]), rf.ones([enc, feat]), key_dim=feat, axis=enc)
    return f"<b>said</b> {int(weight.raw_tensor[0])}"

probe = rf.probe(decode, every=1)
for step in range(8):
    weight.assign(float(step + 1))
    probe.step(loss=1 / (step + 1))
view = rf.show(probe, steps=[1, 4, 8])
view.save("probe.html")
view"""


def walk(root):
    """Through the sliders of a view, by keyboard."""
    training, steps = (root.get_by_role("slider", name=name) for name in ("Training step", "Step of decoder"))
    shown = root.locator(".rfnb-Slides-shown")
    expect(training).to_have_attribute("aria-valuetext", "8 (8 of 8), loss 0.125")
    expect(shown).to_contain_text("<b>said</b> 8")
    steps.press("ArrowRight")
    expect(steps).to_be_focused()
    expect(shown.locator("caption")).to_have_text("after step 1")
    expect(shown.locator("td")).to_have_text("16 32 48")
    training.press("ArrowLeft")  # without a card
    expect(shown).to_contain_text("<b>said</b> 7")
    expect(shown.locator("td")).to_have_text("14 28 42")
    expect(shown.locator("img")).to_be_visible()
    training.press("Home")
    expect(shown.locator("td")).to_have_text("2 4 6")
    assert shown.locator("img").evaluate("image => image.naturalHeight") == 6


def test_the_view_of_a_probe_has_both_sliders_also_in_a_saved_page(open_notebook, lab, browser, request):
    notebook = open_notebook(cells=[TRAIN, ATTEND])
    notebook.run_all()
    cell = notebook.cell(1)
    walk(cell)
    assert cell.locator("b", has_text="step").all_inner_texts() == ["step 1", "step 4", "step 8"]
    notebook.screenshot("probe-view")
    file = next(lab.notebooks.rglob("probe.html"))
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        page, said = context.new_page(), []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.goto(file.as_uri())
        if scripts:
            walk(page.locator("body"))
        expect(page.get_by_role("slider")).to_have_count(2 if scripts else 0)
        expect(page.get_by_alt_text("attention at step")).to_have_count(4 if scripts else 3)  # the cards stay
        assert said == []
        context.close()
