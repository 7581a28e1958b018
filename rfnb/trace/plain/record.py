"""`rf.steps`, `rf.record_loops`, `rf.record_calls`: loops and calls of plain Python become runs, stepped through like
those of `rf.Loop`; `rf.pause()` at a line of a loop that is recorded, or with the variables of the frame."""

from __future__ import annotations

import dis
import importlib
import inspect
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator
from functools import lru_cache, partial, wraps
from itertools import takewhile
from types import CodeType, FrameType, ModuleType
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from rfnb.core.ground.source import Block, Source, user_frame, warn
from rfnb.core.tensor.op import guarded
from rfnb.errors import ParameterError
from rfnb.printable import error_text
from rfnb.trace.pause import can_hold, pauses
from rfnb.trace.plain import fork  # noqa: F401, to be registered
from rfnb.trace.plain.events import Busy
from rfnb.trace.plain.iterations import Iterations, variables_at
from rfnb.trace.plain.pause import pauses_of
from rfnb.trace.plain.recorded_variables import block_of, run_of
from rfnb.trace.plain.recorder import Client, FrameRecorder, LoopClient, Recording, recording_here
from rfnb.trace.plain.syntax import (
    BEFORE,
    Outline,
    Use,
    change_of,
    is_compiled,
    may_loop,
    outline,
    outline_of_calls,
    why_unknown,
)
from rfnb.trace.plain.user_code import is_yours
from rfnb.trace.plain.values import tensor_backend
from rfnb.trace.run.axis_names import Axes, axes_of
from rfnb.trace.run.run import Run
from rfnb.trace.run.session import store, store_later

MOST = 20
"""Largest number of functions that are listed."""

LISTED: dict[str, str] = {}
"""The files of all functions that were listed, by "module:function"."""

ADDED: set[str] = set()
"""The files whose loops are recorded along with those of any function that is named."""


class OtherFunctions:
    """Functions that are called while the loops of some files are recorded.

    Args:
        files: those that are recorded.
    """

    def __init__(self, files: frozenset[str]):
        self._files = files
        self._called: dict[CodeType, None] = {}

    def add(self, code: CodeType) -> bool:
        """Notes a function that is called, unless its file was added by the user; returns whether it was noted."""
        if code.co_filename in ADDED:
            return False
        self._called[code] = None
        return True

    def with_loops(self) -> list[str]:
        """Those of the same packages that have a loop, as "module:function": near modules first, in order of calls."""
        called, self._called = self._called, {}
        modules = _modules(len(sys.modules)) if self._files else {}
        named = [modules[file].split(".") for file in self._files if file in modules]
        shared: dict[CodeType, int] = {}
        for code in called:
            if may_loop(code) and "<" not in code.co_qualname:
                parts = modules.get(code.co_filename, "").split(".")
                shared[code] = max((_shared(parts, words) for words in named), default=0)
        files: dict[str, str] = {}
        for code in sorted(filter(shared.get, shared), key=lambda code: -shared[code]):
            if len(files) < MOST and outline(code) is not None:  # a comprehension jumps back too
                files[f"{modules[code.co_filename]}:{code.co_qualname}"] = code.co_filename
        LISTED.update(files)
        return [*files]


def add_file_of(function: str) -> None:
    """From now on, the loops in the file of a function that was listed are recorded as well."""
    ADDED.add(LISTED[function])


