"""The tape: the raw calls that a loop body makes on its traced frame, to be replayed on other frames.

A backend may join calls of a step, or move a product with a weight after the last step: `FuseOps`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rfnb.core.ground.scope import within
from rfnb.core.tensor.tensor import RawTensor


class Var(NamedTuple):
    """A value computed on the tape, or an input of the step."""

    number: int
    kind: str = "var"  # so that it does not equal an External of the same number


class External(NamedTuple):
    """A raw tensor from outside the body."""

    number: int
    kind: str = "external"


class Stream(NamedTuple):
    """The generator of a random op, which is seeded anew at each step."""

    number: int
    kind: str = "stream"


Reference = Var | External | Stream
"""What stands for a tensor or a generator in a recorded call."""


Wrap = Callable[[Callable[..., object]], Callable[..., object]]


@dataclass(slots=True)
class Call:
    """One raw call. `args` and `kwargs` hold Var, External and Stream where raw tensors and generators were."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int | None  # the Var of a single tensor; None if there is none, or several
    parts: tuple[tuple[int, int], ...] = ()  # (index, Var) of a result with several tensors
    changes: tuple[int, ...] = ()  # Vars that the call writes into
    effect: bool = False  # whether it runs at every step, even if unused: it changes something outside, or is opaque
    node: Any = None  # the node of the graph that made it
    reads: list[Reference] = field(init=False, repr=False, compare=False)  # in the order of its arguments
    read_vars: list[int] = field(init=False, repr=False, compare=False)  # the numbers of the Vars that it reads
    made: list[int] = field(init=False, repr=False, compare=False)  # the numbers of the Vars that it computes

    def __getattr__(self, name: str) -> Any:
        """The last three are found when they are first asked for."""
        if name == "made":
            self.made = [var for _, var in self.parts] if self.result is None else [self.result]
        elif name in ("reads", "read_vars"):
            self._look()
        else:
            raise AttributeError(name)
        return getattr(self, name)

    def _look(self) -> None:
        self.reads = []
        _collect((*self.args, *self.kwargs.values()), self.reads)
        self.read_vars = [reference.number for reference in self.reads if type(reference) is Var]

    def give(self, *args: object) -> None:
        """Adds arguments to those that were recorded."""
        self.args = (*self.args, *args)
        self._look()


def _collect(tree: Any, found: list[Reference]) -> None:
    for part in tree.values() if type(tree) is dict else tree:
        kind = type(part)
        if kind is Var or kind is External or kind is Stream:
            found.append(part)
        elif kind is tuple or kind is list or kind is dict:
            _collect(part, found)
        elif kind is slice:
            _collect((part.start, part.stop, part.step), found)


class TapeOps:
    """The functions of a backend that a loop needs to record a tape and replay it."""

    new_tape: Callable[[], Tape]
    take: Callable[[Tape], Any]
    uncompiled: Callable[[Callable[[], object]], object]
    unobserved: Callable[[], AbstractContextManager[object]]
    is_observed: Callable[[], int]
    alias_raw: Callable[[RawTensor], RawTensor]
    overwrite_raw: Callable[[RawTensor, RawTensor], None]
    identity_raw: Callable[[RawTensor], RawTensor]
    apart_raw: Callable[[Sequence[RawTensor]], list[RawTensor]]
    scan_raw: Callable[..., tuple[Sequence[RawTensor], Sequence[RawTensor]]]
    needs_gradient_raw: Callable[[RawTensor], bool]
    is_finite_raw: Callable[[RawTensor], bool]
    is_readable_raw: Callable[[RawTensor], bool]
    same_raw: Callable[[RawTensor, RawTensor], bool]
    all_true_raw: Callable[[RawTensor], bool]
    snapshot_raw: Callable[[RawTensor], RawTensor]
    layout_raw: Callable[[RawTensor], tuple[int, tuple[int, ...]]]
    copies_raw: Callable[[Sequence[tuple[RawTensor, tuple[int, tuple[int, ...]]]]], list[RawTensor]]
    version_raw: Callable[[RawTensor], int]
    counts_changes_raw: Callable[[RawTensor], bool]
    counted_version_raw: Callable[[RawTensor], int | None]
    plain_version_raw: Callable[[RawTensor], tuple[int, int, bool] | None]
    current_version_raw: Callable[[RawTensor], int]
    hides_changes: Callable[[RawTensor], bool]
    is_leaf_raw: Callable[[RawTensor], bool]
    nbytes_raw: Callable[[RawTensor], int]
    keeps_more_raw: Callable[[Any], bool]
    is_on_host_raw: Callable[[RawTensor], bool]
    spare_memory_raw: Callable[[RawTensor], int]
    storage_raw: Callable[[RawTensor], tuple[RawTensor, int]]
    equal_raw: Callable[[RawTensor, RawTensor], bool]
    sample_raw: Callable[[RawTensor], RawTensor]
    get_modes: Callable[[], dict[str, Any]]
    modes: Callable[..., Any]


