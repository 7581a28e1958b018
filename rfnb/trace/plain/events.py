"""Line events of chosen code: by `sys.monitoring` from Python 3.12 on, by `sys.settrace` before.

Only the standard library is used here, so that this file can be loaded where torch and rfnb cannot be imported.
"""

from __future__ import annotations

import atexit
import dis
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from types import CodeType, FrameType
from typing import Any, Protocol

monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
YIELD_VALUE, RESUME = dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]
ITERATION = (dis.opmap["FOR_ITER"], dis.opmap["SEND"])
ENTER_HANDLER = dis.opmap["PUSH_EXC_INFO"]
ENDS = {"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "RESUME"}
RETURNS = {number for name, number in dis.opmap.items() if name in ENDS}


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

    def leave(self, frame: FrameType, error: BaseException | None, value: object) -> None:
        """The frame returns a value, or an error leaves it."""


Chosen = Callable[[CodeType], bool]
"""Whether frames that run a code are followed."""
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

    def __init__(self, chosen: Chosen, begin: Begin):
        self._chosen, self._begin = chosen, begin
        self._known: dict[int, tuple[bool, CodeType]] = {}  # by id: a hash of code takes a microsecond
        self._mine: object = None
        self._frames: dict[FrameType, object] = {}  # those that are followed, with what is their `f_trace`

    def start(self) -> None:
        """Follows calls from now on. Raises Busy if another tool traces."""
        if sys.gettrace() is not None:
            raise Busy("sys.settrace is in use")
        entries, frames, local, is_chosen = self._known, self._frames, self._local, self._chosen

        def call(frame: FrameType, event: str, arg: object) -> Any:  # for each call of a function of Python
            code = frame.f_code
            entry = entries.get(id(code))
            if entry is None:
                entry = entries[id(code)] = is_chosen(code), code
            return (frames.get(frame) or local(frame)) if entry[0] else None  # a generator is called again

        self._mine = call
        sys.settrace(call)
        atexit.register(self.stop)

    @property
    def are_ours(self) -> bool:
        """Whether no other tool, such as a debugger, has begun to trace since."""
        return sys.gettrace() is self._mine

    def follow(self, frame: FrameType) -> None:
        """Follows a frame that runs already, from its next line on."""
        if frame.f_trace is None:
            frame.f_trace = self._local(frame)

    def ask_again(self) -> None:
        """Asks again which code is chosen."""
        self._known.clear()

    def stop(self) -> None:
        """No more events; removes only what was set here."""
        atexit.unregister(self.stop)
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
        line, leave, caught, frames = follower.line, follower.leave, follower.caught, self._frames
        error: BaseException | None = None
        handled: BaseException | None = None  # at the end of a `with` or `finally` block, it is raised again

        def local(frame: FrameType, event: str, arg: Any) -> None:  # with None, it stays the `f_trace` that it is
            nonlocal error, handled
            if event == "line":
                if error is None and handled is not None:
                    if frame.f_code.co_code[frame.f_lasti] == ENTER_HANDLER:
                        error = handled
                    else:
                        handled = sys.exc_info()[1]
                if error is not None:
                    caught(error)
                    handled, error = error, None
                line(frame)
            elif event == "exception":
                ends = isinstance(arg[1], StopIteration | StopAsyncIteration)  # an iterator that the line goes through
                if not (ends and frame.f_code.co_code[frame.f_lasti] in ITERATION):
                    error = arg[1]
            elif event == "return":
                if error is None and arg is None and frame.f_code.co_code[frame.f_lasti] not in RETURNS:
                    error = handled
                if not ((arg is not None or error is None) and _yields(frame)):
                    frames.pop(frame, None)
                    leave(frame, error, arg)
                    error = handled = None

        frames[frame] = local
        return local


def _yields(frame: FrameType) -> bool:
    """Whether a generator or coroutine is about to give a value, and not to end."""
    code, offset = frame.f_code.co_code, frame.f_lasti
    return code[offset] == YIELD_VALUE or (code[offset] == RESUME and offset >= 2 and code[offset - 2] == YIELD_VALUE)


class Monitoring:
    """Events by `sys.monitoring` (PEP 669): only the chosen code objects have any. For the thread that starts them."""

    NAME = "rfnb"

    def __init__(self, chosen: Chosen, begin: Begin):
        self._chosen, self._begin = chosen, begin
        self._known: dict[int, tuple[bool, CodeType]] = {}  # by id: equal code has its own events
        self._followers: dict[FrameType, Follower] = {}
        self._tool: int | None = None
        self._thread = 0

    def start(self) -> None:
        """Follows calls from now on. Raises Busy if no tool number is free, or a debugger traces."""
        if sys.gettrace() is not None:
            raise Busy("sys.settrace is in use")
        free = [number for number in (4, 3) if monitoring.get_tool(number) is None]
        if not free:
            raise Busy("sys.monitoring is in use")
        self._tool, self._thread = free[0], threading.get_ident()
        monitoring.use_tool_id(self._tool, self.NAME)
        atexit.register(self.stop)
        for event, callback in self._callbacks().items():
            monitoring.register_callback(self._tool, event, callback)
        events = monitoring.events
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.EXCEPTION_HANDLED)

    def _callbacks(self) -> dict[int, Callable[..., object]]:
        events = monitoring.events
        return {
            events.PY_START: self._started,
            events.LINE: self._line,
            events.JUMP: self._jumped,
            events.PY_RETURN: self._returned,
            events.PY_UNWIND: self._unwound,
            events.EXCEPTION_HANDLED: self._handled,
        }

    @property
    def are_ours(self) -> bool:
        """Whether no other tool has taken the number of this one."""
        return self._tool is not None and bool(monitoring.get_tool(self._tool) == self.NAME)

    def follow(self, frame: FrameType) -> None:
        """Follows a frame that runs already, from its next line on."""
        follower = self._begin(frame)
        if follower is not None and frame not in self._followers:
            self._followers[frame] = follower
            self._listen(frame.f_code)

    def ask_again(self) -> None:
        """Asks again which code is chosen."""
        self._known = {number: entry for number, entry in self._known.items() if entry[0]}
        monitoring.restart_events()

    def stop(self) -> None:
        """No more events; removes only what was set here."""
        if self._tool is None:
            return
        atexit.unregister(self.stop)
        for is_chosen, code in self._known.values():
            if is_chosen:
                monitoring.set_local_events(self._tool, code, 0)
        monitoring.set_events(self._tool, 0)
        for event in self._callbacks():
            monitoring.register_callback(self._tool, event, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None
        self._followers.clear()

    def _listen(self, code: CodeType) -> None:
        self._known[id(code)] = True, code
        events = monitoring.events
        monitoring.set_local_events(self._tool, code, events.LINE | events.JUMP | events.PY_RETURN)

    def _started(self, code: CodeType, offset: int) -> object:
        entry = self._known.get(id(code))
        is_ours = threading.get_ident() == self._thread
        if entry is None and is_ours:
            entry = self._known[id(code)] = self._chosen(code), code
            if entry[0]:
                self._listen(code)
        if entry is not None and not entry[0]:
            return monitoring.DISABLE
        if is_ours:
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
        return None if follower is None else monitoring.DISABLE

    def _returned(self, code: CodeType, offset: int, value: object) -> None:
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


def make_events(
    chosen: Chosen,
    begin: Begin,
    warn: Callable[[str], None],
    newer: Any = Monitoring if monitoring else None,
) -> Events:
    """The events of this version of Python.

    Args:
        chosen: whether code is followed; asked once for each code object.
        begin: makes the follower of a frame.
        warn: says why the newer events are not used, or why a frame is not followed.
        newer: those of Python 3.12 and newer, which are used if they report a small loop as it runs.

    Raises Busy if another tool uses the events.
    """
    problem = problem_of(newer) if newer is not None else None
    if problem is not None:
        warn(f"loops are recorded by sys.settrace, which is slower, as sys.monitoring reports {problem}")
    kind = Tracing if newer is None or problem is not None else newer
    return kind(_guarded(chosen, warn), _guarded(begin, warn))


def _guarded(function: Callable[[Any], object], warn: Callable[[str], None]) -> Callable[[Any], Any]:
    """A function whose problems never become those of the code that is followed: it gives None then."""

    def call(argument: object) -> Any:
        try:
            return function(argument)
        except Exception as error:
            with suppress(Warning):  # also where warnings are errors
                warn(f"a loop is not recorded: {type(error).__name__}: {error}")
            return None

    return call


def _small_loop(items: list[int]) -> int:
    total = 0
    for item in items:
        total = total + item
    return total


class _Report:
    """What events report of a small loop: its lines and variables."""

    jumps: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.rows: list[object] = []

    def line(self, frame: FrameType) -> None:
        code, names = frame.f_code, frame.f_locals
        lines = [position[0] for position in code.co_positions()]
        at, previous = frame.f_lasti // 2, frame.f_lasti // 2 - 1
        line = frame.f_lineno - code.co_firstlineno
        self.rows.append((line, lines[at] == frame.f_lineno != lines[previous], names.get("item"), names.get("total")))

    def caught(self, error: BaseException) -> None:
        self.rows.append(error)

    def leave(self, frame: FrameType, error: BaseException | None, value: object) -> None:
        self.rows.append((error, value))


_EXPECTED = [
    (1, True, None, None),
    (2, True, None, 0),
    (3, True, 1, 0),
    (2, False, 1, 1),
    (3, True, 2, 1),
    (2, False, 2, 3),
    (4, True, 2, 3),
    (None, 3),
]


@cache
def problem_of(kind: Any) -> str | None:
    """What events report wrongly of a small loop; None if all is right. Raises Busy if another tool uses them."""
    report, code = _Report(), _small_loop.__code__
    events = kind(lambda other: other is code, lambda frame: report)
    try:
        events.start()
        _small_loop([1, 2])
    except Busy:
        raise
    except Exception as error:
        return f"an error: {type(error).__name__}: {error}"
    finally:
        events.stop()
    _small_loop([1, 2])
    wrong = [(row, expected) for row, expected in zip_longest(report.rows, _EXPECTED) if row != expected]
    return f"{wrong[0][0]} instead of {wrong[0][1]}" if wrong else None
