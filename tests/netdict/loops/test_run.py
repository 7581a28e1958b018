"""A recurrent net computes what a loop by hand does; all lengths are defined."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError
from tests.netdict.loops.test_build import CHOICE, built, linear


def batch(lengths, seed=0, classes=None):
    draw = np.random.default_rng(seed)
    longest = max(lengths, default=0)
    labels = classes or lengths
    return {
        "data": (draw.normal(size=(len(lengths), longest, 3)).astype("float32"), lengths),
        "classes": (draw.integers(0, 4, (len(labels), max(labels, default=0))).astype("int32"), labels),
    }


@pytest.mark.parametrize("lengths", [[4, 2, 1], [1], [0, 3], [0, 0]])
def test_a_step_by_hand(lengths):
    net = built({"output": linear("data:source", "prev:output", initial_output=0.5)})
    given = batch(lengths)
    out = net.forward(given)["output"]
    weight, bias = (net.get_layer("output/output").params[name].numpy() for name in "Wb")
    x, expected = given["data"][0], np.zeros((len(lengths), max(lengths), 4))
    for i, length in enumerate(lengths):
        h = np.full(4, 0.5)
        for t in range(length):
            h = expected[i, t] = np.tanh(np.concatenate([x[i, t], h]) @ weight + bias)
    steps, sequences, feature = net.template("output").dims
    masked = out.copy_masked(0).copy_transpose([sequences, steps, feature])
    np.testing.assert_allclose(masked.raw_tensor.detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (3, 3)])
def test_a_loop_whose_end_never_comes(limit, expected):
    unit = {
        "output": linear("prev:output", "base:first"),
        "m": {"class": "reduce", "mode": "max", "axis": "F", "from": "output"},
        "end": {"class": "compare", "kind": "greater", "from": "m", "value": 9.0},
    }
    first = {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"}
    net = built(unit, more={"first": first}, max_seq_len=limit, **{"from": []})
    out = net.forward(batch([2, 1]))["output"]
    assert out.size_of(net.template("output").dims[0]).values.tolist() == [expected, expected]


def test_the_lengths_change_from_batch_to_batch():
    """The axis of a loop with an end is bound anew in each call."""
    unit = {
        "n": {"class": "eval", "eval": "source(0) + 1", "from": "prev:n", "initial_output": 0},
        "output": {"class": "combine", "kind": "add", "from": ["n", "base:long"]},
        "end": {"class": "compare", "kind": "greater_equal", "from": ["n", "base:long"]},
    }
    more = {"size": {"class": "length", "from": "data"}, "long": {"class": "cast", "dtype": "float32", "from": "size"}}
    net = built(unit, more=more, max_seq_len=50, include_eos=True, **{"from": []})
    for lengths in ([3, 5], [30, 2], [1, 1]):
        out = net.forward(batch(lengths))["output"]
        assert out.size_of(net.template("output").dims[0]).values.tolist() == lengths


def test_targets_of_another_length():
    unit = {"p": {"class": "softmax", "from": "data:source", "target": "classes"}, "output": CHOICE}
    net = built(unit, target="classes")
    with pytest.raises(DimError, match="sequence 1 is the first") as caught:
        net.forward(batch([4, 3], classes=[4, 2]))
    assert "2 frames" in str(caught.value) and "size_target" in str(caught.value)


CONFIG = """
extern_data = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
network = {
    "output": {
        "class": "rec", "from": "data", "target": %r,
        "unit": {
            "s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:s"]},
            "p": {"class": "softmax", "from": "s", "target": "classes", "loss": "ce"},
            "output": {"class": "choice", "from": "p", "target": "classes", "initial_output": 0},
        },
    },
}
"""


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("classes", ["layer 'output' (rec), line 4", "3 frames", "2 frames"]),
        (None, ["layer 'output/p' (softmax), line 8", "3 frames", "of 2"]),
    ],
)
def test_lengths_that_differ_are_an_error_with_the_line_of_the_layer(target, words, tmp_path):
    path = tmp_path / "lengths.config"
    text = CONFIG % target
    if target is None:
        text = text.replace('"class": "choice", "from": "p"', '"class": "copy", "from": "p"')
    path.write_text(text)
    net = rf.Network.from_config(path, train_flag=True)
    with pytest.raises(DimError) as caught:
        net.forward(batch([4, 2], classes=[4, 3]))
        net.get_losses_initialized(with_total=True)
    words = [*words, '"size_target": "classes"', "sequence 1"]
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)


def test_a_batch_is_each_sequence_alone():
    unit = {
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": ["data:source", "prev:output"]},
        "a": {"class": "self_attention", "num_heads": 1, "total_key_dim": 2, "n_out": 2, "attention_left_only": True,
              "from": "s"},
        "output": linear("a", "s"),
    }  # fmt: skip
    net = built(unit)
    given = batch([4, 2, 3])
    steps, sequences, feature = net.template("output").dims
    together = net.forward(given)["output"].copy_masked(0).copy_transpose([sequences, steps, feature]).raw_tensor
    for i, length in enumerate(given["data"][1]):
        alone = net.forward({"data": (given["data"][0][i : i + 1, :length], [length])})["output"]
        found = alone.copy_transpose([sequences, steps, feature]).raw_tensor
        np.testing.assert_allclose(found[0].detach(), together[i, :length].detach(), atol=1e-5)
