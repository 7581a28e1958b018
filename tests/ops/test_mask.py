"""Entries taken out by a mask and put back: against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, TraceError
from tests.examples import examples

feat = rf.Dim(3, name="feat")
lengths_lists = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def batch_of(lengths, seed=0):
    """{batch, time, feat} with NaN in padding, and a mask that holds there."""
    time = rf.Dim(None, name="time")
    generator = np.random.default_rng(seed)
    raw = generator.normal(size=(len(lengths), max(lengths), 3))
    mask = generator.random((len(lengths), max(lengths))) < 0.5
    mask[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = True
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths).copy_masked(float("nan"))
    return time, x, rf.convert_to_tensor(mask, dims=[batch_dim, time])


@examples(20)
@given(lengths=lengths_lists, seed=st.integers(0, 99))
def test_masked_select_over_all_takes_the_frames_in_order(lengths, seed):
    time, x, mask = batch_of(lengths, seed)
    y, picked = rf.masked_select(x, mask=mask, dims=[batch_dim, time])
    expected = [x.raw_tensor[b, t] for b, n in enumerate(lengths) for t in range(n) if mask.raw_tensor[b, t]]
    assert y.dims == (picked, feat) and picked.get_dim_value() == len(expected)
    assert torch.equal(y.raw_tensor, torch.stack(expected) if expected else y.raw_tensor[:0])


@examples(20)
@given(lengths=lengths_lists, seed=st.integers(0, 99))
def test_masked_select_over_time_leaves_shorter_sequences(lengths, seed):
    time, x, mask = batch_of(lengths, seed)
    y, picked = rf.masked_select(x, mask=mask, dims=[time])
    assert y.dims == (batch_dim, picked, feat)
    for b, n in enumerate(lengths):
        expected = x.raw_tensor[b, :n][mask.raw_tensor[b, :n]]
        assert picked.size.values[b] == len(expected)
        assert torch.equal(y.raw_tensor[b, : len(expected)], expected)


@examples(20)
@given(lengths=lengths_lists, seed=st.integers(0, 99), over_batch=st.booleans())
def test_masked_scatter_puts_back_what_masked_select_took(lengths, seed, over_batch):
    time, x, mask = batch_of(lengths, seed)
    dims = [batch_dim, time] if over_batch else [time]
    y, picked = rf.masked_select(x, mask=mask, dims=dims)
    for backup, other in ((None, 0.0), (x * 2.0, 2 * x.raw_tensor), (rf.convert_to_tensor(7.0, dtype="float64"), 7.0)):
        z = rf.masked_scatter(y, backup, mask=mask, dims=dims, in_dim=picked).copy_transpose([batch_dim, time, feat])
        expected = torch.where(mask.raw_tensor[..., None], x.raw_tensor, other)
        for b, n in enumerate(lengths):
            assert torch.equal(z.raw_tensor[b, :n], expected[b, :n].to(z.raw_tensor.dtype))


@examples(20)
@given(lengths=lengths_lists)
def test_packed_frames_are_those_of_all_sequences(lengths):
    time, x, _ = batch_of(lengths)
    y, packed = rf.pack_padded(x, dims=[batch_dim, time])
    assert torch.equal(y.raw_tensor, torch.cat([x.raw_tensor[b, :n] for b, n in enumerate(lengths)]))
    assert packed.get_dim_value() == sum(lengths)
    back = rf.pad_packed(y, in_dim=packed, dims=[batch_dim, time])
    assert torch.equal(back.raw_tensor, x.copy_masked(0.0).raw_tensor)


def test_the_order_of_dims_is_the_order_of_entries():
    time, x, mask = batch_of([2, 3])
    y, _ = rf.masked_select(x, mask=mask, dims=[time, batch_dim])
    expected = [x.raw_tensor[b, t] for t in range(3) for b in range(2) if mask.raw_tensor[b, t] and t < 2 + b]
    assert torch.equal(y.raw_tensor, torch.stack(expected))


def test_other_dims_keep_the_lengths_of_what_was_selected():
    time, x, _ = batch_of([4, 1, 2])
    y, picked = rf.masked_select(x, mask=rf.convert_to_tensor([False, True, True], dims=[batch_dim]), dims=[batch_dim])
    assert y.size_of(time).values.tolist() == [1, 2] and y.size_of(time).dims == (picked,)
    assert y.raw_tensor.shape == (2, 2, 3)
    torch.testing.assert_close(
        rf.reduce_sum(y, axis=time).raw_tensor, torch.stack([x.raw_tensor[i, :i].sum(0) for i in (1, 2)])
    )


def test_rows_put_back_have_the_lengths_they_came_with():
    time, x, _ = batch_of([4, 1, 2])
    mask = rf.convert_to_tensor([False, True, True], dims=[batch_dim])
    y, picked = rf.masked_select(x, mask=mask, dims=[batch_dim])
    z = rf.masked_scatter(y * 2.0, x, mask=mask, dims=[batch_dim], in_dim=picked)
    assert z.size_of(time).values.tolist() == [4, 1, 2]
    sums = rf.reduce_sum(z, axis=time).raw_tensor
    torch.testing.assert_close(
        sums, torch.stack([s * x.raw_tensor[b, :n].sum(0) for b, (n, s) in enumerate([(4, 1), (1, 2), (2, 2)])])
    )
    alone = rf.masked_scatter(y, mask=mask, dims=[batch_dim], in_dim=picked)
    assert alone.size_of(time).values.tolist() == [0, 1, 2]


def test_what_has_not_the_dims_of_the_mask_is_repeated():
    time, _, mask = batch_of([2, 3])
    y, picked = rf.masked_select(rf.range_over_dim(feat), mask=mask, dims=[batch_dim, time])
    assert y.dims == (picked, feat) and (y.raw_tensor == torch.arange(3)).all()


def test_what_is_put_back_keeps_its_dtype():
    mask = rf.convert_to_tensor([True, False, True], dims=[dim := rf.Dim(3, name="rows")])
    for dtype in ("bool", "int32", "float16"):
        picked, in_dim = rf.masked_select(rf.ones([dim], dtype=dtype), mask=mask, dims=[dim])
        back = rf.masked_scatter(picked, mask=mask, dims=[dim], in_dim=in_dim)
        assert back.dtype == dtype and back.raw_tensor.tolist() == [1, 0, 1]


def test_the_gradient_goes_where_entries_came_from():
    time, x, mask = batch_of([4, 2])
    x = x.like(x.raw_tensor.clone().requires_grad_())
    y, picked = rf.masked_select(x, mask=mask, dims=[time])
    back = rf.masked_scatter(y, mask=mask, dims=[time], in_dim=picked)
    loss = rf.reduce_sum(y, axis=y.dims) + 2.0 * rf.reduce_sum(back, axis=back.dims)
    [gradient] = torch.autograd.grad(loss.raw_tensor, [x.raw_tensor])
    holds = mask.copy_masked(False).raw_tensor
    assert torch.equal(gradient, 3.0 * holds[..., None].expand(gradient.shape).double())


def test_what_is_not_selected_gets_no_gradient_from_padding():
    """log(0) of an entry that stands where a shorter sequence has padding would be 0 · ∞ = NaN in its gradient."""
    time = rf.Dim(2, name="time")
    raw = torch.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time])
    mask = rf.convert_to_tensor([[False, True], [True, True]], dims=[batch_dim, time])
    y, picked = rf.masked_select(x, mask=mask, dims=[time])
    rf.reduce_sum(rf.log(y), axis=[batch_dim, picked]).raw_tensor.backward()
    torch.testing.assert_close(raw.grad, torch.tensor([[0.0, 1.0], [1 / 2, 1 / 3]]))


def test_a_new_batch_may_define_the_same_dim_again():
    picked = rf.Dim(None, name="picked")
    for lengths in ([2, 3], [1, 4]):
        time, x, mask = batch_of(lengths)
        y, same = rf.masked_select(x, mask=mask, dims=[batch_dim, time], out_dim=picked)
        assert same is picked and y.dims[0] is picked


def test_what_does_not_fit_is_told():
    time, x, mask = batch_of([2, 3])
    with pytest.raises(DtypeError, match="`mask` must be boolean"):
        rf.masked_select(x, mask=rf.cast(mask, "int32"), dims=[time])
    with pytest.raises(DimError, match="`mask` has no dim feat"):
        rf.masked_select(x, mask=mask, dims=[feat])
    with pytest.raises(DimError, match="not sorted"):
        rf.pack_padded(x, dims=[batch_dim, time], enforce_sorted=True)
    with pytest.raises(DimError, match="pack_padded: `source` has no dim batch"):
        rf.pack_padded(rf.range_over_dim(time), dims=[time])
    with pytest.raises(DimError, match="different number of frames"):
        rf.pad_packed(rf.zeros([feat]), in_dim=feat, dims=[batch_dim, time])


def test_dims_with_lengths_over_the_batch_are_packed_in_each_sequence():
    batch = rf.Dim(3, name="sequences")
    rows, cols = (rf.Dim(rf.convert_to_tensor(n, dims=[batch]), name="n") for n in ([1, 3, 4], [3, 2, 2]))
    x = rf.convert_to_tensor(torch.arange(36.0).reshape(3, 4, 3), dims=[batch, rows, cols])
    y, packed = rf.pack_padded(x, dims=[rows, cols])
    assert y.dims == (batch, packed) and y.size_of(packed).dims == (batch,)
    assert packed.size.values.tolist() == [3, 6, 8]
    for b, (n, m) in enumerate([(1, 3), (3, 2), (4, 2)]):
        assert torch.equal(y.raw_tensor[b, : n * m], x.raw_tensor[b, :n, :m].flatten())
    back = rf.pad_packed(y, in_dim=packed, dims=[rows, cols])
    assert back.dims == (batch, rows, cols) and torch.equal(back.raw_tensor, x.copy_masked(0.0).raw_tensor)
    turned, _ = rf.pack_padded(x, dims=[cols, rows])
    assert torch.equal(turned.raw_tensor[2], x.raw_tensor[2, :, :2].T.flatten())
    with pytest.raises(DimError, match="different number of frames"):
        rf.pad_packed(y, in_dim=packed, dims=[rows])


def test_lengths_over_the_batch_and_a_packed_dim():
    batch, words = rf.Dim(3, name="sequences"), rf.Dim(2, name="words")
    letters = rf.Dim(rf.convert_to_tensor([[1, 2], [2, 3], [1, 1]], dims=[batch, words]), name="letters")
    x = rf.convert_to_tensor(torch.arange(36).reshape(3, 2, 3, 2), dims=[batch, words, letters, rf.Dim(2)])
    y, packed = rf.pack_padded(x, dims=[words, letters])
    assert packed.size.values.tolist() == [3, 5, 2] and y.dims == (batch, packed, x.dims[-1])
    expected = [[0, 6, 8], [12, 14, 18, 20, 22], [24, 30]]
    assert [y.raw_tensor[b, : len(row), 0].tolist() for b, row in enumerate(expected)] == expected
    back = rf.pad_packed(y, in_dim=packed, dims=[words, letters]).copy_transpose(x.dims)
    assert torch.equal(back.raw_tensor, x.copy_masked(0).raw_tensor)
    alone, frames = rf.pack_padded(x, dims=[letters])
    assert alone.dims == (batch, words, frames, x.dims[-1]) and frames.size.agrees(x.size_of(letters))


def test_in_a_loop_entries_are_put_back_but_their_number_may_not_differ():
    time, x, _ = batch_of([3, 2])
    some = rf.Dim(3, name="some")
    numbers = rf.range_over_dim(some, dtype="float64")

    def put(row):
        return rf.masked_scatter(numbers, row, mask=row > 0.0, dims=[feat], in_dim=some)

    with rf.Loop(axis=time) as loop:
        out = loop.stack(put(loop.unstack(x)))
    expected = put(x).copy_transpose(out.dims).copy_masked(0.0)
    torch.testing.assert_close(out.copy_masked(0.0).raw_tensor, expected.raw_tensor)
    with pytest.raises(TraceError, match="depends on values"), rf.Loop(axis=time) as loop:
        row = loop.unstack(x)
        rf.masked_select(row, mask=row > 0.0, dims=[batch_dim, feat])


def test_packed_is_what_tensors_are_not():
    _, x, _ = batch_of([1])
    assert rf.is_packed(x) is False and rf.unpack(x) is x


@pytest.mark.parametrize("selected", [[[False, False]], [[False, False], [True, False]]], ids=["none", "some"])
def test_of_no_selected_entry_nothing_is_put_back(selected):
    """The entries have lengths of their own."""
    pair, inner = rf.Dim(2, name="pair"), rf.Dim(None, name="inner")
    count = len(selected)
    lengths = rf.convert_to_tensor(torch.tensor([[1, 3]] * count), dims=[batch_dim, pair])
    inner = rf.Dim(lengths, name="inner")
    x = rf.convert_to_tensor(torch.ones(count, 2, 3), dims=[batch_dim, pair, inner])
    mask = rf.convert_to_tensor(torch.tensor(selected), dims=[batch_dim, pair])
    y, some = rf.masked_select(x, mask=mask, dims=[batch_dim, pair])
    back = rf.masked_scatter(y * 2.0, x, mask=mask, dims=[batch_dim, pair], in_dim=some)
    assert rf.reduce_sum(back, axis=inner).raw_tensor.tolist() == [[2.0 if row[0] else 1.0, 3.0] for row in selected]


def test_what_is_put_back_has_the_lengths_of_what_it_was_taken_from():
    time, words = rf.Dim(None, name="time"), rf.Dim(None, name="words")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0]], dims=[batch_dim, time])
    chosen = rf.convert_to_tensor([[True, False], [True]], dims=[batch_dim, words])
    x = rf.expand_dim(x, words)
    y, some = rf.masked_select(x, mask=chosen, dims=[batch_dim, words])
    back = rf.masked_scatter(y * 2.0, x, mask=chosen, dims=[batch_dim, words], in_dim=some)
    total = rf.reduce_sum(back - x, axis=[time, words])
    assert total.raw_tensor.tolist() == [6.0, 4.0]


@pytest.mark.parametrize("chosen", [[False, True], [False, False]], ids=str)
def test_shorter_sequences_are_put_back_beside_longer_ones(chosen):
    """Their frames have lengths of their own."""
    time, words = rf.Dim(None, name="time"), rf.Dim(None, name="words")
    frames = rf.convert_to_tensor(torch.tensor([3, 1]), dims=[batch_dim])
    time = rf.Dim(frames, name="time")
    counts = rf.convert_to_tensor(torch.tensor([[2, 1, 3], [2, 9, 9]]), dims=[batch_dim, time])
    words = rf.Dim(counts, name="words")
    x = rf.convert_to_tensor(torch.ones(2, 3, 9), dims=[batch_dim, time, words])
    mask = rf.convert_to_tensor(torch.tensor(chosen), dims=[batch_dim])
    y, some = rf.masked_select(x, mask=mask, dims=[batch_dim])
    back = rf.masked_scatter(y * 2.0, x, mask=mask, dims=[batch_dim], in_dim=some)
    total = rf.reduce_sum(back + x, axis=[time, words])
    assert total.raw_tensor.tolist() == [12.0, 6.0 if chosen[1] else 4.0]


def test_of_a_sequence_without_frames_nothing_is_taken():
    time = rf.Dim(rf.convert_to_tensor(torch.tensor([0]), dims=[batch_dim]), name="time")
    words = rf.Dim(rf.convert_to_tensor(torch.zeros(1, 0, dtype=torch.int64), dims=[batch_dim, time]), name="words")
    x = rf.convert_to_tensor(torch.ones(1, 0, 0), dims=[batch_dim, time, words])
    y, some = rf.masked_select(x, mask=rf.convert_to_tensor([True], dims=[batch_dim]), dims=[batch_dim])
    assert some.size.max == 1 and y.raw_tensor.numel() == 0
    mask = rf.convert_to_tensor([True], dims=[batch_dim])
    assert rf.masked_scatter(y, x, mask=mask, dims=[batch_dim], in_dim=some).raw_tensor.shape == (1, 0, 0)
