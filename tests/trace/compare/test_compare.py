"""Two runs: what is the same agrees, and what differs first is named, with its numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import LoopError, ParameterError
from rfnb.trace.compare import compare
from rfnb.trace.compare.compare import Tolerance
from rfnb.trace.compare.match import match_dims
from tests.examples import examples

NAN = float("nan")
ROWS = [[1.0, 5.0, 2.0], [2.0], [3.0, 3.0]]


@pytest.fixture(autouse=True)
def unrecorded():
    yield
    rf.runs.clear()


def sums(rows=ROWS, *, tags=None, dtype="float32", scale=1.0, start=0.0, name="sum"):
    """h is the sum of the scaled frames so far. Each run has its own dim `time`."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=tags, dtype=dtype)
    loop = rf.Loop(axis=time, name=name, debug=True)
    loop.state.h = rf.full(dims=[batch_dim], fill_value=start, dtype=dtype)
    with loop:
        x_t = loop.unstack(x)
        scaled = x_t * scale
        h = loop.state.h + scaled
        loop.state.h = h
    return loop.run


def line_of(run, text):
    return run.source.first_line + next(i for i, line in enumerate(run.source.lines) if text in line)


def names(comparison):
    return [value.name for value in comparison.differing]


def test_not_a_number_in_both_is_equal_and_told():
    rows = [[1.0, NAN, 2.0], [2.0], [3.0, 3.0]]
    compared = rf.compare(sums(rows), sums(rows))
    assert compared
    assert "h: NaN in both runs, first at step 1" in compared.notes
    assert rf.compare(sums(rows), sums()).notes == []


def test_the_same_twice():
    found = rf.compare(sums(), sums(), exact=True)
    assert found
    assert found.agree
    assert found.first is None
    assert {value.name for value in found.values} == {"x_t", "scaled", "h", "state h"}
    assert (found.only_a, found.only_b, found.notes) == ([], [], [])


def test_what_differs_first_is_what_is_computed_first():
    a, b = sums(tags=["a", "b", "c"]), sums([[1.0, 5.0, 2.5], [2.0], [3.0, 4.0]], tags=["a", "b", "c"], scale=1.0)
    found = rf.compare(a, b)
    assert not found
    assert names(found) == ["x_t", "scaled", "h", "state h"]
    first = found.first
    assert (first.name, first.step, first.a, first.b, first.where) == ("x_t", 1, 3.0, 4.0, "batch 'c'")
    assert (first.difference, first.largest, first.steps) == (1.0, 1.0, 2)
    assert first.line == (line_of(a, "x_t ="), line_of(b, "x_t ="))
    assert found.values[0].name == "state h"  # compared from the start on


def test_a_state_that_starts_elsewhere():
    found = rf.compare(sums(), sums(start=1.0))
    assert (found.first.name, found.first.step, found.first.a, found.first.b) == ("state h", -1, 0.0, 1.0)
    assert names(found) == ["state h", "h"]
    assert "first state h before the first step" in repr(found)
    assert "step 0  at the start: 0 and 1 at batch 0 · Δ 1 · 3 steps differ" in repr(found)


# -- which sequences


def test_sequences_are_matched_by_tags():
    a = sums(tags=["a", "b", "c"])
    b = sums([ROWS[2], ROWS[0]], tags=["c", "a"])
    found = rf.compare(a, b)
    assert found
    assert found.notes == ["only in the first: 'b'"]
    assert not rf.compare(a, sums([ROWS[0], ROWS[2]], tags=["c", "a"]))
    with pytest.raises(LoopError, match="no sequence in common"):
        rf.compare(a, sums([ROWS[0]], tags=["z"]))


@pytest.mark.parametrize("sequence", [0, 1, 2, "a", "c"])
def test_batched_against_single(sequence):
    number = sequence if isinstance(sequence, int) else "abc".index(sequence)
    batched, single = sums(tags=["a", "b", "c"]), sums([ROWS[number]])
    assert rf.compare(batched, single, sequence=sequence)
    assert rf.compare(single, batched, sequence=sequence)
    other = sums([ROWS[(number + 1) % 3]])
    assert not rf.compare(batched, other, sequence=sequence)


