"""The lines of a step: which did not run, and where loops inside of it begin."""

from __future__ import annotations

import sys

import rfnb as rf


def mixed(numbers):
    for n in rf.steps(numbers, name="mixed"):
        "a text, for which nothing runs"
        total = (
            n
            + 1
        )  # fmt: skip
        if n == 0:
            continue
        elif n == 1:
            total = 2
        else:  # neither
            total = 3
            for k in range(n):
                if k: total += k  # fmt: skip # noqa: E701
        try:
            1 / (n - 3)
            total = 4
        except ZeroDivisionError:
            total = 5
            break
        while total > n:
            total -= 10
    else:
        total = 6
    return total


def lines_of(name, function):
    """For each step, the lines that did not run and those of loops, counted from that of the function."""
    first = function.__code__.co_firstlineno
    run, found = rf.runs[name], []
    for step in range(run.steps):
        lines = run[step].lines()
        found.append(([line - first for line in lines.skipped], [line - first for line in lines.loops]))
    return found


def test_lines_that_did_not_run_are_known():
    mixed([0, 1, 2, 3])
    assert lines_of("mixed", mixed) == [
        ([9, 10, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22], []),
        ([8, 12, 13, 14, 19, 20], [21]),
        ([8, 10, 19, 20], [13, 21]),
        ([8, 10, 17, 21, 22], [13]),
    ]


def test_lines_are_those_that_a_tracer_sees():
    """A line of the loop that has code is skipped, or seen by `sys.settrace`."""
    seen, code = {}, mixed.__code__

    def trace(frame, event, argument):
        if frame.f_code is not code:
            return None
        if event == "line":
            seen.setdefault(frame.f_locals.get("n"), set()).add(frame.f_lineno)
        return trace

    mixed([2, 3])
    steps = [set(rf.runs["mixed"][step].lines().skipped) for step in range(2)]
    plain = mixed.__globals__["rf"].steps
    try:
        rf.steps = lambda items, name: items
        sys.settrace(trace)
        mixed([2, 3])
    finally:
        sys.settrace(None)
        rf.steps = plain
    for n, skipped in zip((2, 3), steps, strict=True):
        assert skipped and not skipped & seen[n]


def matched(items):
    total = 0
    for item in rf.steps(items, name="matched"):
        match item:
            case {"n": n, **others}:
                total = n + len(others) - 1
            case [*numbers] if numbers: total = len(numbers)  # fmt: skip # noqa: E701
            case _:
                total = total - 1
        try:
            total = total + 1 / len(item)
        except ZeroDivisionError: total = 7  # fmt: skip # noqa: E701
    return total


def test_of_a_match_the_cases_that_ran_and_their_names_are_known():
    matched([{"n": 3, "k": 2}, [1, 2], []])
    run, first = rf.runs["matched"], matched.__code__.co_firstlineno
    assert lines_of("matched", matched) == [([8], []), ([5, 8], []), ([5], [])]
    assigned = [[(value.name, value.line - first) for value in at.values() if value.name == "total"] for at in run]
    assert assigned == [[("total", 5), ("total", 10)], [("total", 6), ("total", 10)], [("total", 8), ("total", 11)]]
    assert run.states == ["total"] and run[0].eval("others") == {"k": 2} and run[1].eval("numbers") == [1, 2]


def test_inner_loops_and_runs_of_loops_know_their_lines():
    def nested():
        for i in rf.steps(range(2), name="outer"):
            for k in range(2):
                if k:
                    j = i
        return j

    nested()
    [inner] = rf.runs["outer"][0].loops()
    first = nested.__code__.co_firstlineno
    assert [[line - first for line in inner[k].lines().skipped] for k in range(2)] == [[4], []]
    time = rf.Dim(2, name="time")
    loop = rf.Loop(axis=time, debug=True)
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = loop.state.n + 1
    assert loop.run[0].lines() is None
