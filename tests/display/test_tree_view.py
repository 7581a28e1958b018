"""Nested structures: a line for each part, parts that are alike in one, cycles and limits."""

from __future__ import annotations

import json
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display import tree as tree_view
from rfnb.display.kit import options
from tests.display.standins import numbers

HOSTILE = "<script>alert(1)</script>"
Pair = namedtuple("Pair", "left right")


def ones(*names: str):
    return rf.ones([rf.Dim(2, name=name) for name in names])


def root_of(structure: Any) -> tree_view.TreeNode:
    return tree_view.Walk().node("", structure)


def example() -> dict:
    layers = {f"layers.{i}.{name}": np.zeros((2, 3), np.float32) for i in range(4) for name in ("weight", "bias")}
    return {
        "x": ones("feat"),
        "state": rf.State(h=ones("feat"), c=None),
        "pair": Pair(1, "two"),
        "list": [numbers(300), np.array([1.0, np.nan]), True],
        "model": OrderedDict(layers),
        HOSTILE: HOSTILE,
    }


def test_text():
    text = rf.show(example()).text
    assert text.splitlines() == [
        "dict  12 tensors, 1.39 kB  1 not finite",
        "  x {feat:2} float32  1 1",
        "  state State  1 tensor, 8 B",
        "    h {feat:2} float32  1 1",
        "    c  None",
        "  pair tests.Pair",
        "    left  1",
        "    right  'two'",
        "  list list  2 tensors, 1.19 kB  1 not finite",
        "    0 numpy.ndarray float32 [300]  μ -0.0358 σ 1.02 [-3.11 .. 3.07]",
        "    1 numpy.ndarray float64 [2]  1 nan  1 NaN",
        "    2  True",
        "  model collections.OrderedDict  8 tensors, 192 B",
        "    layers  8 tensors, 192 B",
        "      0–3 × 4  2 tensors each, 192 B",
        "        weight numpy.ndarray float32 [2, 3]",
        "        bias numpy.ndarray float32 [2, 3]",
        f"  {HOSTILE}  '{HOSTILE}'",
    ]


def test_html_says_the_same_and_escapes():
    html = str(rf.show(example()).html)
    assert "<script" not in html
    assert html.count("float32 [2, 3]") == 8
    assert html.count("<details open") < html.count("<details") == 11
    assert html.count('class="rfnb-dim"') == 2


def test_table_has_a_row_for_each_leaf_with_its_path():
    table = rf.show(example()).table()
    rows = {row["path"]: row for row in table}
    assert rows["model.layers.2.bias"]["dtype"] == "float32 [2, 3]"
    assert rows["list.1"]["value"] == "1 nan 1 NaN"
    assert rows["state.h"]["dims"] == "{feat:2}"
    assert len(rows) == 1 + 2 + 2 + 3 + 8 + 1


@pytest.mark.parametrize(
    "parts, groups",
    [
        ([numbers(2)] * 5, [("0–4", 5)]),
        ([numbers(2)] * 2, []),
        ([numbers(2)] * 3 + [numbers(3)] + [numbers(2)] * 4, [("0–2", 3), ("4–7", 4)]),
        ([{"a": numbers(2)}, {"a": numbers(2)}, {"b": numbers(2)}, {"a": numbers(2)}], []),
        ({f"block_{i}": (numbers(2), None) for i in range(12)}, [("block_0–11", 12)]),
        ({f"b{i}": numbers(2) for i in (1, 2, 4, 5)}, []),
        ({name: numbers(2) for name in "qkv"}, []),
        ([1, 2.5, None, None, "a", "b", "c"], []),
    ],
    ids=str,
)
def test_parts_that_are_alike_are_one_line(parts, groups):
    children = root_of(parts).children
    assert [(child.name, child.repeat) for child in children if child.repeat] == groups


def test_a_nan_is_seen_from_outside_of_a_group():
    parts = [numbers(50, 2) for _ in range(6)]
    parts[4][30, 1] = np.nan
    text = rf.show({"blocks": parts}).text
    assert text.splitlines()[0].endswith("1 not finite")
    assert text.splitlines()[2].endswith("1 not finite")


def test_numbers_are_those_of_all_entries():
    raw = np.zeros((300, 400), np.float32)
    raw[7, 1], raw[8, 3] = -3, 5
    (text,) = (part.text for part in root_of({"x": raw}).children)
    assert text == "μ 1.67e-5 σ 0.0168 [-3 .. 5]"
    assert (raw.mean(), raw.std()) == (pytest.approx(1.67e-5, rel=1e-2), pytest.approx(0.0168, rel=1e-2))


def test_behind_a_limit_they_are_those_of_a_sample_and_say_so(monkeypatch):
    monkeypatch.setattr(options, "TREE_ENTRIES", 100_000)
    raw = np.zeros((300, 400), np.float32)
    raw[7, 1] = np.nan
    first, second = root_of([raw, raw]).children
    assert (first.text, first.flags) == ("all 0", ["1 NaN"])
    assert (second.text, second.flags) == ("≈ all 0", ["1 NaN"])


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint16, torch.bool, torch.complex64, torch.int8])
def test_numbers_of_every_type(dtype):
    (part,) = root_of([torch.ones(20).to(dtype)]).children
    said = {torch.bool: "true 100 %", torch.complex64: "all 1  (complex: absolute values)"}
    assert (part.text, part.flags) == (said.get(dtype, "all 1"), [])


