"""masked_computation and unmask: in a loop, over a sequence, and written by hand."""

import functools

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run, sequences
from tests.netdict.layers.rec.test_attention_cum_concat import attention

TIME = rf.SpatialDim("time")
EXTERN = {
    "data": {"dim_tags": [rf.batch_dim, TIME, rf.FeatureDim("feature", 3)]},
    "score": {"dim_tags": [rf.batch_dim, TIME]},
}
MASK = {"class": "compare", "kind": "greater", "value": 0.0}
ATTENTION = {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "attention_left_only": True}
UNITS = {
    "linear": {"class": "linear", "n_out": 2, "activation": "tanh", "from": "data", "initial_output": 0.5},
    "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 2, "from": "data"},
    "cell": {"class": "rnn_cell", "unit": "GRU", "n_out": 2, "from": "data"},
    "sum": {"class": "cumsum", "from": "data"},
    "position": {"class": "positional_encoding", "n_out": 4, "from": "data"},
    "self_attention": {**ATTENTION, "from": "data"},
    "frames_so_far": {"class": "subnetwork", "from": "data", "subnetwork": attention("data")},
    "relative": {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {
            "distance": {"class": "relative_positional_encoding", "n_out": 2, "clipping": 2, "from": "data"},
            "output": {**ATTENTION, "key_shift": "distance", "from": "data"},
        },
    },
    "subnet": {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {
            "a": {"class": "linear", "n_out": 2, "activation": "tanh", "from": "data"},
            "b": {"class": "rec", "unit": "basiclstm", "n_out": 2, "from": "a"},
            "output": {"class": "copy", "from": ["a", "b"]},
        },
    },
}


def in_loop(unit, *, out="um"):
    inside = {
        "mask": {**MASK, "from": "data:score"},
        "m": {"class": "masked_computation", "mask": "mask", "from": "data:source", "unit": unit},
        "um": {"class": "unmask", "from": "m", "mask": "mask"},
        "output": {"class": "copy", "from": out},
    }
    return {"output": {"class": "rec", "from": "data", "unit": inside}}


def over_sequence(unit, *, out="um"):
    return {
        "mask": {**MASK, "from": "data:score"},
        "m": {"class": "masked_computation", "mask": "mask", "from": "data", "unit": unit},
        "um": {"class": "unmask", "from": "m", "mask": "mask"},
        "output": {"class": "copy", "from": out},
    }


def batch(seed, lengths):
    values, lengths = sequences(seed, lengths, 4)
    return {"data": (values[..., :3], lengths), "score": (values[..., 3], lengths)}


@functools.cache
def both(unit):
    """The same layer in a loop, and over the sequence."""
    loop, _ = run(in_loop(UNITS[unit]), EXTERN, batch(0, [2, 1]))
    whole, _ = run(over_sequence(UNITS[unit]), EXTERN, batch(0, [2, 1]))
    ours, theirs = loop.get_layer("output/m").params, whole.get_layer("m").params
    assert set(ours) == set(theirs)
    for name in ours:
        theirs[name].assign(ours[name].numpy())
    return loop, whole, theirs


@pytest.mark.parametrize("unit", UNITS)
@examples(8)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_in_the_loop_as_over_the_sequence(unit, lengths, seed):
    data = batch(seed, lengths)
    loop, whole, theirs = both(unit)
    found = array(whole.forward(data)["output"])
    np.testing.assert_allclose(array(loop.forward(data)["output"]), found, atol=1e-6)
    if unit in ("sum", "linear"):
        np.testing.assert_allclose(found, by_hand(unit, data, theirs), atol=1e-6)


def by_hand(unit, data, params):
    (x, lengths), (score, _) = data["data"], data["score"]
    out = []
    for frames, scores, length in zip(x, score, lengths, strict=True):
        y = np.zeros(3) if unit == "sum" else np.full(2, 0.5)
        rows = []
        for t in range(x.shape[1]):
            if scores[t] > 0:
                y = y + frames[t] if unit == "sum" else np.tanh(frames[t] @ params["W"].numpy() + params["b"].numpy())
            rows.append(y if t < length else y * 0)
        out.append(np.reshape(rows, (-1, 3 if unit == "sum" else 2)))
    return np.asarray(out)


def test_parameters_have_the_names_of_checkpoints():
    net, _ = run(over_sequence(UNITS["subnet"]), EXTERN, batch(0, [3]))
    names = {"a/W", "a/b", "b/rec/basic_lstm_cell/kernel", "b/rec/basic_lstm_cell/bias"}
    assert set(net.get_layer("m").params) == names
    values = net.get_param_values_dict()
    assert set(values["m"]) == names


def test_layers_of_the_unit_are_seen_outside_and_stay_too():
    data = batch(1, [5, 3])
    loop, inside = run(in_loop(UNITS["subnet"], out="m/a"), EXTERN, data)
    params = loop.get_layer("output/m").params
    (x, lengths), (score, _) = data["data"], data["score"]
    found = array(inside["output"])
    for b, length in enumerate(lengths):
        a = np.zeros(2)
        for t in range(length):
            a = np.tanh(x[b, t] @ params["a/W"].numpy() + params["a/b"].numpy()) if score[b, t] > 0 else a
            np.testing.assert_allclose(found[b, t], a, atol=1e-6)


