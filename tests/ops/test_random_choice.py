"""Labels drawn at random: as often as their probabilities say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

word, draws = rf.Dim(4, name="word"), rf.Dim(20000, name="draws")
PROBS = np.array([[0.1, 0.0, 0.6, 0.3], [0.0, 0.5, 0.5, 0.0]])
rows = rf.Dim(2, name="rows")


@pytest.fixture(autouse=True)
def seed():
    rf.set_random_seed(1)


def frequencies(labels):
    return np.stack([np.bincount(row, minlength=4) / len(row) for row in labels.raw_tensor.numpy()])


def test_with_replacement_each_is_drawn_as_often_as_its_probability():
    probs = rf.convert_to_tensor(PROBS * [[1.0], [3.0]], dims=[rows, word], dtype="float32")
    labels = rf.random_choice_with_replacement([rows, draws], probs=probs, axis=word)
    assert labels.dims == (rows, draws) and labels.sparse_dim is word and labels.dtype == "int64"
    np.testing.assert_allclose(frequencies(labels), PROBS, atol=0.02)
    assert (frequencies(labels)[PROBS == 0] == 0).all()
    turned = rf.random_choice_with_replacement([draws, rows], probs=probs, axis=word)
    assert turned.dims == (draws, rows)
    with pytest.raises(DimError, match="`dims` lacks rows"):
        rf.random_choice_with_replacement([draws], probs=probs, axis=word)


def test_without_replacement_no_entry_is_drawn_twice():
    log_probs = rf.log(rf.convert_to_tensor(PROBS, dims=[rows, word], dtype="float32"))
    two = rf.Dim(2, name="two")
    many = rf.expand_dim(log_probs, draws).copy_transpose([rows, draws, word])
    labels = rf.random_choice_without_replacement(log_probs=many, axis=word, num_samples_dim=two)
    assert labels.dims == (rows, draws, two) and labels.sparse_dim is word
    first, second = rf.gather(labels, indices=0, axis=two), rf.gather(labels, indices=1, axis=two)
    np.testing.assert_allclose(frequencies(first), PROBS, atol=0.02)
    assert not bool(rf.reduce_any(rf.equal(first, second), axis=[rows, draws]))
    assert set(labels.raw_tensor[1].flatten().tolist()) == {1, 2}


def test_without_noise_the_most_probable_are_taken():
    log_probs = rf.log(rf.convert_to_tensor(PROBS, dims=[rows, word], dtype="float32"))
    labels = rf.random_choice_without_replacement(
        log_probs=log_probs, axis=word, num_samples_dim=rf.Dim(2), noise_scale=0.0
    )
    assert labels.raw_tensor.tolist() == [[2, 3], [1, 2]]
    pairs = rf.random_choice_without_replacement(
        log_probs=log_probs, axis=[rows, word], num_samples_dim=rf.Dim(1), noise_scale=0.0
    )
    assert [p.raw_tensor.tolist() for p in pairs] == [[0], [2]]


def test_padding_is_never_drawn():
    time = rf.Dim(None, name="time")
    raw = torch.full((2, 5), float("nan"))
    raw[0], raw[1, :2] = 1.0, 1.0
    probs = rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=[5, 2])
    probs = probs.like(raw)
    labels = rf.random_choice_with_replacement([batch_dim, draws], probs=probs, axis=time)
    assert labels.raw_tensor[1].max() == 1 and labels.raw_tensor[0].max() == 4
    others = rf.random_choice_without_replacement(log_probs=rf.log(probs), axis=time, num_samples_dim=rf.Dim(2))
    assert set(others.raw_tensor[1].tolist()) == {0, 1}


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_without_any_probability_it_is_still_a_label(value):
    labels = rf.random_choice_with_replacement([draws], probs=rf.full(dims=[word], fill_value=value), axis=word)
    assert labels.raw_tensor.min() >= 0 and labels.raw_tensor.max() < 4


def test_in_a_loop_each_step_draws_anew_and_a_seed_repeats_it():
    time = rf.Dim(50, name="time")
    probs = rf.convert_to_tensor([[0.25] * 4] * 50, dims=[time, word])

    def run():
        rf.set_random_seed(3)
        with rf.Loop(axis=time) as loop:
            p = loop.unstack(probs)
            a = loop.stack(rf.random_choice_with_replacement([], probs=p, axis=word))
            b = loop.stack(rf.random_choice_without_replacement(log_probs=rf.log(p), axis=word, num_samples_dim=rows))
        return a.raw_tensor, b.raw_tensor

    (a, b), (again, too) = run(), run()
    assert torch.equal(a, again) and torch.equal(b, too)
    assert a.unique().tolist() == [0, 1, 2, 3] and b.unique().tolist() == [0, 1, 2, 3]
