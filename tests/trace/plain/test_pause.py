# ruff: noqa: F841, B007
"""Loops of plain Python pause at the line that makes a condition true, and go on as if they had not."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopWarning
from rfnb.trace.pause import Paused, Resume
from rfnb.trace.plain.pause import names_read, root
from tests.trace.holding import no_pauses as no_pauses, user
from tests.trace.plain.test_record import run_text
from tests.trace.test_pause import run as counting


class Looks:
    """A user who looks at the last values of each pause, and then lets the loop go on."""

    def __init__(self, *answers: Resume):
        self.answers, self.seen = list(answers), []

    def __call__(self, paused: Paused) -> Resume:
        at = paused.run[paused.step]
        self.seen.append((paused.run.name, paused.step, paused.line, [value.name for value in at.values()]))
        return self.answers.pop(0) if self.answers else Resume()


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


weights_of_last: list[torch.Tensor] = []


def train(bad: int | None = None, steps: int = 6, name: str | None = "training"):
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    weights_of_last[:] = model.parameters()
    for i in rf.steps(range(steps), name=name):
        x = torch.randn(4, 3) * (float("nan") if i == bad else 1)
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_the_pause_is_at_the_line_that_made_the_value():
    looks = Looks(Resume(stop=True))
    rf.pause_when(rf.when.not_finite("loss"), loop="training")
    with user(looks), pytest.raises(KeyboardInterrupt, match="was stopped while it was paused after step 3"):
        train(bad=3)
    assert looks.seen == [("training", 3, line_of(train, "loss = "), ["i", "x", "loss"])]
    run = rf.runs["training"]
    assert run.failed.step == 3 and run.steps == 3 and run[3].loss.raw_tensor.isnan()
    assert [parameter.isfinite().all().item() for parameter in weights_of_last] == [True, True]


def test_all_iterations_so_far_are_there():
    losses = []

    def look(paused):
        losses.append([at.loss.item() for at in paused.run])
        return Resume()

    rf.pause_when("i == 4 and loss > 0")
    with user(look) as seen:
        train()
    assert [step for step, _ in seen] == [4]
    assert len(losses[0]) == 5 and losses[0] == [at.loss.item() for at in rf.runs["training"]][:5]


def test_a_condition_on_several_variables_waits_for_their_new_values():
    looks = Looks()
    rf.pause_when("t >= 2 and n > 3")
    with user(looks):
        for t in rf.steps(range(4), name="both"):
            if t % 2:
                n = 10 * t
    assert [(step, names) for _, step, _, names in looks.seen] == [(2, ["t"]), (3, ["t", "n"])]


def test_a_condition_pauses_once_in_an_iteration():
    rf.pause_when("n > 3")
    with user() as seen:
        for t in rf.steps(range(3), name="twice"):
            n = 2 * t
            n = n + 2
            n = n + 1
    assert [step for step, _ in seen] == [1, 2]


@pytest.mark.parametrize("where", ["i >= 0", rf.when.over(0.0, "loss"), lambda at: at.loss.item() > 0])
def test_what_is_computed_is_the_same_bit_for_bit(where):
    undisturbed = train()
    rf.pause_when(where)
    with user(lambda paused: (paused.run[paused.step].values(), torch.randn(3), Resume())[-1]) as seen:
        found = train()
    assert len(seen) == 6
    assert all(map(torch.equal, found, undisturbed))


def test_gradients_through_a_paused_loop_are_the_same():
    def gradient():
        w = torch.eye(3, requires_grad=True)
        h = torch.ones(3)
        for t in rf.steps(range(4)):
            h = torch.tanh(h @ w + t)
        h.sum().backward()
        return w.grad

    undisturbed = gradient()
    rf.pause_when(rf.when.over(0.5, "h"))
    with user() as seen:
        assert torch.equal(gradient(), undisturbed)
    assert len(seen) == 4


def in_a_method():
    class Decoder:
        def __init__(self):
            self.n = 0

        def run(self):
            for t in range(4):
                self.n += t
                n = self.n

    return Decoder().run


def in_a_nested_function():
    total = 0

    def add():
        nonlocal total
        for t in range(4):
            total += t
            n = total

    return add


def without_gradients():
    with torch.no_grad():
        for t in range(4):
            n = torch.tensor(t * 2.0)


def in_inference_mode():
    with torch.inference_mode():
        for t in range(4):
            n = torch.tensor(t * 2.0)


def endless():
    t = -1
    while True:
        t += 1
        n = 2 * t
        if t == 3:
            break


def with_tests():
    t = 0
    while t < 4:
        n = 2 * t
        t = t + 1


def returning():
    for t in range(9):
        n = 2 * t
        if n > 5:
            return n


@pytest.mark.parametrize(
    "program",
    [
        in_a_method,
        in_a_nested_function,
        without_gradients,
        in_inference_mode,
        endless,
        with_tests,
        returning,
    ],
)
@pytest.mark.parametrize("where", ["t == 2", "n >= 3", rf.when.over(2.5, "n"), lambda at: at.n.item() > 2.5])
def test_everywhere(program, where):
    program = program() if program.__name__.startswith("in_a_") else program
    run = []
    rf.pause_when(where)
    with user(lambda paused: (run.append(paused.run), Resume())[1]) as seen, rf.record_loops(program):
        program()
    assert [step for step, _ in seen] == ([2 if program is not with_tests else 1] if where == "t == 2" else [2, 3])
    assert run[0] is rf.runs[0] and run[0].steps == 4


def test_in_one_line(tmp_path):
    rf.pause_when("n >= 3")
    with user() as seen:
        run_text("for t in rf.steps(range(4)): n = 2 * t", tmp_path / "short.py")
    assert [step for step, _ in seen] == [2, 3]


def test_at_the_level_of_a_cell(tmp_path):
    text = "for t in rf.steps(range(4), name='cell'):\n    n = 2 * t\n    m = n\n"
    looks = Looks(Resume(until=3))
    rf.pause_when("n == 4")
    with user(looks):
        run_text(text, tmp_path / "cell.py")
    assert looks.seen == [("cell", 2, 2, ["t", "n"]), ("cell", 3, None, ["t", "n", "m"])]


def test_it_goes_on_step_by_step_to_a_step_and_to_a_condition():
    looks = Looks(
        Resume(until=3, why="the next step"), Resume(tests=(rf.when.over(5.5, "h"),), why="a match"), Resume(mute=True)
    )
    rf.pause_when("t == 2")
    rf.pause_when("t == 8")
    with user(looks):
        for t in rf.steps(range(10)):
            h = float(t)
    assert [(step, names) for _, step, _, names in looks.seen] == [(2, ["t"]), (3, ["t", "h"]), (6, ["t", "h"])]
    assert h == 9.0


def test_a_pause_that_is_asked_for_is_at_the_next_line():
    rf.pauses.ask("the button")
    looks = Looks()
    with user(looks) as seen:
        for t in rf.steps(range(3), name="asked"):
            n = t
            m = n
            if t == 1 and not seen[1:]:
                rf.pauses.ask()
    assert [(step, names) for _, step, _, names in looks.seen] == [(0, ["t", "n"]), (1, ["t", "n", "m"])]


@pytest.mark.parametrize("loop", [None, "inner", "outer"])
def test_the_innermost_loop_that_has_the_names_pauses(loop):
    looks = Looks()
    rf.pause_when("h > 3 and t >= 0", loop=loop)
    with user(looks):
        for t in rf.steps(range(3), name="outer"):
            for n in rf.steps(range(2), name="inner"):
                h = 10 * t + n
            last = h
    steps = [(name, step) for name, step, _, _ in looks.seen]
    inside = [("inner", 0), ("inner", 1)] * 2
    assert steps == ([("outer", 1), ("outer", 2)] if loop == "outer" else inside)
    assert last == 21


def test_a_loop_of_rfnb_in_a_plain_loop_pauses_as_ever():
    rf.pause_when("after.n > 3", loop="counting")
    with user() as seen:
        for _ in rf.steps(range(2)):
            counting(2)
    assert seen == [(1, "after.n > 3")] * 2


def test_nothing_remains_of_a_stopped_loop_and_the_next_is_recorded():
    rf.pause_when("t == 1")
    with user(lambda paused: Resume(stop=True)):
        for name in ("first", "second"):
            with pytest.raises(KeyboardInterrupt):
                for t in rf.steps(range(3), name=name):
                    h = t
    assert [rf.runs[name].failed.step for name in ("first", "second")] == [1, 1]


def test_a_stop_that_is_caught_does_not_break_the_program():
    rf.pause_when("total == 1")

    def caught():
        total = 0
        for t in range(3):
            try:
                total += t
                n = total
            except KeyboardInterrupt:
                total += 100
        return total

    with user(lambda paused: Resume(stop=True)), rf.record_loops(caught):
        assert caught() == 103
    rf.pauses.clear()
    with rf.record_loops(caught):
        assert caught() == 3
    assert rf.runs["caught"].steps == 3


def test_without_a_panel_there_is_one_warning_and_a_file():
    rf.pause_when(rf.when.over(0.5, "h"))
    with pytest.warns(LoopWarning, match="no panel is connected; its run is in a file") as told:
        for t in rf.steps(range(4), name="script"):
            h = torch.full((2,), float(t))
    assert len(told) == 1
    [path] = rf.options.pause_folder.glob("*.rfrun")
    assert rf.load_run(path)[1].h.raw_tensor.tolist() == [1.0, 1.0]
    assert rf.runs["script"].steps == 4


def test_a_condition_on_names_that_a_loop_lacks_is_false_and_told():
    pause = rf.pause_when("loss > 1")
    for t in rf.steps(range(3), name="other"):
        h = t
    assert pause.error is None
    assert rf.pauses.cell_ended() == [
        "pause when loss > 1 was evaluated at 3 steps, and never true (other assigns no loss)"
    ]


def test_a_text_where_a_condition_expects_numbers_is_not_an_error():
    pause = rf.pause_when(rf.when.over(1, "h"))
    with user() as seen:
        for t in rf.steps(range(3)):
            h = "none" if t < 2 else torch.ones(2) * t
    assert pause.error is None and [step for step, _ in seen] == [2]


def test_a_run_that_paused_is_let_go():
    rf.pause_when("t == 1")
    with user():
        held = kept_by_nothing()
    rf.runs.clear()
    gc.collect()
    assert held() is None


def kept_by_nothing():
    for t in rf.steps(range(3)):
        h = torch.ones(3)
    return weakref.ref(h)


def test_what_a_condition_reads():
    assert names_read("before.h > x.y and rf.reduce_any(z, axis=z.dims)") == {"h", "before", "x", "z"}
    assert names_read("torch.isnan(loss).any() or float(t) > max(n, 2)") == {"loss", "t", "n"}
    assert names_read(rf.when.changes("h.0")) == {"h.0"} and root("h.0") == root("h[0]") == root("h") == "h"
    assert names_read(rf.when.ends()) is names_read(lambda at: True) is None


def test_a_loop_that_runs_has_no_last_step():
    rf.pause_when(rf.when.ends())
    rf.pause_when(lambda at: at.run.size.max == at.step + 1)
    with user() as seen:
        for _t in rf.steps(range(3)):
            pass
    assert seen == []
    assert [sentence[-10:] for sentence in rf.pauses.cell_ended()] == ["never true"] * 2


def test_a_condition_in_the_functions_of_torch():
    rf.pause_when("torch.isnan(loss).any() and float(t) > 2")
    with user() as seen:
        for t in rf.steps(range(5)):
            loss = torch.log(torch.tensor([-1.0, t]))
    assert [step for step, _ in seen] == [3, 4]
