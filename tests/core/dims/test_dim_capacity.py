"""Dims with a capacity: their axes have that size, whatever the lengths are, and the frames behind are padding."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

LENGTHS = [5, 0, 3]


def test_the_capacity_is_the_size_of_the_axis() -> None:
    d = rf.Dim(LENGTHS, name="time", capacity=10)
    assert [made.get_dim_value() for made in (d, d + 1, d // 2, 2 * d)] == [10, 11, 5, 20]
    assert d.get_dim_value_tensor().item() == 10
    assert rf.range_over_dim(d).tolist() == list(range(10))
    mask = d.get_mask()
    assert mask.dims == (batch_dim, d)
    assert mask.raw_tensor.tolist() == [[i < n for i in range(10)] for n in LENGTHS]
    assert d.get_size_tensor().tolist() == LENGTHS
    assert rf.zeros([batch_dim, d]).raw_tensor.shape == (3, 10)
    assert repr(d) == "Dim{time:0–5 of 10}"


def test_it_can_be_set_later_and_changed() -> None:
    d = rf.Dim(LENGTHS, name="time")
    before = rf.range_over_dim(d)
    d.capacity = 7
    assert d.get_dim_value() == 7
    assert (d + 1).capacity == 8
    d.capacity = 8
    assert rf.range_over_dim(d).raw_tensor.shape == (8,)
    assert before.raw_tensor.shape == (5,)
    d.capacity = None
    assert d.get_dim_value() == 5
    assert (d + 1).capacity is None


def test_a_new_batch_has_the_same_capacity() -> None:
    d = rf.Dim(None, name="time", capacity=6)
    for lengths in ([4, 2], [6, 6], [1, 1]):
        x = rf.convert_to_tensor(torch.ones(2, max(lengths)), dims=[batch_dim, d], lengths=lengths)
        assert x.raw_tensor.shape == (2, 6)
        assert rf.reduce_sum(x, axis=d).tolist() == lengths


def test_a_dim_takes_the_capacity_of_the_one_that_bounds_it() -> None:
    outer = rf.Dim(8, name="outer")
    assert rf.Dim(LENGTHS, name="inner", bounded_by=outer).get_dim_value() == 5
    bound = rf.Dim(None, name="outer")
    inner = rf.Dim(LENGTHS, name="inner", bounded_by=bound)
    assert inner.get_dim_value() == 5
    bound.capacity = 9
    assert inner.get_dim_value() == 9
    assert inner.capacity == 9
    assert inner.get_mask().raw_tensor.shape == (3, 9)
    assert rf.Dim([1, 2, 1], name="later", bounded_by=bound).get_dim_value() == 9


def test_a_chain_of_bounds() -> None:
    c = rf.Dim(LENGTHS, name="c")
    b = rf.Dim([4, 0, 3], name="b", bounded_by=c)
    a = rf.Dim([2, 0, 1], name="a")
    a.bounded_by = b
    c.capacity = 8
    assert [dim.capacity for dim in (a, b, c)] == [dim.get_dim_value() for dim in (a, b, c)] == [8, 8, 8]
    b.bounded_by = None
    assert [dim.get_dim_value() for dim in (a, b, c)] == [2, 4, 8]
    b.bounded_by = c  # which has a capacity already
    assert [dim.get_dim_value() for dim in (a, b, c)] == [8, 8, 8]


def test_a_capacity_that_is_too_small_for_one_dim_changes_none() -> None:
    c, longer = rf.Dim(LENGTHS, name="c"), rf.Dim([9, 1, 0], name="longer")
    longer.bounded_by = c
    with pytest.raises(DimError, match="more frames"):
        c.capacity = 8
    assert (c.capacity, c.get_dim_value(), longer.get_dim_value()) == (None, 5, 9)
    c.capacity, longer.bounded_by = None, None
    c.capacity = 8
    with pytest.raises(DimError, match="more frames"):
        longer.bounded_by = c
    assert longer.bounded_by is None and longer.get_dim_value() == 9


def test_bounds_in_a_circle_are_refused() -> None:
    a, b = rf.Dim(LENGTHS, name="a"), rf.Dim(LENGTHS, name="b")
    b.bounded_by = a
    for wrong in (a, b):
        with pytest.raises(DimError, match="circle"):
            a.bounded_by = wrong
    assert a.bounded_by is None and a.capacity is b.capacity is None


def test_one_length_for_all() -> None:
    d = rf.Dim(None, name="time", capacity=4)
    x = rf.convert_to_tensor([1.0, 2.0, 3.0, 4.0], dims=[d])
    assert rf.reduce_sum(x, axis=d).item() == 10
    short = rf.Dim(torch.tensor(2), name="time", capacity=4)
    y = rf.convert_to_tensor([1.0, 2.0, 3.0, 4.0], dims=[short])
    assert short.get_mask().tolist() == [True, True, False, False]
    assert rf.reduce_sum(y, axis=short).item() == 3
    assert rf.reduce_mean(y, axis=short).item() == 1.5


@pytest.mark.parametrize("capacity", [4, -1, 2.5, "many"])
def test_a_capacity_that_does_not_fit_is_refused(capacity: object) -> None:
    d = rf.Dim(LENGTHS, name="time")
    with pytest.raises(DimError, match="capacity"):
        d.capacity = capacity  # type: ignore[assignment]
    assert d.get_dim_value() == 5
    assert d.capacity is None


def test_more_frames_than_the_capacity_are_refused() -> None:
    d = rf.Dim(LENGTHS, name="time", capacity=6)
    with pytest.raises(DimError, match="capacity"):
        rf.convert_to_tensor(torch.ones(2, 8), dims=[batch_dim, d], lengths=[8, 7])
    with pytest.raises(DimError, match="time"):
        rf.Tensor("x", [batch_dim, d], raw_tensor=torch.ones(3, 5))


def test_where_shapes_must_be_fixed_only_a_dim_with_a_capacity_has_a_size() -> None:
    d, free = rf.Dim(LENGTHS, name="time", capacity=10), rf.Dim(LENGTHS, name="free")
    with rf.set_static_traceable_ctx():
        assert (d + 1).get_dim_value() == 11
        assert d.get_dim_value_tensor().item() == 10
        for made in (free, free + 1, free * d):
            with pytest.raises(DimError, match="capacity"):
                made.get_dim_value()
            with pytest.raises(DimError, match="capacity"):
                made.get_dim_value_tensor()
    assert free.get_dim_value() == 5


def _batch(capacity: int | None) -> tuple[rf.Tensor, rf.Dim, rf.Dim]:
    time, feat = rf.Dim(None, name="time", capacity=capacity), rf.Dim(2, name="feat")
    data = torch.linspace(-2, 3, 3 * 5 * 2).reshape(3, 5, 2)
    return rf.convert_to_tensor(data, dims=[batch_dim, time, feat], lengths=LENGTHS), time, feat


def _rnn(x: rf.Tensor, time: rf.Dim, feat: rf.Dim) -> rf.Tensor:
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
        hidden = loop.stack(loop.state.h)
    return hidden


OPS = {
    "sum": lambda x, time, feat: rf.reduce_sum(x, axis=time),
    "mean": lambda x, time, feat: rf.reduce_mean(x, axis=[batch_dim, time]),
    "max": lambda x, time, feat: rf.reduce_max(x, axis=time),
    "softmax": lambda x, time, feat: rf.softmax(x, axis=time),
    "log": lambda x, time, feat: rf.log(rf.abs(x) + 1.0),
    "divide": lambda x, time, feat: 1.0 / (x + 10.0),
    "product": lambda x, time, feat: rf.matmul(x, rf.exp(x), reduce=time),
    "layer norm": lambda x, time, feat: rf.LayerNorm(feat)(x),
    "cumsum": lambda x, time, feat: rf.cumsum(x, spatial_dim=time),
    "reverse": lambda x, time, feat: rf.reverse_sequence(x, axis=time),
    "shift": lambda x, time, feat: rf.shift_right(x, axis=time, pad_value=0.0),
    "last": lambda x, time, feat: rf.gather(x, indices=-1, axis=time, clip_to_valid=True),
    "pack": lambda x, time, feat: rf.pack_padded(x, dims=[batch_dim, time])[0],
    "attention": lambda x, time, feat: rf.dot_attention(x, x, x, key_dim=feat, axis=time),
    "loop": _rnn,
    "slice": lambda x, time, feat: rf.slice(x, axis=time, start=1)[0],
    "first": lambda x, time, feat: rf.slice(x, axis=time, end=4)[0],
    "concat": lambda x, time, feat: rf.concat((x, time), (x, time))[0],
    "pad": lambda x, time, feat: rf.pad(x, axes=[time], padding=(1, 2), value=7.0)[0],
    "window": lambda x, time, feat: rf.window(x, spatial_dim=time, window_dim=rf.Dim(3, name="window"))[0],
    "pool": lambda x, time, feat: rf.pool1d(x, mode="max", pool_size=2, in_spatial_dim=time)[0],
    "step": lambda x, time, feat: rf.cum_concat_step(rf.zeros([batch_dim, feat]), prev_accum=x, axis=time)[0],
}


def frames(x: rf.Tensor) -> list[list[float]]:
    """The numbers of each sequence, without padding."""
    uneven = [dim for dim in x.dims if dim.is_dynamic() and dim is not batch_dim]
    if batch_dim not in x.dims:
        return [(rf.pack_padded(x, dims=uneven)[0] if uneven else x).raw_tensor.flatten().tolist()]
    own = [rf.gather(x, indices=i, axis=batch_dim) for i in range(len(LENGTHS))]
    return [frames(each)[0] for each in own]


@pytest.mark.parametrize("name", OPS)
def test_ops_give_the_same_with_a_capacity_as_without(name: str) -> None:
    found, expected = (OPS[name](*_batch(capacity)) for capacity in (9, None))
    found.sanity_check()
    assert [pytest.approx(numbers) for numbers in frames(expected)] == frames(found)


@pytest.mark.parametrize("template", [False, True])
def test_before_lengths_are_known_it_is_the_size(template) -> None:
    batch = rf.Dim(2, name="batch")
    lengths = rf.Tensor("time", [batch], "int32") if template else None
    d = rf.Dim(lengths, name="time", capacity=5)
    bounded = rf.Dim(None, name="bounded", bounded_by=d)
    assert [made.get_dim_value() for made in (d, bounded, d + 1, 2 * bounded)] == [5, 5, 6, 10]
    assert not d.is_defined() and d.need_masking() and not (d + 1).is_defined()
    x = rf.ones([batch, d])
    assert x.raw_tensor.shape == (2, 5) and rf.range_over_dim(bounded).tolist() == [0, 1, 2, 3, 4]
    assert rf.reduce_sum(x, axis=d).tolist() == [5, 5]
    d.dyn_size_ext = rf.convert_to_tensor(torch.tensor([3, 1]), dims=[batch])
    assert d.is_defined() and d.get_mask().raw_tensor.sum().item() == 4
    both = x + rf.ones([batch, d])  # the lengths that are known have precedence
    assert rf.reduce_sum(both, axis=d).tolist() == [6, 2]


def test_a_tensor_waits_for_lengths_that_come_later() -> None:
    batch = rf.Dim(2, name="batch")
    d = rf.Dim(rf.Tensor("time", [batch], "int32"), name="time", capacity=5)
    x = rf.Tensor("x", [batch, d], "float32", raw_tensor=torch.ones(2, 5))
    d.dyn_size_ext.raw_tensor = torch.tensor([3, 1], dtype=torch.int32)
    assert rf.reduce_sum(x, axis=d).tolist() == [3, 1]


def sources() -> dict:
    """A source with padding, one without, a mask, and how often frames are repeated."""
    batch, feat, few = rf.Dim(2, name="batch"), rf.Dim(4, name="feat"), rf.Dim(3, name="few")
    time = rf.Dim(rf.convert_to_tensor([3, 2], dims=[batch]), name="time")
    numbers = torch.arange(1.0, 25.0).reshape(2, 3, 4)
    return {
        "batch": batch, "feat": feat, "time": time, "few": few,
        "x": rf.convert_to_tensor(numbers, dims=[batch, time, feat]),
        "z": rf.convert_to_tensor(numbers, dims=[batch, few, feat]),
        "mask": rf.convert_to_tensor(torch.tensor([[True, False, True], [False, True, False]]), dims=[batch, time]),
        "counts": rf.convert_to_tensor(torch.tensor([[1, 2, 1], [2, 0, 0]]), dims=[batch, time]),
        "sizes": rf.convert_to_tensor([1, 2], dims=[batch]),
        "conv": rf.Conv1d(feat, rf.Dim(2, name="out"), 3, padding="same", strides=2),
    }  # fmt: skip


MAKERS = {
    "masked_select": lambda s, out: rf.masked_select(s["x"], mask=s["mask"], dims=[s["time"]], out_dim=out)[0],
    "pack_padded": lambda s, out: rf.pack_padded(s["x"], dims=[s["batch"], s["time"]], out_dim=out)[0],
    "pad": lambda s, out: rf.pad(s["x"], axes=[s["time"]], padding=[(1, 2)], value=0.0, out_dims=[out])[0],
    "concat": lambda s, out: rf.concat((s["x"], s["time"]), (s["z"], s["few"]), out_dim=out)[0],
    "slice": lambda s, out: rf.slice(s["x"], axis=s["time"], start=1, out_dim=out)[0],
    "slice, sizes": lambda s, out: rf.slice(s["x"], axis=s["time"], size=s["sizes"], out_dim=out)[0],
    "slice, start": lambda s, out: rf.slice(s["x"], axis=s["time"], start=s["sizes"] - 1, size=1, out_dim=out)[0],
    "repeat": lambda s, out: rf.repeat(s["x"], in_spatial_dim=s["time"], repeats=s["counts"], out_spatial_dim=out)[0],
    "repeat, all": lambda s, out: rf.repeat(s["x"], in_spatial_dim=s["time"], repeats=2, out_spatial_dim=out)[0],
    "merge_dims": lambda s, out: rf.merge_dims(s["x"], dims=[s["time"], s["feat"]], out_dim=out)[0],
    "merge_dims, fixed": lambda s, out: rf.merge_dims(s["z"], dims=[s["few"], s["feat"]], out_dim=out)[0],
    "split_dims": lambda s, out: rf.split_dims(s["z"], axis=s["few"], dims=[out, rf.Dim(1, name="one")]),
    "split": lambda s, out: rf.split(s["x"], axis=s["time"], out_dims=[rf.Dim(1, name="one"), out])[1],
    "max_pool1d": lambda s, out: rf.max_pool1d(s["x"], pool_size=2, in_spatial_dim=s["time"], out_spatial_dim=out)[0],
    "conv": lambda s, out: s["conv"](s["x"], in_spatial_dim=s["time"], out_spatial_dim=out)[0],
    "top_k": lambda s, out: rf.top_k(s["x"], axis=s["time"], k=2, k_dim=out)[0],
    "top_k, each": lambda s, out: rf.top_k(s["x"], axis=s["time"], k=s["sizes"], k_dim=out)[0],
    "stack": lambda s, out: rf.stack([s["z"], 2 * s["z"]], out_dim=out)[0],
    "replace_dim": lambda s, out: rf.replace_dim(s["x"], in_dim=s["time"], out_dim=out)[0],
    "replace_dim, fixed": lambda s, out: rf.replace_dim(s["z"], in_dim=s["few"], out_dim=out)[0],
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_result_of_an_op_has_the_capacity_of_its_output_dim(name) -> None:
    s = sources()
    plain, wide = rf.Dim(None, name="out"), rf.Dim(None, name="out", capacity=20)
    expected, found = MAKERS[name](s, plain), MAKERS[name](s, wide)
    assert found.raw_tensor.shape[found.axis(wide)] == 20 and wide.get_dim_value() == 20
    assert rf.reduce_sum(found, axis=wide).tolist() == rf.reduce_sum(expected, axis=plain).tolist()
    width = expected.raw_tensor.shape[expected.axis(plain)]
    same = found.copy_masked(0).raw_tensor.narrow(found.axis(wide), 0, width)
    assert torch.equal(same, expected.copy_masked(0).raw_tensor)
