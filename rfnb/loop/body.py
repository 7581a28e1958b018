"""The body of a loop while it is traced: what the step is given, what it gives, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Var, untaped
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.graph.graph import Node
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.source import PerPlace, here
from rfnb.core.tensor.argument_errors import not_a_tensor
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimRebound, LoopError
from rfnb.loop import branch, rerun
from rfnb.loop.draw import tell
from rfnb.loop.execute import mixed
from rfnb.loop.frames import StepNumbers, all_frames, first_frame, stacked_frames, step_numbers
from rfnb.loop.global_rng import Chance
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.ops.math import logical_or
from rfnb.ops.random import random
from rfnb.trace.record.record import Recorder, current_recorder, unwrap
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run import session
from rfnb.trace.run.rerun import seed_of

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop
    from rfnb.loop.print_value import Watcher

ENDED, LENGTHS = "#ended", "#lengths"
"""Reserved states: which sequences have ended, and how many steps each took."""
LAST = "#last"
"""Values that `last` asked for, and that are no states."""

_judged: PerPlace[set[tuple[str, ...]]] = PerPlace(lambda source: set())


class Body:
    """One pass of Python through `with loop:`, on frame 0."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.backend = raw_registry.selected()
        self.source = here()
        self.outer = current_recorder()
        self.position = 0  # in a loop around this one: of the call that it is on the tape there
        self.seed: Any = seed_of(loop.name)
        records = session.wants(loop.debug) if self.outer is None else self.outer.recorded
        self.call = rerun.called() if self.outer is None and records else None
        if self.outer is not None:
            seed = random([], dtype="int64", device="cpu", distribution="uniform", minval=0, maxval=2**62)
            self.outer.hide(seed)
            self.seed = self.plain(seed)._raw
        code = self.source.code if self.source is not None else None
        self.recorder = Recorder(loop.name, self.backend.new_tape(), self._trial_generator, code)
        self.recorder.recorded = records
        self.recorder.file = loop.file
        self.recorder.choose = partial(branch.cond, self)
        self.tape = self.recorder.tape
        self.modes = self.backend.get_modes()  # those around the loop
        self.tape.new_stream = self.recorder.new_stream
        self.names: list[str] = []  # of the states
        self.initial: list[Any] = []  # raw tensors, or sizes
        self.state_vars: list[Var] = []
        self.before: list[Any] = []  # Traced, or body Dims
        self.frames: list[tuple[Var, Callable[[], Sequence[Any]], Callable[[Dim], Tensor] | None]] = []
        self.outputs: list[tuple[Traced, Pending]] = []
        self.lasts: list[tuple[Traced, Pending]] = []
        self.last_keys: list[str] = []
        self.reorders: list[tuple[Tensor, Dim]] = []
        self.condition: Traced | None = None
        self.include_eos = True
        self.own_ops = 0  # how many ops the user's code does; the rest is what the loop does itself
        self.size: Size | None = None  # of what is unstacked
        self.follows_axis = False  # whether that is the axis of the loop
        self.judged = set() if self.source is None else _judged[self.source]  # by states: bodies known to `doubts`
        self.chance = Chance(self.backend, look=self.outer is None and not self.judged)
        self.watchers: list[Watcher] = []  # of `rf.watch`
        self.unstacked: list[tuple[Tensor, Traced]] = []  # what was unstacked, and its frame
        self.assigned: dict[str, Any] = {}  # the states as the body leaves them
        self.taken: Size | None = None  # how many steps each sequence took
        self.failed: Node | None = None  # in a step
        self._step_number: Traced | None = None
        self._context = ExitStack()

    # -- entering

    def open(self) -> None:
        """From here on, ops are those of the body."""
        state = self.loop.state
        self.originals = state._values
        with untaped(), listening(None):
            grown = self._grown_dims([leaf for _, leaf in state._leaves()])
            self.recorder.grown = {dim.serial for dim in grown.values()}
            for name, leaf in state._leaves():
                self._add_state(name, leaf, grown)
        state._replace(self.before)
        state._begin_body(self.read, self._refuse_in_branch)
        self._context.enter_context(self.recorder.recording(self.backend.take))

    def _grown_dims(self, initial: list[Any]) -> dict[Dim, Dim]:
        return {dim: Dim(None, name=dim.name) for dim in initial if isinstance(dim, Dim)}

    def _add_state(self, name: str, leaf: Any, grown: dict[Dim, Dim]) -> None:
        self.names.append(name)
        if isinstance(leaf, Dim):
            if leaf.size.ragged:
                raise LoopError(
                    f"{self.loop.name}: the axis {name!r} that grows has lengths of its own at the start",
                    got=leaf.describe(),
                    hint=f"start with an empty one, rf.Dim(0, name=…), and put what is there behind it at each step: "
                    f"both, axis = rf.concat((x, {leaf.name}), (loop.state.h, loop.state.grown))",
                )
            grown[leaf].changes_in = self.loop.name
            grown[leaf].bind(Size([], leaf.size.max))
            self.initial.append(leaf.size.max)
            self.state_vars.append(self.tape.number_input(leaf.size.max))
            self.before.append(grown[leaf])
            return
        if not isinstance(leaf, Tensor):
            odd = not_a_tensor(name, leaf)
            raise LoopError(
                f"{self.loop.name}: the initial value of the state {name!r} is no Tensor of rfnb",
                got=odd.got,
                expected="a Tensor (or a Dim that grows)",
                hint=odd.hint or f"rf.convert_to_tensor({called(leaf)}); or rf.zeros([…]), with all dims that it gets",
            )
        plain = self.plain(leaf)
        dims = [grown.get(dim, dim) for dim in plain.dims]
        sizes = {body: Size([], plain.size_of(dim).max) for dim, body in grown.items() if dim in plain.dims}
        lengths = plain.lengths.bind(sizes) if sizes else plain.lengths
        frame = tensor_of(
            self.backend.alias_raw(plain._raw), align.sig(dims, plain.sparse_dim, plain.feature_dim), lengths
        )
        self.initial.append(plain._raw)
        self.before.append(self.input(name, frame))
        self.state_vars.append(self.var(frame))

    def plain(self, tensor: Tensor) -> Tensor:
        """The tensor itself; of a value of the loop around this one, that of its frame."""
        plain: Tensor = unwrap(tensor)
        return plain

    def input(self, name: str, frame: Tensor) -> Traced:
        """A value that the step is given."""
        return self.recorder.input(name, frame)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done inside belongs to no body: neither to this one, nor to one inside of it."""
        with untaped(), self.tape.pause(), listening(None):
            yield

    def var(self, plain: Tensor) -> Var:
        """The Var of a value of the frame; one that came from outside becomes one."""
        found = self.tape.refer(plain._raw)
        if isinstance(found, Var):
            return found
        with self.aside():
            raw = self.backend.identity_raw(plain._raw)
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, raw)
        made = self.tape.find(raw)
        assert isinstance(made, Var)
        return made

    def _trial_generator(self, device: str, number: int) -> Any:
        with self.tape.pause():
            if self.seed is None:
                with self.chance.own():
                    self.seed = self.backend.draw_seed()
            generator = self.backend.new_generator(device)
            generator.manual_seed(mixed(int(self.seed), number, 0))
        return generator

    # -- in the body

    def read(self, leaf: Any) -> None:
        """A state is read. If the line gives it to a variable, that is a value of the body as well."""
        name = None if _branch() else _target()
        if name is not None and isinstance(leaf, Traced) and leaf.value.node is None:
            self.recorder.from_line(leaf, "state", "state")
            leaf.value.name = name

    def unstack(self, source: Tensor, axis: Dim | None) -> Traced:
        """The frame of this step."""
        loop = self.loop
        axis = axis or loop.axis
        if isinstance(source, Traced) and source.recorder.graph is self.recorder.graph:
            raise LoopError(
                f"{loop.name}: unstack of a value of the body",
                got=source.name,
                expected="a tensor from outside",
                hint="move the op before `with loop:`",
            )
        plain = self.plain(source)
        if axis is None:
            raise LoopError(
                f"{loop.name}: unstack along which axis?",
                got=plain.describe_dims(),
                hint="rf.Loop(axis=time), or loop.unstack(x, axis=time)",
            )
        with self.aside():
            self._agree(plain, axis)
            frame = first_frame(self.backend, plain, axis)
        loop.axis = loop.axis or axis
        self.follows_axis = self.follows_axis or axis is loop.axis
        traced = self.input("", frame)
        make = partial(all_frames, self.backend, plain, axis)
        self.frames.append((self.var(frame), make, partial(stacked_frames, self.backend, plain, axis)))
        self.unstacked.append((source, traced))
        return self.recorder.from_line(traced, "unstack")

    def _agree(self, plain: Tensor, axis: Dim) -> None:
        plain.axis(axis)
        size = plain.size_of(axis)
        if self.outer is not None and not self.outer.grown.isdisjoint(axis.roots):
            raise LoopError(f"{self.loop.name}: {axis.name} grows with the loop around this one, so the steps differ")
        inside = [dim for dim in plain.dims if axis in (plain.size_of(dim).dims or ())]
        if inside:
            raise LoopError(
                f"{self.loop.name}: unstack along {axis.name}, but the lengths of {inside[0].name} differ along it",
                got=plain.describe_dims(),
                hint=f"loop over {inside[0].name}, with {axis.name} as the dim that counts sequences",
            )
        if self.size is not None and not self.size.agrees(size):
            raise DimRebound(
                f"{self.loop.name}: unstacked tensors differ in length",
                got=f"{size} in {called(plain)} {plain.describe_dims()}",
                expected=f"{self.size}, as in what was unstacked before",
                hint="rf.pad or rf.slice makes them equally long; what has another axis is no frame of this loop",
            )
        self.size = size
        self.tape.scratch = self.tape.scratch or size.max == 0  # there will be no step

    def iter_idx(self) -> Traced:
        """The number of this step. {} int64"""
        number = self.step_number()
        return number if number.value.node is not None else self.recorder.from_line(number, "iter_idx")

    def step_number(self) -> Traced:
        """Likewise, asked for by no line of the body."""
        if self._step_number is None:
            with self.aside():
                frame = tensor_of(self.backend.full_raw([], 0, "int64", None), align.sig(()), EMPTY)
            self._step_number = self.input("", frame)
            numbers = partial(StepNumbers, self.backend), partial(step_numbers, self.backend)  # not of the body
            self.frames.append((self.var(frame), *numbers))
        return self._step_number

    def _refuse_in_branch(self, what: str) -> None:
        who = _branch()
        if who is not None and who.graph is self.recorder.graph:
            raise branch.not_inside(self.loop.name, what)

    def stack(self, source: Tensor, name: str | None) -> Pending:
        """The values of all steps, when the block ends."""
        self._refuse_in_branch("stack")
        traced = self.of_body(source, "stack")
        pending = Pending.__new__(Pending)
        pending._name = name or _target() or traced.name
        pending.sig = align.sig([self.axis, *traced.dims], traced.sparse_dim, traced.sig.feature_dim)
        pending.lengths = EMPTY
        self.outputs.append((traced, pending))
        return pending

    def of_body(self, source: Tensor, what: str) -> Traced:
        """A value of this body; one from outside becomes one."""
        if isinstance(source, Traced) and source.recorder is self.recorder:
            return source
        if not isinstance(source, Tensor):
            raise LoopError(f"{self.loop.name}: {what} of something that is no tensor", got=type(source).__name__)
        in_inner = current_recorder() is not self.recorder and isinstance(source, Traced)
        if in_inner and source.recorder not in (self.recorder, self.outer):
            inner = source.recorder.name
            raise LoopError(
                f"{self.loop.name}: {what} of a value of {inner}, a loop inside of it",
                got=source.name,
                expected=f"a value of {self.loop.name}",
                hint=f"a state of {inner}, or what it stacks, after its block",
            )
        plain = self.plain(source)
        with self.aside():
            copy = plain.like(self.backend.identity_raw(plain._raw))
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, copy._raw)
        return self.recorder._wrap(copy, plain.name)

    def last(self, source: Tensor, name: str | None) -> Pending:
        """The value at the last step of each sequence, when the block ends."""
        self._refuse_in_branch("last")
        traced = self.of_body(source, "last")
        pending = Pending.__new__(Pending)
        pending._name = name or _target() or traced.name
        pending.sig, pending.lengths = traced.sig, EMPTY
        self.lasts.append((traced, pending))
        return pending

    def carry(self, key: str, like: Tensor, dtype: str, initial: Any = None) -> None:
        """A state of the loop's own, zeros at first, or a raw tensor."""
        with self.aside():
            zeros = (
                initial
                if initial is not None
                else self.backend.full_raw(self.backend.get_shape_tuple_raw(like._raw), 0, dtype, like.device)
            )
            signature = like.sig if dtype == like.dtype else align.sig(like.dims)
            frame = tensor_of(self.backend.alias_raw(zeros), signature, like.lengths)
        self.names.append(key)
        self.initial.append(zeros)
        self.before.append(self.input(key, frame))
        self.state_vars.append(self.var(frame))

    def end(self, source: Tensor, include_eos: bool) -> None:
        """Sequences end where `source` holds."""
        self._refuse_in_branch("end")
        if self.condition is not None:
            raise LoopError(f"{self.loop.name}: end is called twice", hint="combine: loop.end(rf.logical_or(a, b), …)")
        if source.dtype != "bool":
            raise LoopError(f"{self.loop.name}: end needs a condition", got=source.dtype, expected="bool")
        if self.size is not None and not set(self.size.dims) <= set(source.dims):
            source = logical_or(full(dims=self.size.dims, fill_value=False), source)
        self.condition = self.of_body(source, "end")
        self.include_eos = include_eos
        self.carry(ENDED, self.condition.plain, "bool")
        self.carry(LENGTHS, self.condition.plain, "int64")

    def reorder(self, indices: Tensor, dim: Dim) -> None:
        """The states follow `indices` along `dim`; those of the loop itself as well."""
        self._refuse_in_branch("reorder")
        state = self.loop.state
        if not any(isinstance(leaf, Tensor) and dim in leaf.dims_set for _, leaf in state._leaves()):
            raise LoopError(
                f"{self.loop.name}: reorder: no state has the dim {dim.name}",
                got=", ".join(f"{name} {x.describe_dims()}" for name, x in state._leaves() if isinstance(x, Tensor)),
                expected=f"a state with {dim.describe()}",
                hint="the dim that the states have from the start; rf.top_k(…, k_dim=that dim) keeps it",
            )
        names = {id(leaf): name for name, leaf in state._leaves()}

        def moved(leaf: Tensor) -> Tensor:
            return gather(leaf, indices=indices, axis=dim).with_name(names[id(leaf)])

        state._map(lambda leaf: moved(leaf) if dim in leaf.dims_set else leaf)
        self.reorders.append((indices, dim))

    # -- leaving

    @property
    def axis(self) -> Dim:
        """The axis of what is stacked."""
        if self.loop.axis is None:
            self.loop.axis = Dim(None, name=f"{self.loop.name}:steps")
        return self.loop.axis

    def leave(self) -> None:
        """The body is over: rfnb listens no longer."""
        self._context.close()
        self.recorder.open = False
        self.loop.state._end_body()
        with untaped():
            self.tape.restore(self.backend.overwrite_raw)
        for dim in self.before:
            if isinstance(dim, Dim):
                dim.changes_in = None

    def abort(self) -> None:
        """The body, or a step, raised: the loop is as it was before."""
        tell(self, error=True)
        self.leave()
        self.loop.state._values = self.originals
        self.recorder.forget()


def has_steps(axis: Dim) -> bool:
    """Whether data or an op gave the axis its size; what an earlier loop gave it says nothing about another."""
    return axis.is_defined() and not (axis.defined_by or "").startswith("loop ")


def _branch() -> Recorder | None:
    """The side of a branch that is traced now."""
    who = current_recorder()
    return who if who is not None and who.within is not None else None


def _target() -> str | None:
    """What the user's line assigns to."""
    place = here()
    names = place.targets() if place is not None else ()
    return names[0] if len(names) == 1 else None
