"""A recording is searched: what is found is what a search by hand in the numbers finds."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import ExpressionError, LoopError
from tests.examples import examples

NAN = float("nan")


@pytest.fixture(autouse=True)
def unrecorded():
    yield
    rf.runs.clear()


def shown(where):
    """The same in every process: a function without its address."""
    return str(where).partition(" at 0x")[0]


def sums(rows, *, tags=None, dtype="float32", lengths=None):
    """h is the sum so far, x_t the frame, label how many frames so far were not positive."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=tags, dtype=dtype, lengths=lengths)
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.h = rf.zeros([batch_dim], dtype=dtype)
    loop.state.label = rf.zeros([batch_dim], dtype="int64")
    with loop:
        x_t = loop.unstack(x)
        doubled = x_t * 2.0  # noqa: F841
        loop.state.h = loop.state.h + x_t
        loop.state.label = loop.state.label + rf.cast(x_t <= 0.0, "int64")
    return loop.run


ROWS = [[1.0, 5.0, NAN, 2.0], [2.0, -9.0], [3.0, 3.0, 1.0]]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (rf.when.not_finite("h"), [2, 3]),
        (rf.when.not_finite("x_t"), [2]),
        (rf.when.not_finite(), [2, 3]),
        (rf.when.not_finite("h", batch=1), []),
        (rf.when.not_finite("h", batch="c"), []),
        (rf.when.not_finite("h", batch="a"), [2, 3]),
        (rf.when.not_finite(batch=-3), [2, 3]),
        (rf.when.over(4.5, "x_t"), [1]),
        (rf.when.over(5.5, "x_t"), [1]),  # -9
        (rf.when.over(5.5, "x_t", batch="a"), []),
        (rf.when.over(10, "doubled"), [1]),
        (rf.when.over(17), [1]),
        (rf.when.changes("label"), [1]),
        (rf.when.changes("label", batch="a"), []),
        (rf.when.changes("x_t"), [1, 2, 3]),
        (rf.when.changes("x_t", batch="c"), [2]),
        (rf.when.repeats("x_t"), [1]),
        (rf.when.repeats("label", batch="b"), [0]),
        (rf.when.repeats("label"), [0, 1, 2, 3]),
        (rf.when.ends(), [1, 2, 3]),
        (rf.when.ends(batch="b"), [1]),
        (lambda step: step.step % 2 == 1, [1, 3]),
        (lambda step: rf.reduce_any(step.x_t > 4.5, axis=step.x_t.dims), [1]),
        (lambda step: np.bool_(step.step == 2), [2]),
        ("step > 1", [2, 3]),
        ("rf.reduce_any(x_t > 4.5, axis=x_t.dims)", [1]),
        ("rf.reduce_any(after.h > 5.5, axis=batch) and step < 2", [1]),
    ],
    ids=shown,
)
def test_conditions(where, expected):
    run = sums(ROWS, tags=["a", "b", "c"])
    assert run.find(where) == expected
    assert [i for i in range(4) if run.next(where, after=i - 1) == i] == expected
    assert [i for i in range(4) if run.previous(where, before=i + 1) == i] == expected


def test_from_and_to():
    run = sums(ROWS)
    odd = lambda step: step.step in (0, 2)  # noqa: E731
    assert run.find(odd, start=1) == [2]
    assert run.find(odd, start=0, stop=2) == [0]
    assert run.find(odd, start=-2) == [2]
    assert (run.next(odd), run.next(odd, after=0), run.next(odd, after=2), run.next(odd, after=99)) == (
        0,
        2,
        None,
        None,
    )
    assert (run.previous(odd), run.previous(odd, before=2), run.previous(odd, before=0)) == (2, 0, None)
    assert (run.next(odd, after=-7), run.previous(odd, before=99)) == (0, 2)


def test_the_first_hit_is_enough():
    run, seen = sums(ROWS), []

    def where(step):
        seen.append(step.step)
        return step.step == 1

    assert run.next(where) == 1
    assert seen == [0, 1]
    assert run.previous(where) == 1
    assert seen == [0, 1, 3, 2, 1]


