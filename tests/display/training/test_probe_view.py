"""The view of a probe: cards, curves, words."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.training import probe_view
from rfnb.errors import ViewError


def of_training(word=lambda name: name, steps=3, every=1, sharpness=0.1):
    """A probe whose attention gets sharper from step to step."""
    letters = rf.Dim(3, name=word("letter"), vocab=[word(each) for each in "abc"])
    rows, cols, key = rf.Dim(4, name=word("dec")), rf.Dim(3, name=word("enc")), rf.Dim(2, name=word("key"))
    time = rf.Dim(rf.convert_to_tensor([3, 1], dims=[rf.batch_dim]), name=word("time"))
    queries, keys = rf.random_normal([rows, key]), rf.random_normal([cols, key])
    said = rf.convert_to_tensor([[0, 1, 2], [1, 0, 0]], dims=[rf.batch_dim, time], sparse_dim=letters)

    def decode():
        att = rf.dot_attention(queries * (sharpness * probe.trained), keys, keys, key_dim=key, axis=cols)
        return {word("words"): [word("one"), att], word("said"): said}

    probe = rf.probe(decode, every=every, name=word("decode"))
    for step in range(steps * every):
        probe.step(**{word("loss"): 1 / (step + 1)})
    probe.stop()
    return probe


def hostile_views(word):
    """A probe with such names everywhere, and one that failed."""

    def fail():
        raise ValueError(word("said"))

    failed = rf.probe(fail, every=1, name=word("failing"))
    with pytest.warns(rf.errors.LoopWarning):
        failed.step()
    failed.stop()
    probe = of_training(word)
    return {"probe": rf.show(probe), "probe, loaded": rf.show(rf.load_probe(probe.path)), "probe, off": rf.show(failed)}


def test_a_card_for_each_step_with_attention_result_and_loss():
    probe = of_training()
    view = rf.show(probe)
    html = view.html
    assert html.count("<img") == 4 and re.findall(r"<b>(step \d)</b>", html) == ["step 1", "step 2", "step 3"]
    assert "loss 0.333" in html and "dec × enc" in html and "words: one" in html
    assert view.text.splitlines()[0].startswith("decode: 3 shots, training steps 1 … 3, every 1")
    assert view.table().columns[:2] == ["step", "loss"] and len(view.table().rows) == 3


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ({"laugh": ["L", "AE", "F"], "a": ["AH"]}, ["laugh: L AE F", "a: AH"]),
        (["one text", "another"], ["one text", "another"]),
        ([["L", "AE"], ["AH"]], ["L AE", "AH"]),
        ({"word": "one", "n": 3}, ["word: one", "n: 3"]),
    ],
)
def test_labels_of_one_sequence_are_one_line(result, lines):
    probe = rf.probe(lambda: result, every=1)
    probe.step()
    html = rf.show(probe).html
    probe.stop()
    assert "\n".join(lines) in html


@pytest.mark.parametrize("sharpness", [0.1, 1.0])
def test_all_pictures_have_one_scale(sharpness, monkeypatch):
    tops = []
    sprite = probe_view.drawing.sprite
    monkeypatch.setattr(probe_view.drawing, "sprite", lambda m, top, *f: tops.append(top) or sprite(m, top, *f))
    probe = of_training(sharpness=sharpness)
    view = rf.show(probe).data
    largest = max(float(shot.attention[0].weights.raw_tensor.max()) for shot in probe)
    twice_even = 2 / 3
    assert (largest > twice_even) == (sharpness == 1)
    assert tops[-3:] == pytest.approx([max(largest, twice_even)] * 3, abs=1e-6)
    assert len({shot["picture"] for shot in view["shots"]}) == 3


@pytest.mark.slow
def test_many_shots_are_shown_by_a_few_cards_spread_over_the_training():
    probe = of_training(steps=40)
    view = rf.show(probe).data
    assert len(view["shown"]) == 12 and view["shown"][0] == 0 and view["shown"][-1] == 39 and "12 of 40" in view["note"]
    assert len(view["curves"][0]["steps"]) == 40
    assert [
        rf.show(probe, steps=[7, 40]).data["shots"][i]["step"] for i in rf.show(probe, steps=[7, 40]).data["shown"]
    ] == [7, 40]


def test_what_is_not_there_is_refused():
    probe = of_training()
    with pytest.raises(ViewError, match="no such training step"):
        rf.show(probe, steps=[9])
    with pytest.raises(ViewError, match="no such attention"):
        rf.show(probe, attention="other")


def test_a_loaded_probe_shows_the_same_and_follows(tmp_path):
    probe = rf.probe(lambda: "a", every=1, path=tmp_path)
    loaded = rf.load_probe(tmp_path)
    assert "no shots yet" in rf.show(loaded).text and "no shots yet" in rf.show(loaded).html
    for number in (1, 2):
        probe.step(loss=torch.tensor(0.5))
        assert rf.show(loaded).text == rf.show(probe).text and len(loaded) == number
        assert f"step {number}" in rf.show(loaded).html
    probe.stop()


def test_progress_gives_its_measures():
    probe = rf.probe(lambda: None, every=2)
    progress = rf.progress(range(4))
    for step in progress:
        progress.report(loss=float(step), bad=float("nan") if step > 1 else 0.0)
    probe.stop()
    assert [shot.measures["loss"] for shot in probe] == [1.0, 3.0]
    assert probe[0].measures["bad"] == 0 and probe[1].measures["bad"] != probe[1].measures["bad"]
    assert "bad nan" in rf.show(probe).text.lower()


def of_loop(steps, lengths=(3, 1)):
    """A probe of a sum whose weight is the training step; what each state is after each step, by training step."""
    time = rf.Dim(None, name="time")
    rows = [[1.0] * length for length in lengths]
    x = rf.convert_to_tensor(rows, dims=[rf.batch_dim, time], tags=["kiwi", "fig"])

    def decode():
        loop = rf.Loop(axis=time, name="sum")
        loop.state.total, loop.state.count = rf.zeros([rf.batch_dim]), rf.convert_to_tensor(0)
        with loop:
            loop.state.total = loop.state.total + loop.unstack(x) * probe.trained
            loop.state.count = loop.state.count + 1

    probe = rf.probe(decode, every=1)
    for _ in range(steps):
        probe.step()
    probe.stop()
    return probe


def test_the_sliders_have_the_states_after_each_step_at_each_training_step():
    view = rf.show(of_loop(3), batch="kiwi")
    scripts = view.scripts
    assert scripts["kind"] == "probe"
    assert scripts["loop"] == {"name": "sum", "states": ["total", "count"], "steps": [0, 1, 2]}
    for number, slide in enumerate(scripts["slides"], 1):
        assert slide["step"] == number
        assert slide["values"] == [[str(number * (step + 1)), str(step + 1)] for step in range(3)]
    assert rf.show(of_loop(2)).scripts["slides"][1]["values"][2] == ["6 ·", "3"]


@pytest.mark.slow
def test_many_steps_are_thinned_and_the_first_and_last_stay():
    probe = of_loop(60, lengths=(50, 2))
    scripts = rf.show(probe, steps=[2, 3]).scripts
    steps = [slide["step"] for slide in scripts["slides"]]
    assert len(steps) <= 48 and steps[:3] == [1, 2, 3] and steps[-1] == 60
    at = scripts["loop"]["steps"]
    assert at[0] == 0 and at[-1] == 49 and len(at) * 2 * len(steps) <= 2000
    assert [slide["values"][-1][1] for slide in scripts["slides"]] == ["50"] * len(steps)


def test_a_loop_that_takes_fewer_steps_early_in_the_training():
    def decode():
        loop = rf.Loop(max_seq_len=probe.trained, name="growing")
        loop.state.n = rf.convert_to_tensor(0)
        with loop:
            loop.state.n = loop.state.n + 1

    probe = rf.probe(decode, every=1)
    for _ in range(3):
        probe.step()
    probe.stop()
    assert [slide["values"] for slide in rf.show(probe).scripts["slides"]] == [
        [["1"]], [["1"], ["2"]], [["1"], ["2"], ["3"]],
    ]  # fmt: skip


def test_runs_that_are_too_large_to_be_read_are_left_out(monkeypatch):
    probe = of_loop(3)
    monkeypatch.setattr(probe_view, "BYTES", probe[-1].bytes + 10)
    view = rf.show(probe)
    assert [len(slide["values"]) for slide in view.scripts["slides"]] == [0, 0, 3]
    assert "states of the last 1 training step:" in view.text


def test_pictures_are_in_the_cards_or_in_the_data_of_the_slider():
    view = rf.show(of_training(steps=4), steps=[1, 4])
    pictures = {slide["step"]: slide["picture"] for slide in view.scripts["slides"]}
    assert [step for step, picture in pictures.items() if picture] == [2, 3]
    assert re.findall(r'data-rfnb-shot="(\d)"', view.html) == ["1", "4"]


def test_one_training_step_needs_no_slider():
    assert rf.show(of_training(steps=1)).scripts == {"kind": "probe"}


@dataclass
class Output:
    """What a model gives."""

    logits: torch.Tensor
    loss: float


RESULTS = [
    (torch.tensor([[1.5, 2.0], [3.0, 4.0]]), ["torch.Tensor float32 {axis0:2, axis1:2}", "1.5"]),
    (torch.nn.Parameter(torch.tensor([1.5])), ["torch.Tensor float32 {axis0:1}", "1.5"]),
    (torch.tensor(1.5), ["torch.Tensor float32 {}", "1.5"]),
    (torch.tensor([1.5, 0.5], dtype=torch.bfloat16), ["bfloat16 {axis0:2}", "1.5"]),
    (torch.tensor([True]), ["bool {axis0:1}", "true"]),
    (torch.tensor([1 + 2j]), ["complex64 {axis0:1}"]),
    (torch.tensor([float("nan"), 1.0]), ["{axis0:2}", "1 NaN"]),
    (torch.zeros(0, 3), ["{axis0:0, axis1:3}", "(empty)"]),
    (np.array([[1.5, 2.0]]), ["numpy.ndarray float64 {axis0:1, axis1:2}", "1.5"]),
    (np.float32(1.5), ["1.5"]),
    (float("inf"), ["inf"]),
    (7, ["7"]),
    ([torch.tensor([1.5]), "text", [3, np.array([2.5])]], ["1.5", "text", "3"]),
    ({"a": torch.tensor([1.5]), "b": 3}, ["a: array torch.Tensor", "1.5", "b: 3"]),
    (Output(torch.tensor([1.5]), 0.25), ["logits: array torch.Tensor", "1.5", "loss: 0.25"]),
    (torch.ones(2, 3).max(dim=1), ["float32 {axis0:2}", "int64 {axis0:2}"]),
]


@pytest.mark.parametrize(("result", "words"), RESULTS, ids=lambda value: str(value)[:30])
def test_results_of_torch_and_numpy_are_shown_on_the_cards(result, words):
    probe = rf.probe(lambda: result, every=1)
    probe.step()
    probe.stop()
    view = rf.show(probe)
    for shown in (view.text, html.unescape(str(view.html))):
        assert "no view" not in shown
        for word in words:
            assert word in shown
