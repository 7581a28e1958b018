"""Line events of chosen code: by `sys.monitoring` from Python 3.12 on, by `sys.settrace` before.

Only the standard library is used here, so that this file can be loaded where torch and rfnb cannot be imported.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

YIELD_VALUE, RESUME = dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]
ITERATION = (dis.opmap["FOR_ITER"], dis.opmap["SEND"])
ENTER_HANDLER = dis.opmap["PUSH_EXC_INFO"]
RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_GENERATOR", "YIELD_VALUE", "RESUME")}


class Follower(Protocol):
    """What follows one frame while it runs.

    Args:
        jumps: offsets of jumps back inside of a line with which an iteration begins; `line` is called for them too.
    """

    jumps: frozenset[int]

    def line(self, frame: FrameType) -> None:
        """A line of the frame is about to run; `frame.f_lasti` is its first instruction, or the jump to it."""

    def caught(self, error: BaseException) -> None:
        """An error was raised, and the frame goes on: at a handler, or where a block is left."""

    def leave(self, frame: FrameType, error: BaseException | None, value: Any) -> None:
        """The frame returns a value, or an error leaves it."""


Begin = Callable[[FrameType], Follower | None]
"""Called once for each frame whose code was chosen; None if the frame is not followed."""


class Busy(Exception):
    """A debugger or another tool uses the events that are needed."""


class Tracing:
    """Events by `sys.settrace`, for the thread that starts them.

    Args:
        chosen: whether code is followed; asked once for each code object.
        begin: makes the follower of a frame.
    """

    def __init__(self, chosen: Callable[[CodeType], bool], begin: Begin):
        self._chosen, self._begin = chosen, begin
        self._known: dict[int, tuple[bool, CodeType]] = {}  # by id: a hash of code takes a microsecond
        self._frames: dict[FrameType, Any] = {}  # those that ran before

    def start(self) -> None:
        """Follows calls from now on. Raises Busy if another tool traces."""
        if sys.gettrace() is not None:
            raise Busy("sys.settrace is in use")
        known, local, chosen = self._known, self._local, self._chosen

        def call(frame: FrameType, event: str, arg: Any) -> Any:  # for each call of a function of Python
            code = frame.f_code
            entry = known.get(id(code))
            if entry is None:
                entry = known[id(code)] = chosen(code), code
            return local(frame) if entry[0] else None

        self._mine = call
        sys.settrace(call)

    @property
    def are_ours(self) -> bool:
        """Whether no other tool, such as a debugger, has begun to trace since."""
        return sys.gettrace() is self._mine

    def follow(self, frame: FrameType) -> None:
        """Follows a frame that runs already, from its next line on."""
        local = self._local(frame)
        if local is not None and frame.f_trace is None:
            frame.f_trace = self._frames[frame] = local

    def ask_again(self) -> None:
        """Asks again which code is chosen."""
        self._known.clear()

    def stop(self) -> None:
        """No more events; removes only what was set here."""
        if sys.gettrace() is self._mine:
            sys.settrace(None)
        for frame, local in self._frames.items():
            if frame.f_trace is local:
                frame.f_trace = None
        self._frames.clear()

    def _local(self, frame: FrameType) -> Any:
        follower = self._begin(frame)
        if follower is None:
            return None
        line, leave, caught = follower.line, follower.leave, follower.caught
        error: list[BaseException | None] = [None]
        handled: list[BaseException | None] = [None]  # at the end of a `with` or `finally` block, it is raised again

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                if error[0] is None and handled[0] is not None:
                    if frame.f_code.co_code[frame.f_lasti] == ENTER_HANDLER:
                        error[0] = handled[0]
                    else:
                        handled[0] = sys.exc_info()[1]
                if error[0] is not None:
                    caught(error[0])
                    handled[0], error[0] = error[0], None
                line(frame)
            elif event == "exception":
                ended = isinstance(arg[1], StopIteration | StopAsyncIteration)  # an iterator that the line goes through
                if not (ended and frame.f_code.co_code[frame.f_lasti] in ITERATION):
                    error[0] = arg[1]
            elif event == "return":
                if error[0] is None and arg is None and frame.f_code.co_code[frame.f_lasti] not in RETURNS:
                    error[0] = handled[0]
                if not ((arg is not None or error[0] is None) and _yields(frame)):
                    leave(frame, error[0], arg)
                    error[0] = handled[0] = None
            return None if frame.f_trace is None else local  # a function that is returned becomes `f_trace` again

        return local


def _yields(frame: FrameType) -> bool:
    """Whether a generator or coroutine is about to give a value, and not to end."""
    code, last = frame.f_code.co_code, frame.f_lasti
    return code[last] == YIELD_VALUE or (code[last] == RESUME and last >= 2 and code[last - 2] == YIELD_VALUE)


class Monitoring:
    """Events by `sys.monitoring` (PEP 669): only the chosen code objects have any. For the thread that starts them."""

    NAME = "rfnb"

    def __init__(self, chosen: Callable[[CodeType], bool], begin: Begin):
        self._chosen, self._begin = chosen, begin
        self._known: dict[CodeType, bool] = {}
        self._followers: dict[FrameType, Follower] = {}
        self._tool: int | None = None
        self._thread = 0

    def start(self) -> None:
        """Follows calls from now on. Raises Busy if no tool number is free."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        free = [number for number in (4, 3) if monitoring.get_tool(number) is None]
        if not free or sys.gettrace() is not None:
            raise Busy("sys.monitoring is in use")
        self._tool, self._thread, events = free[0], threading.get_ident(), monitoring.events
        monitoring.use_tool_id(self._tool, self.NAME)
        monitoring.register_callback(self._tool, events.PY_START, self._started)
        monitoring.register_callback(self._tool, events.LINE, self._line)
        monitoring.register_callback(self._tool, events.JUMP, self._jumped)
        monitoring.register_callback(self._tool, events.PY_RETURN, self._returned)
        monitoring.register_callback(self._tool, events.PY_UNWIND, self._unwound)
        monitoring.register_callback(self._tool, events.EXCEPTION_HANDLED, self._handled)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.EXCEPTION_HANDLED)

    @property
    def are_ours(self) -> bool:
        """Whether no other tool has taken the number of this one."""
        return self._tool is not None and sys.monitoring.get_tool(self._tool) == self.NAME  # type: ignore[attr-defined]

    def follow(self, frame: FrameType) -> None:
        """Follows a frame that runs already, from its next line on."""
        follower = self._begin(frame)
        if follower is not None and frame not in self._followers:
            self._followers[frame] = follower
            self._listen(frame.f_code)

    def ask_again(self) -> None:
        """Asks again which code is chosen."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        self._known = {code: True for code, known in self._known.items() if known}
        monitoring.restart_events()

    def stop(self) -> None:
        """No more events; removes only what was set here."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        if self._tool is None:
            return
        for code in [code for code, known in self._known.items() if known]:
            monitoring.set_local_events(self._tool, code, 0)
        monitoring.set_events(self._tool, 0)
        monitoring.free_tool_id(self._tool)
        self._tool = None
        self._followers.clear()

    def _listen(self, code: CodeType) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        self._known[code], events = True, monitoring.events
        monitoring.set_local_events(self._tool, code, events.LINE | events.JUMP | events.PY_RETURN)

    def _started(self, code: CodeType, offset: int) -> Any:
        if threading.get_ident() != self._thread:
            return None
        if code not in self._known:
            self._known[code] = self._chosen(code)
            if self._known[code]:
                self._listen(code)
        if not self._known[code]:
            return sys.monitoring.DISABLE  # type: ignore[attr-defined]
        frame = sys._getframe(1)
        follower = self._begin(frame)
        if follower is not None:
            self._followers[frame] = follower
        return None

    def _line(self, code: CodeType, line: int) -> None:
        frame = sys._getframe(1)
        follower = self._followers.get(frame)
        if follower is not None:
            follower.line(frame)

    def _jumped(self, code: CodeType, offset: int, destination: int) -> Any:
        frame = sys._getframe(1)
        follower = self._followers.get(frame)
        if follower is not None and offset in follower.jumps:
            return follower.line(frame)
        return None if follower is None else sys.monitoring.DISABLE  # type: ignore[attr-defined]

    def _returned(self, code: CodeType, offset: int, value: Any) -> None:
        frame = sys._getframe(1)
        follower = self._followers.pop(frame, None)
        if follower is not None:
            follower.leave(frame, None, value)

    def _handled(self, code: CodeType, offset: int, error: BaseException) -> None:
        follower = self._followers.get(sys._getframe(1)) if self._followers else None
        if follower is not None:
            follower.caught(error)

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        if self._followers:
            frame = sys._getframe(1)
            follower = self._followers.pop(frame, None)
            if follower is not None:
                follower.leave(frame, error, None)


Events = Tracing | Monitoring


def make_events(chosen: Callable[[CodeType], bool], begin: Begin) -> Events:
    """The events of this version of Python."""
    return (Monitoring if sys.version_info >= (3, 12) else Tracing)(chosen, begin)
