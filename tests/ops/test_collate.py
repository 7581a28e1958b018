"""Samples become a batch: padded, with true lengths and tags, one binding for all its tensors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import rfnb as rf
from rfnb.core.dims.binding import current_lengths
from rfnb.errors import DimError, DtypeError, ParameterError

LETTERS = "abcdefgh"
WORDS = [
    {"word": "cab", "letters": "cab", "phones": ["K", "AE", "B"], "score": 0.5, "unused": object()},
    {"word": "bee", "letters": "bee", "phones": ["B", "IY"], "score": 1.5},
    {"word": "a", "letters": "a", "phones": ["AH"], "score": 2},
]


@pytest.fixture
def letter():
    return rf.Dim(8, name="letter", vocab=list(LETTERS))


@pytest.fixture
def phone():
    return rf.Dim(5, name="phone", vocab=["AE", "AH", "B", "IY", "K"])


@pytest.fixture
def left():
    return rf.Dim(None, name="left")


@pytest.fixture
def right():
    return rf.Dim(None, name="right")


@pytest.fixture
def join(letter, phone, left, right):
    spec = {"letters": [rf.batch_dim, left], "phones": [rf.batch_dim, right], "score": [rf.batch_dim]}
    return rf.collate(spec, sparse={"letters": letter, "phones": phone}, tag="word")


def test_a_batch_has_padding_lengths_and_tags(join, letter, left, right):
    batch = join(WORDS)
    assert batch["letters"].raw_tensor.tolist() == [[2, 0, 1], [1, 4, 4], [0, 0, 0]]
    assert batch["letters"].lengths.size(left).values.tolist() == [3, 3, 1]
    assert batch["phones"].lengths.size(right).values.tolist() == [3, 2, 1]
    assert batch["score"].raw_tensor.tolist() == [0.5, 1.5, 2.0]
    assert batch["letters"].sparse_dim is letter
    assert (batch["letters"].dtype, batch["score"].dtype) == ("int64", "float32")
    assert batch.tags == ["cab", "bee", "a"]
    assert list(batch) == ["letters", "phones", "score"]


def test_all_tensors_share_one_binding(join, left, right):
    batch = join(WORDS)
    lengths = batch["letters"].lengths
    assert batch["phones"].lengths is lengths
    assert batch["score"].lengths is lengths
    assert current_lengths([rf.batch_dim, left, right]) is lengths
    assert lengths.size(rf.batch_dim).tags == ["cab", "bee", "a"]


def test_with_a_data_loader(join, left):
    batches = list(DataLoader(WORDS, batch_size=2, collate_fn=join))
    assert [batch.tags for batch in batches] == [["cab", "bee"], ["a"]]
    assert [batch["letters"].lengths.size(left).values.tolist() for batch in batches] == [[3, 3], [1]]
    assert [tuple(batch["letters"].raw_tensor.shape) for batch in batches] == [(2, 3), (1, 1)]


def test_a_batch_of_the_same_size_has_its_own_tags(join):
    first, second = join(WORDS[:2]), join(WORDS[1:])
    assert first.tags == ["cab", "bee"]
    assert second.tags == ["bee", "a"]


def test_without_tag_there_are_no_old_tags(join, letter, left):
    join(WORDS)
    batch = rf.collate({"letters": [rf.batch_dim, left]}, sparse={"letters": letter})(WORDS)
    assert batch.tags is None


def test_tensors_of_two_batches_do_not_mix(join):
    first, second = join(WORDS[:2]), join(WORDS[1:])
    with pytest.raises(rf.errors.DimRebound):
        first["letters"] + second["letters"]


def test_a_template_says_dtype_and_sparse_dim(letter, left):
    template = rf.Tensor("letters", [rf.batch_dim, left], "int32", sparse_dim=letter)
    letters = rf.collate({"letters": template})(WORDS)["letters"]
    assert (letters.dtype, letters.sparse_dim, letters.name) == ("int32", letter, "letters")


def test_arrays_lists_and_torch_tensors(left):
    feat = rf.Dim(2, name="feat")
    join = rf.collate({"x": [rf.batch_dim, left, feat]})
    x = join([{"x": np.ones((2, 2))}, {"x": [[2.0, 3.0]]}, {"x": torch.zeros(3, 2)}, {"x": []}])["x"]
    assert x.dtype == "float32"
    assert x.lengths.size(left).values.tolist() == [2, 1, 3, 0]
    assert x.raw_tensor[1].tolist() == [[2, 3], [0, 0], [0, 0]]


def test_an_empty_string(letter, left):
    letters = rf.collate({"s": [rf.batch_dim, left]}, sparse={"s": letter})([{"s": ""}, {"s": "ab"}])["s"]
    assert letters.raw_tensor.tolist() == [[0, 0], [0, 1]]
    assert letters.lengths.size(left).values.tolist() == [0, 2]
    only = rf.collate({"s": [rf.batch_dim, left]}, sparse={"s": letter})([{"s": ""}])["s"]
    assert (only.dtype, tuple(only.raw_tensor.shape)) == ("int64", (1, 0))


def test_two_axes_with_lengths_of_their_own(left, right):
    x = rf.collate({"x": [rf.batch_dim, left, right]})([{"x": np.ones((1, 3))}, {"x": np.ones((2, 1))}])["x"]
    assert x.raw_tensor.sum(dim=(1, 2)).tolist() == [3, 2]
    assert x.lengths.size(right).values.tolist() == [3, 1]


def test_two_entries_with_one_dim(left):
    join = rf.collate({"a": [rf.batch_dim, left], "b": [rf.batch_dim, left]})
    batch = join([{"a": [1, 2], "b": [3, 4]}, {"a": [5], "b": [6]}])
    assert (batch["a"] + batch["b"]).raw_tensor.tolist() == [[4, 6], [11, 0]]
    with pytest.raises(DimError, match="differ in the length of left"):
        join([{"a": [1, 2], "b": [3]}])


def test_an_expression_of_a_dim_is_checked(left):
    join = rf.collate({"a": [rf.batch_dim, left], "b": [rf.batch_dim, left + 1]})
    join([{"a": [1, 2], "b": [3, 4, 5]}, {"a": [], "b": [6]}])
    with pytest.raises(DimError, match=r"'b' does not fit left\+1"):
        join([{"a": [1, 2], "b": [3, 4]}])


def test_one_label_per_sequence(letter):
    x = rf.collate({"x": [rf.batch_dim]}, sparse={"x": letter})([{"x": "a"}, {"x": "c"}])["x"]
    assert x.raw_tensor.tolist() == [0, 2]


def test_what_does_not_fit_is_named(join, left):
    for wrong in ([{"letters": "ab"}], join):
        with pytest.raises(ParameterError, match=r"(?s)`spec` is not a dict.*rf.collate\({.*}\)\(samples\)"):
            rf.collate(wrong)
    with pytest.raises(DimError, match="collate: 'x': one Dim, where a list of Dims is expected"):
        rf.collate({"x": rf.batch_dim})
    with pytest.raises(DimError, match="a sample has no 'phones'"):
        join([{"word": "x", "letters": "a", "score": 1}])
    with pytest.raises(DtypeError, match=r"(?s)a sample is not a dict.*tuple.*dict\(zip\(names, sample\)\)"):
        join([("x", "a", 1)])
    with pytest.raises(DimError, match=r"collate: 'letters' of sequence cab: Vocab.encode: unknown label"):
        join([{**WORDS[0], "letters": "xyz"}])
    with pytest.raises(
        DimError, match=r"(?s)'letters' of sequence cab: 8 is not a label of letter.*8 at left 1.*0 to 7"
    ):
        join([{**WORDS[0], "letters": [0, 8, -1]}])
    with pytest.raises(DtypeError, match="'letters' of sequence cab: labels must be integers"):
        join([{**WORDS[0], "letters": [0.0, 1.0]}])
    with pytest.raises(DimError, match="'score' of sequence cab does not fit"):
        join([{**WORDS[0], "score": [1.0]}])
    join(WORDS)
    with pytest.raises(DimError, match=r"(?s)shape \(1, 2\).*expected  {left}$"):  # without the lengths of that batch
        join([{**WORDS[0], "letters": np.zeros([1, 2], int)}])
    with pytest.raises(DtypeError, match="no vocab"):
        rf.collate({"letters": [rf.batch_dim, left]})(WORDS)
    with pytest.raises(DimError, match="same batch dim first"):
        rf.collate({"a": [rf.batch_dim, left], "b": [left]})
    with pytest.raises(DimError, match="`sparse` has 'letter'"):
        rf.collate({"letters": [rf.batch_dim, left]}, sparse={"letter": left})


def test_padded_in_one_process_and_bound_in_another(join):
    padded = pickle.loads(pickle.dumps(join.pad(WORDS)))
    assert join.bind(padded).tags == ["cab", "bee", "a"]


@pytest.mark.parametrize("start", ["fork", "forkserver"])
def test_batches_come_from_a_worker(join, left, right, start):
    loader = DataLoader(WORDS[:2], batch_size=1, collate_fn=join, num_workers=1, multiprocessing_context=start)
    batches = list(loader)
    assert [batch.tags for batch in batches] == [["cab"], ["bee"]]
    first, second = (batch["phones"] for batch in batches)
    assert first.dims == second.dims == (rf.batch_dim, right)
    assert [x.size_of(right).values.tolist() for x in (first, second)] == [[3], [2]]
    assert batches[0]["letters"].sparse_dim.vocab.decode(1) == "b"
    assert rf.zeros([rf.batch_dim, right]).dims == second.dims  # its lengths are those of the batch that was looked at
    assert rf.reduce_sum(batches[1]["phones"], axis=right).raw_tensor.tolist() == [5]


def test_what_a_masked_array_masks_is_not_taken_for_numbers(left):
    join = rf.collate({"x": [rf.batch_dim, left]})
    with pytest.raises(rf.errors.DtypeError, match="collate: 'x' of sequence number 1: a masked array"):
        join([{"x": np.ones(2)}, {"x": np.ma.masked_array([1.0, 2.0], mask=[False, True])}])