def test_one_sequence_of_each():
    a, b = sums(), sums([[9.0, 9.0], ROWS[1], ROWS[2]])
    assert not rf.compare(a, b)
    assert not rf.compare(a, b, sequence=0)
    assert rf.compare(a, b, sequence=1)
    assert rf.compare(a, b, sequence=-1)


def test_without_the_dim_of_sequences():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(ROWS[0], dims=[time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([])
    with loop:
        x_t = loop.unstack(x)
        h = loop.state.h + x_t * 1.0
        loop.state.h = h
    found = rf.compare(sums(), loop.run, sequence=0)
    assert found.agree
    assert "scaled" in found.only_a


def test_which_sequence_is_meant_has_to_be_clear():
    with pytest.raises(LoopError, match="cannot be matched"):
        rf.compare(sums(), sums([ROWS[0]]))
    with pytest.raises(LoopError, match="no sequence 7"):
        rf.compare(sums(), sums([ROWS[0]]), sequence=7)
    with pytest.raises(LoopError, match="did you mean 'banana'"):
        rf.compare(sums([ROWS[0], ROWS[1]], tags=["banana", "b"]), sums([ROWS[0]]), sequence="bananas")


def test_numbers_of_steps():
    found = rf.compare(sums(), sums([[1.0, 5.0], [2.0], [3.0, 3.0]]))
    assert not found
    assert found.first is None
    assert found.notes == ["sequence 0: 3 and 2 steps"]
    assert "all 4 values agree, but not the number of steps" in repr(found)


# -- what does not count


def test_what_is_behind_the_end_does_not_count():
    def run(left):
        time = rf.Dim(None, name="time")
        x = rf.convert_to_tensor(ROWS, dims=[batch_dim, time])
        limit = rf.convert_to_tensor(left, dims=[batch_dim])
        loop = rf.Loop(axis=time, debug=True)
        loop.state.h = rf.zeros([batch_dim])
        with loop:
            late = rf.where(loop.iter_idx >= limit, 99.0, loop.unstack(x))
            loop.state.h = loop.state.h + late
        return loop.run

    assert rf.compare(run([9, 9, 9]), run([3, 1, 2]), exact=True)
    assert rf.compare(run([9, 9, 9]), run([3, 1, 1])).first.step == 1


def attended(lengths, *, order=0, noise=0.0):
    """A decoder of 2 steps that attends to padded keys."""
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(2, name="feat")
    g = torch.Generator().manual_seed(1)
    raw = torch.randn(3, 6, 2, generator=g)[: len(lengths), : max(lengths)]
    keys = rf.convert_to_tensor(
        raw, dims=[batch_dim, enc, feat], lengths=lengths, tags=[f"s{i}" for i in range(len(lengths))]
    )
    loop = rf.Loop(max_seq_len=2, axis=rf.Dim(None, name="out"), debug=True)
    loop.state.h = rf.zeros([batch_dim, feat] if order == 0 else [feat, batch_dim])
    with loop:
        energy = rf.matmul(loop.state.h + 0.5, keys, reduce=feat)
        att = rf.softmax(energy + noise, axis=enc)
        loop.state.h = rf.matmul(att, keys, reduce=enc).copy_transpose(loop.state.h.dims)
    return loop.run


def test_dims_in_another_order_and_padding_of_another_length():
    assert rf.compare(attended([4, 2, 6]), attended([4, 2, 6], order=1))
    assert rf.compare(attended([4, 2, 6]), attended([4, 2]))  # padded to 6 and to 4


def test_lengths_that_differ_are_told():
    found = rf.compare(attended([4, 2]), attended([4, 3]))
    by_name = {value.name: value for value in found.values}
    assert by_name["att"].note == "the lengths differ"
    assert not by_name["att"].agree
    assert found.first.name == "att"


# -- names and dims


def test_after_an_edit():
    """Lines moved, a variable came, another went; the rest is still matched by name."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(ROWS, dims=[batch_dim, time])
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.h = rf.zeros([batch_dim])
    with loop:
        # a new comment
        helper = loop.state.h + 0.0

        x_t = loop.unstack(x)
        h = helper + x_t
        loop.state.h = h
    a, b = sums(), loop.run
    found = rf.compare(a, b)
    assert found.agree
    assert (found.only_a, found.only_b) == (["scaled"], ["helper"])
    lines = {value.name: value.line for value in found.values}
    assert lines["h"] == (line_of(a, "h = loop"), line_of(b, "h = helper"))


def twice(first, second, *, more=False):
    loop = rf.Loop(max_seq_len=1, debug=True)
    loop.state.x = rf.ones([])
    with loop:
        y = loop.state.x * first
        if more:
            y = y * 1.0
        y = y + second
        loop.state.x = y
    return loop.run


def test_one_name_several_times():
    found = rf.compare(twice(2.0, 3.0), twice(2.0, 4.0))
    assert (found.first.name, found.first.a, found.first.b) == ("y", 5.0, 6.0)
    assert [value.name for value in found.values if not value.agree] == ["state x", "y"]
    found = rf.compare(twice(2.0, 3.0), twice(2.0, 3.0, more=True))
    assert found.agree  # by the line, the last is matched with the last
    assert found.only_b == ["y"]


def test_inside_of_modules():
    class Cell(rf.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __call__(self, x):
            y = rf.tanh(x)
            z = y * self.inner
            return z * 0.0

    def run(inner):
        cell = Cell(inner)
        loop = rf.Loop(max_seq_len=2, debug=True)
        loop.state.x = rf.ones([])
        with loop:
            loop.state.x = loop.state.x + cell(loop.state.x)
        return loop.run

    found = rf.compare(run(1.0), run(2.0))
    assert names(found) == ["Cell.z"]
    assert found.first.step == 0


def searched(beams, offset=0.0):
    beam, feat = rf.Dim(beams, name="beam"), rf.Dim(2, name="feat")
    loop = rf.Loop(max_seq_len=2, axis=rf.Dim(None, name="out"), debug=True)
    start = rf.convert_to_tensor([[1.0, 2.0], [3.0, 4.0]], dims=[batch_dim, feat])
    step = start
    if beams:
        step = rf.combine_bc(start, "add", rf.cast(rf.range_over_dim(beam), "float32") * offset)
    loop.state.h = rf.zeros_like(step)
    with loop:
        x = step * 1.0
        loop.state.h = loop.state.h + x
        total = rf.reduce_sum(start, axis=feat)
        _ = total
    return loop.run


def test_a_dim_that_only_one_run_has():
    train, search = searched(0), searched(3, offset=1.0)
    found = rf.compare(train, search)
    notes = {value.name: value.note for value in found.values}
    assert notes["x"] == notes["state h"] == "the second also has beam"
    assert notes["total"] == ""
    assert not found
    assert found.first is None
    assert rf.compare(train, search, select={"beam": 0})
    assert rf.compare(search, train, select={"beam": 0})
    assert rf.compare(train, search, select={"beam": -3})
    assert rf.compare(train, search, select={"beam": 2}).first.difference == 2.0
    assert rf.compare(train, searched(1))  # a beam of one is none
    with pytest.raises(LoopError, match="no beam 3"):
        rf.compare(train, search, select={"beam": 3})


def test_sizes_that_do_not_fit():
    def run(size):
        feat = rf.Dim(size, name="feat")
        loop = rf.Loop(max_seq_len=1, debug=True)
        loop.state.x = rf.zeros([feat])
        with loop:
            loop.state.x = loop.state.x + 1.0
        return loop.run

    found = rf.compare(run(2), run(3))
    assert found.values[0].note == "feat has size 2 and 3"
    assert not found
    assert "cannot be compared" in repr(found)


def test_nothing_in_common_is_no_agreement():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.other = rf.ones([])
    with loop:
        loop.state.other = loop.state.other + 1.0
    found = rf.compare(sums(), loop.run, sequence=0)
    assert not found
    assert "no value has the same name" in repr(found)


def test_an_axis_that_grows():
    def run(value):
        loop = rf.Loop(max_seq_len=3, debug=True)
        loop.state.hist = rf.Dim(0, name="hist")
        loop.state.seen = rf.zeros([loop.state.hist])
        with loop:
            frame = rf.where(loop.iter_idx >= 1, value, 1.0)
            loop.state.seen, loop.state.hist = rf.cum_concat_step(
                frame, prev_accum=loop.state.seen, axis=loop.state.hist
            )
        return loop.run

    assert rf.compare(run(1.0), run(1.0), exact=True)
    found = rf.compare(run(1.0), run(2.0))
    assert names(found)[0] == "frame"
    assert {value.name: value.steps for value in found.differing}["state seen"] == 2


# -- how far apart


@pytest.mark.parametrize(
    ("dtype", "same", "other"),
    [("float64", 1e-11, 1e-7), ("float32", 1e-7, 1e-4), ("bfloat16", 1e-3, 0.1), ("float16", 1e-3, 0.1)],
)
def test_tolerance_goes_by_the_type(dtype, same, other):
    a = sums([[1.0, 100.0]], dtype=dtype)
    assert rf.compare(a, sums([[1.0, 100.0]], dtype=dtype, scale=1 + same))
    assert not rf.compare(a, sums([[1.0, 100.0]], dtype=dtype, scale=1 + other))


def test_tolerance_is_relative_to_the_largest():
    a, b = sums([[1e-6, 1.0], [1.0, 1.0]]), sums([[2e-6, 1.0], [1.0, 1.0]])
    assert rf.compare(a, b)
    assert not rf.compare(a, b, exact=True)
    assert not rf.compare(a, b, rtol=0, atol=0)
    assert not rf.compare(a, b, rtol=1e-7, atol=0)
    assert rf.compare(sums(scale=1.0), sums(scale=1.4), rtol=0.5)
    assert rf.compare(sums(scale=1.0), sums(scale=1.4), rtol=0, atol=99)
    assert not rf.compare(sums([[1e-9]]), sums([[3e-9]]), atol=0)


def test_mixed_types_are_compared_as_the_coarser():
    a, b = sums([[1.001, 1.0]], dtype="float32"), sums([[1.001, 1.0]], dtype="bfloat16")
    assert rf.compare(a, b)
    assert rf.compare(a, b).notes == ["float32 and bfloat16: the tolerance is that of the less precise dtype"]
    assert not rf.compare(a, a).notes
    assert not rf.compare(a, b, exact=True)


def labels(numbers, vocab=None):
    time = rf.Dim(None, name="time")
    phone = rf.Dim(None if vocab else 5, name="phone", vocab=vocab)
    x = rf.convert_to_tensor([numbers], dims=[batch_dim, time], sparse_dim=phone, dtype="int32")
    loop = rf.Loop(axis=time, debug=True)
    loop.state.n = rf.zeros([batch_dim], dtype="int64")
    with loop:
        label = loop.unstack(x)  # noqa: F841
        loop.state.n = loop.state.n + 1
    return loop.run


def test_labels_are_the_same_or_not():
    found = rf.compare(labels([0, 1, 2], ["sil", "AH", "B"]), labels([0, 2, 2], ["sil", "AH", "B"]), rtol=9.0)
    assert (found.first.step, found.first.a, found.first.b) == (1, "AH", "B")
    assert "'AH' and 'B' at batch 0" in repr(found)
    assert (rf.compare(labels([3]), labels([4])).first.a, rf.compare(labels([3]), labels([3])).agree) == (3, True)


@pytest.mark.parametrize(
    ("a", "b", "agree", "exact"),
    [
        ([NAN], [NAN], True, True),
        ([NAN], [1.0], False, False),
        ([math.inf], [math.inf], True, True),
        ([math.inf], [-math.inf], False, False),
        ([math.inf], [1.0], False, False),
        ([0.0], [-0.0], True, False),
        ([1.0, NAN], [1.0, NAN], True, True),
    ],
)
def test_odd_numbers(a, b, agree, exact):
    def run(rows):
        loop = rf.Loop(max_seq_len=1, debug=True)
        feat = rf.Dim(len(rows), name="feat")
        x = rf.convert_to_tensor(rows, dims=[feat])
        loop.state.n = rf.zeros([])
        with loop:
            y = rf.identity(x) * 1.0  # noqa: F841
            loop.state.n = loop.state.n + 1.0
        return loop.run

    assert rf.compare(run(a), run(b)).agree is agree
    assert rf.compare(run(a), run(b), exact=True).agree is exact


# -- short, empty and broken runs


def test_runs_without_steps():
    def run(start):
        return sums(np.zeros((2, 0)), start=start)

    assert rf.compare(run(0.0), run(0.0))
    assert rf.compare(run(0.0), run(1.0)).first.step == -1
    found = rf.compare(run(0.0), sums([[1.0], [1.0]]))
    assert not found.same_steps
    assert len(found.notes) == 2


def test_a_sequence_without_steps():
    assert rf.compare(sums([[], [1.0, 2.0]]), sums([[], [1.0, 2.0]]))
    assert rf.compare(sums([[], [1.0, 2.0]]), sums([[]], tags=None), sequence=0)


@pytest.mark.slow
def test_a_run_that_failed():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(ROWS, dims=[batch_dim, time])
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.h = rf.zeros([batch_dim])

    def check(raw):
        assert raw[0] < 4.0
        return raw

    with pytest.raises(AssertionError), loop:
        x_t = loop.unstack(x)
        scaled = rf.raw_call(check, x_t, out_dims=[batch_dim])
        h = loop.state.h + scaled
        loop.state.h = h
    found = rf.compare(sums(), loop.run)
    assert found.first is None
    assert found.notes == ["sequence 0: 3 and 1 steps", "sequence 2: 2 and 1 steps"]


@examples(25)
@given(st.data())
def test_the_frame_that_was_changed_is_found(data):
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any))
    rows = [[float(10 * b + t) for t in range(n)] for b, n in enumerate(lengths)]
    b = data.draw(st.sampled_from([b for b, n in enumerate(lengths) if n]))
    t = data.draw(st.integers(0, lengths[b] - 1))
    changed = [list(row) for row in rows]
    changed[b][t] += 1.0
    order = data.draw(st.permutations(range(len(rows))))
    tags = [f"s{i}" for i in range(len(rows))]
    found = rf.compare(sums(rows, tags=tags), sums([changed[i] for i in order], tags=[tags[i] for i in order]))
    first = found.first
    assert (first.name, first.step, first.where, first.steps) == ("x_t", t, f"batch 's{b}'", 1)
    assert (first.a, first.b) == (rows[b][t], changed[b][t])
    assert {value.name: value.steps for value in found.differing}["h"] == lengths[b] - t


@examples(15)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.data())
def test_each_sequence_alone_agrees_with_the_batch(lengths, data):
    rows = [[float(b + t) for t in range(n)] for b, n in enumerate(lengths)]
    b = data.draw(st.integers(0, len(rows) - 1))
    assert rf.compare(sums(rows), sums([rows[b]]), sequence=b)


# -- how it is asked for, and shown


def test_the_op_of_the_same_name_is_as_it_was():
    x = rf.convert_to_tensor([1.0, 2.0], dims=[rf.Dim(2, name="feat")])
    assert rf.compare(x, ">", 1.5).tolist() == [False, True]
    assert rf.compare(a=x, kind="equal", b=x).tolist() == [True, True]


@pytest.mark.parametrize("other", [3, None, "equal", "x"])
def test_a_run_is_compared_with_a_run(other):
    with pytest.raises(LoopError, match="another run"):
        rf.compare(sums(), other)
    if other is not None:
        with pytest.raises(LoopError, match="another run"):
            rf.compare(other, sums())


def told():
    """The same words in each process: the serial numbers of runs are not."""
    a = sums(tags=["<b>", "b", "c"], name="<i>")
    found = rf.compare(a, sums([[1.0, 5.0, 2.5, 1.0], [2.0], [3.0, 4.0]], tags=["<b>", "b", "c"], name="<i>"))
    found.only_a, found.only_b = ["old"], ["<new>"]
    found.a, found.b, found.serials = "<i>, run 1", "<i>, run 2", (1, 2)
    first = line_of(a, "x_t =")
    for value in found.values:
        value.line = tuple(None if line is None else line - first + 1 for line in value.line)
    return found


def test_text(golden):
    golden("comparison.txt", repr(told()) + "\n")


def pictures(raws):
    """The titles of the pictures of two loops that differ in a value."""

    def run(raw):
        for _ in rf.steps(range(1), name="loop"):
            value = raw
        assert value is raw
        return rf.runs["loop"]

    view = rf.show(rf.compare(*map(run, raws)))
    return [picture["title"].partition("run ")[0] for picture in view.data["first"]["pictures"]]


def test_pictures_say_how_far_apart_numbers_are_and_where_others_differ():
    numbers = torch.tensor([1.0, 2.0])
    assert pictures([numbers, numbers + 1.0]) == ["", "", "|Δ| up to 1"]
    assert pictures([numbers, numbers.log() / 0.0]) == ["", "", "|Δ| up to inf"]
    assert pictures([numbers > 1.5, numbers > 0.0]) == ["where they differ"]
    assert pictures([numbers[:1], numbers[1:]]) == []


def test_html_escapes_names():
    html = told()._repr_mimebundle_()["text/html"]
    assert "<i>" not in html
    assert "<new>" not in html


def test_dims_are_matched_only_where_it_is_clear():
    a, b, other = rf.Dim(2, name="a"), rf.Dim(2, name="b"), rf.Dim(2, name="a")
    assert match_dims([a, b], [b, other]) == {a: other, b: b}
    assert match_dims([a, other], [rf.Dim(2, name="a")]) == {}
    x, y = (rf.Dim(2, name=name, kind="spatial") for name in "xy")
    assert match_dims([x], [y, a]) == {x: y}
    assert match_dims([x], [y, rf.Dim(2, name="z", kind="spatial")]) == {}


def test_it_does_not_matter_which_steps_are_compared_at_once(monkeypatch):
    rows, others = [[1.0, 2.0, 3.0, 4.0, 5.0]], [[1.0, 2.0, 9.0, 4.5, 5.0]]
    whole = rf.compare(sums(rows), sums(others))
    assert (whole.first.step, whole.first.steps, whole.first.largest) == (2, 2, 6.0)

    def values(comparison):
        return [
            (v.name, v.step, v.place, v.a, v.b, v.where, v.difference, v.steps, v.largest) for v in comparison.values
        ]

    monkeypatch.setattr(compare, "HELD", 0)
    assert values(rf.compare(sums(rows), sums(others))) == values(whole)
    monkeypatch.undo()
    for period in (2, 3, 7, 11):
        turn = itertools.count()
        monkeypatch.setattr(compare, "_form", lambda value, array, turn=turn, period=period: next(turn) % period)
        assert values(rf.compare(sums(rows), sums(others))) == values(whole)


def test_only_entries_of_the_step_that_count_make_the_tolerance():
    a, b = np.array([[1.0, 1e9], [1e9, 1.0]]), np.array([[1.001, 1e9], [1e9, 1.001]])
    counts = np.array([[True, False], [True, True]])
    assert Tolerance().agree(a, b, counts, ["float32"]).tolist() == [[False, True], [True, True]]


def test_of_one_sequence_in_both_there_is_no_fourth():
    with pytest.raises(LoopError, match="sequence 3"):
        rf.compare(sums([[1.0]]), sums([[1.0]]), sequence=3)


def test_an_axis_that_is_longer_in_one_is_told():
    def run(numbers):
        letters = rf.Dim(None, name="letters")
        x = rf.convert_to_tensor(numbers, dims=[letters])
        loop = rf.Loop(max_seq_len=2, debug=True)
        loop.state.h = rf.zeros([])
        with loop:
            y = x * 2.0
            loop.state.h = loop.state.h + rf.reduce_max(y, axis=letters)
        return loop.run

    found = rf.compare(run([1.0, 3.0, 2.0]), run([1.0, 3.0]))
    assert {value.note for value in found.values if value.name == "y"} == {"the lengths differ"}
    assert not found


def test_a_dim_that_is_called_step_is_one_like_others():
    def run(numbers):
        step = rf.Dim(2, name="step")
        x = rf.convert_to_tensor(numbers, dims=[step])
        loop = rf.Loop(max_seq_len=3, debug=True)
        loop.state.h = rf.zeros([step])
        with loop:
            loop.state.h = loop.state.h + x
        return loop.run

    a, b = run([1.0, 2.0]), run([1.0, 5.0])
    assert rf.compare(a, b, select={"step": 0})
    assert rf.compare(a, b, select={"step": 1}).first.step == 0


def test_the_numbers_of_the_first_difference_are_kept_and_shown():
    a, b = sums(tags=["a", "b", "c"]), sums([[1.0, 5.0, 2.5], [2.0], [3.0, 4.0]], tags=["a", "b", "c"])
    found = rf.compare(a, b)
    kept = found.numbers
    assert (kept.a[kept.place], kept.b[kept.place], kept.owner) == (3.0, 4.0, 0)
    assert kept.counts.tolist() == [True, False, True]
    assert found.first.relative == pytest.approx(1 / 5)
    view = rf.show(found)
    first = view.data["first"]
    assert (first["name"], first["step"], first["where"], first["a"], first["b"]) == ("x_t", 1, "batch 'c'", "3", "4")
    assert [each["title"] for each in first["pictures"]] == [f"run {a.serial}", f"run {b.serial}", "|Δ| up to 1"]
    assert [each["text"] for each in first["pictures"]] == ["3", "4", "1"]
    assert "consequences (3)" in view.html
    assert [row["value"] for row in view.table()] == ["x_t", "scaled", "h", "state h"]


def test_of_numbers_without_axes_there_is_no_picture():
    def run(scale):
        loop = rf.Loop(max_seq_len=3, debug=True)
        loop.state.x = rf.convert_to_tensor(1.0)
        with loop:
            loop.state.x = loop.state.x * scale
        return loop.run

    view = rf.show(rf.compare(run(2.0), run(2.5)))
    assert view.data["first"]["pictures"] == []
    assert "|Δ| 0.5, 20 % of the largest" in view.text
    assert rf.show(rf.compare(run(2.0), run(2.0))).data["first"] is None


def test_many_differences_are_cut_in_the_text_and_complete_in_the_table():
    found = rf.compare(sums(), sums(scale=2.0))
    found.only_a = [f"v{i}" for i in range(100)]
    view = rf.show(found)
    assert len(view.text.splitlines()) < 50
    assert "… 63 more" in view.text
    assert "in one run only (100)" in view.html
    assert len(view.table()) == 103


def test_what_a_file_does_not_hold_is_said_once(tmp_path):
    feat = rf.Dim(3, name="feat")
    linear = rf.Linear(feat, feat)

    class Cell(rf.Module):
        def __call__(self, x, h):
            return rf.tanh(linear(x) + h)

    time, cell = rf.Dim(None, name="time"), Cell()
    x = rf.convert_to_tensor(np.ones((2, 3, 3), "float32"), dims=[batch_dim, time, feat])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        loop.state.h = cell(loop.unstack(x), loop.state.h)
    again = rf.load_run(loop.run.save(tmp_path / "x.rfrun"))
    for found, which, other in [
        (rf.compare(loop.run, again), "first", "second"),
        (rf.compare(again, loop.run), "second", "first"),
    ]:
        assert found.agree
        assert (found.only_a, found.only_b) == ([], [])
        [note] = found.notes
        assert (
            note
            == f"3 values inside modules and functions of the {which}: the file of the {other} does not contain them"
        )
    assert rf.compare(loop.run, loop.run).notes == []


def test_a_state_that_a_fork_edited_differs_before_the_step_of_the_fork():
    run = sums()
    found = rf.compare(run, run.fork(1, h=9.0))
    view = rf.show(found)
    assert (found.first.state, found.first.edited) == ("h", True)
    assert "first state h before step 1" in view.text.splitlines()[0]
    assert "step 0" not in view.text and "step 0" not in view.html
    row = view.data["differences"][0]
    assert (row["name"], row["value"], row["step"]) == ("state h", "h", 1)
    assert row["text"].startswith("before it: ")
    assert view.data["first"]["step"] == 1


def test_a_state_edited_before_the_first_step_differs_at_the_start():
    run = sums()
    view = rf.show(rf.compare(run, run.fork(0, h=9.0)))
    assert "first state h before the first step" in view.text
    assert view.data["differences"][0]["text"].startswith("at the start: ")
    without = {key: entry for key, entry in view.data["first"].items() if key != "edited"}
    assert type(view)({**view.data, "first": without}).text == view.text  # views of before have no such entry


@pytest.mark.parametrize("objects", [[torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)], [{}, {}]])
def test_objects_that_are_not_compared_are_named(objects):
    with pytest.raises(ParameterError, match="these objects cannot be compared") as error:
        rf.compare(*objects)
    assert error.value.got == f"{type(objects[0]).__name__} and {type(objects[1]).__name__}"
    with pytest.raises(ParameterError, match="how two tensors are compared"):
        rf.compare(torch.zeros(2), torch.zeros(2))
