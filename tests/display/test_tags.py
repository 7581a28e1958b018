"""A sequence is chosen by its tag, and an entry of another dim by its number or label."""

from __future__ import annotations

import gc
from html import unescape

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import DimError, ViewError

TAGS = ["kiwi", "banana", "apple"]


@pytest.fixture
def time():
    return Dim(None, name="time")


@pytest.fixture
def layer():
    return Dim(2, name="layer", vocab=["low", "high"])


@pytest.fixture
def x(time, layer):
    raw = torch.arange(30.0).reshape(3, 5, 2)
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, layer], lengths=[3, 5, 2], tags=TAGS, name="x")


@pytest.mark.parametrize("batch", ["banana", 1, -2])
def test_a_sequence_and_a_layer(x, batch):
    view = rf.show(x, batch=batch, layer=1)
    assert view.data["name"] == "x of 'banana', layer 1"
    assert view.data["values"] == [11, 13, 15, 17, 19]
    assert rf.show(x, batch=batch, layer="high").data["values"] == view.data["values"]
    assert rf.show(x, layer=1, batch=batch).data["values"] == view.data["values"]
    assert rf.show(x, batch=batch, time=-1).data["values"] == [18, 19]


def test_the_view_is_not_part_of_a_tensor(x):
    rf.show(x, batch="apple", time=1)
    assert x.name == "x"
    assert "x of 'apple', time 1" in unescape(rf.show(x, batch="apple", time=1).html)


def test_a_place_in_all_sequences(x):
    view = rf.show(x, time=2, layer=0).data
    assert view["values"] == [4, 14, None]
    assert view["note"] == "time 2 is padding in 1 of the sequences"
    assert rf.show(x, time=1, layer=0).data["note"] is None
    with pytest.raises(ViewError, match="ends at a different position"):
        rf.show(x, time=-1)


@pytest.mark.parametrize(
    ("choice", "match"),
    [
        ({"batch": "bananas"}, "no sequence with this tag(.|\n)*did you mean 'banana'"),
        ({"batch": 3}, "no such sequence\n  got       3\n  expected  0 to 2"),
        ({"batch": 1.0}, "no such sequence"),
        ({"layr": 1}, "has no dim layr(.|\n)*did you mean layer"),
        ({"layer": 2}, "no such position of layer\n  got       2\n  expected  0 to 1"),
        ({"batch": "banana", "time": 5}, "no such position of time\n  got       5\n  expected  0 to 4"),
    ],
)
def test_what_is_not_there(x, choice, match):
    with pytest.raises(ViewError, match=match):
        rf.show(x, **choice)


def test_a_label_that_is_not_there(x):
    with pytest.raises(DimError, match="unknown label"):
        rf.show(x, layer="middle")


def test_what_has_no_sequences(time):
    with pytest.raises(ViewError, match=r"the view of a Dim does not take 'batch'\n  got       batch=1"):
        rf.show(time, batch=1)
    with pytest.raises(ViewError, match="no axis that counts sequences"):
        rf.show(rf.ones([Dim(2, name="feat")]), batch=1)
    with pytest.raises(ViewError, match="no such view"):
        rf.show(3)


def test_a_batch_without_tags(time):
    x = rf.convert_to_tensor(torch.zeros(2, 3), dims=[batch_dim, time], lengths=[3, 1], name="x")
    assert rf.show(x, batch=1).data["name"] == "x of batch 1"
    with pytest.raises(ViewError, match=r"as the batch has no tags(.|\n)*tags=\[…\]"):
        rf.show(x, batch="banana")


def test_attention_by_tag(x, time):
    keys, _ = rf.replace_dim(x, in_dim=time, out_dim=Dim(None, name="keys"))
    weights = rf.matmul(x, keys, reduce=x.dims[2])
    view = rf.show_attention(weights, rows=time, batch="apple")
    assert view.data["tag"] == "apple"
    assert len(view.data["rows"]) == len(view.data["cols"]) == 2


def kept(x):
    return x.lengths.size(batch_dim).tags


def test_tags_stay_with_the_batch(x, time, layer):
    assert kept(x + 1) == TAGS
    assert kept(rf.reduce_sum(x, axis=[time, layer])) == TAGS
    assert kept(rf.softmax(x, axis=time).copy_transpose([layer, time, batch_dim])) == TAGS
    assert kept(rf.gather(x, indices=0, axis=time)) == TAGS
    assert kept(rf.slice(x, axis=time, start=1)[0]) == TAGS
    assert kept(rf.concat((x, time), (x, time))[0]) == TAGS
    assert kept(rf.top_k(x, axis=layer, k=1)[0]) == TAGS
    assert kept(rf.zeros([batch_dim, time])) == TAGS
    with rf.Loop(axis=time) as loop:
        frames = loop.stack(loop.unstack(x) * 2)
    assert kept(frames) == TAGS
    assert rf.show(frames, batch="banana", time=0).data["values"] == [20, 22]


def test_another_batch_dim_has_no_tags(x, time):
    x = rf.reduce_sum(x, axis=time)
    sliced, rest = rf.slice(x, axis=batch_dim, start=1)
    assert sliced.lengths.size(rest).tags is None
    two = Dim(None, name="two")
    picked = rf.gather(x, indices=rf.convert_to_tensor([1, 0], dims=[two]), axis=batch_dim)
    assert picked.lengths.size(two).tags is None


def test_gather_by_tag_and_by_label(x, time, layer):
    assert rf.gather(x, indices="apple", axis=batch_dim).lengths.size(time).values.tolist() == 2
    assert rf.gather(x, indices="apple", axis=batch_dim).raw_tensor[:2].tolist() == [[20, 21], [22, 23]]
    low = rf.gather(x, indices="low", axis=layer)
    assert low.raw_tensor.tolist() == rf.gather(x, indices=0, axis=layer).raw_tensor.tolist()
    with pytest.raises(DimError, match=r"gather: no sequence with this tag(.|\n)*did you mean 'apple'"):
        rf.gather(x, indices="appel", axis=batch_dim)
    with pytest.raises(DimError, match="the batch has no tags"):
        rf.gather(x, indices="apple", axis=time)


def test_tags_need_a_batch_of_any_size():
    three = Dim(3, name="three")
    with pytest.raises(DimError, match="three has a fixed size"):
        rf.convert_to_tensor([1, 2, 3], dims=[three], tags=TAGS)
    with pytest.raises(DimError, match="each sequence needs a tag"):
        rf.convert_to_tensor([1, 2], dims=[batch_dim], tags=TAGS)
    assert kept(rf.convert_to_tensor([1, 2], dims=[batch_dim], tags=[17, 4])) == ["17", "4"]


@pytest.fixture
def bare(layer):
    """Made before `x`, whose tags later tensors of the batch have, and after those of other tests have gone."""
    gc.collect()
    return rf.convert_to_tensor(torch.ones(3, 2), dims=[batch_dim, layer])


def test_operands_without_tags_leave_those_of_the_others(bare, x, time, layer):
    assert kept(bare) is None
    for result in (x + bare, bare + x, rf.where(bare > 0, x, bare), rf.matmul(bare, x, reduce=layer)):
        assert result.lengths[batch_dim].tags == TAGS
    with rf.capture() as seen:
        weights = rf.softmax(rf.matmul(bare, x, reduce=layer), axis=time)
        rf.matmul(weights, x, reduce=time)
    assert "of 'kiwi'" in rf.show_attention(seen).text
