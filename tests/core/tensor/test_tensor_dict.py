"""Batches: tensors by name, whose dims go back to them when they are used."""

from __future__ import annotations

from collections import UserDict, deque

import pytest
import torch

import rfnb as rf
from rfnb import Tensor, TensorDict, batch_dim
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.tensor.tensor_dict import as_dicts, copied_with

FEAT = rf.Dim(2, name="feat")


def test_an_earlier_batch_can_be_used_again():
    time = rf.Dim(None, name="time")
    join = rf.collate({"x": [batch_dim, time]}, tag="name")
    old = join([{"name": "a", "x": [1.0, 2.0]}])
    join([{"name": "b", "x": [1.0]}, {"name": "c", "x": [2.0]}])
    total = rf.reduce_sum(old["x"], axis=time) + rf.zeros([batch_dim])
    assert total.raw_tensor.tolist() == [3.0]
    assert old.tags == ["a"]


def test_a_name_that_is_not_there():
    with pytest.raises(rf.errors.DimError, match="no 'y'"):
        rf.TensorDict({"x": rf.zeros([])})["y"]


def test_what_it_is_made_of():
    x, y = Tensor("x", [FEAT], "float32"), Tensor("y", [FEAT], "int64")
    for data in ({"x": x, "y": y}, [x, y], TensorDict([x, y])):
        assert TensorDict(data).data == {"x": x, "y": y}
    assert len(TensorDict()) == 0
    batch = TensorDict([x])
    batch.update({"z": y})
    assert (list(batch), batch.all_dims()) == (["x", "z"], [FEAT])
    with pytest.raises(rf.errors.DimError, match=r"'w' is not an rf\.Tensor"):
        TensorDict({"w": 3})


def test_raw_tensors_there_and_back():
    time, other = rf.Dim(None, name="time"), rf.Dim(None, name="other")
    x = rf.convert_to_tensor(torch.randn(2, 3), dims=[batch_dim, time], lengths=[3, 1], name="x")
    labels = rf.convert_to_tensor([[1], [2, 0]], dims=[batch_dim, other], name="labels")
    batch = TensorDict([x, labels])
    raws = batch.as_raw_tensor_dict()
    assert {name: raw.tolist() for name, raw in raws.items() if "size" in name} == {
        "x:size0": 2,
        "x:size1": [3, 1],
        "labels:size0": 2,
        "labels:size1": [1, 2],
    }
    template = batch.copy_template()
    rf.convert_to_tensor(torch.zeros(3, 5), dims=[batch_dim, time], lengths=[5, 1, 4])
    template.assign_from_raw_tensor_dict_(raws)
    assert torch.equal(template["x"].raw_tensor, x.raw_tensor)
    assert rf.reduce_sum(rf.ones_like(template["x"]), axis=time).raw_tensor.tolist() == [3.0, 1.0]
    assert template["labels"].size_of(other).values.tolist() == [1, 2]
    assert (template["x"] + x).dims == x.dims


def test_a_reset_leaves_the_descriptions():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1], name="x")
    batch = TensorDict([x])
    batch.reset_content()
    assert (batch.data["x"].raw_tensor, batch.data["x"].dims, time.is_dim_known()) == (None, x.dims, False)
    assert rf.reduce_sum(x, axis=time).raw_tensor.tolist() == [3.0, 1.0]


class Attributes:
    __slots__ = ("__dict__", "b")

    def __init__(self, a, b):
        self.a, self.b, self.me = a, b, self


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda a, b: UserDict(a=a, b=b), ["a", "b"]),
        (lambda a, b: deque([a, b]), ["0", "1"]),
        (Attributes, ["a", "me", "b"]),
        (lambda a, b: Attributes([a], {"x": rf.TensorDict({"y": b})}), ["a.0", "me", "b.x.y"]),
        (lambda a, b: (a, [b, rf.relu, torch.nn.Linear(2, 2), Attributes]), ["0", "1.0", "1.1", "1.2", "1.3"]),
    ],
)
def test_as_dicts_takes_apart_what_objects_hold(make, names):
    a, b = rf.ones([]), rf.zeros([])
    named = named_leaves(as_dicts(make(a, b)))
    assert [name for name, _ in named] == names
    assert [leaf for _, leaf in named if isinstance(leaf, rf.Tensor)] == [a, b]


def test_as_dicts_ends_in_circles_and_long_chains():
    circle = []
    circle.append(circle)
    assert as_dicts(circle) == [None]
    chain = None
    for _ in range(2000):
        chain = Attributes(chain, 1)
    assert len(leaves(as_dicts(chain))) < 200


def test_copied_with_leaves_the_first_structure_as_it_is():
    tensor = rf.ones([])
    held = Attributes({tensor: 1}, [tensor])
    other = copied_with(lambda leaf: "new" if leaf is tensor else leaf, {"x": held})["x"]
    assert other.b == ["new"] and other.me is other and held.b == [tensor]
