"""masked_computation that leaves a loop gives what it gives in the steps: outputs, losses, gradients."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.netdict.layers.rec.nets import array
from tests.netdict.layers.rec.test_masked import MASK, UNITS
from tests.netdict.loops.test_order_move import assert_same, run

LINEAR = {"class": "linear", "activation": "tanh", "n_out": 3}
MORE = {
    "unit of the frame before": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "a": {**LINEAR, "from": "data", "initial_output": "var"},
            "output": {"class": "combine", "kind": "add", "from": ["prev:a", "a"]},
        },
    },
    "other values": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "a": {**LINEAR, "from": ["data", "base:data:other", "base:in"]},
            "output": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": ["a", "base:prev:in"]},
        },
    },
    "first output of zeros": {**LINEAR, "from": "data", "initial_output": "apply(0)"},
    "trained first output": {**LINEAR, "from": "data", "initial_output": "var"},
    "trained first state": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data", "initial_state": "var"},
    "masked once more": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "score": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"},
            "mask": {**MASK, "from": "score"},
            "m": {"class": "masked_computation", "mask": "mask", "from": "data", "unit": UNITS["lstm"]},
            "output": {"class": "copy", "from": ["m", "data"]},
        },
    },
    "a loss": {"class": "softmax", "loss": "ce", "target": "classes", "initial_output": 0.0, "from": "data"},
    "the number of the step": {
        "class": "eval", "eval": "source(0) + tf.cast(source(1), 'float32')", "from": ["data", ":i"],
    },
    "the same in each frame": {"class": "variable", "shape": [3]},
}  # fmt: skip
LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=3)


def masked(unit, *, bias=0.0, out=("um",), before="in"):
    """A unit of masked_computation on the input side; then, if `before` is "h", after a recurrence."""
    score = {"class": "eval", "eval": f"source(0) + {bias}", "from": "sum"}
    return {
        "in": {**LINEAR, "from": "data:source"},
        "h": {**LINEAR, "from": ["in", "prev:h"]},
        "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": before},
        "score": score,
        "mask": {**MASK, "from": "score"},
        "m": {"class": "masked_computation", "mask": "mask", "from": before, "unit": unit},
        "um": {"class": "unmask", "from": "m", "mask": "mask"},
        "output": {**LINEAR, "from": [*out, *(["prev:output"] if before == "in" else [])], "n_out": 2},
    }


def place(net, name="m"):
    return net.explain("output")[name].place


@pytest.mark.parametrize("name", [*(name for name in UNITS if name != "frames_so_far"), *MORE])
@examples(5)
@given(lengths=LENGTHS, seed=st.integers(0, 99), bias=st.sampled_from([0.0, 0.3, -9.0, 9.0]), after=st.booleans())
def test_out_of_the_loop_as_in_it(name, lengths, seed, bias, after):
    """bias: of the scores, so that the mask takes all frames, none, or some."""
    unit = {**UNITS, **MORE}[name]
    net = assert_same(masked(unit, bias=bias, before="h" if after else "in"), lengths, seed=seed)
    places = {net.explain("output")[each].place for each in ("m", "um")}
    assert places == {"after the loop" if after else "before the loop"}


FEEDBACK = {"output": {"class": "combine", "kind": "add", "from": ["data", "prev:output"]}}
CIRCLE = {
    **masked(UNITS["lstm"], before="h"),
    "h": {**LINEAR, "from": ["in", "prev:um"]},
    "score": {"class": "eval", "eval": "source(0)", "from": "sum"},
}


STATE = {"class": "get_last_hidden_state", "from": "m", "key": "c", "n_out": 2}


@pytest.mark.parametrize(
    ("unit", "path", "why"),
    [
        (masked(UNITS["frames_so_far"]), (), "has a unit with k_acc, which has no form for all steps together"),
        (masked({**UNITS["subnet"], "subnetwork": FEEDBACK}), (), "has a unit that needs output of the frame before"),
        ({**masked(UNITS["lstm"], out=["um", "state"]), "state": STATE}, (), "state reads it in each step"),
        (CIRCLE, ("m", "h", "prev:um", "um", "m"), ""),
    ],
)
def test_what_keeps_it_in_the_loop(unit, path, why):
    net = rf.Network({"behavior_version": 21}, rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict({"output": {"class": "rec", "unit": unit, "from": "data"}})
    row = net.explain("output")["m"]
    assert (row.place, row.path) == ("each step", path) and row.why.endswith(why)


@examples(10)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_layers_of_the_unit_and_the_frame_before_are_taken_in_the_loop(lengths, seed):
    unit = masked(UNITS["subnet"], out=["um", "m/a", "prev:m", "prev:m/a"])
    net = assert_same(unit, lengths, seed=seed)
    places = {row.name: row.place for row in net.explain("output").rows}
    assert places["m"] == places["um"] == "before the loop" and places["output"] == "each step"


def test_outputs_of_the_unit_leave_with_it():
    subnet = UNITS["subnet"]["subnetwork"]
    unit = {**UNITS["subnet"], "subnetwork": {**subnet, "a": {**subnet["a"], "is_output_layer": True}}}
    found = []
    for moved in (True, False):
        *_, net = run(masked(unit), moved=moved, lengths=[5, 0, 3])
        found.append(array(net._values["output/m/a"]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert found[0].any()


def test_the_unit_runs_along_the_frames_that_the_mask_takes():
    """Packed: as many as the sequence with most of them has."""
    *_, net = run(masked(UNITS["lstm"]), moved=True, lengths=[9, 7], seed=1)
    layer = net.get_layer("output/m")
    mask, axis = layer.mask_of_frames(net._nodes["output/m"], net._values)
    counts = rf.reduce_sum(rf.cast(mask.copy_masked(False), "int32"), axis=axis).raw_tensor
    assert 0 < counts.max() < 9 and layer.left[1].size.max == counts.max()
