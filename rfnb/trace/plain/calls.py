"""Records the calls of a function as the iterations of a loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import CodeType, FrameType
from typing import Any

from rfnb.printable import error_text
from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.recorder import FrameRecorder
from rfnb.trace.plain.recording import Recording
from rfnb.trace.plain.syntax import BEFORE, LoopText, Outline, Use
from rfnb.trace.run.axis_names import Axes


class FunctionRecorder(FrameRecorder):
    """Follows the frames of a function one after the other; each is an iteration. It is the client that wants them.

    A call inside of another one is a part of that one.

    Args:
        code, text: the function.
        owner: whose method it is; None for the calls of all objects.
        recording: in which the frames are followed.
        store: takes the iterations when the recording ends.
        dims: for variables, the names of their axes.
    """

    def __init__(
        self,
        code: CodeType,
        text: Outline,
        owner: Any,
        recording: Recording,
        store: Callable[[Iterations], None],
        dims: Axes | None = None,
    ):
        super().__init__(code, text, [self], recording)
        self._owner, self._store, self._header = owner, store, len(text.statements) - 1
        self._call: FrameType | None = None
        self.dims = dims

    def begin(self, frame: FrameType) -> bool:
        """Follows the frame of the next call."""
        if self._call is not None or not self._places or not self._is_of_owner(frame):
            return False
        self._call, self.clients, self._previous = frame, [self], self._header
        try:
            with self._unobserved():
                names = self._names(frame)
                self._begin(len(self._outline.loops) - 1, names, False)
                self._previous = self._header
                super()._look_again(names)
                self._previous = BEFORE
        except Exception as error:
            self._give_up(error)
        return True

    def _is_of_owner(self, frame: FrameType) -> bool:
        return self._owner is None or frame.f_locals.get(self.code.co_varnames[0]) is self._owner

    def _look_again(self, names: Mapping[str, Any], targets: Collection[str] = ()) -> None:
        """Takes changes; those between two calls belong to the second one, which `begin` looks at."""
        if self._previous != self._header:
            super()._look_again(names, targets)

    def _end(self, error: BaseException | None, value: Any) -> None:
        """The call ends: only the loops in it are closed."""
        while len(self._open) > 1:
            self._close(error)
        self._call = None
        for loop in self._open:
            name, result = ("returned", value) if error is None else ("raised", error_text(error))
            number = self._header if self._previous == BEFORE else self._previous
            self.variables.add(name, Use(name, number, self._outline.statements[number].line, True, False), result)
            if error is None:
                self._pause({})
                self._pause({}, ended=True)
            loop.end = len(loop.log)
            loop.failed = None if error is None else self._failure(loop, error)
            self.variables.let_go()
            loop.log.let_graphs_go(loop.starts[-1])

    def close(self) -> bool:
        """The recording ends. Returns whether there was a call."""
        called = bool(self._open)
        while self._open:
            self._close()
        self._places = {}  # a generator may go on
        return called

    # -- as a client

    def chooses(self, code: CodeType) -> bool:
        """The function."""
        return code is self.code

    def wants(self, loop: LoopText, number: int) -> bool:
        """The calls, and the loops in them."""
        return True

    def name(self, number: int) -> str | None:
        """No loop has a name of its own."""
        return None

    def done(self, loop: Iterations) -> None:
        """Stores the run of the calls."""
        if not loop.inside:
            self._store(loop)

    def left(self) -> None:
        """The next call may come."""

    def pausing(self) -> None:
        """Nothing has to be done before."""