@pytest.mark.parametrize(
    ("where", "replays"),
    [
        (rf.when.not_finite("h", batch=1), 0),
        (rf.when.changes("h", batch=0), 0),
        (rf.when.ends(), 0),
        ("h.max() > 99 or before.h.max() > 99 or after.h.shape == (2, 2)", 0),
        (rf.when.over(30, "x_t"), 4),
        (rf.when.repeats("x_t", batch=2), 4),
        (lambda step: bool(step.x_t.dims) and bool(step.doubled.dims) and False, 4),
        ("rf.reduce_any(x_t > 99, axis=batch) and rf.reduce_any(doubled > 99, axis=batch)", 4),
    ],
    ids=shown,
)
def test_a_search_computes_each_step_once_and_states_not_at_all(monkeypatch, where, replays):
    run, count = sums(ROWS), []
    values = type(run.replay).values
    monkeypatch.setattr(type(run.replay), "values", lambda replay, step: count.append(step) or values(replay, step))
    run.find(where)
    assert len(count) == replays
    run.previous(where)
    assert len(count) == 2 * replays


def test_what_is_behind_the_end_of_a_sequence_does_not_count():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0], [1.0, 2.0, 3.0]], dims=[batch_dim, time])
    left = rf.convert_to_tensor([1.0, 9.0], dims=[batch_dim])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.left = left
    with loop:
        share = rf.where(left > rf.cast(loop.iter_idx, "float32"), loop.unstack(x), float("inf"))
        loop.state.left = loop.state.left - share
    run = loop.run
    assert torch.isinf(run[1].share.raw_tensor).tolist() == [True, False]
    assert run.find(rf.when.not_finite("share")) == run.find(rf.when.not_finite()) == []
    assert run.find(rf.when.over(0, "share", batch=0)) == [0]


def test_padding_within_a_value_does_not_count():
    time, enc = rf.Dim(None, name="time"), rf.Dim(None, name="enc")
    x = rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[batch_dim, time])
    keys = rf.convert_to_tensor([[1.0], [1.0, 1.0]], dims=[batch_dim, enc]).copy_masked(0.0)
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        energy = rf.where(keys == 0.0, float("inf"), loop.unstack(x))  # noqa: F841
        loop.state.s = loop.state.s + 1.0
    assert torch.isinf(loop.run[0].energy.raw_tensor).any()
    assert loop.run.find(rf.when.not_finite("energy")) == []
    assert loop.run.find(rf.when.over(2.5, "energy")) == [0]  # the second step is behind the end of the second one


def test_bfloat16():
    run = sums([[1.0, float("inf")]], dtype="bfloat16")
    assert run.find(rf.when.not_finite("h")) == [1]
    assert run.find(rf.when.over(0.5, "x_t")) == [0, 1]


@pytest.mark.parametrize("where", [rf.when.not_finite(), rf.when.changes("h"), rf.when.ends(), "step > 0"], ids=str)
def test_a_run_without_steps(where):
    run = sums(torch.zeros(2, 0), lengths=[0, 0])
    assert (run.steps, run.find(where), run.next(where), run.previous(where)) == (0, [], None, None)


def test_a_sequence_without_steps_is_never_found():
    run = sums(torch.tensor([[NAN, NAN], [1.0, 2.0]]), lengths=[0, 2], tags=["empty", "other"])
    assert run.find(rf.when.not_finite()) == []
    assert run.find(rf.when.ends(batch="empty")) == []
    assert run.find(rf.when.ends()) == [1]


def test_a_run_that_failed():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0, 4.0], [5.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim])

    def check(raw):
        assert raw[0] < 3.5, "too large"
        return raw

    with pytest.raises(AssertionError, match="too large"), loop:
        x_t = loop.unstack(x)
        loop.state.h = loop.state.h + rf.raw_call(check, x_t, out_dims=[batch_dim])
    run = loop.run
    assert run.steps == 3
    assert run.lengths == [3, 1]
    assert run.find(rf.when.over(1.5, "x_t", batch=1)) == [0]
    assert run.find(rf.when.changes("h")) == [0, 1, 2]
    assert run.find(rf.when.ends(batch=1)) == [0]


