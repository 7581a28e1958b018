"""Forks of recorded loops of plain Python: without edits, all later steps are those of the original, bit for bit."""

from __future__ import annotations

import gc
import io
import random
import re
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from tqdm import tqdm

import rfnb as rf
from rfnb.errors import LoopError, LoopWarning, RfError
from rfnb.trace.plain import fork, hidden_state, iterations, values
from rfnb.trace.plain.recorded_variables import locked_variables
from rfnb.trace.plain.values import Opaque
from rfnb.trace.plain.variables import FrameVariables
from tests.examples import FACTOR
from tests.trace.plain import loops
from tests.trace.plain.programs import LOST, equal, of_entry, programs
from tests.trace.plain.test_recorder import outcome

LOOPS = {loop.__name__: loop for loop in loops.LOOPS}


def record(loop):
    """The runs of the loops of a function that are in no other loop."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with rf.record_loops(loop):
        loop()
    return list(rf.runs)


def entries(run, step):
    return [(entry.name, entry.line, of_entry(entry)) for entry in run.replay.iterations.entries(step)]


def locked(run, step):
    """Why the panel cannot edit the states of a step that are variables with values; empty if it can."""
    loop = run.replay.iterations
    names = [name for name in loop.text.carried if name.isidentifier() and name in loop.before(step)]
    return {*locked_variables(loop, run.source.lines, step, names or ["none"]).values()} - {"`none` has no value yet"}


def assert_same_steps(run, fork, unset=()):
    """All steps are equal; at most a few values are marked as lost. unset: variables that are not compared."""
    begun = len(run.replay.iterations.starts)
    assert len(fork.replay.iterations.starts) == begun and fork.steps == run.steps
    lost = compared = 0
    for step in range(begun):
        mine, theirs = entries(run, step), entries(fork, step)
        assert [entry[:2] for entry in theirs] == [entry[:2] for entry in mine], step
        for (name, line, a), (_, _, b) in zip(mine, theirs, strict=True):
            compared += 1
            lost += a is LOST or b is LOST
            is_lost = a is LOST or b is LOST or isinstance(a, Opaque) or name in unset
            assert is_lost or equal(a, b), (step, name, line, a, b)
    assert lost <= 0.4 * compared + 2


@pytest.mark.parametrize("name", LOOPS)
def test_a_fork_at_each_step_is_the_rest_of_the_loop(name):
    runs = record(LOOPS[name])
    assert runs and all(len(run.replay.iterations.starts) for run in runs)
    numbers = torch.get_rng_state()
    for run in runs:
        before = [entries(run, step) for step in range(len(run.replay.iterations.starts))]
        for step in range(len(run.replay.iterations.starts)):
            assert not locked(run, step)
            try:
                fork = run.fork(step)
            except ZeroDivisionError:
                fork = rf.runs[0]
            assert fork.parent is run and fork.forked_at == step and fork.flags == run.flags
            assert_same_steps(run, fork)
        after = [entries(run, step) for step in range(len(run.replay.iterations.starts))]
        assert str(after) == str(before)
    assert torch.equal(torch.get_rng_state(), numbers)


def decode(w, steps):
    h = torch.zeros(3)
    for t in rf.steps(range(steps), name="decoder"):
        x = torch.full((3,), float(t))
        h = torch.tanh(h @ w + x)
    return h


def test_a_fork_goes_on_from_edited_variables():
    decode(torch.eye(3), 5)
    run = rf.runs["decoder"]
    fork = run.fork(2, h=0.5)
    h = torch.full((3,), 0.5)
    assert (
        fork in rf.runs and torch.equal(fork[2].before.h.raw_tensor, h) and torch.equal(fork[1].after.h.raw_tensor, h)
    )
    assert torch.equal(fork[1].h.raw_tensor, run[1].h.raw_tensor) and fork.loop == run.loop
    for t in range(2, 5):
        h = torch.tanh(h + t)
        assert torch.equal(fork[t].h.raw_tensor, h)
    first = rf.compare(run, fork).first
    assert (first.name, first.step) == ("h", 2) and not rf.compare(run, fork)
    again = fork.fork(4, w=torch.zeros(3, 3))
    assert again.parent is fork and torch.equal(again[4].h.raw_tensor, torch.tanh(torch.full((3,), 4.0)))
    assert torch.equal(again[2].before.h.raw_tensor, fork[2].before.h.raw_tensor)
    assert torch.equal(fork.fork(1)[4].h.raw_tensor, run[4].h.raw_tensor)
    assert "fork of" in str(fork) and rf.show(fork).text


def test_a_seed_draws_other_numbers_beside_those_of_the_session():
    def loop():
        x = torch.zeros(2)
        for _ in range(3):
            x = x + torch.rand(2) + random.random() + np.random.rand()
        return x

    [run] = record(loop)
    expected = torch.rand(1), random.random(), np.random.rand()
    record(loop)
    run.fork(1), run.fork(0, seed=3)
    assert (torch.rand(1), random.random(), np.random.rand()) == expected
    one, other = run.fork(1, seed=7), run.fork(1, seed=7)
    assert rf.compare(one, other, exact=True) and not rf.compare(run, one)
    assert torch.equal(one[0].x.raw_tensor, run[0].x.raw_tensor)


def test_a_condition_runs_anew_and_has_an_end():
    def halve():
        n = 40
        while n > 1:
            n = n // 2
        return n

    [run] = record(halve)
    assert run.fork(2, n=1).steps == 2 and run.fork(2, n=1024).steps == 12

    def grow():
        n, step = 1, 2
        while n < 20:
            n = n + step

    rf.runs.clear()
    [run] = record(grow)
    with pytest.raises(LoopError, match="has not ended after 1100 steps"):
        run.fork(0, step=0)
    assert rf.runs[0].parent is run and len(rf.runs) == 2


def test_an_error_of_a_step_is_that_of_the_fork():
    def loop():
        for x in [4, 2, 1]:
            y = 8 // x
        return y

    [run] = record(loop)
    with pytest.raises(LoopError, match="header of the loop assigns `x` anew"):
        run.fork(1, x=0)

    def divide():
        x = 3
        while x < 9:
            y = 8 // x
            x = x + 1
        return y

    rf.runs.clear()
    [run] = record(divide)
    with pytest.raises(ZeroDivisionError):
        run.fork(2, x=-1)
    fork = rf.runs[0]
    assert (
        fork.failed.step == 3 and fork.failed.kind == "ZeroDivisionError" and fork.steps == 3 and fork[2].y.item() == -8
    )


def test_a_fork_prints_nothing_and_changes_nothing_of_the_run(capsys):
    rows = [torch.zeros(2)]

    def loop():
        out, last = torch.zeros(3, 2), rows
        for t in range(3):
            out[t] += t + last[0]
            last.append(out[t])
            print(t)
        return out

    [run] = record(loop)
    capsys.readouterr()
    values = str(run[2].out), str(run[0].out), len(rows)
    run.fork(0, out=7.0)
    assert (str(run[2].out), str(run[0].out), len(rows)) == values and capsys.readouterr().out == ""


def by_hand():
    for _ in range(2):
        with torch.no_grad():
            for weight in HAND.parameters():
                weight -= 0.1


def by_an_optimizer_that_was_skipped():
    optimizer, step = torch.optim.SGD(HAND.parameters(), 0.1), 0
    while step < 3:
        if step > 8:
            optimizer.step()
        step = step + 1


HAND = torch.nn.Linear(2, 1)


def with_a_file():
    with Path(__file__).open() as lines:
        for _ in range(2):
            lines.readline()


def with_a_generator_as_a_variable():
    numbers = (n for n in range(9))
    while True:
        if next(numbers) > 3:
            break


def with_a_generator():
    def inner():
        for i in range(3):
            yield 2 * i

    return [*inner()]


def with_nonlocal():
    total = 0

    def inner():
        nonlocal total
        for i in range(3):
            total += i

    inner()


def with_global():
    global COUNT
    for i in range(3):
        COUNT = i


def with_a_dead_module():
    model = torch.nn.Linear(2, 2)
    for _ in range(2):
        x = model(torch.ones(2))
    return x


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (by_hand, "changes the weights of `HAND`"),
        (by_an_optimizer_that_was_skipped, "`optimizer` cannot be had again: the state of SGD objects is not kept"),
        (with_a_file, "`lines` cannot be had again: the state of TextIOWrapper objects is not kept"),
        (with_a_generator_as_a_variable, "`numbers` cannot be had again: the state of generator objects is not kept"),
        (with_a_generator, "a loop with `yield` cannot be continued"),
        (with_nonlocal, "nonlocal"),
        (with_global, "`COUNT` is a variable of the module"),
    ],
)
def test_what_cannot_be_continued_is_refused_with_the_reason(loop, words):
    weights = [weight.clone() for weight in HAND.parameters()] if loop is not by_hand else []
    run = record(loop)[0]
    count = len(rf.runs)
    gc.collect()
    with pytest.raises(LoopError, match=words):
        run.fork(1)
    [reason] = locked(run, 1)
    assert re.search(words, reason) and not reason.startswith("fork")
    assert len(rf.runs) == count and all(map(torch.equal, weights, HAND.parameters()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"step": 9}, "no step 9"),
        ({"step": 2, "g": 1}, "no variable 'g'"),
        ({"step": 2, "h": [1, 2]}, "`h` cannot have this value"),
        ({"step": 2, "h": "a"}, "`h`"),
        ({"step": 2, "sequence": 0}, "no sequences"),
        ({"step": 2, "hypothesis": 0}, "no hypotheses|no sequences"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_happens(arguments, words):
    decode(torch.eye(3), 5)
    run = rf.runs["decoder"]
    with pytest.raises(RfError, match=words):
        run.fork(arguments.pop("step"), **arguments)
    assert len(rf.runs) == 1 and sys.gettrace() is None


def test_values_that_are_no_longer_kept_are_named(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 40_000)

    def loop():
        h = torch.zeros(1000)
        for _ in range(30):
            h = h + 1
        return h

    [run] = record(loop)
    with pytest.raises(LoopError, match="`h` cannot be had again: no longer kept"):
        run.fork(3)
    assert run.fork(28).steps == 30
    assert run.replay.locked_states(run, 28) == {} and "no longer kept" in run.replay.locked_states(run, 3)["h"]


def test_weights_are_those_of_the_run_or_the_fork_says_so(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval()

    def loop():
        x = torch.ones(3, 2)
        for _ in range(3):
            x = torch.tanh(model(x))
        return x

    [run] = record(loop)
    assert run.fork(1).flags == [] and rf.compare(run, run.fork(1), exact=True)
    with torch.no_grad():
        model[0].bias += 1
    bias, version = model[0].bias.clone(), model[0].bias._version
    fork = run.fork(1)
    assert fork.flags == [] and rf.compare(run, fork, exact=True)
    assert torch.equal(model[0].bias, bias) and model[0].bias._version == version
    monkeypatch.setattr(hidden_state, "LARGE", 8)
    rf.runs.clear()
    [run] = record(loop)
    with torch.no_grad():
        model[0].bias += 1
    fork = run.fork(1)
    assert fork.flags == ["with today's weights"] and not rf.compare(run, fork)


def test_a_deleted_fork_keeps_nothing_alive():
    decode(torch.eye(3), 3)
    fork = rf.runs["decoder"].fork(1, h=2.0)
    raw = weakref.ref(fork[2].h.raw_tensor)
    function = weakref.ref(fork.replay.iterations.codes[-1])
    rf.runs.clear()
    del fork
    gc.collect()
    assert raw() is None and function() is None


@pytest.mark.parametrize("seed", range(round(30 * FACTOR)))
@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_a_fork_of_a_random_loop_is_the_rest_of_it(seed, tmp_path):
    plain, _ = programs(seed, tmp_path)
    with rf.record_loops(plain):
        outcome(plain, torch.eye(3), None)
    for run in list(rf.runs):
        for step in range(len(run.replay.iterations.starts)):
            reasons = locked(run, step)
            try:
                fork = run.fork(step)
            except LoopError as error:
                assert "cannot be had again" in str(error)
                assert reasons or "step" in error.what, error
                continue
            except Exception:
                fork = rf.runs[0]
                assert run.failed is not None and fork.parent is run and fork.failed.error == run.failed.error
            assert not reasons and len(fork.replay.iterations.starts) == len(run.replay.iterations.starts)
            for later in range(step, len(run.replay.iterations.starts)):
                assert_same_values(run, fork, later)


def assert_same_values(run, fork, step):
    """The last value of each line is the same, where both have it, and so are the variables before the step."""
    mine, theirs = ({entry[:2]: entry[2] for entry in entries(of, step)} for of in (run, fork))
    mine |= {name: of_entry(entry) for name, entry in run.replay.iterations.before(step).items()}
    theirs |= {name: of_entry(entry) for name, entry in fork.replay.iterations.before(step).items()}
    for key, value in mine.items():
        other = theirs.get(key, LOST)
        assert value is LOST or other is LOST or isinstance(value, Opaque) or equal(value, other), (step, key)


class Recurrent(torch.nn.Module):
    """A module with a state of its own, one that it names and one that it hides."""

    def __init__(self):
        super().__init__()
        self.linear, self.h, self.calls = torch.nn.Linear(2, 2), None, 0

    def forward(self, xs):
        self.h = torch.zeros(2)
        for x in rf.steps(xs, name="recurrent"):
            self.h = torch.tanh(self.linear(self.h) + x)
            y = self.h * 2
        return y

    def count(self, steps):
        for t in rf.steps(range(steps), name="counted"):
            n = self.next() + t
        return n

    def next(self):
        self.calls += 1
        return self.calls


def test_attributes_of_a_module_are_those_of_the_step_and_stay_as_they_are():
    module = Recurrent()
    module(torch.randn(4, 2))
    run, h = rf.runs["recurrent"], module.h
    for step in range(4):
        fork = run.fork(step)
        assert_same_steps(run, fork)
        assert module.h is h and fork.flags == [] and module.linear.weight.grad is None


def test_attributes_that_no_line_shows_are_those_of_the_step():
    module = Recurrent()
    module.count(3)
    for step in range(3):
        fork = rf.runs["counted"].fork(step)
        assert_same_steps(fork.parent, fork)
        assert fork.flags == [] and module.calls == 3


def test_attributes_that_change_late_are_named():
    module = Recurrent()

    def loop():
        for t in range(4):
            n = module.next() if t > 2 else t
        return n

    [run] = record(loop)
    assert run.fork(1).flags == ["with today's module.calls"] and module.calls == 1


class Stateful(torch.nn.Module):
    """Has a cache, a list and buffers that its calls change."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen, self.cache = torch.nn.BatchNorm1d(2), [], None
        self.register_buffer("keys", torch.zeros(4, 2))
        self.register_buffer("last", None)

    def forward(self, x):
        self.keys[len(self.seen)] = x[0]
        self.seen.append(x.mean().item())
        self.cache = x if self.cache is None else torch.cat([self.cache, x])
        self.last = x * 2
        return self.norm(x) + self.cache.mean() + self.keys.sum() + len(self.seen)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_buffers_and_attributes_of_modules_are_those_of_the_step(mode):
    module = Stateful()

    def loop():
        x = torch.randn(3, 2)
        with mode():
            for _ in range(4):
                x = module(x)
        return x

    [run] = record(loop)
    before = [tensor.clone() for tensor in module.state_dict().values()], [*module.seen], module.cache
    for step in range(4):
        fork = run.fork(step)
        assert_same_steps(run, fork)
        assert fork.flags == [] and not locked(run, step)
    assert all(map(torch.equal, module.state_dict().values(), before[0]))
    assert module.seen == before[1] and module.cache is before[2]
    assert not torch.equal(run.fork(2, x=1.0)[3].x.raw_tensor, run[3].x.raw_tensor)


