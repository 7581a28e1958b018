"""The body of a loop while it is traced: collects the inputs, states and outputs of the step."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.backend.base.mask import ended_by
from rfnb.backend.base.tape import Var, untaped
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import MeasuredLoop
from rfnb.core.ground import backends
from rfnb.core.ground.nested import named_leaves
from rfnb.core.ground.scope import current_meter
from rfnb.core.ground.source import PerPlace, Source, assigned_name, frame_of, locals_of, user_source
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimRebound, LoopError
from rfnb.loop.body import branch
from rfnb.loop.body.hypotheses import Hypotheses
from rfnb.loop.ends import EndedInBody, EndedMask, KeptOrder
from rfnb.loop.step import (
    Carried,
    FrameInput,
    Kind,
    StepNumber,
    TracedStep,
    Unstacked,
    first_frame,
    mixed_seed,
    place_of,
    without_axis,
)
from rfnb.ops.create import full
from rfnb.ops.grad import makes_constants
from rfnb.ops.index import gather
from rfnb.ops.math import logical_or
from rfnb.ops.random import random as draw_numbers
from rfnb.trace.pause import warn_of_inner
from rfnb.trace.plain.record import pause_here
from rfnb.trace.record.record import LoopRecord, Recorder, current_recorder, current_side, unwrap
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run import session

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.loop import Loop


T = TypeVar("T")

entered: ContextVar[tuple[Body, ...]] = ContextVar("rfnb_entered", default=())
"""The bodies that are being traced, outermost first."""
_made: WeakKeyDictionary[Body, dict[Hashable, object]] = WeakKeyDictionary()  # per outermost body


@contextmanager
def outside_of_bodies() -> Iterator[None]:
    """Ops inside are not traced by any body, and run in the modes active around the outermost loop."""
    bodies = entered.get()
    with ExitStack() as stack:
        for body in bodies:
            stack.enter_context(body.untraced())
            stack.enter_context(body.generators.ignored())
        for outermost in bodies[:1]:
            stack.enter_context(outermost.backend.modes(outermost.modes))
        yield


def once(key: Hashable, make: Callable[[], T]) -> T:
    """The result of `make()`. Within one outermost body it is called once per key, outside of all loops."""
    bodies = entered.get()
    if not bodies:
        return make()
    cache = _made.setdefault(bodies[0], {})
    if key not in cache:
        with outside_of_bodies():
            cache[key] = make()
    return cache[key]  # type: ignore[return-value]


class Reorder(NamedTuple):
    """A call of `loop.reorder`. kept: keeps the order of ended sequences, where entries of a state that grows move."""

    indices: Tensor
    dim: Dim
    kept: KeptOrder | None


class Body:
    """One pass of Python through the block of `with loop:`, which traces the step on frame 0."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.backend = backends.selected()
        self.source = user_source() if loop.listing is None else loop.listing.head
        self.outer = current_recorder()
        self.seed: Any = session.seed_of(loop.name)
        records = session.should_record(loop.debug, loop.name) if self.outer is None else self.outer.recorded
        if self.outer is not None:
            warn_of_inner(loop.name)
            seed = draw_numbers([], dtype="int64", device="cpu", distribution="uniform", minval=0, maxval=2**62)
            self.outer.drop_last_node(seed)
            self.seed = unwrap(seed)._raw
        code = self.source.code if self.source is not None else None
        self.recorder = Recorder(loop.name, self.backend.new_tape(), partial(_trial_generator, self), code)
        self.recorder.recorded = records
        if (meter := current_meter()) is not None:
            self.recorder.measured = MeasuredLoop(meter.now(), self.recorder.traced)
        self.recorder.without_gradients = makes_constants.get() and not records
        self.recorder.file = loop.file
        self.recorder.choose = partial(branch.cond, self)
        self.tape = self.recorder.tape
        self.modes = self.backend.get_modes()  # active around the loop
        self.tape.new_stream = self.recorder.new_stream
        self.carried: list[Carried] = []  # the states first
        self.frames: list[FrameInput] = []
        self.outputs: list[tuple[Traced, Pending]] = []
        self.lasts: list[tuple[Traced, Pending]] = []
        self.hypotheses: Hypotheses | None = None  # of a search
        self.reorders: list[Reorder] = []
        self.condition: Traced | None = None
        self.include_eos = True
        self.size: Size | None = None  # length of the unstacked tensors
        self.generators = GlobalGenerators(self.backend, look=self.outer is None and not judged(self.source))
        self.watchers: list[Watcher] = []  # one for each `rf.watch`
        self.pauses: list[Source] = []  # the lines that call `rf.pause`
        self.unstacked: list[tuple[Tensor, Traced]] = []  # each unstacked tensor, and its frame
        self.ended_masks = EndedInBody(self)
        self.own_ops = 0  # number of ops that the lines do, once they have ended
        self.assigned: dict[str, Any] = {}  # the states after the lines, by full name
        self._context = Contexts(ended_by(self.ended_masks), listening(self.recorder), self.backend.take(self.tape))

    # -- entering

    def open(self) -> None:
        """Starts tracing: from here on, ops belong to the body."""
        state = self.loop.state
        self.originals, self.outside = state._values, self.variables()
        with untaped(), listening(None):
            states = state._leaves()
            grown = {leaf: Dim(None, name=leaf.name) for _, leaf in states if isinstance(leaf, Dim)}
            self.recorder.grown = self.tape.grown = {dim.serial for dim in grown.values()}
            for name, leaf in states:
                _add_state(self, name, leaf, grown)
        state._replace([carry.before for carry in self.carried])
        state._begin_body(partial(_note_read, self), self.refuse_in_branch)
        self._context.__enter__()

    def untraced(self) -> Contexts:
        """Ops inside are not traced: they belong neither to this body nor to one nested in it."""
        return Contexts(untaped(), self.tape.pause(), listening(None))

    def var(self, plain: Tensor) -> Var:
        """The Var of a value on the traced frame; a value from outside is copied into the body first."""
        source = self.tape.refer(plain._raw)
        if isinstance(source, Var):
            return source
        with self.untraced():
            raw = self.backend.identity_raw(plain._raw)
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, raw)
        var = self.tape.find(raw)
        assert isinstance(var, Var)
        return var

    # -- in the body

    @cached_property
    def step_number(self) -> Traced:
        """The number of this step, for use by the loop itself rather than by a line of the body. {} int64"""
        return self.frame_of(StepNumber())

    def frame_of(self, kind: StepNumber | EndedMask, limit: Size | None = None, dims: Sequence[Dim] = ()) -> Traced:
        """What `kind` gives to each step, as a further input of the step. {dims}"""
        with self.untraced():
            frames = kind.all_frames(self.backend, None, limit or Size([], 1), 1)
            frame = tensor_of(frames[0], align.sig(dims), EMPTY)
        traced = self.recorder.input("", frame)
        self.frames.append(FrameInput(self.var(frame), kind))
        return traced

    def refuse_in_branch(self, what: str) -> None:
        """Raises LoopError inside a branch of the body, where `what` cannot be done."""
        who = current_side()
        if who is not None and who.graph is self.recorder.graph:
            raise branch.not_in_branch(self.loop.name, what)

    def of_body(self, source: Tensor, what: str) -> Traced:
        """`source` as a value of this body; a tensor from outside is copied into it."""
        if isinstance(source, Traced) and source.recorder is self.recorder:
            return source
        if not isinstance(source, Tensor):
            raise LoopError(f"{self.loop.name}: {what} of a value that is not an rf.Tensor", got=type(source).__name__)
        in_inner = current_recorder() is not self.recorder and isinstance(source, Traced)
        if in_inner and source.recorder not in (self.recorder, self.outer):
            inner = source.recorder.name
            raise LoopError(
                f"{self.loop.name}: {what} of a value of {inner}, a loop nested in it",
                got=source.name,
                expected=f"a value of {self.loop.name}",
                hint=f"use a state of {inner}, or a tensor that it stacks, after its block",
            )
        plain = unwrap(source)
        with self.untraced():
            copy = plain.like(self.backend.identity_raw(plain._raw))
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, copy._raw)
        return self.recorder._wrap(copy, plain.name)

    def carry(self, kind: Kind, like: Tensor, dtype: str, initial: object = None) -> int:
        """Adds a value that the loop itself carries, zeros at first if `initial` is None. Returns its position."""
        with self.untraced():
            shape = self.backend.get_shape_tuple_raw(like._raw)
            value = initial if initial is not None else self.backend.full_raw(shape, 0, dtype, like.device)
            signature = like.sig if dtype == like.dtype else align.sig(like.dims)
            frame = tensor_of(self.backend.alias_raw(value), signature, like.lengths)
        before = self.recorder.input("", frame)
        self.carried.append(Carried("", kind, before, self.var(frame), value, starts_empty=initial is None))
        return len(self.carried) - 1

    # -- leaving

    def leave(self) -> None:
        """Ends the tracing: ops are no longer those of the body."""
        self._context.__exit__(None, None, None)
        self.recorder.open = False
        self.loop.state._end_body()
        with untaped():
            self.tape.restore(self.backend.overwrite_raw)
        for carry in self.carried:
            if isinstance(carry.before, Dim):
                carry.before.changes_in = None

    def variables(self) -> dict[str, Tensor]:
        """The Tensors that the variables around the body have now; none if a body like this one was judged before."""
        if self.source is None or tuple(self.loop.state) in judged(self.source):
            return {}
        frame = frame_of(self.source.code)
        return {} if frame is None else {n: x for n, x in locals_of(frame).items() if isinstance(x, Tensor)}

    def end_of_lines(self) -> None:
        """Notes what the user's lines have done: later ops are those of the loop."""
        self.own_ops, self.assigned = len(self.recorder.op_calls), dict(self.loop.state._leaves())


