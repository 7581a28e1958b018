"""Losses and error measures, against numpy and plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.errors import DimError, ParameterError

vocab, time = rf.Dim(4, name="vocab"), rf.Dim(3, name="steps")
LOGITS = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[0, 3, 1], [2, 2, 0]])
AS = {"logits": lambda x: x, "log-probs": lambda x: x.log_softmax(-1), "probs": lambda x: x.softmax(-1)}


@pytest.mark.parametrize("kind", AS)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_cross_entropy_in_any_order_of_dims(kind, order, turned):
    dims = [batch_dim, time, vocab]
    estimated = rf.convert_to_tensor(AS[kind](LOGITS).permute(order), dims=[dims[i] for i in order])
    target = rf.convert_to_tensor(
        LABELS.T if turned else LABELS, dims=[time, batch_dim] if turned else dims[:2], sparse_dim=vocab
    )
    dense = rf.one_hot(target) * 1.0
    expected = -LOGITS.log_softmax(-1).gather(-1, LABELS[..., None]).squeeze(-1)
    for wanted in (target, rf.cast(dense, "float64")):
        loss = rf.cross_entropy(estimated=estimated, target=wanted, axis=vocab, estimated_type=kind)
        assert torch.allclose(loss.copy_transpose([batch_dim, time]).raw_tensor, expected)


@pytest.mark.parametrize("dense", [False, True])
def test_scores_in_place_of_probabilities_are_refused(dense):
    frames = rf.Dim(None, name="frames")
    target = rf.convert_to_tensor([[0, 1], [2]], dims=[batch_dim, frames], sparse_dim=vocab)
    raw = torch.full((2, 2, 4), 0.25)
    raw[1, 1] = -7.0  # padding
    given = {"target": rf.one_hot(target) if dense else target, "axis": vocab}

    def loss(raw):
        estimated = rf.convert_to_tensor(raw, dims=[batch_dim, frames, vocab])
        return rf.cross_entropy(estimated=estimated, estimated_type="probs", **given).raw_tensor[0].tolist()

    assert loss(raw) == pytest.approx([math.log(4.0)] * 2)
    raw[0] = 1.0 + 1e-6  # by rounding
    assert loss(raw) == pytest.approx([0.0] * 2, abs=1e-5)
    raw[0, 1, 1] = -1.5
    with pytest.raises(ParameterError, match=r"not probabilities\n.* -1.5 at batch 0, frames 1") as failure:
        loss(raw)
    assert "logits" in failure.value.hint
    raw[0, 1, 1] = math.nan
    assert math.isnan(loss(raw)[1])


def test_scores_in_place_of_log_probabilities_are_warned_of_once():
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab)
    estimated = rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab])
    with pytest.warns(UserWarning, match=r"not log probabilities\n.* at batch ") as warned:
        for _ in range(2):
            rf.cross_entropy(estimated=estimated, target=target, axis=vocab, estimated_type="log-probs")
    assert len(warned) == 1 and warned[0].filename == __file__


@pytest.mark.parametrize("lacking", ["estimated", "target"])
def test_one_side_may_lack_a_dim(lacking):
    estimated = rf.convert_to_tensor(
        LOGITS[:, 0] if lacking == "estimated" else LOGITS,
        dims=[batch_dim, time, vocab][:: 2 if lacking == "estimated" else 1],
    )
    target = rf.convert_to_tensor(
        LABELS if lacking == "estimated" else LABELS[:, 0],
        dims=[batch_dim, time][: 2 if lacking == "estimated" else 1],
        sparse_dim=vocab,
    )
    loss = rf.cross_entropy(estimated=estimated, target=target, axis=vocab, estimated_type="logits").copy_transpose(
        [batch_dim, time]
    )
    logits = LOGITS[:, :1].expand(-1, 3, -1) if lacking == "estimated" else LOGITS
    labels = LABELS if lacking == "estimated" else LABELS[:, :1].expand(-1, 3)
    assert torch.allclose(loss.raw_tensor, -logits.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1))


def test_labels_of_another_dim_are_refused():
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=rf.Dim(4, name="letters"))
    with pytest.raises(DimError, match="are not the classes"):
        rf.cross_entropy(
            estimated=rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab]),
            target=target,
            axis=vocab,
            estimated_type="logits",
        )


@pytest.mark.parametrize("axis", [time, batch_dim], ids=["time", "batch"])
@pytest.mark.parametrize("kind", AS)
def test_labels_say_which_axis_has_the_classes(axis, kind):
    given = {
        "estimated": rf.convert_to_tensor(AS[kind](LOGITS), dims=[batch_dim, time, vocab]),
        "target": rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab),
    }
    with pytest.raises(DimError, match="are not the classes") as caught:
        rf.cross_entropy(**given, axis=axis, estimated_type=kind)
    assert caught.value.hint == "axis=vocab"


def test_labels_may_point_at_frames_of_their_own_axis():
    energy = LOGITS[..., 0]
    target = rf.convert_to_tensor(LABELS % 3, dims=[batch_dim, time], sparse_dim=time)
    given = {"estimated": rf.convert_to_tensor(energy, dims=[batch_dim, time]), "target": target}
    loss = rf.cross_entropy(**given, axis=time, estimated_type="logits")
    expected = -energy.log_softmax(-1).gather(-1, LABELS % 3)
    assert torch.allclose(loss.copy_transpose([batch_dim, time]).raw_tensor, expected)


def test_frames_that_differ_are_refused():
    """No loss for each pair of a frame and a target, as time and time + 1 are different dims."""
    longer = time + 1
    estimated = rf.convert_to_tensor(torch.randn(2, 4, 4), dims=[batch_dim, longer, vocab])
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab)
    for wanted in (target, rf.one_hot(target)):
        with pytest.raises(DimError, match="each have a dim that the other lacks") as error:
            rf.cross_entropy(estimated=estimated, target=wanted, axis=vocab, estimated_type="logits")
        assert "rf.expand_dim(target, steps+1)" in str(error.value)
        pairs = (
            rf.cross_entropy(
                estimated=estimated, target=rf.expand_dim(wanted, longer), axis=vocab, estimated_type="logits"
            )
            if wanted is not target
            else None
        )
        assert pairs is None or pairs.dims_set == {batch_dim, time, longer}


@pytest.mark.parametrize("kind", AS)
def test_classes_that_cannot_be_and_are_not_wanted(kind):
    """0 · log 0 is 0, in the loss and in both gradients."""
    raw = LOGITS[0, 0].clone()
    raw[0] = -torch.inf
    wanted = torch.tensor([0.0, 0.5, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    estimated = AS[kind](raw).requires_grad_()
    loss = rf.cross_entropy(
        estimated=rf.convert_to_tensor(estimated, dims=[vocab]),
        target=rf.convert_to_tensor(wanted, dims=[vocab]),
        axis=vocab,
        estimated_type=kind,
    ).raw_tensor
    assert torch.allclose(loss, -raw.log_softmax(-1)[1:3].mean())
    gradients = torch.autograd.grad(loss, [estimated, wanted])
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("dense", [False, True])
def test_half_precision(dense):
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab)
    target = rf.one_hot(target) if dense else target
    single = rf.convert_to_tensor(LOGITS.float(), dims=[batch_dim, time, vocab])
    expected = rf.cross_entropy(estimated=single, target=target, axis=vocab, estimated_type="logits").raw_tensor
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = rf.cross_entropy(estimated=single, target=target, axis=vocab, estimated_type="logits").raw_tensor
    assert found.dtype is torch.float32 and torch.allclose(found, expected, atol=1e-6)
    half = single.like(LOGITS.bfloat16())
    found = rf.cross_entropy(estimated=half, target=target, axis=vocab, estimated_type="logits").raw_tensor
    assert torch.allclose(found.float(), expected, atol=0.05)


def test_softmax_cross_entropy_of_the_backend():
    logits = rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab])
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab)
    loss = backend_of_raw(LOGITS).softmax_cross_entropy_with_logits(logits=logits, targets=target, axis=vocab)
    same = rf.cross_entropy(estimated=logits, target=target, axis=vocab, estimated_type="logits")
    assert torch.equal(loss.raw_tensor, same.raw_tensor)


@pytest.mark.parametrize("smoothing", [0.2, "tensor"])
@pytest.mark.parametrize("excluded", [(), (0,), (0, 3)])
def test_the_gradient_of_log_probs_is_smoothed(smoothing, excluded):
    if smoothing == "tensor":
        smoothing = rf.convert_to_tensor(torch.tensor([0.2, 0.1], dtype=torch.float64), dims=[batch_dim])
    x = rf.convert_to_tensor(LOGITS.log_softmax(-1).requires_grad_(), dims=[batch_dim, time, vocab])
    probs = rf.softmax(rf.convert_to_tensor(LOGITS.flip(-1), dims=[batch_dim, time, vocab]), axis=vocab)
    smooth = rf.label_smoothed_log_prob_gradient(x, smoothing, axis=vocab, exclude_labels=excluded)
    assert torch.equal(smooth.raw_tensor, x.raw_tensor)
    found = -rf.gradient(-(smooth * probs), x).raw_tensor
    if not excluded:
        assert torch.allclose(found, rf.label_smoothing(probs, smoothing, axis=vocab).raw_tensor)
        assert torch.allclose(found.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    kept = [i for i in range(4) if i not in excluded]
    assert torch.allclose(found[..., list(excluded)], probs.raw_tensor[..., list(excluded)])
    s = smoothing if isinstance(smoothing, float) else smoothing.raw_tensor[:, None, None]
    other = s / (len(kept) - 1)
    assert torch.allclose(found[..., kept], probs.raw_tensor[..., kept] * (1 - s - other) + other)


def test_smoothing_needs_labels_to_smooth():
    x = rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab])
    with pytest.raises(DimError, match="at least two labels"):
        rf.label_smoothed_log_prob_gradient(x, 0.1)
    with pytest.raises(DimError, match="at least two labels"):
        rf.label_smoothed_log_prob_gradient(x, 0.1, axis=vocab, exclude_labels=[0, 1, 2])


def test_in_a_loop():
    logits = rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab])
    target = rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab)
    for wanted in (target, rf.cast(rf.one_hot(target), "float64")):
        with rf.Loop(axis=time) as loop:
            given = {"estimated": loop.unstack(logits), "target": loop.unstack(wanted)}
            losses = loop.stack(rf.cross_entropy(**given, axis=vocab, estimated_type="logits"))
        together = rf.cross_entropy(estimated=logits, target=wanted, axis=vocab, estimated_type="logits")
        assert torch.allclose(losses.copy_transpose(together.dims).raw_tensor, together.raw_tensor)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_edit_distance_in_other_types(dtype):
    letters, a_dim, b_dim = rf.Dim(4, name="letters"), rf.Dim(3, name="a"), rf.Dim(2, name="b")
    a = rf.convert_to_tensor([0, 1, 2], dims=[a_dim], sparse_dim=letters)
    b = rf.convert_to_tensor([0, 2], dims=[b_dim], sparse_dim=letters)
    found = rf.edit_distance(a, a_dim, b, b_dim, dtype=dtype)
    assert found.dtype == dtype and found.item() == 1


def test_label_smoothing_keeps_the_sum():
    smooth = rf.label_smoothing(rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab), 0.1)
    assert torch.allclose(smooth.raw_tensor.sum(-1), torch.ones(2, 3)) and torch.allclose(
        smooth.raw_tensor.max(-1).values, torch.tensor(0.9)
    )


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, float("nan")])
def test_smoothing_is_a_probability(smoothing):
    with pytest.raises(DimError, match="label_smoothing: `smoothing` must be a probability"):
        rf.label_smoothing(rf.convert_to_tensor(1, sparse_dim=vocab), smoothing)
    with pytest.raises(DimError, match="label_smoothed_log_prob_gradient: `smoothing` must be a probability"):
        rf.label_smoothed_log_prob_gradient(rf.zeros([vocab]), smoothing, axis=vocab)


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


words = st.lists(st.integers(0, 2), max_size=5)


@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=4))
def test_edit_distance(pairs):
    a_dim, b_dim, letters = rf.Dim(None, name="a"), rf.Dim(None, name="b"), rf.Dim(3, name="letters")
    a = rf.convert_to_tensor([a for a, _ in pairs], dims=[batch_dim, a_dim], sparse_dim=letters)
    b = rf.convert_to_tensor([b for _, b in pairs], dims=[batch_dim, b_dim], sparse_dim=letters)
    found = rf.edit_distance(a, a_dim, b, b_dim)
    assert found.dtype == "int32" and found.raw_tensor.tolist() == [distance(a, b) for a, b in pairs]
    assert np.array_equal(
        rf.edit_distance(b.copy_transpose([b_dim, batch_dim]), b_dim, a, a_dim).raw_tensor, found.raw_tensor
    )
