"""Awkward step programs: what is odd but meant works as in a Python loop; what has no meaning is refused in words."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import LoopError, TraceError


def batch(rows):
    time = rf.Dim(None, name="time")
    return rf.convert_to_tensor(rows, dims=[batch_dim, time]), time


def summing(x, time, **options):
    loop = rf.Loop(axis=time, **options)
    loop.state.s = rf.zeros([batch_dim])
    return loop


# -- how many steps


def test_an_axis_of_an_earlier_loop_says_nothing_of_this_one():
    axis = rf.Dim(None, name="out")
    for n in (2, 5, 3):
        loop = rf.Loop(max_seq_len=n, axis=axis)
        loop.state.s = rf.zeros([])
        with loop:
            loop.state.s = loop.state.s + 1.0
            out = loop.stack(loop.state.s)
        assert out.raw_tensor.tolist() == [float(i + 1) for i in range(n)]


def test_a_loop_over_an_axis_needs_no_unstack():
    _, time = batch([[1.0, 2.0, 3.0], [4.0]])
    loop = rf.Loop(axis=time)
    loop.state.n = rf.zeros([batch_dim])
    with loop:
        loop.state.n = loop.state.n + 1.0
    assert loop.state.n.raw_tensor.tolist() == [3.0, 1.0]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("unstacks", [False, True])
def test_a_loop_over_an_axis_that_an_op_made(ends, unstacks):
    x, time = batch([[1.0, 2.0, 3.0], [4.0, 0.0]])
    some, positive = rf.masked_select(x, mask=x > 1.0, dims=[time])
    loop = rf.Loop(axis=positive)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + (loop.unstack(some) if unstacks else 1.0)
        out = loop.stack(loop.state.s)
        if ends:
            loop.end(loop.state.s > 100.0, include_eos=True)
    assert loop.state.s.raw_tensor.tolist() == ([5.0, 4.0] if unstacks else [2.0, 1.0])
    assert out.size_of(positive).values.tolist() == positive.size.values.tolist() == [2, 1]


def test_a_loop_over_what_a_loop_stacked():
    steps = rf.Dim(None, name="steps")
    counting = rf.Loop(axis=steps, max_seq_len=rf.convert_to_tensor([3, 2], dims=[batch_dim]), name="counting")
    counting.state.n = rf.zeros([batch_dim])
    with counting:
        counting.state.n = counting.state.n + 1.0
        counts = counting.stack(counting.state.n)
    loop = summing(counts, steps)
    with loop:
        loop.state.s = loop.state.s + loop.unstack(counts)
    assert loop.state.s.raw_tensor.tolist() == [6.0, 3.0]


def test_an_end_before_the_data_ends():
    x, time = batch([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0]])
    loop = summing(x, time)
    with loop:
        frame = loop.unstack(x)
        loop.state.s = loop.state.s + frame
        loop.end(loop.state.s >= 3.0, include_eos=True)
        out = loop.stack(loop.state.s)
    assert loop.state.s.raw_tensor.tolist() == [3.0, 5.0]
    assert out.size_of(time).values.tolist() == [2, 1]
    assert time.size.values.tolist() == [4, 2], "the axis of the data is as it was"


def test_a_scalar_end_beside_lengths():
    x, time = batch([[1.0, 2.0, 3.0], [4.0]])
    loop = summing(x, time)
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
        loop.end(loop.iter_idx >= 1, include_eos=True)
    assert loop.state.s.raw_tensor.tolist() == [3.0, 4.0]


def test_a_static_axis_cannot_end_early():
    loop = rf.Loop(axis=rf.Dim(4, name="four"), max_seq_len=2)
    loop.state.s = rf.zeros([])
    with pytest.raises(LoopError, match="always has 4 frames"), loop:
        loop.state.s = loop.state.s + 1.0


def test_a_tensor_without_the_batch_along_a_ragged_axis():
    _, time = batch([[1.0, 2.0, 3.0], []])
    positions = rf.cast(rf.range_over_dim(time), "float32")
    loop = summing(positions, time)
    with loop:
        frame = loop.unstack(positions)
        loop.state.s = loop.state.s + frame
        out = loop.stack(frame)
    assert out.dims == (time,)
    assert out.raw_tensor.tolist() == [0.0, 1.0, 2.0]
    assert loop.state.s.raw_tensor.tolist() == [3.0, 0.0]


def test_unstacked_tensors_of_different_length():
    (x, time), (y, other) = batch([[1.0, 2.0], [3.0]]), batch([[1.0, 2.0], [3.0, 4.0]])
    loop = rf.Loop()
    with pytest.raises(rf.errors.DimRebound), loop:
        loop.unstack(x, axis=time) + loop.unstack(y, axis=other)


# -- states and last


def test_a_state_that_is_no_tensor():
    x, time = batch([[1.0, 2.0]])
    loop = summing(x, time)
    with pytest.raises(LoopError, match="'s' is not a Tensor"), loop:
        loop.unstack(x)
        loop.state.s = 0.0


def test_after_an_error_the_loop_is_as_before():
    x, time = batch([[1.0, 2.0]])
    loop = summing(x, time)
    with pytest.raises(ZeroDivisionError), loop:
        loop.state.s = loop.state.s + loop.unstack(x) + 1 / 0
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    assert loop.state.s.raw_tensor.tolist() == [3.0]


def test_last_of_the_state_before():
    x, time = batch([[1.0, 2.0, 4.0], []])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.ones([batch_dim])
    with loop:
        before = loop.last(loop.state.s)
        loop.state.s = loop.state.s + loop.unstack(x)
    assert before.raw_tensor.tolist() == [4.0, 1.0]


def test_last_of_a_value_that_is_no_state():
    x, time = batch([[1.0, 2.0, 4.0], [8.0]])
    loop = rf.Loop(axis=time)
    with loop:
        doubled = loop.last(loop.unstack(x) * 2.0)
    assert doubled.raw_tensor.tolist() == [8.0, 16.0]


def test_last_keeps_the_type_of_the_value_not_of_the_state():
    x, time = batch([[1.5, 2.5]])
    loop = rf.Loop(axis=time)
    loop.state.n = rf.zeros([batch_dim], dtype="float64")
    with pytest.warns(rf.errors.LoopWarning, match="is never read"), loop:
        value = loop.unstack(x) + 0.0
        loop.state.n = value
        last = loop.last(value)
    assert (last.dtype, loop.state.n.dtype) == ("float32", "float64")
    assert last.raw_tensor.tolist() == loop.state.n.raw_tensor.tolist() == [2.5]


def test_a_float_is_not_cut_off_in_an_integer_state():
    x, time = batch([[0.5, 0.5]])
    loop = rf.Loop(axis=time)
    loop.state.n = rf.zeros([batch_dim], dtype="int64")
    with pytest.raises(rf.errors.DtypeError, match='dtype="float32"'), loop:
        loop.state.n = loop.state.n + loop.unstack(x)


def test_a_forgotten_unstack():
    x, time = batch([[0.5, 0.5]])
    loop = summing(x, time)
    with pytest.raises(rf.errors.DimError, match="axis of the loop"), loop:
        loop.state.s = loop.state.s + x


def test_a_loop_over_an_earlier_batch_after_a_newer_one():
    x, time = batch([[1.0, 2.0], [3.0]])
    batch([[1.0]] * 5)
    loop = summing(x, time)
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    assert loop.state.s.raw_tensor.tolist() == [1.0 + 2.0, 3.0]


def test_what_is_of_another_batch_is_not_stacked():
    x, time = batch([[1.0, 2.0], [3.0]])
    batch([[1.0]] * 5)
    other = rf.zeros([batch_dim])
    loop = rf.Loop(axis=time)
    with pytest.raises(rf.errors.DimRebound), loop:
        loop.unstack(x)
        loop.stack(other * 1.0)


def test_one_tensor_as_two_states():
    x, time = batch([[1.0, 2.0]])
    zero = rf.zeros([batch_dim])
    loop = rf.Loop(axis=time)
    loop.state.a = loop.state.b = zero
    with loop:
        loop.state.a, loop.state.b = loop.state.b + 1.0, loop.state.a + loop.unstack(x)
    assert (loop.state.a.raw_tensor.tolist(), loop.state.b.raw_tensor.tolist()) == ([2.0], [3.0])


# -- what changes something, what draws, what is opaque


def test_a_parameter_that_the_body_changes():
    x, time = batch([[1.0, 2.0, 3.0]])
    counter = rf.Parameter([], initial=0.0, trainable=False)
    loop = summing(x, time)
    with loop:
        counter.assign_add(1.0)
        loop.state.s = loop.state.s + loop.unstack(x) * counter
    assert counter.raw_tensor.item() == 3.0
    assert loop.state.s.raw_tensor.tolist() == [1.0 + 2 * 2.0 + 3 * 3.0]


def test_a_raw_call_is_made_whether_or_not_it_is_needed():
    x, time = batch([[1.0, 2.0, 3.0]])
    outer, seen = rf.ones([]), []
    loop = summing(x, time)
    with loop:
        frame = loop.unstack(x)
        rf.raw_call(lambda raw: seen.append(raw.item()) or raw, frame, out_dims=[batch_dim])
        rf.raw_call(lambda raw: seen.append("outer") or raw + 1, outer, out_dims=[])
        loop.state.s = loop.state.s + frame
    assert seen == [1.0, "outer"] * 2 + [2.0, "outer", 3.0, "outer"]


def test_two_draws_in_one_step_differ():
    x, time = batch([[0.0, 0.0]])
    loop = rf.Loop(axis=time)
    with loop:
        loop.unstack(x)
        one, two = loop.stack(rf.random_normal([batch_dim])), loop.stack(rf.random_normal([batch_dim]))
    assert not torch.equal(one.raw_tensor, two.raw_tensor)


def test_random_numbers_of_torch_are_refused():
    x, time = batch([[0.0, 0.0]])
    with pytest.raises(TraceError, match=r"rf\.random_uniform"), rf.Loop(axis=time) as loop:
        loop.unstack(x)
        rf.convert_to_tensor(torch.rand(()), dims=[])


# -- axes that grow


def history(rows, use):
    x, time = batch(rows)
    loop = rf.Loop(axis=time)
    loop.state.axis = rf.Dim(0, name="history")
    loop.state.history = rf.zeros([batch_dim, loop.state.axis])
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        grown, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.history, axis=loop.state.axis)
        loop.state.history, loop.state.axis = grown, axis
        loop.state.s = loop.state.s + use(grown, axis)
    return loop


def test_a_grown_axis_has_the_length_of_each_sequence():
    loop = history([[1.0, 2.0, 3.0], [4.0]], lambda grown, axis: rf.reduce_sum(grown, axis=axis))
    total = rf.reduce_sum(loop.state.history, axis=loop.state.axis)
    assert total.raw_tensor.tolist() == [6.0, 4.0]
    assert loop.state.s.raw_tensor.tolist() == [1.0 + 3.0 + 6.0, 4.0]


def test_the_size_of_a_growing_axis_is_no_number():
    with pytest.raises(TraceError, match="differs at every step"):
        history([[1.0, 2.0]], lambda grown, axis: rf.reduce_sum(grown, axis=axis) / axis.get_dim_value())


def test_a_growing_axis_that_starts_ragged_is_refused():
    prompt, time = batch([[1.0, 2.0], [3.0]])
    loop = rf.Loop(max_seq_len=2)
    loop.state.axis = time
    loop.state.history = prompt
    with pytest.raises(LoopError, match="one length per sequence"), loop:
        pass


# -- loops in loops


def nested(rows, inside):
    x, time = batch(rows)
    outer = summing(x, time, name="outer")
    with outer:
        outer.state.s = outer.state.s + inside(outer, outer.unstack(x))
    return outer


def test_an_inner_loop_reads_what_differs_at_every_outer_step():
    def inside(outer, frame):
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.v = rf.zeros([batch_dim])
        with inner:
            inner.state.v = inner.state.v + frame * frame
        return inner.state.v

    assert nested([[1.0, 2.0, 3.0]], inside).state.s.raw_tensor.tolist() == [2 * (1.0 + 4.0 + 9.0)]


READS = {
    "iter_idx": (lambda loop, x: rf.cast(loop.iter_idx, "float32"), [0.0, 1.0, 2.0]),
    "unstack": (lambda loop, x: loop.unstack(x), [1.0, 2.0, 4.0]),
    "state": (lambda loop, x: loop.state.s, [0.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("early", [True, False], ids=["before", "in the inner body"])
@pytest.mark.parametrize("read", READS)
def test_what_an_inner_loop_reads_of_the_outer_one_is_of_this_step(read, early):
    x, time = batch([[1.0, 2.0, 4.0]])
    get, expected = READS[read]
    outer = summing(x, time)
    with outer:
        outer.state.s = outer.state.s + 1.0 if early else outer.state.s
        value = get(outer, x) if early else None
        inner = rf.Loop(max_seq_len=2)
        inner.state.v = rf.zeros([batch_dim])
        with inner:
            inner.state.v = inner.state.v + (value if early else get(outer, x))
        outer.state.s = outer.state.s if early else outer.state.s + 1.0
        out = outer.stack(inner.state.v)
    shift = 1.0 if early and read == "state" else 0.0
    assert out.raw_tensor[:, 0].tolist() == [2 * (value + shift) for value in expected]


@pytest.mark.parametrize("rows", [[[1.0, 2.0], [3.0]], [[], [3.0]], [[1.0, 2.0], [3.0, 4.0]]])
@pytest.mark.parametrize("differs", [False, True])
def test_an_inner_loop_over_sequences(rows, differs):
    y, inner_time = batch(rows)
    x, time = batch([[1.0, 2.0, 3.0], [4.0, 5.0]])
    outer = summing(x, time)
    with outer:
        frame = outer.unstack(x)
        source = y + frame if differs else y
        inner = rf.Loop(axis=inner_time)
        inner.state.v = outer.state.s
        with inner:
            inner.state.v = inner.state.v * 0.5 + frame * inner.unstack(source)
        outer.state.s = inner.state.v
    expected = [0.0, 0.0]
    for b, frames in enumerate([[1.0, 2.0, 3.0], [4.0, 5.0]]):
        for frame in frames:
            for value in rows[b]:
                expected[b] = expected[b] * 0.5 + frame * (value + frame if differs else value)
    assert outer.state.s.raw_tensor.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("what", ["stack", "last"])
def test_the_outer_loop_takes_no_value_of_the_inner_body(what):
    x, time = batch([[1.0, 2.0]])
    outer = summing(x, time, name="outer")
    with pytest.raises(LoopError, match=f"outer: {what} of a value of inner"), outer:
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.v = outer.unstack(x)
        with inner:
            inner.state.v = inner.state.v + 1.0
            getattr(outer, what)(inner.state.v)


def test_random_numbers_of_an_inner_loop_differ_per_outer_step():
    x, time = batch([[0.0, 0.0, 0.0]])
    outer = rf.Loop(axis=time)
    with outer:
        outer.unstack(x)
        inner = rf.Loop(max_seq_len=2)
        inner.state.v = rf.zeros([batch_dim])
        with inner:
            inner.state.v = inner.state.v + rf.random_normal([batch_dim])
        out = outer.stack(inner.state.v)
    assert len(set(out.raw_tensor.flatten().tolist())) == 3


def test_results_of_an_inner_loop_are_values_of_the_outer_body():
    def inside(outer, frame):
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.v = frame
        with inner:
            inner.state.v = inner.state.v * 2.0
            inner.stack(inner.state.v)
        with pytest.raises(TraceError):
            inner.state.v.raw_tensor  # noqa: B018
        return inner.state.v

    assert nested([[1.0, 2.0]], inside).state.s.raw_tensor.tolist() == [12.0]


def test_an_inner_loop_with_an_end():
    def inside(outer, frame):
        inner = rf.Loop(max_seq_len=9, name="inner")
        inner.state.v = frame
        with inner:
            inner.state.v = inner.state.v * 2.0
            inner.end(inner.state.v > 10.0, include_eos=True)
        return inner.state.v

    assert nested([[1.0, 3.0, 6.0]], inside).state.s.raw_tensor.tolist() == [16.0 + 12.0 + 12.0]


def test_an_inner_length_that_differs_per_outer_step_is_refused():
    def by_number(outer, frame):
        inner = rf.Loop(max_seq_len=outer.iter_idx + 1, name="inner")
        inner.state.v = frame
        with inner:
            inner.state.v = inner.state.v + 1.0
        return inner.state.v

    with pytest.raises(TraceError, match="differs at every step"):
        nested([[1.0, 2.0]], by_number)


# -- what a run holds


def test_a_parameter_as_initial_state_is_shown_as_it_was():
    x, time = batch([[1.0, 2.0]])
    start = rf.Parameter([], initial=1.0)
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = start
    with loop:
        loop.state.s = loop.state.s + rf.reduce_sum(loop.unstack(x), axis=batch_dim)
    start.assign(100.0)
    assert loop.run[0].before.s.raw_tensor.item() == 1.0
    assert loop.run[0].check == "replay agrees"


def test_an_optimizer_step_between_two_runs():
    x, time = batch([[1.0, 2.0]])
    weight = rf.Parameter([], initial=2.0)
    runs = []
    for _ in range(2):
        loop = summing(x, time, debug=True)
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x) * weight
        runs.append(loop.run)
        weight.assign_add(1.0)
    assert [run[1].s.raw_tensor.item() for run in runs] == [6.0, 9.0]


@pytest.mark.slow
def test_runs_that_are_gone_keep_no_parameters():
    x, time = batch([[1.0, 2.0]])

    def one_run():
        weight = rf.Parameter([], initial=2.0)
        loop = summing(x, time, debug=True)
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x) * weight
        return weakref.ref(weight.raw_tensor)

    dead = [one_run() for _ in range(3)]
    rf.runs.clear()
    gc.collect()
    assert [ref() for ref in dead] == [None] * 3


def test_the_byte_budget_drops_the_oldest_runs(monkeypatch):
    rf.runs.clear()
    monkeypatch.setattr(rf.options, "trace_budget", 0)
    x, time = batch([[1.0, 2.0]])
    for _ in range(3):
        loop = summing(x, time, debug=True)
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x)
    assert list(rf.runs) == [loop.run]
    rf.runs.clear()


def test_a_number_on_the_left():
    x, time = batch([[1.0, 2.0], [4.0]])
    loop = summing(x, time)
    with loop:
        loop.state.s = 0.5 * loop.state.s + (1 - loop.unstack(x))
    assert loop.state.s.raw_tensor.tolist() == [-1.0, -3.0]


def test_functions_of_torch_that_change_their_argument():
    """Torch's own `inplace=True`, and a parameter that is written into twice."""
    counter = rf.Parameter([], initial=0.0, trainable=False)
    loop = rf.Loop(max_seq_len=3)
    loop.state.s = rf.zeros([])
    with loop:
        counter.assign_add(1.0)
        counter.assign_add(10.0)
        raw = (loop.state.s - 2.0).plain._raw
        torch.nn.functional.relu(raw, inplace=True)
        loop.state.s = loop.state.s + 1.0 + rf.convert_to_tensor(raw, dims=[])
    assert counter.item() == 33.0
    assert loop.state.s.item() == 3.0


def test_a_loop_inside_of_another_one_writes_into_a_parameter():
    total = rf.Parameter([])
    total.trainable = False
    total.initial = 0.0
    rows, columns = rf.Dim(3, name="rows"), rf.Dim(2, name="columns")
    x = rf.convert_to_tensor(torch.arange(6.0).reshape(3, 2), dims=[rows, columns])
    outer = rf.Loop(axis=rows)
    with outer:
        row = outer.unstack(x)
        inner = rf.Loop(axis=columns)
        with inner:
            total.assign_add(inner.unstack(row))
    assert total.raw_tensor.item() == 15.0
