"""The table of dims: who has them, where they come from, and conflicts first."""

from __future__ import annotations

import json
import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.graph.graph import Graph
from rfnb.display.kit import data as kit_data


def data(time: rf.Dim, feat: rf.Dim, lengths: list[int]) -> rf.Tensor:
    raw = np.ones((len(lengths), max(lengths, default=0), feat.dimension or 0), "float32")
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)


def rows_of(view: Any) -> dict[str, Any]:
    return {row["dim"]: row for row in view.table()}


def time_and_feat() -> tuple[rf.Dim, rf.Dim]:
    return rf.Dim(None, name="time", kind="spatial"), rf.Dim(4, name="feat")


def test_the_view(golden, monkeypatch):
    known = kit_data.made_in
    monkeypatch.setattr(kit_data, "made_in", lambda dim: known(dim) and "model.py:1")
    time, feat = time_and_feat()
    hidden, ended = rf.Dim(4, name="<hidden>", kind="feature"), rf.Dim(None, name="ended")
    old = data(time, feat, [5, 3])
    x = data(time, feat, [6, 2])
    longer, _ = rf.pad(x, axes=[time], padding=[(0, 1)])
    other = data(rf.Dim(None, name="time"), feat, [4, 3])
    model = rf.Sequential(rf.Linear(feat, hidden), rf.Linear(hidden, hidden))
    ended.declare_same_as(time)
    view = rf.show_dims(old, x, longer, {"other": other}, model, rf.zeros([batch_dim, ended]), rf.Dim(None, name="new"))
    golden("dims.txt", re.sub(r" \(bound.*", "", view.text) + "\n")
    assert "<hidden>" not in view.html


def test_who_has_a_dim():
    time, feat = time_and_feat()
    x, words = data(time, feat, [2, 1]), rf.zeros([batch_dim], dtype="int64", sparse_dim=rf.Dim(9, name="vocab"))
    model = rf.Linear(feat, rf.Dim(3, name="out"))
    rows = rows_of(rf.show_dims(x, words, model))
    assert rows["feat"]["used by"] == "1 tensor: x, 1 parameter: model.weight, 1 module: model"
    assert rows["batch"]["used by"] == "2 tensors: x, words" and rows["vocab"]["used by"] == "1 tensor: words"
    assert "2 parameters: model.weight, model.bias" in rows["out"]["used by"]
    assert 'rf.Dim(None, name="time", kind="spatial")' in unescape(rf.show_dims(x).html)
    assert [rows[name]["kind"] for name in ("batch", "time", "feat")] == ["dynamic batch", "dynamic spatial", "static"]


def test_what_is_searched():
    time, feat = time_and_feat()
    x = data(time, feat, [2, 1])
    graph = Graph()
    graph.add_value("h", (rf.Dim(3, name="hidden"),))
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.s = rf.zeros([batch_dim, feat])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    assert list(rows_of(rf.show_dims(rf.TensorDict({"x": x})))) == ["batch", "time", "feat"]
    assert list(rows_of(rf.show_dims([{"a": (x,)}]))) == ["batch", "time", "feat"]
    assert rows_of(rf.show_dims([{"a": (x,)}]))["feat"]["used by"] == "1 tensor: list[0]['a'][0]"
    held = SimpleNamespace(more=[x])
    assert rows_of(rf.show_dims(held))["feat"]["used by"] == "1 tensor: held.more[0]"
    assert list(rows_of(rf.show_dims(graph))) == ["hidden"]
    graph.add_value("", (rf.Dim(3, name="unnamed"),))
    assert [row["used by"] for row in rows_of(rf.show_dims(graph)).values()] == ["1 tensor: h", ""]
    assert "time" in rows_of(rf.show_dims(loop.run)) and "feat" in rows_of(rf.show_dims(loop.run))
    assert rf.show_dims(3).text == "(no dims)" and ">(no dims)<" in rf.show_dims([]).html


def test_without_arguments_it_is_the_variables():
    """Of the function that asks, and of its module; hidden ones do not count."""
    mine, _hidden = rf.Dim(7, name="mine"), rf.Dim(8, name="hidden")
    names = rows_of(rf.show_dims())
    assert "mine" in names and "hidden" not in names and mine.dimension == 7


