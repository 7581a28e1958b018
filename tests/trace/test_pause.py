"""Conditions under which loops pause."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.errors import ExpressionError, LoopError, LoopWarning, ParameterError
from rfnb.trace.pause import Resume, end_of_script
from tests.trace.holding import no_pauses as no_pauses, user


def run(steps: int = 3, name: str = "counting", **options) -> rf.Run:
    loop = rf.Loop(max_seq_len=steps, name=name, debug=True, **options)
    loop.state.n = rf.convert_to_tensor(1)
    with loop:
        loop.state.n = loop.state.n * 2
    return loop.run


@pytest.mark.parametrize("where", [3, None, ["n > 1"]])
def test_pause_when_rejects_what_is_not_a_condition(where):
    with pytest.raises(ParameterError, match="must be an expression, a function"):
        rf.pause_when(where)
    assert len(rf.pauses) == 0


@pytest.mark.parametrize("loop", [3, b"counting", ["counting"]])
def test_pause_when_rejects_what_is_not_the_name_of_a_loop(loop):
    with pytest.raises(ParameterError, match="the name of a loop"):
        rf.pause_when("n > 1", loop=loop)
    assert len(rf.pauses) == 0


@pytest.mark.parametrize("where", [lambda: True, lambda a, b: True])
def test_a_condition_takes_the_step(where):
    with pytest.raises(LoopError, match="does not take one argument, the step"):
        rf.pause_when(where)
    with pytest.raises(LoopError, match="does not take one argument, the step"):
        run().find(where)
    assert len(rf.pauses) == 0
    assert run().find(lambda at, *others: True) == [0, 1, 2]


def test_pause_when_rejects_an_expression_that_cannot_be_read():
    with pytest.raises(ExpressionError):
        rf.pause_when("n >")
    assert len(rf.pauses) == 0


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("n > 1 or reduce_max(abs(h), axis=h.dims) > 3", "rf.reduce_max(…)"),
        ("rf.reduce_max(rf.abs(h.maxx()), axis=h.dims) > 3", "did you mean max?"),
        ("rf.reduce_maxx(h, axis=h.dims) > 3", "did you mean reduce_max?"),
    ],
)
def test_pause_when_rejects_at_once_a_function_that_there_is_not(where, hint):
    with pytest.raises(ExpressionError) as caught:
        rf.pause_when(where)
    assert caught.value.hint == hint and len(rf.pauses) == 0


def test_a_cell_that_runs_again_replaces_its_conditions():
    for limit in (1, 2):
        code = f'for name in "mn":\n    rf.pause_when(rf.when.over({limit}, name))'
        exec(compile(code, "cell", "exec"), {"rf": rf})
    assert [repr(pause) for pause in rf.pauses] == ["pause when |m| is over 2", "pause when |n| is over 2"]
    for _ in range(2):
        rf.pause_when("n > 1")
    assert len(rf.pauses) == 3


def test_conditions_are_for_one_loop_or_for_all():
    one, every = rf.pause_when("n > 1", loop="counting"), rf.pause_when("n > 2")
    assert rf.pauses.of("counting") == [one, every]
    assert rf.pauses.of("other") == [every]
    one.remove()
    assert list(rf.pauses) == [every]


def test_a_condition_that_raises_is_shown_once_and_then_off():
    def fails(at):
        raise ZeroDivisionError("by design")

    pause = rf.pause_when(fails)
    with pytest.warns(LoopWarning, match=r"the condition 'fails' failed in step 0 .*by design") as told:
        assert run().steps == 3
    assert len(told) == 1
    assert isinstance(pause.error, ZeroDivisionError)
    assert rf.pauses.of("counting") == []


class Unreadable(Exception):
    """An error that cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


def test_a_condition_whose_error_cannot_be_read_is_shown_too():
    def fails(at):
        raise Unreadable

    pause = rf.pause_when(fails)
    with pytest.warns(LoopWarning, match="Unreadable: .its message cannot be shown.") as told:
        assert run().steps == 3
    assert len(told) == 1
    assert isinstance(pause.error, Unreadable)


def test_a_test_of_the_panel_that_fails_is_shown_once_and_the_loop_goes_on():
    def fails(at):
        raise Unreadable

    answers = iter([Resume(tests=(fails,))])
    rf.pause_when("after.n == 2")
    with user(lambda paused: next(answers)) as seen, pytest.warns(LoopWarning, match="Unreadable") as told:
        assert run(5).steps == 5
    assert len(seen) == len(told) == 1


