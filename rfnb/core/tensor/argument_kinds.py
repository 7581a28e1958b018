"""Kinds of arguments whose values are checked before a call, since a wrong one would give a result.

An op, or a public function that is `guarded`, declares them in its annotations, by one of the aliases at the end or by
a mark of its own. Other arguments cost nothing until a call fails; then `argument_errors` judges them.

>>> from typing import Annotated
>>> from rfnb.core.tensor.argument_kinds import OneOf, Probability
>>> @rf.op(name="example_of_kinds")
... def pooled(x: rf.Tensor, *, mode: Annotated[str, OneOf("max", "avg")], drop_prob: Probability = 0.0) -> rf.Tensor:
...     return x
>>> pooled(rf.ones([]), mode="maxi")
Traceback (most recent call last):
rfnb.errors.ParameterError: example_of_kinds: unknown `mode`
  got       'maxi'
  expected  'max' or 'avg'
  hint      did you mean 'max'?
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError

Check = Callable[[str, str, Any], None]
"""Takes the name of the function, that of the parameter, and the value. Raises ParameterError if it is wrong."""


@dataclass(frozen=True)
class InRange:
    """Numbers from `low` to `high`; None: without an end. The values of Tensors, on a device, are not read."""

    low: float
    high: float | None = None
    what: str = "a number"

    @property
    def expected(self) -> str:
        """The range in words."""
        return f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"

    def check(self, function: str, parameter: str, value: Any) -> None:
        """Raises ParameterError for a number outside of the range, NaN included."""
        if isinstance(value, int | float | np.number) and not (
            self.low <= value and (self.high is None or value <= self.high)
        ):
            raise ParameterError(
                f"{function}: `{parameter}` is not {self.what}", got=repr(value), expected=self.expected
            )


class OneOf:
    """One of a few strings, or a list of them. any_case: whether upper and lower case mean the same."""

    def __init__(self, *values: str, any_case: bool = False):
        self.values, self.any_case = values, any_case

    def check(self, function: str, parameter: str, value: Any) -> None:
        """Raises ParameterError for another string. Other types are judged after a call has failed."""
        for entry in value if isinstance(value, list | tuple) else (value,):
            name = entry.lower() if self.any_case and isinstance(entry, str) else entry
            if isinstance(entry, str) and name not in self.values:
                raise ParameterError(
                    f"{function}: unknown `{parameter}`",
                    got=repr(entry),
                    expected=" or ".join(map(repr, self.values)),
                    hint=did_you_mean(entry, self.values),
                )


class AnonymousText:
    """A string that is shown later, where nobody would know whom it is from."""

    def check(self, function: str, parameter: str, value: Any) -> None:
        """Raises ParameterError for what is not a string."""
        if not isinstance(value, str):
            raise ParameterError(
                f"{function}: `{parameter}` is not a string", got=type(value).__name__, expected="a string"
            )


class Floats:
    """Marks a Tensor that must have a float dtype, which is judged after a call has failed."""


Probability = Annotated[float, InRange(0.0, 1.0, "a probability")]
Count = Annotated[int, InRange(0, what="a number of times")]
Positive = Annotated[int, InRange(1, what="a positive number")]
Name = Annotated[str, AnonymousText()]
FloatTensor = Annotated[Tensor, Floats]


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the parameters; Any for those with names that only type checkers can resolve."""
    fn = inspect.unwrap(fn)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(fn, "__annotations__", {}).items():
        only_this = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= get_type_hints(only_this, fn.__globals__, include_extras=True)
        except Exception:  # whatever stands in an annotation of a user's function, its calls go on
            hints[name] = Any
    return hints


def checks_of(fn: Callable[..., Any]) -> dict[str, Check]:
    """The checks that calls of `fn` need, by parameter."""
    checks = {name: check_of(hint) for name, hint in hints_of(fn).items() if name != "return"}
    return {name: check for name, check in checks.items() if check is not None}


def check_of(hint: Any) -> Check | None:
    """The check that values of an annotation need; None if its type says it all."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    marks = [mark for part in parts for mark in getattr(part, "__metadata__", ())]
    return next((mark.check for mark in marks if isinstance(mark, InRange | OneOf | AnonymousText)), None)
