"""Positions as sines and cosines, entry by entry."""

from __future__ import annotations

import math

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim, single_step_dim

FEAT = rf.Dim(6, name="feat")


def absolute(position, base=10_000.0):
    angles = [position * base ** (-k / 2) for k in range(3)]
    return [*map(math.sin, angles), *map(math.cos, angles)]


def relative(distance):
    angles = [distance * 10_000.0 ** (-2 * k / 6) for k in range(3)]
    return [*map(math.sin, angles), *map(math.cos, angles)]


def assert_rows(x, rows):
    torch.testing.assert_close(x.raw_tensor, torch.tensor(rows), atol=1e-5, rtol=1e-5)


def time_of(lengths):
    time = rf.Dim(None, name="time")
    return rf.convert_to_tensor(torch.zeros(len(lengths), max(lengths)), dims=[batch_dim, time], lengths=lengths), time


def test_absolute_positions():
    four = rf.Dim(4, name="four")
    plain = rf.sinusoidal_positional_encoding(spatial_dim=four, feat_dim=FEAT)
    assert plain.dims == (four, FEAT) and plain.dtype == "float32" and plain.sparse_dim is None
    assert_rows(plain, [absolute(i) for i in range(4)])
    later = rf.sinusoidal_positional_encoding(spatial_dim=four, feat_dim=FEAT, offset=7, base=100.0)
    assert_rows(later, [absolute(i + 7, base=100.0) for i in range(4)])


def test_an_offset_for_each_sequence():
    x, time = time_of([3, 2])
    offset = rf.convert_to_tensor([0, 5], dims=[batch_dim])
    encoding = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=FEAT, offset=offset)
    assert_rows(encoding.copy_transpose([batch_dim, time, FEAT]), [[absolute(i + j) for i in range(3)] for j in (0, 5)])
    assert (rf.expand_dim(x, FEAT) + encoding).dims_set == {batch_dim, time, FEAT}


def test_the_features_of_an_encoding():
    _, time = time_of([3, 2])
    offset = rf.convert_to_tensor([0, 5], dims=[batch_dim])
    for dim, start in ((time, 0), (time, offset), (single_step_dim, 2)):
        axes = {"query_spatial_dim": dim, "key_value_spatial_dim": time, "query_offset": start}
        assert rf.relative_positional_encoding(feat_dim=FEAT, **axes)[0].feature_dim is FEAT
        assert rf.sinusoidal_positional_encoding(spatial_dim=dim, feat_dim=FEAT, offset=start).feature_dim is FEAT


def test_one_step():
    for offset in (3, rf.convert_to_tensor(3)):
        one = rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=FEAT, offset=offset)
        assert one.dims == (FEAT,)
        assert_rows(one, absolute(3))
    assert_rows(rf.sinusoidal_encoding(rf.convert_to_tensor(0.5), feat_dim=FEAT), absolute(0.5))


def test_a_loop_counts_positions():
    time = rf.Dim(4, name="time")
    zeros = rf.zeros([time])
    with rf.Loop(axis=time) as loop:
        loop.unstack(zeros)
        offset = loop.iter_idx
        encoding = rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=FEAT, offset=offset)
        distances, dim = rf.relative_positional_encoding(
            query_spatial_dim=single_step_dim, key_value_spatial_dim=time, feat_dim=FEAT, query_offset=offset
        )
        encoding, distances = loop.stack(encoding), loop.stack(rf.replace_dim(distances, in_dim=dim)[0])
    whole = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=FEAT)
    torch.testing.assert_close(encoding.raw_tensor, whole.raw_tensor)
    assert_rows(distances, [[relative(k - q) for k in range(4)] for q in range(4)])


@pytest.mark.parametrize("offset", [0, 2])
def test_distances(offset):
    query, key = rf.Dim(4, name="query"), rf.Dim(3, name="key")
    encoding, dim = rf.relative_positional_encoding(
        query_spatial_dim=query, key_value_spatial_dim=key, feat_dim=FEAT, query_offset=offset
    )
    assert dim is query + key - 1 and encoding.dims == (dim, FEAT)
    assert_rows(encoding, [relative(i - 3 - offset) for i in range(6)])


def test_distances_in_a_batch_are_those_of_the_longest():
    (_, query), (_, key) = time_of([4, 2]), time_of([1, 3])
    encoding, dim = rf.relative_positional_encoding(query_spatial_dim=query, key_value_spatial_dim=key, feat_dim=FEAT)
    assert_rows(encoding, [relative(i - 3) for i in range(6)])
    _, again = rf.relative_positional_encoding(query_spatial_dim=query, key_value_spatial_dim=key, feat_dim=FEAT)
    assert dim is again and not dim.size.dims


def test_types_and_errors():
    time, two = rf.Dim(3, name="time"), rf.Dim(2, name="two")
    half = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=FEAT, dtype="bfloat16")
    assert half.dtype == "bfloat16"
    with rf.set_default_float_dtype_ctx("float64"):
        exact = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=FEAT)
    torch.testing.assert_close(exact.raw_tensor, torch.tensor([absolute(i) for i in range(3)], dtype=torch.float64))
    pair = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=two)
    assert_rows(pair, [[math.sin(i), math.cos(i)] for i in range(3)])
    with pytest.raises(rf.errors.DimError, match="an even `feat_dim`"):
        rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=time)
