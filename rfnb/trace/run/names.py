"""The names that an expression can use at a step of a run.

A name is the value after the step: of a state, or else what the body assigned last. `before.h` is the value before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.expression.expression import Expression, Members, Names, PositionalAxis, functions_of_ops
from rfnb.core.expression.torch_ops import is_raw, mapped
from rfnb.core.ground.backends import backend_of_raw, selected
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor, plain_tensor
from rfnb.errors import ExpressionError
from rfnb.trace.run.axis_names import is_unnamed
from rfnb.trace.run.random_numbers import with_own_numbers
from rfnb.trace.run.variables import NoValue, VariableSteps, is_variable, variable_names

if TYPE_CHECKING:
    from rfnb.trace.plain.pause import LinePauses
    from rfnb.trace.run.step import RunStep

read = lru_cache(maxsize=256)(Expression)
"""Parses an expression."""

known_functions = cache(functions_of_ops)
"""The functions of rf that an expression can call."""


def evaluate(expression: str | Expression, at: RunStep) -> object:
    """The value of an expression at a step. Raw tensors in it become Tensors."""
    expression = expression if isinstance(expression, Expression) else read(expression)
    names = Names(at._variables(), known_functions(), own_functions)
    try:
        return _as_tensor(compute(expression, names))
    except Unassigned as error:
        if not expression.asks_for_none:
            raise
        token = _none_if_unassigned.set(True)
        try:
            return _as_tensor(compute(expression, names))
        except ExpressionError:
            raise error from None
        finally:
            _none_if_unassigned.reset(token)


def reads_states_after(expression: str, at: RunStep) -> bool:
    """Whether an expression uses states after the step."""
    return not {"after", *StepNames(at).states}.isdisjoint(read(expression).names())


def compute(expression: Expression, names: Names) -> object:
    """The value of an expression, computed beside the code that runs: not recorded, without gradients."""
    with untaped(), listening(None), selected().outside_modes():
        return expression.value(names)


def _as_tensor(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and is_raw(value):
        return plain_tensor(selected().from_numpy_raw(value, None))
    if is_raw(value):
        return plain_tensor(backend_of_raw(value).alias_raw(value))
    is_shape = isinstance(value, tuple) and all(type(part) is int for part in value)
    return mapped(_as_tensor, value) if isinstance(value, list | tuple | dict) and not is_shape else value


class Unassigned(NoValue):
    """Nothing was assigned to a variable before a step."""


_none_if_unassigned: ContextVar[bool] = ContextVar("rfnb_none_if_unassigned", default=False)
"""Whether `before.h` is None if nothing was assigned to it."""


class AtLine(str):
    """The name of a value after a line, for values that several lines assign, or that a state has as well."""

    line: int

    @classmethod
    def of(cls, name: str, line: int) -> AtLine:
        """The name at this line."""
        result = cls(name)
        result.line = line
        return result


beside: ContextVar[bool] = ContextVar("rfnb_beside", default=False)
"""Whether the expression is computed by another thread while a cell runs, whose data functions of the user may use."""


class OwnFunctions(Mapping[str, Callable[..., object]]):
    """The functions that the user defined in the notebook or script; they draw random numbers of their own."""

    def __init__(self) -> None:
        self._functions: WeakKeyDictionary[FunctionType, Callable[..., object]] = WeakKeyDictionary()

    def __getitem__(self, name: str) -> Callable[..., object]:
        function = vars(sys.modules["__main__"]).get(name)
        if type(function) is not FunctionType or function.__module__ != "__main__":
            raise KeyError(name)
        if beside.get():
            raise ExpressionError(f"`{name}` is your own function: it is called when the cell has ended")
        if function not in self._functions:
            self._functions[function] = with_own_numbers(function)
        return self._functions[function]

    def __iter__(self) -> Iterator[str]:
        return (name for name in list(vars(sys.modules["__main__"])) if name in self)

    def __len__(self) -> int:
        return len(list(iter(self)))


own_functions = OwnFunctions()
"""The functions of the user. Not for expressions that a file holds."""


class StepNames(Mapping[str, object]):
    """Resolves names at a step: states after it, values of the body, `before`, `after`, `values`, `step`, dims."""

    def __init__(self, at: RunStep):
        self._at = at
        self._is_plain = not at.run.graph.values  # plain Python code, whose tensors have axes without names

    def __getitem__(self, name: str) -> object:
        at, root = self._at, name.partition(".")[0]
        if is_variable(at.run.replay, name):
            try:
                return at.run.replay.variable(name, at.step, after=True)
            except KeyError:
                raise NoValue(f"`{name}` has no value yet after step {at.step}") from None
        if root != name and (root in _OF_STEP or root in self.states):
            raise KeyError(name)  # without a look at the values, which are computed again
        if isinstance(at.run.replay, VariableSteps):
            if name in ("before", "after"):
                return Variables(at.run.replay, at.step + (name == "after"))
        elif name in self.states and at.step < at.run.steps:
            return self._bare(at.after[name])
        elif self._is_plain or name not in _OF_STEP or name in map(at.run.replay.name_of, at.run.graph.values):
            tensors = [value.tensor for value in at.values() if value.name == name]
            if tensors:
                return self._bare(tensors[-1])
            if name in self.states:
                raise NoValue(f"step {at.step} has not ended: there is no `{name}` after it", hint=f"before.{name}")
        if name == "values":
            return StepValues(at)
        if name in _OF_STEP:
            return getattr(at, name)
        return self._dim(name)

    def _bare(self, value: object) -> object:
        """The raw tensor of a value of plain Python, whose axes have no names of the user."""
        if not self._is_plain or not isinstance(value, Tensor):
            return value
        return value._raw if all(map(is_unnamed, value.dims)) else value

    def __iter__(self) -> Iterator[str]:
        values = [value.name for value in self._at.values()]
        values += variable_names(self._at.run.replay)
        dims = [dim.name for dim in self._dims()]
        return iter(dict.fromkeys([*values, *self.states, *_OF_STEP, *dims]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def states(self) -> list[str]:
        """The names of the states; nested states are listed under the name of the whole."""
        return [name.partition(".")[0] for name in self._at.before.names()]

    def _dims(self) -> list[Dim]:
        at = self._at
        values = [*(value.tensor for value in at.values()), *(at.before[name] for name in at.before.names())]
        tensors = [tensor for tensor in values if isinstance(tensor, Tensor)]
        labels = [tensor.sparse_dim for tensor in tensors if tensor.sparse_dim is not None]
        return list(dict.fromkeys([*(dim for tensor in tensors for dim in tensor.dims), *labels, at.run.axis]))

    def _dim(self, name: str) -> Dim | PositionalAxis:
        if "." in name:
            raise KeyError(name)
        if self._is_plain and name.startswith("axis") and name[4:].isdigit():
            return PositionalAxis(int(name[4:]))
        matches = [dim for dim in self._dims() if dim.name == name]
        if not matches:
            raise KeyError(name)
        if len(matches) > 1:
            raise ExpressionError(
                f"{len(matches)} dims are named {name!r}", hint="x.dims[0]; or give each dim its own name"
            )
        return matches[0]


_OF_STEP = ("before", "after", "step", "values")


class Variables(Members):
    """The variables of plain Python code before a step: `before.loss`."""

    def __init__(self, replay: VariableSteps | LinePauses, step: int):
        self._replay, self._step = replay, step

    def members(self) -> list[str]:
        """The names."""
        return self._replay.variable_names()

    def __getitem__(self, name: str | int) -> Any:
        try:
            return self._replay.variable(str(name), self._step)
        except KeyError:
            if _none_if_unassigned.get():
                return None
            raise Unassigned(f"there was no `{name}` before step {self._step}") from None


class StepValues(Members):
    """The values of a step, also by names that are not those of variables: `values["att/weights"]` of a net dict."""

    def __init__(self, at: RunStep):
        self._at = at

    def members(self) -> list[str]:
        """The names."""
        return list(dict.fromkeys(value.name for value in self._at.values()))

    def __getitem__(self, name: str | int) -> Tensor:
        return self._at[str(name)]
