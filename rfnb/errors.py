"""The errors of rfnb. Each says what happened, what was given, what was expected, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from rfnb.printable import bounded, encodable, terminal_text


def __dir__() -> list[str]:
    """The names offered for completion, without imports."""
    return [name for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, Exception)]


class RfError(Exception):
    """Base of all errors that rfnb raises on purpose.

    Args:
        what: one sentence, starting with the function that the user called.
        got, expected: the facts; any objects with a short `str`.
        made: where the dims in question were created.
        hint: what to write instead.
        dims: the dims that do not fit; the error card highlights them.
        at: the `Source` of the user's line, if it is not the line that ran last.
    """

    _render_traceback_: ClassVar[Callable[[RfError], list[str]]]  # set by display

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
        given = ((name, fact) for name, fact in facts.items() if fact is not None)
        return terminal_text("\n".join([self.what, *fact_lines(given)]))

    def __repr__(self) -> str:
        return encodable(f"{type(self).__name__}({bounded(self.what)!r})")

    def __reduce__(self) -> Any:
        state = {**self.__dict__, "dims": (), "at": None}  # dims and places only mean something in this process
        return type(self), self.args, state


def fact_lines(facts: Iterable[Iterable[object]]) -> list[str]:
    """One line for each fact, after its label. Further lines of a fact are aligned below its first one."""
    return [f"  {label:<9} " + str(fact).replace("\n", "\n" + " " * 12) for label, fact in facts]


class DimError(RfError, ValueError):
    """A dim is missing, is unexpected, has the wrong size, or does not match."""


class DimRebound(DimError):
    """Two tensors have the same Dim, but were created while it had different lengths."""


class DtypeError(RfError, TypeError):
    """A value has a type that the operation does not support."""


class LoopError(RfError, RuntimeError):
    """A loop, or its body, is used in a way that is not supported."""


class LoopNameError(LoopError, AttributeError):
    """A step of a run, or the states of a loop, have no value with this name."""


class LoopWarning(UserWarning):
    """A loop runs, but probably does not do what is intended. Each loop in the source warns once."""


class TraceError(LoopError):
    """Python code needs the value of something that has a different value at every step of a loop."""


class ExpressionError(RfError, ValueError):
    """A string is not a valid expression, or contains an unknown name."""


class ExpressionNameError(ExpressionError):
    """An expression contains an unknown name."""


class ParameterError(RfError, ValueError):
    """A parameter is missing, is unexpected, or has the wrong shape."""


class CheckpointError(RfError, ValueError):
    """A checkpoint cannot be read, or does not fit the module."""


class BackendError(RfError, RuntimeError):
    """No backend supports this kind of raw tensor, or the backend does not support the operation."""


class ViewError(RfError, ValueError):
    """Something cannot be shown in the requested way."""


class RunFileError(RfError, ValueError):
    """A file of a recorded run or of a search cannot be written or read, or lacks the requested data."""


class SearchError(RfError, ValueError):
    """A search lacks a sequence, a hypothesis or a score; a reference does not fit it; or one of its scores is NaN."""


class ConfigError(RfError, ValueError):
    """A config file cannot be read, or its network cannot be understood."""


class LaunchError(RfError, RuntimeError):
    """A function cannot run in several processes, or one of these processes has failed."""


class DataError(RfError, ValueError):
    """A file of data cannot be read or written, or its sequences do not fit."""


class NetworkError(RfError, ValueError):
    """A net dict cannot be constructed or run: a layer, an option or a parameter does not fit."""


class LayerNotFound(NetworkError, LookupError):
    """A net dict refers to a layer that it does not have."""


class DataNotFound(NetworkError, LookupError):
    """A net dict, or a batch, refers to a data key that does not exist."""


class NetworkConstructionDependencyLoopException(NetworkError):
    """Layers of a net dict need each other in a circle."""


class ReturnnError(RfError, ImportError):
    """A model imports something of RETURNN that does not exist here, or RETURNN itself is in the way."""


class OptionError(RfError, AttributeError, ValueError):
    """A setting does not exist, or cannot have the given value."""
