"""Searches the recorded steps of a run for a condition, without running the loop again."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.expression.expression import Expression, Names
from rfnb.core.ground.backends import BACKENDS
from rfnb.core.ground.source import warn
from rfnb.core.ground.text import number_of
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import ExpressionNameError, LoopError, LoopNameError
from rfnb.trace.run.entries import numbers
from rfnb.trace.run.names import evaluate, known_functions, own_functions
from rfnb.trace.run.random_numbers import with_own_numbers
from rfnb.trace.run.variables import LostValue, NoValue, TypeOnly, variable_names

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep

NO_LONGER = "whose values are no longer kept"

Where = Callable[["RunStep"], object] | str


def search(run: Run, where: Where, steps: Iterable[int]) -> Iterator[int]:
    """Yields the steps where `where` holds, among those that are kept. Each step is recomputed at most once.

    Warns of steps whose values are no longer kept. In the step that failed, a condition on a value that it did not get
    to does not hold; a variable of plain Python still has the value of the step before.
    """
    test, lost, of_types = test_of(where), list[int](), list[int]()
    for step in steps:
        in_use = [run[i] for i in (step - 1, step) if i >= 0]  # a step keeps its values as long as it is referenced
        try:
            holds = is_kept(in_use[-1]) and truth(of_step(test, in_use[-1]), where, step)
        except LostValue:
            lost.append(step)
            continue
        except TypeOnly:
            of_types.append(step)
            continue
        if holds:
            _warn_of(lost, run, where, NO_LONGER)
            yield step
    _warn_of(lost, run, where, NO_LONGER)
    _warn_of(of_types, run, where, "where only the type of a value was kept")


def steps_begun(run: Run) -> int:
    """Number of steps computed, including a failed one."""
    return run.steps + (run.failed is not None and run.failed.step == run.steps)


def of_step(test: Callable[[RunStep], object], at: RunStep) -> object:
    """The result of a condition; False in a step that failed before it had the values that are named.

    Raises ExpressionNameError or LoopNameError for a name that the step before it does not have either.
    """
    try:
        return test(at)
    except (LostValue, TypeOnly):
        raise
    except (ExpressionNameError, LoopNameError):
        if not 0 < at.step == at.run.steps:
            raise
        earlier = at.run[at.step - 1]
        if is_kept(earlier):
            test(earlier)
        return False


def _warn_of(lost: list[int], run: Run, where: Where, reason: str) -> None:
    """Warns of steps where a condition could not be tested, and empties the list."""
    if lost:
        steps = f"step {lost[0]}" if len(lost) == 1 else f"{len(lost)} steps from {min(lost)} to {max(lost)}"
        lost.clear()
        warn(f"{run.name}: {_words(where)} could not be tested at {steps}, {reason}")


def _words(where: Where) -> str:
    return repr(where) if isinstance(where, str) else str(getattr(where, "words", getattr(where, "__name__", where)))


def is_kept(at: RunStep) -> bool:
    """Whether there are values of the step: plain Python code that is not recorded has those of its last steps only."""
    return bool(at.run.states or variable_names(at.run.replay) or at.values())


def sequence_number(run: Run, batch: int | str) -> int:
    """The number of the sequence given by number or tag. Raises LoopError if there is no such sequence."""
    if isinstance(batch, str):
        return number_of(batch, run.tags, run.name, LoopError)
    if not hasattr(batch, "__index__") or not run.batch or not -run.batch <= batch < run.batch:
        expected = f"0 … {run.batch - 1}" if run.batch else "a run over several sequences"
        raise LoopError(f"{run.name}: there is no sequence {batch!r}", expected=expected)
    return operator.index(batch) % run.batch


def test_of(where: Where) -> Callable[[RunStep], object]:
    """A function that evaluates a condition at a step. Raises ExpressionError for an expression that cannot be read, or
    that calls a function that there is not, and LoopError for a function that does not take one argument.
    """
    if callable(where):
        if not takes_one(where):
            name = str(getattr(where, "__name__", type(where).__name__))
            raise LoopError(f"the condition {name} does not take one argument, the step", hint="lambda at: …")
        return with_own_numbers(where)
    expression = Expression(where)
    expression.check_calls(Names({}, known_functions(), own_functions))

    def test(at: RunStep) -> object:
        try:
            return evaluate(expression, at)
        except (LostValue, TypeOnly):
            raise
        except NoValue:
            return False

    return test


def takes_one(fn: Callable[..., object]) -> bool:
    """Whether a function can be called with one argument; True where its signature is not known."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def truth(result: object, where: Where, step: int, asked_by: str = "find") -> bool:
    """The result of a condition as a bool. Raises LoopError if it is something else."""
    if isinstance(result, bool | np.bool_):
        return bool(result)
    if isinstance(result, Tensor) and not result.dims and result.dtype == "bool":
        return bool(numbers(result))
    raw: RawTensor = result if isinstance(result, tuple(BACKENDS)) else None
    if raw is not None and math.prod(raw.shape) == 1 and str(raw.dtype).endswith("bool"):
        return bool(raw)
    any_of = "rf.reduce_any(…, axis=x.dims)" if callable(where) else f"({where}).any()"
    raise LoopError(
        f"{asked_by}: {getattr(where, '__name__', where)} is not a condition: its result at step {step} is not a bool",
        got=f"{result.dtype} {result.describe_dims()}" if isinstance(result, Tensor) else type(result).__name__,
        expected="True or False, or a Tensor {} bool",
        hint=any_of if isinstance(result, Tensor) and result.dtype == "bool" else None,
    )
