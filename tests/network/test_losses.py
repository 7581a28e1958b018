"""Losses, where no recorded case has them."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError

EXTERN = {"data": {"dim": 4}, "labels": {"dim": 5, "sparse": True}, "classes": {"dim": 5, "sparse": True}}


def run(net_dict, batch, **options):
    net = rf.Network(extern_data=rf.ExternData(EXTERN), **{"eval_flag": True, **options})
    net.construct_from_dict(net_dict)
    net.forward(batch)
    return net


def distance(a, b):
    """By dynamic programming."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
    return row[-1]


def test_edit_distance_is_the_error_of_each_sequence():
    draw = np.random.default_rng(0)
    a, b = draw.integers(0, 5, (3, 6)), draw.integers(0, 5, (3, 4))
    sizes = [6, 0, 3], [4, 2, 0]
    layer = {"class": "copy", "from": "data:labels", "loss": "edit_distance", "target": "classes"}
    net = run({"output": layer}, {"labels": (a, sizes[0]), "classes": (b, sizes[1])})
    holder = net.get_losses_initialized()[0]["output"]
    expected = [distance(x[:n], y[:m]) for x, y, n, m in zip(a, b, *sizes, strict=True)]
    assert holder.get_loss_value() is None
    assert holder.get_error_value().item() == sum(expected)
    assert holder.get_error_value_per_pos().raw_tensor.tolist() == expected
    assert holder.get_norm_factor().item() == pytest.approx(1 / sum(sizes[1]))


def test_edit_distance_needs_labels():
    layer = {"class": "copy", "from": "data", "loss": "edit_distance", "target": "classes"}
    net = run({"output": layer}, {"data": np.zeros((1, 3, 4)), "classes": np.zeros((1, 2), "int32")})
    with pytest.raises(DimError, match="labels"):
        net.get_losses_initialized()[0]["output"].get_error_value()


@pytest.mark.parametrize("ignored", [True, False])
def test_ctc_of_targets_that_are_too_long(ignored):
    layer = {"class": "softmax", "from": "data", "loss": "ctc", "target": "classes"}
    layer["loss_opts"] = {"ctc_opts": {"ignore_longer_outputs_than_inputs": ignored}}
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    labels = np.array([[1, 2, 3, 4], [1, 2, 3, 4]])
    net = run({"output": layer}, {"data": (x, [5, 2]), "classes": (labels, [2, 4])}, train_flag=True)
    value = net.get_losses_initialized(with_total=True)[1]
    assert np.isfinite(value.item()) == ignored
    value.backward()
    assert net.get_layer("output").params["W"].raw_tensor.grad.isfinite().all()


@pytest.mark.parametrize(("search", "count"), [(True, 0), (False, 1)])
def test_a_loss_may_be_left_out_in_search(search, count):
    layer = {"class": "softmax", "from": "data", "loss": "ce", "loss_only_on_non_search": True}
    batch = {"data": np.zeros((1, 3, 4)), "classes": np.zeros((1, 3), "int32")}
    assert len(run({"output": layer}, batch, search_flag=search).get_losses_initialized()[0]) == count