def test_a_loop_with_an_end_and_hypotheses():
    beam = rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=6, axis=rf.Dim(None, name="out"), debug=True)
    loop.state.label = rf.zeros([batch_dim, beam], dtype="int64")
    stop = rf.convert_to_tensor([[1, 3], [2, 2]], dims=[batch_dim, beam])
    with loop:
        loop.state.label = loop.state.label + 1
        top = rf.reduce_max(loop.state.label, axis=beam)  # noqa: F841
        loop.end(loop.state.label >= stop, include_eos=True)
    run = loop.run
    assert run.size.values.tolist() == [[1, 3], [2, 2]]
    assert run.find(rf.when.ends()) == [0, 1, 2]
    assert run.find(rf.when.ends(batch=1)) == [1]
    assert run.find(rf.when.changes("label", batch=1)) == [0, 1]
    assert run.find(rf.when.over(2.5, "label")) == [2]
    assert run.find(rf.when.over(1.5, "top", batch=0)) == [1, 2]  # as long as one of its hypotheses goes on


def test_a_whole_state_of_numbers_repeats_and_any_label():
    feat, time = rf.Dim(2, name="feat"), rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[[1.0, 1.0], [1.0, 2.0], [1.0, 2.0]]], dims=[batch_dim, time, feat])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.number = rf.zeros([batch_dim, feat])
    loop.state.label = rf.zeros([batch_dim, feat], dtype="int64")
    with loop:
        loop.state.number = loop.unstack(x) + 0.0 * loop.state.number
        loop.state.label = rf.cast(loop.state.number, "int64") + 0 * loop.state.label
    assert loop.run.find(rf.when.repeats("number")) == [2]
    assert loop.run.find(rf.when.repeats("label")) == [1, 2]


def test_each_sequence_repeats_for_itself():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.number = rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim])
    with loop:
        loop.state.number = rf.maximum(loop.state.number, 2.0)
    run = loop.run
    assert run.find(rf.when.repeats("number")) == run.find(rf.when.repeats("number", batch=1)) == [0, 1]
    assert run.find(rf.when.repeats("number", batch=0)) == [1]


def test_nested_states_by_the_name_of_the_whole():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.lstm = rf.State(h=rf.ones([]), layers=[rf.ones([])])
    with loop:
        loop.state.lstm = rf.State(h=loop.state.lstm.h + 1.0, layers=[loop.state.lstm.layers[0] * 10.0])
    run = loop.run
    assert run.find(rf.when.over(50, "lstm")) == run.find(rf.when.over(50, "lstm.layers.0")) == [1, 2]
    assert run.find(rf.when.over(50, "lstm.h")) == []
    assert run.find(rf.when.changes("lstm.h")) == [0, 1, 2]


def test_an_axis_that_grows():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.hist = rf.Dim(0, name="hist")
    loop.state.seen = rf.zeros([loop.state.hist])
    with loop:
        seen, hist = rf.cum_concat_step(rf.ones([]), prev_accum=loop.state.seen, axis=loop.state.hist)
        loop.state.seen, loop.state.hist = seen, hist
    run = loop.run
    assert run.find(rf.when.changes("seen")) == [0, 1, 2]
    assert run.find(rf.when.changes("hist")) == [0, 1, 2]
    assert run.find(rf.when.repeats("hist")) == []
    assert run.find(rf.when.over(1.5, "hist")) == [1, 2]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (lambda step: step.x_t > 1, "True or False"),
        (lambda step: None, "NoneType"),
        (lambda step: 1, "int"),
        (lambda step: step.x_t > 1, "reduce_any"),
        (rf.when.not_finite("hh"), "no value 'hh'"),
        (rf.when.ends(batch="zz"), "no sequence with this tag"),
        (rf.when.ends(batch=7), "no sequence 7"),
        ("x_t > 1", "True or False"),
    ],
)
def test_what_is_no_condition(where, words):
    run = sums(ROWS, tags=["a", "b", "c"])
    with pytest.raises(LoopError, match=words):
        run.find(where)


def test_expressions_are_read_before_the_search():
    with pytest.raises(ExpressionError, match="not an expression"):
        sums(ROWS).find("h >")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (rf.when.not_finite("h"), "h is not finite"),
        (rf.when.not_finite(), "a value is not finite"),
        (rf.when.over(100, "h", batch="banana"), "|h| is over 100 in sequence 'banana'"),
        (rf.when.changes("label", batch=2), "label changes in sequence 2"),
        (rf.when.repeats("label"), "label repeats"),
        (rf.when.ends(), "a sequence ends"),
    ],
)
def test_conditions_read_as_sentences(condition, words):
    assert repr(condition) == words


