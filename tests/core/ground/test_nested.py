"""Containers are taken apart and put together in the same order, whatever their class."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import attrs
import pytest
import torch

import rfnb as rf
from rfnb.core.ground.nested import arranged, leaves, map_leaves, map_pairs, named_leaves, same_structure
from rfnb.errors import DimError


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Plain:
    a: Any
    b: Any
    kind: ClassVar[str] = "no field"


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any


@dataclass
class Derived:
    a: Any
    b: Any
    calls: list = field(default_factory=list, init=False, compare=False)

    def __post_init__(self):
        self.note = "made by the constructor"


@attrs.frozen
class OfAttrs:
    a: Any
    b: Any


@dataclass
class Output(OrderedDict):
    """A dict, a dataclass and attributes at once, as the results of Hugging Face's models."""

    a: Any = None
    b: Any = None

    def __post_init__(self):
        for name in ("a", "b"):
            if getattr(self, name) is not None:
                super().__setitem__(name, getattr(self, name))


KINDS = [
    lambda a, b: {"a": a, "b": b},
    lambda a, b: OrderedDict(a=a, b=b),
    lambda a, b: defaultdict(list, a=a, b=b),
    lambda a, b: rf.State(a=a, b=b),
    Pair,
    Plain,
    Frozen,
    Derived,
    OfAttrs,
    Output,
    lambda a, b: SimpleNamespace(a=a, b=b),
]


@pytest.mark.parametrize("make", KINDS)
def test_containers_of_all_kinds_are_mapped(make):
    tree = make(1, [2, (3,)])
    assert named_leaves(tree, "x") == [("x.a", 1), ("x.b.0", 2), ("x.b.1.0", 3)]
    assert leaves(tree) == [1, 2, 3]
    other = map_leaves(lambda leaf: leaf * 10, tree)
    assert type(other) is type(tree) and other == make(10, [20, (30,)])
    assert leaves(tree) == [1, 2, 3]  # the first one stays as it was
    assert map_pairs(lambda a, b: a + b, tree, other) == make(11, [22, (33,)])


def test_attributes_that_are_no_fields_stay():
    other = map_leaves(str, Derived(1, 2))
    assert (other.a, other.note, other.calls) == ("1", "made by the constructor", [])
    assert map_leaves(str, Plain(1, 2)).kind == "no field"
    assert map_leaves(str, defaultdict(list, a=1))["missing"] == []
    assert map_leaves(str, Output(a=1)).a == "1"  # entry and attribute agree


def test_a_dataclass_that_does_not_change_is_the_same_object():
    config = Frozen("relu", None)
    assert map_leaves(lambda leaf: leaf, {"config": config})["config"] is config


def test_modules_and_caches_that_reorder_themselves_are_leaves():
    @dataclass
    class Cache:
        keys: Any

        def reorder_cache(self, index):
            return self

    @dataclass(eq=False)
    class Net(torch.nn.Module):
        size: int

    for leaf in (Cache(1), Net.__new__(Net), Plain):
        assert leaves([leaf]) == [leaf]


def test_namespaces_and_dicts_are_arranged_by_name():
    assert same_structure(SimpleNamespace(a=1, b=2), SimpleNamespace(b=2, a=1))
    assert list(arranged({"b": 2, "a": 1}, {"a": 0, "b": 0})) == ["a", "b"]
    state = arranged(rf.LstmState(h=1, c=2), rf.State(c=0, h=0))  # a dict whose class has a constructor of its own
    assert (type(state), list(state.items())) == (rf.LstmState, [("c", 2), ("h", 1)])
    assert list(arranged(Plain({"b": 2, "a": 1}, 3), Plain({"a": 0, "b": 0}, 0)).a) == ["a", "b"]
    with pytest.raises(DimError, match="structures differ"):
        map_pairs(lambda a, b: a, Plain(1, 2), Plain(1, [2, 3]))
