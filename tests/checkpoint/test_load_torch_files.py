"""A module, its twin in torch, files of torch and safetensors: the same values, all around."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

import rfnb as rf

FEAT, OUT, FILTER = rf.Dim(4, name="feat"), rf.Dim(3, name="out"), 3


class Model(rf.Module):
    """Statistics, a shared weight, and a list."""

    def __init__(self):
        self.norm = rf.BatchNorm(FEAT)
        self.layers = rf.ModuleList(rf.Linear(FEAT, FEAT) for _ in range(2))
        self.layers.append(self.layers[0])
        self.out = rf.Linear(FEAT, OUT)
        self.again = rf.Linear(FEAT, OUT)
        self.again.weight = self.out.weight
        for parameter in self.parameters():
            parameter.initial = rf.init.Normal(1.0)


def same(a, b):
    pairs = zip(a.named_parameters(), b.named_parameters(), strict=True)
    return all(m == n and torch.equal(p.raw_tensor, q.raw_tensor) for (m, p), (n, q) in pairs)


def test_state_dicts(tmp_path):
    model, other = Model(), Model()
    state = rf.to_torch(model).state_dict()
    assert not same(model, other)
    assert rf.load(state, other).complete
    assert same(model, other)
    assert other.again.weight is other.out.weight


def test_files_of_torch(tmp_path):
    model, other = Model(), Model()
    torch.save(rf.to_torch(model).state_dict(), tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt", weights_only=True).keys() == rf.to_torch(model).state_dict().keys()
    assert rf.load(tmp_path / "model.pt", other).complete
    assert same(model, other)


def test_a_file_of_a_whole_module_says_how_to_save_its_weights(tmp_path):
    torch.save(torch.nn.Linear(4, 3), tmp_path / "model.pt")
    model, kept = Model(), Model()
    rf.load(rf.to_torch(model).state_dict(), kept)
    with pytest.raises(rf.errors.CheckpointError, match=r"torch\.save\(model\.state_dict\(\)") as caught:
        rf.load(tmp_path / "model.pt", model)
    assert "[1m" not in str(caught.value) and same(model, kept)


def test_from_safetensors_into_the_twin(tmp_path):
    model, other = Model(), Model()
    twin = rf.to_torch(other)
    tied = twin.load_state_dict(load_file(rf.save(model, tmp_path / "model.safetensors")), strict=False)
    assert not tied.unexpected_keys
    assert same(model, other)


def test_from_the_twin_over_safetensors(tmp_path):
    model, other = Model(), Model()
    state = {name: raw.clone() for name, raw in rf.to_torch(model).state_dict().items()}
    save_file(state, tmp_path / "plain.safetensors")
    assert rf.load(tmp_path / "plain.safetensors", other).complete
    assert same(model, other)


def test_both_save_the_same_names(tmp_path):
    model = Model()
    state = rf.to_torch(model).state_dict()
    saved = load_file(rf.save(model, tmp_path / "model.safetensors"))
    assert saved.keys() <= state.keys()
    assert all(torch.equal(saved[name], state[name]) for name in saved)


def test_a_model_is_built_again_from_its_file(tmp_path):
    vocab, model_dim = rf.Dim(5, name="vocab"), rf.Dim(8, name="model")
    config = rf.build_dict(
        rf.TransformerDecoder,
        encoder_dim=None,
        vocab_dim=vocab,
        model_dim=model_dim,
        num_layers=2,
        num_heads=2,
        ff=rf.build_dict(rf.FeedForwardGated, ff_dim=6),
        ff_activation=rf.build_dict(rf.gelu),
        norm=rf.build_dict(rf.RMSNorm, eps=1e-5),
        share_embedding=True,
    )
    model = rf.build_from_dict(config)
    path = rf.save(model, tmp_path / "model.safetensors", config=config)
    other = rf.build_from_dict(rf.load_config(path))
    assert rf.load(path, other).complete
    assert same(model, other)
    assert other.final_layer_norm.eps == 1e-5