def test_a_small_module_is_kept_with_its_run_and_a_large_one_is_not(monkeypatch):
    [run] = record(with_a_dead_module)
    gc.collect()
    assert rf.compare(run, run.fork(1), exact=True) and run.bytes >= 6 * 4
    monkeypatch.setattr(hidden_state, "LARGE", 8)
    rf.runs.clear()
    [run] = record(with_a_dead_module)
    gc.collect()
    with pytest.raises(LoopError, match="`model` cannot be had again: the Linear no longer exists"):
        run.fork(1)


class Shelf:
    """Has many parts, of which few change."""

    def __init__(self, count):
        self.items = [{"weight": number} for number in range(count)]

    def weight(self, number):
        return self.items[number]["weight"]

    def heavier(self, number, by):
        self.items[number]["weight"] += by


@pytest.mark.parametrize("changed_at", [{0}, {1}, {13}, {5, 6, 30}, {39}, {20, 39}, set()])
def test_an_object_with_many_parts_is_that_of_the_step_or_refused(changed_at):
    def loop():
        shelf, total = Shelf(300), 0
        for t in range(40):
            if t in changed_at:
                shelf.heavier(t, 100)
            total = total + sum(map(shelf.weight, range(300)))
        return total

    [run] = record(loop)
    forked = set()
    steps = {*range(0, 40, 4 if FACTOR <= 1 else 1), *(t + near for t in changed_at for near in (-1, 0, 1, 2))}
    for step in sorted(steps & {*range(40)}):
        try:
            fork = run.fork(step)
        except LoopError as error:
            assert "may have changed later" in str(error) and locked(run, step)
        else:
            assert not locked(run, step)
            forked.add(step)
            assert_same_steps(run, fork)
    assert forked >= steps & {*range(2 * max(changed_at) + 3 if changed_at else 0, 40)}


