"""What the panel asks of a run besides its steps: search, ops, watches, edits, gradients, comparisons, inner loops."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.panel import commands
from rfnb.display.panel.commands import Dispatcher
from rfnb.display.panel.paused import conditions_of, edited
from rfnb.errors import ViewError
from rfnb.trace.run.runs import Runs
from tests.examples import examples

LETTER = Dim(4, name="letter", vocab=["a", "b", "c", "the end"])
ROWS = np.array([[1, 2, -9, 4, 5], [1, 1, 7, 0, 0]], np.float32)
LINE = {"x_t": 1, "k": 4, "total": 6, "label": 7}
"""Of the body, counted from its `with` line."""


def running_sum() -> Any:
    """A sum and a label, with a small loop in each step; sequences of 5 and 3 steps."""
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(ROWS, dims=[batch_dim, time], lengths=[5, 3], tags=["first", "second"])
    loop = rf.Loop(axis=time, debug=True, name="sum")
    loop.state.total = rf.zeros([batch_dim])
    loop.state.label = rf.zeros([batch_dim], dtype="int64", sparse_dim=LETTER)
    with loop:
        x_t = loop.unstack(x)
        inner = rf.Loop(max_seq_len=2, name="halve")
        inner.state.k = x_t
        with inner:
            inner.state.k = inner.state.k * 0.5
        loop.state.total = loop.state.total + x_t + 0.0 * inner.state.k
        loop.state.label = rf.where(x_t < 0, rf.full(dims=[], fill_value=2, sparse_dim=LETTER), loop.state.label)
        loop.stack(loop.state.total)
    return loop.run


class Asked:
    """A dispatcher, asked about one run."""

    def __init__(self) -> None:
        self.run = running_sum()
        self.answers = Dispatcher(rf.runs)

    def reply(self, command: str, **args: Any) -> dict[str, Any]:
        message = {"id": 1, "command": command, "args": {"run": self.run.serial, **args}}
        reply = self.answers.handle(message)
        assert json.dumps(reply, allow_nan=False)
        return reply  # type: ignore[return-value]

    def __call__(self, command: str, **args: Any) -> Any:
        reply = self.reply(command, **args)
        assert reply["status"] == "ok", reply["error"]
        return reply["data"]

    def error(self, command: str, **args: Any) -> str:
        reply = self.reply(command, **args)
        assert reply["status"] == "error", reply["data"]
        return reply["error"]


@pytest.fixture
def ask() -> Asked:
    return Asked()


def where(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": None, "line": None, "limit": None, "text": None, **more}


@pytest.mark.parametrize(
    ("condition", "sequence", "steps"),
    [
        (where("over", name="x_t", limit=4.5), None, [2, 4]),
        (where("over", name="x_t", limit=4.5), 0, [2, 4]),
        (where("over", name="x_t", limit=8), 1, []),
        (where("changes", name="label"), None, [2]),
        (where("changes", name="label"), 1, []),
        (where("changes", line="label"), None, [2]),
        (where("changes", line="x_t"), 1, [2]),
        (where("not finite"), None, []),
        (where("ends"), None, [2, 4]),
        (where("ends"), 1, [2]),
        (where("expression", text="x_t < 0"), None, [2]),
        (where("expression", text="x_t < 0"), 1, []),
        (where("expression", text="after.total - before.total"), None, [0, 1, 2, 3, 4]),
        (where("expression", text="step == 3"), None, [3]),
    ],
)
def test_a_search(ask, monkeypatch, condition, sequence, steps):
    monkeypatch.setattr(commands, "SLICE", 60)
    if condition["line"] is not None:
        condition = condition | {"line": ask.run.source.first_line + LINE[condition["line"]]}
    assert ask("find", where=[condition], start=0, stop=5, sequence=sequence) == {"hits": steps, "next": None}
    backward = ask("find", where=[condition], start=4, stop=-1, sequence=sequence)
    assert backward == {"hits": steps[::-1], "next": None}


def test_an_expression_holds_where_entries_are_valid():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(ROWS, dims=[batch_dim, time], lengths=[5, 3])  # its zeros are padding
    [holds] = conditions_of(where("expression", text="…"), SimpleNamespace(sequence_dim=None), None)
    assert holds(SimpleNamespace(eval=lambda text: x == 9.0)) is False
    assert holds(SimpleNamespace(eval=lambda text: x == 0.0)) is False
    assert holds(SimpleNamespace(eval=lambda text: x == 7.0)) is True


def test_several_conditions_are_one_search(ask):
    both = [where("changes", name="label"), where("expression", text="step == 0")]
    assert ask("find", where=both, start=0, stop=5)["hits"] == [0, 2]
    assert ask("find", where=[], start=0, stop=5)["hits"] == []


@pytest.mark.parametrize(("start", "stop", "first", "on"), [(1, 5, [1], 2), (3, -1, [3], 2)])
def test_a_search_takes_a_moment_at_a_time(ask, monkeypatch, start, stop, first, on):
    monkeypatch.setattr(commands, "SLICE", 0)
    all_of_them = [where("expression", text="True")]
    assert ask("find", where=all_of_them, start=start, stop=stop) == {"hits": first, "next": on}
    last = stop - 1 if stop > start else stop + 1
    assert ask("find", where=all_of_them, start=last, stop=stop) == {"hits": [last], "next": None}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (where("dances"), "no condition 'dances'"),
        (where("changes", name="tota"), "tota"),
        (where("changes", line=1), "line 1 computes nothing"),
        (where("expression", text="totl > 1"), "did you mean total?"),
        (where("expression", text="__import__('os')"), ""),
        ({}, "no condition"),
    ],
)
def test_a_search_that_makes_no_sense_says_so(ask, condition, said):
    assert said in ask.error("find", where=[condition], start=0, stop=5)


def test_watches_are_part_of_the_step(ask):
    watch = ["after.total - before.total", "totl", "1 + 1", "x_t > 0"]
    rows = ask("step", step=2, watch=watch)["watches"]
    assert [row["text"] for row in rows] == watch
    assert [row["value"] and row["value"]["text"] for row in rows] == ["-9 7", None, "2", "false true"]
    assert "did you mean total?" in rows[1]["error"]
    assert ask("step", step=2, sequence=1, watch=watch[:1])["watches"][0]["value"]["text"] == "7"


def test_ops_come_with_the_step_and_the_values_of_one(ask):
    assert ask("step", step=2)["ops"] is None
    listed = ask("step", step=2, ops=True)["ops"]
    rows = listed["rows"]
    assert [row["number"] for row in rows] == list(range(len(rows)))
    first = ask.run.source.first_line
    named = {row["name"]: row for row in rows}
    assert (named["x_t"]["line"], named["total"]["op"]) == (first + LINE["x_t"], "add")
    assert [row["op"] for row in rows if row["is_loop"]] == ["Loop"]
    assert (listed["op"], listed["error"]) == (None, None)
    told = ask("step", step=2, ops=True, op=named["total"]["number"], sequence=0)["ops"]["op"]
    assert [value["text"] for value in told["outputs"]] == ["-6"]
    assert len(told["inputs"]) == 2


@pytest.mark.parametrize("op", [-1, 99])
def test_there_is_a_last_op(ask, op):
    ops = ask("step", step=2, ops=True, op=op)["ops"]
    assert ops["op"]["number"] == len(ops["rows"]) - 1


def test_ops_that_cannot_be_told_leave_the_step_as_it_is(ask):
    view = ask("step", step=2, ops=True, op="x")
    assert view["values"]
    assert (view["ops"]["rows"], "TypeError" in view["ops"]["error"]) == ([], True)


def test_a_fork_goes_on_from_what_was_typed(ask):
    made = ask("fork", step=3, states={"label": "the end"}, sequence=0)
    assert made["run"] in [run.serial for run in rf.runs] and not ask.answers.inner
    assert (made["parent"], made["forked_at"]) == (ask.run.serial, 3)
    step = ask("step", run=made["run"], step=3)
    label = next(row for row in step["states"] if row["name"] == "label")
    assert label["before"]["text"] == "the end a"  # the other sequence keeps its own
    assert ask("run")["parent"] is None


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"total": "much"}, "'much' is not a number"),
        ({"total": "1 2 3"}, "3 entries for 2"),
        ({"total": ""}, "0 entries for 2"),
        ({"label": "teh end"}, "no label 'teh'; did you mean the end?"),
        ({"labels": "a"}, "no state 'labels'"),
    ],
)
def test_a_fork_that_is_refused_says_why(ask, states, said):
    before = len(rf.runs)
    assert said in ask.error("fork", step=3, states=states)
    assert len(rf.runs) == before


def test_the_same_call_is_made_again(ask):
    """Its function is looked up where it is now: in this module."""
    before = {item["run"] for item in ask("rerun")}
    after = {item["run"]: item for item in ask("rerun")}
    [new] = set(after) - before
    assert after[new]["name"] == "sum"
    assert ask("compare", other=new)["agree"] is True


def test_a_call_that_cannot_be_made_again_is_refused(ask):
    fork = ask("fork", step=3, states={"total": "0"})["run"]
    assert "a fork cannot be run again" in ask.error("rerun", run=fork)


def test_a_comparison_names_what_differs_first(ask):
    fork = ask("fork", step=3, states={"total": "0"}, sequence=0)["run"]
    view = ask("compare", other=fork)
    assert (view["run"], view["other"], view["agree"]) == (ask.run.serial, fork, False)
    first = view["differences"][0]
    assert (first["name"], first["value"], first["step"]) == ("state total", "total", 3)
    assert first["text"].startswith("before it: ")
    assert ask("compare", other=ask.run.serial)["agree"] is True


def test_gradients_of_a_value(ask):
    [total] = [c for c in ask("gradients", loss="total")["curves"] if c["state"] == "total"]
    assert len(total["norms"]) == ask.run.steps
    [one] = [c for c in ask("gradients", loss="total", sequence=1)["curves"] if c["state"] == "total"]
    assert one["norms"][3:] == ["nan", "nan"]
    assert ask.error("gradients", loss="nothing")


def test_the_loop_of_a_step_can_be_opened_though_it_is_in_no_list(ask, monkeypatch):
    [inner] = ask("loops", step=2)
    assert (inner["name"], inner["steps"]) == ("halve", 2)
    assert inner["run"] not in [run.serial for run in rf.runs]
    step = ask("step", run=inner["run"], step=1)
    assert step["states"][0]["after"]["text"] == "-2.25 1.75"
    monkeypatch.setattr(commands, "INNER", 3 * ask.answers.inner[inner["run"]].bytes)
    for _ in range(3):
        ask("loops", step=0)
    assert len(ask.answers.inner) == 3
    assert ask.reply("step", run=inner["run"], step=1)["status"] == "gone"


def test_a_run_that_is_not_in_the_list_can_be_forked_and_the_fork_opened():
    run = running_sum()
    alone = Runs()
    alone._added.append(run)
    answers = Dispatcher(alone)
    args = {"run": run.serial, "step": 1, "states": {"total": "5"}}
    made = answers.handle({"id": 1, "command": "fork", "args": args})["data"]
    opened = answers.handle({"id": 2, "command": "step", "args": {"run": made["run"], "step": 1}})
    assert opened["data"]["states"][0]["before"]["text"] == "5 5"


@examples(40)
@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_what_is_typed_becomes_the_state(sequences, size, data):
    width = Dim(size, name="width")
    state = rf.zeros([Dim(sequences, name="rows"), width])
    count = data.draw(st.sampled_from([1, sequences * size]))
    typed = data.draw(st.lists(st.integers(-9, 9), min_size=count, max_size=count))
    text = data.draw(st.sampled_from(["{}", "[{}]", " {} "])).format(
        data.draw(st.sampled_from([" ", ", "])).join(map(str, typed))
    )
    new = edited(state, text, {})
    wanted = np.broadcast_to(
        np.asarray(typed, np.float32).reshape((sequences, size) if count > 1 else ()), (sequences, size)
    )
    assert np.array_equal(new.raw_tensor.numpy(), wanted)
    assert (new.dims, new.dtype) == (state.dims, state.dtype)
    assert not state.raw_tensor.any()


def test_the_run_of_a_probe_at_another_training_step():
    limit = [4]

    def count():
        loop = rf.Loop(max_seq_len=limit[0], name="count")
        loop.state.n = rf.convert_to_tensor(float(probe.trained))
        with loop:
            loop.state.n = loop.state.n + 1

    probe = rf.probe(count, every=10)
    for number, limit[0] in enumerate([4, 2, 4], 1):
        probe.step(10 * number, loss=1 / number)
    probe.stop()
    asked = Asked()
    asked.run = probe.at(30).run()
    asked.answers.remember([asked.run])
    assert asked.reply("run")["data"]["training"] == {"step": 30, "steps": [10, 20, 30], "measures": {"loss": 1 / 3}}
    found = asked.reply("training", at=10, step=3, watch=["n"])["data"]
    assert (found["run"]["training"]["step"], found["step"]["step"], found["run"]["loop"]) == (10, 3, asked.run.loop)
    assert found["step"]["watches"][0]["value"]["text"] == "14"
    assert asked.reply("training", at=20, step=3)["data"]["step"]["step"] == 1  # its last one
    assert asked.reply("training", at=12, step=0)["data"]["run"]["training"]["step"] == 10  # the nearest there is
    asked.run = probe.at(10).run()
    assert asked.reply("step", step=1)["status"] == "ok"  # a run outside of the list can be stepped
    asked.run = running_sum()
    rf.runs.add(asked.run)
    assert "not that of a probe" in asked.reply("training", at=10, step=0)["error"]


def test_truth_sizes_and_minus_signs():
    flag = rf.full(dims=[Dim(2, name="rows")], fill_value=False)
    assert edited(flag, "true False", {}).raw_tensor.tolist() == [True, False]
    assert edited(3, " 7 ", {}) == 7
    three = rf.convert_to_tensor([1.0, 2.0, 3.0], dims=[batch_dim])
    assert edited(three, "5 · 7", {}).raw_tensor.tolist() == [5, 2, 7]  # what has ended is left as it is
    assert edited(rf.zeros([]), "\u22122.5", {}).raw_tensor.item() == -2.5
    with pytest.raises(ViewError, match="not a number"):
        edited(3, "x", {})


def test_a_loop_of_plain_python_is_forked_from_typed_values(ask):
    h, n = torch.zeros(3), 0
    for t in rf.steps(range(4), name="plain"):
        h = torch.tanh(h + t)
        n = n + 1
    ask.run = rf.runs["plain"]
    ask("fork", step=2, states={"h": "0.5", "n": "7"})
    fork = rf.runs[0]
    assert (fork.parent, fork.forked_at, fork.steps) == (ask.run, 2, 4)
    assert fork[2].before.h.tolist() == [0.5] * 3 and fork[3].n.item() == 9
    assert torch.equal(fork[2].h.raw_tensor, torch.tanh(torch.full((3,), 2.5))) and n == 4
    assert "n cannot hold '7.5'" in ask.error("fork", step=2, states={"n": "7.5"})


def test_a_step_says_which_states_no_fork_can_edit(ask, tmp_path):
    assert ask("step", step=1)["locked"] == {}
    ask.run = rf.load_run(ask.run.save(tmp_path / "x.rfrun"))
    ask.answers.remember([ask.run])
    locked = ask("step", step=1)["locked"]
    assert list(locked) == ask.run.states and "from a file" in locked["total"]

    def steps():
        h = 0
        for t in rf.steps(range(3), name="yielding"):
            h = h + t
            yield h

    assert list(steps()) == [0, 1, 3]
    ask.run = rf.runs["yielding"]
    assert ask("step", step=1)["locked"] == {"h": "a loop with `yield` cannot be continued"}
    assert "locked" not in rf.show(ask.run).data["steps"][0]  # which has no pencil


def attending():
    lens, words = [4, 2], {"b": 1, "a": 0, "c": 2}
    for t in rf.steps(range(3), name="attending"):
        att = torch.softmax(torch.arange(10.0).reshape(2, 5) * t, -1)
        mask = torch.arange(5) < torch.tensor(lens)[:, None]
        best = att[:, :3].argmax(-1) if len(words) else None
    return mask, best


@pytest.fixture
def attended(ask):
    attending()
    ask.run = rf.runs["attending"]
    return ask


def dims_of(ask, name, step):
    [value] = [row["value"] for row in ask("step", step=step)["values"] if row["value"]["name"] == name]
    return value["dims"]


@pytest.mark.parametrize("lengths", ["4 2", "lens", "mask.sum(1)", "mask.float().sum(-1)"])
def test_axes_are_named_as_they_are_typed_at_all_steps(attended, lengths):
    attended("name_axes", name="att", text=f" batch, time:{lengths} ", step=1)
    attended("name_axes", name="mask", text="batch, time", step=2)
    for step in range(3):
        batch, time = dims_of(attended, "att", step)
        assert (batch["name"], time["name"], time["length_range"]) == ("batch", "time", [2, 4, 6])
        assert [dim["serial"] for dim in dims_of(attended, "mask", step)] == [batch["serial"], time["serial"]]
    assert attended("step", step=2, watch=["rf.reduce_sum(att, axis=time)"])["watches"][0]["error"] is None
    attended("name_axes", name="att", text="", step=0)
    assert [dim["name"] for dim in dims_of(attended, "att", 1)] == ["axis0", "axis1"]


def test_labels_are_those_of_a_variable(attended, monkeypatch):
    attended("name_axes", name="best", text="batch, word: words", step=1)
    assert attended("value", name="best", step=0)["sparse"] == "word"
    monkeypatch.setitem(vars(sys.modules["__main__"]), "letters", "vwxyz")
    attended("name_axes", name="att", text="batch, letter: letters", step=1)
    assert attended.run[2].att.dims[1].vocab.labels[-1] == "z"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch", "the number of its axes is 2"),
        ("batch,", "an axis has no name"),
        ("batch, time: 6 2", "the longest of the lengths of time is 6"),
        ("batch, time: 4 2 1", "no other axis has as many entries"),
        ("batch, time: lns", "lns"),
        ("batch, time: att", "one for each sequence"),
        ("batch, time: words", "time has 3 labels, and its axis 5 entries"),
        ("batch, time, more: 1", "the longest of the lengths of more"),
        ("batch, time: step", "has no labels"),
        ("batch, time: att.backward()", ""),
    ],
)
def test_axes_that_do_not_fit_are_refused_in_words(attended, text, words):
    assert words in attended.error("name_axes", name="att", text=text, step=1)
    assert [dim["name"] for dim in dims_of(attended, "att", 1)] == ["axis0", "axis1"]
