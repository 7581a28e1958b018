"""`loop.state`: what a loop carries from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rfnb.core.nested import map_leaves, named_leaves, same_structure
from rfnb.core.tensor import Tensor
from rfnb.errors import LoopError


class StateHolder:
    """Named values, nested if you like: `loop.state.h = rf.zeros(…)`, `loop.state.lstm = rf.State(h=…, c=…)`.

    Before the loop: the initial values. In the body: the values of the step before, until they are set.
    After the loop: the final values.
    """

    def __init__(self, loop_name: str):
        self._loop_name = loop_name
        self._values: dict[str, Any] = {}
        self._on_read: Callable[[Any], None] | None = None  # while this is the body

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise LoopError(
                f"{self._loop_name}: there is no state {name!r}",
                expected=", ".join(self._values) or "a state set before the loop",
                hint=f"before the loop: loop.state.{name} = rf.zeros([…])  # its initial value",
            )
        value = self._values[name]
        if self._on_read is not None:
            self._on_read(value)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        if self._on_read is not None:
            self._check_assignment(name, value)
        self._values[name] = value

    def _check_assignment(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise LoopError(
                f"{self._loop_name}: the state {name!r} has no initial value",
                hint=f"before the loop: loop.state.{name} = …  # the value at the first step",
            )
        if not same_structure(self._values[name], value):
            raise LoopError(
                f"{self._loop_name}: the new value of the state {name!r} has another structure",
                got=[path or "a tensor" for path, _ in named_leaves(value)],
                expected=[path or "a tensor" for path, _ in named_leaves(self._values[name])],
            )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"state of {self._loop_name}: {', '.join(self._values) or 'empty'}"

    # -- for the loop

    def _leaves(self) -> list[tuple[str, Any]]:
        return named_leaves(self._values)

    def _replace(self, leaves: list[Any]) -> None:
        """Other leaves in the same structure."""
        rest = iter(leaves)
        self._values = map_leaves(lambda _: next(rest), self._values)

    def _map(self, fn: Any) -> None:
        self._values = map_leaves(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, self._values)

    def _begin_body(self, on_read: Callable[[Any], None]) -> None:
        self._on_read = on_read

    def _end_body(self) -> None:
        self._on_read = None
