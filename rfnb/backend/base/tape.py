"""The tape: the raw calls that a loop body makes on its traced frame, to be made again on other frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Var(NamedTuple):
    """A value that the tape made, or an input of the step."""

    number: int
    kind: str = "var"  # tuples are equal if their entries are: it is no External of this number


class External(NamedTuple):
    """A raw tensor from outside of the body."""

    number: int
    kind: str = "external"


class Stream(NamedTuple):
    """The generator of a random op; seeded anew for each step."""

    number: int
    kind: str = "stream"


@dataclass(slots=True)
class Call:
    """One raw call. `args` and `kwargs` hold Var, External and Stream where raw tensors and generators were."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int | None  # the Var of a single tensor; None if there is none, or several
    parts: tuple[tuple[int, int], ...] = ()  # (index, Var) of a result with several tensors
    changes: tuple[int, ...] = ()  # Vars that it writes into
    effect: bool = False  # whether it is made at every step, needed or not: it changes something outside, or is opaque
    node: Any = None  # the node of the graph that made it
    _reads: list[Var | External | Stream] | None = field(default=None, init=False)
    _read_vars: tuple[int, ...] | None = field(default=None, init=False)

    def reads(self) -> list[Var | External | Stream]:
        """What it takes, in the order of its arguments."""
        if self._reads is None:
            self._reads = []
            _collect((self.args, self.kwargs), self._reads)
        return self._reads

    def read_vars(self) -> tuple[int, ...]:
        """The numbers of the Vars that it takes."""
        if self._read_vars is None:
            self._read_vars = tuple([read.number for read in self.reads() if type(read) is Var])
        return self._read_vars

    def made(self) -> list[int]:
        """The numbers of the Vars that it makes."""
        return [var for _, var in self.parts] if self.result is None else [self.result]


def _collect(tree: Any, found: list[Var | External | Stream]) -> None:
    for part in tree.values() if type(tree) is dict else tree:
        kind = type(part)
        if kind is Var or kind is External or kind is Stream:
            found.append(part)
        elif kind is tuple or kind is list or kind is dict:
            _collect(part, found)
        elif kind is slice:
            _collect((part.start, part.stop, part.step), found)


class TapeOps:
    """What a loop, which takes a tape and plays it, needs of a backend besides maths."""

    new_tape: Callable[[], Tape]
    take: Callable[[Tape], Any]
    alias_raw: Callable[[Any], Any]
    overwrite_raw: Callable[[Any, Any], None]
    identity_raw: Callable[[Any], Any]
    frames_raw: Callable[[Any, int], Sequence[Any]]
    needs_gradient_raw: Callable[[Any], bool]
    is_finite_raw: Callable[[Any], bool]
    same_raw: Callable[[Any, Any], bool]
    all_true_raw: Callable[[Any], bool]
    snapshot_raw: Callable[[Any], Any]
    version_raw: Callable[[Any], int]
    is_leaf_raw: Callable[[Any], bool]
    nbytes_raw: Callable[[Any], int]
    storage_raw: Callable[[Any], tuple[Any, int]]
    equal_raw: Callable[[Any, Any], bool]
    sample_raw: Callable[[Any], Any]
    get_modes: Callable[[], dict[str, Any]]
    modes: Callable[..., Any]


