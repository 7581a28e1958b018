"""What a loop warns of, where it points, how often; and what it does not warn of."""

from __future__ import annotations

import inspect
import warnings

import pytest

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground.source import PerPlace
from rfnb.loop import run_body
from rfnb.loop.body import body

KEYS = rf.Dim(0, name="keys")


@pytest.fixture(autouse=True)
def a_batch_of_two():
    """Of which the states are made."""
    frames()


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for module, table in ((run_body, "_warned"), (body, "_judged")):
        monkeypatch.setattr(module, table, PerPlace(lambda source: set()))


def frames():
    time = rf.Dim(None, name="time")
    return rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0]], dims=[batch_dim, time], tags=["kiwi", "plum"])


def told(write, axis=True, max_seq_len=None, **states):
    """The warnings of a loop with these states and `write(loop, frame)` as its body."""
    x = frames()
    loop = rf.Loop(axis=x.dims[1] if axis else None, max_seq_len=max_seq_len, name="net")
    for name, value in (states or {"h": rf.zeros([batch_dim])}).items():
        loop.state[name] = value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with loop:
            write(loop, loop.unstack(x) if axis else None)
    assert all(w.category is rf.errors.LoopWarning for w in caught)
    return [str(w.message) for w in caught]


def set_from(value):
    def write(loop, frame):
        loop.state.h = value(loop, frame)

    return write


# -- states


@pytest.mark.parametrize("read", [False, True])
def test_a_state_that_is_never_set(read):
    [text] = told(lambda loop, frame: loop.stack(loop.state.h + frame) if read else loop.stack(frame))
    assert "the state 'h' is never set in the body" in text
    assert "loop.state.h = …" in text


def new_value_is_read(loop, frame):
    loop.state.h = frame + 1.0
    loop.stack(loop.state.h + 1.0)


FORGETS = {
    "frame alone": set_from(lambda loop, frame: rf.tanh(frame)),
    "read, not used": set_from(lambda loop, frame: (loop.state.h, frame + 1.0)[1]),
    "the new value is read": new_value_is_read,
    "a number": set_from(lambda loop, frame: rf.zeros([batch_dim])),
}  # fmt: skip


@pytest.mark.parametrize("write", FORGETS.values(), ids=FORGETS)
def test_a_state_that_is_never_read(write):
    [text] = told(write)
    assert "the state 'h' is never read" in text
    assert "loop.last" in text


def test_of_a_nested_state_that_no_part_is_read():
    def write(loop, frame):
        loop.state.lstm = rf.State(h=frame, c=frame + 1.0)

    [text] = told(write, lstm=rf.State(h=rf.zeros([batch_dim]), c=rf.zeros([batch_dim])))
    assert "'lstm' is never read" in text


def running_sum(x):
    total = rf.zeros([batch_dim])
    with rf.Loop(axis=x.dims[1], name="net") as loop:
        total = total + loop.unstack(x)
        return loop.stack(total)


def with_a_state(x):
    loop = rf.Loop(axis=x.dims[1], name="net")
    loop.state.total = total = rf.zeros([batch_dim])
    with loop:
        frame = loop.unstack(x)
        total = loop.state.total + frame
        loop.state.total = total
        return loop.stack(total)


def frame_by_the_same_name(x):
    with rf.Loop(axis=x.dims[1], name="net") as loop:
        x = loop.unstack(x)
        return loop.stack(x)


def same_at_every_step(x):
    scale = rf.ones([batch_dim])
    with rf.Loop(axis=x.dims[1], name="net") as loop:
        scale = scale * 2.0
        return loop.stack(loop.unstack(x) * scale)


def another_name(x):
    scale = rf.ones([batch_dim])
    with rf.Loop(axis=x.dims[1], name="net") as loop:
        scaled = scale * loop.unstack(x)
        return loop.stack(scaled)