def test_a_variable_has_its_name_although_it_was_the_result_of_a_cell():
    Out = {3: rf.zeros([rf.Dim(7, name="mine")])}
    x, Out[4] = Out[3], rf.zeros([rf.Dim(8, name="other")])
    names = rows_of(rf.show_dims())
    assert [names[name]["used by"] for name in ("mine", "other")] == ["1 tensor: x", "1 tensor: Out[4]"] and x is Out[3]


def test_namesakes_come_first():
    a, b, c = rf.Dim(2, name="one"), rf.Dim(3, name="time"), rf.Dim(4, name="time")
    rows = list(rf.show_dims([a, b, c]).table())
    assert [row["dim"] for row in rows] == ["time¹", "time²", "one"]
    assert rows[0]["notes"] == "same name as time², not the same Dim, and not the same size"
    alike = rows_of(rf.show_dims([b, rf.Dim(3, name="time")]))
    assert alike["time¹"]["notes"] == "same name as time², not the same Dim"
    many = [rf.Dim(1, name="time") for _ in range(6)]
    assert rows_of(rf.show_dims(many))["time¹"]["notes"] == "same name as time², time³, time⁴, …, not the same Dim"


def test_a_dim_under_other_lengths():
    time, feat = time_and_feat()
    old = data(time, feat, [5, 3])
    rows = rows_of(rf.show_dims(old))
    assert not rows["time"]["notes"]
    new = data(time, feat, [4, 4])
    rows = rows_of(rf.show_dims(old, new))
    assert rows["time"]["notes"].partition(" (")[0] == "other lengths in old: 3–5 Σ8"
    assert rows["time"]["size"] == "4 ██" and not rows["batch"]["notes"]


def test_after_a_reset_a_tensor_tells_the_lengths():
    time, feat = time_and_feat()
    x = data(time, feat, [5, 3])
    time.reset_raw()
    row = rows_of(rf.show_dims(x))["time"]
    assert row["size"] == "3–5 Σ8 █▅" and not row["notes"]


def test_equal_by_chance_is_only_noted():
    a, b = rf.Dim(4, name="a"), rf.Dim(4, name="b")
    x = rf.zeros([a, b])
    view = rf.show_dims(x)
    assert rows_of(view)["a"]["notes"] == "has the size of b in x" and "≠" not in view.text + view.html
    assert not rows_of(rf.show_dims(rf.zeros([a]), rf.zeros([b])))["a"]["notes"], "they do not meet"
    assert not rows_of(rf.show_dims(rf.Linear(a, a)))["a"]["notes"], "one of them is a copy of the other"
    assert not rows_of(rf.show_dims(rf.zeros([rf.Dim(1, name="a"), rf.Dim(1, name="b")])))["a"]["notes"]


def test_declared_the_same():
    time, feat = time_and_feat()
    other = rf.Dim(None, name="frames")
    data(time, feat, [3, 2])
    other.declare_same_as(time)
    assert rows_of(rf.show_dims(time, other))["frames"]["notes"] == "declared the same as time"
    assert not rows_of(rf.show_dims(time, time + 1))["time+1"]["notes"]


@given(st.lists(st.integers(0, 6), max_size=5))
def test_any_lengths(lengths):
    time, feat = time_and_feat()
    view = rf.show_dims(data(time, feat, lengths))
    size = rows_of(view)["time"]["size"]
    assert size.startswith(f"{min(lengths)}–{max(lengths)}" if len(set(lengths)) > 1 else str(max(lengths, default=0)))
    assert json.loads(json.dumps(view.data)) == view.data
    assert "no view" not in view.text + view.html and len(view.table()) == 3


@pytest.mark.parametrize("part", ["dim", "tensor"])
def test_a_dim_has_one_colour(part):
    time, feat = time_and_feat()
    x = data(time, feat, [2, 1])
    hue = re.compile(r"border-left:3px solid (#\w+)[^>]*>(?:[^<]*time)")
    assert hue.findall(rf.show_dims(x).html) == hue.findall(rf.show(time if part == "dim" else x).html)[:1] != []


def test_work_is_bounded(monkeypatch):
    from rfnb.display import dims

    monkeypatch.setattr(dims, "MOST", 3)
    view = rf.show_dims([rf.ones([rf.Dim(1)]) for _ in range(5)])
    assert view.text.endswith("\n(not everything was searched)")
    held: list[Any] = []
    held.append(held)
    assert rf.show_dims(held).text == "(no dims)"
