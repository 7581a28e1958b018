"""`loop.state`: what a loop carries from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rfnb.core.ground.nested import arranged, leaves, map_leaves, named_leaves, same_structure
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, LoopNameError
from rfnb.printable import encodable, printable_name


class StateHolder:
    """Named values, possibly nested: `loop.state.h = rf.zeros(…)`, `loop.state.lstm = rf.State(h=…, c=…)`.

    Lists, tuples, dicts, dataclasses and namespaces may be nested in any way.
    Before the loop, these are the initial values; in the body, the values of the previous step until they are set;
    after the loop, the final values. A state that is None stays None.
    """

    _on_read: Callable[[Any], None] | None = None  # set while the body is traced
    _on_set: Callable[[str], None] | None = None

    def __init__(self, loop_name: str):
        self._loop_name = loop_name
        self._values: dict[str, Any] = {}

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
            near = did_you_mean(name, self._values)
            raise LoopNameError(
                f"{self._loop_name}: there is no state {name!r}",
                expected=", ".join(self._values) or "a state set before the loop",
                hint=(f"{near} Otherwise, " if near else "")
                + f"before the loop: loop.state.{name} = rf.zeros([…])  # its initial value",
            )
        value = self._values[name]
        if self._on_read is not None:
            self._on_read(value)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        if self._on_set is not None:
            self._on_set(f"the state {name!r} is set")
            value = arranged(value, self._values.get(name))
            self._check(name, value, self._values)
            self._assigned.add(name)
        self._values[name] = value

    def _check(self, name: str, value: Any, before: dict[str, Any]) -> None:
        if name not in before:
            raise LoopError(
                f"{self._loop_name}: the state {name!r} has no initial value",
                hint=f"before the loop: loop.state.{name} = …  # the value at the first step",
            )
        if not same_structure(before[name], value):
            raise LoopError(
                f"{self._loop_name}: the new value of the state {name!r} has a different structure",
                got=_structure(value),
                expected=_structure(before[name]),
            )
        for (path, old), new in zip(named_leaves(before[name], name), leaves(value), strict=True):
            if (old is None) != (new is None):
                raise self._sometimes_none(path, old, new)

    def _sometimes_none(self, path: str, old: Any, new: Any) -> LoopError:
        value, way = new if old is None else old, None
        dims_text, initial = "a value", "…"
        if isinstance(value, Tensor):
            dims = ", ".join(dim.name for dim in value.dims)
            dims_text, initial = value.describe_dims(), f'rf.zeros([{dims}], dtype="{value.dtype}")'
        if old is None:
            way = f"before the loop: loop.state.{path} = {initial}  # its value at the first step"
        change = "None at first, and has a value later" if old is None else "a tensor at first, and None later"
        return LoopError(
            f"{self._loop_name}: the state {path!r} is {change}",
            got=dims_text if old is None else None,
            expected="None" if old is None else dims_text,
            hint=way,
        )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        names = ", ".join(map(printable_name, self._values))
        return encodable(f"state of {printable_name(self._loop_name)}: {names or 'empty'}")

    # -- for the loop

    def _leaves(self) -> list[tuple[str, Any]]:
        """Full names and values of all tensors and dims; None is left out, as it never changes."""
        return [(name, leaf) for name, leaf in named_leaves(self._values) if leaf is not None]

    def _check_all(self, before: dict[str, Any]) -> None:
        """Checks all states, including parts of nested ones that were set directly."""
        for name, value in self._values.items():
            self._check(name, value, before)

    def _replace(self, others: list[Any]) -> None:
        """Replaces all leaves and keeps the structure."""
        values = iter(others)
        self._values = map_leaves(lambda leaf: None if leaf is None else next(values), self._values)

    def _map(self, fn: Any) -> None:
        self._values = map_leaves(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, self._values)

    def _begin_body(self, on_read: Callable[[Any], None], on_set: Callable[[str], None]) -> None:
        self._on_read, self._on_set = on_read, on_set
        self._assigned: set[str] = set()  # names of the states that the body has set

    def _end_body(self) -> None:
        self._on_read = self._on_set = None


def _structure(value: Any) -> str:
    """The structure in words, such as "a State with h, c" or "a list of length 2"."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return f"a {type(value).__name__} of length {len(value)}"
    parts = [path for path, _ in named_leaves(value)]
    return "one value" if parts == [""] else f"a {type(value).__name__} with {', '.join(parts) or 'nothing'}"
