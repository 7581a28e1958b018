"""Results that are shown by their view, or, where none is registered, by their own text."""

from __future__ import annotations

from typing import Any

from rfnb.core.ground.show import Shown, kind_of
from rfnb.printable import terminal_text


class InWords(Shown):
    """Base of classes that have their contents as `text`, in whole lines."""

    @property
    def text(self) -> str:
        """The contents as lines for a terminal."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return terminal_text(self.text) if kind_of(self) is None else super().__repr__()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if kind_of(self) is None:
            return {"text/plain": repr(self)}
        return super()._repr_mimebundle_(include, exclude)


def number(value: float) -> str:
    """A score with the digits that matter.

    >>> number(-1.23456), number(-123.456), number(float("-inf"))
    ('-1.235', '-123.5', '-inf')
    """
    return f"{value:.4g}"