class Tape:
    """Raw calls in order, and the tensors that they read from outside.

    raw: the type of the raw tensors of the backend. generator: that of its sources of random numbers.
    settings: gives a wrapper that runs a function under the current settings, such as autocast; None if they
        are those of the steps.
    """

    def __init__(self, raw: type, generator: type):
        self.calls: list[Call] = []
        self.externals: list[RawTensor] = []
        self.values: list[RawTensor] = []  # by Var: its value on the traced frame
        self.streams: list[Any] = []
        self.paused = 0
        self.settings: Callable[[], Wrap | None] = lambda: None
        self.wrap: Wrap | None = None  # the result of `settings` for the running op
        self.new_stream: Callable[[str], object] | None = None  # gives a generator that is seeded for each step
        self.gradients = True  # whether those of the steps are recorded, unlike those of the trial
        self.trial = False  # whether ops are only being tried out, and are not part of step 0
        self.grown: set[int] = set()  # serials of the dims whose size differs per step
        self.ops: list[str] = []  # the running ops, the outermost first; empty while lines of the body itself run
        self.gradient_watchers: dict[str, Callable[[RawTensor], None]] = {}  # see gradients of the results
        self._before: list[tuple[Any, Any]] = []  # tensors that were written into, and copies of their former values
        self._known: dict[int, Reference] = {}  # by id of objects that this tape keeps alive
        self._raw, self._referred = raw, (raw, generator)

    def keep(self, raw: RawTensor, copy: object) -> None:
        """Stores a copy of a tensor from outside before the trial changes it."""
        if all(other is not raw for other, _ in self._before):
            self._before.append((raw, copy))

    def is_kept(self, raw: RawTensor) -> bool:
        """Whether the body writes into the tensor."""
        return any(other is raw for other, _ in self._before)

    def restore(self, overwrite: Callable[[RawTensor, RawTensor], None]) -> None:
        """Undoes the changes of the trial to tensors outside."""
        for raw, copy in self._before:
            overwrite(raw, copy)

    @contextmanager
    def trying(self, overwrite: Callable[[RawTensor, RawTensor], None]) -> Iterator[None]:
        """Undoes all changes made inside the block at its end, also of values of the tape."""
        outer, was = self._before, self.trial
        self._before, self.trial = [], True
        try:
            yield
        finally:
            with self.pause():
                self.restore(overwrite)
            tried, self._before, self.trial = self._before, outer, was
            for raw, copy in tried:
                self.keep(raw, copy)

    def forget(self) -> None:
        """Releases all tensors that the tape holds."""
        for table in (self.calls, self.externals, self.values, self.streams):
            table.clear()
        self._known.clear()
        self._before.clear()
        self.new_stream = None

    def input(self, raw: RawTensor) -> Var:
        """Declares an input of the step: a state, a frame."""
        return self._new(raw)

    def number_input(self, number: int) -> Var:
        """Declares an input of the step that is a number: a size that grows."""
        self.values.append(number)
        return Var(len(self.values) - 1)

    def differs(self, raw: RawTensor, dim: Any) -> bool:
        """Whether a value differs per step, as the size of the dim does: ops on it are called in each step."""
        return not self.grown.isdisjoint(dim.roots) and isinstance(self.find(raw), Var)

    def stream(self, generator: object) -> Stream:
        """Declares the generator of a random op."""
        source = Stream(len(self.streams))
        self.streams.append(generator)
        self._known[id(generator)] = source
        return source

    def find(self, raw: RawTensor) -> Reference | None:
        """The Var or External of a raw tensor on this tape."""
        return self._known.get(id(raw))

    def refer(self, raw: RawTensor) -> Reference:
        """The Var or External of a raw tensor; unknown tensors become an External."""
        reference = self._known.get(id(raw))
        if reference is None:
            reference = External(len(self.externals))
            self.externals.append(raw)
            self._known[id(raw)] = reference
        return reference

    def _new(self, raw: RawTensor) -> Var:
        var = Var(len(self.values))
        self.values.append(raw)
        self._known[id(raw)] = var
        return var

    def record(
        self,
        fn: Callable[..., object],
        args: Sequence[object],
        kwargs: dict[str, object],
        result: Any,
        *,
        writes: bool = False,
        always: bool = False,
    ) -> None:
        """Records a call. Calls that neither return nor change a tensor are skipped.

        writes: whether it changes its first argument, or the one given as `out`.
        always: whether it runs at every step, even if its result is unused or constant.
        """
        changed = self.refer(kwargs.get("out", args[0] if args else None)) if writes else None
        is_sequence, numbers = isinstance(result, (list, tuple)), self._known
        results = enumerate(result) if is_sequence else ((0, result),)
        new = [(i, raw) for i, raw in results if id(raw) not in numbers and isinstance(raw, self._raw)]
        if not new and not writes and not always:
            return
        template = self._template
        inputs = tuple([arg if type(arg) in _PLAIN else numbers.get(id(arg)) or template(arg) for arg in args])
        wrap = self.wrap if self.ops else self.settings()
        if wrap is not None:
            fn = wrap(fn)
        call = Call(fn, inputs, template(kwargs) if kwargs else {}, None, effect=always)
        if changed is not None:
            call.changes = (changed.number,) if isinstance(changed, Var) else ()
            call.effect = not call.changes  # at every step, in this order, since later reads depend on it
        outputs = [(i, self._new(raw).number) for i, raw in new]
        if is_sequence:
            call.parts = tuple(outputs)
        elif outputs:
            call.result = outputs[0][1]
        self.calls.append(call)

    def _template(self, tree: Any) -> Any:
        kind = type(tree)
        if kind in _PLAIN:
            return tree
        if isinstance(tree, self._referred):
            return self.refer(tree)
        if isinstance(tree, dict):
            return {key: self._template(value) for key, value in tree.items()}
        if isinstance(tree, slice):
            return slice(self._template(tree.start), self._template(tree.stop), self._template(tree.step))
        if kind is list or kind is tuple:
            return kind([self._template(part) for part in tree])
        return tree

    def pause(self) -> PausedTape:
        """Nothing is recorded inside."""
        return PausedTape(self)


