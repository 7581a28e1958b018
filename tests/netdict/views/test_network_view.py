"""The picture of a network, its cards, and the view of its report."""

from __future__ import annotations

import json
from html import unescape
from time import process_time

import pytest

import rfnb as rf
from rfnb.display.graph.unfold import nodes
from rfnb.errors import ViewError
from rfnb.netdict.views.fold import stem

EXTERN = {"data": {"dim": 4}, "classes": {"dim": 5, "sparse": True}}


def network(net, **options):
    made = rf.Network(extern_data=rf.ExternData(EXTERN), train_flag=True, name="net", **options)
    return made.construct_from_dict(net, strict=False)


def hostile_views(word):
    def made(name):
        return word(name).replace("/", "") or name

    layers = {
        made("hidden"): {"class": "linear", "n_out": 3, "from": "data", "activation": "relu"},
        made("sub"): {"class": "subnetwork", "from": made("hidden"), "subnetwork": {
            "output": {"class": "copy", "from": "data"}}},
        made("strange"): {"class": word("class"), "from": made("sub"), word("option"): word("value")},
        "output": {"class": "softmax", "from": made("sub"), "loss": "ce", "target": "classes"},
    }  # fmt: skip
    stopped = {"output": {"class": "copy", "from": made("strange")}, made("other"): {"class": "no such"}}
    used = network({**layers, **stopped}, config={"learning_rate": word("rate")})
    return {"network": rf.show(network(layers)), "network, report": rf.show(used.report())}


def boxes(view):
    return {node["name"]: node for _, node in nodes(view.data["graph"])}


def lines(view):
    """The lines of the picture: names of the boxes, and whether they go to the next step."""
    graph = view.data["graph"]
    found = []
    for body in graph["bodies"].values():
        names = {node["id"]: node["name"] for node in body["nodes"]}
        found += [(names[e["source"]], names[e["target"]], e["back"]) for e in body["edges"]]
    return found


BLOCKS = {
    "hidden": {"class": "linear", "n_out": 4, "from": "data"},
    "enc": {"class": "subnetwork", "from": "hidden", "subnetwork": {
        "mid": {"class": "linear", "n_out": 7, "from": "data", "activation": "relu"},
        "output": {"class": "linear", "n_out": 4, "from": "mid"},
    }},
    "output": {"class": "softmax", "from": "enc", "loss": "ce", "target": "classes"},
    "spare": {"class": "copy", "from": "enc/mid"},
}  # fmt: skip


def test_boxes_lines_and_dims():
    view = rf.show(network(BLOCKS))
    assert set(lines(view)) == {
        ("data", "hidden", False), ("hidden", "enc", False), ("enc", "output", False), ("output", "ce", False),
        ("classes", "ce", False), ("data", "mid", False), ("mid", "output", False), ("enc", "spare", False),
    }  # fmt: skip
    found = boxes(view)
    assert (found["spare"]["status"], found["spare"]["notes"]) == ("ghost", ["unused"])
    assert found["enc"]["params"] == 4 * 7 + 7 + 7 * 4 + 4
    dims = view.data["graph"]["dims"]
    assert [dims[i]["size"] for value in found["mid"]["outputs"] for i in value["dims"]] == [-1, -1, 7]
    assert found["enc"]["outputs"] == []  # the same dims as its source
    assert "{batch:?, data:?, feature:7}" in view.text and "7" in unescape(view.svg)


def test_what_stops_is_red_and_what_waits_for_it_grey():
    net = network({**BLOCKS, "hidden": {"class": "no such", "from": "data"}})
    view = rf.show(net)
    found = boxes(view)
    assert (found["hidden"]["status"], found["hidden"]["notes"]) == ("failed", ["there is no layer class 'no such'"])
    assert found["mid"]["notes"] == ["waits for hidden"] and found["mid"]["status"] == "ghost"
    assert (view.data["stops"], view.data["layers"]) == (1, 0)
    assert "1 layer stops the network" in view.text


def test_values_of_the_step_before_are_lines_back():
    unit = {
        "h": {"class": "linear", "n_out": 5, "from": ["data:source", "prev:output"]},
        "output": {"class": "copy", "from": "h"},
    }
    view = rf.show(network({"output": {"class": "rec", "from": "data", "unit": unit}}))
    assert ("output", "h", True) in lines(view)
    assert sum(back for *_, back in lines(view)) == 1


