"""A paused loop works for the panel until the user lets it go on, or no panel is there any more."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
import torch

import rfnb as rf
from rfnb.display.panel import paused as paused_module
from rfnb.display.panel.commands import Dispatcher
from rfnb.display.panel.paused import edit_paused, edited, holder, pause_at, paused_now, resume
from rfnb.errors import RfError, ViewError
from rfnb.trace.pause import Paused, Resume
from rfnb.trace.run.runs import runs
from tests.trace.holding import user


def paused(step: int = 2) -> Paused:
    source = SimpleNamespace(cell_id="c1")
    return Paused(SimpleNamespace(serial=7, name="decoder", source=source), step, "h > 1")


def held(*work) -> tuple[Resume, list[str], float]:
    """Holds a loop while another thread does the work; what it goes on with, the events, and after how long."""
    events: list[str] = []
    thread = threading.Thread(target=lambda: [each() for each in work])
    start = time.monotonic()
    thread.start()
    found = holder.hold(paused(), lambda event: events.append(event["event"]))
    thread.join()
    return found, events, time.monotonic() - start


def panel(command, *args, **options):
    """The panel sends a command, which the held thread does."""
    return lambda: holder.put(lambda: command(Dispatcher(runs), *args, **options))


@pytest.mark.parametrize(
    ("how", "step", "expected"),
    [
        ("step", None, Resume(3, (), "the next step")),
        ("continue", None, Resume(None, (), "the chosen step")),
        ("continue", 40, Resume(40, (), "the chosen step")),
        ("continue", 1, Resume(3, (), "the chosen step")),  # it cannot go back
    ],
)
def test_how_it_goes_on(how, step, expected):
    assert held(panel(resume, how, step))[:2] == (expected, ["paused", "resumed"])


def test_without_a_panel_it_goes_on_without_further_pauses(monkeypatch):
    monkeypatch.setattr(rf.options, "pause_timeout", 0.2)
    found, _, seconds = held()
    assert found == Resume(mute=True) and 0.2 <= seconds < 5


def test_a_panel_that_is_there_and_asks_nothing_else_keeps_it_paused(monkeypatch):
    monkeypatch.setattr(rf.options, "pause_timeout", 0.4)
    monkeypatch.setattr(paused_module, "WAIT", 0.05)
    asked = []

    def watch() -> None:
        for _ in range(12):
            time.sleep(0.1)
            asked.append(paused_now(Dispatcher(runs)))  # as another thread than the one that is held

    found, _, seconds = held(watch, panel(resume, "continue"))
    assert not found.mute and seconds >= 1.2 and {view["step"] for view in asked} == {2}
    assert paused_now(Dispatcher(runs)) is None


def test_a_loop_that_is_not_paused_does_not_go_on():
    with pytest.raises(ViewError, match="no loop is paused now"):
        resume(Dispatcher(runs), "continue")


@pytest.mark.parametrize(
    ("text", "sequence", "expected"), [("5", 1, [12, 20]), ("· 5", None, [12, 20]), ("5", None, [20, 20])]
)
def test_only_the_entries_that_an_edit_changes_are_constants(monkeypatch, text, sequence, expected):
    w = rf.Parameter([], initial=2.0)

    def answer(held):
        if held.step == 0:
            monkeypatch.setattr(holder, "paused", held)
            edit_paused(Dispatcher(runs), held.run.serial, {"h": text}, sequence)
        return Resume()

    loop = rf.Loop(max_seq_len=3, name="powers", debug=True)
    loop.state.h = rf.convert_to_tensor([1.0, 1.0], dims=[rf.batch_dim])
    with user(answer), loop:
        rf.pause()
        loop.state.h = loop.state.h * w
    found = [torch.autograd.grad(h, w.raw_tensor, retain_graph=True)[0].item() for h in loop.state.h.raw_tensor]
    assert found == expected


@pytest.mark.parametrize(
    ("dtype", "text"), [("int32", "1.5"), ("int32", "1e20"), ("int32", "nan"), ("uint8", "300"), ("bool", "2")]
)
def test_what_the_dtype_of_a_state_cannot_hold_is_refused(dtype, text):
    with pytest.raises(ViewError, match="cannot hold"):
        edited(rf.zeros([], dtype=dtype), text, {})
    assert edited(rf.zeros([rf.Dim(2, name="two")], dtype=dtype), "· 1", {}).tolist() == [0, 1]


def test_a_variable_of_a_plain_loop_is_edited_by_a_text_or_an_expression(monkeypatch):
    rows, refused = [], []

    def answer(held):
        monkeypatch.setattr(holder, "paused", held)
        if held.step == 1:
            for text in ("h * (", "1 2 3", "1.5.2"):
                with pytest.raises(RfError) as caught:
                    edit_paused(Dispatcher(runs), held.run.serial, {"h": text})
                refused.append(str(caught.value))
            edit_paused(Dispatcher(runs), held.run.serial, {"h": "· 5", "word": "edited", "n": "7"})
            rows.append(held.run[1].h.raw_tensor.tolist())
        else:
            edit_paused(Dispatcher(runs), held.run.serial, {"h": "h * 0"})
        return Resume()

    condition = rf.pause_when("t > 0 and n > 0 and h[0] > 0")
    with user(answer):
        h = torch.ones(2)
        for t in rf.steps(range(3), name="plain"):
            word = "as it was"
            n = t
            h = h + h
            if t == 1:
                assert (word, n) == ("edited", 7)
    condition.remove()
    assert rows == [[4.0, 5.0]] and h.tolist() == [0.0, 0.0] and len(refused) == 3
    assert rf.runs["plain"].flags == ["edited at step 1: h, word, n", "edited at step 2: h"]


def decode():
    h = torch.zeros(2)
    for t in rf.steps(range(6), name="decoder"):
        x = torch.full((2,), float(t // 2))
        h = h + x
        y = h * 2
    return y


@pytest.mark.parametrize(
    ("kind", "offset", "expected"),
    [
        ("changes", 3, [(2, 3, ["t", "x"]), (4, 3, ["t", "x"])]),
        ("changes", 4, [(t, 4, ["t", "x", "h"]) for t in (2, 3, 4, 5)]),
        ("over", 4, [(t, 4, ["t", "x", "h"]) for t in (4, 5)]),
        ("expression", None, [(3, 2, ["t"])]),
    ],
)
def test_a_marked_line_of_a_plain_loop_pauses_at_the_line(kind, offset, expected):
    first, seen = decode.__code__.co_firstlineno, []

    def look(held):
        seen.append((held.step, held.line - first, [value.name for value in held.run[held.step].values()]))
        return Resume()

    decode()
    loop = rf.runs["decoder"].loop
    line = None if offset is None else first + offset
    where = {"kind": kind, "line": line, "limit": 3.0, "name": None, "text": "t == 3"}
    pause_at(Dispatcher(runs), "decoder", loop, [where])
    with user(look):
        decode()
    pause_at(Dispatcher(runs), "decoder", loop, [])
    assert seen == expected


def test_a_pause_says_which_states_of_a_plain_loop_cannot_be_edited(monkeypatch):
    told = []

    def look(held):
        monkeypatch.setattr(holder, "paused", held)
        told.append((held.run.states, paused_module.describe(held)["locked"]))
        edit_paused(Dispatcher(runs), held.run.serial, {"numbers": "7 8"})
        return Resume()

    class Model:
        h = torch.ones(2)

        def __call__(self, w, numbers):
            for t in rf.steps(range(3), name="plain"):
                self.h = self.h + t
                w = w if t < 9 else w + t
                numbers = [number + 1 for number in numbers]
                x = self.h * 2  # noqa: F841
            return numbers

    condition = rf.pause_when("t == 1 and x[0] > 0", loop="plain")
    with user(look):
        assert Model()(torch.nn.Parameter(torch.ones(2)), [1, 2]) == [8, 9]
    condition.remove()
    [(states, locked)] = told
    assert set(states) - set(locked) == {"numbers"}
    assert "attribute" in locked["self.h"] and "a parameter" in locked["w"]
