"""Loops that fail or are interrupted: the error names step and line, nothing is left behind, the run can be opened."""

from __future__ import annotations

import inspect
import signal
import threading
import time as clock

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

import rfnb as rf
from rfnb import batch_dim
from rfnb.backend.base.tape import current_tape
from rfnb.core.ground.scope import module_path, random_stream
from rfnb.core.tensor.listener import active_listener
from rfnb.loop.body.print_value import entered

FEW = rf.Dim(6, name="few")
KEYS = rf.Dim(0, name="keys")


def frames():
    """Two sequences; only the last frame of the first one is 7."""
    time = rf.Dim(None, name="time")
    return rf.convert_to_tensor([[1.0, 2.0, 7.0], [4.0, 5.0]], dims=[batch_dim, time])


def fails_on_7(raw):
    if (raw == 7.0).any():
        raise ValueError("a seven")
    return raw.clone()


def table():
    return rf.range_over_dim(FEW, dtype="float32")


class Picky(rf.Module):
    def __call__(self, x):
        return rf.raw_call(fails_on_7, x, out_dims=x.dims)


class Outer(rf.Module):
    def __init__(self):
        super().__init__()
        self.inner = Picky()

    def __call__(self, x):
        return self.inner(x) + 1.0


def in_the_body(loop, x):
    loop.state.s = loop.state.s + rf.raw_call(fails_on_7, x, out_dims=[batch_dim])


def asserted(loop, x):
    rf.assert_(x < 7.0, "a seven")
    loop.state.s = loop.state.s + x


def in_modules(loop, x):
    loop.state.s = loop.state.s + Outer()(x)


def tried_before_the_steps(loop, x):
    loop.state.s = loop.state.s + rf.gather(table(), indices=rf.cast(x, "int64"), axis=FEW)


def in_the_steps(loop, x):
    at = rf.cast(x + 0.0 * loop.state.s, "int64")
    loop.state.s = loop.state.s + rf.gather(table(), indices=at, axis=FEW)


def behind_the_steps(loop, x):
    loop.state.s = loop.state.s * 0.0 + x
    loop.stack(rf.gather(table(), indices=rf.cast(loop.state.s, "int64"), axis=FEW))


def in_a_loop_inside(loop, x):
    inner = rf.Loop(max_seq_len=2, name="inner")
    inner.state.k = x
    with inner:
        inner.state.k = rf.raw_call(fails_on_7, inner.state.k, out_dims=[batch_dim])
    loop.state.s = loop.state.s + inner.state.k


def over_an_axis_that_grows(loop, x):
    seen, loop.state.keys = rf.cum_concat_step(x, prev_accum=loop.state.seen, axis=loop.state.keys)
    rf.assert_(seen < 7.0, "a seven")
    loop.state.seen = seen


def in_a_branch(loop, x):
    added = rf.cond(loop.iter_idx > 0, lambda: rf.raw_call(fails_on_7, x, out_dims=[batch_dim]), lambda: x)
    loop.state.s = loop.state.s + added


def while_watched(loop, x):
    def seven(value):
        return fails_on_7(value.raw_tensor).any().item()

    loop.state.s = loop.state.s + rf.watch(x, steps=seven)


WAYS = [
    in_the_body, asserted, in_modules, tried_before_the_steps, in_the_steps, behind_the_steps, in_a_loop_inside,
    over_an_axis_that_grows, in_a_branch, while_watched,
]  # fmt: skip


def failing(way, **options):
    """The loop that failed, and its error."""
    x = frames()
    loop = rf.Loop(axis=x.dims[1], name="sum", debug=True, **options)
    if way is over_an_axis_that_grows:
        loop.state.seen, loop.state.keys = rf.zeros([batch_dim, KEYS]), KEYS
    else:
        loop.state.s = rf.zeros([batch_dim])
    with pytest.raises((ValueError, AssertionError, IndexError, RuntimeError)) as raised, loop:
        way(loop, loop.unstack(x))
    return loop, raised.value


def assert_nothing_is_left():
    assert (active_listener(), current_tape(), entered.get()) == (None, None, ())
    assert (module_path(), random_stream("cpu")) == ("", None)
    assert _get_current_function_mode_stack() == []
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    x = frames()
    loop = rf.Loop(axis=x.dims[1])
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    assert loop.state.s.raw_tensor.tolist() == [10.0, 9.0]


