"""The spectrum over time, against a sum of cosines and against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError
from tests.examples import examples


def signals(lengths, garbage=float("nan")):
    samples = rf.Dim(None, name="samples")
    raw = np.random.default_rng(0).normal(size=(len(lengths), max(lengths)))
    for i, n in enumerate(lengths):
        raw[i, n:] = garbage
    return rf.convert_to_tensor(raw, dims=[batch_dim, samples], lengths=lengths).copy_masked(garbage), samples


def by_definition(signal, step, length, fft_length, *, left=0, even=True, whole=False):
    size = length - length % 2 if even else length
    window = np.zeros(fft_length)
    window[left : left + size] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    count = max((len(signal) - (fft_length if whole else length)) // step + 1, 0)
    padded = np.concatenate([signal, np.zeros(fft_length)])
    frames = [padded[i * step : i * step + fft_length] * window for i in range(count)]
    turns = np.exp(-2j * np.pi * np.outer(np.arange(fft_length), np.arange(fft_length // 2 + 1)) / fft_length)
    return np.array(frames).reshape(count, fft_length) @ turns


@examples(60)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    step=st.integers(1, 6),
    length=st.integers(2, 9),
    more=st.integers(0, 5),
    even=st.booleans(),
    middle=st.booleans(),
    whole=st.booleans(),
)
def test_each_frame_by_definition(lengths, step, length, more, even, middle, whole):
    x, samples = signals(lengths)
    y, frames, bins = rf.stft(
        x,
        in_spatial_dim=samples,
        frame_step=step,
        frame_length=length,
        fft_length=length + more,
        window_enforce_even=even,
        align_window_left=not middle,
        window_use_frame_length=not whole,
    )
    assert y.dims == (batch_dim, frames, bins) and y.feature_dim is bins and bins.dimension == (length + more) // 2 + 1
    sizes = np.broadcast_to(y.size_of(frames).values, len(lengths))
    left = (length + more - (length - length % 2 if even else length)) // 2 if middle else 0
    for i, n in enumerate(lengths):
        expected = by_definition(x.numpy()[i, :n], step, length, length + more, left=left, even=even, whole=whole)
        assert sizes[i] == len(expected)
        np.testing.assert_allclose(y.numpy()[i, : sizes[i]], expected, atol=1e-6)


def test_like_torch():
    x, samples = signals([40])
    y, frames, _ = rf.stft(rf.cast(x, "float32"), in_spatial_dim=samples, frame_step=4, frame_length=8)
    window = torch.hann_window(8)
    plain = torch.stft(x.raw_tensor.float(), 8, 4, window=window, center=False, return_complex=True)
    assert y.dtype == "complex64" and frames is (samples - 7).ceildiv_right(4)
    torch.testing.assert_close(y.raw_tensor, plain.mT)


def test_dims_may_be_given():
    x, samples = signals([20, 11])
    frames, bins = rf.Dim(None, name="frames"), rf.Dim(4, name="bins")
    y, *found = rf.stft(x, in_spatial_dim=samples, frame_step=3, frame_length=6, out_spatial_dim=frames, out_dim=bins)
    assert found == [frames, bins] and y.dims == (batch_dim, frames, bins)
    assert y.size_of(frames).values.tolist() == [5, 2]


def test_gradients_stay_out_of_padding():
    x, samples = signals([20, 11])
    x.raw_tensor.requires_grad_(True)
    y, _, _ = rf.stft(x, in_spatial_dim=samples, frame_step=3, frame_length=6, fft_length=8)
    energy = rf.reduce_sum(rf.square(rf.abs(y)), axis=y.dims)
    [slope] = torch.autograd.grad(energy.raw_tensor, [x.raw_tensor])
    assert torch.isfinite(slope).all() and (slope[1, 11:] == 0).all() and (slope[1, 1:9] != 0).all()


def test_padding_counts_if_asked_for():
    x, samples = signals([20, 11], garbage=100.0)
    options = {"in_spatial_dim": samples, "frame_step": 3, "frame_length": 6, "fft_length": 10}
    masked, loose = rf.stft(x, **options)[0], rf.stft(x, **options, use_mask=False)[0]
    assert loose.dims[:2] == masked.dims[:2] and loose.size_of(loose.dims[1]).values.tolist() == [5, 2]
    assert not masked.raw_tensor[1, 2].any() and loose.raw_tensor[1, 2].abs().max() > 10


@pytest.mark.parametrize("dtype", ["int32", "bfloat16"])
def test_other_types_are_made_floats(dtype):
    x = rf.cast(signals([20], garbage=0.0)[0] * 100.0, dtype)
    assert rf.stft(x, in_spatial_dim=x.dims[1], frame_step=3, frame_length=6)[0].dtype == "complex64"


def test_a_transform_shorter_than_the_frames_is_told():
    x, samples = signals([20])
    with pytest.raises(DimError, match="longer than the transform"):
        rf.stft(x, in_spatial_dim=samples, frame_step=3, frame_length=8, fft_length=6)
    with pytest.raises(DimError, match="`x` has no dim"):
        rf.stft(x, in_spatial_dim=rf.Dim(3, name="other"), frame_step=3, frame_length=8)