class Contexts:
    """Several contexts as one; the first is the outermost."""

    __slots__ = ("_contexts",)

    def __init__(self, *contexts: AbstractContextManager[object]):
        self._contexts = contexts

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def _add_state(body: Body, name: str, leaf: object, grown: dict[Dim, Dim]) -> None:
    if isinstance(leaf, Dim):
        if leaf.size.ragged:
            raise LoopError(
                f"{body.loop.name}: the growing axis {name!r} has one length per sequence before the loop",
                got=leaf.describe(),
                hint=f"start with an empty axis, rf.Dim(0, name=…), and at each step put existing entries first: "
                f"both, axis = rf.concat((x, {leaf.name}), (loop.state.h, loop.state.grown))",
            )
        grown[leaf].changes_in = body.loop.name
        grown[leaf].bind(Size([], leaf.size.max))
        size = leaf.size.max
        body.carried.append(Carried(name, "state", grown[leaf], body.tape.number_input(size), size))
        return
    if not isinstance(leaf, Tensor):
        odd = not_a_tensor(name, leaf)
        raise LoopError(
            f"{body.loop.name}: the initial value of the state {name!r} is not an rf.Tensor",
            got=odd.got,
            expected="a Tensor (or a Dim that grows)",
            hint=odd.hint or f"rf.convert_to_tensor({called(leaf)}); or rf.zeros([…]), with all its dims",
        )
    plain = unwrap(leaf)
    dims = [grown.get(dim, dim) for dim in plain.dims]
    sizes = {new: Size([], plain.size_of(dim).max) for dim, new in grown.items() if dim in plain.dims}
    lengths = plain.lengths.bind(sizes) if sizes else plain.lengths
    raw = body.backend.alias_raw(plain._raw)
    raw = body.backend.copy_raw(raw) if body.loop.is_kept else raw
    frame = tensor_of(raw, align.sig(dims, plain.sparse_dim, plain.feature_dim), lengths)
    body.carried.append(Carried(name, "state", body.recorder.input(name, frame), body.var(frame), plain._raw))


