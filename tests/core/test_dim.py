"""Dims are identities; expressions of them are canonical; sizes come from the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim


def test_equal_size_never_makes_dims_equal():
    assert Dim(4, name="a") != Dim(4, name="a")


def test_the_same_expression_is_the_same_dim():
    time, feat, heads = Dim(None, name="time"), Dim(6, name="feat"), Dim(2, name="heads")
    assert time + 1 - 1 is time
    assert 1 + time is time + 1
    assert 2 * feat // 2 is feat
    assert (time + 1) + (time + 1) is 2 * time + 2
    assert heads * feat is heads * feat
    assert heads * feat is not feat * heads, "two layouts"
    assert heads + feat is not feat + heads
    assert heads + feat - feat is heads
    assert (heads * feat) // heads is feat
    assert 3 * heads * feat // heads is 3 * feat
    assert feat // feat is heads // heads
    assert time.ceildiv_right(2).ceildiv_right(3) is time.ceildiv_right(6)
    assert time - time + feat is feat


def test_products_divide_products():
    t, s = Dim(None, name="t"), Dim(None, name="s")
    assert (t * s * s) // (t * s) is s
    assert (t * s) // (t * s) is t // t


def test_numbers_of_numpy_are_numbers():
    time = Dim(None, name="time")
    assert time + np.int64(1) is time + 1
    assert time - np.int32(1) is time - 1
    assert time * np.int64(2) is 2 * time
    assert time // np.int64(2) is time // 2
    assert time % np.int64(2) is time % 2


def test_a_number_by_a_dim():
    assert (10 // Dim(3)).dimension == 3
    assert (10 // Dim(None, name="time")).name == "⌊10/time⌋"


@pytest.mark.parametrize("divide", [lambda t: t // 0, lambda t: t % 0, lambda t: t.ceildiv_right(0)])
def test_division_by_zero(divide):
    with pytest.raises(rf.errors.DimError, match="by 0"):
        divide(Dim(None, name="time"))


def test_static_expressions_have_their_size_at_once():
    feat = Dim(7, name="feat")
    sizes = [(feat + 1).dimension, (3 * feat).dimension, (feat // 2).dimension, feat.ceildiv_right(2).dimension]
    assert sizes == [8, 21, 3, 4]
    assert (feat % 4).dimension == 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda t: t + 1, "time+1"),
        (lambda t: t - 2, "time-2"),
        (lambda t: 2 * t + 1, "2*time+1"),
        (lambda t: (t + 2).ceildiv_right(3), "⌈(time+2)/3⌉"),
        (lambda t: t // 2, "⌊time/2⌋"),
    ],
)
def test_expressions_read_like_maths(make, text):
    dim = make(Dim(None, name="time"))
    assert (dim.name, dim.formula) == (text, text)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 4), st.integers(1, 4))
def test_derived_lengths_are_computed_from_the_batch(lengths, more, by):
    time = Dim(None, name="time")
    rf.convert_to_tensor(np.zeros((len(lengths), max(lengths))), dims=[batch_dim, time], lengths=lengths)
    derived = (time + more).ceildiv_right(by)
    assert derived.size.values.tolist() == [-(-(n + more) // by) for n in lengths]
    assert derived.get_dim_value() == max(-(-(n + more) // by) for n in lengths)


def test_a_derived_length_is_never_negative():
    time = Dim(None, name="time")
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, time], lengths=[0, 3])
    assert (time - 1).size.values.tolist() == [0, 2]


def test_a_new_batch_leaves_tensors_as_they_were():
    time = Dim(None, name="time")
    first = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    second = rf.convert_to_tensor(torch.ones(3, 2), dims=[batch_dim, time], lengths=[1, 2, 2])
    assert rf.reduce_sum(first, axis=time).raw_tensor.tolist() == [3.0, 1.0]
    assert rf.reduce_sum(second, axis=time).raw_tensor.tolist() == [1.0, 2.0, 2.0]
    assert first.size_of(time + 1).values.tolist() == [4, 2]


def test_two_batches_do_not_mix():
    time = Dim(None, name="time")
    first = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    second = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 2])
    with pytest.raises(rf.errors.DimRebound, match=r"test_dim.py:\d+.* and .*test_dim.py:\d+"):
        first + second
    same = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    assert (first + same).raw_tensor.sum().item() == 12.0


def test_batches_of_another_size_do_not_broadcast():
    one = rf.convert_to_tensor(torch.ones(1), dims=[batch_dim])
    four = rf.convert_to_tensor(torch.ones(4), dims=[batch_dim])
    with pytest.raises(rf.errors.DimRebound):
        one + four


def test_a_result_outlives_the_lengths_that_it_no_longer_has():
    time = Dim(None, name="time")
    kept = rf.reduce_sum(rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1]), axis=time)
    other = rf.convert_to_tensor(torch.ones(2, 5), dims=[batch_dim, time], lengths=[5, 2])
    assert rf.reduce_sum(other + kept, axis=time).raw_tensor.tolist() == [20.0, 4.0]


def test_a_vocab_needs_the_size_of_its_dim():
    assert Dim(2, name="v", vocab=["a", "b"]).vocab.decode(1) == "b"
    with pytest.raises(rf.errors.DimError, match="vocab"):
        Dim(3, name="v", vocab=["a", "b"])


def test_a_vocab_from_a_file_and_from_a_tokenizer(tmp_path):
    (tmp_path / "labels").write_text("x\ny\n")
    assert Dim(2, vocab=str(tmp_path / "labels")).vocab.labels == ("x", "y")

    class Tokenizer:
        vocab_size = 3

        def decode(self, ids):
            return f"<{ids[0]}>"

    assert Dim(3, vocab=Tokenizer()).vocab.decode(2) == "<2>"


def test_declare_same_as_is_for_dims_that_are_in_no_tensor():
    time, other = Dim(None, name="time"), Dim(None, name="other")
    rf.convert_to_tensor(torch.ones(1, 3), dims=[batch_dim, time], lengths=[3])
    other.declare_same_as(time)
    assert other.size.values.tolist() == [3]
    with pytest.raises(rf.errors.DimError, match="in use"):
        time.declare_same_as(Dim(3))


def test_an_output_dim_belongs_to_the_op_that_defined_it():
    time, out = Dim(None, name="time"), Dim(None, name="out")
    for lengths in ([3, 1], [2, 2]):
        x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=lengths)
        rf.concat((x, time), (x, time), out_dim=out)
        assert np.broadcast_to(out.size.values, 2).tolist() == [2 * n for n in lengths]
    with pytest.raises(rf.errors.DimError, match="in use"):
        rf.slice(x, axis=time, start=0, size=1, out_dim=out)
