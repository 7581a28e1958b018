"""Line events of chosen code, by `sys.settrace` and by `sys.monitoring`: the same tests here, and on Python 3.14."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from rfnb.trace.plain import events as events_module
from rfnb.trace.plain.events import Busy, Monitoring, Tracing, make_events, problem_of
from rfnb.trace.plain.pause import write_variables

ROOT = Path(__file__).parents[3]
PYODIDE = ROOT / "extension" / "node_modules" / "pyodide" / "pyodide.mjs"
KINDS = [Tracing, *([Monitoring] if sys.version_info >= (3, 12) else [])]
of_each_kind = pytest.mark.parametrize("kind", KINDS)


class Lines:
    """A follower that notes lines, and runs `act` in front of each."""

    jumps: frozenset[int] = frozenset()

    def __init__(self, act: Callable[[FrameType, int], Any] = lambda frame, line: None):
        self.rows: list[Any] = []
        self._act = act

    def line(self, frame: FrameType) -> None:
        line = frame.f_lineno - frame.f_code.co_firstlineno
        self.rows.append(line)
        self._act(frame, line)

    def caught(self, error: BaseException) -> None:
        self.rows.append(type(error).__name__)

    def leave(self, frame: FrameType, error: BaseException | None, value: Any) -> None:
        self.rows.append(("left", value if error is None else type(error).__name__))


def followed(kind: Any, function: Any, act: Any = lambda frame, line: None, calls: Any = None) -> Any:
    """What each frame of a function reported, and the result of `calls`."""
    followers: list[Lines] = []

    def begin(frame: FrameType) -> Lines:
        followers.append(Lines(act))
        return followers[-1]

    codes = [f.__code__ for f in (function if isinstance(function, tuple) else (function,))]
    events = kind(codes.__contains__, begin)
    events.start()
    try:
        result = (calls or function)()
    finally:
        events.stop()
        assert is_free()
    return [follower.rows for follower in followers], result


def is_free() -> bool:
    """Whether no tool is left."""
    newer: Any = getattr(sys, "monitoring", None)
    return sys.gettrace() is None and (newer is None or not any(map(newer.get_tool, (3, 4))))


def count(n=2):
    total = 0
    for i in range(n):
        total += i
    return total


@of_each_kind
def test_lines_and_results_of_a_function(kind):
    assert followed(kind, count) == ([[1, 2, 3, 2, 3, 2, 4, ("left", 1)]], 1)
    assert problem_of(kind) is None


@of_each_kind
def test_code_that_is_not_chosen_has_no_events(kind):
    asked: list[CodeType] = []
    events = kind(lambda code: asked.append(code), lambda frame: Lines())
    events.start()
    for _ in range(3):
        count()
    events.stop()
    assert asked.count(count.__code__) == 1


def fails(how):
    try:
        int(how)
    except ValueError:
        how = 0
    return 1 / how


@of_each_kind
def test_errors_that_are_caught_and_that_leave(kind):
    def calls():
        try:
            fails("x")
        except ZeroDivisionError as error:
            return error

    [rows], error = followed(kind, fails, calls=calls)
    assert rows == [1, 2, "ValueError", 3, 4, 5, ("left", "ZeroDivisionError")]
    assert isinstance(error, ZeroDivisionError)


def numbers(n):
    for i in range(n):
        got = yield i
        n = got
    return n


@of_each_kind
def test_a_generator_goes_on_and_is_left_once(kind):
    def calls():
        closed = numbers(3)
        next(closed)
        closed.close()
        return list(numbers(2))

    rows, result = followed(kind, numbers, calls=calls)
    assert result == [0, 1]
    assert rows[1] == [1, 2, 3, 1, 2, 3, 1, 4, ("left", None)]
    assert rows[0][:2] == [1, 2] and rows[0][-1] in (2, ("left", "GeneratorExit"))  # Python 3.13 reports no end


def down(n):
    if n:
        down(n - 1)
    return n


@of_each_kind
def test_each_frame_of_a_recursion_has_its_follower(kind):
    rows, _ = followed(kind, down, calls=lambda: down(2))
    assert rows == [[1, 2, 3, ("left", 2)], [1, 2, 3, ("left", 1)], [1, 3, ("left", 0)]]


@of_each_kind
def test_an_interrupt_in_front_of_a_line_reaches_the_code(kind):
    def act(frame, line):
        if line == 3 and frame.f_locals["i"] == 1:
            raise KeyboardInterrupt

    def calls():
        try:
            return count(4)
        except KeyboardInterrupt as error:
            frames = []
            while error.__traceback__ is not None:
                frames.append(error.__traceback__.tb_frame.f_code)
                error.__traceback__ = error.__traceback__.tb_next
            return count.__code__ in frames

    [rows, *_], is_inside = followed(kind, count, act, calls)
    assert is_inside and rows[:5] == [1, 2, 3, 2, 3]


@of_each_kind
def test_a_local_that_is_written_in_front_of_a_line_is_that_of_the_loop(kind):
    def act(frame, line):
        if line == 3 and frame.f_locals["i"] == 1:
            write_variables(frame, {"total": 40, "i": 2})

    assert followed(kind, count, act, lambda: count(4))[1] == 40 + 2 + 2 + 3


def hold_item():
    item = threading.Event()
    reference = weakref.ref(item)
    return reference


@of_each_kind
def test_no_frame_is_kept_once_it_has_ended(kind):
    def calls():
        gc.disable()
        try:
            return hold_item()()
        finally:
            gc.enable()

    assert followed(kind, hold_item, calls=calls)[1] is None


@of_each_kind
def test_a_frame_that_runs_is_followed_from_its_next_line_on(kind):
    follower = Lines()
    events = kind(lambda code: False, lambda frame: follower)
    events.start()
    events.follow(sys._getframe())
    x = 1
    y = x + 1
    events.stop()
    assert y == 2 and len(follower.rows) == 3 and sys._getframe().f_trace is None and is_free()


@of_each_kind
def test_code_that_is_asked_for_again_may_be_chosen(kind):
    chosen, followers = [], []

    def begin(frame):
        followers.append(Lines())
        return followers[-1]

    events = kind(lambda code: code in chosen, begin)
    events.start()
    count()
    chosen.append(count.__code__)
    events.ask_again()
    count()
    events.stop()
    assert [follower.rows[:2] for follower in followers] == [[1, 2]]


@of_each_kind
def test_a_debugger_wins_and_another_tool_is_left_alone(kind):
    def tracer(*_):
        return None

    sys.settrace(tracer)
    try:
        with pytest.raises(Busy, match=r"sys\.settrace"):
            kind(lambda code: True, lambda frame: None).start()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is newer")
def test_tools_of_others_keep_their_numbers_and_events():
    newer: Any = sys.monitoring  # type: ignore[attr-defined]
    lines: list[int] = []
    newer.use_tool_id(newer.COVERAGE_ID, "coverage")
    newer.use_tool_id(4, "other")
    try:
        newer.register_callback(newer.COVERAGE_ID, newer.events.LINE, lambda code, line: lines.append(line))
        newer.set_local_events(newer.COVERAGE_ID, count.__code__, newer.events.LINE)
        events = Monitoring(count.__code__.__eq__, lambda frame: Lines())
        events.start()
        assert newer.get_tool(3) == Monitoring.NAME
        with pytest.raises(Busy, match=r"sys\.monitoring"):
            Monitoring(count.__code__.__eq__, lambda frame: Lines()).start()
        count()
        events.stop()
        count()
        assert len(lines) == 14 and newer.get_tool(4) == "other" and newer.get_tool(3) is None
    finally:
        newer.set_local_events(newer.COVERAGE_ID, count.__code__, 0)
        newer.free_tool_id(newer.COVERAGE_ID)
        newer.free_tool_id(4)


@pytest.mark.skipif(sys.platform == "emscripten", reason="there are no threads")
def test_only_the_thread_that_starts_is_followed():
    for kind in KINDS:

        def calls():
            thread = threading.Thread(target=count)
            thread.start()
            thread.join()

        assert followed(kind, count, calls=calls) == ([], None)


class Late(Tracing):
    """Events that miss the first line."""

    def _local(self, frame):
        local = super()._local(frame)

        def late(frame, event, arg):
            if event != "line" or frame.f_lineno > frame.f_code.co_firstlineno + 1:
                local(frame, event, arg)
            return late

        return late


class Broken(Tracing):
    """Events that raise an error."""

    def start(self):
        raise RuntimeError("no events")


@pytest.mark.parametrize("newer", [Late, Broken])
def test_events_that_report_a_small_loop_wrongly_are_not_used(newer):
    words: list[str] = []
    for _ in range(2):
        made = make_events(lambda code: False, lambda frame: None, words.append, newer)
        assert type(made) is Tracing
    assert words[0] == words[1] and "slower" in words[0] and is_free()
    assert ("instead of (1, True, None, None)" in words[0]) == (newer is Late)
    assert ("RuntimeError: no events" in words[0]) == (newer is Broken)


def test_the_file_needs_the_standard_library_only():
    text = Path(events_module.__file__).read_text(encoding="utf-8")
    names = {line.split()[1].partition(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert names - {"__future__"} <= sys.stdlib_module_names


@pytest.mark.slow
def test_all_of_this_on_python_3_14(missing):
    node = shutil.which("node")
    if node is None or not PYODIDE.exists():
        missing("Node or its package pyodide is not installed")
    script = ROOT / "tests" / "trace" / "plain" / "under_node.mjs"
    done = subprocess.run(
        [str(node), str(script), str(PYODIDE), str(ROOT)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["version"] == "3.14" and answer["ran"] > 100
    assert not answer["problems"]