def make_heavier(items):
    items[0]["weight"] += 100


def test_a_list_that_may_have_changed_is_refused():
    def loop():
        items, total = Shelf(300).items, 0
        for t in range(40):
            if t == 13:
                make_heavier(items)
            total = total + items[0]["weight"]
            total = total + len(items)
        return total

    [run] = record(loop)
    with pytest.raises(LoopError, match="`items` cannot be had again: may have changed later"):
        run.fork(10)
    assert_same_steps(run, run.fork(35))


def test_a_dataset_in_an_object_is_compared_less_and_less_often(monkeypatch):
    compared = []
    same = values._same_parts
    monkeypatch.setattr(values, "_same_parts", lambda value, *more: compared.append(len(value)) or same(value, *more))

    def loop():
        shelf, total = Shelf(300), 0
        for t in range(200):
            total = total + shelf.weight(t % 100)
        return total

    [run] = record(loop)
    assert run.steps == 200 and 3 <= compared.count(300) <= 10


def test_a_bar_that_shows_the_loop_is_not_looked_into(monkeypatch):
    looked = []
    contents = hidden_state.contents_of
    monkeypatch.setattr(hidden_state, "contents_of", lambda value, part: looked.append(value) or contents(value, part))

    bar = tqdm(total=3, file=io.StringIO())

    def loop():
        shelf, x = Shelf(2), 0
        for _ in range(3):
            x += 1 + shelf.weight(1)
            bar.update()
        return x

    [run] = record(loop)
    assert_same_steps(run, run.fork(1))
    assert {type(value) for value in looked} == {Shelf}


