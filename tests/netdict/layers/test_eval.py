"""Expressions of `eval` layers are parsed, and compute what numpy computes."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError, RfError

X = np.array([[[-1.0, 0.5], [2.0, 3.0]]], "float32")
Y = X * 2 + 1


def computed(text, **options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}, "more": {"dim": 2, "same_dim_tags_as": "data"}}))
    layer = {"class": "eval", "eval": text, "from": ["data", "data:more"], **options}
    net.construct_from_dict({"output": layer})
    out = net.forward({"data": X, "more": Y})["output"]
    return out.copy_transpose(net.template("output").dims).numpy()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source(0) + source(1) * 2.0", X + Y * 2),
        ("tf.maximum(source(0), source(1))", np.maximum(X, Y)),
        ("tf.nn.relu(source(0, auto_convert=False))", np.maximum(X, 0)),
        ("tf.math.exp(-source(0) / 3)", np.exp(-X / 3)),
        ("tf.clip_by_value(source(0), 0.0, 1.0)", np.clip(X, 0, 1)),
        ("tf.cast(tf.greater_equal(source(0), 0.5), tf.float32)", (X >= 0.5).astype("float32")),
        ("tf.where(source(0) > 1, source(0), source(1))", np.where(X > 1, X, Y)),
        ("safe_log(tf.abs(source(0)))", np.log(np.abs(X))),
        ("tf.stop_gradient(source(0)) ** 2", X**2),
        ("(source(0) // 2) % 3", X // 2 % 3),
        ("1 + 1", 2),
        ("(lambda: 1)()", 1),
    ],
)
def test_an_expression(text, expected):
    np.testing.assert_allclose(computed(text), expected, rtol=1e-5)


def test_names_of_eval_locals():
    np.testing.assert_allclose(computed("source(0) * scale", eval_locals={"scale": 3.0}), X * 3)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "source.__globals__",
        "tf.py_function(print)",
        "source(0).raw_tensor",
        "(lambda: open)()",
        "source(7)",
        "source(0) +",
        "open('x')",
    ],
)
def test_nothing_else_can_be_reached(text):
    with pytest.raises(RfError, match="output"):
        computed(text)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({}, 5),
        ({"out_type": {"sparse": True, "dim": 7}}, 7),
        ({"out_type": {"sparse": False}}, None),
        ({"eval": "tf.to_float(source(0))"}, None),
    ],
)
def test_labels_stay_labels_unless_told_otherwise(options, labels):
    extern = rf.ExternData({"data": {"dim": 5, "sparse": True}})
    net = rf.Network(extern_data=extern)
    text = "tf.where(tf.equal(source(0), 3), source(0) - 1, source(0))"
    net.construct_from_dict({"output": {"class": "eval", "eval": text, "from": "data", **options}})
    out = net.forward({"data": np.array([[0, 3, 4]])})["output"]
    assert (None if out.sparse_dim is None else out.sparse_dim.dimension) == labels
    assert out.raw_tensor.tolist() == ([[0, 3, 4]] if "eval" in options else [[0, 2, 4]])


def test_the_axes_of_several_sources_are_matched():
    """A source without an axis that another one has gets one of size 1 there, before numbers mean axes."""
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    mean = {"class": "reduce", "mode": "mean", "axes": "T", "from": "data"}
    both = {"class": "eval", "eval": "source(0) - source(1)[:, 0:1]", "from": ["data", "mean"]}
    net.construct_from_dict({"mean": mean, "output": both})
    np.testing.assert_allclose(net.forward({"data": X})["output"].raw_tensor, X - X.mean(1, keepdims=True))


FEATURES = {
    "ten": {"class": "linear", "n_out": 10, "activation": "tanh", "from": "data"},
    "one": {"class": "linear", "n_out": 1, "activation": None, "from": "data"},
    "heads": {"class": "split_dims", "axis": "F", "dims": (2, 5), "from": "ten"},
    "sums": {"class": "reduce", "mode": "sum", "axes": "s:1", "keep_dims": True, "from": "heads"},
    "mean": {"class": "reduce", "mode": "mean", "axes": "T", "keep_dims": True, "from": "data"},
    "positive": {"class": "compare", "kind": "greater", "value": 0, "from": "one"},
}


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"class": "combine", "kind": "add", "from": ["ten", "one"]}, lambda v: v["ten"] + v["one"]),
        ({"class": "combine", "kind": "sub", "from": ["data", "mean"]}, lambda v: v["data"] - v["mean"]),
        ({"class": "combine", "kind": "mul", "from": ["heads", "sums"]}, lambda v: v["heads"] * v["sums"]),
        ({"class": "combine", "kind": "add", "from": ["heads", "one"]}, lambda v: v["heads"] + v["one"][..., None]),
        ({"class": "eval", "eval": "source(0) * source(1)", "from": ["ten", "one"]}, lambda v: v["ten"] * v["one"]),
        ({"class": "compare", "kind": "less", "from": ["ten", "one"]}, lambda v: v["ten"] < v["one"]),
        (
            {"class": "switch", "condition": "positive", "true_from": "ten", "false_from": "one"},
            lambda v: np.where(v["one"] > 0, v["ten"], v["one"]),
        ),
    ],
    ids=["add", "sub", "mul", "add without the axis", "eval", "less", "switch"],
)
def test_an_axis_of_size_1_stands_for_that_of_another_source(layer, expected):
    """A cross product of 10 and 1 features would be what the reference never gives."""
    values, x = {}, np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    everything = {name: {**each, "is_output_layer": True} for name, each in FEATURES.items()}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict({**everything, "output": layer})
    out = net.forward({"data": (x, [4, 4])})
    for name in FEATURES:
        values[name] = out[name].copy_transpose(net.template(name).dims).raw_tensor.detach().numpy()
    found = out["output"].copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()
    np.testing.assert_allclose(found, expected({**values, "data": x}), rtol=1e-5, atol=1e-6)


DISJOINT = {
    "combine": {"class": "combine", "kind": "add", "from": ["data", "data:b"]},
    "eval": {"class": "eval", "eval": "source(0) + source(1)", "from": ["data", "data:b"]},
    "compare": {"class": "compare", "from": ["data", "data:b"]},
    "linear": {"class": "linear", "n_out": 2, "from": ["data", "data:b"]},
    "switch": {"class": "switch", "condition": "data:c", "true_from": "data", "false_from": "data:b"},
}
"""Layers whose sources each lack an axis of another one."""


@pytest.mark.parametrize("name", DISJOINT)
def test_each_source_may_lack_an_axis_only_where_that_is_said(name):
    """Since behavior version 4; the reference has the same rule."""
    extern = {"data": {"dim": 3}, "b": {"shape": (5, 3)}, "c": {"shape": (), "dtype": "bool"}}

    def sizes(version, **options):
        net = rf.Network({"behavior_version": version}, rf.ExternData(extern))
        template = net.construct_from_dict({"output": DISJOINT[name] | options}).template("output")
        return len(template.dims)

    assert sizes(3) == sizes(4, allow_broadcast_all_sources=True) == sizes(21, out_shape={"B", "T", "F"}) == 4
    for version, options in ((4, {}), (3, {"allow_broadcast_all_sources": False})):
        with pytest.raises(NetworkError, match="all sources need broadcasting"):
            sizes(version, **options)
    assert sizes(4, **{"false_from" if name == "switch" else "from": "data" if name == "switch" else ["data", "data"]})