def test_a_nan_in_the_padding_is_no_alarm():
    time = rf.Dim(None, name="time")
    raw = numbers(2, 3)
    raw[1, 2] = np.nan
    x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, time], lengths=[3, 2])
    assert root_of([x]).flags == []


def test_cycles_end():
    loop: dict = {"x": numbers(2)}
    loop["again"] = [loop]
    assert "… itself" in rf.show(loop).text
    shared = [numbers(2)]
    assert "itself" not in rf.show([shared, shared]).text


def test_deep_and_wide_structures_are_cut_and_say_so(monkeypatch):
    deep: list = []
    for _ in range(100):
        deep = [deep]
    assert rf.show(deep).text.count("\n") == options.TREE_DEPTH
    assert root_of([None] * 1000).children[-1].text == "800 more"
    monkeypatch.setattr(options, "TREE_NODES", 50)
    monkeypatch.setattr(options, "TREE_STATS", 10)
    many = rf.show([[str(i)] * 3 for i in range(100)]).text
    assert many.endswith("\n  (the first 50 parts, numbers of the first 10 parts)")
    assert "(" not in rf.show([numbers(3)]).text


@pytest.mark.parametrize(
    "odd",
    [
        {},
        (),
        rf.State(),
        rf.TensorDict({}),
        UserDict(a=numbers(2)),
        {1: {2: 3}},
        {"a": numbers(2), "a.b": numbers(2)},
        {"a.b": numbers(2), "a": numbers(2)},
        {"": 1, ".": 2, "..": 3},
        [np.array([object()]), np.array(["a"]), object(), b"x", 1j, {1, 2}, rf.Dim(None, name="t"), lambda: 1],
        [torch.zeros(3, device="meta"), torch.eye(3).to_sparse(), torch.zeros(0), np.float32(1)],
        [torch.zeros(3, dtype=torch.bfloat16, requires_grad=True), torch.ones(99, dtype=torch.bool)],
        [rf.Tensor("template", [rf.batch_dim], "float32")],
    ],
    ids=lambda odd: str(odd)[:24].replace("\n", " "),  # without the addresses of objects
)
def test_anything_has_a_tree(odd):
    view = rf.show(odd)
    assert json.dumps(view.data, allow_nan=False) and "no view" not in view.text + view.html
    assert view.table()


def test_states_and_batches_are_shown_so():
    assert repr(rf.State(h=ones("feat"), n=3)).splitlines() == [
        "State  1 tensor, 8 B",
        "  h {feat:2} float32  1 1",
        "  n  3",
    ]
    batch = rf.TensorDict({"x": ones("feat")})
    assert repr(batch) == "TensorDict  1 tensor, 8 B\n  x {feat:2} float32  1 1"
    assert "<details" in batch._repr_mimebundle_()["text/html"]


def test_to_look_at_a_batch_binds_no_dim():
    time = rf.Dim(None, name="time")
    batch = rf.TensorDict({"x": rf.convert_to_tensor(numbers(2, 3), dims=[rf.batch_dim, time], lengths=[3, 2])})
    rf.convert_to_tensor(numbers(2, 5), dims=[rf.batch_dim, time], lengths=[5, 2])
    assert "time:2–3" in repr(batch)
    assert time.size.max == 5


def test_it_is_small_for_a_hundred_tensors():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(numbers(4, 9, 8), dims=[rf.batch_dim, time, rf.Dim(8, name="feat")], lengths=[9, 4, 2, 1])
    view = rf.show({f"{'abc'[i % 3]}{i}": x for i in range(100)})
    assert len(view.html) < 150_000


def test_golden(golden):
    view = rf.show({key: value for key, value in example().items() if key not in ("x", "state")})
    golden("tree.json", json.dumps(view.data, indent=1, ensure_ascii=False) + "\n")
    golden("tree.txt", view.text + "\n")


def test_labels_are_told_sequence_by_sequence():
    time, letter = rf.Dim(None, name="time"), rf.Dim(26, name="letter", vocab=list("abcdefghijklmnopqrstuvwxyz"))
    x = rf.convert_to_tensor(["kiwi", "", "fig"], dims=[rf.batch_dim, time], sparse_dim=letter)
    for each in (x, x.copy_transpose([time, rf.batch_dim])):
        assert "k i w i | (empty) | f i g" in repr(rf.show({"fruit": each}))
    many = rf.convert_to_tensor(["banana"] * 40, dims=[rf.batch_dim, time], sparse_dim=letter)
    assert "b a n a n a | b a n a n a" in repr(rf.show([many])) and "… (40×6)" in repr(rf.show([many]))


def test_dataclasses_and_namespaces_are_trees():
    @dataclass(frozen=True)
    class Beam:
        scores: Any
        rest: Any

    beam = Beam(torch.ones(2), [SimpleNamespace(name="x", h=rf.zeros([rf.Dim(3, name="feat")]))])
    lines = rf.show(beam).text.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["scores", "rest", "0", "h", "name"]
    assert [row[0] for row in rf.show({"a": beam}).table().rows] == ["a.scores", "a.rest.0.h", "a.rest.0.name"]
