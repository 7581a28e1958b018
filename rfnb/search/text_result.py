"""Results that are shown by their view, or, where none is registered, by their own text."""

from __future__ import annotations

from operator import index

from rfnb.core.ground.show import Shown, view_of
from rfnb.errors import SearchError
from rfnb.printable import terminal_text


class TextResult(Shown):
    """Base of classes that have their contents as `text`, in whole lines."""

    @property
    def text(self) -> str:
        """The contents as lines for a terminal."""
        raise NotImplementedError

    def __repr__(self) -> str:
        view = view_of(self)
        return terminal_text(self.text) if view is None else repr(view)


def number(value: float) -> str:
    """A score with the digits that matter.

    >>> number(-1.23456), number(-123.456), number(float("-inf"))
    ('-1.235', '-123.5', '-inf')
    """
    return f"{value:.4g}"


def place_of(what: str, kind: str, position: int, count: int) -> int:
    """A position among `count`, from 0; negative ones count from the end. Raises SearchError if there is none.

    >>> place_of("tree", "step", -1, 3)
    2
    """
    position = index(position)
    if not -count <= position < count:
        expected = f"0 to {count - 1}" if count else "nothing, as there are none"
        raise SearchError(f"{what}: there is no {kind} with this position", got=position, expected=expected)
    return position % count
