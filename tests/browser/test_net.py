"""The panel steps through the decoder of a net dict: by the names of layers, with the lines of the config."""

from __future__ import annotations

import pytest

from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

CONFIG = """\
extern_data = {"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True}}
network = {
  "enc": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data"},
  "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 6, "unit": {
    "embed": {"class": "linear", "activation": None, "n_out": 4, "from": "output", "initial_output": 0},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 4,
          "from": ["prev:embed", "prev:att"]},
    "sum": {"class": "combine", "kind": "add", "from": ["base:enc", "s"]},
    "energy": {"class": "linear", "activation": None, "n_out": 1, "from": "sum"},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
    "prob": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
  }},
}
"""
LINES = {line.split('"')[1]: line.strip() for line in CONFIG.splitlines() if line.startswith('    "')}

NET = """\
import rfnb as rf

rf.set_random_seed(3)
net = rf.Network.from_config("attention.config")
batch = net.extern_data.example(batch=2, frames=4)
out = net(batch)"""


@pytest.fixture
def stepped(open_notebook):
    """A notebook that has run the net, and the panel at the first step of its decoder."""
    notebook = open_notebook(cells=[NET], files={"attention.config": CONFIG})
    panel = Panel(notebook.page).open()
    notebook.run_all()
    return notebook, panel.choose("output")


def test_steps_show_layers_at_the_lines_of_the_config(stepped):
    notebook, panel = stepped
    assert "attention.config:4" in panel.root.inner_text()
    assert [line for line in LINES.values() if line not in panel.lines()] == []
    for step in (1, 2):
        panel.go("next", step)
        largest = float(notebook.value(f"float(rf.runs['output'][{step}]['weights'].numpy().max())"))
        panel.look(LINES["weights"])
        panel.on_line(LINES["weights"])
        texts = panel.root.locator(".rfnb-Line[aria-current=step] .rfnb-Detail-stats").inner_text()
        assert f"{largest:.3g}" in texts


def test_a_click_on_a_layer_marks_its_line_in_the_config(stepped):
    notebook, panel = stepped
    panel.go("next", 1)
    for state, layer in [("prev:att", "att"), ("s.h", "s"), ("s.c", "s")]:
        panel.look(LINES["prob"])
        panel.on_line(LINES["prob"])
        panel.root.locator(f'[data-state="{state}"] .rfnb-State-look').click()
        panel.on_line(LINES[layer])
        assert panel.root.locator(".rfnb-Line[aria-current=step]").count() == 1
    notebook.screenshot("net-layer")
    panel.go("next", 2)  # it stays marked
    panel.on_line(LINES["s"])
