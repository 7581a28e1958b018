"""Entries in order, the largest, and masks of those: against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, ParameterError, TraceError
from tests.examples import examples

feat, vocab = rf.Dim(3, name="feat"), rf.Dim(5, name="vocab")
lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=3)


def batch_of(lengths, seed=0, dtype="float64"):
    """{batch, time, feat} with few different numbers, and garbage in padding."""
    time = rf.Dim(None, name="time")
    raw = np.random.default_rng(seed).integers(0, 4, size=(len(lengths), max(lengths), 3)).astype(dtype)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)
    return time, x.copy_masked(float("nan") if dtype.startswith("float") else 99 if dtype != "bool" else True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool"])
@pytest.mark.parametrize("descending", [False, True])
@examples(5)
@given(lengths=lengths_lists, seed=st.integers(0, 99))
def test_sort_leaves_padding_at_the_end(dtype, descending, lengths, seed):
    time, x = batch_of(lengths, seed, dtype)
    values, places, out = rf.sort(x, axis=time, descending=descending)
    assert values.dims == (batch_dim, out, feat) and places.sparse_dim is time and out is not time
    for b, n in enumerate(lengths):
        frames = x.raw_tensor[b, :n]
        expected = torch.sort(frames, dim=0, descending=descending, stable=True)
        assert torch.equal(values.raw_tensor[b, :n], expected.values)
        assert torch.equal(places.raw_tensor[b, :n], expected.indices)
        assert np.broadcast_to(out.size.values, len(lengths))[b] == n


def test_the_largest_features_are_features():
    x = rf.convert_to_tensor(np.ones((2, 3), "float32"), dims=[batch_dim, feat], feature_dim=feat)
    best, _, k_dim = rf.top_k(x, axis=feat, k=2)
    assert best.feature_dim is k_dim and rf.top_k(x, axis=batch_dim, k=2)[0].feature_dim is feat
    assert rf.top_k(x, axis=[batch_dim, feat], k=2)[0].feature_dim.name == "top_k"


def test_infinite_frames_stay_before_padding():
    time = rf.Dim(None, name="time")
    raw = torch.tensor([[1.0, 2.0, 3.0], [float("inf"), 0.0, 0.0]])
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=[3, 1])
    for sign in (1, -1):
        values, places, _ = rf.sort(x * sign, axis=time, descending=sign < 0, stable=False)
        assert values.raw_tensor[1, 0].isinf() and places.raw_tensor[1, 0] == 0


def test_the_gradient_of_sort_goes_back_to_its_place():
    time, x = batch_of([4, 2])
    x = rf.convert_to_tensor(torch.randn(2, 4, 3, requires_grad=True), dims=x.dims)
    y = rf.sort(x, axis=time)[0]
    weights = torch.arange(24.0).reshape(2, 4, 3)
    [gradient] = torch.autograd.grad((y.copy_masked(0.0).raw_tensor * weights).sum(), [x.raw_tensor])
    order = x.raw_tensor[1, :2].argsort(0)
    assert torch.equal(gradient[1, :2].gather(0, order), weights[1, :2]) and (gradient[1, 2:] == 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shared", [True, False])
@examples(5)
@given(lengths=lengths_lists, seed=st.integers(0, 99))
def test_search_sorted_is_that_of_numpy_for_each_sequence(side, shared, lengths, seed):
    time, x = batch_of(lengths, seed)
    entries = rf.sort(x, axis=time)[0]
    ordered = entries.dims[1]
    wanted = np.random.default_rng(seed).integers(-1, 6, size=(len(lengths), 5)).astype("float32")
    wanted[:, 0] = np.inf
    values = rf.convert_to_tensor(wanted if shared else wanted[0], dims=[batch_dim, vocab] if shared else [vocab])
    y = rf.search_sorted(entries, values, axis=ordered, side=side)
    assert y.dims == (batch_dim, feat, vocab) and y.dtype == "int32"
    for b, n in enumerate(lengths):
        for f in range(3):
            row = entries.raw_tensor[b, :n, f].numpy()
            expected = np.searchsorted(row, wanted[b if shared else 0], side=side)
            assert np.array_equal(y.raw_tensor[b, f].numpy(), expected)


def test_search_sorted_types():
    x = rf.range_over_dim(vocab)
    assert rf.search_sorted(x, rf.convert_to_tensor(2.5), axis=vocab, out_dtype="int64").dtype == "int64"
    assert int(rf.search_sorted(x, rf.convert_to_tensor(float("inf")), axis=vocab, side="right")) == 5
    assert int(rf.search_sorted(x, 2.5, axis=vocab)) == int(rf.search_sorted(x, 3, axis=vocab)) == 3
    with pytest.raises(DimError, match="sort: one Dim is needed, not several"):
        rf.sort(x, axis=[vocab])
    with pytest.raises(ParameterError, match="unknown `side`"):
        rf.search_sorted(x, x, axis=vocab, side="middle")


@pytest.mark.parametrize("sorted_", [True, False])
def test_top_k_leaves_padding_out(sorted_):
    time, x = batch_of([4, 2])
    values, places, k_dim = rf.top_k(x - 100.0, axis=time, k=2, sorted=sorted_)
    assert k_dim.dimension == 2 and places.sparse_dim is time
    for b, length in enumerate([4, 2]):
        expected = np.sort(x.raw_tensor[b, :length].numpy() - 100, axis=0)[::-1][:2]
        np.testing.assert_allclose(np.sort(values.raw_tensor[b].numpy(), 0), np.sort(expected, 0))


def test_top_k_over_two_axes():
    time, x = batch_of([4, 2])
    x = x.copy_masked(-9.0) + rf.range_over_dim(feat) * 0.1
    k_dim = rf.Dim(3, name="beam")
    values, (frames, feats), _ = rf.top_k(x, axis=[time, feat], k_dim=k_dim)
    picked = rf.gather(rf.gather(x, indices=frames, axis=time), indices=feats, axis=feat)
    assert torch.equal(picked.raw_tensor, values.raw_tensor)
    assert torch.equal(values.raw_tensor[0], x.raw_tensor[0].flatten().sort(descending=True).values[:3])


def test_top_k_over_a_list_of_one_gives_a_list_of_positions():
    _, x = batch_of([4, 4])
    values, (places,), k_dim = rf.top_k(x, axis=[feat], k=2)
    same, alone, _ = rf.top_k(x, axis=feat, k_dim=k_dim)
    assert torch.equal(places.raw_tensor, alone.raw_tensor) and torch.equal(values.raw_tensor, same.raw_tensor)
    (drawn,) = rf.random_choice_without_replacement(log_probs=x, axis=[feat], num_samples_dim=k_dim)
    assert drawn.sparse_dim is feat


def test_top_k_with_a_number_for_each_sequence():
    time, x = batch_of([5, 2, 4])
    k = rf.convert_to_tensor([3, 1, 0], dims=[batch_dim], dtype="int32")
    values, _, k_dim = rf.top_k(x, axis=time, k=k)
    assert k_dim.size.values.tolist() == [3, 1, 0] and values.dims == (batch_dim, k_dim, feat)
    assert torch.equal(values.raw_tensor[0], x.raw_tensor[0].sort(dim=0, descending=True).values[:3])
    scalar = rf.top_k(x, axis=feat, k=rf.convert_to_tensor(2))
    assert scalar[0].raw_tensor.shape == (3, 5, 2) and scalar[2].get_dim_value() == 2
    assert rf.top_k(x, axis=feat, k_dim=scalar[2])[2] is scalar[2]


TIES = st.sampled_from([0.0, 1.0, 2.0, -np.inf, np.nan])


@examples(60)
@given(st.lists(st.lists(TIES, min_size=6, max_size=6), min_size=1, max_size=3), st.integers(0, 8), st.booleans())
def test_top_k_takes_the_first_of_equal_entries_and_fills_up(rows, k, in_loop):
    beam, label, steps = rf.Dim(2, name="beam"), rf.Dim(3, name="label"), rf.Dim(len(rows), name="steps")
    x = rf.convert_to_tensor(np.reshape(rows, (len(rows), 2, 3)).astype("float32"), dims=[steps, beam, label])
    k_dim = rf.Dim(k, name="k")
    if in_loop:
        loop = rf.Loop(axis=steps, optimize_move_layers_out=False)
        with loop:
            values, (beams, labels), _ = rf.top_k(loop.unstack(x), axis=[beam, label], k_dim=k_dim)
            values, beams, labels = loop.stack(values), loop.stack(beams), loop.stack(labels)
    else:
        values, (beams, labels), _ = rf.top_k(x, axis=[beam, label], k_dim=k_dim)
    for number, row in enumerate(rows):
        numbers = [np.finfo(float).min if np.isnan(number) else number for number in row]
        order = sorted(range(6), key=lambda i: (numbers[i], -i), reverse=True)[:k]
        filled = [row[i] for i in order] + [-np.inf] * (k - len(order))
        np.testing.assert_array_equal(values.raw_tensor[number].numpy(), np.float32(filled))
        places = (beams.raw_tensor[number] * 3 + labels.raw_tensor[number]).tolist()
        assert places == order + [0] * (k - len(order))


def test_top_k_of_no_number_is_told():
    _, x = batch_of([4, 2])
    with pytest.raises(DimError, match="`k` has dims that `source` lacks"):
        rf.top_k(x, axis=feat, k=rf.ones([vocab], dtype="int32"))
    with pytest.raises(DimError, match="`k` must be an int"):
        rf.top_k(x, axis=feat, k=1.5)
    for negative in (-1, rf.convert_to_tensor([2, -1], dims=[batch_dim])):
        with pytest.raises(DimError, match="top_k: `k` is negative"):
            rf.top_k(x, axis=feat, k=negative)
    with pytest.raises(DimError, match="`k` is missing"):
        rf.top_k(x, axis=feat, k_dim=rf.Dim(None))


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("as_tensor", [True, False])
def test_top_k_mask_marks_k_the_first_of_equals(k, as_tensor):
    time, x = batch_of([5, 2])
    mask = rf.top_k_mask(x, axis=time, k=rf.convert_to_tensor(k) if as_tensor else k)
    assert mask.dims_set == {batch_dim, time, feat} and mask.dtype == "bool"
    mask = mask.copy_transpose([batch_dim, time, feat])
    for b, n in enumerate([5, 2]):
        order = np.argsort(-x.raw_tensor[b, :n].numpy(), axis=0, kind="stable")[:k]
        expected = np.zeros((n, 3), dtype=bool)
        np.put_along_axis(expected, order, True, 0)
        assert np.array_equal(mask.raw_tensor[b, :n].numpy(), expected)


@pytest.mark.parametrize(
    ("p", "options", "expected"),
    [
        (0.5, {}, [[0, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]),
        (0.75, {}, [[0, 1, 1, 1, 0], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0]]),
        (0.75, {"one_more": False}, [[0, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]),
        (0.05, {"one_more": False, "min_tokens_to_keep": 0}, [[0] * 5] * 3),
        (0.05, {"one_more": False}, [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]]),
        (0.5, {"min_tokens_to_keep": 3}, [[0, 1, 1, 1, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]]),
        (2.0, {}, [[1] * 5] * 3),
    ],
)
def test_top_p_mask(p, options, expected):
    probs = [[0.1, 0.4, 0.3, 0.15, 0.05], [0.2] * 5, [0.9, 0.02, 0.03, 0.025, 0.025]]
    x = rf.convert_to_tensor(probs, dims=[feat, vocab])
    for value in (p, rf.convert_to_tensor(p), rf.convert_to_tensor([p] * 3, dims=[feat])):
        mask = rf.top_p_mask(x, axis=vocab, p=value, **options).copy_transpose([feat, vocab])
        assert mask.raw_tensor.int().tolist() == expected


def test_in_a_loop():
    time, x = batch_of([3, 2], dtype="float32")

    def steps(row):
        values, _, out = rf.sort(row, axis=feat)
        same, _ = rf.replace_dim(values, in_dim=out, out_dim=feat)
        return same, rf.top_k_mask(row, axis=feat, k=2), rf.search_sorted(values, row, axis=out)

    with rf.Loop(axis=time) as loop:
        outs = [loop.stack(y) for y in steps(loop.unstack(x))]
    for a, b in zip(outs, steps(x), strict=True):
        b = b.copy_transpose(a.dims)
        assert torch.equal(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)
    with pytest.raises(TraceError, match="depends on values"), rf.Loop(axis=time) as loop:
        row = loop.unstack(x)
        rf.top_k(row, axis=feat, k=rf.cast(rf.reduce_max(row, axis=feat), "int64"))


@pytest.mark.parametrize("k", [0, 2])
def test_the_largest_of_no_entries_are_infinitely_low(k):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.zeros(2, 0), dims=[rf.batch_dim, time], lengths=[0, 0])
    assert rf.top_k(x, axis=time, k=k)[0].tolist() == [[float("-inf")] * k] * 2


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_frames_multiply_without_their_padding(descending):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 3.0, 2.0], [5.0]], dims=[batch_dim, time])
    values, _, ranks = rf.sort(x, axis=time, descending=descending)
    assert rf.dot(values, values, reduce=ranks).raw_tensor.tolist() == [14.0, 25.0]


@pytest.mark.parametrize("dims", ["time", "time half", "half time"])
def test_places_without_an_entry_have_position_0_in_a_batch_too(dims):
    time, half = rf.Dim(None, name="time"), rf.Dim(2, name="half")
    x = rf.expand_dim(rf.convert_to_tensor([[1.0, 3.0, 2.0], [5.0]], dims=[batch_dim, time]), half)
    axes = [{"time": time, "half": half}[name] for name in dims.split()]
    for positions in rf.top_k(x, axis=axes, k=6)[1]:
        for b, count in enumerate((3, 1)):
            row = rf.gather(positions, indices=b, axis=batch_dim).raw_tensor
            assert not row[..., count * (2 if len(axes) == 2 else 1) :].any()
            assert row.max() < max(count, 2)


def test_the_largest_over_several_dims_of_which_one_is_empty():
    time, half = rf.Dim(0, name="time"), rf.Dim(2, name="half")
    best, (halves, times), _ = rf.top_k(rf.zeros([half, time]), axis=[half, time], k=2)
    assert best.raw_tensor.tolist() == [-float("inf")] * 2
    assert halves.raw_tensor.tolist() == times.raw_tensor.tolist() == [0, 0]
