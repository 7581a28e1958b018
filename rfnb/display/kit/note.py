"""Notes about parts of a view that could not be made: a broken or huge input never raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rfnb.errors import RfError
from rfnb.printable import error_message

T = TypeVar("T")


class Notes:
    """Collects what could not be shown, and why, as one line.

    >>> notes = Notes()
    >>> notes.attempt("picture", lambda: 1 / 0, None)
    >>> notes.text()
    'no picture: ZeroDivisionError: division by zero'
    """

    def __init__(self, *lines: str):
        self.lines = list(lines)

    def add(self, line: str | None) -> None:
        """Adds a line, unless it is None."""
        if line:
            self.lines.append(line)

    def attempt(self, part: str, make: Callable[[], T], otherwise: T) -> T:
        """The result of `make`; if it raises, `otherwise`, and a note."""
        try:
            return make()
        except Exception as error:
            self.add(f"no {part}: {reason(error)}")
            return otherwise

    def text(self) -> str | None:
        """All lines, or None if there are none."""
        return "; ".join(self.lines) or None


def reason(error: BaseException) -> str:
    """An error in one line: message and hint of an rfnb error, class and first line of any other."""
    if isinstance(error, RfError):
        return f"{error.what}; {error.hint}" if error.hint else error.what
    lines = error_message(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
