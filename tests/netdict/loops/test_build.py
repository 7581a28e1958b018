"""Recurrent nets that cannot be constructed say at which layer, and what to write; those that can agree with loops."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError, LayerNotFound, NetworkError

EXTERN = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
CHOICE = {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0}
SCORES = {"class": "softmax", "from": "prev:output", "target": "classes"}


def built(unit, *, search=False, extern=EXTERN, more=None, **options):
    net = rf.Network(extern_data=rf.ExternData(extern), search_flag=search)
    rec = {"class": "rec", "unit": unit, "from": "data", **options}
    return net.construct_from_dict({**(more or {}), "output": rec})


def linear(*sources, **options):
    return {"class": "linear", "n_out": 4, "activation": "tanh", "from": list(sources), **options}


WITHOUT_INITIAL = {name: value for name, value in CHOICE.items() if name != "initial_output"}
BAD = {
    "labels without an initial output": (
        ({"p": SCORES, "output": WITHOUT_INITIAL}, {"from": [], "target": "classes"}),
        NetworkError, ["output/output", '"initial_output": 0'],
    ),
    "no length": (({"output": linear("prev:output")}, {"from": []}), NetworkError, ["no length", "size_target"]),
    "no limit": (
        ({"output": linear("prev:output"), "end": {"class": "compare", "from": "output", "value": 0}}, {"from": []}),
        NetworkError, ["no end", "max_seq_len"],
    ),
    "an end that is not bool": (
        ({"output": linear("prev:output"), "end": {"class": "copy", "from": "output"}}, {"from": [], "max_seq_len": 3}),
        NetworkError, ["output/end", "not bool", "float32"],
    ),
    "dims that grow": (
        ({"output": {"class": "copy", "from": ["prev:output", "data:source"]}}, {}),
        NetworkError, ["output ← prev:output ← output", "feature:6}; then", "feature:9}", '"n_out"'],
    ),
    "scores of other labels": (
        ({"p": linear("prev:output"), "output": CHOICE},
         {"search": True, "extern": {"data": {"dim": 3}, "classes": {"dim": 7, "sparse": True}}, "target": "classes"}),
        NetworkError, ["feature:4", "feature:7"],
    ),
    "search False with length normalization": (
        ({"p": SCORES, "output": CHOICE, "c": {**CHOICE, "search": False, "is_output_layer": True}},
         {"search": True, "target": "classes"}),
        NetworkError, ["output/c", '"search": False', '"length_normalization": False'],
    ),
    "a layer that begins at the end": (
        ({"s": {"class": "rec", "unit": "nativelstm2", "direction": -1, "n_out": 3, "from": ["prev:output"]},
          "output": linear("s", "data:source")}, {}),
        NetworkError, ["output/s", "whole sequence", "s ← prev:output"],
    ),
    "frames of a step": (
        ({"s": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data:source"}, "output": linear("s")}, {}),
        DimError, ["output/s", "'T'", "base:"],
    ),
    "a beam of values that are no labels": (
        ({"p": linear("prev:output"), "output": {**CHOICE, "input_type": "regression"}},
         {"search": True, "target": "classes"}),
        NetworkError, ["output/output", '"input_type": "regression", "beam_size": 2', '"beam_size": 1'],
    ),
    "a loop of layers from the end": (
        ({"output": linear("data:source")}, {"direction": -1}), NetworkError, ["'output' (rec)", '"direction": -1'],
    ),
    "an initial state of a loop of layers": (
        ({"output": linear("data:source")}, {"initial_state": "ones"}),
        NetworkError, ["'output' (rec)", '"initial_state": \'ones\'', '"initial_output": …'],
    ),
    "an initial output of a cell": (
        ({"s": {"class": "rnn_cell", "unit": "GRU", "n_out": 3, "from": "data:source", "initial_output": 1},
          "output": linear("prev:s")}, {}),
        NetworkError, ["output/s", '"initial_output": 1', '"initial_state": …'],
    ),
    "a state of a layer that begins at the end": (
        ({"s": {"class": "rec", "unit": "nativelstm2", "direction": -1, "n_out": 3, "from": "data:source"},
          "c": {"class": "get_last_hidden_state", "from": "s", "key": "c", "n_out": 3}, "output": linear("c")}, {}),
        NetworkError, ["output/s", "whole sequence", "c reads its state in each step"],
    ),
    "a layer that begins at the end, and may not leave": (
        ({"s": {"class": "rec", "unit": "nativelstm2", "direction": -1, "n_out": 3, "from": "data:source"},
          "output": linear("s")}, {"optimize_move_layers_out": False}),
        NetworkError, ["output/s", "whole sequence", '"optimize_move_layers_out": False'],
    ),
    "an unknown layer of the step before": (
        ({"output": linear("prev:outptu")}, {}), LayerNotFound, ["outptu", "did you mean 'output'"],
    ),
    "no output": (({"outptu": linear("data:source")}, {}), LayerNotFound, ['a layer named "output"']),
    "no source": (
        ({"output": linear("data:source")}, {"from": [], "size_target": "classes"}), LayerNotFound, ["data:source"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_net_is_an_error_that_says_what_to_write(name):
    (unit, options), kind, words = BAD[name]
    with pytest.raises(kind) as caught:
        built(unit, **options)
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)


def test_the_step_before_is_only_in_loops():
    net = rf.Network(extern_data=rf.ExternData(EXTERN))
    with pytest.raises(LayerNotFound, match="recurrent nets"):
        net.construct_from_dict({"output": linear("prev:output")})


def test_the_line_of_the_config(tmp_path):
    text = """extern_data = {"data": {"dim": 3}}
