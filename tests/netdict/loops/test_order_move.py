"""Layers that leave a loop give what they give in it: outputs, losses and gradients."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.netdict.loops.random_units import array, assert_batched_is_single, assert_moved_is_unmoved, data, units

EXTERN = {
    "data": {"dim": 3},
    "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"},
    "other": {"dim": 2},
}
KINDS = {
    "linear": {"class": "linear", "activation": "tanh", "n_out": 3},
    "cell": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3},
    "gru": {"class": "rec", "unit": "gru", "n_out": 3},
    "attention": {
        "class": "self_attention", "num_heads": 1, "total_key_dim": 2, "n_out": 3, "attention_left_only": True,
    },
    "position": {"class": "positional_encoding", "n_out": 4},
    "sum": {"class": "cumsum", "axis": rf.single_step_dim},
    "window": {"class": "window", "window_size": 2, "window_left": 1, "window_right": 0, "axis": rf.single_step_dim},
    "softmax": {"class": "softmax", "target": "classes", "loss": "ce"},
    "eval": {"class": "eval", "eval": "tf.tanh(source(0)) * 0.5"},
    "sources": {"class": "copy"},
}  # fmt: skip


def run(unit, *, moved, lengths, seed=0, source="data"):
    """Outputs, the total loss and the gradients, with random parameters."""
    net = rf.Network(extern_data=rf.ExternData(EXTERN), train_flag=True)
    net.construct_from_dict({
        "frames": {"class": "copy", "from": "data"},
        "output": {"class": "rec", "unit": unit, "from": source, "optimize_move_layers_out": moved},
    })  # fmt: skip
    draw = np.random.default_rng(seed)
    values = {}
    for path, layer in net.layers.items():
        for name, parameter in layer.params.items():
            if path != "output":
                values.setdefault(path, {})[name] = draw.normal(size=[d.dimension for d in parameter.dims]) * 0.5
    net.set_param_values_by_dict(values)
    longest, count = max(lengths, default=0), len(lengths)
    batch = {
        "data": (draw.normal(size=(count, longest, 3)).astype("float32"), lengths),
        "classes": (draw.integers(0, 4, (count, longest)).astype("int32"), lengths),
        "other": (draw.normal(size=(count, longest, 2)).astype("float32"), lengths),
    }
    out = net.forward(batch)["output"]
    _, total, _ = net.get_losses_initialized(with_total=True)
    if rf.batch_dim in out.dims:
        total = total + rf.reduce_sum(out, axis=out.dims)
    parameters = {f"{path}/{name}": p for path, layer in net.layers.items() for name, p in layer.params.items()}
    if isinstance(total, rf.Tensor) and total.raw_tensor.requires_grad:
        total.backward()
    gradients = {
        name: np.zeros([dim.dimension for dim in p.dims]) if p.raw_tensor.grad is None else p.raw_tensor.grad.numpy()
        for name, p in parameters.items()
    }
    masked = (out.copy_masked(0) if rf.batch_dim in out.dims else out).copy_transpose(net.template("output").dims)
    return masked.raw_tensor.detach().numpy(), total.item() if isinstance(total, rf.Tensor) else total, gradients, net


def assert_same(unit, lengths, **options):
    """With and without moving: outputs, losses, gradients, and the names of parameters."""
    a, b = (run(unit, moved=moved, lengths=lengths, **options) for moved in (True, False))
    np.testing.assert_allclose(a[0], b[0], rtol=1e-4, atol=1e-5)
    assert abs(a[1] - b[1]) <= 1e-3 + 1e-4 * abs(b[1])
    assert set(a[2]) == set(b[2])
    for name, gradient in a[2].items():
        np.testing.assert_allclose(gradient, b[2][name], rtol=1e-3, atol=1e-4, err_msg=name)
    return a[3]


LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=3)


@pytest.mark.slow
@examples(40)
@given(units(), LENGTHS, st.integers(0, 99))
def test_random_nets(unit, lengths, seed):
    assert_moved_is_unmoved(unit, lengths, seed)


@examples(15)
@given(units(most=5, kinds=("masked", "so far", "linear", "attention", "lstm")), LENGTHS, st.integers(0, 99))
def test_random_nets_with_masks(unit, lengths, seed):
    assert_moved_is_unmoved(unit, lengths, seed)


@examples(20)
@given(units(), LENGTHS, st.integers(0, 99), st.booleans())
def test_random_nets_compute_each_sequence_alone(unit, lengths, seed, moved):
    assert_batched_is_single(unit, lengths, moved=moved, seed=seed)


def test_what_leaves_the_loop():
    """A cell before the recurrence leaves it to the input side, one after it to the output side."""
    unit = {
        "before": {**KINDS["cell"], "from": "data:source"},
        "h": {**KINDS["linear"], "from": ["before", "prev:h"]},
        "after": {**KINDS["cell"], "from": "h"},
        "output": {**KINDS["linear"], "from": "after"},
    }
    net = assert_same(unit, [4, 2, 1])
    rec = net.get_layer("output").spec.nets["output"]
    parts = (rec.before, rec.inside, rec.after)
    names = [[rec.name_of(node.path) for node in part if node.kind != "part"] for part in parts]
    assert names == [["data:source", "before"], ["prev:h", "h"], ["after", "output"]]


def test_a_state_that_is_looked_into_stays():
    unit = {
        "s": {**KINDS["cell"], "from": "data:source"},
        "c": {"class": "get_last_hidden_state", "from": "s", "key": "c", "n_out": 3},
        "output": {**KINDS["linear"], "from": ["c", "prev:s"]},
    }
    net = assert_same(unit, [4, 2, 1])
    rec = net.get_layer("output").spec.nets["output"]
    assert "s" in [rec.name_of(node.path) for node in rec.inside]


def test_a_state_that_is_taken_outside_stays_and_is_that_of_each_step():
    unit = {"s": {**KINDS["cell"], "from": "data:source"}, "output": {**KINDS["linear"], "from": "s"}}
    found = []
    state = {"class": "get_last_hidden_state", "from": "output/s", "key": "c", "n_out": 3, "is_output_layer": True}
    for moved in (True, False):
        net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
        rec = {"class": "rec", "unit": unit, "from": "data", "optimize_move_layers_out": moved}
        net.construct_from_dict({"output": rec, "c": state})
        for i, each in enumerate(net.get_params_list()):
            draw = np.random.default_rng(i)
            each.assign(draw.normal(size=[dim.dimension for dim in each.dims]).astype("float32"))
        found.append(array(net({"data": data([4, 0, 2], 0)["data"]})["c"]))
        assert net.explain("output")["s"].place == "each step"
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert (found[0][0, 1:] != found[0][0, :-1]).all()


@pytest.mark.parametrize("lengths", [[4, 0, 2], [0, 0], [1]])
@pytest.mark.parametrize("moved", [True, False])
def test_the_last_output_of_a_sequence_without_frames_is_zero(lengths, moved):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    unit = {"output": {**KINDS["gru"], "from": "data:source", "need_last": True, "bias_init": 1.0}}
    net.construct_from_dict({
        "output": {"class": "rec", "unit": unit, "from": "data", "optimize_move_layers_out": moved},
        "last": {"class": "rec_last_output", "rec_layer": "output", "sub_layer_name": "output",
                 "is_output_layer": True},
    })  # fmt: skip
    out = net({"data": data(lengths, 0)["data"]})
    frames, last = array(out["output"]), array(out["last"])
    expected = [x[n - 1] if n else np.zeros(3) for x, n in zip(frames, lengths, strict=True)]
    np.testing.assert_allclose(last, expected, atol=1e-6)


@pytest.mark.parametrize("moved", [True, False])
def test_batch_norm_outside_of_the_loop_has_statistics_of_all_frames(moved):
    norm = {**KINDS["linear"], "activation": None, "from": "data:source", "batch_norm": {"masked_time": True}}
    unit = {"n": {**norm, "is_output_layer": True}, "output": {**KINDS["linear"], "from": ["n", "prev:output"]}}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}), train_flag=True)
    net.construct_from_dict(
        {"output": {"class": "rec", "unit": unit, "from": "data", "optimize_move_layers_out": moved}}
    )
    n = array(net({"data": data([4, 4, 4], 0)["data"]})["output/n"])
    np.testing.assert_allclose(n.mean((0, 1) if moved else 0), 0, atol=1e-5)
    assert (net.explain("output")["n"].place == "before the loop") is moved


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cell", "gru", "attention", "position", "sum"])
def test_each_layer_with_a_state(name):
    own = {"class": "linear", "activation": None, "n_out": 3, "from": "data:source"}
    unit = {"in": own, "x": {**KINDS[name], "from": "in"}, "output": {"class": "linear", "n_out": 2, "from": "x"}}
    net = assert_same(unit, [5, 3, 0])
    rec = net.get_layer("output").spec.nets["output"]
    assert not [node for node in rec.inside if node.state is not None]


def test_a_choice_without_a_search_needs_no_scores():
    """With teacher forcing, all of a decoder whose only feedback are labels is computed before the loop."""
    unit = {
        "label": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 2, "initial_output": 0},
        "embed": {"class": "linear", "from": "prev:label", "n_out": 3},
        "s": {**KINDS["attention"], "from": "embed"},
        "prob": {**KINDS["softmax"], "from": "s"},
        "output": {"class": "copy", "from": ["s", "data:source"]},
    }
    net = assert_same(unit, [4, 2, 1])
    rec = net.get_layer("output").spec.nets["output"]
    assert not rec.after and not rec.inside


def test_parts_that_nobody_takes():
    """The state of a cell is an output of its own only if some layer takes it; joined too, outside of a loop."""
    taken = {"s": {**KINDS["cell"], "from": "data:source"}}
    taken["output"] = {"class": "get_last_hidden_state", "from": "s", "key": "c", "n_out": 3}
    lone = {"s": {**KINDS["cell"], "from": ["data:source", "prev:s"]}, "output": {**KINDS["linear"], "from": "s"}}
    used = [assert_same(unit, [3, 1]).get_layer("output/s").spec.used_parts for unit in (taken, lone)]
    assert used == [{"state:c"}, set()]
    cell = {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data"}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}})).construct_from_dict({"output": cell})
    outputs = net(net.extern_data.example())
    assert "output/state:*" not in outputs and net.get_layer("output").spec.used_parts == {"state:c", "state:h"}
    parts = [outputs[f"output/state:{part}"].numpy() for part in "ch*"]
    assert np.array_equal(np.concatenate(parts[:2], -1), parts[2])


QUERY = {**KINDS["linear"], "from": "data:source"}
ENERGY = {"class": "dot", "red1": "F", "red2": "F", "var1": "T", "var2": "T?", "from": ["base:data", "query"]}
WEIGHTS = {"class": "softmax_over_spatial", "from": "energy"}
CONTEXT = {"class": "generic_attention", "weights": "weights", "base": "base:data"}
ATTENTION = {"query": QUERY, "energy": ENERGY, "weights": WEIGHTS, "context": CONTEXT}
MASK = {
    "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data:source"},
    "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "sum"},
}
OWN_AXIS = {
    "attention": {**ATTENTION, "output": {"class": "copy", "from": "context"}},
    "attention, then a cell": {**ATTENTION, "output": {**KINDS["cell"], "from": "context"}},
    "attention of a cell": {
        **ATTENTION, "s": {**KINDS["cell"], "from": "data:source"}, "query": {**QUERY, "from": "s"},
        "output": {**KINDS["linear"], "from": ["context", "s"]},
    },
    "attention of the step before": {**ATTENTION, "output": {**KINDS["linear"], "from": "prev:context"}},
    "attention with feedback": {
        **ATTENTION, "query": {**QUERY, "from": ["data:source", "prev:output"]},
        "output": {**KINDS["linear"], "from": "context"}, "cell": {**KINDS["cell"], "from": "context"},
        "out": {**KINDS["softmax"], "from": "cell"},
    },
    "attention with a loss": {**ATTENTION, "output": {**KINDS["softmax"], "from": "context"}},
    "a cell with a loss after attention": {
        **ATTENTION, "output": {**KINDS["softmax"], "from": "cell", "L2": 0.1},
        "cell": {**KINDS["cell"], "from": "context", "spatial_smoothing": 0.1},
    },
    "self-attention after attention": {**ATTENTION, "output": {**KINDS["attention"], "from": "context"}},
    "weights and the number of the step": {
        **ATTENTION, "step": {"class": "cast", "dtype": "float32", "from": ":i"},
        "energy 2": {"class": "combine", "kind": "mul", "from": ["energy", "step"]},
        "weights": {**WEIGHTS, "from": "energy 2"}, "output": {"class": "copy", "from": "context"},
    },
    "concatenated": {
        "query": QUERY, "both": {"class": "copy", "from": ["base:data", "query"]},
        "output": {"class": "reduce", "mode": "max", "axis": "T", "from": "both"},
    },
    "combined": {
        "query": QUERY, "both": {"class": "combine", "kind": "mul", "from": ["base:data", "query"]},
        "output": {"class": "reduce", "mode": "mean", "axis": "T", "from": "both"},
    },
    "one frame": {
        "query": QUERY, "energy": ENERGY, "best": {"class": "reduce", "mode": "argmax", "axis": "T", "from": "energy"},
        "output": {"class": "gather", "axis": "T", "position": "best", "from": "base:data"},
    },
    "a cell over the whole sequence": {
        "query": QUERY, "both": {"class": "combine", "kind": "add", "from": ["base:data", "query"]},
        "inner": {**KINDS["gru"], "from": "both"},
        "output": {"class": "reduce", "mode": "max", "axis": "T", "from": "inner"},
    },
    "a mask": {
        **ATTENTION, **MASK, "output": {"class": "masked_computation", "mask": "mask", "from": "context"}
        | {"unit": {**KINDS["cell"], "from": "data"}},
    },
    "attention below a mask": {
        "query": QUERY, **MASK, "output": {"class": "masked_computation", "mask": "mask", "from": "query"}
        | {"unit": {"class": "subnetwork", "from": "data", "subnetwork": {
            "energy": {**ENERGY, "from": ["base:base:frames", "data"]}, "weights": WEIGHTS,
            "context": {**CONTEXT, "base": "base:base:frames"}, "cell": {**KINDS["cell"], "from": "context"},
            "output": {"class": "copy", "from": "cell"},
        }}},
    },
    "weights as an output": {**ATTENTION, "output": {"class": "copy", "from": "weights"}},
}  # fmt: skip
"""Units that take all frames of the axis of their own loop."""


@pytest.mark.parametrize("name", OWN_AXIS)
@pytest.mark.parametrize("lengths", [[5, 3, 0], [1], [0, 2]])
def test_values_with_the_axis_of_the_loop_itself(name, lengths):
    """Each step has all frames, and its own one; in the steps this is certain."""
    assert_same(OWN_AXIS[name], lengths)


def test_attention_over_the_sequence_of_the_loop_is_that_of_plain_numpy():
    x = np.random.default_rng(3).normal(size=(2, 5, 3)).astype("float32")
    unit = {**ATTENTION, "query": {"class": "copy", "from": "data:source"}}
    unit["output"] = {"class": "copy", "from": "context"}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict({"output": {"class": "rec", "unit": unit, "from": "data"}})
    assert not net.get_layer("output").spec.nets["output"].inside, "all has left the loop"
    found = array(net.forward({"data": (x, [5, 2])})["output"])
    for row, y, n in zip(x, found, [5, 2], strict=True):
        energies = np.exp(row[:n] @ row[:n].T)
        np.testing.assert_allclose(y[:n], energies / energies.sum(1, keepdims=True) @ row[:n], rtol=1e-4, atol=1e-5)