@pytest.mark.parametrize("add", [running_sum, with_a_state, frame_by_the_same_name, same_at_every_step, another_name])
def test_a_variable_that_is_used_like_a_state(add):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        add(frames())
    texts = [str(warning.message) for warning in caught]
    if add is running_sum:
        [text] = texts
        assert "each step reads the variable 'total' as it was before the loop" in text
        assert "loop.state.total = total before the loop" in text
    else:
        assert not texts


class Ignores(rf.Module):
    def __call__(self, x, state):
        return x + 1.0, rf.State(h=x)


def in_a_loop_inside(loop, frame):
    inner = rf.Loop(max_seq_len=2)
    inner.state.k = frame
    with inner:
        inner.state.k = inner.state.k + loop.state.h
    loop.state.h = inner.state.k


def into_a_loop_inside(loop, frame):
    inner = rf.Loop(max_seq_len=2)
    inner.state.k = loop.state.h
    with inner:
        inner.state.k = inner.state.k * 2.0
    loop.state.h = inner.state.k


def delayed(loop, frame):
    older, h = loop.state.older, loop.state.h
    loop.stack(older)
    loop.state.older, loop.state.h = h, frame


def grown(loop, frame):
    seen, loop.state.keys = rf.cum_concat_step(frame, prev_accum=loop.state.seen, axis=loop.state.keys)
    loop.state.seen = seen


def by_module(loop, frame):
    _, loop.state.s = Ignores()(frame, loop.state.s)


def by_branch(loop, frame):
    loop.state.h = rf.cond(loop.iter_idx > 0, lambda: loop_sum(loop, frame), lambda: frame)


def loop_sum(loop, frame):
    return loop.state.h + frame


def by_raw_call(loop, frame):
    return rf.raw_call(lambda a: a.clone(), loop.state.h, out_dims=[batch_dim])


def asserted(loop, frame):
    rf.assert_(loop.state.h < 99.0, "no")
    loop.state.h = frame


def reordered(loop, frame):
    loop.reorder(1 - rf.range_over_dim(batch_dim), batch_dim)
    loop.state.h = loop.state.h + frame


def passed_on_and_read(loop, frame):
    loop.stack(loop.state.older)
    loop.state.h, loop.state.older = frame, loop.state.h


FINE = {
    "an accumulator that is read after the loop": (set_from(lambda loop, frame: loop.state.h + frame), ("h",)),
    "a state that is stacked": (set_from(lambda loop, frame: (loop.stack(loop.state.h), frame)[1]), ("h",)),
    "a last value": (set_from(lambda loop, frame: (loop.last(loop.state.h), frame)[1]), ("h",)),
    "feedback that another reads": (delayed, ("h", "older")),
    "feedback that another is in the end": (passed_on_and_read, ("h", "older")),
    "set to itself": (set_from(lambda loop, frame: loop.state.h), ("h",)),
    "read by an inner loop": (in_a_loop_inside, ("h",)),
    "the start of an inner loop": (into_a_loop_inside, ("h",)),
    "read in a branch": (by_branch, ("h",)),
    "given to a module that ignores it": (by_module, ("s",)),
    "a raw call": (set_from(by_raw_call), ("h",)),
    "looked at by an assertion": (asserted, ("h",)),
    "a beam": (reordered, ("h",)),
}  # fmt: skip


@pytest.mark.parametrize(("write", "names"), FINE.values(), ids=FINE)
def test_no_warning(write, names):
    initial = {name: rf.State(h=rf.zeros([batch_dim])) if name == "s" else rf.zeros([batch_dim]) for name in names}
    assert told(write, **initial) == []


def test_no_warning_of_an_axis_that_grows():
    assert told(grown, seen=rf.zeros([batch_dim, KEYS]), keys=KEYS) == []


# -- ends


def ends_over(limit, include_eos=True):
    def write(loop, frame):
        loop.state.h = loop.state.h + 1.0
        loop.end(loop.state.h > limit, include_eos=include_eos)

    return write


