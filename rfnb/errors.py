"""The errors of rfnb: each says what happened, what it got, what it expected, and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def __dir__() -> list[str]:
    """What is offered for completion: no imports."""
    return [name for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, Exception)]


class RfError(Exception):
    """Base of all errors that rfnb raises on purpose.

    Args:
        what: one sentence, starting with the function that the user called.
        got, expected: the facts; anything with a short `str`.
        made: where the dims in question come from.
        hint: what to write instead.
        dims: those that do not fit, which a card of the error marks.
        at: the `Source` of the user's line, where it is another one than that which ran last.
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        expected: object = None,
        made: object = None,
        hint: object = None,
        dims: Iterable[object] = (),
        at: object = None,
    ):
        super().__init__(what)
        self.what, self.got, self.expected, self.made, self.hint = what, got, expected, made, hint
        self.dims, self.at = tuple(dims), at

    def __str__(self) -> str:
        facts = {"got": self.got, "expected": self.expected, "made": self.made, "hint": self.hint}
        return "\n".join([self.what, *fact_lines((name, fact) for name, fact in facts.items() if fact is not None)])

    def __reduce__(self) -> Any:
        state = {**self.__dict__, "dims": (), "at": None}  # dims and places are those of this process
        return type(self), self.args, state


def fact_lines(facts: Iterable[Iterable[object]]) -> list[str]:
    """A line for each fact, behind its label; further lines of it are below its first."""
    return [f"  {label:<9} " + str(fact).replace("\n", "\n" + " " * 12) for label, fact in facts]


class DimError(RfError, ValueError):
    """A dim is missing, unexpected, of another size, or does not match."""


class DimRebound(DimError):
    """Two tensors carry the same Dim, but were made under different lengths of it."""


class DtypeError(RfError, TypeError):
    """A value has a type that the operation has no meaning for."""


class LoopError(RfError, RuntimeError):
    """A loop is used, or its body is written, in a way that has no meaning."""


class LoopWarning(UserWarning):
    """A loop runs, but what it does can hardly be meant. Each loop that is written warns once."""


class TraceError(LoopError):
    """Python asked for the value of something that has another value at every step of a loop."""


class ExpressionError(RfError, ValueError):
    """A string is not an expression, or names something that does not exist."""


class ParameterError(RfError, ValueError):
    """A parameter is missing, unexpected, or of the wrong shape."""


class CheckpointError(RfError, ValueError):
    """A checkpoint cannot be read, or does not fit the module."""


class BackendError(RfError, RuntimeError):
    """There is no backend for this kind of raw tensor, or it cannot do this."""


class ViewError(RfError, ValueError):
    """Something cannot be shown the way that was asked for."""


class RunFileError(RfError, ValueError):
    """A file of a recorded run cannot be written or read, or does not hold what is asked for."""


class OptionError(RfError, AttributeError, ValueError):
    """There is no such setting, or it cannot have this value."""
