"""Features of speech and masks over them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground.scope import random_from
from rfnb.errors import DimError

LOW = [4.2207, 3.4111, -4.2460, -6.4664, -8.1399]  # log10 of the energy in each band
HIGH = [-6.6442, -5.8273, 2.9213, 4.2640, -0.0946]
ROWS, FEAT = rf.Dim(400, name="rows"), rf.Dim(20, name="feat")


@pytest.fixture(autouse=True)
def seeded():
    rf.set_random_seed(1)
    yield
    rf.init_forward_step_run_ctx()


def test_log_mel_of_two_tones():
    samples, bands = rf.Dim(None, name="samples"), rf.Dim(5, name="bands")
    seconds = np.arange(900) / 16000
    raw = np.stack([np.sin(2 * np.pi * f * seconds) for f in (440, 3000)]).astype("float32")
    raw[1, 700:] = np.nan
    audio = rf.convert_to_tensor(raw, dims=[batch_dim, samples], lengths=[900, 700])
    y, frames = rf.audio.log_mel_filterbank_from_raw(audio, in_spatial_dim=samples, out_dim=bands)
    assert y.dims == (batch_dim, frames, bands) and y.size_of(frames).values.tolist() == [4, 2]
    np.testing.assert_allclose(y.numpy()[:, 0], [LOW, HIGH], atol=5e-3)
    half, _ = rf.audio.log_mel_filterbank_from_raw(audio, in_spatial_dim=samples, out_dim=bands, log_base=100)
    np.testing.assert_allclose(half.numpy()[0] * 2, y.numpy()[0], atol=1e-5)


def log_mel(raw, dims=(), **given):
    """{batch, frames, bands} of audio {batch, samples, …}, lengths 900 and 700."""
    samples, bands = rf.Dim(None, name="samples"), rf.Dim(5, name="bands")
    audio = rf.convert_to_tensor(raw, dims=[batch_dim, samples, *dims], lengths=[900, 700], **given)
    return rf.audio.log_mel_filterbank_from_raw(audio, in_spatial_dim=samples, out_dim=bands)[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_log_mel_keeps_the_dtype_of_the_audio(dtype):
    raw = torch.randn(2, 900, dtype=torch.float64)
    y, precise = log_mel(raw.to(getattr(torch, dtype))), log_mel(raw.to(getattr(torch, dtype)).double())
    assert y.dtype == dtype
    tolerance = {"bfloat16": 2e-2, "float16": 5e-3}.get(dtype, 1e-4)
    np.testing.assert_allclose(rf.cast(y, "float64").numpy(), precise.numpy(), atol=tolerance)


def test_a_feature_dim_of_one_is_the_axis_of_the_samples():
    raw, one, two = torch.randn(2, 900), rf.Dim(1, name="one"), rf.Dim(2, name="channels")
    y = log_mel(raw[..., None], [one], feature_dim=one)
    assert y.dims[0] == batch_dim and len(y.dims) == 3 and y.feature_dim is y.dims[2]
    np.testing.assert_array_equal(y.numpy(), log_mel(raw).numpy())
    assert one in log_mel(raw[..., None], [one]).dims  # not said to be features
    assert two in log_mel(raw[..., None].expand(2, 900, 2), [two], feature_dim=two).dims


def test_bands_are_the_features_of_the_result():
    bins, bands = rf.Dim(129, name="bins"), rf.Dim(8, name="bands")
    y = rf.audio.mel_filterbank(rf.ones([batch_dim, bins]), in_dim=bins, out_dim=bands, sampling_rate=16000)
    assert y.feature_dim is bands and log_mel(torch.ones(2, 900)).feature_dim.name == "bands"


def test_silence_is_the_floor():
    samples, bands = rf.Dim(800, name="samples"), rf.Dim(5, name="bands")
    y, _ = rf.audio.log_mel_filterbank_from_raw(rf.zeros([samples]), in_spatial_dim=samples, out_dim=bands)
    np.testing.assert_allclose(y.numpy(), -10.0, atol=1e-5)


def test_bands_are_triangles():
    bins, same, bands = rf.Dim(129, name="bins"), rf.Dim(129, name="same"), rf.Dim(8, name="bands")
    each = rf.convert_to_tensor(np.eye(129), dims=[same, bins])
    weights = rf.audio.mel_filterbank(each, in_dim=bins, out_dim=bands, sampling_rate=16000).numpy()
    reached = [np.flatnonzero(band)[[0, -1]].tolist() for band in weights.T]
    assert reached == [[1, 8], [4, 14], [9, 23], [15, 34], [24, 48], [35, 68], [49, 94], [69, 127]]
    np.testing.assert_allclose(weights.max(0)[[0, 7]], [0.9204, 0.9998], atol=1e-4)
    np.testing.assert_allclose(weights[15:70].sum(1), 1.0, atol=1e-6)
    low = rf.audio.mel_filterbank(each, in_dim=bins, out_dim=bands, sampling_rate=16000, f_min=100, f_max=4000).numpy()
    assert not low[:2].any() and low[65:].max() < 1e-9
    with pytest.raises(DimError, match="is not the number of frequencies"):
        rf.audio.mel_filterbank(each, in_dim=bins, out_dim=bands, sampling_rate=16000, fft_length=512)


def test_bands_without_a_frequency_are_warned_of_once():
    bins, bands = rf.Dim(9, name="bins"), rf.Dim(12, name="bands")
    with pytest.warns(UserWarning, match=r"always 0\n.* of the 12 bands of bands, .* for 9 frequencies") as warned:
        for _ in range(2):
            y = rf.audio.mel_filterbank(rf.ones([bins]), in_dim=bins, out_dim=bands, sampling_rate=16000)
    assert len(warned) == 1 and warned[0].filename == __file__
    empty = int((y.raw_tensor == 0).sum())
    assert 0 < empty < 12 and f"{empty} of the 12" in str(warned[0].message)


def masked(y, dims):
    """Which entries are 0, as {dims}, where the others are 1."""
    return y.copy_transpose(dims).numpy() == 0


def test_a_mask_begins_where_it_is_told():
    time = rf.Dim(10, name="time")
    pos = rf.convert_to_tensor(np.full(400, 3), dims=[ROWS], sparse_dim=time)
    found = masked(rf.audio.mask(rf.ones([ROWS, time]), mask_axis=time, pos=pos, max_amount=4), [ROWS, time])
    assert (found.argmax(1) == 3).all() and set(found.sum(1)) == {1, 2, 3, 4}
    assert ((np.diff(found.astype(int), axis=1) == 1).sum(1) == 1).all()
    end = rf.audio.mask(
        rf.ones([ROWS, time]), mask_axis=time, pos=pos + 5, max_amount=rf.Dim(4, name="most"), mask_value=7.0
    )
    assert set((end.numpy() == 7).sum(1)) == {1, 2} and (end.numpy()[:, :8] == 1).all()


@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_number_of_masks(as_tensor):
    time = rf.Dim(30, name="time")
    most = rf.convert_to_tensor(np.full(400, 3), dims=[ROWS]) if as_tensor else 3
    y = rf.audio.random_mask(
        rf.ones([ROWS, time, FEAT]),
        mask_axis=time,
        broadcast_axis=FEAT,
        min_num=1,
        max_num=most,
        max_dims=1,
        max_num_bound=3 if as_tensor else None,
    )
    found = masked(y, [ROWS, time, FEAT])
    assert (found == found[..., :1]).all() and not (found == found[:1]).all()
    counts = np.bincount(found[..., 0].sum(1))
    assert counts[0] == 0 and len(counts) == 4 and (counts[1:] > 90).all()
    assert found[..., 0].any(0).all()


def test_masks_are_among_the_frames():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(np.ones((3, 50)), dims=[batch_dim, time], lengths=[50, 5, 0])
    y = rf.audio.random_mask(x, mask_axis=time, broadcast_axis=[], min_num=2, max_num=2, max_dims=1)
    found = masked(y, [batch_dim, time])
    assert found[0].sum() == 2 and found[1, :5].sum() == 2


def test_more_masks_than_frames_and_none():
    time = rf.Dim(2, name="time")
    y = rf.audio.random_mask(rf.ones([ROWS, time]), mask_axis=time, broadcast_axis=[], min_num=5, max_num=9, max_dims=1)
    assert masked(y, [ROWS, time]).all()
    x = rf.ones([ROWS, time])
    assert rf.audio.random_mask(x, mask_axis=time, broadcast_axis=[], min_num=0, max_num=0, max_dims=1) is x
    with pytest.raises(DimError, match="max_num_bound"):
        rf.audio.random_mask(x, mask_axis=time, broadcast_axis=[], min_num=0, max_num=rf.ones([ROWS]), max_dims=1)


def counts(step, frames=400, **options):
    """The fewest and most masks in time and in features, of all rows."""
    rf.init_train_step_run_ctx(train_flag=True, step=step)
    time = rf.Dim(frames, name="time")
    y = rf.audio.specaugment(
        rf.ones([ROWS, time, FEAT]),
        spatial_dim=time,
        feature_dim=FEAT,
        **{"max_consecutive_spatial_dims": 1, "max_consecutive_feature_dims": 1, **options},
    )
    found = masked(y, [ROWS, time, FEAT])
    in_time, in_features = found.all(2).sum(1), found.all(1).sum(1)
    return (in_time.min(), in_time.max()), (in_features.min(), in_features.max())


@pytest.mark.parametrize(
    ("step", "options", "expected"),
    [
        (0, {}, ((0, 4), (0, 2))),
        (999, {}, ((0, 4), (0, 2))),
        (1000, {}, ((1, 8), (1, 3))),
        (2000, {}, ((2, 16), (2, 5))),
        (5000, {"frames": 50}, ((2, 8), (2, 5))),
        (0, {"global_train_step_dependent": False}, ((2, 16), (2, 5))),
        (2000, {"num_spatial_mask_factor": 50, "frames": 200}, ((2, 16), (2, 5))),
        (5, {"steps": (10, 20, 30)}, ((0, 0), (0, 0))),
        (25, {"steps": (10, 20, 30)}, ((1, 8), (1, 3))),
    ],
)
def test_specaugment_masks_more_after_more_training(step, options, expected):
    assert counts(step, **options) == expected


def test_specaugment_only_in_training():
    time = rf.Dim(50, name="time")
    x = rf.ones([ROWS, time, FEAT], feature_dim=FEAT)
    rf.init_forward_step_run_ctx(step=5000)
    assert rf.audio.specaugment(x, spatial_dim=time) is x
    assert masked(rf.audio.specaugment(x, spatial_dim=time, only_on_train=False), x.dims).any()
    rf.init_train_step_run_ctx(step=5000)
    y = rf.audio.specaugment(x, spatial_dim=time)
    assert y.dims == x.dims and y.feature_dim is FEAT
    with pytest.raises(DimError, match="which dim holds the features"):
        rf.audio.specaugment(rf.ones([time, FEAT]), spatial_dim=time)


def test_specaugment_by_the_length_of_each_sequence():
    rf.init_train_step_run_ctx(step=5000)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(np.ones((200, 400, 20)), dims=[batch_dim, time, FEAT], lengths=[400] * 100 + [200] * 100)
    y = rf.audio.specaugment(
        x, spatial_dim=time, feature_dim=FEAT, max_consecutive_spatial_dims=1, num_masks_per_seq=True
    )
    found = masked(y, [batch_dim, time, FEAT]).all(2).sum(1)
    assert found[:100].max() > 12 and found[100:].min() >= 2 and found[100:].max() == 8


def test_masks_come_from_the_stream():
    rf.init_train_step_run_ctx(step=5000)
    time = rf.Dim(100, name="time")
    x = rf.ones([time, FEAT])

    def draw(seed):
        with random_from(lambda device: torch.Generator(device=device).manual_seed(seed)):
            return rf.audio.specaugment(x, spatial_dim=time, feature_dim=FEAT).raw_tensor

    assert torch.equal(draw(1), draw(1)) and not torch.equal(draw(1), draw(2))


def test_each_step_of_a_loop_draws_anew():
    rf.init_train_step_run_ctx(step=5000)
    steps, time = rf.Dim(6, name="steps"), rf.Dim(100, name="time")
    ones = rf.ones([steps, time, FEAT])
    with rf.Loop(axis=steps) as loop:
        x = loop.unstack(ones)
        ys = loop.stack(rf.audio.specaugment(x, spatial_dim=time, feature_dim=FEAT))
    found = masked(ys, [steps, time, FEAT])
    assert found.any((1, 2)).all() and len({row.tobytes() for row in found}) == 6


def test_gradients_pass_what_is_not_masked():
    rf.init_train_step_run_ctx(step=5000)
    time = rf.Dim(100, name="time")
    x = rf.convert_to_tensor(torch.ones(100, 20, requires_grad=True), dims=[time, FEAT])
    y = rf.audio.specaugment(x, spatial_dim=time, feature_dim=FEAT)
    [slope] = torch.autograd.grad(y.raw_tensor.sum(), [x.raw_tensor])
    torch.testing.assert_close(slope, y.raw_tensor.detach())