SMALL = {
    "hidden": {"class": "linear", "n_out": 7, "from": "data"},
    "last": {"class": "linear", "n_out": 3, "from": ["hidden", "base:before"]},
    "output": {"class": "copy", "from": "last"},
}
MASKED = {
    "before": {"class": "linear", "n_out": 2, "from": "data"},
    "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"},
    "mask": {"class": "compare", "kind": "greater", "value": 0, "from": "sum"},
    "m": {"class": "masked_computation", "mask": "mask", "from": "data",
          "unit": {"class": "subnetwork", "from": "data", "subnetwork": SMALL}},
    "u": {"class": "unmask", "mask": "mask", "from": "m"},
    "inside": {"class": "linear", "n_out": 3, "from": "m/hidden", "is_output_layer": True},
    "output": {"class": "softmax", "from": "u", "loss": "ce", "target": "classes"},
}  # fmt: skip


def test_the_net_of_a_masked_computation_is_a_box():
    net = network(MASKED)
    view = rf.show(net, depth=2)
    found = boxes(view)
    assert {"hidden", "last"} <= found.keys() and "unit" not in found
    assert {("data", "hidden", False), ("before", "last", False), ("hidden", "last", False)} <= set(lines(view))
    assert {("data", "m", False), ("before", "m", False), ("m", "u", False), ("m", "inside", False)} <= set(lines(view))
    assert found["m"]["params"] == 4 * 7 + 7 + 9 * 3 + 3 == found["hidden"]["params"] + found["last"]["params"]
    assert net.get_num_params() == sum(node["params"] for node in top(view))
    [card] = rf.show(net, layer="m/unit/last").data["cards"]
    assert [x["name"] for x in card["params"]] == ["m/last/W", "m/last/b"]


def test_the_sides_of_a_cond_are_boxes():
    side = {"class": "subnetwork", "from": "data", "subnetwork": SMALL}
    net = network({
        "before": MASKED["before"],
        "flag": {"class": "train_flag"},
        "other": {"class": "linear", "n_out": 3, "from": "data"},
        "one": {"class": "cond", "condition": "flag", "true_layer": side, "false_layer": "other"},
        "both": {"class": "cond", "condition": "flag", "true_layer": side,
                 "false_layer": {"class": "copy", "from": "one"}},
        "output": {"class": "combine", "kind": "add", "from": ["one", "both"]},
    })  # fmt: skip
    view = rf.show(net, depth=3)
    assert {("data", "hidden", False), ("before", "last", False), ("other", "one", False)} <= set(lines(view))
    assert ("one", "false_layer", False) in lines(view)
    assert net.get_num_params() == sum(node["params"] for node in top(view))
    assert [node["name"] for node in boxes(view).values()].count("true_layer") == 1


def top(view):
    """The outermost boxes."""
    graph = view.data["graph"]
    return graph["bodies"][graph["root"]]["nodes"]


def block(i, source, extra=None):
    return {
        f"b{i}_in": {"class": "linear", "n_out": 8, "from": source, "activation": "relu"},
        f"b{i}_drop": {"class": "dropout", "dropout": 0.1, "from": f"b{i}_in"},
        f"b{i}_out": {"class": "linear", "n_out": 4, "from": f"b{i}_drop"},
        f"b{i}_add": {"class": "combine", "kind": "add", "from": [source, f"b{i}_out"]},
    }


def stack(count):
    net, source = {"b0_add": {"class": "linear", "n_out": 4, "from": "data"}}, "b0_add"
    for i in range(1, count + 1):
        net.update(block(i, source))
        source = f"b{i}_add"
    return net | {"output": {"class": "softmax", "from": source, "loss": "ce", "target": "classes"}}


def test_repeated_blocks_are_one_box():
    net = stack(6)
    [repeated] = [node for node in boxes(rf.show(network(net))).values() if node["times"] > 1]
    assert (repeated["times"], repeated["name"]) == (6, "b1 – b6")
    assert repeated["params"] == 6 * (4 * 8 + 8 + 8 * 4 + 4)
    net["b3_in"]["activation"] = "tanh"  # no longer the same
    assert sorted(n["times"] for n in boxes(rf.show(network(net))).values() if n["times"] > 1) == [2, 3]


