"""The body of a loop while it is traced: collects the inputs, states and outputs of the step."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.finite import ended_by
from rfnb.backend.base.tape import Tape, Var, untaped
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.graph.meter import MeasuredLoop
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.scope import current_meter
from rfnb.core.ground.source import Source, assigned_name, user_source
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimRebound, LoopError
from rfnb.loop.body import branch, rerun
from rfnb.loop.body.draw import loop_record
from rfnb.loop.body.hypotheses import Hypotheses
from rfnb.loop.body.warnings import GlobalGenerators, judged
from rfnb.loop.ends import EndedInBody, KeptOrder
from rfnb.loop.step import (
    Carried,
    FrameInput,
    Kind,
    StepNumber,
    Unstacked,
    first_frame,
)
from rfnb.loop.steps.execute import mixed_seed
from rfnb.ops.grad import makes_constants
from rfnb.ops.random import random
from rfnb.trace.pause.pauses import warn_of_inner
from rfnb.trace.record.record import Recorder, current_recorder, unwrap
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run import session

if TYPE_CHECKING:
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.loop import Loop


class Body:
    """One pass of Python through the block of `with loop:`, which traces the step on frame 0."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.backend = raw_registry.selected()
        self.source = user_source() if loop.listing is None else loop.listing.head
        self.outer = current_recorder()
        self.seed: Any = session.seed_of(loop.name)
        records = session.should_record(loop.debug, loop.name) if self.outer is None else self.outer.recorded
        self.call = rerun.current_call() if self.outer is None and records else None
        if self.outer is not None:
            warn_of_inner(loop.name)
            seed = random([], dtype="int64", device="cpu", distribution="uniform", minval=0, maxval=2**62)
            self.outer.drop_last_node(seed)
            self.seed = self.plain(seed)._raw
        code = self.source.code if self.source is not None else None
        self.recorder = Recorder(loop.name, self.backend.new_tape(), self._trial_generator, code)
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
        self.reorders: list[tuple[Tensor, Dim]] = []
        self.kept_orders: list[KeptOrder] = []
        self.condition: Traced | None = None
        self.include_eos = True
        self.size: Size | None = None  # length of the unstacked tensors
        self.follows_axis = False  # whether a tensor is unstacked along the axis of the loop
        self.generators = GlobalGenerators(self.backend, look=self.outer is None and not judged(self.source))
        self.watchers: list[Watcher] = []  # one for each `rf.watch`
        self.pauses: list[Source] = []  # the lines that call `rf.pause`
        self.unstacked: list[tuple[Tensor, Traced]] = []  # each unstacked tensor, and its frame
        self.ended_masks = EndedInBody(self)
        self.own_ops = 0  # number of ops that the lines do, once they have ended
        self.assigned: dict[str, Any] = {}  # the states after the lines, by full name
        self._step_number: Traced | None = None
        self._context = ExitStack()

    # -- entering

    def open(self) -> None:
        """Starts tracing: from here on, ops belong to the body."""
        state = self.loop.state
        self.originals = state._values
        with untaped(), listening(None):
            grown = self._grown_dims([leaf for _, leaf in state._leaves()])
            self.recorder.grown = self.tape.grown = {dim.serial for dim in grown.values()}
            for name, leaf in state._leaves():
                self._add_state(name, leaf, grown)
        state._replace([carry.before for carry in self.carried])
        state._begin_body(self.read, self.refuse_in_branch)
        self._context.enter_context(ended_by(self.ended_masks))
        self._context.enter_context(self.recorder.recording(self.backend.take))

    def _grown_dims(self, initial: list[Any]) -> dict[Dim, Dim]:
        return {dim: Dim(None, name=dim.name) for dim in initial if isinstance(dim, Dim)}

    def _add_state(self, name: str, leaf: Any, grown: dict[Dim, Dim]) -> None:
        if isinstance(leaf, Dim):
            if leaf.size.ragged:
                raise LoopError(
                    f"{self.loop.name}: the growing axis {name!r} has one length per sequence before the loop",
                    got=leaf.describe(),
                    hint=f"start with an empty axis, rf.Dim(0, name=…), and at each step put existing entries first: "
                    f"both, axis = rf.concat((x, {leaf.name}), (loop.state.h, loop.state.grown))",
                )
            grown[leaf].changes_in = self.loop.name
            grown[leaf].bind(Size([], leaf.size.max))
            size = leaf.size.max
            self.carried.append(Carried(name, "state", grown[leaf], self.tape.number_input(size), size))
            return
        if not isinstance(leaf, Tensor):
            odd = not_a_tensor(name, leaf)
            raise LoopError(
                f"{self.loop.name}: the initial value of the state {name!r} is not an rf.Tensor",
                got=odd.got,
                expected="a Tensor (or a Dim that grows)",
                hint=odd.hint or f"rf.convert_to_tensor({called(leaf)}); or rf.zeros([…]), with all its dims",
            )
        plain = self.plain(leaf)
        dims = [grown.get(dim, dim) for dim in plain.dims]
        sizes = {body: Size([], plain.size_of(dim).max) for dim, body in grown.items() if dim in plain.dims}
        lengths = plain.lengths.bind(sizes) if sizes else plain.lengths
        frame = tensor_of(
            self.backend.alias_raw(plain._raw), align.sig(dims, plain.sparse_dim, plain.feature_dim), lengths
        )
        self.carried.append(Carried(name, "state", self.input(name, frame), self.var(frame), plain._raw))

    def plain(self, tensor: Tensor) -> Tensor:
        """The tensor itself; for a value of the loop around this one, the value on that loop's traced frame."""
        plain: Tensor = unwrap(tensor)
        return plain

    def input(self, name: str, frame: Tensor) -> Traced:
        """Adds an input of the step, with the value `frame` on the traced frame."""
        return self.recorder.input(name, frame)

    def untraced(self) -> Untraced:
        """Ops inside are not traced: they belong neither to this body nor to one nested in it."""
        return Untraced(self.tape)

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

    def _trial_generator(self, device: str, number: int) -> Any:
        with self.tape.pause():
            if self.seed is None:
                with self.generators.ignored():
                    self.seed = self.backend.draw_seed()
            generator = self.backend.new_generator(device)
            generator.manual_seed(mixed_seed(int(self.seed), number, 0))
        return generator

    # -- in the body

    def read(self, leaf: Any) -> None:
        """Notes that a state is read. If the line assigns it to a variable, it becomes a named value of the body."""
        if self.loop.listing is not None:
            name = leaf.name if isinstance(leaf, Traced) else None
        else:
            name = None if branch.current_side() else assigned_name()
        if name is not None and isinstance(leaf, Traced) and leaf.value.node is None:
            self.recorder.input_node(leaf, "state", "state")
            leaf.value.name = name

    def unstack(self, source: Tensor, axis: Dim | None) -> Traced:
        """The frame of this step."""
        loop = self.loop
        axis = axis or loop.axis
        if isinstance(source, Traced) and source.recorder.graph is self.recorder.graph:
            raise LoopError(
                f"{loop.name}: unstack of a value that the body computes",
                got=source.name,
                expected="a tensor from outside",
                hint="move the op before `with loop:`",
            )
        plain = self.plain(source)
        if axis is None:
            raise LoopError(
                f"{loop.name}: unstack needs an axis",
                got=plain.describe_dims(),
                hint="rf.Loop(axis=time), or loop.unstack(x, axis=time)",
            )
        with self.untraced():
            self._agree(plain, axis)
            kind = Unstacked(axis, self.recorder.recorded)
            frame = first_frame(self.backend, plain, *kind)
        loop.axis = loop.axis or axis
        self.follows_axis = self.follows_axis or axis is loop.axis
        traced = self.input("", frame)
        self.frames.append(FrameInput(self.var(frame), kind, plain))
        self.unstacked.append((source, traced))
        return self.recorder.input_node(traced, "unstack")

    def _agree(self, plain: Tensor, axis: Dim) -> None:
        plain.axis(axis)
        size = plain.size_of(axis)
        if self.outer is not None and not self.outer.grown.isdisjoint(axis.roots):
            raise LoopError(f"{self.loop.name}: {axis.name} grows with the loop around this one")
        uneven = [dim for dim in plain.dims if axis in (plain.size_of(dim).dims or ())]
        if uneven:
            raise LoopError(
                f"{self.loop.name}: unstack along {axis.name}, but the lengths of {uneven[0].name} differ along it",
                got=plain.describe_dims(),
                hint=f"loop over {uneven[0].name}, with {axis.name} as a batch dim",
            )
        if self.size is not None and not self.size.agrees(size):
            raise DimRebound(
                f"{self.loop.name}: unstacked tensors differ in length",
                got=f"{size} in {called(plain)} {plain.describe_dims()}",
                expected=f"{self.size}, the length of the tensors unstacked before",
                hint="rf.pad or rf.slice makes them the same length",
            )
        self.size = size
        self.tape.trial = self.tape.trial or size.max == 0  # the loop has no steps

    def iter_idx(self) -> Traced:
        """The number of this step. {} int64"""
        number = self.step_number()
        return number if number.value.node is not None else self.recorder.input_node(number, "iter_idx")

    def step_number(self) -> Traced:
        """The number of this step, for use by the loop itself rather than by a line of the body. {} int64"""
        if self._step_number is None:
            with self.untraced():
                frame = tensor_of(self.backend.full_raw([], 0, "int64", None), align.sig(()), EMPTY)
            self._step_number = self.input("", frame)
            self.frames.append(FrameInput(self.var(frame), StepNumber()))
        return self._step_number

    def refuse_in_branch(self, what: str) -> None:
        """Raises LoopError inside a branch of the body, where `what` cannot be done."""
        who = branch.current_side()
        if who is not None and who.graph is self.recorder.graph:
            raise branch.not_in_branch(self.loop.name, what)

    def stack(self, source: Tensor, name: str | None, resolve: bool = True) -> Pending:
        """A placeholder that gets the values of all steps when the block ends."""
        self.refuse_in_branch("stack")
        traced = self.of_body(source, "stack")
        pending = Pending.__new__(Pending)
        pending._name = name or assigned_name() or traced.name
        dims = traced.dims if self.hypotheses is None else self.hypotheses.stacked(traced, pending, resolve)
        pending.sig = align.sig([self.axis(), *dims], traced.sparse_dim, traced.sig.feature_dim)
        pending.lengths = EMPTY
        self.outputs.append((traced, pending))
        return pending

    def axis(self) -> Dim:
        """The axis of stacked outputs; created if the loop has none."""
        if self.loop.axis is None:
            self.loop.axis = self.new_axis()
        return self.loop.axis

    def new_axis(self) -> Dim:
        """Creates an axis for a loop that was given none."""
        return Dim(None, name=f"{self.loop.name}:steps")

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
        plain = self.plain(source)
        with self.untraced():
            copy = plain.like(self.backend.identity_raw(plain._raw))
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, copy._raw)
        return self.recorder._wrap(copy, plain.name)

    def last(self, source: Tensor, name: str | None) -> Pending:
        """A placeholder that gets the value at the last step of each sequence when the block ends."""
        self.refuse_in_branch("last")
        traced = self.of_body(source, "last")
        pending = Pending.__new__(Pending)
        pending._name = name or assigned_name() or traced.name
        pending.sig, pending.lengths = traced.sig, EMPTY
        self.lasts.append((traced, pending))
        return pending

    def carry(self, kind: Kind, like: Tensor, dtype: str, initial: Any = None) -> int:
        """Adds a value that the loop itself carries, zeros at first if `initial` is None. Returns its position."""
        with self.untraced():
            shape = self.backend.get_shape_tuple_raw(like._raw)
            value = initial if initial is not None else self.backend.full_raw(shape, 0, dtype, like.device)
            signature = like.sig if dtype == like.dtype else align.sig(like.dims)
            frame = tensor_of(self.backend.alias_raw(value), signature, like.lengths)
        before = self.input("", frame)
        self.carried.append(Carried("", kind, before, self.var(frame), value, starts_empty=initial is None))
        return len(self.carried) - 1

    # -- leaving

    def leave(self) -> None:
        """Ends the tracing: ops are no longer those of the body."""
        self._context.close()
        self.recorder.open = False
        self.loop.state._end_body()
        with untaped():
            self.tape.restore(self.backend.overwrite_raw)
        for carry in self.carried:
            if isinstance(carry.before, Dim):
                carry.before.changes_in = None

    def end_of_lines(self) -> None:
        """Notes what the user's lines have done: later ops are those of the loop."""
        self.own_ops, self.assigned = len(self.recorder.op_calls), dict(self.loop.state._leaves())

    def abort(self) -> None:
        """Restores the loop after an error in the body."""
        session.draw(partial(loop_record, self.loop, self, error=True))
        self.leave()
        self.loop.state._values = self.originals
        self.recorder.forget()


class Untraced:
    """A context in which ops are recorded neither on a tape nor by a listener."""

    __slots__ = ("_contexts", "_tape")

    def __init__(self, tape: Tape):
        self._tape = tape

    def __enter__(self) -> None:
        self._contexts = listening(None), self._tape.pause(), untaped()
        for context in reversed(self._contexts):
            context.__enter__()

    def __exit__(self, *error: object) -> None:
        for context in self._contexts:
            context.__exit__(*error)
