"""A Conformer with an LSTM decoder, as models are published: trained and searched, in a batch and one by one."""

from __future__ import annotations

import numpy as np
import pytest
import returnn.frontend as rf
import torch
from returnn.config import global_config_ctx
from returnn.tensor import batch_dim

from tests.outside import acoustic_model
from tests.outside.engine import bad_gradients, best, fill, train

RNG = np.random.default_rng(1)
SEQS = [
    {"data": RNG.normal(size=(n, 1)), "classes": RNG.integers(1, 5, size=m)} for n, m in [(900, 5), (640, 2), (400, 3)]
]


@pytest.fixture
def extern_data():
    return acoustic_model.make_extern_data()


@pytest.fixture
def model(extern_data):
    rf.set_random_seed(3)
    return acoustic_model.get_model(extern_data=extern_data)


def test_lengths_come_with_the_batch(extern_data):
    time = extern_data["data"].get_time_dim_tag()
    assert time.dyn_size_ext.dims == (batch_dim,) and time.dyn_size_ext.raw_tensor is None
    fill(extern_data, SEQS)
    assert time.get_dim_value() == 900 and time.get_size_tensor().raw_tensor.tolist() == [900, 640, 400]


def test_gradients_are_finite_in_training(model, extern_data):
    losses = train(model, fill(extern_data, SEQS), acoustic_model.train_step)
    assert list(losses) == ["ctc_1", "ce", "fer"] and all(np.isfinite(loss) for loss in losses.values())
    assert not bad_gradients(model)


def test_losses_of_a_batch_are_those_of_its_sequences(model, extern_data):
    def losses(seqs):
        return train(model, fill(extern_data, seqs), acoustic_model.train_step, train_flag=False)

    together, alone = losses(SEQS), [losses([seq]) for seq in SEQS]
    assert together == pytest.approx({name: sum(each[name] for each in alone) for name in together}, rel=1e-4)


def test_search_in_a_batch_finds_what_it_finds_alone(model, extern_data):
    def search(seqs):
        rf.init_forward_step_run_ctx()
        data = fill(extern_data, seqs)["data"]
        with torch.no_grad():
            labels, scores, out_dim, beam = acoustic_model.model_recog(
                model=model, data=data, data_spatial_dim=data.get_time_dim_tag(), length_normalization_exponent=0.0
            )
        scores = scores.copy_compatible_to_dims_raw([batch_dim, beam])
        return [*zip(best(labels, out_dim, beam, batch_dim), scores, strict=True)]

    together, alone = search(SEQS), [search([seq])[0] for seq in SEQS]
    assert [labels for labels, _ in together] == [labels for labels, _ in alone]
    torch.testing.assert_close([scores for _, scores in together], [scores for _, scores in alone])
    assert max(len(labels) for labels, _ in together) > 1


def test_layers_may_be_kept_from_the_first_ones(extern_data):
    with global_config_ctx({"pretrain_num_layers": 2, "weight_decay": 0.5}):
        model = acoustic_model.get_model(extern_data=extern_data, ff=rf.build_dict(rf.FeedForwardGated))
    assert list(dict(model.encoder.layers.items())) == ["0", "1"]
    assert next(model.parameters()).weight_decay == 0.5
    assert "enc_ff.linear_ff.weight" in dict(model.named_parameters())