@examples(30)
@given(st.data())
def test_search_by_hand(data):
    """Values with NaN in frames and padding, lengths from 0, against plain loops over the numbers."""
    batch, longest = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 4))
    lengths = [data.draw(st.integers(0, longest)) for _ in range(batch)]
    numbers = st.sampled_from([0.0, 1.0, -2.0, NAN, 7.0])
    rows = [[data.draw(numbers) for _ in range(max(lengths))] for _ in range(batch)]
    run = sums(torch.tensor(rows).reshape(batch, max(lengths)), lengths=lengths)
    frames = [(t, b, rows[b][t]) for t in range(max(lengths)) for b in range(batch) if t < lengths[b]]
    one = data.draw(st.integers(0, batch - 1))

    def steps(found):
        return sorted({t for t, _ in found})

    assert run.find(rf.when.not_finite("x_t")) == steps((t, b) for t, b, x in frames if x != x)
    assert run.find(rf.when.over(1.5, "x_t", batch=one)) == steps(
        (t, b) for t, b, x in frames if b == one and abs(x) > 1.5
    )
    assert run.find(rf.when.ends()) == steps((n - 1, b) for b, n in enumerate(lengths) if n)
    assert run.find(rf.when.changes("label")) == steps((t, b) for t, b, x in frames if x <= 0)
    assert run.find(rf.when.repeats("label")) == steps((t, b) for t, b, x in frames if not x <= 0)
    same = lambda x, y: x == y or (x != x and y != y)  # noqa: E731
    assert run.find(rf.when.changes("x_t")) == steps((t, b) for t, b, x in frames if t and not same(x, rows[b][t - 1]))
    assert run.find(rf.when.repeats("x_t")) == steps((t, b) for t, b, x in frames if t and same(x, rows[b][t - 1]))


# -- op by op


def test_ops_go_into_modules():
    time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(2, name="feat"), rf.Dim(3, name="hidden")

    class Cell(rf.Module):
        def __init__(self):
            super().__init__()
            self.linear = rf.Linear(feat, hidden)

        def __call__(self, x):
            y = self.linear(x)
            return rf.tanh(y)

    x = rf.convert_to_tensor(torch.ones(1, 2, 2), dims=[batch_dim, time, feat])
    cell = Cell()
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        x_t = loop.unstack(x)
        new = cell(x_t)
        loop.state.h = loop.state.h + new
    ops = loop.run[1].ops()
    assert [(op.op, op.name, op.path) for op in ops] == [
        ("unstack", "x_t", ""),
        ("linear", "Cell.linear.y", "Cell.linear"),
        ("tanh", "new", "Cell"),
        ("add", "h", ""),
    ]
    assert [op.text for op in ops] == ["loop.unstack(x)", "self.linear(x)", "rf.tanh(y)", "loop.state.h + new"]
    assert {op.place.partition(":")[0] for op in ops} == {"test_find.py"}
    lines = [loop.run.source.lines[op.line - loop.run.source.first_line].strip() for op in ops]
    assert lines == ["x_t = loop.unstack(x)", *["new = cell(x_t)"] * 2, "loop.state.h = loop.state.h + new"]
    tanh, add = ops[2], ops[3]
    assert torch.equal(tanh.outputs[0].raw_tensor, torch.tanh(tanh.inputs[0].raw_tensor))
    assert torch.equal(add.inputs[0].raw_tensor, loop.run[1].before.h.raw_tensor)
    assert torch.equal(add.outputs[0].raw_tensor, loop.run[1].after.h.raw_tensor)
    assert add.node.op == "add"


def test_variables_called_like_members_stay_reachable():
    loop = rf.Loop(max_seq_len=1, debug=True)
    loop.state.x = rf.ones([])
    with loop:
        ops = loop.state.x + 1.0
        eval = ops + 1.0
        step = eval + 1.0
        run = step + 1.0
        find = run + 1.0
        loop.state.x = find
    at = loop.run[0]
    assert [at[name].item() for name in ("ops", "eval", "step", "run", "find")] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert at.find.item() == 6.0
    assert (at.step, at.eval("step").item(), len(at.ops())) == (0, 4.0, 5)


