"""A transducer as models are published: trained with a loss of plain torch, searched, in a batch and one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import returnn.frontend as rf
import torch
from returnn.tensor import batch_dim

from tests.outside import transducer_model
from tests.outside.engine import bad_gradients, fill, sequences, train

RNG = np.random.default_rng(3)
SEQS = [
    {"data": 2 * RNG.normal(size=(n, 6)), "classes": RNG.integers(0, 4, size=m)} for n, m in [(11, 3), (6, 4), (8, 0)]
]


@pytest.fixture
def extern_data():
    return transducer_model.make_extern_data()


@pytest.fixture
def model(extern_data):
    rf.set_random_seed(5)
    model = transducer_model.get_model(extern_data=extern_data)
    with torch.no_grad():  # a model that is sure of something, and not always of the blank
        for name, parameter in model.named_parameters():
            parameter.raw_tensor.mul_(3.0 if "weight" in name else 1.0)
    return model


def test_the_loss_is_the_sum_over_all_paths():
    scores = torch.log(torch.full((1, 4, 3, 3), 1 / 3))
    loss = transducer_model.full_sum(scores, torch.tensor([[0, 1]]), [4], [2], blank=2)
    assert loss.item() == pytest.approx(6 * math.log(3) - math.log(transducer_model.count_paths(4, 2)))


def test_gradients_are_finite_in_training(model, extern_data):
    losses = train(model, fill(extern_data, SEQS), transducer_model.train_step)
    assert list(losses) == ["full_sum", "blank", "len"] and all(np.isfinite(loss) for loss in losses.values())
    assert not bad_gradients(model)


def test_losses_of_a_batch_are_those_of_its_sequences(model, extern_data):
    def losses(seqs):
        return train(model, fill(extern_data, seqs), transducer_model.train_step, train_flag=False)

    together, alone = losses(SEQS), [losses([seq]) for seq in SEQS]
    assert together["full_sum"] == pytest.approx(sum(each["full_sum"] for each in alone), rel=1e-5)
    assert together["blank"] == sum(each["blank"] for each in alone)
    assert together["len"] == pytest.approx(np.mean([each["len"] for each in alone]))


def searched(model, extern_data, seqs, **options):
    rf.init_forward_step_run_ctx()
    data = fill(extern_data, seqs)["data"]
    time = data.get_time_dim_tag()
    with torch.no_grad():
        if not options:
            labels, out_dim = transducer_model.model_recog_greedy(model=model, data=data, data_spatial_dim=time)
            return sequences(labels, out_dim, batch_dim), None
        labels, scores, frames, beam = transducer_model.model_recog(
            model=model, data=data, data_spatial_dim=time, **options
        )
    paths = sequences(rf.gather(labels, indices=0, axis=beam), frames, batch_dim)
    found = [[label for label in path if label != model.blank_idx] for path in paths]
    return found, scores.copy_compatible_to_dims_raw([batch_dim, beam])


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"beam_size": 5}], ids=["greedy", "beam 1", "beam 5"])
def test_search_in_a_batch_finds_what_it_finds_alone(model, extern_data, options):
    labels, scores = searched(model, extern_data, SEQS, **options)
    alone = [searched(model, extern_data, [seq], **options) for seq in SEQS]
    assert labels == [found for (found,), _ in alone] and any(labels)
    if options:
        torch.testing.assert_close(scores, torch.cat([each for _, each in alone]))


def test_a_beam_of_one_is_greedy_and_a_larger_one_is_better(model, extern_data):
    greedy, _ = searched(model, extern_data, SEQS)
    one, worst = searched(model, extern_data, SEQS, beam_size=1)
    _, scores = searched(model, extern_data, SEQS, beam_size=5)
    assert greedy == one and bool((scores[:, :1] >= worst - 1e-5).all())