def _trial_generator(body: Body, device: str, number: int) -> object:
    with body.tape.pause():
        if body.seed is None:
            with body.generators.ignored():
                body.seed = body.backend.draw_seed()
        generator = body.backend.new_generator(device)
        generator.manual_seed(mixed_seed(int(body.seed), number, 0))
    return generator


def abort(body: Body) -> None:
    """Restores the loop after an error in the body."""
    session.draw(partial(loop_record, body.loop, body, error=True))
    body.leave()
    body.loop.state._values = body.originals
    body.recorder.forget()


# -- what the lines of a body call


def _note_read(body: Body, leaf: object) -> None:
    """Notes that a state is read. If the line assigns it to a variable, it becomes a named value of the body."""
    if body.loop.listing is not None:
        name = leaf.name if isinstance(leaf, Traced) else None
    else:
        name = None if current_side() else assigned_name()
    if name is not None and isinstance(leaf, Traced) and leaf.value.node is None:
        body.recorder.input_node(leaf, "state", "state")
        leaf.value.name = name


def unstack(body: Body, source: Tensor, axis: Dim | None) -> Traced:
    """The frame of this step."""
    loop = body.loop
    axis = axis or loop.axis
    if isinstance(source, Traced) and source.recorder.graph is body.recorder.graph:
        raise LoopError(
            f"{loop.name}: unstack of a value that the body computes",
            got=source.name,
            expected="a tensor from outside",
            hint="move the op before `with loop:`",
        )
    plain = unwrap(source)
    if axis is None:
        raise LoopError(
            f"{loop.name}: unstack needs an axis",
            got=plain.describe_dims(),
            hint="rf.Loop(axis=time), or loop.unstack(x, axis=time)",
        )
    with body.untraced():
        _agree(body, plain, axis)
        kind = Unstacked(axis, body.recorder.recorded)
        frame = first_frame(body.backend, plain, *kind)
        if loop.is_kept:  # for other batches too
            frame = tensor_of(body.backend.copy_raw(frame._raw), frame.sig, without_axis(frame.lengths, axis))
    loop.axis = loop.axis or axis
    traced = body.recorder.input("", frame)
    body.frames.append(FrameInput(body.var(frame), kind, plain))
    body.unstacked.append((source, traced))
    return body.recorder.input_node(traced, "unstack")


