"""A language model as models are published: trained, searched and sampled from, in a batch and one by one."""

from __future__ import annotations

import numpy as np
import pytest
import returnn.frontend as rf
import torch
from returnn.tensor import batch_dim

from tests.outside import language_model
from tests.outside.engine import bad_gradients, best, fill, sequences, train

RNG = np.random.default_rng(2)
SEQS = [{"data": RNG.integers(7, size=n)} for n in (6, 1, 4)]


@pytest.fixture
def extern_data():
    return language_model.make_extern_data()


@pytest.fixture
def model(extern_data):
    rf.set_random_seed(4)
    return language_model.get_model(extern_data=extern_data)


def test_the_embedding_is_the_output_layer(model):
    names = dict(model.named_parameters())
    assert "input_embedding.weight" in names and "logits.weight" not in names
    assert model.logits.weight is model.input_embedding.weight and model.logits.out_dim is model.vocab_dim


def test_gradients_are_finite_in_training(model, extern_data):
    losses = train(model, fill(extern_data, SEQS), language_model.train_step)
    assert list(losses) == ["ce", "sqr", "fer"] and all(np.isfinite(loss) for loss in losses.values())
    assert not bad_gradients(model)


def test_losses_of_a_batch_are_those_of_its_sequences(model, extern_data):
    def loss(seqs):
        return train(model, fill(extern_data, seqs), language_model.train_step, train_flag=False)

    together, alone = loss(SEQS), [loss([seq]) for seq in SEQS]
    for name in ("ce", "fer"):
        assert together[name] == pytest.approx(sum(each[name] for each in alone), rel=1e-5)


def test_fewer_layers_may_be_trained_at_first(model, extern_data):
    kept = model.layers[:]
    del model.layers[1:]
    assert list(dict(model.layers.items())) == ["0"]
    first = train(model, fill(extern_data, SEQS), language_model.train_step)
    model.layers[:] = kept
    assert list(dict(model.layers.items())) == ["0", "1", "2"]
    assert train(model, fill(extern_data, SEQS), language_model.train_step)["ce"] != first["ce"]


def test_outputs_of_a_batch_are_those_of_its_sequences(model, extern_data):
    def scores(seqs):
        ctx = rf.init_forward_step_run_ctx()
        with torch.no_grad():
            language_model.forward_step(model=model, extern_data=fill(extern_data, seqs))
        assert ctx.outputs["none"].dims[0] is batch_dim and ctx.outputs["none"].dims[1].dimension == 2
        found = ctx.outputs["scores"]
        return sequences(found, found.dims[1], batch_dim)

    for together, seq in zip(scores(SEQS), SEQS, strict=True):
        assert together == pytest.approx(scores([seq])[0], rel=1e-5)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_in_a_batch_finds_what_it_finds_alone(model, extern_data, beam_size):
    def search(seqs):
        rf.init_forward_step_run_ctx()
        prefix = fill(extern_data, seqs)["data"]
        with torch.no_grad():
            labels, scores, out_dim, beam = language_model.beam_search(
                model=model,
                prefix=prefix,
                spatial_dim=prefix.get_time_dim_tag(),
                beam_size=beam_size,
                max_seq_len=7,
            )
        return best(labels, out_dim, beam, batch_dim), scores.copy_compatible_to_dims_raw([batch_dim, beam])

    labels, scores = search(SEQS)
    assert scores.shape == (3, beam_size) and scores.isfinite().all()
    for i, seq in enumerate(SEQS):
        labels_alone, scores_alone = search([seq])
        assert labels[i] == labels_alone[0]
        torch.testing.assert_close(scores[i], scores_alone[0])


def test_the_search_scores_as_the_model_does(model, extern_data):
    """The score of each hypothesis of one sequence, computed again in one call."""
    rf.init_forward_step_run_ctx()
    prefix = fill(extern_data, SEQS[:1])["data"]
    time = prefix.get_time_dim_tag()
    with torch.no_grad():
        labels, scores, out_dim, beam = language_model.beam_search(
            model=model, prefix=prefix, spatial_dim=time, beam_size=3, max_seq_len=5
        )
        seq, seq_dim = rf.concat((prefix, time), (labels, out_dim), allow_broadcast=True)
        state = model.default_initial_state(batch_dims=seq.remaining_dims(seq_dim))
        logits, _ = model(seq, spatial_dim=seq_dim, state=state)
        log_prob = rf.log_softmax(logits, axis=model.vocab_dim)
        shifted = rf.shift_left(seq, axis=seq_dim, pad_value=0)
        chosen = rf.gather(log_prob, indices=shifted, axis=model.vocab_dim)
        place = rf.range_over_dim(seq_dim)
        counted = (place >= time.get_size_tensor() - 1) & (place < seq_dim.get_size_tensor() - 1)
        again = rf.reduce_sum(rf.where(counted, chosen, 0.0), axis=seq_dim)
    order = [batch_dim, beam]
    torch.testing.assert_close(
        again.copy_compatible_to_dims_raw(order), scores.copy_compatible_to_dims_raw(order), rtol=1e-4, atol=1e-4
    )


def test_samples_are_likely_labels(model, extern_data):
    rf.init_forward_step_run_ctx()
    prefix = fill(extern_data, SEQS)["data"]
    with torch.no_grad():
        labels, dim = language_model.sample(model=model, prefix=prefix, spatial_dim=prefix.get_time_dim_tag(), num=5)
    assert labels.dims_set == {batch_dim, dim} and labels.sparse_dim is model.vocab_dim
    assert set(labels.raw_tensor.flatten().tolist()) <= set(range(8))
