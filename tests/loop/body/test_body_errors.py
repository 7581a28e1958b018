"""Mistakes in a body are named with the user's line, and rfnb goes on working."""

from __future__ import annotations

import signal
import threading
import time as clock

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim


@pytest.fixture
def x():
    time = rf.Dim(None, name="time")
    return rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0]], dims=[batch_dim, time])


def loop_over(x):
    loop = rf.Loop(axis=x.dims[1], name="sum")
    loop.state.s = rf.zeros([batch_dim])
    return loop


def works():
    """rfnb listens no longer, and a new loop runs."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0]], dims=[batch_dim, time])
    loop = loop_over(x)
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    return loop.state.s.raw_tensor.tolist() == [3.0] and bool(rf.reduce_all(x > 0, axis=[batch_dim, time]))


READS = {
    "bool": bool,
    "float": float,
    "int": int,
    "item": lambda v: v.item(),
    "numpy": lambda v: v.numpy(),
    "raw_tensor": lambda v: v.raw_tensor,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_a_number_in_the_body_is_refused(x, read):
    loop = loop_over(x)
    with pytest.raises(rf.errors.TraceError, match=r"test_body_errors.py:\d+") as raised, loop:
        total = rf.reduce_sum(loop.unstack(x), axis=batch_dim)
        read(total)
    assert "total" in str(raised.value)
    assert "rf.raw_call" in str(raised.value)
    assert works()


def test_a_value_of_the_body_cannot_be_used_after_it(x):
    loop = loop_over(x)
    with loop:
        frame = loop.unstack(x)
        loop.state.s = loop.state.s + frame
    for use in (
        lambda: frame + 1,
        lambda: frame.raw_tensor,
        lambda: x + frame,
        lambda: rf.reduce_sum(frame, axis=batch_dim),
    ):
        with pytest.raises(rf.errors.LoopError, match=r"loop.stack\(frame\)"):
            use()


def test_a_result_is_not_there_before_the_block_ends(x):
    loop = loop_over(x)
    with pytest.raises(rf.errors.LoopError, match="before the `with` block"), loop:
        out = loop.stack(loop.unstack(x))
        out + 1.0
    assert works()


def test_a_state_with_other_dims_shows_the_initial_value_to_write(x):
    loop = loop_over(x)
    feat = rf.Dim(2, name="feat")
    with pytest.raises(rf.errors.DimError, match=r"loop.state.s = rf.zeros\(\[batch_dim, feat\]\)"), loop:
        loop.state.s = rf.expand_dim(loop.unstack(x), feat)
    assert works()


def test_an_axis_that_grows_has_to_be_a_state(x):
    keys = rf.Dim(0, name="keys")
    loop = rf.Loop(axis=x.dims[1])
    loop.state.seen = rf.zeros([batch_dim, keys])
    with pytest.raises(rf.errors.DimError, match=r"loop\.state\.keys = keys first"), loop:
        loop.state.seen, _ = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.seen, axis=keys)
    assert works()


def test_an_unknown_state_names_the_line_to_write(x):
    with pytest.raises(rf.errors.LoopError, match="there is no state 'h'"):
        loop_over(x).state.h  # noqa: B018
    loop = loop_over(x)
    with pytest.raises(rf.errors.LoopError, match="has no initial value"), loop:
        loop.state.new = loop.unstack(x)
    assert works()


def test_nothing_says_how_many_steps():
    loop = rf.Loop()
    with pytest.raises(rf.errors.LoopError, match="number of steps"), loop:
        loop.stack(rf.ones([]))
    assert works()


def test_last_of_a_sequence_without_steps():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0], []], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    with pytest.raises(rf.errors.LoopError, match="make it a state"), loop:
        loop.last(loop.unstack(x) * 2.0)
    assert works()


def test_an_exception_in_the_body_is_the_users_own_with_step_and_loop(x):
    loop = loop_over(x)
    with pytest.raises(ZeroDivisionError) as raised, loop:
        loop.unstack(x)
        1 / 0  # noqa: B018
    assert any("step 0 of sum" in note for note in raised.value.__notes__)
    assert works()


def test_an_exception_at_a_later_step_names_line_and_step(x):
    calls = []

    def fails_later(raw):
        calls.append(1)
        if len(calls) == 4:  # the traced frame, then steps 0, 1, 2
            raise ValueError("no")
        return raw.clone()

    loop = rf.Loop(axis=x.dims[1], name="sum", debug=True)
    loop.state.s = rf.zeros([batch_dim])
    with pytest.raises(ValueError, match="no") as raised, loop:
        loop.state.s = loop.state.s + rf.raw_call(fails_later, loop.unstack(x), out_dims=[batch_dim])
    [note] = raised.value.__notes__
    assert "step 2 of sum" in note
    assert "test_body_errors.py" in note
    assert loop.run.flags == ["failed: ValueError in step 2"]
    assert loop.run.steps == 2
    assert loop.run[1].after.s.raw_tensor.tolist() == [3.0, 9.0]
    assert works()


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that a callback swallowed
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to a thread")
def test_an_interrupt_ends_the_loop_and_keeps_the_run():
    loop = rf.Loop(max_seq_len=10_000_000, name="endless", debug=True)
    loop.state.n = rf.zeros([])
    done, sent = threading.Event(), []

    def interrupt():  # again, if it came while Python could not raise it, as in a callback of the garbage collector
        while not done.wait(5.0 if sent else 0.5):
            sent.append(clock.process_time())
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), loop:
        loop.state.n = loop.state.n + 1.0
        threading.Thread(target=interrupt).start()
    done.set()
    assert clock.process_time() - sent[-1] < 1
    assert loop.run.steps > 0
    assert float(loop.run[loop.run.steps - 1].after.n) == loop.run.steps
    assert works()


def test_another_thread_is_not_traced(x):
    results = []
    loop = loop_over(x)
    with loop:
        frame = loop.unstack(x)
        thread = threading.Thread(target=lambda: results.append((torch.ones(2).sum().item(), x + 1.0)))
        thread.start()
        thread.join()
        loop.state.s = loop.state.s + frame
    assert results[0][0] == 2.0
    assert type(results[0][1]) is rf.Tensor
    assert loop.state.s.raw_tensor.tolist() == [6.0, 9.0]


def test_switching_gradients_off_in_the_body_is_refused(x):
    loop = loop_over(x)
    with pytest.raises(rf.errors.TraceError, match="stop_gradient"), loop, torch.no_grad():
        loop.state.s = loop.state.s + loop.unstack(x)
    assert works()
    assert torch.is_grad_enabled()