def test_of_more_objects_than_are_kept_none_is_looked_at_again(monkeypatch):
    looked = []
    contents = hidden_state.contents_of
    monkeypatch.setattr(hidden_state, "contents_of", lambda value, part: looked.append(value) or contents(value, part))

    def loop():
        shelves, total = [Shelf(1) for _ in range(300)], torch.zeros(())
        for t in range(20):
            total = total + shelves[t].weight(0)
        return total

    [run] = record(loop)
    assert run.steps == 20 and len(looked) == hidden_state.MOST_OBJECTS


def test_too_many_objects_are_looked_at_ever_less_often(monkeypatch):
    looked = []
    contents = hidden_state.contents_of
    monkeypatch.setattr(hidden_state, "contents_of", lambda value, part: looked.append(value) or contents(value, part))

    class Node:
        def __init__(self, parent=None):
            self.parent, self.children = parent, []

    def loop():
        node = Node()
        for _ in range(400):
            child = Node(node)
            node.children.append(child)
            node = child
        return node

    [run] = record(loop)
    most = hidden_state.MOST_OBJECTS
    assert run.steps == 400 and len(looked) < most**2 // 2 + 12 * most  # one more at each step, up to the most


def test_a_fork_says_where_gradients_end():
    def loop():
        x = torch.ones(2, requires_grad=True)
        y = x * 3
        for _ in range(3):
            (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
            y = y * 2
        return gradient

    [run] = record(loop)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        run.fork(1)
    assert rf.runs[0].flags[-1] == "gradients end at step 1"


def test_methods_of_a_module_as_items_are_those_of_the_run():
    def loop():
        layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        x = torch.ones(2)
        for layer, act in zip(layers, [torch.tanh, torch.sin, torch.relu], strict=True):
            x = act(layer(x))
        return x

    [run] = record(loop)
    gc.collect()
    assert all(rf.compare(run, run.fork(step), exact=True) for step in range(3))


COUNTED = {"n": 0}


def count_up():
    COUNTED["n"] += 1
    return COUNTED["n"]


def with_a_global():
    y = 0
    for t in range(4):
        y = y + count_up() * t
    return y


class Counted:
    total = 0


def with_an_attribute_of_a_class():
    y, n, Counted.total = 1, 0, 0
    while n < 4:
        n = n + 1
        Counted.total += 1
        if Counted.total < 5:
            y = y + 1
    return y


def with_a_default_that_grows():
    def seen(x, items=[]):  # noqa: B006
        items.append(x)
        return len(items)

    y = 0
    for t in range(4):
        y = y + seen(t)
    return y


@pytest.mark.parametrize("loop", [with_a_global, with_an_attribute_of_a_class, with_a_default_that_grows])
@pytest.mark.parametrize("more", [{}, {"y": 3}, {"seed": 1}])
def test_a_fork_is_refused_where_its_steps_do_not_come_back(loop, more, monkeypatch):
    monkeypatch.setattr(fork, "SECONDS", 1000.0)  # however slow the machine is
    [run] = record(loop)
    with pytest.raises(LoopError, match=r"step \d does not come back as it was: (`y` differs|other lines run) at line"):
        run.fork(1, **more)
    assert len(rf.runs) == 1


def test_a_fork_with_a_clock_says_what_differs():
    def loop():
        y = 0
        for t in range(3):
            y = y + t
            now = time.perf_counter()
        return y, now

    [run] = record(loop)
    fork = run.fork(1)
    assert re.fullmatch(r"step 1 does not come back as it was: `now` differs at line \d+", fork.flags[0])
    assert fork[2].y.item() == 3


def test_a_loop_that_takes_long_is_not_run_twice_to_its_end(monkeypatch):
    monkeypatch.setattr(fork, "SECONDS", 0.0)
    ran = []

    def loop():
        y = 0
        for t in range(40):
            y = y + t
            ran.append(t)
        n = 0
        while n < 40:
            n = n + 1
            ran.append(n)
        return y

    [for_loop, while_loop] = sorted(record(loop), key=lambda run: run.source.first_line)
    ran.clear()
    assert for_loop.fork(30, y=1).steps == while_loop.fork(30, n=30).steps == 40
    assert not ran  # a list of its own
    with pytest.raises(LoopError, match="no variable 'z'"):
        for_loop.fork(1, z=1)


def test_an_else_of_a_loop_belongs_to_no_step_and_is_left_out():
    ran = []

    def loop():
        n = 0
        while n < 3:
            n = n + 1
        else:
            ran.append(1 / (3 - n))

    with pytest.raises(ZeroDivisionError):
        record(loop)
    run = rf.runs[0]
    assert run.failed is None and all(run.fork(step).steps == 3 for step in range(3))


def test_a_fork_that_cannot_be_recorded_is_an_error_and_no_run(monkeypatch):
    decode(torch.eye(3), 5)
    run, take = rf.runs["decoder"], FrameVariables.take
    monkeypatch.setattr(FrameVariables, "take", lambda *arguments: 1 / 0)
    with pytest.warns(LoopWarning), pytest.raises(LoopError, match="could not be recorded: ZeroDivisionError"):
        run.fork(2)
    assert len(rf.runs) == 1
    monkeypatch.setattr(FrameVariables, "take", take)
    assert_same_steps(run, run.fork(2))


def test_a_rerun_of_a_plain_loop_names_the_fork():
    decode(torch.eye(3), 2)
    with pytest.raises(LoopError, match=r"rerun: decoder is plain Python code.*not its call") as error:
        rf.runs["decoder"].rerun(lambda: decode(torch.eye(3), 2))
    assert "run.fork(0)" in error.value.hint


def test_a_fork_in_inference_mode_is_that_outside_of_it():
    def loop():
        x, rows = torch.ones(2), torch.zeros(3, 2)
        for t in range(3):
            x.add_(1)
            rows[t] = x
        return rows

    [run] = record(loop)
    with torch.inference_mode():
        assert_same_steps(run, run.fork(1))
        fork = run.fork(1, x=5.0)
    assert fork[2].x.raw_tensor.tolist() == [7.0, 7.0]


def test_a_fork_compares_and_counts_the_parts_of_a_list_that_grows_once(monkeypatch):
    def loop():
        outs = []
        for t in range(80):
            outs.append(torch.full((25,), float(t)))
        return outs

    [run] = record(loop)
    compared, compare = [], iterations.is_equal
    monkeypatch.setattr(iterations, "is_equal", lambda *values: compared.append(values) or compare(*values))
    fork = run.fork(10)
    assert 70 < len(compared) < 600
    assert fork.bytes <= 2 * 80 * 100  # those of the run, and its own
