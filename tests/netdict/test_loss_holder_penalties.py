"""What `darc1` and `spatial_smoothing` add to the constraints, against numpy."""

import numpy as np
import pytest

import rfnb as rf

LENGTHS = [4, 2]
X = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")


def built(layer, before=None, **options):
    extern = rf.ExternData({"data": {"dim": 5}, "classes": {"dim": 6, "sparse": True, "same_dim_tags_as": "data"}})
    layers = {**(before or {}), "output": {"from": "data", **layer}}
    return rf.Network(extern_data=extern, **options).construct_from_dict(layers)


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


@pytest.mark.parametrize(("size", "rows"), [(6, 3), (12, 4), (5, 5), (1, 1)])
def test_spatial_smoothing(size, rows):
    net = built({"class": "linear", "n_out": size, "activation": "tanh", "spatial_smoothing": 2.0})
    net.eval_flag = True
    found, energy = constraints(net), 0.0
    for frame in frames(net, np.tanh):
        grid = frame.reshape(rows, -1)
        near = [np.roll(grid, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        energy += ((grid - sum(near) / 8) ** 2).sum()
    assert found.item() == pytest.approx(2.0 * energy, rel=1e-4, abs=1e-6)


def test_spatial_smoothing_of_the_reference():
    """Numbers of a run: features stand in rows of three, and of 12 features the first and the second meet 4 times."""
    for places, expected in (([0], 1.125), ([0, 1], 2.25 - 2 * 0.1406), ([0, 6], 2.25 + 2 * 0.0938)):
        net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 12}}), eval_flag=True)
        net.construct_from_dict({"output": {"class": "copy", "from": "data", "spatial_smoothing": 1.0}})
        net.forward({"data": (np.eye(12)[places].sum(0)[None, None].astype("float32"), [1])})
        assert net.get_total_constraints().item() == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "activation", "activation": "tanh", "from": "raw"},
        {"class": "combine", "kind": "add", "activation": "tanh", "from": ["raw", "zero"]},
        {"class": "eval", "eval": "source(0)", "activation": "tanh", "from": "raw"},
        {"class": "conv", "n_out": 5, "filter_size": (1,), "padding": "same", "activation": "tanh", "from": "data"},
        {"class": "copy", "from": "raw"},
    ],
    ids=lambda layer: layer["class"],
)
def test_darc1_is_of_what_enters_the_activation(layer):
    net = built({**layer, "darc1": 0.5}, eval_flag=True, before={
        "raw": {"class": "linear", "n_out": 5, "with_bias": False, "from": "data"},
        "zero": {"class": "eval", "eval": "source(0) * 0", "from": "raw"},
    })  # fmt: skip
    found = constraints(net)
    weight = next(x for x in net.parameters() if len(x.dims) > 1).numpy().reshape(5, 5)
    x = np.concatenate([X[0], X[1, :2]])
    assert found.item() == pytest.approx(0.5 * np.abs(x @ weight).sum(0).max(), rel=1e-4)


def in_a_loop(moves, **options):
    """A layer, that leaves the loop or not, and that computes the same in both cases."""
    zero = {"class": "eval", "eval": "source(0) * 0", "from": "prev:output"}
    unit = {
        "zero": zero,
        "in": {"class": "combine", "kind": "add", "from": ["data:source", "zero"]},
        "h": {"class": "linear", "n_out": 5, "activation": "tanh", "from": "data:source" if moves else "in", **options},
        "output": {"class": "copy", "from": "h"},
    }
    return {"class": "rec", "unit": unit, "from": "data"}


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("options", [{"darc1": 0.5}, {"spatial_smoothing": 0.5}, {"darc1": 0.1, "L2": 0.5}], ids=str)
def test_in_a_loop_they_are_those_of_all_frames(moves, options):
    net = built(in_a_loop(moves, **options), train_flag=True)
    alone = built({"class": "linear", "n_out": 5, "activation": "tanh", **options}, train_flag=True)
    alone.set_param_values_by_dict({"output": net.get_param_values_dict()["output/h"]})
    for _ in range(3):  # later calls run the step of an earlier one
        found, expected = constraints(net), constraints(alone)
        assert found.item() == pytest.approx(expected.item(), rel=1e-5) and found.item() > 0
    found.raw_tensor.backward()
    expected.raw_tensor.backward()
    got, wanted = (x.get_layer(y).params["W"].raw_tensor.grad for x, y in ((net, "output/h"), (alone, "output")))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert not net.report().of("differs")


def test_in_a_unit_or_a_second_loop_the_report_says_no_effect():
    h = {"class": "linear", "n_out": 5, "activation": "tanh", "darc1": 0.5, "from": "data"}
    second = {"h": {**h, "from": ["data:source", "prev:h"]}, "output": {"class": "copy", "from": "h"}}
    late = {"class": "compare", "kind": "greater", "value": 2, "from": ":i"}
    for unit in (
        {"late": late, "output": {"class": "masked_computation", "mask": "late", "unit": h, "from": "data:source"}},
        {"again": {"class": "rec", "unit": second, "from": "base:data"},
         "output": {"class": "reduce", "mode": "mean", "axes": "T", "from": "again"}},
    ):  # fmt: skip
        net = built({"class": "rec", "unit": unit, "optimize_move_layers_out": False}, train_flag=True)
        assert constraints(net) == 0
        assert any("darc1" in found.what for found in net.report().of("differs"))
