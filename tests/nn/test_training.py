"""From samples to a trained model, in plain torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils.data import DataLoader

import rfnb as rf

LETTER = rf.Dim(4, name="letter", vocab=list("abcd"))
HIDDEN = rf.Dim(8, name="hidden")
WORDS = [{"word": word, "letters": word} for word in ("abcd", "bc", "d", "cabd", "dad", "abba")]


class Copy(rf.Module):
    """Says at each letter which one it is."""

    def __init__(self):
        self.embedding = rf.Embedding(LETTER, HIDDEN)
        self.rnn = rf.LSTM(HIDDEN, HIDDEN)
        self.norm = rf.LayerNorm(HIDDEN)
        self.out = rf.Linear(HIDDEN, LETTER)

    def __call__(self, letters, time):
        x = self.embedding(letters)
        state = self.rnn.default_initial_state(batch_dims=[rf.batch_dim])
        x, _ = self.rnn(x, state=state, spatial_dim=time)
        return self.out(self.norm(x))


def loss_of(model, letters, time):
    scores = rf.log_softmax(model(letters, time), axis=LETTER)
    return -rf.reduce_mean(rf.gather(scores, indices=letters, axis=LETTER), axis=[rf.batch_dim, time])


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def model():
    rf.set_random_seed(1)
    return Copy()


def test_it_learns(model, time):
    loader = DataLoader(
        WORDS, batch_size=4, collate_fn=rf.collate({"letters": [rf.batch_dim, time]}, sparse={"letters": LETTER})
    )
    optimizer = torch.optim.Adam(rf.torch_parameters(model), lr=0.05)
    losses = []
    for _ in range(15):
        for batch in loader:
            loss = loss_of(model, batch["letters"], time)
            optimizer.zero_grad()
            loss.raw_tensor.backward()
            optimizer.step()
            losses.append(loss.raw_tensor.item())
    assert losses[-1] < 0.2 < 1 < losses[0]


def test_batched_is_one_by_one(model, time):
    join = rf.collate({"letters": [rf.batch_dim, time]}, sparse={"letters": LETTER})
    batched = model(join(WORDS)["letters"], time).copy_transpose([rf.batch_dim, time, LETTER]).raw_tensor
    for i, word in enumerate(WORDS):
        alone = model(join([word])["letters"], time).copy_transpose([rf.batch_dim, time, LETTER]).raw_tensor
        assert torch.allclose(batched[i, : len(word["word"])], alone[0], atol=1e-5)


def test_a_checkpoint_computes_the_same(model, time, tmp_path):
    other = Copy()
    rf.load_checkpoint(other, rf.save_checkpoint(model, tmp_path / "copy.safetensors"))
    letters = rf.collate({"letters": [rf.batch_dim, time]}, sparse={"letters": LETTER})(WORDS)["letters"]
    assert torch.equal(model(letters, time).raw_tensor, other(letters, time).raw_tensor)


def test_a_deep_copy_has_the_same_dims_and_other_parameters(model, time):
    other = copy.deepcopy(model)
    letters = rf.collate({"letters": [rf.batch_dim, time]}, sparse={"letters": LETTER})(WORDS)["letters"]
    assert other.out.weight.dims == model.out.weight.dims
    assert torch.equal(model(letters, time).raw_tensor, other(letters, time).raw_tensor)
    other.out.bias.assign(1.0)
    assert (model.out.bias.raw_tensor == 0).all()
