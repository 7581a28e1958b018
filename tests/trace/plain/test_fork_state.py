"""Forks of loops with a state in objects, iterators, methods and keys: it is that of the step, or refused."""

from __future__ import annotations

import gc
import heapq
import itertools
import logging
import queue
import random
import sys
import threading
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError
from rfnb.trace.plain.generators import ITERATORS, iterator_contents, iterator_of
from tests.trace.plain.test_fork import assert_same_steps, locked, record

KEPT = []
"""What loops have made, which lives on as in a notebook."""


def keep(value):
    KEPT.append(value)
    return value


@pytest.fixture(autouse=True)
def nothing_is_kept():
    yield
    KEPT.clear()


class Ticks:
    def __init__(self):
        self.n = 0


class Clockwork:
    """Changes another object, of which its own attributes show nothing."""

    def __init__(self):
        self.ticks, self.random, self.items = Ticks(), random.Random(3), [Ticks(), Ticks()]
        self.log, self.lock = logging.getLogger("clockwork"), threading.Lock()

    def tick(self):
        with self.lock:
            self.ticks.n += 1
            self.items[-1].n += 2
        self.log.debug("tick")
        return self.ticks.n + self.items[-1].n + self.random.random()


def objects_in_objects():
    clock, total = keep(Clockwork()), 0
    for _ in range(4):
        total = total + clock.tick()


class Hand:
    """Has nothing but another object."""

    def __init__(self):
        self.ticks = Ticks()

    def tick(self):
        self.ticks.n += 1
        return self.ticks.n


def an_object_that_only_has_another_one():
    hand, total = keep(Hand()), 0
    for _ in range(4):
        total = total + hand.tick()


def a_method_as_a_variable():
    clock, total = Clockwork(), 0
    tick = keep(clock).tick
    while total < 30:
        total = total + tick()


def the_method_of_a_list():
    out, seen = keep([]), keep(set())
    append, add = out.append, seen.add
    for t in range(4):
        append(t)
        add(t % 2)
        n = len(out) + len(seen)
    return n


def a_partial_with_a_list():
    def put(items, x):
        items.append(x)
        return sum(items)

    items = keep([])
    function = partial(put, items)
    for t in range(4):
        n = function(t) + len(items)
    return n


@dataclass(slots=True)
class Slotted:
    n: int
    items: list


def a_dataclass_with_slots():
    state = keep(Slotted(0, []))
    for t in range(4):
        state.n += 1
        state.items.append(t)
        y = state.n + len(state.items)
    return y


@dataclass(frozen=True)
class Derived:
    n: int

    def __post_init__(self):
        object.__setattr__(self, "extra", [5])

    def tick(self):
        self.extra[0] += self.n
        return self.extra[0]


def a_dataclass_with_other_attributes():
    state, y = keep(Derived(2)), 0
    for _ in range(4):
        y = y + state.tick()
    return y


class Node:
    __slots__ = ("children", "parent", "state")

    def __init__(self, state, parent):
        self.state, self.parent, self.children = state, parent, []

    def depth(self):
        return 0 if self.parent is None else 1 + self.parent.depth()

    def expand(self):
        self.children = [Node(2 * self.state + i, self) for i in range(2)]
        return self.children


def a_tree_with_slots():
    frontier, order = deque([keep(Node(1, None))]), []
    while len(order) < 9:
        node = frontier.popleft()
        order.append((node.state, node.depth()))
        frontier.extend(node.expand())
        cost = sum(state * depth for state, depth in order)
        first, last = order[0], order[-1]
        mean = (first[0] + last[0]) / 2
        low = min(mean, cost)
    return low


def a_priority_queue():
    waiting, order = queue.PriorityQueue(), []
    waiting.put((3, "c"))
    waiting.put((1, "a"))
    while not waiting.empty():
        cost, name = waiting.get()
        order.append(name)
        if cost < 6:
            waiting.put((cost + 4, name * 2))


def iterators_as_variables():
    numbers, pairs, count = iter([3, 1, 2, 5, 4]), enumerate(zip("abcde", range(5), strict=True)), itertools.count(7)
    table = {"x": 1, "y": 2, "z": 3}
    values, total = iter(table.values()), []
    while len(total) < 9:
        total = [*total, next(numbers) + next(count), next(pairs), next(values)]
        table["z"] = len(total)