@pytest.mark.parametrize("moved", [None, False], ids=["hoisted", "in order"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_error_names_step_and_line(way, moved):
    _, error = failing(way, optimize_move_layers_out=moved)
    told = "\n".join(error.__notes__)
    lines, first = inspect.getsourcelines(Picky if way is in_modules else way)
    assert "step 2 of sum" in told
    assert any(f"test_run_body_failures.py:{first + n}" in told for n in range(len(lines))), told
    assert_nothing_is_left()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_run_has_what_was_done_before(way):
    loop, error = failing(way)
    run = loop.run
    assert run.steps == (3 if way is behind_the_steps else 2)
    assert (run.failed.step, run.failed.kind) == (2, type(error).__name__)
    assert run.flags == [f"failed: {type(error).__name__} in step 2"]
    assert run.failed.line is not None
    for step in range(2):
        assert run[step].check == "replay agrees"
    assert run.failed.error.startswith(f"{type(error).__name__}: {str(error)[:5]}")


def test_the_step_that_failed_shows_what_came_before_the_error():
    x = frames()
    loop = rf.Loop(axis=x.dims[1], debug=True)
    loop.state.s = rf.zeros([batch_dim])
    with pytest.raises(ValueError, match="a seven"), loop:
        frame = loop.unstack(x)
        doubled = frame * 2.0
        checked = rf.raw_call(fails_on_7, frame, out_dims=[batch_dim])
        tripled = checked * 3.0
        loop.state.s = loop.state.s + tripled + doubled
    run = loop.run
    assert [value.name for value in run[2].values()] == ["frame", "doubled"]
    assert run[2].doubled.raw_tensor.tolist()[0] == 14.0
    assert run[2].before.s.raw_tensor.tolist() == run[1].after.s.raw_tensor.tolist() == [15.0, 45.0]
    with pytest.raises(rf.errors.LoopError, match="no state after step 2, which failed"):
        run[2].after.s  # noqa: B018
    with pytest.raises(rf.errors.LoopError, match="there is no step 3"):
        run[3]
    assert run[2].check == "failed in this step"
    assert [step.step for step in run] == [0, 1]


def test_the_picture_of_a_failed_run_has_message_and_line():
    run = failing(in_the_body)[0].run
    text, html = rf.show(run).text, rf.show(run).html
    line = f"failed in step 2, line {run.failed.line}: ValueError: a seven"
    assert line in text
    assert line in html
    assert "✗ ValueError: a seven" in text
    assert "at step 2, which failed" in text
    assert "at step 2, which failed" in html


def test_states_buffers_and_dims_are_as_before():
    x = frames()
    axis = rf.Dim(None, name="steps")
    start, norm = rf.ones([batch_dim]), torch.zeros(1)
    loop = rf.Loop(axis=axis, max_seq_len=3)
    loop.state.s = start
    with pytest.raises(ValueError, match="a seven"), loop:
        norm.add_(1.0)
        frame = loop.unstack(x, axis=x.dims[1])
        loop.state.s = loop.state.s + rf.raw_call(fails_on_7, frame, out_dims=[batch_dim])
    assert loop.state.s is start
    assert norm.item() == 0.0
    assert not axis.is_defined()
    assert_nothing_is_left()


def test_the_surroundings_stay_what_the_user_made_them():
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        failing(in_modules)
        failing(behind_the_steps)
        assert not torch.is_grad_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert_nothing_is_left()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that a callback swallowed
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
@pytest.mark.parametrize("nested", [False, True])
def test_an_interrupt_is_noticed_at_once_and_leaves_nothing(nested):
    loop = rf.Loop(max_seq_len=10_000_000, name="endless", debug=True)
    loop.state.n = rf.zeros([])
    done, sent = threading.Event(), []

    def interrupt():
        while not done.wait(5.0 if sent else 0.4):  # again, if a callback swallowed it; not while the first is handled
            sent.append(clock.process_time())
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt), loop:
            if nested:
                inner = rf.Loop(max_seq_len=3, name="inner")
                inner.state.k = loop.state.n
                with inner:
                    inner.state.k = inner.state.k + 0.25
                loop.state.n = inner.state.k + 0.25
            else:
                loop.state.n = loop.state.n + 1.0
            threading.Thread(target=interrupt).start()
        late = clock.process_time() - sent[-1]
    finally:
        done.set()
    assert late < 1
    run = loop.run
    assert (run.failed.kind, run.failed.step) == ("KeyboardInterrupt", run.steps)
    assert float(run[run.steps - 1].after.n) == run.steps
    assert run[run.steps].values() is not None
    assert_nothing_is_left()


def test_the_error_keeps_no_tensor_alive():
    run = failing(in_the_body)[0].run
    assert all(isinstance(part, str | int | None) for part in run.failed)
