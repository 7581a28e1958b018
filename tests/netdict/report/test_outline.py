"""What a net dict says, without constructing it."""

from __future__ import annotations

import rfnb as rf
from rfnb.netdict.report import outline as of


def outline(net, ends):
    return of.outline(net, ends, rf.ExternData())


def references(entry):
    return [(each.option, each.path, each.back) for each in entry.references]


def test_each_layer_stands_after_what_it_needs_and_unused_ones_at_the_end():
    net = {
        "z": {"class": "copy", "from": "data"},
        "a": {"class": "copy", "from": "z"},
        "spare": {"class": "copy", "from": "a"},
        "output": {"class": "combine", "from": ["a", "z"]},
    }
    found = outline(net, ["output"])
    assert list(found) == ["z", "a", "output", "spare"]
    assert [entry.used for entry in found.values()] == [True, True, True, False]


def test_references_in_and_out_of_nets():
    net = {
        "enc": {"class": "subnetwork", "from": "data:other", "subnetwork": {
            "inner": {"class": "copy", "from": "data"},
            "output": {"class": "combine", "from": ["inner", "base:side"]},
        }},
        "side": {"class": "copy", "from": "data"},
        "output": {"class": "copy", "from": ["enc/inner", "enc"]},
    }  # fmt: skip
    found = outline(net, ["output"])
    assert references(found["enc"]) == [("from", "data:other", False)]
    assert references(found["enc/inner"]) == [("from", "enc/data", False)]
    assert references(found["enc/output"]) == [("from", "enc/inner", False), ("from", "side", False)]
    assert references(found["output"]) == [("from", "enc/inner", False), ("from", "enc", False)]


def test_the_step_before_is_no_need():
    unit = {
        "output": {"class": "linear", "n_out": 3, "from": ["prev:output", "h"]},
        "h": {"class": "linear", "n_out": 3, "from": ["data:source", "prev:h2"]},
        "h2": {"class": "copy", "from": "h"},
    }
    found = outline({"output": {"class": "rec", "from": "data", "unit": unit}}, ["output"])
    assert list(found) == ["output/h", "output/output", "output", "output/h2"]
    assert all(entry.used for entry in found.values())
    assert references(found["output/h"]) == [("from", "output/data", False), ("from", "output/h2", True)]


def test_options_of_unknown_classes_that_name_layers():
    net = {"a": {"class": "copy", "from": "data"}, "b": {"class": "no such", "memory": "a", "mode": "sum"}}
    assert references(outline(net, ["b"])["b"]) == [("memory", "a", False)]


def test_a_circle_and_what_is_missing_do_no_harm():
    net = {"a": {"class": "copy", "from": "b"}, "b": {"class": "copy", "from": ["a", "c"]}, "d": None}
    found = outline(net, ["a"])
    assert set(found) == {"a", "b", "d"}
    assert references(found["b"]) == [("from", "a", False), ("from", None, False)]


def test_a_chain_longer_than_python_nests_calls():
    net = {f"{i:04}": {"class": "copy", "from": f"{i - 1:04}" if i else "data"} for i in range(3000)}
    assert list(outline(net, ["2999"])) == list(net)
