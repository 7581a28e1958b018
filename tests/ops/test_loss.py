"""Losses and error measures, against numpy and plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

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
    with pytest.raises(DimError, match="does not count the classes"):
        rf.cross_entropy(
            estimated=rf.convert_to_tensor(LOGITS, dims=[batch_dim, time, vocab]),
            target=target,
            axis=vocab,
            estimated_type="logits",
        )


def test_label_smoothing_keeps_the_sum():
    smooth = rf.label_smoothing(rf.convert_to_tensor(LABELS, dims=[batch_dim, time], sparse_dim=vocab), 0.1)
    assert torch.allclose(smooth.raw_tensor.sum(-1), torch.ones(2, 3)) and torch.allclose(
        smooth.raw_tensor.max(-1).values, torch.tensor(0.9)
    )


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


words = st.lists(st.integers(0, 2), max_size=5)


@settings(deadline=None)
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
