"""Loops wait only where somebody can look."""

from __future__ import annotations

from threading import Thread

import pytest

import rfnb as rf
from rfnb.errors import LoopWarning
from rfnb.trace import pause as hold
from rfnb.trace.pause import Resume
from tests.trace.holding import no_pauses as no_pauses, user
from tests.trace.test_pause import run


def test_a_loop_of_another_thread_does_not_wait():
    rf.pause_when("after.n > 1")
    with user() as seen, pytest.warns(LoopWarning, match="only loops of the main thread"):
        thread = Thread(target=run)
        thread.start()
        thread.join()
    assert seen == []


def test_without_subshells_the_run_is_pinned(monkeypatch):
    monkeypatch.setattr(hold.can_hold, "fn", lambda: "no subshells")
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning, match="ipykernel 7 or newer"):
        found = run()
    assert found.pinned
    assert found in list(rf.runs)
    rf.runs.forget(found.serial)


def test_a_condition_that_always_holds_pins_five_runs_and_no_more(monkeypatch):
    monkeypatch.setattr(hold.can_hold, "fn", lambda: "no subshells")
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning) as told:
        found = [run() for _ in range(8)]
    assert [each.pinned for each in found] == [True] * 5 + [False] * 3
    words = [str(each.message) for each in told]
    assert len(words) == 5 and words[4].endswith("no more than 5 are, until you unpin one")
    rf.runs.pin(found[0].serial, False)
    with pytest.warns(LoopWarning, match="pinned in the panel"):
        found.append(run())
    assert found[-1].pinned
    for each in found:
        rf.runs.forget(each.serial)


def test_stopping_raises_keyboard_interrupt():
    rf.pause_when("after.n > 1")
    with user(lambda paused: Resume(stop=True)) as seen, pytest.raises(KeyboardInterrupt, match="while it was paused"):
        run()
    assert len(seen) == 1


def test_muted_pauses_come_back_in_the_next_cell():
    rf.pause_when("after.n > 1")
    with user(lambda paused: Resume(mute=True)) as seen:
        run()
        run()
        assert len(seen) == 1
        rf.pauses.cell_ended()
        run()
        assert len(seen) == 2


def test_a_pause_leaves_the_random_numbers_of_the_program_alone():
    feat = rf.Dim(3, name="feat")

    def numbers():
        rf.set_random_seed(7)
        run()
        return rf.random_normal([feat]).raw_tensor.tolist()

    undisturbed = numbers()
    rf.pause_when("after.n > 1")
    with user(lambda paused: (rf.random_normal([feat]), Resume())[1]):
        assert numbers() == undisturbed
