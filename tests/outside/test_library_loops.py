"""Loops of libraries that rfnb does not depend on are recorded, and give the same results, bit for bit."""

from __future__ import annotations

import inspect

import pytest

import rfnb as rf
from tests.outside.library_loops import LOOPS, TRAINING, UNSET, _fit, _lit_model
from tests.trace.plain.snapped import check, is_equal, swapped
from tests.trace.plain.test_record_loops import problems as problems, recorded, result_of, steps_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("problems")]


@pytest.mark.parametrize("name", LOOPS)
def test_it_is_recorded_and_gives_the_same(name):
    packages, make = LOOPS[name]
    for package in packages:
        pytest.importorskip(package)
    functions, loop = make()
    expected = result_of(loop)
    got, loops = recorded(loop, *(inspect.unwrap(function).__code__.co_filename for function in functions))
    assert steps_of(loops) > 0 and is_equal(got, expected)
    if name not in TRAINING:
        with swapped(functions) as copies:
            assert is_equal(result_of(loop), expected)
        assert check(loops, copies, UNSET) > 0


def test_calls_of_a_training_step():
    pytest.importorskip("lightning")
    kind = _lit_model()
    with rf.record_calls(kind.training_step):
        losses, _ = _fit(kind())
    run = rf.runs["training_step"]
    assert run.steps == len(losses) == 8 and [run[i].loss.item() for i in range(8)] == losses
    assert run[3]["self.losses"].tolist() == pytest.approx(losses[:4])
