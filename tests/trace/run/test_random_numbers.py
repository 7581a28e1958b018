"""Functions beside a training draw random numbers of their own: the training draws what it would have drawn."""

from __future__ import annotations

import random
import timeit

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.trace.run.random_numbers import OwnNumbers, uses_torch_only, with_own_numbers
from tests.trace.holding import (
    no_pauses,  # noqa: F401, an autouse fixture
    user,
)

DRAWS = {
    "torch": lambda *_: torch.rand(1).item(),
    "rf": lambda *_: rf.random_uniform([]).item(),
    "numpy": lambda *_: float(np.random.rand()),
    "numpy, two at a time": lambda *_: float(np.random.randn()),
    "python": lambda *_: random.random(),
    "python, two at a time": lambda *_: random.gauss(0, 1),
    "seeds": lambda *_: (torch.manual_seed(1), np.random.seed(2), random.seed(3), torch.rand(1).item())[-1],
    "a permutation": lambda *_: float(torch.randperm(9)[0]),
}


def of_training() -> list[float]:
    """Numbers of a training that uses all generators."""
    return [draw() for name, draw in DRAWS.items() if name != "seeds"]


def seeded(step=lambda: None) -> list[float]:
    """The numbers of a training in which `step` runs between them."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    numbers = of_training()
    for _ in range(3):
        step()
        numbers += [*of_training(), float(np.random.randn()), random.gauss(0, 1)]
    return numbers


def loop_with(body=lambda h: h, steps=4) -> rf.Loop:
    loop = rf.Loop(max_seq_len=steps, name="halves", debug=True)
    loop.state.h = rf.ones([])
    with loop:
        h = body(loop.state.h * 0.5)
        loop.state.h = h + 0.0
    return loop


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_function_draws_others_and_the_training_the_same(draw):
    expected = seeded(loop_with)
    seen: list[float] = []

    def look(*_):
        seen.append(draw())
        return False

    places = {
        "condition": lambda: (rf.pause_when(look, loop="halves"), loop_with(), rf.pauses.clear()),
        "find": lambda: loop_with().run.find(look),
        "made condition": lambda: loop_with().run.next(rf.when.Condition("odd", look)),
        "watch": lambda: loop_with(lambda h: rf.watch(h, steps=look)),
    }
    for name, place in places.items():
        seen.clear()
        assert seeded(place) == expected, name
        first = seen.copy()
        seeded(place)
        assert seen == [*first, *first]
        assert len(set(first)) > 1 or draw is DRAWS["seeds"], f"{name}: the numbers go on"


def test_a_condition_that_is_a_draw_of_torch_is_a_condition():
    expected = seeded(loop_with)
    pause = rf.pause_when(lambda at: torch.rand(1) > 0.5, loop="halves")
    with user() as seen:
        assert seeded(loop_with) == expected
    assert pause.error is None
    assert 0 < len(seen) < 12
    with user() as again:
        rf.pauses.clear()
        rf.pause_when(lambda at: torch.rand(1) > 0.5, loop="halves")
        seeded(loop_with)
    assert again == seen


def test_conditions_on_plain_code_and_probes():
    def train(probe_draws=None, condition=None):
        rf.pauses.clear()
        if condition is not None:
            rf.pause_when(condition, loop="training")
        drawn = []
        probe = rf.probe(lambda: drawn.append(probe_draws()), every=1) if probe_draws else None
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        numbers = []
        for _ in rf.progress(range(3)):
            numbers += of_training()
        if probe is not None:
            probe.stop()
        return numbers, drawn

    expected, _ = train()
    for draw in DRAWS.values():
        seen = []
        assert train(condition=lambda at, draw=draw, seen=seen: bool(seen.append(draw())))[0] == expected
        numbers, drawn = train(draw)
        assert numbers == expected
        assert len(drawn) == 3
        if draw is not DRAWS["seeds"]:
            assert len(set(drawn)) > 1
            assert len(set(seen)) > 1


def test_functions_in_the_body_that_draw_when_steps_are_computed_again():
    def noisy():
        return loop_with(lambda h: rf.raw_call(lambda raw: raw + torch.rand(()) + np.random.rand(), h, out_dims=[]))

    expected = seeded(noisy)
    assert seeded(lambda: noisy().run.find(rf.when.over(9, "h"))) == expected
    assert seeded(lambda: noisy().run.fork(1, h=0.0)) == expected
    rf.pause_when("h > 100", loop="halves")
    assert seeded(noisy) == expected


def test_a_function_that_raises_leaves_the_numbers_as_they_were():
    def fails():
        torch.rand(1)
        raise ValueError("no")

    def step():
        with pytest.raises(ValueError, match="no"):
            with_own_numbers(lambda: (random.random(), fails()))()

    assert seeded(step) == seeded()


def test_blocks_inside_of_each_other():
    numbers = OwnNumbers()

    def step():
        with numbers:
            torch.rand(3)
            with numbers, OwnNumbers():
                of_training()
            of_training()

    assert seeded(step) == seeded()


def helper(at):
    return random.random() > 0.5


LIMIT = 3
TORCH_ONLY = {
    "nothing": (lambda at: at.step == 5, True),
    "a number": (lambda at: at.step > LIMIT, True),
    "torch": (lambda at: torch.rand(1) > 0.5, True),
    "dropout": (lambda at: torch.nn.functional.dropout(at.h).sum() > 0, True),
    "numpy without random": (lambda at: any(np.isnan(x) for x in at.h), True),
    "numpy": (lambda at: np.random.rand() > 0.5, False),
    "python": (lambda at: random.random() > 0.5, False),
    "inside": (lambda at: [random.random() for _ in range(3)], False),
    "another function": (helper, False),
    "one that calls it": (lambda at: helper(at), False),
    "default": (lambda at, test=helper: test(at), False),
    "import": (lambda at: __import__("random").random(), False),
    "no function": (print, False),
}


@pytest.mark.parametrize("name", TORCH_ONLY)
def test_which_functions_draw_from_torch_alone(name):
    fn, expected = TORCH_ONLY[name]
    assert uses_torch_only(fn) == expected


def test_which_functions_with_imports_and_variables_draw_from_torch_alone():
    def imports(at):
        from random import random as other

        return other() > 0.5

    limit, module, function = 3, random, helper
    assert not uses_torch_only(imports)
    assert uses_torch_only(lambda at: at.step > limit)
    assert not uses_torch_only(lambda at: module.choice([True]))
    assert not uses_torch_only(lambda at: function(at))
    if limit > 3:
        later = 1
    assert not uses_torch_only(lambda at: later)


def test_it_costs_a_few_microseconds_where_torch_is_all_that_draws():
    def plain():
        return torch.get_rng_state()

    numbers = OwnNumbers(lambda at: at.step == 5)

    def own():
        with numbers:
            pass

    own()
    best = [min(timeit.repeat(fn, number=200, repeat=5)) for fn in (plain, own)]
    assert best[1] < 30 * best[0], "one read of the state takes about 0.8 µs"
