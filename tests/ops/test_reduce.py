"""Reductions and softmax: values against numpy over the valid frames, types, and what is left over nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from tests.examples import examples

FEAT, PAIR = rf.Dim(3, name="feat"), rf.Dim(2, name="pair")
NUMPY = {
    **{mode: getattr(np, mode) for mode in ("sum", "mean", "max", "min", "any", "all", "argmax", "argmin")},
    "logsumexp": lambda x: np.log(np.exp(x.astype(float)).sum()),
}


def padded(lengths, dtype="float64", fill=99, seed=0):
    """{batch, time, feat} with `fill` in padding."""
    time = rf.Dim(None, name="time")
    raw = np.random.default_rng(seed).integers(-3, 4, size=(len(lengths), max(lengths), 3)).astype(dtype)
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=lengths).copy_masked(fill), time


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
@pytest.mark.parametrize("mode", NUMPY)
@examples(5)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_modes_agree_with_numpy_on_the_frames_alone(mode, dtype, lengths):
    x, time = padded(lengths, dtype)
    raw = x.numpy()
    over_time = rf.reduce(x, mode=mode, axis=time)
    expected = [[NUMPY[mode](raw[b, :n, f]) for f in range(3)] for b, n in enumerate(lengths)]
    np.testing.assert_allclose(over_time.numpy(), expected, rtol=1e-6)
    if mode.startswith("arg"):
        assert over_time.sparse_dim is time
        return
    both = rf.reduce(x, mode=mode, axis=[FEAT, time])
    np.testing.assert_allclose(both.numpy(), [NUMPY[mode](raw[b, :n]) for b, n in enumerate(lengths)], rtol=1e-6)
    everything = rf.reduce(x, mode=mode, axis=x.dims)
    np.testing.assert_allclose(
        everything.numpy(), NUMPY[mode](np.concatenate([raw[b, :n] for b, n in enumerate(lengths)])), rtol=1e-6
    )
    all_frames = rf.reduce(x, mode=mode, axis=x.dims, use_mask=False)
    np.testing.assert_allclose(all_frames.numpy(), NUMPY[mode](raw), rtol=1e-6)
    assert rf.reduce(x, mode=mode, axis=[]).raw_tensor is x.raw_tensor


@pytest.mark.parametrize(("dtype", "types"), [
    ("float32", "float32 float32 float32 float32 bool int64"),
    ("bfloat16", "bfloat16 bfloat16 bfloat16 bfloat16 bool int64"),
    ("int32", "int64 float32 int32 float32 bool int64"),
    ("bool", "int64 float32 bool float32 bool int64"),
])  # fmt: skip
def test_the_types_of_reductions(dtype, types):
    for lengths in ([2, 2], [2, 1]):
        x, time = padded(lengths, "int64", fill=1)
        x = rf.cast(x, dtype)
        modes = ("sum", "mean", "max", "logsumexp", "any", "argmax")
        assert [rf.reduce(x, mode=mode, axis=time).dtype for mode in modes] == types.split()


@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min", "logsumexp"])
def test_nothing_has_a_gradient_of_0(mode):
    for lengths, empty in (([2, 0], 1), ([0, 0], 0)):
        x, time = padded(lengths, fill=float("nan"))
        raw = x.raw_tensor.requires_grad_()
        total = rf.reduce(x, mode=mode, axis=time)
        neutral = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "logsumexp": -np.inf, "min": np.inf}[mode]
        assert (total.raw_tensor[empty] == neutral).all()
        rf.where(rf.is_finite(total), total, 0.0).raw_tensor.sum().backward()
        assert (raw.grad[empty] == 0).all() and not torch.isnan(raw.grad[0]).any()


def test_the_mean_of_exponents():
    x, time = padded([3, 1])
    expected = [[np.log(np.exp(x.numpy()[b, :n, f]).mean()) for f in range(3)] for b, n in enumerate([3, 1])]
    np.testing.assert_allclose(rf.reduce_logmeanexp(x, axis=time).numpy(), expected)


def test_pieces_of_the_features():
    six = rf.Dim(6, name="six")
    x = rf.convert_to_tensor([1.0, 2.0, 6.0, 5.0, 4.0, 3.0], dims=[six], feature_dim=six)
    largest = rf.reduce_out(x, mode="max", num_pieces=2)
    assert largest.raw_tensor.tolist() == [2.0, 6.0, 4.0]
    assert largest.feature_dim is six // 2
    assert rf.reduce_out(x, mode="mean", num_pieces=3, out_dim=PAIR).raw_tensor.tolist() == [3.0, 4.0]
    with pytest.raises(rf.errors.DimError, match="a multiple of 4 features"):
        rf.reduce_out(x, mode="max", num_pieces=4)


def test_what_cannot_be_reduced():
    x, time = padded([2, 1])
    with pytest.raises(rf.errors.DimError, match="needs a single axis"):
        rf.reduce_argmax(x, axis=[time, FEAT])
    with pytest.raises(rf.errors.RfError, match="unknown `mode`"):
        rf.reduce(x, mode="product", axis=time)
    with pytest.raises(rf.errors.DimError, match="has no dim pair"):
        rf.reduce_sum(x, axis=PAIR)
    with pytest.raises(rf.errors.BackendError, match="only one process is running"):
        rf.reduce_sum(x, axis=time, distributed=True)
    with pytest.raises(rf.errors.BackendError, match="sums and means"):
        rf.reduce(x, mode="max", axis=time, distributed=True)


def test_over_all_processes(tmp_path):
    """Of one process here; it sees the same sums, and gradients flow."""
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    x, time = padded([2, 1])
    raw = x.raw_tensor.requires_grad_()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for mode in ("sum", "mean"):
            everywhere = rf.reduce(x, mode=mode, axis=time, distributed=True)
            np.testing.assert_allclose(
                everywhere.raw_tensor.detach(), rf.reduce(x, mode=mode, axis=time).raw_tensor.detach()
            )
        everywhere.raw_tensor.sum().backward()
        assert raw.grad[:, 0].tolist() == [[0.5] * 3, [1.0] * 3]
        for a, b in zip(
            rf.moments(x, time, correction=1), rf.moments(x, time, correction=1, distributed=True), strict=True
        ):
            np.testing.assert_allclose(a.raw_tensor.detach(), b.raw_tensor.detach())
    finally:
        torch.distributed.destroy_process_group()


SOFTMAX = {"softmax": (rf.softmax, torch.softmax), "log_softmax": (rf.log_softmax, torch.log_softmax)}


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("fill", [0.0, float("nan")])
def test_softmax_over_the_batch_leaves_out_the_frames_of_shorter_sequences(name, fill):
    ours, theirs = SOFTMAX[name]
    x, _ = padded([3, 1], fill=fill)
    y = ours(x, axis=batch_dim).raw_tensor
    torch.testing.assert_close(y[:, 0], theirs(x.raw_tensor[:, 0], 0))
    torch.testing.assert_close(y[:1, 1:], theirs(x.raw_tensor[:1, 1:], 0))
    assert (y[1, 1:] == (0 if name == "softmax" else -np.inf)).all()
    if fill == 0:
        torch.testing.assert_close(ours(x, axis=batch_dim, use_mask=False).raw_tensor, theirs(x.raw_tensor, 0))


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_row_of_padding_alone_has_no_gradient(name):
    ours, _ = SOFTMAX[name]
    for lengths in ([2, 0], [0, 0]):
        x, time = padded(lengths, fill=float("nan"))
        raw = x.raw_tensor.requires_grad_()
        y = ours(x, axis=time)
        assert (y.raw_tensor[1] == (0 if name == "softmax" else -np.inf)).all()
        rf.reduce_sum(rf.where(rf.is_finite(y), y * y, 0.0), axis=y.dims, use_mask=False).raw_tensor.backward()
        assert (raw.grad[1] == 0).all() and torch.isfinite(raw.grad).all()


def test_cumsum_over_the_batch_leaves_out_the_frames_of_shorter_sequences():
    x, _ = padded([1, 3], fill=float("nan"))
    y = rf.cumsum(x, spatial_dim=batch_dim)
    torch.testing.assert_close(y.raw_tensor[1, 1:], x.raw_tensor[1, 1:])
    torch.testing.assert_close(y.raw_tensor[1, 0], x.raw_tensor[:, 0].sum(0))


@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min", "any", "argmax"])
def test_what_is_left_of_labels(mode):
    """The largest label is a label; a sum or mean of labels is not."""
    time, vocab = rf.Dim(3, name="time"), rf.Dim(9, name="vocab")
    labels = rf.convert_to_tensor(np.array([1, 4, 2]), dims=[time], sparse_dim=vocab)
    left = {"max": vocab, "min": vocab, "argmax": time}
    for _ in range(2):  # planned, and as planned
        assert rf.reduce(labels, mode=mode, axis=time).sparse_dim is left.get(mode)


@pytest.mark.parametrize(("frames", "value"), [(80000, 1.0), (2000, 100.0)])
def test_the_mean_in_float16_is_not_that_of_an_overflow(frames, value):
    time = rf.Dim(None, name="time")
    raw = torch.full((2, frames), value, dtype=torch.float16)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=[frames, frames - 1])
    assert rf.reduce_mean(x, axis=time).tolist() == [value, value]
    mean = rf.reduce_mean(x, axis=[batch_dim, time])
    assert mean.dtype == "float16" and mean.item() == value


@pytest.mark.parametrize("lengths", [[70000, 70000], [70000, 69995]])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_sums_of_exponentials_in_float16_do_not_overflow(kind, lengths):
    time = rf.Dim(None, name="time")
    raw = kind(np.ones((2, 70000), np.float16))
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths)
    mean, total = rf.reduce_logmeanexp(x, axis=time), rf.reduce_logsumexp(x, axis=time)
    assert mean.dtype == total.dtype == "float16"
    np.testing.assert_allclose(mean.numpy(), 1.0, atol=0.01)
    np.testing.assert_allclose(total.numpy(), 1.0 + np.log(lengths), atol=0.01)


@pytest.mark.parametrize("others", [[[1.0, 2.0]], [[]], [[1.0, 2.0], []]], ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_row_that_is_all_infinitely_low_is_nan_in_any_batch(name, others):
    """Such a row has a frame: it is NaN as in torch, with other sequences of any length beside it."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[-float("inf")], *others], dims=[batch_dim, time])
    first, *result = getattr(rf, name)(x, axis=time).raw_tensor
    assert torch.isnan(first[0])
    for row, numbers in zip(result, others, strict=True):
        torch.testing.assert_close(row[: len(numbers)], getattr(torch, name)(torch.tensor(numbers), 0))
