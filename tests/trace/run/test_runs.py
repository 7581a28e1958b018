"""The list of runs: those of short loops are made when somebody looks."""

from __future__ import annotations

from threading import Thread

import pytest

import rfnb as rf
from rfnb.trace.run import runs as runs_module
from rfnb.trace.run.options import options
from rfnb.trace.run.runs import Runs


def loop(n):
    for i in range(n):
        x = i
    return x


def record(number):
    with rf.record_loops(loop):
        loop(number + 1)
    return rf.runs[0]


@pytest.fixture
def added():
    """A list of runs, and which of six of the same loop were made."""
    numbers, listed = [], Runs()

    def make(number):
        numbers.append(number)
        return made[number]

    made = [record(number) for number in range(6)]
    for number in range(6):
        listed.add_later("loop", 10, lambda number=number: make(number))
    return listed, numbers, made


def test_only_the_newest_are_made_and_in_order(added):
    listed, numbers, made = added
    assert numbers == []
    assert [*listed] == made[:-5:-1] and numbers == [2, 3, 4, 5]
    assert len(listed) == options.keep and numbers == [2, 3, 4, 5]


def test_a_run_that_is_added_comes_after_those_before(added):
    listed, _, made = added
    listed.add(made[0])
    assert listed[0] is made[0] and listed.bytes == sum(run.bytes for run in listed)


def test_none_is_made_after_clear(added):
    listed, numbers, _ = added
    listed.clear()
    assert len(listed) == 0 and numbers == []


def test_they_are_made_at_once_if_they_need_much_memory(added, monkeypatch):
    listed, numbers, made = added
    monkeypatch.setattr(options, "trace_budget", 45)
    listed.add_later("other", 10, lambda: made[0])
    assert numbers == [2, 3, 4, 5]


def test_the_list_is_as_if_it_had_been_looked_at():
    seen = []
    for is_looked_at in (False, True):
        rf.runs.clear()
        for number in range(7):
            with rf.record_loops(loop):
                loop(number + 1)
            assert not is_looked_at or len(rf.runs) == min(number + 1, options.keep)
        seen.append([(run.name, run.steps, run.flags, run.source.lines) for run in rf.runs])
    assert seen[0] == seen[1]


def test_observers_get_each_run():
    from rfnb.trace.run.session import observing_runs

    seen = []
    with observing_runs(seen.append):
        for number in range(6):
            with rf.record_loops(loop):
                loop(number + 1)
    assert [run.steps for run in seen] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_is_added_while_another_thread_looks_is_in_the_list(monkeypatch):
    listed, looking, made = Runs(), [], record(0)
    later = runs_module._Later

    def interrupted(*args):
        looking.append(Thread(target=len, args=(listed,)))
        looking[-1].start()
        looking[-1].join(0.2)  # which waits until the run is added
        return later(*args)

    monkeypatch.setattr(runs_module, "_Later", interrupted)
    listed.add_later("loop", 10, lambda: made)
    looking[0].join()
    assert [*listed] == [made]
