"""What `darc1` and `spatial_smoothing` add to the constraints, against numpy."""

import numpy as np
import pytest

import rfnb as rf

LENGTHS = [4, 2]
X = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")


def built(layer, **options):
    extern = rf.ExternData({"data": {"dim": 5}, "classes": {"dim": 6, "sparse": True, "same_dim_tags_as": "data"}})
    return rf.Network(extern_data=extern, **options).construct_from_dict({"output": {"from": "data", **layer}})


def frames(net, activation=lambda y: y):
    w, b = (net.get_layer("output").params[name].numpy() for name in "Wb")
    return activation(np.concatenate([X[0], X[1, :2]]) @ w + b)


def constraints(net):
    net.forward({"data": (X, LENGTHS), "classes": (np.zeros((2, 4), int), LENGTHS)})
    return net.get_losses_initialized(with_total=True)[2]


@pytest.mark.parametrize("loss", [{}, {"loss": "ce"}])
def test_darc1_takes_what_enters_the_softmax(loss):
    net = built({"class": "softmax", "n_out": 6, "darc1": 0.5, "L2": 0.1, **loss}, eval_flag=True)
    found = constraints(net)
    squares = sum((each.numpy() ** 2).sum() for each in net.parameters())
    assert found.item() == pytest.approx(0.5 * np.abs(frames(net)).sum(0).max() + 0.1 * squares, rel=1e-4)
    found.raw_tensor.backward()
    assert net.get_layer("output").params["W"].raw_tensor.grad.abs().sum() > 0


@pytest.mark.parametrize(("size", "rows"), [(6, 2), (12, 3), (5, 1), (1, 1)])
def test_spatial_smoothing(size, rows):
    net = built({"class": "linear", "n_out": size, "activation": "tanh", "spatial_smoothing": 2.0})
    net.eval_flag = True
    found, energy = constraints(net), 0.0
    for frame in frames(net, np.tanh):
        grid = frame.reshape(rows, -1)
        near = [np.roll(grid, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        energy += ((grid - sum(near) / 8) ** 2).sum()
    assert found.item() == pytest.approx(2.0 * energy, rel=1e-4, abs=1e-6)


def test_in_a_loop_the_report_says_that_they_have_no_effect():
    unit = {
        "output": {"class": "linear", "n_out": 2, "activation": "tanh", "darc1": 0.1}
        | {"from": ["data:source", "prev:output"]}
    }
    net = built({"class": "rec", "unit": unit})
    assert constraints(net) == 0
    assert any("darc1" in found.what for found in net.report().of("differs"))