def two_names_of_an_iterator():
    letters = iter("abcdefghijkl")
    pairs, seen = zip(letters, letters, strict=True), ""
    while len(seen) < 12:
        a, b = next(pairs)
        seen = seen + b + a + next(letters)


def an_iterator_in_an_object():
    class Stream:
        def __init__(self, items):
            self.items = iter(items)

    stream, total = keep(Stream([1, 2, 3, 4])), 0
    while total < 9:
        total = total + next(stream.items)


def a_heap_with_a_counter():
    counter, heap = itertools.count(), []
    for cost in [3, 1, 2, 3, 1]:
        heapq.heappush(heap, (cost, next(counter)))
        top = heap[0]
    return top


def keys_that_are_objects():
    layers = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
    table = {layers[0]: 1, torch.float32: 2, ("x", torch.int64): 3}
    for key in keep([*table]):
        table[key] = table[key] + 1
        total = sum(table.values())
    return total


def functions_of_c():
    @lru_cache
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    get, sort, rows = itemgetter(1), np.sort, []
    for t in range(4):
        rows.append((-t, fibonacci(t)))
        best = get(min(rows)), sort([3, t])
    return best


def a_table_with_a_default():
    table = defaultdict(lambda: [0])
    for t in [1, 2, 1, 3, 1]:
        table[t][0] += t
        total = sum(map(itemgetter(0), table.values()))
    return total


def tensors_in_an_object_changed_by_a_method():
    class Cache:
        def __init__(self):
            self.keys = torch.zeros(3)

        def add(self, x):
            self.keys.add_(x)
            return self.keys.sum()

    cache, total = keep(Cache()), torch.zeros(())
    for t in range(5):
        total = total + cache.add(t)


def clip_all(tensors):
    for tensor in tensors:
        tensor.clamp_(-1, 1)


def tensors_changed_by_a_function():
    rows = [torch.full((2,), float(t)) for t in range(4)]
    keep(rows)
    total = torch.zeros(2)
    for row in KEPT[-1]:
        total = total + row
        clip_all([total])
    torch._foreach_zero_(rows)


def rows_that_are_read_by_their_list():
    grid = [[t] for t in range(4)]
    for row in grid:
        row.append(len(row))
        total = sum(map(sum, grid))
    return total


def objects_that_are_read_by_their_list():
    agents, total = [Ticks(), Ticks(), Ticks(), Ticks()], 0
    for number, agent in enumerate(agents):
        agent.n += number + 1
        total = total + sum(other.n for other in agents)


def a_list_that_only_a_closure_names():
    places = []

    def place(t):
        places.append(t)
        return len(places)

    for t in range(4):
        n = place(t)
    return n, places


def walk(depth):
    total = 0
    for i in range(depth):
        total = total + i + walk(i)
    return total


def a_function_that_calls_itself():
    walk(4)


LOOPS = [
    value
    for value in dict(globals()).values()
    if isinstance(value, FunctionType) and value.__module__ == __name__ and not value.__code__.co_argcount
]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_fork_has_the_state_of_the_step(loop):
    runs = [run for run in record(loop) if len(run.replay.iterations.starts) > 2]
    run = next((run for run in runs if run.replay.iterations.code is loop.__code__), runs[0] if runs else None)
    begun = len(run.replay.iterations.starts)
    kept = str([vars(value) if hasattr(value, "__dict__") else value for value in KEPT])
    assert begun > 2
    for step in range(begun):
        assert not locked(run, step)
        fork = run.fork(step)
        assert fork.flags == []
        assert_same_steps(run, fork)
    assert str([vars(value) if hasattr(value, "__dict__") else value for value in KEPT]) == kept


class Attributed(list):
    pass


class Closing:
    def __init__(self):
        self.n = 0

    def __del__(self):
        CLOSED.append(self.n)


CLOSED = []


def an_ended_generator():
    numbers = (t for t in range(2))
    total = sum(numbers)
    while total < 5:
        total = total + next(numbers, 1)


def test_a_generator_that_has_ended_is_had_again():
    [run] = record(an_ended_generator)
    assert all(rf.compare(run, run.fork(step), exact=True) for step in range(run.steps))