def _agree(body: Body, plain: Tensor, axis: Dim) -> None:
    plain.axis(axis)
    size = plain.size_of(axis)
    if body.outer is not None and not body.outer.grown.isdisjoint(axis.roots):
        raise LoopError(f"{body.loop.name}: {axis.name} grows with the loop around this one")
    uneven = [dim for dim in plain.dims if axis in (plain.size_of(dim).dims or ())]
    if uneven:
        raise LoopError(
            f"{body.loop.name}: unstack along {axis.name}, but the lengths of {uneven[0].name} differ along it",
            got=plain.describe_dims(),
            hint=f"loop over {uneven[0].name}, with {axis.name} as a batch dim",
        )
    if body.size is not None and not body.size.agrees(size):
        raise DimRebound(
            f"{body.loop.name}: unstacked tensors differ in length",
            got=f"{size} in {called(plain)} {plain.describe_dims()}",
            expected=f"{body.size}, the length of the tensors unstacked before",
            hint="rf.pad or rf.slice makes them the same length",
        )
    body.size = size
    body.tape.trial = body.tape.trial or size.max == 0  # the loop has no steps


def iter_idx(body: Body) -> Traced:
    """The number of this step. {} int64"""
    number = body.step_number
    return number if number.value.node is not None else body.recorder.input_node(number, "iter_idx")


def stack(body: Body, source: Tensor, name: str | None, resolve: bool = True) -> Pending:
    """A placeholder that gets the values of all steps when the block ends."""
    body.refuse_in_branch("stack")
    traced = body.of_body(source, "stack")
    pending = Pending.__new__(Pending)
    pending._name = name or assigned_name() or traced.name
    dims = traced.dims if body.hypotheses is None else body.hypotheses.stacked(traced, pending, resolve)
    body.loop.axis = body.loop.axis or new_axis(body)
    pending.sig = align.sig([body.loop.axis, *dims], traced.sparse_dim, traced.sig.feature_dim)
    pending.lengths = EMPTY
    body.outputs.append((traced, pending))
    return pending


def new_axis(body: Body) -> Dim:
    """Creates an axis for a loop that was given none."""
    return Dim(None, name=f"{body.loop.name}:steps")


