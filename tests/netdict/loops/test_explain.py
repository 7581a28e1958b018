"""`net.explain`: the place of each layer is the one where the loop computes its ops, and the reason is a path."""

import numpy as np
import pytest

import rfnb as rf

LINEAR = {"class": "linear", "activation": None, "n_out": 3}
CELL = {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3}
EXTERN = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"}}


def net_of(unit, *, train=False, search=False, **options):
    net = rf.Network(extern_data=rf.ExternData(EXTERN), train_flag=train, search_flag=search)
    return net.construct_from_dict({"output": {"class": "rec", "from": "data", "unit": unit, **options}})


def explained(unit, **options):
    """By layer, the place and the path."""
    return {row.name: (row.place, row.path) for row in net_of(unit, **options).explain("output").rows}


def test_before_in_and_after():
    unit = {
        "x": {**LINEAR, "from": "data:source"},
        "c": {**CELL, "from": "x"},
        "h": {**LINEAR, "from": ["c", "prev:h"]},
        "d": {**CELL, "from": "h"},
        "output": {**LINEAR, "from": "d"},
    }
    assert explained(unit) == {
        "x": ("before the loop", ()),
        "c": ("before the loop", ()),
        "h": ("each step", ("h", "prev:h", "h")),
        "d": ("after the loop", ()),
        "output": ("after the loop", ()),
    }


def test_a_layer_between_two_recurrences():
    unit = {
        "a": {**LINEAR, "from": ["data:source", "prev:a"]},
        "between": {**LINEAR, "from": "a"},
        "b": {**CELL, "from": ["between", "prev:b"]},
        "output": {"class": "copy", "from": "b"},
    }
    row = net_of(unit).explain("output")["between"]
    assert (row.place, row.path, row.why) == ("each step", ("between", "a"), "b needs it")


def test_a_circle_over_several_layers():
    unit = {
        "s": {**CELL, "from": ["data:source", "prev:att"]},
        "att": {**LINEAR, "from": "s"},
        "output": {**LINEAR, "from": "att"},
    }
    assert explained(unit)["s"] == ("each step", ("s", "prev:att", "att", "s"))


def test_reasons_without_a_path():
    unit = {
        "s": {**CELL, "from": "data:source"},
        "c": {"class": "get_last_hidden_state", "from": "s", "key": "c", "n_out": 3},
        "dropped": {**LINEAR, "from": "data:source", "dropout": 0.5},
        "output": {**LINEAR, "from": ["c", "dropped"]},
    }
    assert net_of(unit).explain("output")["s"].why == "carries a state, and c reads it in each step"
    assert net_of(unit).explain("output")["dropped"].place == "before the loop"
    assert net_of(unit, train=True).explain("output")["dropped"].why == "draws random numbers for dropout"
    slow = net_of(unit, optimize_move_layers_out=False).explain("output")
    assert {row.why for row in slow.rows} == {"optimize_move_layers_out is False"}


DECODER = {
    "embed": {**LINEAR, "from": "output", "initial_output": 0},
    "h": {**LINEAR, "from": ["prev:embed", "prev:h"]},
    "prob": {"class": "softmax", "from": "h", "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 2, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
}


def test_a_choice_waits_for_its_scores_only_in_a_search():
    trained = explained(DECODER, train=True, target="classes")
    assert trained["prob"] == ("after the loop", ())
    assert trained["embed"] == ("before the loop", ())
    net = net_of(DECODER, search=True, target="classes", max_seq_len=3)
    rows = net.explain("output")
    assert rows["prob"].path == ("prob", "h", "prev:embed", "embed", "output", "prob")
    assert rows["h"].path == ("h", "prev:h", "h")


def test_a_loop_inside():
    inner = {
        "output": {**LINEAR, "from": ["base:data:source", "prev:output"]},
        "end": {"class": "compare", "from": ":i", "value": 1},
    }
    unit = {
        "inner": {"class": "rec", "from": [], "unit": inner, "max_seq_len": 2, "axis": None},
        "m": {"class": "reduce", "mode": "mean", "axes": "T", "from": "inner"},
        "output": {**LINEAR, "from": ["m"]},
    }
    net = net_of(unit)
    rows = net.explain("output")
    assert rows["inner"].why == "has a loop of its own, which runs in each step"
    assert rows["output"].place == "after the loop"
    assert net.explain("output/inner")["output"].path == ("output", "prev:output", "output")
    with pytest.raises(rf.errors.LayerNotFound, match="has no loop"):
        net.explain("inner")


def test_dims_with_and_without_the_axis():
    row = net_of({"output": {**LINEAR, "from": ["data:source", "prev:output"]}}).explain()["output"]
    assert row.step == "{batch, feature:3}"
    assert row.whole.removeprefix("{").split(", ")[1:] == ["batch", "feature:3}"]


@pytest.mark.parametrize("train", [False, True])
def test_places_are_those_of_the_ops(train, monkeypatch):
    """The loop's own explanation, whose ops know their layers, agrees with the places."""
    unit = {
        "x": {**LINEAR, "from": "data:source"},
        "y": {"class": "activation", "activation": "tanh", "from": "x"},
        "h": {**LINEAR, "from": ["y", "prev:h"]},
        "z": {**LINEAR, "from": ["h", "x"]},
        "output": {"class": "activation", "activation": "tanh", "from": "z"},
    }
    monkeypatch.setattr(rf.options, "record", "all")
    net = net_of(unit, train=train)
    net({"data": (np.ones((2, 4, 3), "float32"), [4, 2]), "classes": (np.zeros((2, 4), "int32"), [4, 2])})
    found = {}
    for row in next(iter(rf.runs)).replay.explain().rows:
        start, end = row.node.tape
        if start < end:  # else it only describes dims
            found.setdefault(row.node.path, set()).add(row.where)
    places = {"before the loop": {"once", "all steps"}, "after the loop": {"once", "after the loop"}}
    for row in net.explain().rows:
        if row.place == "each step":
            assert "each step" in found[row.name]
        else:
            assert found[row.name] <= places[row.place]


def test_times_of_layers_before_in_and_after_the_steps():
    wide = {"class": "linear", "activation": "tanh", "n_out": 700}
    unit = {
        "before": {**LINEAR, "from": "data:source"},
        "wide": {**wide, "from": ["before", "prev:wide"]},
        "small": {**LINEAR, "from": "wide"},
        "inner": {"class": "subnetwork", "from": "small", "subnetwork": {"output": {"class": "copy"}}},
        "output": {**CELL, "from": "inner"},
    }
    net = net_of(unit)
    batch = net.extern_data.example(batch=2, frames=30)
    before = net(batch)["output"].numpy()
    plain, timed = net.explain("output"), net.explain("output", batch)
    assert plain.seconds is None and {row.seconds for row in plain.rows} == {None}
    assert [row._replace(seconds=None) for row in timed.rows] == plain.rows
    assert {row.place for row in timed.rows} == {"before the loop", "each step", "after the loop"}
    assert all((row.seconds > 0) == (not row.name.startswith("inner")) for row in timed.rows)  # a copy computes nothing
    assert timed.seconds == pytest.approx(sum(row.seconds for row in timed.rows))
    assert timed["wide"].seconds > timed["before"].seconds
    np.testing.assert_array_equal(net(batch)["output"].numpy(), before)


def test_a_batch_that_does_not_fit_is_an_error():
    net = net_of({"output": {**LINEAR, "from": ["data:source", "prev:output"]}})
    with pytest.raises(rf.errors.RfError, match="nothing"):
        net.explain("output", {"nothing": 1})