def with_attributes_of_a_list():
    items = keep(Attributed())
    items.n = 0
    for _ in range(3):
        items.n += 1
        y = items.n
    return y


def with_an_object_that_closes():
    door = keep(Closing())
    for _ in range(3):
        door.n += 1
        y = door.n
    return y


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (with_attributes_of_a_list, "`items` cannot be had again: the attributes of Attributed objects are not kept"),
        (with_an_object_that_closes, "`door` cannot be had again: Closing objects cannot be copied"),
    ],
)
def test_objects_that_cannot_be_copied_are_refused(loop, words):
    [run] = record(loop)
    with pytest.raises(LoopError, match=words):
        run.fork(1)
    assert locked(run, 1) and not CLOSED


def ways(items):
    yield from (iter(items), iter(tuple(items)), iter(range(5)), iter("abcde"), iter("äbcde"), iter(b"abcde"))
    yield from (reversed(items), reversed(tuple(items)), enumerate(items, 5), zip(items, items, strict=True))
    yield from (map(str, items), filter(None, items), iter({1: 2, 3: 4, 5: 6}), iter({1: 2, 3: 4, 5: 6}.items()))
    yield from (iter({3, 1, 2}), itertools.count(3, 2), itertools.cycle(items), itertools.repeat(3, 9))
    yield from (itertools.chain(items, items), itertools.islice(items, 1, 5), itertools.product(items, items))
    yield from (itertools.permutations(items, 2), itertools.combinations(items, 2), itertools.accumulate(items))
    yield from (itertools.zip_longest(items, "ab"), itertools.takewhile(bool, items), itertools.starmap(max, [items]))
    yield from (itertools.dropwhile(str.isdigit, map(str, items)), itertools.compress(items, items))
    yield from (itertools.filterfalse(None, [0, 0, 0, 0]), iter(bytearray(b"abcde")), iter(items.copy, None))


def again(value):
    """A copy of an iterator, and of those in it."""
    if type(value) is tuple:
        return tuple(map(again, value))
    if type(value) not in ITERATORS:
        return value
    return iterator_of({name: again(part) for name, part in iterator_contents(value).items()})


@pytest.mark.parametrize("taken", range(4))
def test_an_iterator_is_made_again_and_no_item_is_taken(taken):
    for iterator in ways([4, 2, 3, 1, 5]):
        assert type(iterator) in ITERATORS
        for _ in range(taken):
            next(iterator, None)
        items = [*itertools.islice(again(iterator), 4)]
        assert items == [*itertools.islice(again(iterator), 4)] == [*itertools.islice(iterator, 4)]


def test_a_set_with_another_order_is_compared_by_what_the_loop_does():
    def loop():
        seen, order = set(), []
        for t in range(12):
            seen.add((t * 7919) % 64 + 8 * t)
            if t % 3 == 2:
                seen.discard(min(seen))
            order = [*seen]
        return order

    [run] = record(loop)
    for step in range(run.steps):
        try:
            fork = run.fork(step)
        except LoopError as error:
            assert "does not come back as it was: `order` differs" in error.what
        else:
            assert all(fork[i].order.tolist() == run[i].order.tolist() for i in range(step, run.steps))


COUNTING = """
COUNT, LAST, ITEMS = 0, None, [0]

def up():
    global COUNT
    COUNT += 1
    return COUNT

def remember(x):
    global LAST, NEW
    LAST = NEW = x
    return x

class Up:
    def up(self):
        return up()
    def remember(self, x):
        return remember(x)
"""


@pytest.fixture
def counting(monkeypatch, tmp_path):
    module = ModuleType("counting")
    monkeypatch.setitem(sys.modules, "counting", module)
    exec(compile(COUNTING, str(tmp_path / "counting.py"), "exec"), vars(module))
    return module


def test_a_fork_leaves_globals_that_functions_assign(counting):
    def by_functions(up, remember):
        for t in range(4):
            y = remember(t) + up() * 0
        return y

    def by_the_module(counting):
        for t in range(4):
            y = counting.remember(t) + counting.up() * 0
        return y

    def by_an_object(counter):
        for t in range(4):
            y = counter.remember(t) + counter.up() * 0
        return y

    cases = {by_functions: (counting.up, counting.remember), by_the_module: (counting,), by_an_object: (counting.Up(),)}
    for loop, arguments in cases.items():
        rf.runs.clear()
        with rf.record_loops(loop):
            loop(*arguments)
        [run] = rf.runs
        vars(counting).update(COUNT=20, LAST="last")
        del counting.NEW
        assert run.fork(2).steps == 4 and run.fork(2, y=5).steps == 4
        assert counting.COUNT == 20 and counting.LAST == "last" and not hasattr(counting, "NEW")