def is_added(function: str) -> bool:
    """Whether the loops in the file of a function that was listed are recorded as well."""
    return LISTED[function] in ADDED


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    """How many parts two names of modules have in common, from the first on."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))])


@lru_cache(maxsize=1)
def _modules(count: int) -> Mapping[str, str]:
    """The names of modules by their files, as long as so many are imported."""
    return {file: name for name, module in [*sys.modules.items()] if (file := _file_of(module)) is not None}


def _file_of(module: object) -> str | None:
    return vars(module).get("__file__") if isinstance(module, ModuleType) else None


class FunctionRecorder(FrameRecorder, Client):
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
        owner: object,
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
        if self._call is not None or not self._places:
            return False
        if self._owner is not None and frame.f_locals.get(self.code.co_varnames[0]) is not self._owner:
            return False
        self._call, self.clients, self._previous = frame, [self], self._header
        with self._apart():
            names = self._names(frame)
            self._begin(len(self._outline.loops) - 1, names, False)
            self._previous = self._header
            super()._look_again(names)
            self._previous = BEFORE
        return True

    def _look_again(self, names: Mapping[str, object], targets: Collection[str] = ()) -> None:
        """Takes changes; those between two calls belong to the second one, which `begin` looks at."""
        if self._previous != self._header:
            super()._look_again(names, targets)

    def _end(self, error: BaseException | None, value: object) -> None:
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

    def done(self, loop: Iterations) -> None:
        """Stores the run of the calls."""
        if not loop.inside:
            self._store(loop)


DECORATES = bytes((dis.opmap["CALL"], 0))
"""The instruction that calls a decorator: what it decorates is not counted."""


class RecordingBlock(ContextDecorator):
    """A context manager that decorates functions, methods, generators and coroutines; each call opens one of its own.

    Args:
        arguments, options: of the class.
    """

    def __new__(cls, *arguments: object, **options: object) -> Any:
        """The decorated function, where the class is a decorator without brackets: its call then has no argument."""
        frame = sys._getframe(1)
        is_decorator = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] == DECORATES
        return cls()(*arguments) if is_decorator and len(arguments) == 1 else super().__new__(cls)

    def __init__(self, *arguments: object, **options: object):
        self._made_of = arguments, options

    def _recreate_cm(self) -> RecordingBlock:
        arguments, options = self._made_of
        return type(self)(*arguments, **options)

    def __call__(self, function: object) -> Any:
        """The function, in a block that is open while it runs. Raises ParameterError for other objects."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self(function.__func__))
        if isinstance(function, type) or not callable(function) or inspect.isasyncgenfunction(function):
            raise ParameterError(
                f"{type(self).__name__}: only functions, methods, generators and coroutines are decorated",
                got=repr(function)[:60],
                hint=f"`with rf.{type(self).__name__}(…):` around the lines that run it",
            )
        if inspect.iscoroutinefunction(function):
            return wraps(function)(self._waits(function))
        return (
            wraps(function)(self._yields(function))
            if inspect.isgeneratorfunction(function)
            else super().__call__(function)
        )

    def _waits(self, function: Callable[..., Any]) -> Callable[..., object]:
        async def call(*args: object, **kwargs: object) -> object:
            with self._recreate_cm():  # type: ignore[attr-defined]
                return await function(*args, **kwargs)

        return call

    def _yields(self, function: Callable[..., Iterator[object]]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            with self._recreate_cm():  # type: ignore[attr-defined]
                return (yield from function(*args, **kwargs))

        return call


T = TypeVar("T")


class Steps(Generic[T]):
    """The result of `rf.steps`: the same items, whose loop is recorded."""

    def __init__(self, items: Iterable[T] | AsyncIterable[T], name: str | None, dims: Axes | None):
        self._items: Any = items
        self._name, self._dims = name, dims

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the items, such as the `batch_size` of a loader."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._items, name)

    def __iter__(self) -> Iterator[T]:
        return self._record(iter(self._items))

    def __reversed__(self) -> Iterator[T]:
        return self._record(reversed(self._items))

    def _record(self, items: Iterator[T]) -> Iterator[T]:
        self._begin(sys._getframe(2))
        return _until_the_end(items)

    def _begin(self, frame: FrameType) -> None:
        if record_loop(frame, self._name, self._dims, caller="steps"):
            return
        while frame.f_back is not None and not (is_yours(file := frame.f_code.co_filename) or file.startswith("<")):
            frame = frame.f_back
        reason = why_unknown(frame.f_code) or "it is not the iterable of a `for` statement"
        warn(f"steps: not recorded, as {reason.replace('its source', 'the source', 1)}")


class AsyncSteps(Steps[T]):
    """Those of items for `async for`. Others have no `__aiter__`: tqdm and others prefer it where it is."""

    def __aiter__(self) -> AsyncIterator[T]:
        items: AsyncIterator[T] = aiter(self._items)
        self._begin(sys._getframe(1))
        return items


def record_loop(
    frame: FrameType,
    name: str | None,
    dims: Axes | None = None,
    *,
    caller: str,
    stores: bool = True,
    pausing: Callable[[], object] = lambda: None,
) -> bool:
    """Records the loop whose `for` statement takes its iterator now.

    Args:
        frame: that of the statement, or one that the user's statement called.
        name: of the run.
        dims: for variables, the names of their axes.
        caller: what the user called, for a warning where nothing can be recorded; without one if it is empty.
        stores: whether the run is kept also if the loop has not paused.
        pausing: is called before the loop pauses.

    Returns whether there is such a statement, whose source can be read.
    """
    for running in (_user_frame(frame), frame):
        text = None if running is None else outline(running.f_code)
        place = None if text is None or running is None else text.places.get(running.f_lasti)
        number = None if text is None or place is None else text.headers.get(place.statement)
        if running is not None and number is not None and not is_compiled(running.f_code):
            loop_name = _name_of(running, number)
            if caller == "steps" and name is not None and loop_name not in (None, name):
                warn(f"steps: this loop is one run, which is named {loop_name!r}: the name {name!r} is not used")
            else:
                _start(OneLoop(number, name, dims, stores, pausing), running, caller, number)
            return True
    return False


def _name_of(frame: FrameType, number: int) -> str | None:
    """The name of a loop that begins, if another iterable of its header has given one."""
    recorder = recording_here().frames.get(frame)
    names = () if recorder is None else (client.name(number) for client in recorder.clients)
    return next((name for name in names if name is not None), None)


def _until_the_end(items: Iterator[T]) -> Iterator[T]:
    """The items of a loop, and a word at its end if a debugger has taken over.

    No item is held, and no generator closed that goes on after the loop.
    """
    try:
        while True:
            yield next(items)
    except StopIteration:
        return
    finally:
        recording_here().check()


class OneLoop(LoopClient):
    """A client that wants one loop of a frame that runs already, once; the arguments are those of `record_loop`."""

    def __init__(self, number: int, name: str | None, dims: Axes | None, stores: bool, pausing: Callable[[], object]):
        super().__init__(number)
        self._name, self.dims, self.stores, self._before_pause = name, dims, stores, pausing

    def name(self, number: int) -> str | None:
        """The name that the user gave."""
        return self._name if number == self._number else None

    def done(self, loop: Iterations) -> None:
        """Stores the run of the loop."""
        if loop.number == self._number:
            self.left()
            if self.stores or loop.was_paused:
                _store(loop)

    def left(self) -> None:
        """The loop has ended, or will not begin: there was no first item, or an error instead of it."""
        recording_here().remove(self)

    def pausing(self) -> None:
        """Runs what is to be done before."""
        self._before_pause()


class AllLoops(Client):
    """A client that wants all loops of chosen code."""

    def __init__(self, chooses: Callable[[CodeType], bool], dims: Axes | None):
        self._chooses, self.dims = chooses, dims
        self.ran = False  # whether there was a loop
        self.also: list[str] = []  # other functions with loops that ran

    def chooses(self, code: CodeType) -> bool:
        """The chosen code."""
        return self._chooses(code)

    def done(self, loop: Iterations) -> None:
        """Stores the run of a loop; loops inside of another one are read from its run."""
        self.ran = self.ran or bool(loop.starts)
        if not loop.inside:
            _store(loop, self.also)


def _start(client: Client, frame: FrameType | None, caller: str, number: int | None = None) -> bool:
    """Begins to record for a client, also in a frame that runs already, in the header of loop `number`."""
    try:
        recording_here().add(client)
    except Busy as error:
        if caller:
            warn(f"{caller}: nothing is recorded, because {error}")
        return False
    if frame is not None:
        try:
            recording_here().follow(frame, client, number)
        except Exception as error:  # a problem of the recorder never becomes one of the loop
            warn(f"{caller or 'a loop'}: not recorded: {type(error).__name__}: {error}")
    return True


def _store(loop: Iterations, also: Sequence[str] = ()) -> None:
    if loop.starts and not loop.stored:
        loop.stored = True
        if loop.run is not None or loop.dims:  # which have the lengths of now
            store(run_of(loop, loop.dims, also=also))
            loop.run = None
        else:
            modules = 0 if loop.around is None else sum(loop.around.sizes.values())
            key = id(loop.code), loop.number, loop.name
            store_later(key, (loop.bytes or 0) + modules, partial(_made, loop, also, block_of(loop)))


def _made(loop: Iterations, also: Sequence[str], text: Block) -> Run:
    with tensor_backend().unobserved():
        return run_of(loop, also=also, text=text)


@guarded
def steps(items: Iterable[T] | AsyncIterable[T], *, name: str | None = None, dims: Axes | None = None) -> Steps[T]:
    """The items of a loop of plain Python, whose iterations become the steps of a run.

    >>> total = 0
    >>> for n in rf.steps(range(4), name="sum"):
    ...     total = total + n
    >>> run = rf.runs["sum"]
    >>> run.steps, run[2].before.total.item(), run[2].total.item()
    (4, 1, 3)

    Args:
        items: any iterable; also one for `async for`.
        name: of the run; by default that of the function, or the text of the loop.
        dims: for variables, the names of their axes: `{"att": ["batch", "source"]}`. A Dim in place of a name has
            lengths, which say what is padding; one more Dim, with a vocab, is what integers are labels of.

    Raises ParameterError for other arguments.
    """
    if not isinstance(items, Iterable | AsyncIterable) and not hasattr(items, "__getitem__"):
        raise ParameterError("steps: `items` cannot be iterated", got=type(items).__name__, expected="an iterable")
    if not (name is None or isinstance(name, str)):
        raise ParameterError("steps: `name` is not a text", got=type(name).__name__, expected="a text or None")
    kind: type[Steps[T]] = AsyncSteps if isinstance(items, AsyncIterable) else Steps
    return kind(items, name, axes_of("steps", dims))


class record_loops(RecordingBlock):
    """Records the loops of plain Python that run inside the block, or inside the decorated function.

    >>> def countdown(n):
    ...     while n > 0:
    ...         n = n - 1
    ...     return n
    >>> with rf.record_loops(countdown):
    ...     countdown(3)
    0
    >>> rf.runs["countdown"][1].n.item()
    1

    Args:
        functions: functions, methods, or their places as text "module:function": their loops, and those of functions in
            the same file that they call. Without them: the loops of all code that is yours, which is that of cells, and
            of files outside of installed packages.
        dims: for variables, the names of their axes.

    Raises ParameterError for what is not a function with source.
    """

    def __init__(self, *functions: Callable[..., object] | str, dims: Axes | None = None):
        super().__init__(*functions, dims=dims)
        self._functions = [_code_of("record_loops", function) for function in functions]
        self._files = frozenset(code.co_filename for code in self._functions)
        self._others = OtherFunctions(self._files)
        self._client = AllLoops(self._chosen, axes_of("record_loops", dims))
        self._called: dict[CodeType, None] = {}  # code that ran, and was chosen
        self.warns = True

    def __enter__(self) -> record_loops:
        self._client.also = []
        frame = _user_frame(sys._getframe(1))
        self._client.ran = not _start(
            self._client, frame if frame is not None and self._chosen(frame.f_code) else None, "record_loops"
        )
        return self

    def __exit__(self, *error: object) -> None:
        recording_here().remove(self._client)
        self._client.also += self._others.with_loops()
        if not self.warns or error[0] is not None:
            return
        if self._client.ran:
            for words in self._called_but(change_of):
                warn(f"record_loops: not all is recorded: {words}")
        else:
            hint = f"; loops ran in {', '.join(self._client.also)}, which can be named" if self._client.also else ""
            warn(f"record_loops: nothing was recorded: {self._reason()}{hint}")

    def _chosen(self, code: CodeType) -> bool:
        if self._files:
            is_chosen = code.co_filename in self._files or not self._others.add(code)
        else:
            is_chosen = is_yours(code.co_filename)
        if is_chosen:
            self._called[code] = None
        return is_chosen

    def _reason(self) -> str:
        """Why there is no run."""
        words = self._called_but(why_unknown) or [self._reason_of(code) for code in self._functions]
        return "; ".join(words or ["no loop of your code ran; name the function that has the loop"])

    def _called_but(self, reason_of: Callable[[CodeType], str | None]) -> list[str]:
        """Why code that ran, and may have loops, is not recorded: each reason once."""
        called = [code for code in self._called if outline(code) is None and (may_loop(code) or is_compiled(code))]
        reasons = {reason: code.co_name for code in called if (reason := reason_of(code)) is not None}
        return [f"{name} ran, but {reason}" for reason, name in reasons.items()]

    def _reason_of(self, code: CodeType) -> str:
        if code not in self._called:
            return f"{code.co_name} was not called in this thread"
        return f"{code.co_name} ran, and {'has no loop' if outline(code) is None else 'no loop in it had a step'}"


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code."""
    while frame is not None and not is_yours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


class record_calls(RecordingBlock):
    """Records the calls of functions inside the block, or inside the decorated function: each is a step of a run.

    A step has the arguments, what the lines assigned, and the result as `returned`, or the error as `raised`. Loops in
    a call are runs of the step; calls inside of a call are a part of it. `before.x` is the variable at the end of the
    call before.

    >>> def double(x):
    ...     y = 2 * x
    ...     return y + 1
    >>> with rf.record_calls(double):
    ...     double(3), double(5)
    (7, 11)
    >>> run = rf.runs["double"]
    >>> run.steps, run[1].x.item(), run[1].y.item(), run[1].returned.item()
    (2, 5, 10, 11)

    Args:
        functions: functions, methods, or their places as text "module:function". A method of an object stands for the
            calls on this object, that of a class for those on all objects. Each function has a run.
        dims: for variables, the names of their axes.

    Raises ParameterError for what is not a function with source.
    """

    def __init__(self, *functions: Callable[..., object] | str, dims: Axes | None = None):
        super().__init__(*functions, dims=dims)
        self._dims = axes_of("record_calls", dims)
        if not functions:
            raise ParameterError("record_calls: no function is named", expected="rf.record_calls(model.forward)")
        self._of_calls = [_calls_of(function) for function in functions]
        self._open: list[FunctionRecorder] = []

    def __enter__(self) -> record_calls:
        for code, text, owner in self._of_calls:
            recorder = FunctionRecorder(code, text, owner, recording_here(), _store, self._dims)
            if not _start(recorder, None, "record_calls"):
                break
            self._open.append(recorder)
        return self

    def __exit__(self, *error: object) -> None:
        while self._open:
            recorder, recording = self._open.pop(), recording_here()
            recording.remove(recorder)
            if not recorder.close() and not recording.chooses(recorder.code):
                warn(f"record_calls: {recorder.code.co_name} was not called in this thread while it was recorded")


def _calls_of(function: Callable[..., object] | str) -> tuple[CodeType, Outline, object]:
    """The code of a function, its outline, and the object if it is a method of one."""
    code = _code_of("record_calls", function)
    text, owner = outline_of_calls(code), getattr(function, "__self__", None)
    if text is None:
        reason = why_unknown(code) or "it has no lines of its own; write it as a function with `def`"
        raise ParameterError(f"record_calls: {code.co_name} cannot be recorded: {reason}", got=code.co_filename)
    return code, text, None if isinstance(owner, type) else owner


def _code_of(caller: str, function: Callable[..., object] | str) -> CodeType:
    """The code of a function, method, or "module:function"."""
    target: Any = function
    if isinstance(function, str):
        module, _, path = function.partition(":")
        try:
            target = importlib.import_module(module)
            for name in filter(None, path.split(".")):
                target = getattr(target, name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ParameterError(
                f"{caller}: {function!r} is not there: {error}", expected='"module:function"'
            ) from None
    target = inspect.unwrap(getattr(target, "__func__", target)) if callable(target) else target
    code = getattr(target, "__code__", None)
    if not isinstance(code, CodeType):
        raise ParameterError(
            f"{caller}: not a function of Python",
            got=repr(function)[:60],
            expected='functions, methods, or "module:function"',
        )
    return code


# -- rf.pause()


def pause_here() -> None:
    """Pauses at the line of the user's code that runs now, and shows its variables."""
    frame = user_frame()
    if frame is None or pauses.muted:
        return
    recorder, at = recording_here().frames.get(frame), None
    if recorder is None or not recorder._open:
        at = _place(frame)
        recorder = None if at is None else _recorder_of(frame, *at[:2])
    if recorder is None:
        return
    of = pauses_of(recorder, recorder._open[-1])
    if of.is_off and can_hold() != "yes":
        return
    if at is not None:
        recorder.add_step(variables_at(frame, *at))
    of.hold(frame, f"rf.pause() in {Source(frame.f_code, frame.f_lasti).place()}", frame.f_lineno)


def _recorder_of(frame: FrameType, text: Outline, number: int) -> FrameRecorder:
    """The recorder of the pauses at this line: each is a step, with the variables as they are then."""
    recorders = _recorders.setdefault(frame.f_code, {})
    if frame.f_lineno not in recorders:
        name = frame.f_code.co_name
        client = OneLoop(number, "cell" if name == "<module>" else name, None, True, lambda: None)
        recorder = recorders[frame.f_lineno] = FrameRecorder(frame.f_code, text, [client], Recording())
        loop = Iterations(frame.f_code, text, number, recorder.variables.log)
        loop.name = client.name(number)
        recorder._open.append(loop)
    return recorders[frame.f_lineno]


def _place(frame: FrameType) -> tuple[Outline, int, int] | None:
    """The outline of the code, and in it the innermost loop, or the whole, and the statement that runs now."""
    for text in (outline(frame.f_code), outline_of_calls(frame.f_code)):
        place = None if text is None else text.places.get(frame.f_lasti)
        if text is not None and place is not None and text.statements[place.statement].loops:
            return text, text.statements[place.statement].loops[-1], place.statement
    return None


_recorders: WeakKeyDictionary[CodeType, dict[int, FrameRecorder]] = WeakKeyDictionary()
"""By code and line, the calls of `rf.pause()` in code that is not recorded."""
