"""twod_lstm: by diagonals, in a loop, and cell by cell."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run, sequences

EXTERN = {"data": {"dim": 3}, "other": {"dim": 2}}
POOLING = ["last", "max", "average", "weighted"]
LENGTHS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3)


def layer(pooling, *sources):
    return {"class": "twod_lstm", "n_out": 2, "pooling": pooling, "from": list(sources)}


def whole(pooling):
    return {"output": layer(pooling, "data", "data:other")}


def in_loop(pooling):
    return {
        "output": {"class": "rec", "from": "data:other", "unit": {"output": layer(pooling, "base:data", "data:source")}}
    }


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(pooling, x, length, y, params):
    """The outputs for one sequence, with the padding of the batch."""
    h, c = (np.zeros((len(y) + 1, len(x) + 1, 2)) for _ in range(2))
    for t in range(1, len(y) + 1):
        for s in range(1, length + 1):
            z = np.concatenate([x[s - 1], y[t - 1]]) @ params["W_re"]
            z = z + h[t, s - 1] @ params["Vh_re"] + h[t - 1, s] @ params["Vv_re"]
            i, f, share, o, g = np.split(z, 5)
            kept = sigmoid(share) * c[t - 1, s] + (1 - sigmoid(share)) * c[t, s - 1]
            c[t, s] = sigmoid(i) * np.tanh(g) + sigmoid(f) * kept
            h[t, s] = sigmoid(o) * np.tanh(c[t, s])
    h = h[1:, 1:]
    if pooling == "max":
        return h.max(axis=1)
    if pooling == "average":
        return h[:, :length].mean(axis=1)
    if pooling == "weighted":
        energy = np.einsum("tn,tsn->ts", y @ params["W_att"], h)
        weights = np.exp(energy) / np.exp(energy).sum(axis=1, keepdims=True)
        return np.einsum("ts,tsn->tn", weights, h)
    return h[:, length - 1]


@pytest.mark.parametrize("pooling", POOLING)
@examples(4)
@given(lengths=LENGTHS)
def test_cell_by_cell(pooling, lengths):
    data = {"data": sequences(0, [s for s, _ in lengths], 3), "other": sequences(1, [t for _, t in lengths], 2)}
    net, out = run(whole(pooling), EXTERN, data)
    loop, _ = run(in_loop(pooling), EXTERN, data)
    params = {name: each.numpy() for name, each in net.get_layer("output").params.items()}
    loop.set_param_values_by_dict({"output/output": params})
    found, inside = array(out["output"]), array(loop.forward(data)["output"])
    for b, (s, t) in enumerate(lengths):
        expected = by_hand(pooling, data["data"][0][b], s, data["other"][0][b, :t], params)
        np.testing.assert_allclose(found[b, :t], expected, atol=1e-5)
        np.testing.assert_allclose(inside[b, :t], expected, atol=1e-5)


def test_gradients_agree():
    data = {"data": sequences(0, [4, 2], 3), "other": sequences(1, [2, 3], 2)}
    net, _ = run(whole("last"), EXTERN, data)
    loop, _ = run(in_loop("last"), EXTERN, data)
    ours, theirs = net.get_layer("output").params, loop.get_layer("output/output").params
    loop.set_param_values_by_dict({"output/output": {name: each.numpy() for name, each in ours.items()}})
    for each in (net, loop):
        (each.forward(data)["output"].copy_masked(0).raw_tensor ** 2).sum().backward()
    for name in ours:
        np.testing.assert_allclose(ours[name].raw_tensor.grad, theirs[name].raw_tensor.grad, atol=1e-5)


def test_two_sequences_are_needed():
    with pytest.raises(NetworkError, match="no frames"):
        run(
            {
                "pool": {"class": "reduce", "mode": "max", "axes": "T", "from": "data:other"},
                "output": layer("max", "data", "pool"),
            },
            EXTERN,
            {},
        )