def last(body: Body, source: Tensor, name: str | None) -> Pending:
    """A placeholder that gets the value at the last step of each sequence when the block ends."""
    body.refuse_in_branch("last")
    traced = body.of_body(source, "last")
    pending = Pending.__new__(Pending)
    pending._name = name or assigned_name() or traced.name
    pending.sig, pending.lengths = traced.sig, EMPTY
    body.lasts.append((traced, pending))
    return pending


def end(body: Body, source: Tensor, include_eos: bool) -> None:
    """Ends sequences, or hypotheses of a search, where `source` is true."""
    body.refuse_in_branch("end")
    if body.condition is not None:
        raise LoopError(
            f"{body.loop.name}: end is called twice",
            hint="combine: loop.end(rf.logical_or(a, b), …)",
        )
    if not isinstance(source, Tensor):
        raise LoopError(f"{body.loop.name}: end is not an rf.Tensor", got=repr(source), expected="a Tensor of bool")
    if source.dtype != "bool":
        raise LoopError(f"{body.loop.name}: end needs a bool", got=source.dtype, expected="bool")
    if body.size is not None and not set(body.size.dims) <= set(source.dims):
        source = logical_or(full(dims=body.size.dims, fill_value=False), source)
    body.condition, body.include_eos = body.of_body(source, "end"), include_eos
    place = place_of(body.carried, "search ended")
    if place is None:
        like = body.condition.plain
        body.carry("ended", like, "bool")
    else:
        like = body.carried[place].before.plain
        body.carried[place] = replace(body.carried[place], kind="ended")
    body.carry("lengths", like, "int64")


def reorder(body: Body, indices: Tensor, dim: Dim) -> None:
    """Reorders all states by `indices` along `dim`, including values that the loop itself carries."""
    body.refuse_in_branch("reorder")
    state = body.loop.state
    if body.hypotheses is not None and dim is body.hypotheses.beam:
        raise LoopError(
            f"{body.loop.name}: reorder of {dim.name}, whose hypotheses a choice orders",
            hint="leave it out: after loop.choice, all states follow their hypotheses",
        )
    if not any(isinstance(leaf, Tensor) and dim in leaf.dims_set for _, leaf in state._leaves()):
        raise LoopError(
            f"{body.loop.name}: reorder: no state has the dim {dim.name}",
            got=", ".join(f"{name} {x.describe_dims()}" for name, x in state._leaves() if isinstance(x, Tensor)),
            expected=f"a state with {dim.describe()}",
            hint="use the dim that the states have from the start; rf.top_k(…, k_dim=that dim) keeps it",
        )
    names = {id(leaf): name for name, leaf in state._leaves()}
    order, kept_order = indices, None
    if body.recorder.grown and isinstance(indices, Tensor):
        order, kept_order = _kept_order(body, indices, dim)

    def moved(leaf: Tensor) -> Tensor:
        return gather(leaf, indices=order, axis=dim).with_name(names[id(leaf)])

    state._map(lambda leaf: moved(leaf) if dim in leaf.dims_set else leaf)
    body.reorders.append(Reorder(indices, dim, kept_order))


def _kept_order(body: Body, indices: Tensor, dim: Dim) -> tuple[Tensor, KeptOrder]:
    """The indices, but those of sequences that have ended keep the order, as the end of the step will know."""
    plain = unwrap(indices)
    with body.untraced():
        order = plain.like(body.backend.identity_raw(plain._raw))
    kept_order = KeptOrder(plain, dim)
    kept_order.record(body.tape, order._raw)
    return Traced(order, body.recorder, indices.value) if isinstance(indices, Traced) else order, kept_order


