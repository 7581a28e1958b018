"""A running cell pauses: the panel shows the step, steps the real execution on, edits a state, lets it go on."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import OUTPUTS, READY, until
from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

DATA = """\
import rfnb as rf
from rfnb import batch_dim

time = rf.Dim(None, name="time")
x = rf.convert_to_tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0]], dims=[batch_dim, time], tags=["long", "short"])
import os
print(os.getpid())"""

LOOP = """\
loop = rf.Loop(axis=time, name="running sum")
loop.state.total = rf.zeros([batch_dim])
with loop:
    x_t = loop.unstack(x)
    loop.state.total = loop.state.total + x_t
    sums = loop.stack(loop.state.total)
print("done", loop.state.total.raw_tensor.tolist())"""

WHEN = 'rf.pause_when(rf.when.over(2.5, "x_t", batch="long"), loop="running sum");'


@pytest.fixture
def paused(open_notebook):
    """A notebook whose third cell is paused after step 2, and the panel."""
    notebook = open_notebook(cells=[DATA, WHEN, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    notebook.run_cell(1)
    notebook.start_cell(2)
    return notebook, panel.at(2)


def connected(panel):
    panel.root.locator(".rfnb-Status-pause").wait_for()


def ask_for_a_pause(panel):
    """Asks for a pause at the next step, and waits until the kernel knows of it."""
    panel.root.locator(".rfnb-Status-pause").click()
    panel.root.locator('.rfnb-Status-pause[aria-pressed="true"]').wait_for()


def resume(panel, name):
    panel.root.locator(f"[data-resume={name}]").click()


def over(panel):
    expect(panel.root.locator(".rfnb-Paused")).to_have_count(0)


def test_a_condition_holds_the_running_cell_and_lets_it_go_on(paused):
    notebook, panel = paused
    expect(panel.root.locator(".rfnb-Paused-where")).to_contain_text("Paused: running sum, after step 2")
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("|x_t| is over 2.5 in sequence 'long'")
    assert "done" not in notebook.text(2)
    assert panel.state("total", "after") == "6 ·"
    panel.go("previous", 1)
    assert panel.state("total", "after") == "3 30"
    panel.go("next", 2)
    panel.go("next", 3)  # the real execution goes on
    assert panel.state("total", "after") == "10 ·"
    assert "done" not in notebook.text(2)
    resume(panel, "resume")  # the condition holds at the next step
    panel.at(4)
    resume(panel, "resume")
    notebook.wait_for_idle()
    over(panel)
    assert "done [15.0, 30.0]" in notebook.text(2)


LONG = """\
loop = rf.Loop(max_seq_len=1000, name="running sum")
loop.state.total = rf.reduce_sum(x, axis=time) * 0.0
with loop:
    loop.state.total = loop.state.total + 1.0
print("done", loop.state.total.raw_tensor.tolist())"""


def at_the_first_step(open_notebook, cell):
    """The notebook, the panel and its field for a later step, while the cell is paused."""
    notebook = open_notebook(cells=[DATA, cell])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    ask_for_a_pause(panel)
    notebook.start_cell(1)
    panel.at(0)
    return notebook, panel, panel.root.locator(".rfnb-Paused-to input")


def test_it_goes_on_to_a_later_step(open_notebook):
    notebook, panel, to_step = at_the_first_step(open_notebook, LONG)
    to_step.fill("0")
    to_step.press("Enter")  # it has been done
    panel.at(0)
    to_step.fill("700")
    to_step.press("Enter")
    panel.at(700)
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("the chosen step")
    expect(to_step).to_be_focused()  # for the next step
    assert panel.state("total", "after") == "701 701"
    notebook.page.keyboard.press("Control+Alt+c")
    notebook.wait_for_idle()
    assert "done [1000.0, 1000.0]" in notebook.text(1)


def test_the_field_for_a_step_has_the_focus_again_after_a_long_run(open_notebook):
    notebook, panel, to_step = at_the_first_step(open_notebook, LONG.replace("1000", "20_000"))
    to_step.fill("15000")
    to_step.press("Enter")  # the field goes while the loop runs
    panel.at(15_000)
    expect(to_step).to_be_focused()
    notebook.page.keyboard.press("Control+Alt+c")
    notebook.wait_for_idle()


def test_an_edited_state_is_what_the_paused_cell_goes_on_with(paused):
    notebook, panel = paused
    panel.sequence("long")
    panel.edit("total", "100")
    expect(panel.root.locator('[data-state="total"] .rfnb-State-after .rfnb-Value-text')).to_have_text("100")
    resume(panel, "last")
    notebook.wait_for_idle()
    assert "done [109.0, 30.0]" in notebook.text(2)
    expect(panel.root.locator(".rfnb-Stepper-head")).to_contain_text("edited at step 3")
    panel.go("last", 4)
    assert panel.state("total", "after").startswith("109")


def errors_of(notebook, index):
    """The names of the errors in a cell's output, which may come after its prompt has changed."""
    has_error = f"index => ({OUTPUTS})(index).some(output => output.output_type === 'error')"
    notebook.page.wait_for_function(has_error, arg=index)
    return [output["ename"] for output in notebook.outputs(index) if output["output_type"] == "error"]


