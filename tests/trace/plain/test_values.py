"""Values that are kept by reference: what changes where no line shows it, beside a list of what was there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import RfError
from rfnb.trace.plain import values


def change(items, key, value):
    items[key] = value
    return items


def grow(items, value):
    items.append(value)


def assert_right_or_marked(run, name, expected):
    """At each step the value is the expected one, or there is a mark; how many are right."""
    count = 0
    for step, value in enumerate(expected):
        try:
            seen = run[step].eval(name)
        except RfError as error:
            assert "may have changed later" in str(error) or "no value" in str(error)
        else:
            assert seen == value, (step, seen, value)
            count += 1
    return count


@dataclass
class Node:
    """An object with parts."""

    inside: list[object]


def test_objects_behind_too_many_parts_do_not_end_the_recording(monkeypatch):
    monkeypatch.setattr(values, "MOST_PARTS", 5)
    nodes = (Node([[t] for t in range(9)]), Node([]))
    for t in rf.steps(range(2), name="nodes"):
        grow(nodes[1].inside, t)
    assert [rf.runs["nodes"][step].eval("t") for step in range(2)] == [0, 1]


def test_none_is_not_an_object_that_no_longer_exists():
    places = [torch.zeros(2) for _ in range(20)]
    expected = []
    for t in rf.steps(range(4), name="none"):
        a = np.ones(2) if t < 2 else None
        places[t] = None
        count = len(places)
        expected.append((a is None, sum(place is None for place in places)))
    run = rf.runs["none"]
    assert count == 20 and run.steps == 4 and run.find("a is None") == [2, 3]
    for step, (is_none, empty) in enumerate(expected):
        assert run[step].eval("a is None") is is_none
        assert sum(run[step].eval(f"places[{place}] is None") for place in range(20)) == empty


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_a_change_that_is_undone_is_seen_in_containers_of_numbers(kind):
    items = [0] * 100 if kind == "list" else dict.fromkeys(range(100), 0)
    expected, total = [], 0
    for t in rf.steps(range(120), name="flip"):
        total += items[0]
        if t in (50, 53, 90, 91):
            change(items, 0, 0 if items[0] else -1)
        expected.append(items[0])
    run = rf.runs["flip"]
    assert assert_right_or_marked(run, "items[0]", expected) == 120
    assert run.find("items[0] == -1") == [50, 51, 52, 90] and run.fork(51)[119].total.item() == total


def test_parts_of_a_long_dict_that_is_assigned_again_are_of_the_step():
    d, expected = {f"k{number}": [0] for number in range(300)}, []
    for t in rf.steps(range(60), name="again"):
        d = change(d, "k3", [t]) if t % 7 == 0 else d
        expected.append(d["k3"][0])
    run = rf.runs["again"]
    for step, value in enumerate(expected):  # there is no row where the value is marked
        assert all(row.tensor.raw_tensor.item() == value for row in run[step].values() if row.name == "d.k3")
    assert assert_right_or_marked(run, "d['k3'][0]", expected) >= 4


def test_a_line_that_assigns_a_container_again_compares_it_each_time():
    d = {f"k{number}": [0] for number in range(100)}
    for t in rf.steps(range(60), name="assigned"):
        d = change(d, "k3", [t - t % 7])
    assert assert_right_or_marked(rf.runs["assigned"], "d['k3'][0]", [t - t % 7 for t in range(60)]) == 60


def test_a_list_that_grows_and_is_changed_is_right_or_marked_in_a_file_too(tmp_path):
    words, expected = [["s"]] * 300, []
    for t in rf.steps(range(90), name="words"):
        if t < 20 or t % 10 == 0:
            grow(words, [str(t)])
        if t >= 20 and t % 7 == 0:
            change(words, -1, [f"t{t}"])
        expected.append(words[-1][0])
    run = rf.runs["words"]
    loaded = rf.load_run(run.save(tmp_path / "words.rfrun"))
    right = [assert_right_or_marked(it, "words[-1][0]", expected) for it in (run, loaded)]
    assert right[0] == right[1] < 90  # some are marked, in the file too


@pytest.mark.parametrize("make", [float, lambda number: torch.tensor(float(number))], ids=["numbers", "tensors"])
def test_a_list_that_grows_shows_items_that_functions_replace(make):
    items, expected, total = [make(number) for number in range(30)], [], 0
    for t in rf.steps(range(80), name="replaced"):
        items.append(make(t))
        if t % 4 == 3:
            change(items, 3, None)  # what was there is gone, and the next one may be where it was
            change(items, 3, make(-t))
        if t % 20 == 10:
            items.pop()
        total = total + t
        expected.append((float(items[3]), float(items[-1])))
    run = rf.runs["replaced"]
    assert [(run[t].eval("items[3]"), run[t].eval("items[-1]")) for t in range(80)] == expected


def grown(items, item):
    """What the values of a list share, which has one more item."""
    first = values.keep(items)
    items.append(item)
    return values.growth_of(values.keep(items, before=first))


def test_a_list_is_known_by_addresses_only_while_the_objects_there_live(monkeypatch):
    items = [torch.zeros(2) for _ in range(20)]
    growth = grown(items, torch.zeros(2))
    assert growth.begins(items, 21)
    monkeypatch.setattr(values, "places_in", lambda value, length: growth._places[: 8 * length])
    items[3] = torch.ones(2)  # as if it were where the other one was
    assert not growth.begins(items, 21)


def test_a_list_is_not_known_by_addresses_of_numbers_that_are_not_kept():
    items = [float(number) for number in range(20)]
    assert grown(items, 0.5).begins(items, 21)
    first, items[3] = values.keep(items), float("3")
    items.append(0.5)
    assert not values.growth_of(values.keep(items, before=first)).begins(items, 22)


def test_a_list_that_only_grows_is_not_compared_part_by_part(monkeypatch):
    lengths = []
    compare = values._begins_with
    monkeypatch.setattr(
        values, "_begins_with", lambda items, *rest: lengths.append(len(items)) or compare(items, *rest)
    )
    numbers, tensors, others = [], [torch.zeros(2)] * 20, []
    for t in rf.steps(range(200), name="grown"):
        numbers.append(t)
        grow(tensors, torch.full((2,), float(t)))
        others += [torch.zeros(1)]
    run = rf.runs["grown"]
    assert len(lengths) < 100 and max(lengths, default=0) <= 21
    assert run.steps == 200 and run[150].eval("len(numbers), len(tensors), len(others)") == (151, 171, 151)
    assert run[7].eval("tensors[27][0]") == 7 and run[7].eval("numbers[7]") == 7


def test_large_tensors_of_inference_mode_in_a_list_are_those_of_the_step():
    with torch.inference_mode():
        x = [torch.zeros(50_000), 3]
        for t in rf.steps(range(5), name="inference"):
            change(x[0], 0, t + 1)
            n = len(x)
    run = rf.runs["inference"]
    assert n == 2 and [run[step].eval("x[0][0]") for step in range(5)] == [1, 2, 3, 4, 5]


@pytest.fixture
def compared(monkeypatch):
    """How many parts were compared, each time."""
    lengths, compare = [], values._begins_with
    monkeypatch.setattr(
        values, "_begins_with", lambda items, *rest: lengths.append(len(items)) or compare(items, *rest)
    )
    return lengths


@pytest.mark.parametrize("budget", [2**30, 20_000])
def test_a_growing_list_of_lists_costs_what_it_gets(compared, monkeypatch, budget):
    monkeypatch.setattr(rf.options, "trace_budget", budget)
    numbers, history = [], []
    for t in rf.steps(range(400), name="nested"):
        numbers.append(t)
        history.append([*numbers])
    assert sum(compared) < 40 * 400 * 200  # 400 times as many would be each of the parts at each step
    assert rf.runs["nested"][399].eval("len(history), history[7][-1]") == (400, 7)


@pytest.mark.parametrize(("steps", "times"), [(200, (150,)), (200, (30, 31)), (400, (90, 200, 201, 390))])
@pytest.mark.parametrize("wide", [1, 5])
def test_a_growing_list_of_lists_is_right_or_marked_when_one_changes(steps, times, wide):
    history, expected = [[0] * wide] * 4, []
    for t in rf.steps(range(4, steps), name="inside"):
        history.append([t] * wide)
        if t in times:
            change(history[3], 0, -t)
        expected.append((len(history), history[3][0], history[-1][0]))
    run = rf.runs["inside"]
    right = assert_right_or_marked(run, "len(history), history[3][0], history[-1][0]", expected)
    assert right >= steps - 1 - max(times)  # the steps after the last change, at least


def test_a_growing_list_that_is_inside_of_itself_again_is_exact():
    numbers, history, expected = [], [], []
    for t in rf.steps(range(90), name="aliased"):
        history.append(numbers)
        numbers.append(t)
        expected.append((len(history), len(history[0])))
    assert assert_right_or_marked(rf.runs["aliased"], "len(history), len(history[0])", expected) == 90


def test_a_line_that_grows_a_list_of_lists_may_change_it_too():
    def extend(items, t):
        items.append([t] * 20)
        if t % 50 == 49:
            items[0][0] = -t

    history, expected = [], []
    for t in rf.steps(range(200), name="both"):
        extend(history, t)
        expected.append((len(history), history[0][0]))
    assert assert_right_or_marked(rf.runs["both"], "len(history), history[0][0]", expected) >= 20


def test_a_list_that_only_grows_is_kept_beyond_the_parts_of_others(monkeypatch):
    monkeypatch.setattr(values, "MOST_PARTS", 40)
    history, mixed = [], []
    for t in rf.steps(range(100), name="long"):
        history.append(t / 2)
        mixed.append(None if t % 2 else [t])
    run = rf.runs["long"]
    assert run[90].eval("len(history), history[-1], len(mixed), mixed[-1]") == (91, 45, 91, [90])
    assert run.fork(90)[99].t.item() == 99 and run.fork(90).steps == 100
    with pytest.raises(RfError, match="more than 40 parts"):  # a fork has it from the beginning
        run.fork(90)[99].eval("len(history)")


def test_a_list_that_grows_beyond_the_most_parts_is_lost_with_a_note(monkeypatch):
    monkeypatch.setattr(values, "MOST_GROWN", 50)
    history = []
    for t in rf.steps(range(100), name="longer"):
        history.append(t)
    run = rf.runs["longer"]
    assert run[49].eval("len(history)") == 50
    with pytest.raises(RfError, match="parts, which are not kept"):
        run[50].eval("len(history)")
