"""The state of a recurrent module: named tensors, possibly nested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.errors import ParameterError


class State(Shown, dict[str, Any]):
    """A dict whose entries are attributes as well: `state.h`, `state["h"]`.

    >>> State(h=1, c=2).h
    1
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the state has no {name!r}, but {sorted(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


START = "start with state=module.default_initial_state(batch_dims=[…])"
"""How a state begins, for messages."""


def check_state(state: Any, what: str, parts: Iterable[str] = (), *, start: str = START) -> None:
    """Raises ParameterError if `state` is not a State, or lacks one of `parts`.

    what: the argument, for the message: "LSTM: `state`". start: how to begin.
    """
    if not isinstance(state, State):
        raise ParameterError(f"{what} is not an rf.State", got=type(state).__name__, expected="an rf.State", hint=start)
    for part in parts:
        if state.get(part) is None:
            raise state_of_another(state, what, f"it has no {part!r}", parts, start=start)


def state_of_another(state: State, what: str, why: str, parts: Iterable[str], *, start: str = START) -> ParameterError:
    """The error for a state that does not belong to a module. what: the argument. why: how that is seen."""
    got = f"{type(state).__name__} with {', '.join(map(str, state)) or 'nothing'}"
    return ParameterError(
        f"{what} is not a state of this module: {why}", got=got, expected=", ".join(parts), hint=start
    )