class Tape:
    """Raw calls in order, and what they read from outside.

    is_raw: whether something is a raw tensor of the backend. is_generator: whether it is a source of random numbers.
    settings: gives what makes a function run under the settings of now, such as autocast; None if they are those under
        which the steps run.
    """

    def __init__(self, is_raw: Callable[[Any], bool], is_generator: Callable[[Any], bool]):
        self.calls: list[Call] = []
        self.externals: list[Any] = []
        self.values: list[Any] = []  # by Var: what it was on the traced frame
        self.streams: list[Any] = []
        self.paused = 0
        self.settings: Callable[[], Callable[[Any], Any] | None] = lambda: None
        self.under: Callable[[Any], Any] | None = None  # what `settings` gave for the op under way
        self.new_stream: Callable[[str], Any] | None = None  # gives a generator, which is seeded for each step
        self.scratch = False  # whether what is done is only tried out: it is not what step 0 does
        self.ops: list[str] = []  # those under way, the outermost first; none while lines of the body itself run
        self._before: list[tuple[Any, Any]] = []  # what was written into, and a copy of what it was
        self._known: dict[int, Var | External | Stream] = {}  # by id of objects that this tape keeps alive
        self._is_raw = is_raw
        self._is_generator = is_generator

    def keep(self, raw: Any, copy: Any) -> None:
        """Remembers what something from outside was before the trial changes it."""
        if all(known is not raw for known, _ in self._before):
            self._before.append((raw, copy))

    def is_kept(self, raw: Any) -> bool:
        """Whether the body writes into it."""
        return any(known is raw for known, _ in self._before)

    def restore(self, overwrite: Callable[[Any, Any], None]) -> None:
        """Takes back what the trial changed outside."""
        for raw, copy in self._before:
            overwrite(raw, copy)

    @contextmanager
    def trying(self, overwrite: Callable[[Any, Any], None]) -> Iterator[None]:
        """What is done inside is taken back at once, also for values of the tape."""
        kept, was = self._before, self.scratch
        self._before, self.scratch = [], True
        try:
            yield
        finally:
            with self.pause():
                self.restore(overwrite)
            tried, self._before, self.scratch = self._before, kept, was
            for raw, copy in tried:
                self.keep(raw, copy)

    def forget(self) -> None:
        """Lets go of all that it holds."""
        for table in (self.calls, self.externals, self.values, self.streams):
            table.clear()
        self._known.clear()
        self._before.clear()
        self.new_stream = None

    def input(self, raw: Any) -> Var:
        """Declares an input of the step: a state, a frame."""
        return self._new(raw)

    def number_input(self, number: int) -> Var:
        """Declares an input of the step that is a number: a size that grows."""
        self.values.append(number)
        return Var(len(self.values) - 1)

    def stream(self, generator: Any) -> Stream:
        """Declares the generator of a random op."""
        found = Stream(len(self.streams))
        self.streams.append(generator)
        self._known[id(generator)] = found
        return found

    def find(self, raw: Any) -> Var | External | Stream | None:
        """What a raw tensor is on this tape."""
        return self._known.get(id(raw))

    def refer(self, raw: Any) -> Var | External | Stream:
        """Likewise; unknown ones come from outside."""
        found = self._known.get(id(raw))
        if found is None:
            found = External(len(self.externals))
            self.externals.append(raw)
            self._known[id(raw)] = found
        return found

    def _new(self, raw: Any) -> Var:
        var = Var(len(self.values))
        self.values.append(raw)
        self._known[id(raw)] = var
        return var

    def record(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        result: Any,
        *,
        writes: bool = False,
        always: bool = False,
    ) -> None:
        """Notes a call that was made. Calls that give no tensor and change none are left out.

        writes: it changes its first argument, or what it was given as `out`.
        always: it is made at every step, whether or not its result is used or differs.
        """
        changed = self.refer(kwargs.get("out", args[0] if args else None)) if writes else None
        several = isinstance(result, (list, tuple))
        new = [
            (i, raw)
            for i, raw in enumerate(result if several else (result,))
            if id(raw) not in self._known and self._is_raw(raw)
        ]
        if not new and not writes and not always:
            return
        template = self._template
        given = tuple([template(arg) for arg in args])
        under = self.under if self.ops else self.settings()
        if under is not None:
            fn = under(fn)
        call = Call(fn, given, template(kwargs) if kwargs else {}, None, effect=always)
        if changed is not None:
            call.changes = (changed.number,) if isinstance(changed, Var) else ()
            call.effect = not call.changes  # at every step, in this order: what reads it later reads what it is then
        made = [(i, self._new(raw).number) for i, raw in new]
        if several:
            call.parts = tuple(made)
        elif made:
            call.result = made[0][1]
        self.calls.append(call)

    def _template(self, tree: Any) -> Any:
        kind = type(tree)
        if kind is int or kind is float or tree is None or kind is bool or kind is str:
            return tree
        if self._is_raw(tree) or self._is_generator(tree):
            return self.refer(tree)
        if isinstance(tree, dict):
            return {key: self._template(value) for key, value in tree.items()}
        if isinstance(tree, slice):
            return slice(self._template(tree.start), self._template(tree.stop), self._template(tree.step))
        if kind is list or kind is tuple:
            return kind([self._template(part) for part in tree])
        return tree

    @contextmanager
    def pause(self) -> Iterator[None]:
        """What happens inside is not noted."""
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1


_current: ContextVar[Tape | None] = ContextVar("rfnb_tape", default=None)


def current_tape() -> Tape | None:
    """The tape that is taken in this thread now."""
    return _current.get()


@contextmanager
def taking(tape: Tape) -> Iterator[None]:
    """`tape` is taken inside; one that is taken already waits."""
    outer = _current.get()
    token = _current.set(tape)
    try:
        if outer is None:
            yield
        else:
            with outer.pause():
                yield
    finally:
        _current.reset(token)


@contextmanager
def untaped() -> Iterator[None]:
    """No tape is taken inside."""
    tape = _current.get()
    if tape is None:
        yield
    else:
        with tape.pause():
            yield


def tried_out() -> bool:
    """Whether what is done now is done by no step: it is only to be seen what it gives."""
    tape = _current.get()
    return tape is not None and tape.scratch


def opaque(fn: Callable[..., Any], *args: Any, gives: bool = True) -> Any:
    """fn(*args) as one call on the tape, whatever happens inside.

    gives: whether it gives something. If not, it is left out where ops are only tried out.
    """
    tape = _current.get()
    if tape is None or tape.paused:
        return fn(*args)
    with tape.pause():
        result = fn(*args) if gives or not tape.scratch else None
    tape.record(fn, args, {}, result, always=True)
    return result