def test_the_cell_can_be_stopped_and_interrupted(paused):
    notebook, panel = paused
    resume(panel, "stop")
    notebook.wait_for_idle()
    over(panel)
    assert errors_of(notebook, 2) == ["KeyboardInterrupt"]
    notebook.start_cell(2)
    panel.root.locator(".rfnb-Paused").wait_for()
    notebook.command("notebook:interrupt-kernel")
    notebook.wait_for_idle()
    over(panel)
    assert errors_of(notebook, 2) == ["KeyboardInterrupt"]


def test_a_restart_ends_a_pause(paused):
    notebook, panel = paused
    notebook.restart_kernel()
    over(panel)
    notebook.run_cell(0)
    notebook.run_cell(2)
    assert "done [15.0, 30.0]" in notebook.text(2)


@pytest.mark.own_page
def test_a_tab_that_is_opened_again_finds_the_pause(paused):
    notebook, panel = paused
    notebook.page.reload()
    notebook.page.wait_for_function("() => window.jupyterapp")
    notebook.page.evaluate("() => window.jupyterapp.restored.then(() => null)")
    panel = Panel(notebook.page).open()
    panel.root.locator(".rfnb-Paused").wait_for()
    panel.at(2)
    resume(panel, "last")
    over(panel)


@pytest.mark.own_page
def test_a_pause_opens_the_panel_and_stands_in_the_status_bar(open_notebook, tmp_path):
    after_scrolling = f"{until(tmp_path / 'go')}\n{LOOP}"
    notebook = open_notebook(cells=[DATA, WHEN, after_scrolling, *["# more\n" * 40] * 3])
    panel, page = Panel(notebook.page), notebook.page
    notebook.run_cell(0)
    notebook.run_cell(1)
    expect(panel.root).to_be_hidden()
    notebook.start_cell(2)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(5)")
    (tmp_path / "go").touch()
    panel.at(2)
    status = page.locator(".rfnb-PausedStatus-button")
    expect(status).to_have_text("Paused: running sum, after step 2")
    expect(page.locator(".rfnb-cm-current")).to_be_in_viewport()
    panel.close()
    page.reload()  # by someone who does not know what the cell waits for
    panel.at(2)
    panel.close()
    status.focus()
    page.keyboard.press("Enter")
    expect(panel.root).to_be_visible()
    resume(panel, "last")
    expect(status).to_have_count(0)


