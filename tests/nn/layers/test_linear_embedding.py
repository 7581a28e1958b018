"""Embedding against torch.nn."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim


@pytest.fixture
def letter():
    return rf.Dim(5, name="letter", vocab=list("abcde"))


@pytest.fixture
def out():
    return rf.Dim(6, name="out")


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def letters(letter, time):
    return rf.convert_to_tensor(["abc", "ea"], dims=[BATCH, time], sparse_dim=letter)


def test_the_parameter_has_the_name_and_dims_of_the_reference(letter, out):
    assert {n: p.dims for n, p in rf.Embedding(letter, out).named_parameters()} == {"weight": (letter, out)}


def test_as_torch_with_gradients(letter, out, time, letters):
    embedding = rf.Embedding(letter, out)
    twin = torch.nn.Embedding.from_pretrained(embedding.weight.raw_tensor.detach().clone(), freeze=False)
    y, expected = embedding(letters), twin(letters.raw_tensor) * time.get_mask().raw_tensor[..., None]
    y = y.copy_masked(0.0)
    assert y.dims == (BATCH, time, out)
    assert y.feature_dim is out
    assert y.sparse_dim is None
    assert torch.equal(y.raw_tensor, expected)
    y.raw_tensor.square().sum().backward()
    expected.square().sum().backward()
    assert torch.allclose(embedding.weight.raw_tensor.grad, twin.weight.grad)


def test_padding_is_never_looked_up(letter, out, time):
    embedding = rf.Embedding(letter, out)
    raw = torch.tensor([[0, 1, 2], [3, 99, -7]])
    y = embedding(rf.convert_to_tensor(raw, dims=[BATCH, time], lengths=[3, 1], sparse_dim=letter))
    loss = rf.reduce_sum(y, axis=[BATCH, time, out])
    loss.raw_tensor.backward()
    assert embedding.weight.raw_tensor.grad.sum(dim=1).tolist() == [6, 6, 6, 6, 0]


def test_one_label_as_in_a_loop(letter, out):
    label = rf.convert_to_tensor(torch.tensor([1, 4]), dims=[BATCH], sparse_dim=letter)
    embedding = rf.Embedding(letter, out)
    assert torch.equal(embedding(label).raw_tensor, embedding.weight.raw_tensor[[1, 4]])


def test_other_labels_are_refused(letter, out, time, letters):
    with pytest.raises(rf.errors.DimError, match="not sparse in out"):
        rf.Embedding(out, letter)(letters)
    plain = rf.convert_to_tensor(torch.tensor([1, 4]), dims=[BATCH])
    with pytest.raises(rf.errors.DimError, match="set_sparse_dim"):
        rf.Embedding(letter, out)(plain)


def test_a_dim_into_itself(letter, time, letters):
    embedding, valid = rf.Embedding(letter, letter), time.get_mask().raw_tensor
    assert torch.equal(embedding(letters).raw_tensor[valid], embedding.weight.raw_tensor[letters.raw_tensor[valid]])
