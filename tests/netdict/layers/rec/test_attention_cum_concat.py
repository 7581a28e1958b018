"""cum_concat: attention over the frames so far, in a loop, over the sequence, and written by hand."""

import functools

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run, sequences

EXTERN = {"data": {"dim": 3}}
FRAMES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def attention(source):
    hist = rf.SpatialDim("hist")
    key = rf.FeatureDim("key", 2)
    linear = {"class": "linear", "activation": None, "with_bias": False, "from": source}
    return {
        "q": {**linear, "out_dim": key},
        "k": {**linear, "out_dim": key},
        "v": {**linear, "n_out": 4},
        "k_acc": {"class": "cum_concat", "from": "k", "out_spatial_dim": hist},
        "v_acc": {"class": "cum_concat", "from": "v", "out_spatial_dim": hist},
        "energy": {"class": "dot", "from": ["q", "k_acc"], "reduce": key},
        "w": {"class": "softmax_over_spatial", "from": "energy", "axis": hist},
        "output": {"class": "dot", "from": ["w", "v_acc"], "reduce": hist},
    }


@functools.cache
def both():
    values = sequences(0, [2, 1], 3)
    loop, _ = run(
        {"output": {"class": "rec", "from": "data", "unit": attention("data:source")}}, EXTERN, {"data": values}
    )
    whole, _ = run(attention("data"), EXTERN, {"data": values})
    for name in "qkv":
        weight = loop.get_layer(f"output/{name}").params["W"].numpy()
        whole.get_layer(name).params["W"].assign(weight)
    return loop, whole


@examples(10)
@given(lengths=FRAMES, seed=st.integers(0, 99))
def test_attention_in_the_loop_as_over_the_sequence_and_by_hand(lengths, seed):
    loop, whole = both()
    data = sequences(seed, lengths, 3)
    found = array(loop.forward({"data": data})["output"])
    np.testing.assert_allclose(array(whole.forward({"data": data})["output"]), found, atol=1e-5)
    weights = [whole.get_layer(name).params["W"].numpy() for name in "qkv"]
    for b, length in enumerate(lengths):
        q, k, v = (data[0][b] @ weight for weight in weights)
        for t in range(length):
            energy = k[: t + 1] @ q[t]
            att = np.exp(energy - energy.max())
            np.testing.assert_allclose(found[b, t], att / att.sum() @ v[: t + 1], atol=1e-5)
        assert not found[b, length:].any()


def test_gradients_agree():
    loop, whole = both()
    data = sequences(7, [4, 2], 3)
    for net in (loop, whole):
        x = net.forward({"data": data})["output"].copy_masked(0).raw_tensor
        (x**2).sum().backward()
    for name in "qkv":
        found, expected = (
            net.get_layer(path).params["W"].raw_tensor for net, path in ((loop, f"output/{name}"), (whole, name))
        )
        np.testing.assert_allclose(found.grad.numpy(), expected.grad.numpy(), atol=1e-4)
        found.grad = expected.grad = None


@pytest.mark.parametrize("mode", ["max", "mean", "sum"])
def test_reductions_of_the_frames_so_far(mode):
    hist = rf.SpatialDim("hist")
    unit = {
        "acc": {"class": "cum_concat", "from": "data:source", "out_spatial_dim": hist},
        "output": {"class": "reduce", "mode": mode, "axis": hist, "from": "acc"},
    }
    values, lengths = sequences(1, [5, 3], 2)
    _, out = run(
        {"output": {"class": "rec", "from": "data", "unit": unit}}, {"data": {"dim": 2}}, {"data": (values, lengths)}
    )
    expected = np.stack([getattr(values[:, : t + 1], mode)(axis=1) for t in range(5)], axis=1)
    expected[1, 3:] = 0
    np.testing.assert_allclose(array(out["output"]), expected, atol=1e-5)


def test_the_next_batch_may_be_longer():
    loop, _ = both()
    for length in (1, 6, 2):
        assert array(loop.forward({"data": sequences(2, [length], 3)})["output"]).shape == (1, length, 4)