def loop_record(
    loop: Loop, lines: Body | TracedStep, *, size: Size | None = None, error: bool = False, failed: Node | None = None
) -> LoopRecord:
    """A record of a finished or failed loop. Call it before the traced frame is released.

    lines: what the user's lines did. size: number of steps of each sequence. failed: the node that raised in a step.
    """
    return LoopRecord(
        name=loop.name,
        recorder=lines.recorder,
        around=_around(lines),
        source=lines.source,
        axis=loop.axis,
        size=size or lines.size,
        own_ops=lines.own_ops,
        initial={name: leaf for name, leaf in named_leaves(lines.originals) if leaf is not None},
        before={carry.name: carry.before for carry in lines.carried if carry.kind == "state"},
        after=dict(lines.assigned),
        final={} if error else dict(loop.state._leaves()),
        unstacked=list(lines.unstacked),
        stacked=[] if error else list(lines.outputs),
        lasts=[] if error else list(lines.lasts),
        end=lines.condition,
        include_eos=lines.include_eos,
        error=error,
        failed=failed,
    )


def _around(lines: Body | TracedStep) -> list[Recorder]:
    """The recorders of the loops and branches around this loop, innermost first."""
    recorders, outer = [], lines.outer
    while outer is not None:  # sides of branches, then the body around them
        recorders.append(outer)
        outer = outer.within
    return [*recorders, *(body.recorder for body in reversed(entered.get()))]


# -- random numbers that the loop does not control


_judged: PerPlace[set[tuple[str, ...]]] = PerPlace(lambda source: set())


def judged(source: Source | None) -> set[tuple[str, ...]]:
    """The bodies at the line of a `with` that have been judged, each by the names of its states."""
    return set() if source is None else _judged[source]


_STATES: dict[str, Callable[[Any], object]] = {
    "Python's `random`": lambda backend: random.getstate(),
    "`numpy.random`": lambda backend: _numpy(),
    "the backend's own generator": lambda backend: backend.get_random_state(),
}


class GlobalGenerators:
    """Watches the global generators while a body is traced, to find those that it draws from. look: False for off."""

    def __init__(self, backend: type[Backend], *, look: bool):
        self._backend, self.look = backend, look
        self._used: dict[str, None] = {}
        self._before = self._now() if look else {}

    def _now(self) -> dict[str, object]:
        return {name: reader(self._backend) for name, reader in _STATES.items()}

    def _look(self) -> None:
        if self._before:
            states = self._now()
            self._used |= dict.fromkeys(name for name, state in states.items() if state != self._before[name])
            self._before = states

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignores numbers that are drawn in this context, by the loop itself."""
        self._look()
        yield
        if self._before:
            self._before = self._now()

    def used(self) -> list[str]:
        """The generators that the body has drawn from. Call it at the end of the body."""
        self._look()
        return list(self._used)


def _numpy() -> tuple[object, ...]:
    kind, keys, *numbers = np.random.get_state()
    return kind, keys.tobytes() if isinstance(keys, np.ndarray) else keys, *numbers


@guarded
def pause() -> None:
    """Pauses the running cell: in the body of a loop after each step, elsewhere at this line.

    >>> loop = rf.Loop(max_seq_len=3, name="counting")
    >>> loop.state.n = rf.convert_to_tensor(1)
    >>> with warnings.catch_warnings(record=True), rf.recording("last"), loop:  # doctest: +SKIP
    ...     loop.state.n = loop.state.n * 2
    ...     rf.pause()

    In JupyterLab, the panel shows the values of the step, or outside of loops the local variables, and steps on. Where
    no panel is connected, the pause is skipped with one warning, and the run of the loop is written to the folder
    `rf.options.pause_folder`. See `rf.pause_when` for pauses under a condition.

    Raises LoopError in a branch of `rf.cond` and in a loop inside of a loop, which cannot be held.
    """
    bodies = entered.get()
    if not bodies:
        pause_here()
        return
    body = bodies[-1]
    if body.outer is not None:
        raise LoopError(
            f"rf.pause() in {body.loop.name}, a loop inside of {bodies[0].loop.name}: inner loops cannot be paused",
            hint="move rf.pause() to the outer loop; in the panel, `Inner loops` opens the steps of the inner one",
        )
    if current_recorder() is not body.recorder:
        raise LoopError(
            f"rf.pause() in a branch of {body.loop.name}: a step is paused as a whole",
            hint=f'rf.pause_when(condition, loop="{body.loop.name}")',
        )
    source = user_source()
    if source is not None:
        body.pauses.append(source)
    body.recorder.recorded = True