@pytest.mark.parametrize(("fill", "steps"), [(-torch.inf, []), (torch.inf, [1]), (torch.nan, [1])])
def test_a_mask_is_found_only_by_its_name(fill, steps):
    for step in rf.steps(range(3), name="masked"):
        energy = torch.arange(3.0)
        if step == 1:
            energy = energy.masked_fill(torch.tensor([False, True, False]), fill)
    run = rf.runs["masked"]
    assert run.find(rf.when.not_finite()) == steps and run.find(rf.when.not_finite("energy")) == [1]


def failing_plain_loop():
    with pytest.raises(ValueError, match="too large"):
        doubled_until_16()
    return rf.runs["doubled"]


def doubled_until_16():
    h, t = torch.ones(3), 0
    for _ in rf.steps(range(9), name="doubled"):
        h = h * 2
        ratio = h / (h - 16)  # noqa: F841
        if h[0] == 16:
            raise ValueError("too large")
        t = t + 1
        left = 9 - t  # noqa: F841


def failing_loop():
    loop = rf.Loop(max_seq_len=9, name="doubled", debug=True)
    loop.state.h = rf.convert_to_tensor([1.0, 1.0, 1.0], dims=[batch_dim])
    loop.state.t = rf.convert_to_tensor(0)
    with pytest.raises(AssertionError, match="too large"), loop:
        loop.state.h = loop.state.h * 2
        ratio = loop.state.h / (loop.state.h - 16.0)  # noqa: F841
        rf.assert_(rf.reduce_all(loop.state.h < 16, axis=batch_dim), "too large")
        loop.state.t = loop.state.t + 1
        left = 9 - loop.state.t  # noqa: F841
    return loop.run


@pytest.mark.parametrize("run", [failing_plain_loop, failing_loop])
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (rf.when.not_finite("ratio"), [3]),
        (rf.when.not_finite(), [3]),
        (rf.when.over(2, "ratio"), [3]),  # ∞; before it −1/7, −1/3, −1
        ("rf.reduce_any(abs(ratio) > 2, axis=ratio.dims)", [3]),
        ("step > 1", [2, 3]),
        (lambda at: at.step == 3, [3]),
    ],
    ids=shown,
)
def test_the_step_that_failed_is_searched(run, is_loaded, where, expected, tmp_path):
    run = run()
    assert (run.steps, run.failed.step) == (3, 3)
    run = rf.load_run(run.save(tmp_path / "failed.rfrun")) if is_loaded else run
    if isinstance(where, str) and not run.graph.values:
        where = where.replace("rf.reduce_any(abs(ratio) > 2, axis=ratio.dims)", "(ratio.abs() > 2).any()")
    assert run.find(where) == expected
    assert run.next(where) == expected[0]
    assert run.previous(where) == expected[-1]
    assert run.next(where, after=2) == (3 if 3 in expected else None)
    assert run.find(where, stop=3) == [step for step in expected if step < 3]


def test_a_condition_on_what_the_failed_step_did_not_get_to_does_not_hold():
    loop, plain = failing_loop(), failing_plain_loop()
    for where in (lambda at: at.left.item() < 8, "left < 8"):
        assert loop.find(where) == [1, 2]
        assert plain.find(where) == [1, 2, 3]  # a variable of Python has the value of the step before
    assert loop.find(lambda at: bool((at.after.h.raw_tensor > 0).all())) == [0, 1, 2]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_states_do_not_change_in_the_step_that_failed(is_loaded, tmp_path):
    run = failing_loop()
    run = rf.load_run(run.save(tmp_path / "failed.rfrun")) if is_loaded else run
    for where in (rf.when.changes("t"), "after.t >= 1", rf.when.over(0, "t"), lambda at: at.after.t.item() > 0):
        assert run.find(where) == [0, 1, 2]
        assert run.next(where, after=2) is None and run.previous(where) == 2
    with pytest.raises(LoopError, match="no state after step 3, which failed"):
        run[3].after.t  # noqa: B018


@pytest.mark.parametrize("run", [failing_plain_loop, failing_loop])
def test_a_name_that_no_step_has_is_an_error_in_the_step_that_failed(run):
    run = run()
    for where in ("typo < 8", "after.typo < 8", rf.when.over(1, "typo"), lambda at: at.typo):
        for search in (run.find, partial(run.next, after=2), run.previous):
            with pytest.raises((ExpressionError, LoopError), match="typo"):
                search(where)