def test_marked_lines_and_the_next_step_pause_a_running_cell(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("running sum")
    ask_for_a_pause(panel)
    notebook.start_cell(1)
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("asked for in the panel")
    panel.at(0)
    panel.root.locator(".rfnb-Find-kind").select_option("over")
    panel.root.locator(".rfnb-Find-name").select_option("x_t")
    panel.root.locator(".rfnb-Find-limit").fill("15")
    panel.root.locator(".rfnb-Find-limit").press("Enter")
    panel.root.locator(".rfnb-Find-pause input").check()
    resume(panel, "resume")
    panel.at(1)
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("a match in the panel")
    resume(panel, "last")
    notebook.wait_for_idle()
    assert "done [15.0, 30.0]" in notebook.text(1)


TRAIN = """\
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = [(torch.ones(4, 3) * (float("nan") if i == 3 else 1), torch.ones(4, 1)) for i in range(6)]
rf.pause_when(rf.when.not_finite("loss"))
for x, y in rf.progress(batches, plot=False):
    prediction = model(x)
    loss = ((prediction - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")"""


def test_training_in_plain_torch_pauses_at_nan(open_notebook):
    notebook = open_notebook(cells=[DATA, TRAIN])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    notebook.start_cell(1)
    panel.at(3)
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("loss is not finite")
    assert panel.value("x").startswith("nan nan")
    assert panel.value("loss") == "nan"
    line = notebook.cell(1).locator(".cm-line", has_text="prediction = model(x)")
    line.hover(position={"x": 60, "y": 8})
    expect(notebook.page.locator(".rfnb-cm-hover")).to_have_text("nan nan nan nan\naxis0:4 axis1:1 float32")
    panel.go("previous", 2)
    assert panel.value("x").startswith("1 1")
    resume(panel, "last")
    notebook.wait_for_idle()
    assert "trained" in notebook.text(1)


def test_a_right_click_beside_a_line_asks_for_a_condition(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("running sum")
    mark = notebook.cell(1).locator(".rfnb-cm-stop").nth(1)
    mark.click(button="right")
    expect(panel.root.locator('.rfnb-Stop[data-line="5"] select')).to_be_focused()
    notebook.write(1, "# a line above\n" + LOOP)
    notebook.run_cell(1)
    panel.root.locator(".rfnb-Run-open").first.click()
    expect(panel.root.locator('.rfnb-Stop[data-line="6"]')).to_be_visible()


def test_a_pause_in_the_cell_that_imports_rfnb(open_notebook, tmp_path):
    body = LOOP.replace("    sums =", "    rf.pause()\n    sums =")
    cell = f"{DATA}\n{until(tmp_path / 'go')}\n{body}"
    line = 1 + cell.splitlines().index("    rf.pause()")
    notebook = open_notebook(cells=[cell])
    panel = Panel(notebook.page).open()
    notebook.start_cell(0)
    connected(panel)
    (tmp_path / "go").touch()
    panel.at(0)
    expect(panel.root.locator(".rfnb-Paused-why")).to_contain_text(f"rf.pause() in cell 1, line {line}")
    panel.on_line("rf.pause()")
    resume(panel, "last")
    notebook.wait_for_idle()
    assert "done [15.0, 30.0]" in notebook.text(0)


def test_two_notebooks_pause_independently(paused, open_notebook):
    notebook, panel = paused
    open_notebook("other.ipynb", cells=[DATA, WHEN, LOOP], beside=True)
    notebook.run_cell(0)
    connected(panel)
    notebook.run_cell(1)
    notebook.start_cell(2)
    panel.at(2)
    expect(panel.root.locator(".rfnb-Paused-elsewhere")).to_have_text("test.ipynb is paused: running sum, after step 2")
    resume(panel, "last")
    over(panel)
    assert "done" in notebook.text(2)
    panel.root.locator(".rfnb-Paused-elsewhere").click()
    panel.root.locator(".rfnb-Paused").wait_for()
    resume(panel, "last")
    over(panel)


def test_a_kernel_that_is_killed_ends_a_pause(paused):
    notebook, panel = paused
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.shutdown()")
    over(panel)


def test_a_kernel_that_dies_ends_a_pause_and_the_next_one_pauses_again(paused):
    notebook, panel = paused
    os.kill(int(notebook.text(0)), signal.SIGKILL)  # as the system does when memory runs out
    over(panel)
    notebook.page.get_by_role("button", name="Ok", exact=True).click()
    notebook.page.evaluate(READY)
    notebook.run_cell(0)
    connected(panel)
    notebook.run_cell(1)
    notebook.start_cell(2)
    panel.at(2)
    resume(panel, "last")
    notebook.wait_for_idle()
    assert "done" in notebook.text(2)


ENDLESS = """\
while True:
    loop = rf.Loop(max_seq_len=10**9, name="endless")
    loop.state.n = rf.convert_to_tensor(0.0)
    with loop:
        loop.state.n = loop.state.n + 1"""


def test_an_endless_loop_can_be_paused_again_and_interrupted(open_notebook):
    notebook = open_notebook(cells=[DATA, ENDLESS])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    ask_for_a_pause(panel)
    notebook.start_cell(1)
    panel.at(0).go("next", 1)
    resume(panel, "last")
    over(panel)
    panel.root.locator(".rfnb-Status-pause").click()
    panel.root.locator(".rfnb-Paused").wait_for()
    resume(panel, "resume")
    over(panel)
    notebook.command("notebook:interrupt-kernel")
    notebook.wait_for_idle()
    assert errors_of(notebook, 1) == ["KeyboardInterrupt"]
    assert notebook.value("1 + 1") == 2


def test_of_two_paused_notebooks_one_is_restarted_and_the_other_stays(paused, open_notebook):
    notebook, panel = paused
    open_notebook("other.ipynb", cells=[DATA, WHEN, LOOP], beside=True)
    notebook.run_cell(0)
    connected(panel)
    notebook.run_cell(1)
    notebook.start_cell(2)
    panel.at(2)
    notebook.restart_kernel()
    over(panel)
    elsewhere = panel.root.locator(".rfnb-Paused-elsewhere")
    expect(elsewhere).to_have_text("test.ipynb is paused: running sum, after step 2")
    elsewhere.click()
    panel.at(2).go("next", 3)
    notebook.command("notebook:interrupt-kernel")
    over(panel)
    expect(elsewhere).to_have_count(0)
    notebook.wait_for_idle()
    assert errors_of(notebook, 2) == ["KeyboardInterrupt"]


NO_SUBSHELLS = """\
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import launch_new_instance
info = IPythonKernel.kernel_info.fget
IPythonKernel.kernel_info = property(lambda kernel: {**info(kernel), "supported_features": []})
launch_new_instance()"""
IPYKERNEL_6 = os.environ.get("RFNB_IPYKERNEL_6", "")
"""A Python that has ipykernel 6 and what rfnb needs."""
KERNELS = {"without-subshells": [sys.executable, "-c", NO_SUBSHELLS], "6": [IPYKERNEL_6, "-m", "ipykernel_launcher"]}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_cannot_hear_the_panel_pins_the_run(lab, open_notebook, kernel):
    if kernel == "6" and not IPYKERNEL_6:
        pytest.skip("RFNB_IPYKERNEL_6 names no Python with ipykernel 6")
    folder = lab.notebooks.parent / "jupyter_data_dir" / "kernels" / f"rfnb-{kernel}"
    folder.mkdir(parents=True)
    started = [*KERNELS[kernel], "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": started, "display_name": kernel, "language": "python"}))
    notebook = open_notebook(cells=[DATA, WHEN, LOOP, TRAIN], kernel=folder.name)
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    panel.root.locator(".rfnb-Status-pause").click()
    notebook.run_cell(2)
    assert "not paused after step 0 (asked for in the panel): that needs ipykernel 7" in notebook.text(2)
    notebook.run_cell(1)
    notebook.run_cell(2)
    assert "done [15.0, 30.0]" in notebook.text(2) and "not paused after step 2" in notebook.text(2)
    notebook.run_cell(3)
    assert "training was not paused after step 3 (loss is not finite)" in notebook.text(3)
    assert notebook.value("[run.pinned for run in rf.runs]") == [True] * 3
    expect(panel.group("running sum").locator(".rfnb-Run-act[aria-pressed=true]")).to_have_count(2)
    over(panel)


