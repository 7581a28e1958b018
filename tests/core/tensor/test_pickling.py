"""Tensors and dims travel: identity is kept within a process, and among all that comes from another."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.backend.torch.backend import TorchBackend


def travelled(what):
    return pickle.loads(pickle.dumps(what))


@pytest.fixture
def time():
    return Dim(None, name="time")


@pytest.fixture
def x(time):
    return rf.convert_to_tensor(torch.randn(2, 3), dims=[batch_dim, time], lengths=[3, 2], tags=["a", "b"])


def test_a_dim_is_the_same_in_its_process(time):
    feat = Dim(3, name="feat", vocab=list("abc"))
    dims = [time, feat, batch_dim, rf.single_step_dim, time + 1, 2 * feat]
    assert all(a is b for a, b in zip(travelled(dims), dims, strict=True))


def test_a_tensor_fits_to_the_one_that_stayed(x, time):
    y = travelled(x)
    assert (y.name, y.dtype, y.dims) == (x.name, x.dtype, x.dims)
    assert torch.equal((x - y).raw_tensor, torch.zeros(2, 3))
    assert y.size_of(time).values.tolist() == [3, 2]
    assert y.size_of(batch_dim).tags == ["a", "b"]


def test_tensors_of_one_pickle_share_their_lengths(x):
    y, z = travelled((x, x + 1))
    assert y.lengths is z.lengths
    assert travelled(rf.ones([])).lengths is rf.ones([]).lengths


def test_a_copy_has_the_same_lengths_and_other_numbers(x):
    y = copy.deepcopy(x)
    assert y.lengths is x.lengths
    assert y.raw_tensor is not x.raw_tensor


def test_a_module_keeps_what_its_parameters_are():
    layer = rf.Linear(Dim(2, name="a"), Dim(3, name="b"))
    layer.weight.weight_decay, layer.bias.trainable = 0.5, False
    for other in (travelled(layer), copy.deepcopy(layer)):
        assert other.weight.dims == layer.weight.dims
        assert isinstance(other.weight.raw_tensor, torch.nn.Parameter)
        assert (other.weight.weight_decay, other.bias.trainable, other.weight.name) == (0.5, False, "weight")
        assert other.weight.raw_tensor.data_ptr() != layer.weight.raw_tensor.data_ptr()


@pytest.mark.slow
def test_in_another_process_and_back(python, x, time, tmp_path):
    (tmp_path / "there").write_bytes(pickle.dumps((x, time + 1)))
    code = f"""
import pickle, sys
x, later = pickle.load(open({str(tmp_path / "there")!r}, "rb"))
import rfnb as rf
batch, time = x.dims
assert batch is rf.batch_dim and later is time + 1 and time.is_dynamic()
assert rf.zeros([rf.batch_dim, later]).size_of(later).values.tolist() == [4, 3]
assert pickle.load(open({str(tmp_path / "there")!r}, "rb"))[0].dims == x.dims
pickle.dump((x * 2.0, rf.Dim(7, name="new")), open({str(tmp_path / "back")!r}, "wb"))
"""
    subprocess.run([python, "-c", code], check=True)
    y, new = pickle.loads((tmp_path / "back").read_bytes())
    assert torch.equal((y - x).raw_tensor, x.raw_tensor)
    assert new.dimension == 7


def test_what_is_known_of_padding_does_not_travel(x):
    """It is known up to a change in place, and these are counted anew where a tensor arrives."""
    known = TorchBackend.note_empty_padding(x.like(TorchBackend.fill_padding(x, 0)))
    assert known._emptied is not None
    assert travelled(known)._emptied is None


@pytest.mark.parametrize("function", [rf.relu, rf.swish, rf.add, rf.mod, rf.reduce_max, rf.pool2d])
def test_ops_made_from_a_table_travel_by_name(function):
    assert travelled(function) is function


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_equal_serials_are_other_dims(time, tmp_path):
    if (child := os.fork()) == 0:
        (tmp_path / "dims").write_bytes(pickle.dumps((time, [Dim(3, name="theirs") for _ in range(8)])))
        os._exit(0)
    os.waitpid(child, 0)
    ours = [Dim(5, name="ours") for _ in range(8)]
    same, theirs = pickle.loads((tmp_path / "dims").read_bytes())
    assert same is time
    assert [dim.name for dim in theirs] == ["theirs"] * 8
    assert len(ours) == 8