CALLS = 0


def count_calls():
    global CALLS
    CALLS += 1
    return CALLS


def call_through():
    return count_calls()


def test_a_fork_that_is_refused_leaves_globals_of_its_module():
    def loop():
        for t in range(5):
            c = call_through() + t
        return c

    [run] = record(loop)
    before = CALLS
    for edits in ({}, {"c": 1}):
        with pytest.raises(LoopError, match="step 2 does not come back as it was: `c` differs"):
            run.fork(2, **edits)
        assert before == CALLS


def fail_later(limit):
    if count_calls() > limit:
        raise ValueError("too many calls\nof it")
    return 1


def test_a_new_error_of_a_fork_without_edits_is_refused():
    def loop(limit=CALLS + 4):
        for t in range(4):
            c = fail_later(limit) + t
        return c

    [run] = record(loop)
    line = loop.__code__.co_firstlineno + 2
    for edits in ({}, {"c": 1}):
        with pytest.raises(LoopError) as caught:
            run.fork(1, **edits)
        words = f"fork: step 1 does not come back as it was: ValueError: too many calls at line {line}"
        assert caught.value.what == words and isinstance(caught.value.__cause__, ValueError) and len(rf.runs) == 1


def test_an_error_that_the_run_had_is_that_of_the_fork():
    def loop():
        for x in [4, 2, 0]:
            y = 8 // x
        return y

    with pytest.raises(ZeroDivisionError):
        record(loop)
    [run] = rf.runs
    with pytest.raises(ZeroDivisionError):
        run.fork(1)
    assert rf.runs[0].failed.step == 2 and rf.runs[0].parent is run


def items_in_turn():
    b, it = 0, iter([torch.tensor(float(n)) for n in range(9)])
    for a in it:
        b = a * next(it, 0) + b
    return b


def items_in_turn_by_a_function():
    it, seen = iter(range(9)), 0

    def peek():
        return next(it, -1)

    for n, a in enumerate(it):
        b = peek() * a + n
        seen = seen + b
    return seen


def items_in_turn_by_steps():
    it, b = iter([1, 2, 3, 4, 5, 6]), 0
    for a in rf.steps(it, name="turns"):
        b = b + a * next(it)
    return b


@pytest.mark.parametrize("loop", [items_in_turn, items_in_turn_by_a_function, items_in_turn_by_steps])
def test_items_that_header_and_lines_take_in_turn_come_back(loop):
    [run] = record(loop)
    for step in range(run.steps):
        assert_same_steps(run, run.fork(step))
    name = "seen" if loop is items_in_turn_by_a_function else "b"
    assert run.fork(1, **{name: run[1].eval(f"before.{name}")}).steps == run.steps


def test_a_fork_names_the_iterator_that_it_does_not_follow():
    def loop():
        it = iter(range(8))
        for a in map(abs, it):
            b = next(it) + a
        return b

    [run] = record(loop)
    with pytest.raises(LoopError, match="`b` differs") as caught:
        run.fork(1)
    assert "another iterator than `it`" in caught.value.hint


@pytest.mark.parametrize("kind", [weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary])
def test_references_to_what_is_gone_stay_so(kind):
    class Cell:
        """An object that nothing but a step keeps."""

    class Cache:
        def __init__(self):
            self.known, self.total = kind(), torch.zeros(2)

    def loop(cache):
        for step in range(5):
            cell = Cell()
            if kind is weakref.WeakSet:
                cache.known.add(cell)
            else:
                cache.known.update({cell: step} if kind is weakref.WeakKeyDictionary else {step: cell})
            cache.total = cache.total + step
        return cache.total

    with rf.record_loops(loop):
        loop(Cache())
    gc.collect()
    fork = rf.runs["loop"].fork(2)
    assert fork[4].eval("cache.total").raw_tensor.tolist() == [10.0, 10.0]
