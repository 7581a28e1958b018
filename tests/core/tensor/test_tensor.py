"""Tensors from data: shapes are checked, lengths bound, mistakes explained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from rfnb.errors import DtypeError


def test_unequal_sequences_are_padded():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0], [], [3.0, 4.0, 5.0]], dims=[batch_dim, time])
    assert x.raw_tensor.tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 4.0, 5.0]]
    assert x.dtype == "float32"
    assert x.size_of(time).values.tolist() == [2, 0, 3]


def test_strings_are_read_through_the_vocab():
    time, letter = Dim(None, name="time"), Dim(3, name="letter", vocab=list("abc"))
    x = rf.convert_to_tensor(["ab", "c", ""], dims=[batch_dim, time], sparse_dim=letter, tags=["x", "y", "z"])
    assert x.raw_tensor.tolist() == [[0, 1], [2, 0], [0, 0]]
    assert x.sparse_dim is letter
    assert x.size_of(batch_dim).tags == ["x", "y", "z"]
    with pytest.raises(rf.errors.DimError, match="'d'"):
        rf.convert_to_tensor(["abd"], dims=[batch_dim, time], sparse_dim=letter)


def test_frames_that_no_sequence_has_are_cut():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(np.ones((2, 9)), dims=[batch_dim, time], lengths=torch.tensor([4, 2]))
    assert tuple(x.raw_tensor.shape) == (2, 4)


@pytest.mark.parametrize(
    ("shape", "lengths", "match"),
    [
        ((2, 3), None, "2 axes"),
        ((2, 3, 5), [3, 1], "does not fit feat"),
        ((2, 3, 4), [3, 4], "do not fit"),
        ((2, 3, 4), [3], "each sequence needs a length"),
        ((2, 3, 4), [3, -1], "do not fit"),
    ],
)
def test_data_that_does_not_fit(shape, lengths, match):
    time, feat = Dim(None, name="time"), Dim(4, name="feat")
    with pytest.raises(rf.errors.DimError, match=match):
        rf.convert_to_tensor(torch.zeros(shape), dims=[batch_dim, time, feat], lengths=lengths)


def test_a_ragged_dim_needs_lengths_for_a_new_batch():
    time = Dim(None, name="time")
    rf.convert_to_tensor(torch.zeros(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    with pytest.raises(rf.errors.DimError, match="lengths=…"):
        rf.convert_to_tensor(torch.zeros(2, 5), dims=[batch_dim, time])


def test_no_operand_with_all_dims_is_refused():
    a, b = Dim(2, name="time"), Dim(2, name="time")
    x, y = rf.ones([a]), rf.ones([b])
    with pytest.raises(rf.errors.DimError, match="two dims called time"):
        x + y
    assert set(rf.combine_bc(x, "add", y).dims) == {a, b}
    with pytest.raises(rf.errors.DimError):
        x + y  # a plan that was made with leave is not kept for those without


def test_the_dtype_is_that_of_the_raw_tensor():
    x = Tensor("x", [batch_dim], raw_tensor=torch.ones(2, dtype=torch.float64))
    assert x.dtype == "float64"
    assert (x + 1).dtype == "float64"
    with pytest.raises(rf.errors.DtypeError):
        Tensor("x", [batch_dim], "int64", raw_tensor=torch.ones(2))


def test_python_habits_are_answered_with_the_way():
    x = rf.ones([Dim(3, name="feat")])
    for use in (len, iter, lambda v: v[0], bool, float, lambda v: f"{v:.3f}"):
        with pytest.raises(rf.errors.DimError, match="feat"):
            use(x)
    assert float(rf.ones([])) == 1.0
    total = rf.reduce_sum(x, axis=x.dims)
    assert (f"{total:.3f}", f"{total:>8.1e}", f"{rf.cast(total, 'int64'):03d}") == ("3.000", " 3.0e+00", "003")
    assert f"{x}" == str(x)


def test_reflected_operators_and_numbers():
    x = rf.convert_to_tensor(torch.tensor([1.0, 2.0]), dims=[Dim(2, name="feat")])
    assert (3.0 - x).raw_tensor.tolist() == [2.0, 1.0]
    assert (2 / x).raw_tensor.tolist() == [2.0, 1.0]
    assert (2**x).raw_tensor.tolist() == [2.0, 4.0]
    assert (x > 1).raw_tensor.tolist() == [False, True]
    assert (x + True).dtype == "float32"


def test_a_tensor_is_called_as_the_line_calls_it():
    energies = rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim])
    named = rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim], name="given")
    assert (energies.name, named.name, (energies + 1.0).name) == ("energies", "given", "tensor")


@pytest.mark.parametrize("wrong", [[3], ["time"], Dim(3, name="feat")])
def test_what_is_no_dim_is_named(wrong):
    with pytest.raises(rf.errors.DimError, match="Dim"):
        rf.zeros(wrong)


def test_an_axis_that_is_no_dim():
    x = rf.ones([Dim(3, name="feat")])
    for call in (lambda: rf.softmax(x, axis=-1), lambda: rf.reduce_sum(x, axis="feat"), lambda: rf.Loop(axis="time")):
        with pytest.raises(rf.errors.DimError, match="is not a Dim"):
            call()
    with pytest.raises(rf.errors.DimError, match="name="):
        Dim("time")


def test_data_that_does_not_fit_binds_nothing():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    with pytest.raises(rf.errors.DimError):
        rf.convert_to_tensor(np.ones((5, 3)), dims=[time, feat])
    assert not time.is_defined()
    rf.convert_to_tensor(np.ones((5, 6, 4)), dims=[time, time + 1, feat])
    with pytest.raises(rf.errors.DimError):
        rf.convert_to_tensor(np.ones((7, 4)), dims=[time + 1, feat])
    assert time.size.max == 5


@pytest.mark.parametrize("data", [[1.0], torch.ones(3), np.ones(2), 1.5, None], ids=str)
def test_data_in_place_of_a_name_names_the_function_that_takes_data(data):
    with pytest.raises(DtypeError, match=r"(?s)Tensor: the first argument is the name.*rf\.convert_to_tensor\("):
        rf.Tensor(data)
