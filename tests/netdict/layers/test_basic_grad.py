"""scaled_grad, against numbers of the reference: gradients after the end of a sequence are shifted and counted too."""

import numpy as np
import pytest
import torch

import rfnb as rf
from tests.netdict.layers.ragged import drawn

WEIGHTS = np.array(
    [[[0.9, 1.7], [0.1, -0.4], [-0.5, -1.5]], [[1.0, -1.1], [-1.2, -0.2], [10.0, 10.0]]], dtype="float32"
)  # fmt: skip
"""The gradient, with one after the end of the second sequence."""


def gradient(*, batch_independent=False, **options):
    """What arrives at the data, for the gradient above."""
    net_dict = {
        "scaled": {"class": "scaled_grad", "from": "data", **options},
        "same": {"class": "reinterpret_data", "from": "data:weights", "size_base": "data"},
        "product": {"class": "combine", "kind": "mul", "from": ["scaled", "same"]},
        "output": {"class": "reduce", "from": "product", "mode": "sum", "axes": "T", "use_time_mask": False,
                   "loss": "as_is", "loss_opts": {"use_normalized_loss": False}},
    }  # fmt: skip
    extern = rf.ExternData({"data": {"dim": 2}, "weights": {"dim": 2}})
    net = rf.Network(extern_data=extern, train_flag=True, batch_independent=batch_independent)
    net.construct_from_dict(net_dict)
    x = torch.tensor(drawn([3, 2], 2), requires_grad=True)
    out = net.forward({"data": (x, [3, 2]), "weights": (WEIGHTS, [3, 2])})
    np.testing.assert_array_equal(out["scaled"].raw_tensor.detach(), x.detach())
    net.get_objective().raw_tensor.backward()
    return x.grad.numpy()


def by_hand(scale, shift=0.0, over=None, clip=None):
    g = WEIGHTS
    more = shift * (1.0 if over is None else np.abs(g).sum(over, keepdims=True))
    most = np.inf if clip is None else np.abs(g).max(clip, keepdims=True)
    return np.clip(g * scale + more, -most, most)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scale": 2.0}, by_hand(2.0)),
        ({"scale": 2.0, "clip_max_axis": "F"}, by_hand(2.0, clip=2)),
        ({"scale": -2.0, "clip_max_axis": "T"}, by_hand(-2.0, clip=1)),
        ({"scale": 2.0, "clip_max_axis": "B"}, by_hand(2.0, clip=0)),
        ({"scale": 1.0, "shift": 1.0, "clip_max_axis": "F"}, by_hand(1.0, 1.0, clip=2)),
        ({"scale": 2.0, "shift": 0.5, "scale_shift_by_sum_over_axis": "T"}, by_hand(2.0, 0.5, over=1)),
        (
            {"scale": 2.0, "shift": 0.5, "scale_shift_by_sum_over_axis": "T", "clip_max_axis": "F"},
            by_hand(2.0, 0.5, over=1, clip=2),
        ),
    ],
    ids=str,
)
def test_the_gradient(options, expected):
    np.testing.assert_allclose(gradient(**options), expected, rtol=1e-6)


def test_numbers_of_the_reference():
    """Of a run with `scale` 2 and `clip_max_axis` "T", where 10 after the end lets −1.19 become −2.37."""
    [_, second] = gradient(scale=2.0, clip_max_axis="T")
    np.testing.assert_allclose(second, [[2.0, -2.2], [-2.4, -0.4], [10.0, 10.0]], rtol=1e-6)


def test_batch_independent_leaves_padding_out():
    found = gradient(scale=2.0, clip_max_axis="T", batch_independent=True)
    np.testing.assert_allclose(found[1], [[1.2, -1.1], [-1.2, -0.4], [0.0, 0.0]], rtol=1e-6)
    found = gradient(scale=1.0, shift=0.5, batch_independent=True)
    np.testing.assert_allclose(found[1, 2], [0.0, 0.0])
