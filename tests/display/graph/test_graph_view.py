"""The graph of a model: what is folded, what is open, what is said, how it is drawn."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb.display.graph import view as view_of_graph
from rfnb.display.graph.fold import PERIOD, fewest, longest_repetition
from rfnb.errors import ViewError
from tests.display.graph.graph_models import (
    Block,
    Model,
    Stack,
    batch,
    describe,
    failing,
    feat,
    hidden,
    model_graph,
    time,
)
from tests.display.printed import to_html, to_table, to_text


def node(view: Any, name: str) -> Any:
    return next(n for body in view["bodies"].values() for n in body["nodes"] if n["name"] == name)


def inside(view: Any, name: str) -> list[tuple[str, str, bool]]:
    """The edges in a node, by names."""
    body = view["bodies"][node(view, name)["body"]]
    names = {n["id"]: n["name"] for n in body["nodes"]}
    return [(names[e["source"]], names[e["target"]], e["back"]) for e in body["edges"]]


# -- what is folded


def test_repeated_blocks_are_one_box():
    view = describe(Stack(12))
    box = node(view, "layers.0–11")
    assert (box["times"], box["cls"], box["params"]) == (12, "Block", 12 * (4 * 6 + 6 + 6 * 4 + 4))
    names = [n["name"] for n in view["bodies"][view["root"]]["nodes"]]
    assert names == ["x", "layers.0–11", "last", "tanh", "output"]


def test_what_is_the_same_has_one_body():
    view = describe(Stack(2))
    assert node(view, "layers.0–1")["body"] == node(view, "last")["body"]
    assert len(view["bodies"]) == 2


def test_the_way_around_a_block_is_an_edge():
    view = describe(Stack(2))
    assert ("x", "add", False) in inside(view, "last") and ("down", "add", False) in inside(view, "last")


def test_a_pattern_of_several_modules_is_one_box():
    up, down = rf.Dim(7, name="up"), rf.Dim(8, name="down")
    parts = [rf.Linear(up, down) if i % 2 else rf.Linear(down, up) for i in range(8)]
    view = view_of_graph.describe(rf.model_graph(rf.Sequential(*parts), rf.zeros([down])), depth=0)
    names = [(n["name"], n["times"]) for n in view["bodies"][view["root"]]["nodes"]]
    assert names == [("inp", 1), ("0–7", 4), ("output", 1)]
    assert [n["name"] for n in view["bodies"][node(view, "0–7")["body"]]["nodes"]] == ["inp", "0", "1", "1"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([1, 1, 1, 2], (1, 3)),
        ([1, 2, 1, 2, 1, 2, 3], (2, 3)),
        ([1, 2, 1, 2], (1, 1)),
        ([1], (1, 1)),
        (["a", "a", "a"], (1, 1)),
        ([1, "a", 1, "a", 1, "a"], (2, 3)),
        ([1, 1, 2, 1, 1, 2, 1, 1, 2], (3, 3)),
    ],
)
def test_what_is_repeated(keys, expected):
    assert longest_repetition(keys, 0, PERIOD, fewest) == expected


@pytest.mark.parametrize(("count", "boxes"), [(3, 3), (8, 1)])
def test_what_is_side_by_side_is_one_box_if_it_is_many(count: int, boxes: int):
    class Parallel(rf.Module):
        def __init__(self):
            super().__init__()
            self.parts = rf.ModuleList([rf.Linear(feat, hidden) for _ in range(count)])

        def __call__(self, x: rf.Tensor) -> list[rf.Tensor]:
            return [part(x) for part in self.parts]

    view = describe(Parallel())
    assert len([n for n in view["bodies"][view["root"]]["nodes"] if n["cls"] == "Linear"]) == boxes


def test_very_many_boxes_are_shown_in_sections():
    sizes = [rf.Dim(1 + i * i % 97, name=f"d{i}") for i in range(101)]
    net = rf.Sequential(*[rf.Linear(a, b) for a, b in pairwise(sizes)])
    view = view_of_graph.describe(rf.model_graph(net, rf.zeros([sizes[0]])))
    shown = view["bodies"][view["root"]]["nodes"]
    assert [n["name"] for n in shown][1:3] == ["0–9", "10–19"] and len(shown) == 12
    assert sum(n["params"] for n in shown) == view["params"]


def test_what_is_called_again_says_so():
    class Twice(rf.Module):
        def __init__(self):
            super().__init__()
            self.lin = rf.Linear(feat, feat)

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            return self.lin(rf.tanh(self.lin(x)))

    view = describe(Twice())
    first, second = [n for n in view["bodies"][view["root"]]["nodes"] if n["cls"] == "Linear"]
    assert (first["params"], second["params"]) == (20, 0)
    assert second["notes"] == ["called again: the same weights"]


def test_what_is_called_again_and_again_is_one_box():
    linear, others = rf.Linear(feat, feat), [rf.Linear(feat, feat) for _ in range(3)]

    def model(x: rf.Tensor, several: Any) -> rf.Tensor:
        for each in several:
            x = each(x)
        return x

    for several, notes in (([linear] * 3, ["the same weights each time"]), (others, [])):
        view = view_of_graph.describe(rf.model_graph(model, rf.zeros([feat]), several))
        [box] = [n for n in view["bodies"][view["root"]]["nodes"] if n["cls"] == "Linear"]
        assert (box["times"], box["params"], box["notes"]) == (3, 20 * len({*several}), notes)


def test_a_box_of_several_is_called_as_its_modules():
    layers = rf.ModuleList([rf.Linear(feat, feat) for _ in range(12)])

    def model(x: rf.Tensor, layers: Any) -> rf.Tensor:
        for layer in layers:
            x = rf.tanh(layer(x))
        return x

    view = view_of_graph.describe(rf.model_graph(model, rf.zeros([feat]), layers))
    assert [n["name"] for n in view["bodies"][view["root"]]["nodes"]] == ["x", "layers.0–11", "output"]


def test_values_are_called_as_the_boxes_that_give_them():
    class Pair(rf.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = Block(), Block()

        def __call__(self, x: rf.Tensor) -> Any:
            return self.left(x), self.right(x)

    class Whole(rf.Module):
        def __init__(self):
            super().__init__()
            self.first, self.pair, self.last = rf.Linear(feat, feat), Pair(), Block()

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            a, b = self.pair(self.first(x))
            return self.last(a + b)

    view = describe(Whole(), depth=2)
    ports = {n["name"] for n in view["bodies"][node(view, "pair")["body"]]["nodes"] if n["kind"] in ("input", "output")}
    assert ports == {"first", "a", "b"}
    [given] = [n["name"] for n in view["bodies"][node(view, "last")["body"]]["nodes"] if n["kind"] == "input"]
    assert given == "first"  # the body is that of `left`, which is the same


def test_what_only_counts_is_left_out():
    view = view_of_graph.describe(rf.model_graph(torch.nn.Sequential(torch.nn.BatchNorm1d(2)), torch.ones(3, 2)))
    assert [n["name"] for n in view["bodies"][view["root"]]["nodes"]] == ["input", "0", "output"]
    assert node(view, "0")["body"] is None
    view = view_of_graph.describe(rf.model_graph(torch.nn.BatchNorm1d(2), torch.ones(3, 2)), hide=())
    assert any(n["name"] == "add_" for n in view["bodies"][view["root"]]["nodes"])


def test_parameters_of_another_module_are_told():
    class Tied(rf.Module):
        def __init__(self):
            super().__init__()
            self.lin = rf.Linear(feat, hidden)

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            return rf.dot(self.lin(x), self.lin.weight, reduce=hidden)

    notes = {n["name"]: n["notes"] for n in describe(Tied())["bodies"]["b0"]["nodes"]}
    assert notes == {"x": [], "lin": [], "matmul": ["uses lin.weight"], "output": []}


# -- loops and branches


def test_a_loop_is_one_box_with_its_step_inside():
    view = describe(Model(), time())
    box = node(view, "sums")
    assert (box["kind"], box["times"]) == ("loop", 1)
    assert box["notes"] == ["5 steps, 2–5 by sequence"]
    kinds = {n["name"]: n["kind"] for n in view["bodies"][box["body"]]["nodes"]}
    assert kinds["h"] == "state" and "frame" in kinds.values() and kinds["hs"] == "output"
    assert ("tanh", "h", True) in inside(view, "sums") and ("h", "step", False) in inside(view, "sums")
    assert not any(n["name"] in ("unstack", "full") for n in view["bodies"][box["body"]]["nodes"])
    assert node(view, "h")["notes"] == ["from zeros"]


def test_a_state_says_with_what_number_it_begins():
    def count() -> rf.Tensor:
        loop = rf.Loop(max_seq_len=3)
        loop.state.i = rf.convert_to_tensor(7)
        with loop:
            loop.state.i = loop.state.i + 1
        return loop.state.i

    assert node(view_of_graph.describe(rf.model_graph(count)), "i")["notes"] == ["from 7"]


def test_an_initial_value_that_is_computed_is_an_edge():
    def sums(x: rf.Tensor) -> rf.Tensor:
        loop = rf.Loop(max_seq_len=3, name="sums")
        loop.state.h = rf.exp(x)
        with loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    view = describe(sums)
    root = view["bodies"][view["root"]]
    names = {n["id"]: n["name"] for n in root["nodes"]}
    assert [(names[e["source"]], names[e["target"]]) for e in root["edges"]] == [
        ("x", "exp"), ("exp", "sums"), ("sums", "output"),
    ]  # fmt: skip
    assert ("h", "add", False) in inside(view, "sums") and ("add", "h", True) in inside(view, "sums")
    assert node(view, "h")["notes"] == []


def test_a_branch_has_two_sides():
    def either(x: rf.Tensor) -> rf.Tensor:
        return rf.cond(rf.reduce_max(x, axis=x.dims) > 0, lambda: rf.exp(x), lambda: rf.tanh(x))

    view = describe(either)
    assert node(view, "if true")["status"] == "ghost" and node(view, "if true")["notes"] == ["not taken"]
    assert node(view, "if false")["status"] == "done"
    assert {edge[0] for edge in inside(view, "cond") if edge[1] == "tanh"} >= {"if false"}
    sources = {n["id"]: n["status"] for n in view["bodies"][node(view, "cond")["body"]]["nodes"]}
    edges = view["bodies"][node(view, "cond")["body"]]["edges"]
    assert {sources[e["source"]]: e["value"] < 0 for e in edges} == {"done": False, "ghost": True}


# -- what is open


def open_names(view: Any) -> set[str]:
    return {n["name"] for body in view["bodies"].values() for n in body["nodes"] if n["id"] in view["open"]}


def test_depth_opens_levels():
    assert open_names(describe(Model(), time(), depth=0)) == set()
    assert open_names(describe(Model(), time(), depth=1)) == {"stack", "sums"}
    assert open_names(describe(Model(), time(), depth=2)) == {"stack", "sums", "layers.0–3", "last"}


def test_a_path_opens_all_around_it():
    assert open_names(describe(Model(), time(), depth=0, open="stack.last")) == {"stack", "last"}
    assert open_names(describe(Model(), time(), depth=0, open=["stack.layers.2"])) == {"stack", "layers.0–3"}


def test_a_path_goes_through_a_body_that_is_shared():
    deep = rf.Sequential(Stack(2), Stack(2))
    view = describe(deep, depth=0, open="1.layers.1")
    assert open_names(view) == {"0–1", "layers.0–1"}


def test_a_wrong_path_is_told_with_the_nearest():
    with pytest.raises(ViewError, match="no such part") as error:
        describe(Model(), time(), open="stak")
    assert error.value.hint == "did you mean stack?"


def test_what_fits_is_open():
    assert open_names(describe(Model(), time())) == {"stack", "sums"}


# -- a failure


def test_a_failing_call_is_drawn_up_to_the_failure():
    view = failing()
    stack = view["bodies"][node(view, "stack")["body"]]["nodes"]
    assert [(n["name"], n["status"]) for n in stack if n["kind"] in ("module", "op")] == [
        ("layers.0–2", "done"), ("zeros", "done"), ("add", "failed"), ("layers.3–5", "ghost"), ("last", "ghost"),
    ]  # fmt: skip
    assert view["failure"]["node"] == next(n["id"] for n in stack if n["name"] == "add")
    assert node(view, "step")["status"] == "ghost"
    assert "stack" in open_names(view)


def test_the_failure_is_told_in_full():
    view = failing()
    text = to_text(view)
    assert "failed in stack" in text and "DimError: add" in text and "got" in text
    assert "failed here" in text and "not reached" in text
    html = to_html(view)
    assert "DimError: add" in html
    assert "DimError: add: no operand" in svg_words(view)


# -- a plain torch module


def test_a_torch_module_shows_shapes():
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    view = view_of_graph.describe(rf.model_graph(net, torch.zeros(5, 4)))
    text = to_text(view)
    assert "[5, 3]" in text and "[5, 2]" in text and "ReLU" in text
    assert "5 × 3" in svg_words(view)


# -- how it is drawn


def svg_words(view: Any) -> str:
    return " ".join(text.text or "" for text in ET.fromstring(view_of_graph.to_svg(view)).iter() if text.text)


VIEWS: list[Callable[[], Any]] = [
    lambda: describe(Model(), time()),
    lambda: describe(Model(), time(), depth=9),
    lambda: describe(Stack(12), depth=0),
    failing,
    lambda: describe(lambda x: x),
]


@pytest.mark.parametrize("make", VIEWS)
def test_the_picture_has_all_that_the_text_has(make):
    view = make()
    svg = ET.fromstring(view_of_graph.to_svg(view))
    drawn = [g.get("data-node") for g in svg.iter() if g.get("data-node")]
    assert len(drawn) == len(to_table(view))
    words = svg_words(view)
    for row in to_table(view):
        name = row["node"].strip(" →←↻").partition(" ×")[0]
        assert name in words


def test_the_html_needs_no_scripts():
    html = to_html(describe(Model(), time()))
    assert "<svg" not in html and "<script" not in html and "<style" not in html
    uri = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert uri is not None and base64.b64decode(uri[1]).startswith(b"<svg")
    assert 'alt="graph of Model' in html and "<table" in html


def test_scripts_get_all_bodies_and_both_states_of_a_node():
    view = describe(Model(), time())
    scripts = json.loads(json.dumps(view_of_graph.to_scripts(view)))
    assert set(scripts["bodies"]) == set(view["bodies"])
    for key, body in scripts["bodies"].items():
        drawn = ET.fromstring(body["svg"])
        ids = [g.get("data-node") for g in drawn.iter() if g.get("data-node")]
        assert {n["id"] for n in body["nodes"]} <= set(ids)
        assert len(body["edges"]) == len(view["bodies"][key]["edges"])
        for n in body["nodes"]:
            assert (n["other"] is None) == (n["body"] is None)
            if n["other"] and n["open"]:
                inner = scripts["bodies"][n["body"]]
                assert n["h"] == pytest.approx(inner["height"] + 32 + 14, abs=0.2)
                assert n["w"] >= inner["width"] + 27.8


def test_scripts_of_a_huge_graph_stay_small():
    class Wide(rf.Module):
        def __init__(self):
            super().__init__()
            dims = [rf.Dim(1 + i % 5, name=f"dim {i}") for i in range(400)]
            self.dims, self.parts = dims, rf.ModuleList([Pair(a, b) for a, b in pairwise(dims)])

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            for part in self.parts:
                x = part(x)
            return x

    class Pair(rf.Module):
        def __init__(self, a: rf.Dim, b: rf.Dim):
            super().__init__()
            self.one, self.two = rf.Linear(a, a), rf.Linear(a, b)

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            return self.two(rf.relu(self.one(x)))

    wide = Wide()
    view = view_of_graph.describe(rf.model_graph(wide, rf.zeros([wide.dims[0]])))
    scripts = view_of_graph.to_scripts(view)
    assert len(json.dumps(scripts)) + len(to_html(view)) < 300_000
    known = set(scripts["bodies"])
    assert all(n["body"] in known for body in scripts["bodies"].values() for n in body["nodes"] if n["body"])


def test_names_are_escaped():
    bad = rf.Dim(3, name='<script>"&')

    def run(x: rf.Tensor) -> rf.Tensor:
        return rf.exp(x)

    run.__name__ = "<img onerror=alert(1)>"
    view = view_of_graph.describe(rf.model_graph(run, rf.zeros([bad])))
    bodies = view_of_graph.to_scripts(view)["bodies"].values()
    for made in (view_of_graph.to_svg(view), to_html(view), *(body["svg"] for body in bodies)):
        assert "<script" not in made and "<img onerror" not in made
    ET.fromstring(view_of_graph.to_svg(view))


def test_repr_and_show_are_the_same_view():
    graph = model_graph(Stack(2))
    assert repr(graph) == rf.show(graph).text
    assert rf.show(Stack(2), rf.zeros([batch, feat])).data["kind"] == "graph"
    assert "application/vnd.rfnb.view+json" in graph._repr_mimebundle_()
    assert rf.show(graph, depth=0).data["open"] == []


@pytest.mark.parametrize("ending", ["txt", "svg", "json"])
def test_golden(golden: Callable[[str, str], None], ending: str):
    view = describe(Model(count=2), time())
    if ending == "txt":
        golden("graph.txt", to_text(view) + "\n")
    elif ending == "svg":
        svg = re.sub(r' data-rfnb-dim="[^"]*"', "", view_of_graph.to_svg(view))
        golden("graph.svg", svg.replace("><", ">\n<") + "\n")
    else:
        for dim in view["dims"]:
            dim.update(serial=0, made=None)
        golden("graph.json", json.dumps(view, indent=1, ensure_ascii=False) + "\n")


# -- what is told of modules with states


steps = rf.Dim(5, name="steps")


class Reader(rf.Module):
    def __init__(self):
        self.rnn = rf.LSTM(feat, hidden)
        self.out = rf.Linear(hidden, feat)

    def __call__(self, x):
        y, state = self.rnn(x, state=self.rnn.default_initial_state(batch_dims=[batch]), spatial_dim=steps)
        return self.out(y), state.h


def test_zeros_that_a_module_starts_with_are_not_drawn():
    view = describe(Reader(), steps)
    assert [n["name"] for n in view["bodies"][view["root"]]["nodes"]][:2] == ["x", "rnn"]
    alone = view_of_graph.describe(rf.model_graph(lambda: rf.Linear(feat, hidden)(rf.zeros([feat]))))
    assert "zeros" in [n["name"] for n in alone["bodies"][alone["root"]]["nodes"]]  # here they are the input


def test_zeros_that_something_else_reads_too_are_drawn():
    linear = rf.Linear(feat, feat)

    def both(x):
        zeros = rf.zeros([feat])
        return rf.matmul(linear(x) + zeros, zeros, reduce=feat)

    view = view_of_graph.describe(rf.model_graph(both, rf.zeros([batch, feat])))
    assert "zeros" in [n["name"] for n in view["bodies"][view["root"]]["nodes"]]


def test_of_several_results_those_are_told_that_are_read():
    view = describe(Reader(), steps)
    assert [len(node(view, name)["outputs"]) for name in ("rnn", "out")] == [2, 1]  # y and h; nobody takes c
    assert [node["name"] for node in view["bodies"][view["root"]]["nodes"][-2:]] == ["output 0", "output 1"]
    alone = view_of_graph.describe(rf.model_graph(lambda x: (Reader()(x)[0], "a word"), rf.zeros([batch, steps, feat])))
    assert [n["name"] for n in alone["bodies"][alone["root"]]["nodes"]][-1] == "output"


def test_a_model_and_its_input_may_choose_what_is_open():
    shown = rf.show(Stack(2), rf.zeros([batch, feat]), open="layers.1").data
    assert node(shown, "layers.0–1")["id"] in shown["open"]
    assert rf.show(Stack(2), rf.zeros([batch, feat]), depth=0).data["open"] == []
    taken = rf.show(lambda x, depth: x + depth, rf.zeros([batch, feat]), depth=2).data
    assert taken["failure"] is None and "add" in [n["name"] for n in taken["bodies"][taken["root"]]["nodes"]]
    with pytest.raises(ViewError, match="no such part to open"):
        rf.show(Stack(2), rf.zeros([batch, feat]), open="nothing")


def test_the_failure_in_the_title_of_an_open_box_is_cut_with_dots():
    words = "the first words of a long complaint that goes on and on until there is no room left for it"

    class Broken(rf.Module):
        def __init__(self):
            self.inner = rf.Linear(feat, feat)

        def __call__(self, x: rf.Tensor) -> rf.Tensor:
            raise ValueError(f"{words} {self.inner(x).dims}")

    model = rf.Sequential(rf.Linear(feat, feat), Broken())
    view = describe(model, open="1")
    picture = str(to_html(view))
    uris = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", picture)
    drawn = picture + "".join(base64.b64decode(uri).decode() for uri in uris)
    assert "ValueError: the first words of a long …<" in drawn
