"""The names that an expression can use at a step of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.expression.expression import Expression, functions_of_ops
from rfnb.core.expression.reader import Names
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ExpressionError

if TYPE_CHECKING:
    from rfnb.trace.run.step import RunStep

known_functions = cache(functions_of_ops)
"""The functions that an expression can call."""


def evaluate(expression: str | Expression, at: RunStep) -> Any:
    """The value of an expression at a step."""
    read = expression if isinstance(expression, Expression) else Expression(expression)
    with untaped(), listening(None):
        return read.value(Names(at._variables(), known_functions()))


class StepNames(Mapping[str, Any]):
    """Resolves names at a step: values of the body, states before it, `before`, `after`, `values`, `step`, dims."""

    def __init__(self, at: RunStep):
        self._at = at

    def __getitem__(self, name: str) -> Any:
        at = self._at
        found = [value.tensor for value in at.values() if value.name == name]
        if found:
            return found[-1]
        if name in self._states():
            return at.before[name]
        if name == "values":
            return StepValues(at)
        if name in _OF_STEP:
            return getattr(at, name)
        return self._dim(name)

    def __iter__(self) -> Iterator[str]:
        values = [value.name for value in self._at.values()]
        dims = [dim.name for dim in self._dims()]
        return iter(dict.fromkeys([*values, *self._states(), *_OF_STEP, *dims]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _states(self) -> list[str]:
        """The names of the states; nested states are listed under the name of the whole."""
        return [name.partition(".")[0] for name in self._at.before.names()]

    def _dims(self) -> list[Dim]:
        at = self._at
        held = [*(value.tensor for value in at.values()), *(at.before[name] for name in at.before.names())]
        tensors = [tensor for tensor in held if isinstance(tensor, Tensor)]
        labels = [tensor.sparse_dim for tensor in tensors if tensor.sparse_dim is not None]
        return list(dict.fromkeys([*(dim for tensor in tensors for dim in tensor.dims), *labels, at.run.axis]))

    def _dim(self, name: str) -> Dim:
        found = [dim for dim in self._dims() if dim.name == name]
        if not found:
            raise KeyError(name)
        if len(found) > 1:
            raise ExpressionError(
                f"{len(found)} dims are named {name!r}", hint="x.dims[0]; or give each dim its own name"
            )
        return found[0]


_OF_STEP = ("before", "after", "step", "values")


class StepValues:
    """The values of a step, also by names that are not those of variables: `values["att/weights"]` of a net dict."""

    def __init__(self, at: RunStep):
        self._at = at

    def members(self) -> list[str]:
        """The names."""
        return list(dict.fromkeys(value.name for value in self._at.values()))

    def __getitem__(self, name: str | int) -> Tensor:
        return self._at[str(name)]