network = {
    "output": {"class": "rec", "from": "data", "unit": {
        "output": {"class": "linear", "n_out": 4, "from": "prev:outptu"}}},
}
"""
    (tmp_path / "a.config").write_text(text)
    with pytest.raises(LayerNotFound, match="line 4"):
        rf.Network.from_config(tmp_path / "a.config")


def test_a_value_of_a_step_with_the_axis_of_the_loop():
    """Attention over the sequence that the loop steps along: the result has both axes; compared with numpy."""
    unit = {
        "q": {"class": "linear", "n_out": 3, "from": ["data:source", "prev:att"]},
        "e": {"class": "dot", "from": ["base:enc", "q"], "reduce": "F", "var1": "T", "var2": "auto"},
        "w": {"class": "softmax_over_spatial", "from": "e", "axis": "T", "is_output_layer": True},
        "att": {"class": "generic_attention", "weights": "w", "base": "base:enc"},
        "output": {"class": "copy", "from": "att"},
    }
    net = built(unit, more={"enc": {"class": "linear", "n_out": 3, "from": "data"}})
    x, lengths = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32"), [4, 3]
    out = net.forward({"data": (x, lengths)})
    params = {path: {name: p.numpy() for name, p in layer.params.items()} for path, layer in net.layers.items()}
    encoded = x @ params["enc"]["W"] + params["enc"]["b"]
    expected, weights = np.zeros((2, 4, 3)), np.zeros((2, 4, 4))
    for i, length in enumerate(lengths):
        att = np.zeros(3)
        for t in range(length):
            query = np.concatenate([x[i, t], att]) @ params["output/q"]["W"] + params["output/q"]["b"]
            energy = encoded[i, :length] @ query
            weights[i, t, :length] = np.exp(energy - energy.max()) / np.exp(energy - energy.max()).sum()
            expected[i, t] = att = weights[i, t, :length] @ encoded[i, :length]
    steps, batch, feature = net.template("output").dims
    masked = out["output"].copy_masked(0).copy_transpose([batch, steps, feature])
    np.testing.assert_allclose(masked.raw_tensor.detach().numpy(), expected, atol=1e-5)
    own, batch, frames = net.template("output/w").dims
    masked = out["output/w"].copy_masked(0).copy_transpose([batch, own, frames])
    np.testing.assert_allclose(masked.raw_tensor.detach().numpy(), weights, atol=1e-5)


def test_a_circle_whose_dims_are_found_in_two_rounds():
    """The weights of the step before have the frames of the encoder: known only once they are constructed."""
    unit = {
        "feedback": {"class": "linear", "n_out": 2, "activation": None, "from": "prev:sum"},
        "energy": {"class": "combine", "kind": "add", "from": ["base:enc", "feedback"]},
        "weights": {"class": "softmax_over_spatial", "from": "e", "axis": "stag:data"},
        "e": {"class": "linear", "n_out": 1, "activation": None, "from": "energy"},
        "sum": {"class": "combine", "kind": "add", "from": ["prev:sum", "weights"]},
        "output": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
    }
    enc = {"class": "linear", "n_out": 2, "activation": None, "from": "data"}
    net = built(unit, more={"enc": enc}, **{"from": [], "size_target": "classes"})
    assert len(net._nodes["output/feedback"].template.dims) == 3
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    out = net.forward({"data": (x, [4, 2]), "classes": (np.zeros((2, 3), "int32"), [3, 1])})["output"]
    assert out.copy_masked(0).raw_tensor.isfinite().all()


COPY, TANH = {"class": "copy", "from": "h"}, {"class": "activation", "activation": "tanh", "from": "h"}


@pytest.mark.parametrize(
    ("first", "second"),
    [(COPY, linear("h")), ("h", linear("h")), ("prev:s", linear("h")), (COPY, TANH), ("h", TANH), (linear("h"), "h")],
    ids=["described", "named", "told by the second", "told by no side", "one named, told by none", "second named"],
)
def test_a_circle_through_the_sides_of_a_cond(first, second):
    """What has the features of a side of a `cond` is known before the layers of that side are."""
    late = {"class": "compare", "kind": "greater", "value": 0, "from": ":i"}
    cond = {"class": "cond", "condition": "late", "true_layer": first, "false_layer": second}
    unit = {"late": late, "s": cond, "h": linear("data:source", "prev:s"), "output": {"class": "copy", "from": "s"}}
    net = built(unit)
    x = np.random.default_rng(0).normal(size=(1, 4, 3)).astype("float32")
    out = net.forward({"data": (x, [4])})["output"]
    w_h, b_h, *w_s = (parameter.raw_tensor.detach().numpy() for parameter in net.parameters())
    state, expected = np.zeros(4), []
    for step, frame in enumerate(x[0]):
        h = np.tanh(np.concatenate([frame, state]) @ w_h + b_h)
        side = first if step > 0 else second
        if isinstance(side, str):
            state = state if side == "prev:s" else h
        else:
            state = {"copy": h, "activation": np.tanh(h)}.get(side["class"])
            state = np.tanh(h @ w_s[0] + w_s[1]) if state is None else state
        expected.append(state)
    np.testing.assert_allclose(out.raw_tensor.detach().numpy()[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "side", [5, None, [], ["h"], {}, {"class": "copy", "from": 5}, {"class": "copy", "from": [["h"]]}]
)
def test_a_side_of_a_cond_in_a_circle_that_is_not_a_layer(side):
    late = {"class": "compare", "kind": "greater", "value": 0, "from": ":i"}
    cond = {"class": "cond", "condition": "late", "true_layer": side, "false_layer": linear("h")}
    unit = {"late": late, "s": cond, "h": linear("data:source", "prev:s"), "output": {"class": "copy", "from": "s"}}
    with pytest.raises(NetworkError, match="is not a"):
        built(unit)
