"""The state of a recurrent module: named tensors, possibly nested."""

from __future__ import annotations

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


def check_state(state: Any, what: str) -> None:
    """Raises ParameterError if `state` is not a State. what: the module, for the message."""
    if not isinstance(state, State):
        raise ParameterError(
            f"{what}: `state` is not an rf.State",
            got=type(state).__name__,
            expected="an rf.State",
            hint="start with state=module.default_initial_state(batch_dims=[…])",
        )
