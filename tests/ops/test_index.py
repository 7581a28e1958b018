"""Entries at indices: against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError

feat, vocab = rf.Dim(3, name="feat"), rf.Dim(5, name="vocab")


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    """{batch, time, feat} with lengths 4 and 2."""
    return rf.convert_to_tensor(
        np.random.default_rng(0).normal(size=(2, 4, 3)), dims=[batch_dim, time, feat], lengths=[4, 2]
    )


@pytest.mark.parametrize("index", [0, 1, -1, -2])
def test_a_number_counts_from_the_start_or_from_each_end(x, time, index):
    expected = [x.raw_tensor[0, :4][index], x.raw_tensor[1, :2][index]]
    assert torch.equal(rf.gather(x, indices=index, axis=time).raw_tensor, torch.stack(expected))


def test_shared_dims_are_batch_dims(x, time):
    new = rf.Dim(3, name="new")
    indices = rf.convert_to_tensor([[3, 0, 1], [1, 1, 0]], dims=[batch_dim, new], sparse_dim=time)
    y = rf.gather(x, indices=indices)
    expected = np.stack([x.raw_tensor.numpy()[b][indices.raw_tensor.numpy()[b]] for b in range(2)])
    assert y.dims == (batch_dim, new, feat) and np.array_equal(y.raw_tensor.numpy(), expected)


def test_indices_may_have_the_axis_itself(x, time):
    turned = rf.convert_to_tensor(np.array([[3, 2, 1, 0], [1, 0, 0, 0]]), dims=[batch_dim, time])
    y = rf.gather(x, indices=turned, axis=time)
    assert torch.equal(y.raw_tensor[0], x.raw_tensor[0].flip(0)) and torch.equal(
        y.raw_tensor[1, :2], x.raw_tensor[1, :2].flip(0)
    )


def test_several_new_dims(x, time):
    rows, cols = rf.Dim(2, name="rows"), rf.Dim(2, name="cols")
    where = torch.tensor([[[0, 1], [1, 3]], [[0, 0], [1, 1]]])
    y = rf.gather(x, indices=rf.convert_to_tensor(where, dims=[batch_dim, rows, cols]), axis=time)
    assert all(torch.equal(y.raw_tensor[b], x.raw_tensor[b][where[b]]) for b in range(2))
    y = rf.gather(x, indices=rf.convert_to_tensor(where[0], dims=[rows, cols]), axis=feat, clip_to_valid=True)
    assert torch.equal(y.raw_tensor, x.raw_tensor[:, :, where[0].clamp(max=2)])


def test_clip_to_valid_knows_the_lengths(x, time):
    new = rf.Dim(2, name="new")
    y = rf.gather(x, indices=rf.convert_to_tensor([9, -3], dims=[new]), axis=time, clip_to_valid=True)
    by_name = y.copy_transpose([batch_dim, new, feat]).raw_tensor
    expected = torch.stack([x.raw_tensor[0, [3, 0]], x.raw_tensor[1, [1, 0]]])
    assert torch.equal(by_name, expected)


def test_what_does_not_fit_is_told(x, time):
    with pytest.raises(DimError, match=r"gather: time has no entry 7"):
        rf.gather(x, indices=7, axis=time)
    with pytest.raises(DtypeError, match="must be integers"):
        rf.gather(x, indices=rf.zeros([batch_dim]), axis=time)
    with pytest.raises(DtypeError, match=r"(?s)gather: `indices` is not an rf.Tensor.*list \[0, 1\]"):
        rf.gather(x, indices=[0, 1], axis=time)
    with pytest.raises(DimError, match="the indices do not imply it"):
        rf.gather(x, indices=1)
    with pytest.raises(DimError, match="`source` has no dim vocab"):
        rf.gather(x, indices=1, axis=vocab)


def test_one_hot(time):
    labels = rf.convert_to_tensor([[1, 4, 0], [2]], dims=[batch_dim, time], sparse_dim=vocab)
    y = rf.one_hot(labels)
    assert y.feature_dim is vocab and y.dtype == "float32"
    assert np.array_equal(y.raw_tensor.numpy(), np.eye(5)[labels.raw_tensor.numpy()])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_indices_of_any_whole_type(x, time, dtype):
    new = rf.Dim(2, name="new")
    shared = rf.convert_to_tensor([[3, 0], [1, 1]], dims=[batch_dim, new], dtype=dtype)
    expected = torch.stack([x.raw_tensor[0, [3, 0]], x.raw_tensor[1, [1, 1]]])
    assert torch.equal(rf.gather(x, indices=shared, axis=time).raw_tensor, expected)
    assert torch.equal(rf.gather(x, indices=shared, axis=time, clip_to_valid=True).raw_tensor, expected)
    rows, cols = rf.Dim(300, name="rows"), rf.Dim(2, name="cols")
    table = rf.convert_to_tensor(torch.arange(600.0).reshape(300, 2), dims=[rows, cols])
    labels = rf.convert_to_tensor([7, 100], dims=[new], dtype=dtype)
    assert rf.gather(table, indices=labels, axis=rows).raw_tensor[:, 0].tolist() == [14, 200]
    assert rf.gather(table, indices=labels, axis=rows, clip_to_valid=True).raw_tensor[:, 0].tolist() == [14, 200]
    assert rf.one_hot(rf.set_sparse_dim(labels, rows)).raw_tensor.sum(-1).tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [5, -1, 99])
def test_an_index_that_is_none_is_told_with_its_place(x, time, wrong):
    raw = torch.tensor([[1, 4, 0, 2], [2, wrong, 0, 0]])  # of a device, whose labels are not read
    labels = rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=vocab, lengths=[4, 2])
    for source in (rf.zeros([vocab, feat]), rf.zeros([feat, vocab]), rf.zeros([vocab]), rf.zeros([batch_dim, vocab])):
        with pytest.raises(DimError, match=f"gather: {wrong} is not an index of vocab") as caught:
            rf.gather(source, indices=labels)
        assert caught.value.got == f"{wrong} at batch 1, {time.name} 1" and caught.value.expected == "0 to 4"
    with pytest.raises(DimError, match=f"{wrong} is not an index of vocab"):
        rf.Embedding(vocab, feat)(labels)
    with pytest.raises(DimError, match=f"scatter: {wrong} is not an index of vocab"):
        rf.scatter(x, indices=labels, indices_dim=time)
    with pytest.raises(DimError, match="and 1 more"):
        rf.gather(rf.zeros([vocab]), indices=rf.convert_to_tensor([7, 8], dims=[rf.Dim(2)]), axis=vocab)


def test_an_index_in_padding_may_be_anything(time):
    labels = rf.convert_to_tensor([[1, 4, 0, 2], [2, 0]], dims=[batch_dim, time], sparse_dim=vocab).copy_masked(-999)
    assert rf.gather(rf.ones([vocab, feat]), indices=labels).copy_masked(0.0).raw_tensor.sum() == 18


def test_sequences_that_are_picked_keep_their_lengths(x, time):
    beam = rf.Dim(3, name="beam")
    y = rf.gather(x, indices=rf.convert_to_tensor([1, 0, 1], dims=[beam]), axis=batch_dim)
    assert y.size_of(time).values.tolist() == [2, 4, 2] and y.size_of(time).dims == (beam,)
    sums = [x.raw_tensor[1, :2].sum(0), x.raw_tensor[0].sum(0), x.raw_tensor[1, :2].sum(0)]
    torch.testing.assert_close(rf.reduce_sum(y, axis=time).raw_tensor, torch.stack(sums))
    short = rf.gather(x, indices=rf.convert_to_tensor([1, 1, 1], dims=[beam]), axis=batch_dim)
    assert short.raw_tensor.shape == (3, 2, 3)
    turned = rf.gather(x, indices=rf.convert_to_tensor([1, 0], dims=[batch_dim]), axis=batch_dim)
    assert turned.size_of(time).values.tolist() == [2, 4]


def test_labels_as_vectors(time):
    labels = rf.convert_to_tensor([[1, 4, 0], [2]], dims=[batch_dim, time], sparse_dim=vocab)
    eye = torch.eye(5)[labels.raw_tensor]
    assert torch.equal(rf.sparse_to_dense(labels, label_value=3.0, other_value=-1.0).raw_tensor, 4 * eye - 1)
    assert rf.sparse_to_dense(labels, label_value=True, other_value=False).dtype == "bool"
    plain = rf.set_sparse_dim(labels, None)
    assert torch.equal(rf.sparse_to_dense(plain, label_value=1.0, other_value=0.0, axis=vocab).raw_tensor, eye)
    assert rf.sparse_to_dense(2, label_value=0, other_value=9, axis=vocab).raw_tensor.tolist() == [9, 9, 0, 9, 9]
    torch.testing.assert_close(rf.smooth_one_hot(labels, label_prob=0.8).raw_tensor, 0.75 * eye + 0.05)
    with pytest.raises(DimError, match="is not sparse"):
        rf.sparse_to_dense(plain, label_value=1.0, other_value=0.0)


def test_the_text_of_labels(time):
    letter = rf.Dim(4, name="letter", vocab=list("acht"))
    letters = rf.convert_to_tensor(["cat", "a"], dims=[batch_dim, time], sparse_dim=letter)
    assert letters.labels() == [["c", "a", "t"], ["a"]]
    assert letters.copy_transpose([time, batch_dim]).labels() == [["c", "a"], ["a"], ["t"]]
    assert rf.gather(letters, indices=0, axis=time).labels() == ["c", "a"]
    assert rf.convert_to_tensor(2, sparse_dim=letter).labels() == "h"
    with pytest.raises(DimError, match="no vocab"):
        rf.set_sparse_dim(letters, vocab).labels()


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("wrong", [3, -1])
def test_one_hot_of_what_is_no_label(time, wrong, backend):
    word = rf.Dim(3, name="word")
    rf.select_backend(backend)
    try:
        x = rf.convert_to_tensor(np.array([[0, 1], [2, wrong]]), dims=[batch_dim, time], lengths=[2, 1])
        assert rf.one_hot(rf.set_sparse_dim(x, word)).numpy()[1, 0].tolist() == [0, 0, 1]
        x = rf.convert_to_tensor(np.array([[0, wrong], [2, 1]]), dims=[batch_dim, time], lengths=[2, 1])
        with pytest.raises(DimError, match=rf"one_hot: {wrong} is not a label of word(.|\n)*at batch 0, time 1"):
            rf.one_hot(rf.set_sparse_dim(x, word))
    finally:
        rf.select_backend("torch")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_one_hot_of_each_kind_of_label(dtype):
    word = rf.Dim(3, name="word")
    labels = rf.convert_to_tensor(np.array([2, 0]), dims=[rf.Dim(2)], sparse_dim=word, dtype=dtype)
    assert rf.one_hot(labels).raw_tensor.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert rf.one_hot(rf.convert_to_tensor(1, sparse_dim=word)).raw_tensor.tolist() == [0, 1, 0]
    none = rf.convert_to_tensor(np.zeros((0,), dtype), dims=[rf.Dim(0)], sparse_dim=word)
    assert rf.one_hot(none).raw_tensor.shape == (0, 3)


def test_a_number_after_the_end_of_a_sequence_gives_what_is_there(x, time):
    y = rf.gather(x, indices=2, axis=time)  # as a search reads frame by frame, and masks what has ended
    assert torch.equal(y.raw_tensor, x.raw_tensor[:, 2])
    assert torch.equal(rf.gather(x, indices=2, axis=time, clip_to_valid=True).raw_tensor[1], x.raw_tensor[1, 1])
    with pytest.raises(DimError, match="has no entry 4"):
        rf.gather(x, indices=4, axis=time)


def test_labels_in_padding_stay_unless_they_are_out_of_range():
    """Windows without a mask let frames after the end of a sequence into valid ones."""
    time, word, feat = rf.Dim(None, name="time"), rf.Dim(4, name="word"), rf.Dim(2, name="feat")
    labels = np.array([[0, 1, 2], [3, 2, 9], [-1, 3, -5]])
    x = rf.convert_to_tensor(labels, dims=[rf.batch_dim, time], lengths=[3, 1, 0], sparse_dim=word)
    table = np.arange(8.0).reshape(4, 2)
    found = rf.gather(rf.convert_to_tensor(table, dims=[word, feat]), indices=x, axis=word)
    np.testing.assert_array_equal(found.raw_tensor, table[labels.clip(0, 3)])
    np.testing.assert_array_equal(rf.one_hot(x).raw_tensor, np.eye(4)[labels.clip(0, 3)])
    loop = rf.Loop(axis=time)
    with loop:
        frames = loop.stack(rf.gather(rf.convert_to_tensor(table, dims=[word, feat]), indices=loop.unstack(x)))
    np.testing.assert_array_equal(
        frames.copy_transpose([rf.batch_dim, time, feat]).raw_tensor, table[labels.clip(0, 3)]
    )


class TestAnIndexAfterTheEndOfItsSequence:
    """`x` has sequences of 4 and 2 frames."""

    def test_it_is_warned_of_with_its_place_once_for_each_line(self, x, time):
        wrong = rf.convert_to_tensor([3, 2], dims=[batch_dim])
        with pytest.warns(UserWarning, match="gather: an index is after the end of its sequence") as caught:
            for _ in range(3):
                y = rf.gather(x.copy_transpose([time, feat, batch_dim]), indices=wrong + 0, axis=time)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert "got       2 at batch 1\n  expected  0 to 1\n  hint      clip_to_valid=True" in str(caught[0].message)
        assert torch.equal(y.copy_transpose([batch_dim, feat]).raw_tensor[1], x.raw_tensor[1, 2])
        rf.gather(x, indices=wrong, axis=time, clip_to_valid=True)

    def test_only_valid_indices_count(self, x, time):
        new = rf.Dim(None, name="new")
        raw = torch.tensor([[3, 0, 1], [1, 2, 3]])
        right = rf.convert_to_tensor(raw, dims=[batch_dim, new], lengths=[3, 1])
        assert torch.equal(rf.gather(x, indices=right, axis=time).raw_tensor[0], x.raw_tensor[0, [3, 0, 1]])
        wrong = rf.convert_to_tensor(raw, dims=[batch_dim, rf.Dim(3, name="all")])
        with pytest.warns(UserWarning, match="got       2 at batch 1, all 1, and 1 more"):
            rf.gather(x, indices=wrong, axis=time)

    def test_what_was_right_is_looked_at_again_when_it_has_changed(self, x, time):
        index = rf.convert_to_tensor([3, 1], dims=[batch_dim])
        rf.gather(x, indices=index, axis=time)
        index.raw_tensor.add_(torch.tensor([0, 1]))
        with pytest.warns(UserWarning, match="2 at batch 1"):
            rf.gather(x, indices=index, axis=time)

    def test_indices_that_all_sequences_share_are_as_numbers(self, x, time):
        shared = rf.convert_to_tensor([3, 1], dims=[rf.Dim(2, name="new")])
        assert torch.equal(rf.gather(x, indices=shared, axis=time).raw_tensor, x.raw_tensor[:, [3, 1]])
        assert torch.equal(rf.gather(x, indices=rf.range_over_dim(time), axis=time).raw_tensor, x.raw_tensor)

    def test_the_first_entry_of_an_empty_sequence_is_the_last_one(self):
        time = rf.Dim(None, name="time")
        x = rf.convert_to_tensor([[1.0, 2.0], []], dims=[batch_dim, time])
        assert rf.gather(x, indices=rf.last_frame_position_of_dim(time), axis=time).raw_tensor.tolist() == [2, 0]
        with pytest.warns(UserWarning, match=r"1 at batch 1\n  expected  0 to 0"):
            rf.gather(x, indices=rf.convert_to_tensor([1, 1], dims=[batch_dim]), axis=time)

    def test_where_torch_traces_nothing_is_looked_at(self, x, time):
        index = rf.convert_to_tensor([3, 2], dims=[batch_dim])

        def gathered(raw: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return rf.gather(x.like(raw), indices=index.like(positions), axis=time).raw_tensor

        raws = x.raw_tensor, index.raw_tensor
        expected = x.raw_tensor[[0, 1], [3, 2]]
        twice = torch.vmap(gathered)(*(torch.stack([raw, raw]) for raw in raws))
        assert torch.equal(twice, torch.stack([expected, expected]))
        gradient = torch.func.grad(lambda raw: gathered(raw, raws[1]).sum())(raws[0])
        assert gradient[1].tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]]
        assert torch.equal(torch.compile(gathered, backend="eager", fullgraph=True)(*raws), expected)
        assert gathered(*(raw.to("meta") for raw in raws)).shape == (2, 3)
        loop = rf.Loop(max_seq_len=2)
        loop.state.at = index
        with loop:
            rows = loop.stack(rf.gather(x, indices=loop.state.at, axis=time))
            loop.state.at = loop.state.at + 0
        assert rows.raw_tensor.shape[-1] == 3
