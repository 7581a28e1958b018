"""What was measured stands on each card, in the text, in the table and in the data; folded boxes add up."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb.core.graph.meter import NodeMeasure, NodeMeasures
from rfnb.display.graph import view as view_of_graph
from rfnb.display.graph.cards import FAILED_PAPER, HEAT, PAPER, tinted
from rfnb.trace.graph import model_graph
from tests.display.graph.graph_models import Model, Stack, batch, feat, time as time_dim
from tests.display.printed import to_text


def measured(model: Any, *dims: rf.Dim, show: str = "time", **more: Any) -> Any:
    return rf.model_graph(model, rf.random_normal([batch, *dims, feat]), show=show, **more)


def named(view: Any, name: str) -> Any:
    return next(n for body in view["bodies"].values() for n in body["nodes"] if n["name"] == name)


def hostile_views(word):
    """Names of functions, losses and lines that end up in a legend, a card and a sorted table."""

    def fn(x):
        return rf.log(x * 0) * 0

    def loss(y):
        return rf.reduce_sum(y, axis=y.dims)

    fn.__name__, loss.__name__ = word("fn"), word("loss")
    feat = rf.Dim(2, name=word("feat"))
    weight = rf.Parameter([feat], initial=1.0)
    graphs = {
        "activation": rf.model_graph(fn, rf.ones([feat]), show="activation"),
        "gradient": rf.model_graph(lambda x: x * weight, rf.ones([feat]), show="gradient", loss=loss),
    }
    with pytest.MonkeyPatch.context() as patch:  # what measuring costs is measured for longer than the call itself
        patch.setattr(model_graph, "event_cost", lambda run: (0.0, 0.0))
        graphs["time"] = rf.model_graph(fn, rf.ones([feat]), show="time", calls=1)
    graphs["memory"] = rf.model_graph(rf.Functional(fn), rf.ones([feat]), show="memory")
    return {f"graph, {show}": rf.show(graph) for show, graph in graphs.items()}


def test_without_numbers_nothing_changes():
    view = view_of_graph.describe(rf.model_graph(Stack(2), rf.zeros([batch, feat])))
    assert "measured" not in view and not any("number" in n for body in view["bodies"].values() for n in body["nodes"])


@pytest.mark.parametrize("show", ["time", "memory", "activation", "gradient"])
def test_a_number_is_on_the_card_and_in_text_page_table_and_data(show):
    graph = measured(Stack(4), show=show)
    view = rf.show(graph)
    box = named(view.data, "layers.0–3")["number"]
    assert box["text"] and 0 <= box["tint"] <= 1
    scripts = json.dumps(view.scripts, ensure_ascii=False)
    for drawn in (view.text, view.svg, scripts, view.to_dot().source, str(view.html)):
        assert box["text"] in drawn
    for line in view.data["measured"]["legend"]:
        assert line in view.text and line.split(":")[0] in str(view.html)
    assert view.data["measured"]["legend"][0].split()[0] in view.svg
    assert json.loads(json.dumps(view.data)) == view.data


def test_a_folded_box_shows_the_sum_of_equal_modules_and_so_does_its_body():
    graph = measured(Stack(4), show="memory")
    view = view_of_graph.describe(graph)
    layers = [graph.measured.nodes[n.number].amount for _, n in graph.walk() if n.name.startswith("layers.")]
    assert len(layers) == 4 and len(set(layers)) == 1
    box = named(view, "layers.0–3")
    whole = sum(graph.measured.nodes[n.number].amount for n in graph.nodes)
    assert box["number"]["share"] == pytest.approx(sum(layers) / whole, abs=1e-4)
    inside = [n["number"]["share"] for n in view["bodies"][box["body"]]["nodes"] if n.get("number")]
    assert sum(inside) == pytest.approx(box["number"]["share"], abs=1e-3)
    last = named(view, "last")
    assert last["body"] != box["body"]  # the numbers differ
    inside = [n["number"]["share"] for n in view["bodies"][last["body"]]["nodes"] if n.get("number")]
    assert sum(inside) == pytest.approx(last["number"]["share"], abs=1e-3)


def test_a_group_of_several_modules_adds_up_too():
    up, down = rf.Dim(7, name="up"), rf.Dim(8, name="down")
    parts = [rf.Linear(up, down) if i % 2 else rf.Linear(down, up) for i in range(8)]
    graph = rf.model_graph(rf.Sequential(*parts), rf.zeros([down]), show="memory")
    view = view_of_graph.describe(graph)
    [box] = [n for n in view["bodies"][view["root"]]["nodes"] if n["times"] == 4]
    assert box["number"]["text"] == f"{4 * 4 * (7 + 8)} B" and box["number"]["share"] == 1
    inside = [n["number"]["text"] for n in view["bodies"][box["body"]]["nodes"] if n.get("number")]
    assert inside == ["112 B", "128 B"]


def test_activations_of_a_folded_box_are_the_largest_inside():
    graph = measured(Stack(3), show="activation")
    nodes = [n for _, n in graph.walk() if f"{n.path}.{n.name}".lstrip(".").startswith("layers")]
    amounts = [graph.measured.nodes[n.number].amount for n in nodes]
    text = named(view_of_graph.describe(graph), "layers.0–2")["number"]["text"]
    assert float(text) == pytest.approx(max(amounts), rel=1e-2)


def test_the_table_begins_with_the_largest_number():
    graph = measured(Stack(2), show="memory")
    table = rf.show(graph).table()
    assert list(table.columns) == ["part", "class", "bytes", "share", "calls", "notes"]
    shown = [row["part"] for row in table]
    nodes = [n for _, n in graph.walk() if n.number in graph.measured.nodes]
    amounts = {rf_path(n): graph.measured.nodes[n.number].amount for n in nodes}
    assert [amounts[part] for part in shown] == sorted(amounts.values(), reverse=True)
    assert len(shown) == len(graph.measured.nodes)


def rf_path(node: Any) -> str:
    return node.module.path if node.module else ".".join(filter(None, [node.path, node.name or node.op]))


def test_a_loop_shows_steps_and_what_hoisting_saves():
    def slow(x):
        time.sleep(0.001)
        return x * 1

    dim = time_dim()

    def model(x):
        loop = rf.Loop(axis=dim, name="slow")
        loop.state.h = rf.zeros([batch, feat])
        with loop:
            loop.state.h = rf.raw_call(slow, loop.state.h, out_dims=[batch, feat]) + rf.exp(loop.unstack(x))
        return loop.state.h

    view = view_of_graph.describe(measured(model, dim, calls=1))
    loop, exp, call = (named(view, name)["number"] for name in ("slow", "exp", "raw_call"))
    assert any(word.endswith("a step") for word in loop["more"])
    assert any(word.startswith("1 op once, not 5 times: hoisting ") for word in loop["more"])
    assert "for all steps together" in exp["more"] and any("hoisting" in word for word in exp["more"])
    [total, unit], [step] = call["text"].split(), call["more"]
    assert float(step.removesuffix(f" {unit} a step")) == pytest.approx(float(total) / 5, rel=0.01)  # both are rounded
    sized = view_of_graph.describe(measured(model, dim, show="memory"))
    assert named(sized, "slow")["number"]["more"][0].endswith("B a step")


def test_the_first_nan_is_red():
    def model(x):
        return rf.exp(rf.sqrt(x - 100)) + x

    view = view_of_graph.describe(measured(model, show="activation"))
    root, exp, sub = named(view, "sqrt"), named(view, "exp"), named(view, "sub")
    assert root["number"]["text"] == exp["number"]["text"] == "NaN" and sub["number"]["bad"] == ""
    assert any("first NaN" in word for word in root["number"]["more"])
    assert not any("first" in word for word in exp["number"]["more"])
    assert "NaN, first in the result of sqrt" in view["measured"]["alarm"]
    assert tinted(root, PAPER) == FAILED_PAPER and view["measured"]["alarm"] in to_text(view)
    assert view["measured"]["rows"][0][2] == "NaN"


def test_tints_grow_with_the_numbers():
    graph = rf.model_graph(lambda x: rf.exp(x) + x, rf.zeros([feat]), show="time", calls=1)
    first, second = graph.nodes
    graph.measured = NodeMeasures(
        "time", 1, {first.number: NodeMeasure(1.0), second.number: NodeMeasure(0.25)}, total=2.0
    )
    view = view_of_graph.describe(graph)
    assert [named(view, name)["number"]["tint"] for name in ("exp", "add")] == [1.0, 0.5]
    assert [named(view, name)["number"]["share"] for name in ("exp", "add")] == [0.5, 0.125]
    assert tinted(named(view, "exp"), PAPER) == HEAT
    numbers = {first.number: NodeMeasure(100.0), second.number: NodeMeasure(1.0)}
    graph.measured = replace(graph.measured, show="gradient", nodes=numbers)
    view = view_of_graph.describe(graph)
    assert [named(view, name)["number"]["tint"] for name in ("exp", "add")] == [1.0, pytest.approx(1 / 3, abs=1e-3)]


def test_a_box_without_a_number_says_why():
    view = view_of_graph.describe(measured(lambda x: rf.cast(x, "int64") + 1, show="activation"))
    assert named(view, "cast")["number"] == {"text": "–", "share": None, "tint": 0.0, "bad": "", "more": ["no floats"]}
    assert "not called" not in (view["note"] or "")
    model = Stack(2)
    model.idle = rf.Linear(feat, feat)
    assert "not called: idle" in to_text(view_of_graph.describe(measured(model, show="memory")))


def test_models_of_torch_and_rf_show_call_it_too():
    view = rf.show(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.zeros(2, 4), show="memory")
    assert named(view.data, "0")["number"]["text"] == "32 B"


def test_networks_of_net_dicts_show_the_numbers_of_their_layers():
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}))
    linear = {"class": "linear", "activation": "tanh"}
    unit = {"s": {**linear, "n_out": 6, "from": ["data:source", "prev:s"]}, "output": {"class": "copy", "from": "s"}}
    layers = {"a": {**linear, "n_out": 5, "from": "data"}, "output": {"class": "rec", "from": "a", "unit": unit}}
    net.construct_from_dict(layers)
    dims = net.extern_data.data["data"].dims
    data = rf.convert_to_tensor(torch.randn(3, 5, 4), dims=dims, lengths=[5, 2, 3])
    for show in ("time", "memory", "activation", "gradient"):
        view = rf.show(net, {"data": data}, show=show)
        assert view.data["failure"] is None
        boxes = [
            n for body in view.data["bodies"].values() for n in body["nodes"] if n["name"] == "a" and "number" in n
        ]
        assert boxes and boxes[0]["number"]["text"] != "–" and "output" in [row[0] for row in view.table().rows]


def test_a_call_that_fails_shows_numbers_up_to_there():
    def model(x):
        return rf.exp(x) + rf.zeros([rf.Dim(5, name="feat")])

    view = view_of_graph.describe(measured(model, show="memory"))
    assert named(view, "exp")["number"]["text"] == "48 B" and "number" not in named(view, "add")
    assert "the call failed" in to_text(view)


def test_numbers_of_a_large_model_stay_in_bounds():
    graph = measured(Model(count=12), time_dim(), show="memory")
    view = rf.show(graph)
    assert len(view.data["measured"]["rows"]) <= 400 and len(str(view.html)) < 400_000
