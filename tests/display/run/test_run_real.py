"""Views of real tensors, modules and runs, from the user's side."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.panel.commands import Dispatcher

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def numbers() -> rf.Tensor:
    raw = np.array([[1, 2, 3, 4], [1, 1, 9, 9]], np.float32)
    return rf.convert_to_tensor(raw, dims=[batch_dim, Dim(None, name="time")], lengths=[4, 2], name="numbers")


def running_sum(x: rf.Tensor, *, look: bool = False) -> rf.Loop:
    loop = rf.Loop(axis=x.dims[1], debug=True, name="sum")
    loop.state.total = rf.zeros([batch_dim])
    with loop:
        step = loop.unstack(x)
        if look:
            assert "step 0" in repr(step)
            assert "text/html" in step._repr_mimebundle_()
            rf.show(rf.zeros([batch_dim]) + 1)
        loop.state.total = loop.state.total + step
        loop.out = loop.stack(loop.state.total)
    return loop


def test_a_tensor_tells_its_true_lengths(numbers):
    assert repr(numbers).splitlines()[0] == "Tensor{'numbers', [batch:2, time:2–4 Σ6], float32}"
    assert rf.show(numbers).data["stats"]["mean"] == pytest.approx(2.0)
    assert "text/html" in numbers._repr_mimebundle_()
    assert rf.show(numbers, batch=1).data["values"] == [1, 1]


def test_looking_at_values_in_a_body_changes_nothing(numbers):
    plain, looked = running_sum(numbers), running_sum(numbers, look=True)
    assert np.array_equal(plain.out.raw_tensor, looked.out.raw_tensor)


def test_a_run_is_shown_step_by_step(numbers):
    run = running_sum(numbers).run
    history = rf.show(run).data
    assert [s["states"][0]["after"]["text"] for s in history["steps"]] == ["1 1", "3 2", "6 ·", "10 ·"]
    assert [s["states"][0]["change"] for s in rf.show(run, batch=0).data["steps"]] == [1, 2, 3, 4]
    assert history["run"]["body"][0].strip() == "with loop:"
    assert history["note"] is None
    assert repr(run).startswith("Run{sum · test_run_real.py:")


def test_states_of_labels_have_no_size_and_few_equal_numbers_no_flag(numbers):
    letter = Dim(3, name="letter", vocab=["a", "b", "c"])
    loop = rf.Loop(axis=numbers.dims[1], debug=True)
    loop.state.last = rf.zeros([batch_dim], dtype="int64", sparse_dim=letter)
    loop.state.count = rf.zeros([batch_dim])
    with pytest.warns(rf.errors.LoopWarning, match="'last' is never read"), loop:
        loop.unstack(numbers)
        loop.state.last = rf.full(dims=[batch_dim], fill_value=2, sparse_dim=letter)
        loop.state.count = loop.state.count + 1.0
    last, count = rf.show(loop.run).data["steps"][0]["states"]
    assert (last["spark"], last["flags"], last["after"]["text"]) == ([], [], "c c")
    assert (len(count["spark"]), count["after"]["flags"]) == (4, [])


def test_messages_about_a_real_run(numbers):
    run = running_sum(numbers).run
    answers = Dispatcher(rf.runs)

    def ask(command, **args):
        reply = answers.handle({"id": 1, "command": command, "args": args})
        assert reply["status"] == "ok", reply["error"]
        assert json.dumps(reply, allow_nan=False)
        return reply["data"]

    assert run.serial in [item["run"] for item in ask("runs")]
    view = ask("step", run=run.serial, step=2, sequence=0)
    assert (view["states"][0]["before"]["text"], view["states"][0]["after"]["text"]) == ("3", "6")
    assert view["ended"] == [False, True]
    assert view["check"] == "replay agrees"
    value = ask("value", run=run.serial, step=1, name="step", sequence=None)
    assert value["values"] == [2, 1]
    lines = {row["value"]["name"]: row["line"] for row in view["values"]}
    body = ask("run", run=run.serial)
    assert "unstack" in body["body"][lines["step"] - body["first_line"]]
    assert next(item for item in ask("pin", run=run.serial, pinned=True) if item["run"] == run.serial)["pinned"]
    assert run.serial not in [item["run"] for item in ask("forget", run=run.serial)]


@pytest.mark.parametrize("lengths", [[0, 0], [1, 1], [1, 0]])
def test_very_short_runs(lengths):
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(np.ones((2, max(lengths)), np.float32), dims=[batch_dim, time], lengths=lengths)
    loop = running_sum(x)
    if loop.run is not None:
        view = rf.show(loop.run)
        assert "no step 0" not in view.text
        assert view.html


def test_labels_and_attention_of_real_tensors():
    letters = Dim(3, name="letters", vocab=["a", "b", HOSTILE])
    time, out = Dim(None, name="time"), Dim(2, name="out")
    words = rf.convert_to_tensor([[0, 1, 2], [1]], dims=[batch_dim, time], sparse_dim=letters)
    assert rf.show(words).data["labels"] == [["a", "b", HOSTILE], ["b"]]
    assert HOSTILE not in rf.show(words).html
    scores = rf.random_normal([batch_dim, out, time])
    view = rf.show_attention(rf.softmax(scores, axis=time), rows=out, cols=words, batch=0)
    assert view.data["cols"] == ["a", "b", HOSTILE]
    assert np.sum(view.data["weights"], axis=1) == pytest.approx([1, 1], abs=1e-4)


def test_a_module():
    feat, hidden = Dim(4, name="feat"), Dim(8, name="hidden")
    text = repr(rf.Linear(feat, hidden))
    assert text.startswith("Linear  40 parameters")
    assert "weight {feat:4, hidden:8}" in text


def test_a_fork_says_what_was_edited_and_where_it_begins(numbers):
    run = running_sum(numbers).run
    reasons = rf.show(run.fork(2, total=5.0)).data["reasons"]
    assert "total edited after it" in reasons[1]
    assert reasons[2].startswith("the fork begins")
    reasons = rf.show(run.fork(0, total=5.0)).data["reasons"]
    assert reasons[0].startswith("the fork begins, total edited before it")
    reasons = rf.show(run.fork(1)).data["reasons"]
    assert not reasons[0]
    assert reasons[1].startswith("the fork begins")


def test_numbers_shown_are_of_sequences_that_go_on():
    """Not those of the first one, which ended long ago."""
    time, feat = Dim(None, name="time"), Dim(8, name="feat")
    raw = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=[1, 3])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.last = rf.zeros([batch_dim, feat])
    with loop:
        loop.state.last = loop.state.last * 0 + loop.unstack(x)
    last = rf.show(loop.run).data["steps"][2]["states"][0]["after"]["text"]
    assert last == "… 40 41 42 43 44 45 … (2×8)"


@pytest.mark.parametrize(("factor", "flags"), [(np.nan, ["not finite"]), (np.inf, ["not finite"]), (1.0, [])])
def test_of_a_plain_step_that_failed_its_states_and_numbers_are_told(factor, flags, tmp_path):
    h = other = 1.0
    with pytest.raises(ValueError, match="enough"):
        for t in rf.steps(range(5), name="failing"):
            h = h * factor if t == 2 else h
            if t == 2:
                raise ValueError("enough")
            other = other + 1
    for run in (rf.runs["failing"], rf.load_run(rf.runs["failing"].save(tmp_path / "x.rfrun"))):
        assert run.flags[1:] == flags
        after = {row["name"]: row["after"]["text"] for row in rf.show(run).data["steps"][-1]["states"]}
        assert after == {"h": f"{factor:g}", "other": "not reached"}
