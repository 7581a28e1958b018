"""The error that ended a run before its last step, as plain text."""

from __future__ import annotations

from typing import NamedTuple

from rfnb.core.graph.graph import Node
from rfnb.printable import error_text


class Failure(NamedTuple):
    """The error of a step as text; keeping the exception would keep all variables in its traceback alive.

    step: the step that failed. error: the class and message. place, line, op: the user's line and the op that failed
    there; None if the error occurred between two ops. position: of the raw call that failed, among those of the step.
    """

    step: int
    error: str
    place: str | None = None
    line: int | None = None
    op: str | None = None
    position: int | None = None

    @property
    def kind(self) -> str:
        """The name of the exception class."""
        return self.error.partition(":")[0]

    @property
    def text(self) -> str:
        """One line, such as "failed in step 3, cell 4, line 2 (log): ValueError: no"."""
        where = "" if self.place is None else f", {self.place} ({self.op})"
        return f"failed in step {self.step}{where}: {self.error.partition(chr(10))[0]}"


def failure(error: BaseException, step: int, node: Node | None, position: int | None) -> Failure:
    """Describes an error that occurred in `step`; `node` is the op that failed, if it is known."""
    text = error_text(error)
    if node is None:
        return Failure(step, text, position=position)
    place = node.source.place() if node.source is not None else None
    return Failure(step, text, place, node.line, node.op, position)