def test_a_loop_that_fails_with_an_unreadable_error_shows_its_class():
    def fails(raw):
        raise Unreadable

    loop = rf.Loop(max_seq_len=3, name="fails", debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with pytest.raises(Unreadable), loop:
        loop.state.n = rf.raw_call(lambda raw: fails(raw) if raw > 1 else raw + 1, loop.state.n, out_dims=[])
    assert "Unreadable" in rf.show(rf.runs["fails"]).text


@pytest.mark.parametrize("where", ["loss > 1", rf.when.not_finite("loss"), lambda at: at.loss.item() > 1])
def test_a_loop_without_the_name_that_a_condition_uses_goes_on(where):
    pause = rf.pause_when(where)
    run()
    assert pause.error is None
    [told] = rf.pauses.cell_ended()
    assert "never true (" in told
    assert "loss" in told


def test_a_result_that_is_not_a_bool_turns_a_condition_off():
    pause = rf.pause_when(lambda at: at.after.n)
    with pytest.warns(LoopWarning, match="not a bool"):
        run()
    assert pause.error is not None


def test_what_was_never_true_is_told_when_the_cell_ends():
    rf.pause_when("after.n > 99", loop="counting")
    run()
    assert rf.pauses.cell_ended() == ["pause when after.n > 99 in 'counting' was evaluated at 3 steps, and never true"]
    assert rf.pauses.cell_ended() == []


def test_a_misspelt_name_of_a_loop_is_told_when_the_cell_ends():
    rf.pause_when("after.n > 1", loop="couting")
    rf.pause_when("after.n > 1", loop="decoder")  # perhaps of a later cell
    run()
    [told] = rf.pauses.cell_ended()
    assert told == "pause when after.n > 1 in 'couting': no loop with this name ran, did you mean 'counting'?"


def test_a_condition_that_no_loop_met_is_named_once():
    rf.pause_when("t == 5")
    rf.pause_when("h > 1", loop="decoder")
    assert rf.pauses.cell_ended() == []  # perhaps for a later cell
    way_out = "Plain Python loops are recorded by `for … in rf.steps(…):` or `with rf.record_loops():`"
    assert rf.pauses.cell_ended() == [
        f"pause when t == 5: no loop ran that is recorded. {way_out}",
        f"pause when h > 1 in 'decoder': no loop ran that is recorded. {way_out}",
    ]
    assert rf.pauses.cell_ended() == []
    run()
    [told] = rf.pauses.cell_ended()
    assert told.startswith("pause when t == 5 was evaluated at 3 steps, and never true")
    assert rf.pauses.cell_ended() == []


def test_a_condition_is_named_by_the_cell_that_made_it_if_that_has_a_loop():
    rf.pause_when("t == 5")
    rf.pause_when("h > 1", loop="decoder")
    run()
    told = rf.pauses.cell_ended(has_loop=True)
    assert "evaluated at 3 steps" in told[0] and "no loop with this name ran, but 'counting'." in told[1]


def test_the_end_of_a_script_names_what_no_loop_could_test(capsys):
    rf.pause_when("after.n > 99")
    rf.pause_when("after.m > 99")
    rf.pause_when("n > 1", loop="couting")
    run()
    end_of_script()
    misspelt, loop = capsys.readouterr().err.splitlines()
    assert misspelt.startswith("pause when after.m > 99 was evaluated at 3 steps, and never true (")
    assert loop == "pause when n > 1 in 'couting': no loop with this name ran, did you mean 'counting'?"


def test_a_pause_that_was_asked_for_waits_for_the_next_loop():
    rf.pauses.ask()
    rf.pauses.cell_ended()
    with user() as seen:
        run()
    assert seen == [(0, "asked for in the panel")]
    rf.pauses.ask()
    rf.pauses.mute()
    with user() as seen:
        run()
    assert seen == []


def test_nothing_is_recorded_for_a_loop_without_a_condition():
    rf.pause_when("after.n > 99", loop="other")
    loop = rf.Loop(max_seq_len=2, name="counting")
    loop.state.n = rf.convert_to_tensor(1)
    with rf.recording(False), loop:
        loop.state.n = loop.state.n * 2
    assert loop.run is None