PLAIN = """\
import torch
class Model:
    def run(self, w):
        h, self.sum = torch.zeros(2), w * 0
        for t in rf.steps(range(5), name="plain"):
            h = h + t
            self.sum = self.sum + h
            w = w if t < 9 else w + t
            yield h * 2

[*_, y] = Model().run(torch.nn.Parameter(torch.ones(2)))
print("done", y.tolist())"""


def test_a_plain_loop_pauses_is_edited_and_goes_on_and_pencils_say_why(open_notebook):
    notebook = open_notebook(cells=[DATA, 'rf.pause_when("t == 2 and h[0] > 0", loop="plain");', PLAIN])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    connected(panel)
    notebook.run_cell(1)
    notebook.start_cell(2)
    panel.at(2)
    expect(panel.root.locator(".rfnb-Paused-why")).to_have_text("t == 2 and h[0] > 0")
    assert panel.state("h", "after") == "3 3"
    refuses(panel, w=re.compile("is a parameter"), **{"self.sum": re.compile("is an attribute")})
    panel.go("previous", 1)
    assert panel.state("h", "after") == "1 1"
    panel.go("next", 2)
    panel.edit("h", "100 3")
    resume(panel, "resume")
    notebook.wait_for_idle()
    over(panel)
    assert "done [214.0, 20.0]" in notebook.text(2)
    expect(panel.root.locator(".rfnb-Stepper-head")).to_contain_text("edited at step 2")
    panel.go("previous", 1)
    refuses(panel, h="a loop with `yield` cannot be continued")


def refuses(panel, **reasons):
    """The pencils say why, and do nothing."""
    for name, reason in reasons.items():
        pencil = panel.root.locator(f'[data-state="{name}"] .rfnb-State-edit')
        expect(pencil).to_have_accessible_description(reason)
        pencil.click(force=True)
    expect(panel.root.locator(".rfnb-Edit")).to_have_count(0)
