"""Losses, where no recorded case has them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError
from tests.examples import examples

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


def collapsed(path, blank):
    kept = [label for i, label in enumerate(path) if i == 0 or label != path[i - 1]]
    return tuple(label for label in kept if label != blank)


def most_probable(log_p):
    """The label sequence with the largest sum over its alignments, by all alignments."""
    frames, blank = len(log_p), log_p.shape[1] - 1
    found = {}
    for path in product(range(blank + 1), repeat=frames):
        score = np.exp(sum(log_p[t, label] for t, label in enumerate(path)))
        found[collapsed(path, blank)] = found.get(collapsed(path, blank), 0.0) + score
    return max(found, key=found.get)


CTC = {"class": "copy", "from": "data", "loss": "ctc", "target": "labels"}


def ctc_batch(seed, lengths, sizes, scale=1.0):
    draw = np.random.default_rng(seed)
    x = np.log(np.maximum(draw.dirichlet(np.full(4, scale), size=(len(lengths), max(lengths))), 1e-9))
    labels = draw.integers(0, 3, (len(sizes), max(sizes)))
    return x.astype("float32"), labels, {"data": (x.astype("float32"), lengths), "labels": (labels, sizes)}


def ctc_net(batch, **loss_opts):
    extern = {"data": {"dim": 4}, "labels": {"dim": 3, "sparse": True}}
    options = {"eval_flag": True, "train_flag": loss_opts.pop("train", False)}
    net = rf.Network(extern_data=rf.ExternData(extern), **options)
    net.construct_from_dict({"output": {**CTC, "loss_opts": {"output_in_log_space": True, **loss_opts}}})
    net.forward(batch)
    return net.get_losses_initialized()[0]["output"]


@examples(15)
@given(st.integers(0, 999))
def test_the_error_of_ctc_by_beam_search(seed):
    """With a wide beam, in evaluation, it is that of the most probable labels; in training, that of greedy decoding."""
    lengths, sizes = [5, 1, 3], [3, 2, 1]
    x, labels, batch = ctc_batch(seed, lengths, sizes)
    truths = [tuple(row[:size]) for row, size in zip(labels, sizes, strict=True)]
    best = [most_probable(row[:length]) for row, length in zip(x, lengths, strict=True)]
    expected = [distance(a, b) for a, b in zip(best, truths, strict=True)]
    assert ctc_net(batch, beam_width=300).get_error_value_per_pos().raw_tensor.tolist() == expected
    greedy = [collapsed(row[:length].argmax(-1), 3) for row, length in zip(x, lengths, strict=True)]
    expected = [distance(a, b) for a, b in zip(greedy, truths, strict=True)]
    for options in ({}, {"beam_width": 300, "train": True}, {"beam_width": 1}):  # the last one as in the reference
        assert ctc_net(batch, **options).get_error_value_per_pos().raw_tensor.tolist() == expected


def test_targets_that_are_too_long_are_clipped():
    _, labels, batch = ctc_batch(1, [2, 5], [4, 2])
    labels[0] = [0, 1, 0, 2]
    clipped = {"data": batch["data"], "labels": (labels, [2, 2])}
    found = ctc_net({**batch, "labels": (labels, [4, 2])}, auto_clip_target_len=True).get_loss_value_per_pos()
    np.testing.assert_allclose(found.raw_tensor, ctc_net(clipped).get_loss_value_per_pos().raw_tensor, rtol=1e-5)
    assert np.isfinite(found.raw_tensor.detach().numpy()).all()


@pytest.mark.parametrize("train", [True, False])
def test_label_smoothing_counts_in_evaluation_too(train):
    """5.9955 is what a run of the reference gave in both, for 9 frames and equal probabilities of 4 labels."""
    extern = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
    net = rf.Network(extern_data=rf.ExternData(extern), train_flag=train, eval_flag=True)
    options = {"loss": "ce", "loss_opts": {"label_smoothing": 0.2}, "forward_weights_init": 0.0}
    net.construct_from_dict({"output": {"class": "softmax", "target": "classes", "from": "data", **options}})
    net.forward({"data": (np.ones((2, 5, 3), "float32"), [5, 4]), "classes": (np.zeros((2, 5), int), [5, 4])})
    assert net.get_total_loss().item() == pytest.approx(5.9955244, rel=1e-5)