_PLAIN = frozenset({int, float, bool, str, type(None)})
"""Types of arguments that are neither raw tensors nor contain any."""


class PausedTape:
    """A context in which a tape records nothing."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape | None):
        self._tape = tape

    def __enter__(self) -> None:
        if self._tape is not None:
            self._tape.paused += 1

    def __exit__(self, *error: object) -> None:
        if self._tape is not None:
            self._tape.paused -= 1


_current: ContextVar[Tape | None] = ContextVar("rfnb_tape", default=None)


def current_tape() -> Tape | None:
    """The tape that is being recorded in this thread."""
    return _current.get()


def taking(tape: Tape) -> AbstractContextManager[None]:
    """Records on `tape` inside."""
    return within(_current, tape)


def untaped() -> PausedTape:
    """No tape is recorded inside."""
    return PausedTape(_current.get())


def is_trial() -> bool:
    """Whether ops are only being tried out: results are discarded, and side effects undone."""
    tape = _current.get()
    return tape is not None and tape.trial


def opaque(fn: Callable[..., object], *args: object, gives: bool = True, effect: bool = True) -> Any:
    """fn(*args) as one call on the tape, whatever happens inside.

    gives: whether it returns a result. If not, it is skipped where ops are only tried out. effect: whether it may do
    more than that; if not, it is left out where its result is not needed.
    """
    tape = _current.get()
    if tape is None or tape.paused:
        return fn(*args)
    with tape.pause():
        result = fn(*args) if gives or not tape.trial else None
    tape.record(fn, args, {}, result, always=effect)
    return result


class Product(NamedTuple):
    """A raw call that is x + h·W, or h·W, where W comes from outside the loop.

    place: position of W in the arguments. transposed: whether that argument is the transpose of the tensor outside.
    out_first: whether W is [out, in] outside, not [in, out].
    """

    call: Call
    x: Var | None
    h: Var
    weight: External
    place: int
    transposed: bool = False
    out_first: bool = False

    def with_weight(self, weight: External, result: int) -> Call:
        """The same call with a different weight and result."""
        args = [weight if place == self.place else arg for place, arg in enumerate(self.call.args)]
        return Call(self.call.fn, tuple(args), self.call.kwargs, result, node=self.call.node)


class Once(NamedTuple):
    """An argument of a joined call that is the same at every step: the result of `fn`, which reads externals."""

    fn: Callable[..., RawTensor]
    args: tuple[Any, ...]


class FuseOps:
    """A backend may fuse calls of a step, and compute the gradients of weights at the end of a loop."""

    joins_raw: Callable[[], bool]
    joined_raw: Callable[[Sequence[Call], Sequence[RawTensor], Sequence[RawTensor], Collection[Var]], list[Call]]
    products_raw: Callable[[Sequence[Call], Sequence[RawTensor], Sequence[RawTensor]], list[Product]]
    sum_raw: Callable[[RawTensor, RawTensor], RawTensor]
    constant_weight_raw: Callable[[RawTensor, bool], RawTensor]
    deferred_raw: Callable[[RawTensor, Sequence[RawTensor], Sequence[bool]], tuple[RawTensor, list[RawTensor]]]
    no_frames_raw: Callable[[RawTensor, int], RawTensor]
    stack_detached_raw: Callable[[Sequence[RawTensor]], RawTensor]
    grad_enabled_raw: Callable[[], bool]
