"""Convolution and pooling, against plain loops over lists of frames."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, ParameterError
from tests.examples import examples

IN, OUT = rf.Dim(4, name="in"), rf.Dim(6, name="out")
lengths_lists = st.lists(st.integers(0, 7), min_size=1, max_size=3)
strides, dilations = st.integers(1, 4), st.integers(1, 3)
paddings = st.sampled_from(["valid", "same", "SAME", 0, 1, 3, [(2, 0)], [(1, 3)]])


def batch_of(lengths, features=IN, garbage=float("nan")):
    """{batch, time, in} with garbage in padding, and the sequences."""
    generator = np.random.default_rng(0)
    time = rf.Dim(None, name="time")
    raw = generator.normal(size=(len(lengths), max(lengths), features.dimension))
    sequences = [raw[i, :n] for i, n in enumerate(lengths)]
    for i, n in enumerate(lengths):
        raw[i, n:] = garbage
    return (
        rf.convert_to_tensor(raw.copy(), dims=[batch_dim, time, features], lengths=lengths).copy_masked(garbage),
        time,
        sequences,
    )


def weight(dims, seed=1):
    return rf.convert_to_tensor(np.random.default_rng(seed).normal(size=[d.get_dim_value() for d in dims]), dims=dims)


def conv(x, dims, filter, sizes, *, in_dim=IN, out_dim=OUT, **options):
    given = {"in_dim": in_dim, "out_dim": out_dim, "in_spatial_dims": dims, "filter": filter, "filter_size": sizes}
    return rf.conv(x, **given, **options)


def transposed(x, dims, filter, sizes, **options):
    given = {"in_dim": IN, "out_dim": OUT, "in_spatial_dims": dims, "filter": filter, "filter_size": sizes}
    return rf.transposed_conv(x, **given, **options)


def assert_sequences(y, dims, expected):
    lengths = np.broadcast_to(y.size_of(dims[0]).values, len(expected)).tolist()
    assert lengths == [len(sequence) for sequence in expected]
    raw = y.copy_transpose([batch_dim, *dims]).numpy()
    assert raw.shape[1] == max(lengths)
    for row, sequence in zip(raw, expected, strict=True):
        np.testing.assert_allclose(row[: len(sequence)], sequence, atol=1e-9)


def positions(length, size, padding, stride, dilation):
    """For each position of the window: the frames in it, None where there is none."""
    span = (size - 1) * dilation + 1
    by_name = {"valid": (0, 0), "same": ((span - 1) // 2, span - 1 - (span - 1) // 2)}
    before, behind = padding[0] if isinstance(padding, list) else by_name.get(str(padding).lower(), (padding, padding))
    starts = range(-before, length + behind - span + 1, stride)
    return [[t if 0 <= t < length else None for t in range(s, s + span, dilation)] for s in starts]


@examples(80)
@given(
    lengths=lengths_lists,
    size=st.integers(1, 4),
    padding=paddings,
    stride=strides,
    dilation=dilations,
    groups=st.sampled_from([1, 2]),
)
def test_conv_sums_frames_times_filter(lengths, size, padding, stride, dilation, groups):
    x, time, sequences = batch_of(lengths)
    width = rf.Dim(size, name="width")
    part = IN // groups if groups > 1 else IN
    w, bias = weight([OUT, part, width]), weight([OUT], seed=2)
    y, [frames] = conv(
        x, [time], w, [width], padding=padding, strides=stride, dilation_rate=dilation, groups=groups, bias=bias
    )
    expected = []
    for frames_of in sequences:
        rows = np.zeros((0, 6))
        for window in positions(len(frames_of), size, padding, stride, dilation):
            row = bias.numpy().copy()
            for k, t in enumerate(window):
                for o in range(6):
                    first = o // (6 // groups) * part.dimension
                    if t is not None:
                        row[o] += frames_of[t, first : first + part.dimension] @ w.numpy()[o, :, k]
            rows = np.vstack([rows, row])
        expected.append(rows)
    assert_sequences(y, [frames, OUT], expected)
    assert rf.make_conv_out_spatial_dims(
        [time], filter_size=width, padding=padding, strides=stride, dilation_rate=dilation
    ) == [frames]


TABLE = {  # the frames 1, 2, … of two sequences, with the filter 1, 0.1, 0.01
    ("valid", 1, 1): ([1.23, 2.34, 3.45], [1.23]),
    ("valid", 2, 1): ([1.23, 3.45], [1.23]),
    ("same", 1, 1): ([0.12, 1.23, 2.34, 3.45, 4.5], [0.12, 1.23, 2.3]),
    ("same", 2, 1): ([0.12, 2.34, 4.5], [0.12, 2.3]),
    ("same", 2, 2): ([0.13, 1.35, 3.5], [0.13, 1.3]),
    (1, 2, 1): ([0.12, 2.34, 4.5], [0.12, 2.3]),
}


@pytest.mark.parametrize("garbage", [0.0, 100.0, float("nan")])
@pytest.mark.parametrize(("padding", "stride", "dilation"), TABLE)
def test_conv_by_hand(padding, stride, dilation, garbage):
    time, one, out, width = (rf.Dim(n, name=name) for n, name in [(None, "time"), (1, "one"), (1, "out"), (3, "width")])
    raw = np.array([[1, 2, 3, 4, 5], [1, 2, 3, garbage, garbage]])[..., None]
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, one], lengths=[5, 3])
    w = rf.convert_to_tensor(np.array([1, 0.1, 0.01]).reshape(1, 1, 3), dims=[out, one, width])
    options = {"padding": padding, "strides": stride, "dilation_rate": dilation}
    y, [frames] = conv(x, [time], w, [width], in_dim=one, out_dim=out, **options)
    assert_sequences(y, [frames, out], [np.array(row)[:, None] for row in TABLE[padding, stride, dilation]])


@examples(80)
@given(
    lengths=lengths_lists,
    size=st.integers(1, 4),
    same=st.booleans(),
    stride=st.none() | strides,
    cut=st.integers(0, 1),
    extra=st.none() | st.integers(0, 2),
)
def test_transposed_conv_adds_filters(lengths, size, same, stride, cut, extra):
    x, time, sequences = batch_of(lengths)
    width = rf.Dim(size, name="width")
    w, bias = weight([IN, OUT, width]), weight([OUT], seed=2)
    padding = "same" if same else "valid"
    y, [frames] = transposed(
        x, [time], w, [width], padding=padding, strides=stride, remove_padding=cut, output_padding=extra, bias=bias
    )
    step = stride or size
    expected = []
    for frames_of in sequences:
        count = len(frames_of)
        if extra is None:
            total = count * step + (0 if same else max(size - step, 0))
            left = max(size - step, 0) // 2 if same else 0
        else:
            total = (count - 1) * step + size + extra - (size // 2 * 2 if same else 0)
            left = size // 2 if same else 0
        row = np.zeros((count * step + total + left + size + 9, 6))
        for t in range(count):
            row[t * step : t * step + size] += np.einsum("i,iok->ko", frames_of[t], w.numpy())
        expected.append(row[left + cut : left + max(total - cut, cut)] + bias.numpy())
    assert_sequences(y, [frames, OUT], expected)


@examples(80)
@given(
    lengths=lengths_lists,
    mode=st.sampled_from(["max", "avg"]),
    size=st.integers(1, 4),
    padding=paddings,
    stride=st.none() | strides,
    dilation=dilations,
)
def test_pool_sees_frames_only(lengths, mode, size, padding, stride, dilation):
    x, time, sequences = batch_of(lengths)
    y, frames = rf.pool1d(
        x, mode=mode, pool_size=size, padding=padding, strides=stride, dilation_rate=dilation, in_spatial_dim=time
    )
    expected = []
    for frames_of in sequences:
        windows = positions(len(frames_of), size, padding, stride or size, dilation)
        inside = [frames_of[[t for t in window if t is not None]] for window in windows]
        nothing = np.full(4, -np.inf if mode == "max" else 0.0)
        pick = np.max if mode == "max" else np.mean
        expected.append(np.array([pick(rows, axis=0) if len(rows) else nothing for rows in inside]).reshape(-1, 4))
    assert_sequences(y, [frames, IN], expected)


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_several_axes_are_those_of_torch(nd, padding):
    dims = [rf.Dim(n, name=f"axis{n}") for n in (7, 6, 5)[:nd]]
    sizes = [rf.Dim(n, name=f"size{n}") for n in (3, 3, 1)[:nd]]
    x, w = weight([rf.Dim(2, name="pictures"), IN, *dims]), weight([OUT, IN, *sizes])
    y, out = conv(x, dims, w, sizes, padding=padding)
    plain = getattr(torch, f"conv{nd}d")(x.raw_tensor, w.raw_tensor, padding=padding)
    torch.testing.assert_close(y.copy_transpose([x.dims[0], OUT, *out]).raw_tensor, plain)
    pooled, _ = getattr(rf, f"pool{nd}d")(x, mode="max", pool_size=2, **axes(nd, dims))
    torch.testing.assert_close(pooled.raw_tensor, getattr(torch, f"max_pool{nd}d")(x.raw_tensor, 2))
    spread, out = transposed(x, dims, w, sizes, padding="valid")
    kernel = w.copy_transpose([IN, OUT, *sizes]).raw_tensor
    plain = getattr(torch, f"conv_transpose{nd}d")(x.raw_tensor, kernel, stride=(3, 3, 1)[:nd])
    torch.testing.assert_close(spread.copy_transpose([x.dims[0], OUT, *out]).raw_tensor, plain)


def axes(nd, dims):
    return {"in_spatial_dim": dims[0]} if nd == 1 else {"in_spatial_dims": dims}


def test_two_axes_with_lengths_of_their_own():
    """What one batch gives is what each picture gives alone."""
    height, width = rf.Dim(None, name="height"), rf.Dim(None, name="width")
    raw = np.random.default_rng(0).normal(size=(2, 6, 5, 4))
    sizes = [[6, 3], [2, 5]]
    rf.convert_to_tensor(np.zeros((2, 6)), dims=[batch_dim, height], lengths=sizes[0])
    rf.convert_to_tensor(np.zeros((2, 5)), dims=[batch_dim, width], lengths=sizes[1])
    x = rf.convert_to_tensor(raw, dims=[batch_dim, height, width, IN])
    k1, k2 = rf.Dim(3, name="k1"), rf.Dim(2, name="k2")
    w = weight([OUT, IN, k1, k2])
    y, [h, v] = conv(x, [height, width], w, [k1, k2], padding=["same", "valid"], strides=[2, 1])
    assert y.size_of(h).values.tolist() == [3, 2] and y.size_of(v).values.tolist() == [1, 4]
    for i in range(2):
        one = torch.tensor(raw[i, : sizes[0][i], : sizes[1][i]]).permute(2, 0, 1)[None]
        plain = torch.conv2d(one, w.raw_tensor, stride=(2, 1), padding=(1, 0))[0]
        found = y.copy_transpose([batch_dim, OUT, h, v]).raw_tensor[i, :, : plain.shape[1], : plain.shape[2]]
        torch.testing.assert_close(found, plain)


def test_depthwise_and_square():
    x, time, _ = batch_of([5, 3])
    width = rf.Dim(3, name="width")
    deep, same = weight([IN, IN // 4, width]), weight([IN.copy(match_priority=1), IN, width])
    options = {"in_dim": IN, "out_dim": IN, "in_spatial_dims": [time], "filter_size": [width], "padding": "same"}
    y, [frames] = rf.conv(x, **options, filter=deep, groups=4)
    assert frames is time and set(y.dims) == set(x.dims) and y.feature_dim is IN
    plain = torch.conv1d(torch.nan_to_num(x.raw_tensor).mT, deep.raw_tensor, padding=1, groups=4).mT
    torch.testing.assert_close(y.raw_tensor[0], plain[0])
    y, _ = rf.conv(x, **options, filter=same)
    plain = torch.conv1d(torch.nan_to_num(x.raw_tensor).mT, same.raw_tensor.transpose(0, 1), padding=1).mT
    torch.testing.assert_close(y.raw_tensor[0], plain[0])


def test_a_filter_for_each_frame():
    """Padding of the filters reaches neither results nor gradients."""
    frames, time, sequences = batch_of([2, 1])
    space, width = rf.Dim(5, name="space"), rf.Dim(2, name="width")
    x, w = weight([batch_dim, IN, space]), rf.combine_bc(frames, "mul", weight([OUT, width]))
    x.raw_tensor.requires_grad_(True)
    y, [places] = conv(x, [space], w, [width], padding="valid")
    assert set(y.dims) == {batch_dim, time, OUT, places}
    for i, j in [(0, 0), (0, 1), (1, 0)]:
        kernel = weight([OUT, width]).raw_tensor[:, None] * torch.tensor(sequences[i][j])[:, None]
        found = y.copy_transpose([batch_dim, time, OUT, places]).raw_tensor[i, j]
        torch.testing.assert_close(found, torch.conv1d(x.raw_tensor[i], kernel))
    [slope] = torch.autograd.grad(rf.reduce_sum(y, axis=y.dims).raw_tensor, [x.raw_tensor])
    assert torch.isfinite(slope).all()


def test_no_copy_where_axes_are_in_place():
    time, width = rf.Dim(9, name="time"), rf.Dim(1, name="width")
    x = weight([IN, time])
    pooled, _ = rf.pool1d(x, mode="max", pool_size=2, in_spatial_dim=time)
    assert pooled.dims[0] is IN and pooled.raw_tensor.is_contiguous()
    y, _ = conv(x, [time], weight([OUT, IN, width]), [width], padding="valid")
    assert y.dims == (OUT, time) and y.raw_tensor.is_contiguous()


def test_dims_are_the_same_for_the_same_windows():
    x, time, _ = batch_of([5, 3])
    frames = rf.pool1d(x, mode="avg", pool_size=2, in_spatial_dim=time)[1]
    assert frames is (time - 1).ceildiv_right(2)
    assert rf.max_pool1d(x, pool_size=2, in_spatial_dim=time)[1] is frames
    assert rf.max_pool(x, pool_size=2, in_spatial_dims=[time])[1] == [frames]
    given = rf.Dim(None, name="given")
    y, [found] = rf.pool(x, nd=1, mode="max", pool_size=2, in_spatial_dims=time, out_spatial_dims=given)
    assert found is given and given in y.dims and y.size_of(given).values.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("length", "options", "expected"),
    [
        (10, {"filter_size": 3, "stride": 1, "padding": "valid"}, 8),
        (10, {"filter_size": 3, "stride": 2, "padding": "SAME"}, 5),
        (10, {"filter_size": 4, "stride": 2, "padding": "valid", "dilation_rate": 2}, 2),
        (2, {"filter_size": 4, "stride": 1, "padding": "valid"}, 0),
        (10, {"filter_size": rf.Dim(3, name="width"), "stride": 2, "padding": 1}, 5),
    ],
)
def test_length_of_a_number_a_dim_and_a_tensor(length, options, expected):
    time = rf.Dim(length, name="time")
    assert rf.calc_conv_out_length(length, **options) == expected
    assert rf.calc_conv_out_length(time, **options).dimension == expected
    lengths = rf.convert_to_tensor([length, length], dims=[batch_dim])
    assert rf.calc_conv_out_length(lengths, **options).raw_tensor.tolist() == [expected] * 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"filter_size": 3, "padding": "valid"}, 30),
        ({"filter_size": 3, "stride": 2, "padding": "valid"}, 21),
        ({"filter_size": 3, "stride": 2, "padding": "same", "output_padding": 1}, 20),
        ({"filter_size": 3, "stride": 3, "padding": "same"}, 30),
        ({"filter_size": 3, "stride": 2, "padding": "valid", "dilation_rate": 2}, 23),
    ],
)
def test_transposed_length(options, expected):
    assert rf.calc_transposed_conv_out_length(10, **options) == expected
    assert rf.calc_transposed_conv_out_length(rf.Dim(10, name="time"), **options).dimension == expected
    lengths = rf.convert_to_tensor([10], dims=[batch_dim])
    assert rf.calc_transposed_conv_out_length(lengths, **options).raw_tensor.tolist() == [expected]


def test_new_dims_can_be_named():
    time = rf.Dim(None, name="time")
    assert rf.calc_conv_out_length(time, filter_size=3, stride=5, padding="valid", name="slow").name == "slow"
    assert rf.calc_conv_out_length(time, filter_size=3, stride=1, padding="same", name="slow").name == "time"
    [frames] = rf.make_transposed_conv_out_spatial_dims([time], filter_size=3, padding="valid", description_prefix="up")
    assert frames is time * 3 and frames.name == "up:spatial0"


@pytest.mark.parametrize("given", [False, True])
def test_padding_counts_if_asked_for(given):
    x, time, _ = batch_of([5, 3], garbage=100.0)
    out = rf.Dim(None, name="out") if given else None
    y, frames = rf.pool1d(x, mode="max", pool_size=2, padding="same", in_spatial_dim=time, out_spatial_dim=out)
    assert y.raw_tensor[1].max() < 50 and y.size_of(frames).values.tolist() == [3, 2]
    out = rf.Dim(None, name="out") if given else None
    y, [frames] = rf.pool(
        x,
        mode="max",
        pool_size=2,
        padding="same",
        in_spatial_dims=[time],
        out_spatial_dims=out and [out],
        use_mask=False,
    )
    assert (y.raw_tensor[1, 1:] == 100).all() and y.size_of(frames).values.tolist() == [3, 2]
    assert frames is (out or time.ceildiv_right(2)) and frames in y.dims


def test_what_comes_back_for_padding_reaches_no_frame():
    """The square root has an infinite slope where padding is 0."""
    x, time, _ = batch_of([5, 3])
    width = rf.Dim(3, name="width")
    w = rf.Parameter([OUT, IN, width], dtype="float64", initial=0.5)
    x.raw_tensor.requires_grad_(True)
    y, [frames] = conv(x, [time], w, [width], padding="same")
    total = rf.reduce_sum(rf.sqrt(rf.abs(y)), axis=[batch_dim, frames, OUT])
    slopes = torch.autograd.grad(total.raw_tensor, [x.raw_tensor, w.raw_tensor])
    assert all(torch.isfinite(slope).all() for slope in slopes)
    assert (slopes[0][1, 3:] == 0).all() and (slopes[0][1, :3] != 0).any()


def test_gradients_are_those_of_differences():
    width = rf.Dim(2, name="width")
    time = rf.Dim(5, name="time")
    x, w = weight([IN, time]), weight([OUT, IN, width])

    def run(raw, kernel):
        options = {"in_dim": IN, "out_dim": OUT, "in_spatial_dims": [time], "filter_size": [width]}
        y, [frames] = rf.conv(x.like(raw), **options, filter=w.like(kernel), padding="same", strides=2)
        back, _ = rf.transposed_conv(
            y,
            in_dim=OUT,
            out_dim=IN,
            in_spatial_dims=[frames],
            filter=w.like(kernel),
            filter_size=[width],
            padding="same",
        )
        return y.raw_tensor.sum() + back.raw_tensor.square().sum()

    raws = [t.raw_tensor.clone().requires_grad_(True) for t in (x, w)]
    assert torch.autograd.gradcheck(run, raws)


def test_integers_can_be_pooled():
    time = rf.Dim(5, name="time")
    y, _ = rf.max_pool1d(rf.range_over_dim(time), pool_size=2, padding="same", in_spatial_dim=time)
    assert y.raw_tensor.tolist() == [1, 3, 4]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["max", "avg"])
def test_the_type_stays(dtype, mode):
    x, time, _ = batch_of([5, 3])
    y, _ = rf.pool1d(rf.cast(x, dtype), mode=mode, pool_size=3, padding="same", in_spatial_dim=time)
    assert y.dtype == dtype


def test_in_a_loop_as_over_all_steps():
    x, time, _ = batch_of([5, 3])
    other, width = rf.Dim(6, name="other"), rf.Dim(3, name="width")
    x, w = rf.expand_dim(x, other) * weight([other], 3), weight([OUT, IN, width])

    def step(frame):
        y, [places] = conv(frame, [other], w, [width], padding="same", strides=2)
        return rf.max_pool1d(y, pool_size=2, in_spatial_dim=places)[0]

    loop = rf.Loop(axis=time)
    loop.state.count = rf.zeros([batch_dim], dtype="float64")
    with loop:
        frame = loop.unstack(x) + loop.state.count
        loop.state.count = loop.state.count + 1.0
        ys = loop.stack(step(frame))
    plain = step(x + rf.range_over_dim(time, dtype="float64"))
    torch.testing.assert_close(ys.copy_masked(0.0).copy_transpose(plain.dims).raw_tensor, plain.raw_tensor)


def test_mistakes_are_told():
    x, time, _ = batch_of([5, 3])
    width = rf.Dim(3, name="width")
    options = {"in_dim": IN, "out_dim": OUT, "in_spatial_dims": [time], "filter_size": [width], "padding": "same"}
    w = weight([OUT, IN, width])
    with pytest.raises(ParameterError, match="unknown `padding`"):
        rf.conv(x, **{**options, "padding": "full"}, filter=w)
    with pytest.raises(DimError, match="`filter` has different dims"):
        rf.conv(x, **options, filter=weight([OUT, width]))
    with pytest.raises(DimError, match="`filter` has no dim width"):
        rf.conv(x, **options, filter=weight([OUT, IN]))
    with pytest.raises(DimError, match="has no dim out"):
        rf.conv(x, **{**options, "in_spatial_dims": [OUT]}, filter=w)
    with pytest.raises(DimError, match="`filter_size` does not match the spatial dims"):
        rf.conv(x, **{**options, "filter_size": []}, filter=w)
    with pytest.raises(DimError, match="`strides` does not match the number of axes"):
        rf.conv(x, **options, filter=w, strides=[1, 2])
    for strange in ({"strides": 0}, {"dilation_rate": 0}, {"strides": -1}):
        with pytest.raises(DimError, match="conv: a size, stride or dilation is not positive"):
            rf.conv(x, **{**options, **strange}, filter=w)
    with pytest.raises(DimError, match="transposed_conv: a size, stride or dilation is not positive"):
        rf.transposed_conv(x, **options, filter=w, strides=[0])
    for size in (0, -1):
        with pytest.raises(DimError, match="pool: a size, stride or dilation is not positive"):
            rf.pool1d(x, mode="max", pool_size=size, in_spatial_dim=time)
    with pytest.raises(DtypeError, match="does not hold numbers"):
        rf.conv(rf.cast(x, "int64"), **options, filter=w)
    with pytest.raises(DtypeError, match="the mean needs floats"):
        rf.pool1d(rf.cast(x, "int64"), mode="avg", pool_size=2, in_spatial_dim=time)
    with pytest.raises(ParameterError, match="unknown `mode`"):
        rf.pool1d(x, mode="median", pool_size=2, in_spatial_dim=time)
    with pytest.raises(DimError, match="window does not match"):
        rf.pool2d(x, mode="max", pool_size=2, in_spatial_dims=[time])


def test_same_is_the_ceiling():
    for n, s in [(5, 2), (6, 2), (7, 3), (0, 2)]:
        assert rf.calc_conv_out_length(n, filter_size=4, stride=s, padding="same") == math.ceil(n / s)


def test_a_plan_serves_batches_of_any_length():
    width = rf.Dim(3, name="width")
    w, time, own = weight([OUT, IN, width]), rf.Dim(None, name="time"), rf.Dim(None, name="own")
    for lengths in ([5, 3], [2, 6], [0, 1], [4, 4], [5, 3]):
        for named in (None, [own]):
            raw = np.random.default_rng(len(lengths)).normal(size=(2, max(lengths), 4))
            x = rf.convert_to_tensor(raw, dims=[batch_dim, time, IN], lengths=lengths)
            fresh = rf.replace_dim(x, in_dim=time)
            expected, _ = conv(fresh[0], [fresh[1]], w, [width], padding="same", strides=2)
            found, [frames] = conv(x, [time], w, [width], padding="same", strides=2, out_spatial_dims=named)
            assert frames is (own if named else time.ceildiv_right(2))
            assert found.size_of(frames).values.tolist() == [-(-n // 2) for n in lengths]
            assert torch.equal(found.raw_tensor, expected.raw_tensor)
            pooled, _ = rf.pool1d(x, mode="avg", pool_size=3, strides=1, padding="same", in_spatial_dim=time)
            alone, _ = rf.pool1d(fresh[0], mode="avg", pool_size=3, strides=1, padding="same", in_spatial_dim=fresh[1])
            assert torch.equal(pooled.raw_tensor, alone.raw_tensor)


def test_one_axis_takes_a_pair_of_zeros_as_it_is():
    width, time = rf.Dim(3, name="width"), rf.Dim(None, name="time")
    w = weight([OUT, IN, width])
    x = rf.convert_to_tensor(
        np.random.default_rng(0).normal(size=(2, 5, 4)), dims=[batch_dim, time, IN], lengths=[5, 3]
    )
    for pair in ((2, 0), [0, 1], (0, 0)):
        found, _ = conv(x, [time], w, [width], padding=pair)
        expected, _ = conv(x, [time], w, [width], padding=[tuple(pair)])
        assert torch.equal(found.raw_tensor, expected.raw_tensor)
        pooled, _ = rf.pool1d(x, mode="max", pool_size=3, strides=1, padding=pair, in_spatial_dim=time)
        assert pooled.dims[1].size.values.tolist() == [max(n + sum(pair) - 2, 0) for n in (5, 3)]


@pytest.mark.parametrize("option", ["padding", "strides", "dilation_rate"])
@pytest.mark.parametrize("wrong", [True, 1.0])
def test_a_number_of_another_type_does_not_change_later_calls(option, wrong):
    time, feat, width = rf.Dim(8, name="time"), rf.Dim(2, name="feat"), rf.Dim(2, name="width")
    x, filter = rf.ones([time, feat]), rf.ones([width, feat, feat.copy(match_priority=1)])
    conv = {"in_dim": feat, "out_dim": feat, "in_spatial_dims": [time], "filter": filter, "filter_size": [width]}
    pool = {"mode": "max", "pool_size": 2, "in_spatial_dims": [time]}
    for op, options in ((rf.conv, conv), (rf.pool, pool)):
        options = {"padding": "valid", **options}
        with contextlib.suppress(rf.errors.RfError):
            op(x, **{**options, option: wrong})
        op(x, **{**options, option: 1})
