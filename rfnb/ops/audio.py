"""Speech features and data augmentation: `rf.audio`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from rfnb.backend.base.index import warn_once
from rfnb.backend.base.require import axis_of
from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.defaults import is_float_dtype
from rfnb.core.run_ctx import get_run_ctx, get_run_ctx_step
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.ops.conv import stft
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import top_k
from rfnb.ops.math import abs, add, cast, compare_bc, floor, log, logical_and, maximum, mul, square, sub, where
from rfnb.ops.matmul import matmul
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_any
from rfnb.ops.shape import squeeze

__all__ = ["log_mel_filterbank_from_raw", "mask", "mel_filterbank", "random_mask", "specaugment"]
__dir__ = __all__.copy  # names offered for completion, without imports


@guarded
def log_mel_filterbank_from_raw(
    raw_audio: Tensor,
    *,
    in_spatial_dim: Dim,
    out_dim: Dim,
    sampling_rate: int = 16_000,
    window_len: float = 0.025,
    step_len: float = 0.010,
    n_fft: int | None = None,
    log_base: int | float = 10,
) -> tuple[Tensor, Dim]:
    """The logarithm of the energy in mel bands, and the dim of frames.

    {…, in_spatial_dim} → {…, frames, out_dim} in the dtype of the audio; a feature dim of size 1 is left out

    >>> samples, bands = rf.Dim(1600, name="samples"), rf.Dim(40, name="bands")
    >>> audio = rf.random_normal([samples])
    >>> rf.audio.log_mel_filterbank_from_raw(audio, in_spatial_dim=samples, out_dim=bands)[1].dimension
    8

    Args:
        window_len, step_len: in seconds.
        n_fft: by default the smallest power of 2 that is at least the window.
    """
    only_channel = raw_audio.feature_dim
    if only_channel is not None and only_channel.dimension == 1:
        raw_audio = squeeze(raw_audio, only_channel)
    length, step = int(window_len * sampling_rate), int(step_len * sampling_rate)
    n_fft = n_fft or 2 ** math.ceil(math.log2(length))
    spectrum, frames, bins = stft(
        raw_audio, in_spatial_dim=in_spatial_dim, frame_step=step, frame_length=length, fft_length=n_fft
    )
    energy = mel_filterbank(square(abs(spectrum)), in_dim=bins, out_dim=out_dim, sampling_rate=sampling_rate)
    features = log(maximum(energy, 1e-10)) / math.log(log_base)
    return cast(features, raw_audio.dtype) if is_float_dtype(raw_audio.dtype) else features, frames


@guarded
def mel_filterbank(
    x: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    sampling_rate: int | float,
    fft_length: int | None = None,
    f_min: int | float | None = None,
    f_max: int | float | None = None,
) -> Tensor:
    """Sums of frequencies in triangular bands, equally spaced on the mel scale.

    {…, in_dim} → {…, out_dim}

    >>> bins, bands = rf.Dim(201, name="bins"), rf.Dim(40, name="bands")
    >>> rf.audio.mel_filterbank(rf.ones([bins]), in_dim=bins, out_dim=bands, sampling_rate=16_000).dims == (bands,)
    True

    Args:
        fft_length: length of the transform that gave `in_dim`; by default twice the size of `in_dim` minus 2.
        f_min, f_max: where the first band begins and the last band ends; by default 0 and half the sampling rate.
    """
    fft_length = fft_length or 2 * (in_dim.get_dim_value() - 1)
    if in_dim.get_dim_value() != fft_length // 2 + 1:
        raise DimError(
            f"mel_filterbank: the size of {in_dim.name} is not the number of frequencies of this transform",
            got=in_dim.describe(),
            expected=f"{fft_length // 2 + 1} for fft_length {fft_length}",
        )
    top = sampling_rate / 2 if f_max is None else f_max
    triangles = _triangles(out_dim.get_dim_value(), fft_length, sampling_rate, f_min or 0, top)
    _warn_of_empty(triangles, in_dim, out_dim)
    weights = convert_to_tensor(triangles, dims=[in_dim, out_dim], dtype=x.dtype, device=x.device, feature_dim=out_dim)
    return matmul(x, weights, reduce=in_dim)


def _warn_of_empty(triangles: np.ndarray, in_dim: Dim, out_dim: Dim) -> None:
    """Warns, once for a line of the user, of bands that lie between two frequencies, so that they are always 0."""
    empty = np.flatnonzero(~triangles.any(axis=0))
    if len(empty):
        error = ParameterError(
            "mel_filterbank: some bands are so narrow that they cover none of the frequencies, and are always 0",
            got=f"{len(empty)} of the {len(triangles[0])} bands of {out_dim.name}, the first is number {empty[0]}, "
            f"for {len(triangles)} frequencies of {in_dim.name}",
            expected="bands that cover at least one frequency",
            hint="fewer bands, or a longer transform: n_fft of log_mel_filterbank_from_raw, fft_length of rf.stft",
        )
        warn_once("mel_filterbank", lambda: error)


@functools.lru_cache(16)
def _triangles(count: int, fft_length: int, sampling_rate: float, f_min: float, f_max: float) -> np.ndarray:
    """Weights [frequencies, bands]. A mel is 1127 · ln(1 + f / 700 Hz) (O'Shaughnessy, Speech Communication, 1987)."""
    lowest, highest = (1127 * math.log(1 + f / 700) for f in (f_min, f_max))
    corners = 700 * (np.exp(np.linspace(lowest, highest, count + 2) / 1127) - 1)
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    frequencies = np.arange(fft_length // 2 + 1)[:, None] * sampling_rate / fft_length
    rising, falling = (frequencies - left) / (centre - left), (right - frequencies) / (right - centre)
    return np.maximum(np.minimum(rising, falling), 0)


@guarded
def mask(x: Tensor, *, mask_axis: Dim, pos: Tensor, max_amount: int | Dim, mask_value: float | Tensor = 0.0) -> Tensor:
    """Sets one to `max_amount` frames from `pos` on to `mask_value`; the number is drawn for each entry of `pos`.

    {…, mask_axis}, {…} → the same as x

    >>> time = rf.Dim(4, name="time")
    >>> rf.audio.mask(rf.ones([time]), mask_axis=time, pos=rf.convert_to_tensor(2), max_amount=1).raw_tensor.tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    return where(_covered(mask_axis, pos, max_amount), mask_value, x)


@guarded
def random_mask(
    x: Tensor,
    *,
    mask_axis: Dim,
    broadcast_axis: Dim | Sequence[Dim],
    min_num: int | Tensor,
    max_num: int | Tensor,
    max_dims: int | Dim,
    mask_value: float | Tensor = 0.0,
    max_num_bound: int | None = None,
) -> Tensor:
    """Sets `min_num` to `max_num` random stretches of frames to `mask_value`. {…, mask_axis} → the same

    A stretch has one to `max_dims` frames. The stretches begin at distinct frames of the sequence, and may overlap.

    >>> time = rf.Dim(4, name="time")
    >>> masked = rf.audio.random_mask(
    ...     rf.ones([time]), mask_axis=time, broadcast_axis=[], min_num=2, max_num=2, max_dims=1)
    >>> sorted(masked.raw_tensor.tolist())
    [0.0, 0.0, 1.0, 1.0]

    Args:
        broadcast_axis: the masks are the same along these dims.
        max_num_bound: upper bound of `max_num`, needed if that is a Tensor.
    """
    masked = {mask_axis, *([broadcast_axis] if isinstance(broadcast_axis, Dim) else broadcast_axis)}
    batch = [dim for dim in x.dims if dim not in masked]
    limit = max_num if isinstance(max_num, int) else max_num_bound
    if limit is None:
        raise DimError(
            "random_mask: with a Tensor as `max_num`, `max_num_bound` is needed",
            expected="`max_num_bound`, the largest possible value",
        )
    masks = Dim(min(limit, x.size_of(mask_axis).max), name="masks")
    if not masks.dimension:
        return x
    draws = random_uniform([*batch, mask_axis], device=x.device)
    _, pos, _ = top_k(draws, axis=mask_axis, k_dim=masks)
    assert isinstance(pos, Tensor)
    span = add(sub(max_num, min_num), 1)
    num = add(floor(mul(random_uniform(batch, device=x.device), span)), min_num)
    active = compare_bc(range_over_dim(masks, dtype=num.dtype, device=x.device), "less", num)
    covered = logical_and(_covered(mask_axis, pos, max_dims), active)
    return where(reduce_any(covered, axis=masks), mask_value, x)


@guarded
def specaugment(
    x: Tensor,
    *,
    spatial_dim: Dim,
    feature_dim: Dim | None = None,
    global_train_step_dependent: bool = True,
    only_on_train: bool = True,
    max_consecutive_spatial_dims: int = 20,
    max_consecutive_feature_dims: int | None = None,
    num_spatial_mask_factor: int = 100,
    num_masks_per_seq: bool | None = None,
    steps: Sequence[int] = (0, 1000, 2000),
) -> Tensor:
    """In training, sets random stretches of time and bands of features to 0. {…, spatial_dim, feature_dim} → the same

    SpecAugment (Park et al., Interspeech 2019) without time warping. The number of masks grows during training.

    >>> time, feat = rf.Dim(50, name="time"), rf.Dim(20, name="feat")
    >>> x = rf.ones([time, feat])
    >>> rf.audio.specaugment(x, spatial_dim=time, feature_dim=feat) is x  # not in training
    True

    Args:
        global_train_step_dependent: the training step decides: no masks before `steps[0]`, most masks from
            `steps[2]` on. If False, the number of masks is always the largest.
        max_consecutive_feature_dims: by default a fifth of the features.
        num_spatial_mask_factor: one more mask for each this many frames.
        num_masks_per_seq: the number of masks depends on the length of each sequence, not on the longest.
    """
    if only_on_train and not get_run_ctx().is_train_flag_enabled(func=specaugment):
        return x
    feature_dim = feature_dim or x.feature_dim
    if feature_dim is None:
        raise DimError(
            "specaugment: it is not clear which dim holds the features",
            got=x.describe_dims(),
            expected="`feature_dim`",
            hint=f"feature_dim={likely_features(x) or '…'}",
        )
    step = get_run_ctx_step() if global_train_step_dependent else steps[-1]
    stage = sum(step >= begin for begin in steps[:3]) - 1
    if stage < 0:
        return x
    for dim in (spatial_dim, feature_dim):
        axis_of("specaugment", x, dim, "x")
    size = x.size_of(spatial_dim)
    frames = size.values if num_masks_per_seq else np.asarray(size.max)
    limits = np.maximum(frames // num_spatial_mask_factor, 2) * (1, 2, 4)[stage]
    x = random_mask(
        x,
        mask_axis=spatial_dim,
        broadcast_axis=feature_dim,
        min_num=stage,
        max_num=convert_to_tensor(limits, dims=size.dims, device=x.device) if limits.ndim else int(limits),
        max_dims=max_consecutive_spatial_dims,
        max_num_bound=int(limits.max(initial=0)),
    )
    widest = max_consecutive_feature_dims
    return random_mask(
        x,
        mask_axis=feature_dim,
        broadcast_axis=spatial_dim,
        min_num=stage,
        max_num=(2, 3, 5)[stage],
        max_dims=feature_dim.get_dim_value() // 5 if widest is None else widest,
    )


def _covered(axis: Dim, pos: Tensor, max_amount: int | Dim) -> Tensor:
    """Whether a frame of `axis` is in the stretch of random length that begins at `pos`. {…} → {…, axis}"""
    widest = max_amount.get_dim_value() if isinstance(max_amount, Dim) else max_amount
    amount = random_uniform(pos.dims, dtype="int64", minval=min(widest, 1), maxval=widest + 1, device=pos.device)
    frames = range_over_dim(axis, device=pos.device)
    return logical_and(compare_bc(pos, "less_equal", frames), compare_bc(frames, "less", add(pos, amount)))