def test_frames_are_packed():
    data = {"data": (np.arange(12, dtype="float32").reshape(2, 6, 1) * [[[1, 1, 1]]], [6, 4]), "score": None}
    data["score"] = (np.asarray([[1, -1, 1, 1, -1, -1], [-1, -1, 1, -1, 1, 1]], "float32"), [6, 4])
    _, out = run(over_sequence(UNITS["sum"], out="m"), EXTERN, data)
    found = out["output"]
    np.testing.assert_allclose(array(found)[:, :, 0], [[0, 2, 5], [8, 0, 0]])
    np.testing.assert_array_equal(found.size_of(found.dims[1]).values, [3, 1])


def test_two_units_with_one_mask_have_one_axis():
    net_dict = over_sequence(UNITS["linear"])
    net_dict["more"] = {**net_dict["m"], "unit": UNITS["lstm"]}
    net_dict["both"] = {"class": "combine", "kind": "add", "from": ["m", "more"]}
    net_dict["um"]["from"] = "both"
    data = batch(2, [4, 2])
    _, out = run(net_dict, EXTERN, data)
    assert out["both"].dims == out["m"].dims
    assert array(out["output"]).shape == (2, 4, 2)


def test_masked_from_gives_the_packed_frames():
    net_dict = over_sequence(UNITS["sum"])
    data = batch(3, [4, 4])
    _, expected = run(net_dict, EXTERN, data)
    packed = {
        "packed": {
            "class": "masked_computation",
            "mask": "mask",
            "from": "data",
            "unit": {"class": "copy", "from": "data"},
        }
    }
    net_dict = {**net_dict, **packed, "m": {**net_dict["m"], "masked_from": "packed"}}
    _, found = run(net_dict, EXTERN, data)
    np.testing.assert_allclose(array(found["output"]), array(expected["output"]), atol=1e-6)


def test_the_unit_may_take_other_values_and_its_own_last_output():
    unit = {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {"output": {"class": "combine", "kind": "add", "from": ["data", "prev:output", "base:other"]}},
    }
    net_dict = in_loop(unit)
    net_dict["output"]["unit"]["other"] = {"class": "eval", "eval": "source(0) * 0.5", "from": "data:source"}
    data = batch(4, [5, 2])
    _, out = run(net_dict, EXTERN, data)
    x = data["data"][0] * 1.5
    np.testing.assert_allclose(array(out["output"]), by_hand("sum", {**data, "data": (x, [5, 2])}, {}), atol=1e-5)


def test_constraints_of_layers_in_the_unit_count():
    unit = {**UNITS["linear"], "L2": 0.5}
    net, _ = run(over_sequence(unit), EXTERN, batch(0, [2]))
    expected = sum(0.5 * (each.numpy() ** 2).sum() for each in net.get_layer("m").params.values())
    np.testing.assert_allclose(net.get_total_constraints().item(), expected, rtol=1e-5)


def test_gradients_pass_only_where_the_mask_is_true():
    data = batch(5, [6])
    data["score"] = (np.full((1, 6), -1.0, "float32"), [6])
    net, out = run(in_loop(UNITS["lstm"]), EXTERN, data, train_flag=True)
    out["output"].raw_tensor.sum().backward()
    assert all(not each.raw_tensor.grad.any() for each in net.get_layer("output/m").params.values())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mask": "data"}, "not bool"),
        ({"from": "data:other"}, "lacks the frames of the mask"),
        ({"unit": {"n_out": 3}}, "not a layer"),
    ],
)
def test_what_is_no_mask_or_unit_is_an_error(change, what):
    net_dict = over_sequence(UNITS["linear"])
    net_dict["m"].update(change)
    with pytest.raises(NetworkError, match=what):
        run(net_dict, {**EXTERN, "other": {"dim": 3}}, batch(0, [2]))


def test_labels_need_a_first_value():
    unit = {"class": "reduce", "mode": "argmax", "axes": "F", "from": "data"}
    with pytest.raises(NetworkError, match="initial_output"):
        run(in_loop(unit), EXTERN, batch(0, [2]))
    _, out = run(in_loop({**unit, "initial_output": 2}), EXTERN, batch(0, [2]))
    assert array(out["output"]).dtype == "int32"


def test_labels_that_the_unit_does_not_know_where_the_mask_is_false():
    """Blanks of an alignment, in the published transducers."""
    unit = {
        "blank": {"class": "compare", "kind": "not_equal", "value": 4, "from": "prev:output", "initial_output": True},
        "label": {"class": "reinterpret_data", "set_sparse_dim": 4, "from": "prev:output"},
        "lm": {"class": "masked_computation", "mask": "blank", "from": "label",
               "unit": {"class": "linear", "n_out": 3, "activation": None, "with_bias": False, "from": "data"}},
        "p": {"class": "softmax", "from": ["lm", "data:source"], "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "p", "target": "classes", "initial_output": 0, "beam_size": 2},
    }  # fmt: skip
    extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 5, "sparse": True}})
    net = rf.Network(extern_data=extern, train_flag=True)
    net.construct_from_dict({"output": {"class": "rec", "from": "data", "target": "classes", "unit": unit},
                             "lm": {"class": "copy", "from": "output/lm", "is_output_layer": True}})  # fmt: skip
    labels = np.array([[1, 4, 4, 2, 0]])
    out = net.forward({"data": (np.zeros((1, 5, 2), "float32"), [5]), "classes": (labels, [5])})
    weight = net.get_layer("output/lm").params["W"].numpy()
    found = out["lm"].raw_tensor.detach().numpy().reshape(5, 3)
    np.testing.assert_allclose(found, weight[[0, 1, 1, 1, 2]], rtol=1e-5)
