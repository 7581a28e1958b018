"""Entries put in places: against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, ParameterError
from tests.examples import examples

feat, vocab = rf.Dim(3, name="feat"), rf.Dim(5, name="vocab")


def logsumexp(x, axis):
    return np.log(np.exp(x).sum(axis))


def logmeanexp(x, axis):
    return np.log(np.exp(x).mean(axis))


MODES = {  # how entries of one place are combined, and what is where there is none
    "sum": (np.sum, 0),
    "mean": (np.mean, 0),
    "max": (np.max, -np.inf),
    "min": (np.min, np.inf),
    "logsumexp": (logsumexp, -np.inf),
    "logmeanexp": (logmeanexp, -np.inf),
    "argmax": (np.argmax, -1),
}


def batch_of(lengths, seed=0):
    """{batch, time, feat} and labels {batch, time}, with garbage in padding."""
    time = rf.Dim(None, name="time")
    generator = np.random.default_rng(seed)
    x = rf.convert_to_tensor(
        generator.normal(size=(len(lengths), max(lengths), 3)), dims=[batch_dim, time, feat], lengths=lengths
    )
    labels = generator.integers(0, 5, size=(len(lengths), max(lengths)))
    labels = rf.convert_to_tensor(labels, dims=[batch_dim, time], sparse_dim=vocab)
    return time, x.copy_masked(float("nan")), labels.copy_masked(-999)


@pytest.mark.parametrize("fill", [None, -2])
@pytest.mark.parametrize("mode", MODES)
@examples(10)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_each_mode(mode, fill, lengths, seed):
    time, x, labels = batch_of(lengths, seed)
    combine, nothing = MODES[mode]
    expected = np.full((len(lengths), 5, 3), nothing if fill is None else fill, dtype=float)
    for b, n in enumerate(lengths):
        here = labels.raw_tensor[b, :n].numpy()
        for place in set(here.tolist()):
            found = combine(x.raw_tensor[b, :n].numpy()[here == place], 0)
            expected[b, place] = np.flatnonzero(here == place)[found] if mode == "argmax" else found
    y = rf.scatter(x, indices=labels, indices_dim=time, mode=mode, fill_value=fill)
    assert y.dims == (batch_dim, vocab, feat) and y.sparse_dim is (time if mode == "argmax" else None)
    np.testing.assert_allclose(y.raw_tensor.numpy(), expected)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "argmax"])
def test_gradients_are_those_of_the_definition(mode):
    time, x, labels = batch_of([6, 3])
    x = x.like(x.raw_tensor.clone().requires_grad_())
    y = rf.scatter(x, indices=labels, indices_dim=time, mode=mode, fill_value=0)
    weights = torch.arange(1.0, 31.0, dtype=torch.float64).reshape(2, 5, 3)
    [gradient] = torch.autograd.grad((y.raw_tensor * weights).sum(), [x.raw_tensor])
    function = {
        "sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "logsumexp": torch.logsumexp,
        "logmeanexp": lambda rows, axis: torch.logsumexp(rows, axis) - np.log(len(rows)),
    }[mode]  # fmt: skip
    total = torch.zeros((), dtype=torch.float64)
    for b, n in enumerate([6, 3]):
        for place in labels.raw_tensor[b, :n].unique().tolist():
            rows = x.raw_tensor[b, :n][labels.raw_tensor[b, :n] == place]
            total = total + (function(rows, 0) * weights[b, place]).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(total, [x.raw_tensor])[0])
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("mode", ["mean", "logsumexp", "logmeanexp"])
def test_many_entries_in_float16_do_not_overflow(mode):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(1, 70000, dtype=torch.float16), dims=[batch_dim, time])
    labels = rf.zeros([batch_dim, time], dtype="int64", sparse_dim=vocab)
    y = rf.scatter(x, indices=labels, indices_dim=time, mode=mode)
    expected = 1.0 + np.log(70000) * (mode == "logsumexp")
    assert y.dtype == "float16" and y.raw_tensor[0, 0].item() == pytest.approx(expected, abs=0.01)


def test_counts():
    time, _, labels = batch_of([6, 3, 0])
    counts = rf.scatter_count(indices=labels, indices_dim=time)
    expected = [np.bincount(labels.raw_tensor[b, :n].numpy(), minlength=5) for b, n in enumerate([6, 3, 0])]
    assert counts.dtype == "int32" and np.array_equal(counts.raw_tensor.numpy(), expected)
    filled = rf.scatter_count(indices=labels, indices_dim=time, fill_value=9)
    assert np.array_equal(filled.raw_tensor.numpy(), np.where(np.array(expected) == 0, 9, expected))


@pytest.mark.parametrize("mode", ["sum", "max", "logsumexp"])
def test_over_several_dims(mode):
    time, x, labels = batch_of([4, 2])
    y = rf.scatter(x, indices=labels, indices_dim=[batch_dim, time], mode=mode)
    packed, frames = rf.pack_padded(x, dims=[batch_dim, time])
    places, _ = rf.pack_padded(labels, dims=[batch_dim, time], out_dim=None)
    places, _ = rf.replace_dim(places, in_dim=places.dims[0], out_dim=frames)
    expected = rf.scatter(packed, indices=places, indices_dim=frames, mode=mode)
    assert y.dims == (vocab, feat)
    torch.testing.assert_close(y.raw_tensor, expected.raw_tensor)


@pytest.mark.parametrize("mode", ["sum", "logsumexp", "argmax"])
def test_into_several_dims(mode):
    rows, cols, many = rf.Dim(2, name="rows"), rf.Dim(3, name="cols"), rf.Dim(6, name="many")
    time, x, _ = batch_of([4, 2])
    places = rf.convert_to_tensor([[0, 5, 5, 3], [1, 1]], dims=[batch_dim, time])
    y = rf.scatter(x, indices=places, indices_dim=time, out_dim=[rows, cols], mode=mode)
    flat = rf.scatter(x, indices=places, indices_dim=time, out_dim=many, mode=mode)
    assert y.dims == (batch_dim, rows, cols, feat)
    assert torch.equal(y.raw_tensor.flatten(1, 2), flat.raw_tensor)


def test_what_all_frames_share_is_put_once_for_each():
    time, _, labels = batch_of([6, 3])
    y = rf.scatter(rf.ones([feat]), indices=labels, indices_dim=time)
    counts = rf.scatter_count(indices=labels, indices_dim=time).raw_tensor
    assert torch.equal(y.raw_tensor, counts[..., None].expand(2, 5, 3).float())


PLACES_OF_FRAMES = {  # of the frames [[2, 3], [5, padding]], into three places
    "sum": [[2, 3, 0], [5, 0, 0]],
    "mean": [[2, 3, 0], [5, 0, 0]],
    "max": [[2, 3, -7], [5, -7, -7]],
    "min": [[2, 3, -7], [5, -7, -7]],
    "logsumexp": [[2, 3, -7], [5, -7, -7]],
    "logmeanexp": [[2, 3, -7], [5, -7, -7]],
    "argmax": [[0, 1, -7], [0, -7, -7]],
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("mode", PLACES_OF_FRAMES)
def test_indices_without_the_batch_put_no_padding(mode, several):
    time, out = rf.Dim(None, name="time"), rf.Dim(3, name="out")
    x = rf.convert_to_tensor([[2.0, 3.0], [5.0, 4.0]], dims=[batch_dim, time], lengths=[2, 1])
    over = [time] if several else time
    fill = None if mode in ("sum", "mean") else -7
    y = rf.scatter(x, indices=rf.range_over_dim(time), indices_dim=over, out_dim=out, mode=mode, fill_value=fill)
    assert y.dims == (batch_dim, out)
    np.testing.assert_allclose(y.raw_tensor.numpy(), PLACES_OF_FRAMES[mode])


def test_counts_of_indices_without_the_batch_have_it():
    time, out = rf.Dim(None, name="time"), rf.Dim(3, name="out")
    rf.convert_to_tensor([[2.0, 3.0], [5.0, 4.0]], dims=[batch_dim, time], lengths=[2, 1])
    counts = rf.scatter_count(indices=rf.range_over_dim(time), indices_dim=time, out_dim=out)
    assert counts.dims == (batch_dim, out) and counts.raw_tensor.tolist() == [[1, 1, 0], [1, 0, 0]]
    both = rf.scatter_count(indices=rf.range_over_dim(time), indices_dim=time, out_dim=out, fill_value=9)
    assert both.raw_tensor.tolist() == [[1, 1, 9], [1, 9, 9]]


def test_the_first_of_equals_is_the_largest():
    time = rf.Dim(4, name="time")
    labels = rf.convert_to_tensor([1, 1, 2, 1], dims=[time], sparse_dim=vocab)
    y = rf.scatter_argmax(rf.ones([time]), indices=labels, indices_dim=time, invalid_idx=-7)
    assert y.raw_tensor.tolist() == [-7, 0, 2, -7, -7]


def test_nothing_but_minus_infinity_has_no_nan():
    time = rf.Dim(2, name="time")
    labels = rf.convert_to_tensor([1, 1], dims=[time], sparse_dim=vocab)
    raw = torch.full((2,), float("-inf"), requires_grad=True)
    y = rf.scatter_logsumexp(rf.convert_to_tensor(raw, dims=[time]), indices=labels, indices_dim=time).raw_tensor
    assert torch.isneginf(y).all()
    y.exp().sum().backward()
    assert raw.grad.tolist() == [0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_in_a_loop(mode):
    time, x, _ = batch_of([3, 2])
    places = rf.convert_to_tensor([4, 0, 4], dims=[feat], sparse_dim=vocab)
    with rf.Loop(axis=time) as loop:
        out = loop.stack(rf.scatter(loop.unstack(x), indices=places, indices_dim=feat, mode=mode))
    expected = rf.scatter(x, indices=places, indices_dim=feat, mode=mode).copy_transpose(out.dims)
    assert torch.equal(out.copy_masked(0.0).raw_tensor, expected.copy_masked(0.0).raw_tensor)


def test_what_does_not_fit_is_told():
    time, x, labels = batch_of([2])
    with pytest.raises(ParameterError, match="unknown `mode`"):
        rf.scatter(x, indices=labels, indices_dim=time, mode="prod")
    with pytest.raises(DimError, match="the indices do not imply it"):
        rf.scatter(x, indices=rf.set_sparse_dim(labels, None), indices_dim=time)
    with pytest.raises(DimError, match="`indices` has no dim feat"):
        rf.scatter(x, indices=labels, indices_dim=feat)
    with pytest.raises(DtypeError, match="must be integers"):
        rf.scatter(x, indices=x, indices_dim=time, out_dim=vocab)
    with pytest.raises(DimError, match="only one `indices_dim`"):
        rf.scatter_argmax(x, indices=labels, indices_dim=[batch_dim, time])