def start():
    return rf.convert_to_tensor([0.0, 5.0], dims=[batch_dim])


@pytest.mark.parametrize("include_eos", [True, False])
def test_an_end_that_is_never_true(include_eos):
    [text] = told(ends_over(99.0, include_eos), axis=False, max_seq_len=4, h=start())
    assert "never true: no sequence ended within max_seq_len=4 steps" in text


@pytest.mark.parametrize(
    ("limit", "options"),
    [(3.5, {}), (5.5, {}), (0.0, {}), (99.0, {"axis": True}), (99.0, {"max_seq_len": 0})],
    ids=["one is cut off", "one ends at once", "all end", "an axis tells how many", "no steps"],
)
def test_an_end_that_is_true_of_some_or_need_not_be(limit, options):
    assert told(ends_over(limit), **{"axis": False, "max_seq_len": 4, "h": start(), **options}) == []


@pytest.mark.parametrize(
    ("limit", "flags"), [(99.0, ["never ended"]), (5.5, ["never ended: sequence 0 of 2"]), (3.5, [])]
)
def test_the_run_says_which_sequences_did_not_end(limit, flags):
    loop = rf.Loop(max_seq_len=4, debug=True)
    loop.state.h = rf.convert_to_tensor([0.0, 5.0], dims=[rf.Dim(2, name="two")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with loop:
            ends_over(limit)(loop, None)
    assert loop.run.flags == flags


def test_which_sequences_by_their_tags():
    x = frames()
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.h = rf.reduce_max(x, axis=x.dims[1])
    with loop:
        ends_over(5.5)(loop, None)
    assert loop.run.flags == ["never ended: sequence 0 'kiwi' of 2"]


def test_a_long_tag_does_not_fill_the_flag():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[0.0], [5.0]], dims=[rf.batch_dim, time], tags=["kiwi" * 50, "fig"])
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.h = rf.reduce_max(x, axis=time)
    with loop:
        ends_over(5.5)(loop, None)
    assert loop.run.flags == [f"never ended: sequence 0 '{'kiwi' * 5}kiw…' of 2"]


# -- how it is told


def forgetful():
    x = frames()
    loop = rf.Loop(axis=x.dims[1], name="net")
    loop.state.h = rf.zeros([batch_dim])
    with loop:  # this line
        loop.state.h = loop.unstack(x)
    return loop.state.h


def test_a_warning_names_the_with_line_and_comes_once():
    with warnings.catch_warnings(record=True) as caught:
        for _ in range(20):
            warnings.simplefilter("always")
            forgetful()
    [warning] = caught
    lines, first = inspect.getsourcelines(forgetful)
    at = first + next(n for n, line in enumerate(lines) if "this line" in line)
    assert (warning.filename, warning.lineno) == (__file__, at)
    assert str(warning.message).startswith(f"net (test_run_body_warnings.py:{at}): the state 'h' is never read")


def test_the_same_code_run_again_as_a_new_cell_warns_again():
    text = inspect.getsource(forgetful)
    for _ in range(2):
        cell: dict[str, object] = {"rf": rf, "batch_dim": batch_dim, "frames": frames}
        exec(compile(text, "cell", "exec"), cell)
        with pytest.warns(rf.errors.LoopWarning, match="is never read"):
            cell["forgetful"]()
        del cell


def test_as_an_error_it_leaves_the_loop_as_it_was():
    x = frames()
    loop = rf.Loop(axis=x.dims[1])
    loop.state.h = begin = rf.zeros([batch_dim])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(rf.errors.LoopWarning), loop:
            loop.state.h = loop.unstack(x)
    assert loop.state.h is begin


def test_another_state_at_the_same_line_is_looked_at_as_well():
    assert not told(set_from(lambda loop, frame: loop.state.h + frame))
    write = set_from(lambda loop, frame: loop.state.h + frame)
    [text] = told(write, h=rf.zeros([batch_dim]), other=rf.zeros([batch_dim]))
    assert "'other' is never set" in text
