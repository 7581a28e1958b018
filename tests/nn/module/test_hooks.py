"""Hooks on any method of an object."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest

import rfnb as rf
from rfnb.nn.module.hooks import MethodWithHooks, RemovableHandle, setup_post_hook_on_method


class Counter:
    """Counts."""

    def __init__(self):
        self.count = 0
        self.double = lambda x: 2 * x

    def add(self, number, *, times=1):
        self.count += number * times
        return self.count


def test_a_hook_sees_the_call_and_may_replace_the_result():
    counter, seen = Counter(), []
    handle = setup_post_hook_on_method(counter, "add", lambda *call: seen.append(call))
    assert isinstance(handle, RemovableHandle) and isinstance(counter.add, MethodWithHooks)
    assert counter.add(2, times=3) == 6
    assert seen == [(counter, (2,), {"times": 3}, 6)]
    with setup_post_hook_on_method(counter, "add", lambda obj, args, kwargs, result: result + 100):
        assert counter.add(1) == 107
    assert counter.add(1) == 8
    handle.remove()
    handle.remove()
    assert counter.add(0) == 8 and len(seen) == 3
    assert "add" not in vars(counter)


def test_hooks_come_in_order_or_first():
    counter = Counter()
    last = setup_post_hook_on_method(counter, "add", lambda obj, args, kwargs, result: f"{result} then last")
    first = setup_post_hook_on_method(counter, "add", lambda *call: f"{call[-1]} then first", prepend=True)
    assert counter.add(1) == "1 then first then last"
    last.remove()
    assert counter.add(1) == "2 then first"
    first.remove()
    assert counter.add(1) == 3


def test_other_objects_have_their_method():
    one, other = Counter(), Counter()
    setup_post_hook_on_method(one, "add", lambda *call: "seen")
    assert (one.add(1), other.add(1)) == ("seen", 1)


def test_a_function_that_is_an_attribute_comes_back():
    counter = Counter()
    function = counter.double
    with setup_post_hook_on_method(counter, "double", lambda *call: -call[-1]):
        assert counter.double(3) == -6
    assert counter.double is function


def test_the_call_of_a_module():
    feat = rf.Dim(2, name="feat")
    module = rf.Functional(lambda x: x * 2.0)
    with setup_post_hook_on_method(module, "__call__", lambda module, args, kwargs, y: y + args[0]):
        assert module(rf.ones([feat])).raw_tensor.tolist() == [3.0, 3.0]
    assert module(rf.ones([feat])).raw_tensor.tolist() == [2.0, 2.0]


def test_a_copy_has_hooks_of_its_own():
    counter = Counter()
    setup_post_hook_on_method(counter, "add", lambda *call: "of both")
    other = copy.copy(counter)
    with setup_post_hook_on_method(other, "add", lambda *call: f"{call[-1]}, and of one"):
        assert (other.add(1), counter.add(1)) == ("of both, and of one", "of both")
    assert other.add(1) == "of both"


def test_what_was_put_in_the_place_of_the_method_stays():
    counter = Counter()
    handle = setup_post_hook_on_method(counter, "add", lambda *call: "seen")
    counter.add = abs
    handle.remove()
    assert counter.add is abs


def test_a_hook_may_take_itself_away():
    counter = Counter()
    handle = setup_post_hook_on_method(counter, "add", lambda *call: handle.remove())
    setup_post_hook_on_method(counter, "add", lambda *call: f"{call[-1]} seen")
    assert (counter.add(1), counter.add(1)) == ("1 seen", "2 seen")


def test_the_first_hook_of_the_call_of_a_module():
    module = rf.Functional(lambda x: [x])
    setup_post_hook_on_method(module, "__call__", lambda *call: [*call[-1], "last"])
    setup_post_hook_on_method(module, "__call__", lambda *call: [*call[-1], "first"], prepend=True)
    assert module(0) == [0, "first", "last"]


@pytest.mark.parametrize("obj", [3, len, Counter()])
@pytest.mark.parametrize("attr", ["__call__", "__str__", "bit_length"])
def test_what_cannot_have_hooks_is_told(obj, attr):
    with pytest.raises(rf.errors.ParameterError, match="has no replaceable method"):
        setup_post_hook_on_method(obj, attr, print)


@pytest.mark.parametrize("attr", ["count", "foo", "__repr__"])
def test_what_is_no_method_is_told(attr):
    counter = Counter()
    before = dict(vars(counter))
    with pytest.raises(rf.errors.ParameterError, match="has no replaceable method") as error:
        setup_post_hook_on_method(counter, attr, print)
    assert vars(counter) == before
    assert ("on the class" in str(error.value)) == (attr == "__repr__")


def test_removed_hooks_keep_nothing_alive():
    counter = Counter()
    with setup_post_hook_on_method(counter, "add", lambda *call: None):
        counter.add(1)
    gone = weakref.ref(counter)
    del counter
    gc.collect()
    assert gone() is None
