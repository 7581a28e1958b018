"""Loops in the picture of a network: their steps, and the layers that have left them."""

from __future__ import annotations

import rfnb as rf
from rfnb.display.graph.unfold import nodes
from tests.netdict.views.test_network_view import EXTERN, boxes, lines, network

LINEAR = {"class": "linear", "activation": None}
STEP = {
    "x": {**LINEAR, "n_out": 3, "from": "data:source"},
    "early": {"class": "rnn_cell", "unit": "GRU", "n_out": 3, "from": "x"},
    "s": {**LINEAR, "n_out": 3, "from": ["prev:s", "early"]},
    "p": {"class": "softmax", "from": "s", "loss": "ce", "target": "classes"},
    "output": {"class": "copy", "from": "p"},
}


def of_loop(unit, **options):
    return network({"output": {"class": "rec", "from": "data", "unit": unit, **options}})


def hostile_views(word):
    names = {name: word(name).replace("/", "") or name for name in ("x", "early", "s")}
    unit = {
        names["x"]: STEP["x"],
        names["early"]: {**STEP["early"], "from": names["x"]},
        names["s"]: {**STEP["s"], "from": [f"prev:{names['s']}", names["early"]]},
        "output": {"class": "copy", "from": names["s"]},
        "end": {"class": "compare", "from": names["s"], "value": 0.0},
    }
    until = {key: each for key, each in unit.items() if key not in (names["x"], names["early"])}
    until[names["s"]] = {**LINEAR, "n_out": 3, "from": f"prev:{names['s']}"}
    until["end"] = {"class": "eval", "eval": "tf.reduce_sum(source(0), axis=-1) > 0", "from": names["s"],
                    "out_type": {"dim": None, "shape": (), "dtype": "bool", "feature_dim_axis": None}}  # fmt: skip
    expression = "max_len_from('base:data')"
    return {
        "network, left the loop": rf.show(of_loop({k: v for k, v in unit.items() if k != "end"})),
        "network, a loop until": rf.show(network({"output": {
            "class": "rec", "from": [], "unit": until, "max_seq_len": expression}})),
    }  # fmt: skip


def test_layers_that_have_left_stand_beside_the_loop():
    view = rf.show(of_loop(STEP))
    found = boxes(view)
    places = {name: node.get("place") for name, node in found.items() if node["kind"] in ("module", "loop")}
    assert places == {
        "output/x": "before", "output/early": "before", "output": None, "s": None, "output/p": "after",
        "output/output": "after",
    }  # fmt: skip
    assert (found["output"]["kind"], found["output"]["notes"]) == ("loop", ["a step for each frame of data"])
    assert set(lines(view)) == {
        ("data", "output/x", False), ("output/x", "output/early", False), ("output/early", "output", False),
        ("early", "s", False), ("output", "output/p", False), ("output/p", "ce", False), ("classes", "ce", False),
        ("output/p", "output/output", False),
    }  # fmt: skip
    assert found["s"]["notes"] == ["↻ prev:s"] and found["output/p"]["notes"] == ["after the loop"]
    dims = view.data["graph"]["dims"]
    [value] = found["output/x"]["outputs"]
    assert [dims[i]["name"] for i in value["dims"]] == ["data", "batch", "feature"]


def test_nothing_leaves_a_loop_whose_layers_stay():
    view = rf.show(of_loop(STEP, optimize_move_layers_out=False))
    assert not any("place" in node for node in boxes(view).values())
    assert ("x", "early", False) in lines(view)


def test_a_loop_of_which_nothing_is_left_is_a_box_as_others():
    view = rf.show(of_loop({"output": STEP["x"]}))
    [box] = [node for _, node in nodes(view.data["graph"]) if node["body"]]
    assert (box["kind"], box["notes"]) == ("module", ["no loop: all frames at once"])


def test_a_subnetwork_leaves_as_a_whole_or_stays():
    def subnetwork(source):
        inner = {"a": {**LINEAR, "n_out": 3, "from": "data"}, "output": {**LINEAR, "n_out": 3, "from": ["a", source]}}
        return {"class": "subnetwork", "from": "data:source", "subnetwork": inner}

    step = {"s": {**LINEAR, "n_out": 3, "from": ["prev:s", "sub"]}, "output": {"class": "copy", "from": "s"}}
    leaves = boxes(rf.show(of_loop({**step, "sub": subnetwork("data")})))
    assert (leaves["output/sub"]["place"], leaves["a"]["place"]) == ("before", "before")
    stays = boxes(rf.show(of_loop({**step, "sub": subnetwork("base:prev:s")})))
    assert "place" not in stays["sub"] and stays["a"]["place"] == "before"


def test_a_layer_of_a_loop_in_a_loop_stays_in_the_outer_one():
    inner = {
        "x": {**LINEAR, "n_out": 3, "from": "data:source"},
        "output": {**LINEAR, "n_out": 3, "from": ["prev:output", "x"]},
    }
    extern = rf.ExternData({"data": {"dim_tags": [rf.batch_dim, rf.SpatialDim("outer"), rf.SpatialDim("inner"),
                                                  rf.FeatureDim("feature", 2)]}})  # fmt: skip
    inside = {"class": "rec", "from": "data:source", "unit": inner}
    last = {"class": "reduce", "mode": "mean", "axes": "T", "from": "inside"}
    unit = {"inside": inside, "last": last, "output": {**LINEAR, "n_out": 3, "from": ["prev:output", "last"]}}
    net = rf.Network({"behavior_version": 21}, extern).construct_from_dict({
        "output": {"class": "rec", "from": "data", "axis": "stag:outer", "unit": unit}})  # fmt: skip
    view = rf.show(net)
    graph = view.data["graph"]
    [outside] = [node for node in graph["bodies"][graph["root"]]["nodes"] if node["kind"] == "loop"]
    names = {node["name"]: node.get("place") for node in graph["bodies"][outside["body"]]["nodes"]}
    assert names["inside/x"] == "before" and "last" in names


def test_what_ends_a_loop_and_its_beam():
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    rec = {"class": "rec", "from": [], "unit": unit, "target": "classes", "max_seq_len": 7}
    net = rf.Network(extern_data=rf.ExternData(EXTERN), search_flag=True).construct_from_dict({"output": rec})
    view = rf.show(net)
    [loop] = [node for _, node in nodes(view.data["graph"]) if node["kind"] == "loop"]
    assert "at most 7 steps" in view.svg and "beam 3" in view.svg
    assert loop["notes"] == ["until end, at most 7 steps", "beam 3"]


def test_a_choice_without_a_search_reads_its_target():
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
    }
    rec = {"class": "rec", "from": [], "unit": unit, "target": "classes"}
    found = lines(rf.show(network({"output": rec})))
    assert ("p", "output", False) not in found and ("data:classes", "output", False) in found