def test_repeated_nets_are_one_box():
    inner = {"fw": {"class": "linear", "n_out": 4, "from": "data"}, "output": {"class": "copy", "from": "fw"}}
    net = {
        f"s{i}": {"class": "subnetwork", "from": f"s{i - 1}" if i else "data", "subnetwork": inner} for i in range(4)
    }
    view = rf.show(network(net | {"output": {"class": "softmax", "from": "s3", "loss": "ce", "target": "classes"}}))
    [repeated] = [node for node in boxes(view).values() if node["times"] > 1]
    assert (repeated["name"], repeated["times"], repeated["params"]) == ("s1 – s3", 3, 3 * 20)
    assert ("s1 – s3", "output", False) in lines(view)
    assert not any(source == "s3" for source, *_ in lines(view))


def test_names_of_blocks():
    assert [stem(names) for names in (["a1_x", "a1_y"], ["a1", "a1_y"], ["a10_x", "a1_y"], ["x", "y"])] == [
        "a1", "a1", "", "",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_large_net_is_drawn_quickly_and_small():
    for net in (stack(270), {**stack(1), **{f"c{i}": {"class": "copy", "from": f"c{i - 1}" if i else "data",
                "is_output_layer": True, "initial_output": i} for i in range(1080)}}):  # fmt: skip
        made = network(net, device="meta")
        begin = process_time()
        view = rf.show(made)
        size = len(view.html)
        assert process_time() - begin < 6, "it takes a sixth of this on a machine that does nothing else"
        assert size < 300_000 and len(json.dumps(view.scripts)) < 300_000


def test_a_card():
    view = rf.show(network(BLOCKS), layer="enc/mid")
    [card] = view.data["cards"]
    assert [(x["name"], x["given"], x["became"]) for x in card["options"]] == [
        ("n_out", "7", "feature:7"), ("activation", "'relu'", ""),
    ]  # fmt: skip
    assert [(x["name"], x["count"], x["trained"]) for x in card["params"]] == [
        ("enc/mid/W", 28, True), ("enc/mid/b", 7, True),
    ]  # fmt: skip
    assert "enc/mid/W {feature:4, feature:7} 28" in view.text
    with pytest.raises(ViewError, match="no layer 'enc/mit'"):
        rf.show(network(BLOCKS), layer="enc/mit")


def test_cards_of_layers_that_are_alike_are_one():
    cards = rf.show(network(stack(6))).data["cards"]
    alike = {card["path"]: card["alike"] for card in cards if card["alike"]}
    assert alike["b1_in"] == [f"b{i}_in" for i in range(2, 7)]
    assert len(rf.show(network(stack(6))).table()) == len(stack(6))


def test_what_is_open():
    net = network(BLOCKS)
    assert rf.show(net, depth=0).data["graph"]["open"] == []
    assert len(rf.show(net, open="enc").data["graph"]["open"]) == 1
    with pytest.raises(ViewError, match="no such part"):
        rf.show(net, open="dec")


def test_a_batch_within_a_training_step():
    net = network(BLOCKS)
    net.train_flag = None
    ctx = rf.init_train_step_run_ctx()
    batch = net.extern_data.example(batch=2)
    net(batch)
    view = rf.show(net, batch)
    assert view.data["failure"] is None and list(ctx.losses) == ["output"]
    assert ctx is rf.get_run_ctx()


def test_the_report():
    net = network({**BLOCKS, "hidden": {"class": "linear", "n_out": 4, "from": "data", "param_device": "GPU<0>"}})
    view = rf.show(net.report())
    assert view.text.startswith("net: runs (5 layers constructed, 112 parameters)\n")
    assert "linear: param_device has no effect" in view.text
    assert repr(net.report()) == view.text
    assert [row["layers"] for row in view.table()] == ["hidden"]
    broken = rf.show(network({**BLOCKS, "hidden": {"class": "<b>", "from": "data"}}).report())
    assert "net: does not run: 1 reason" in broken.text
    assert "&lt;b&gt;" in broken.html and "<b>'" not in broken.html
    assert "no batch passes before this is mended" in broken.html
