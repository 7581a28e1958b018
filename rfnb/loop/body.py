"""The body of a loop while it is traced: what the step is given, what it gives, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Call, Var, opaque, untaped
from rfnb.core import align, raw as raw_registry
from rfnb.core.dim import Dim
from rfnb.core.lengths import EMPTY, Size
from rfnb.core.nested import leaves, map_leaves
from rfnb.core.op import listening
from rfnb.core.source import here
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DimRebound, LoopError
from rfnb.loop.execute import Outcome, Schedule, execute, mixed
from rfnb.loop.program import Program
from rfnb.loop.replay import recorded
from rfnb.loop.sized import SizeOf, grows, replace_grown
from rfnb.ops.create import random
from rfnb.ops.index import gather
from rfnb.ops.math import cast, logical_and, logical_not, logical_or, where
from rfnb.trace import session
from rfnb.trace.record import Recorder, current_recorder, unwrap
from rfnb.trace.traced import Pending, Traced

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop

ENDED, LENGTHS = "#ended", "#lengths"
"""Reserved states: which sequences have ended, and how many steps each took."""


class Body:
    """One pass of Python through `with loop:`, on frame 0."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.backend = raw_registry.selected()
        self.source = here()
        self.outer = current_recorder()
        self.seed: Any = None
        if self.outer is not None:
            self.seed = self._plain(random([], dtype="int64", distribution="uniform", minval=0, maxval=2**62))._raw
        code = self.source.code if self.source is not None else None
        self.recorder = Recorder(loop.name, self.backend.new_tape(), self._trial_generator, code)
        self.tape = self.recorder.tape
        self.names: list[str] = []  # of the states
        self.initial: list[Any] = []  # raw tensors, or sizes
        self.state_vars: list[Var] = []
        self.before: list[Any] = []  # Traced, or body Dims
        self.frames: list[tuple[Var, Callable[[], Sequence[Any]]]] = []
        self.unstacked: list[tuple[Tensor, Dim]] = []
        self.outputs: list[tuple[Traced, Pending]] = []
        self.lasts: list[tuple[Traced, Pending]] = []
        self.last_keys: list[str] = []
        self.reorders: list[tuple[Tensor, Dim]] = []
        self.condition: Traced | None = None
        self.include_eos = True
        self.size: Size | None = None  # of the loop axis
        self._iter_idx: Traced | None = None
        self._context = ExitStack()

    # -- entering

    def open(self) -> None:
        """From here on, ops are those of the body."""
        state = self.loop.state
        with untaped(), listening(None):
            grown = self._grown_dims([leaf for _, leaf in state._leaves()])
            for name, leaf in state._leaves():
                self._add_state(name, leaf, grown)
        state._replace(self.before)
        state._begin_body()
        self._context.enter_context(self.recorder.recording(self.backend.take))

    def _grown_dims(self, initial: list[Any]) -> dict[Dim, Dim]:
        return {dim: Dim(None, name=dim.name) for dim in initial if isinstance(dim, Dim)}

    def _add_state(self, name: str, leaf: Any, grown: dict[Dim, Dim]) -> None:
        self.names.append(name)
        if isinstance(leaf, Dim):
            grown[leaf].bind(Size([], leaf.size.max))
            self.initial.append(leaf.size.max)
            self.state_vars.append(self.tape.number_input(leaf.size.max))
            self.before.append(grown[leaf])
            return
        if not isinstance(leaf, Tensor):
            raise LoopError(
                f"{self.loop.name}: the initial value of the state {name!r} is no tensor",
                got=type(leaf).__name__,
                expected="a Tensor (or a Dim that grows)",
                hint="rf.convert_to_tensor(value)",
            )
        plain = self._plain(leaf)
        dims = [grown.get(dim, dim) for dim in plain.dims]
        sizes = {body: Size([], plain.size_of(dim).max) for dim, body in grown.items() if dim in plain.dims}
        lengths = plain.lengths.bind(sizes) if sizes else plain.lengths
        frame = tensor_of(self.backend.alias_raw(plain._raw), align.sig(dims, plain.sparse_dim, plain.feature_dim), lengths)
        self.initial.append(plain._raw)
        self.before.append(self._input(name, frame))
        self.state_vars.append(self._var(frame))

    def _plain(self, tensor: Tensor) -> Tensor:
        """The tensor itself; of a value of the loop around this one, that of its frame."""
        plain: Tensor = unwrap(tensor)
        return plain

    def _input(self, name: str, frame: Tensor) -> Traced:
        return self.recorder.input(name, frame)

    def _var(self, plain: Tensor) -> Var:
        """The Var of a value of the frame; one that came from outside becomes one."""
        found = self.tape.refer(plain._raw)
        if isinstance(found, Var):
            return found
        with self.tape.pause():
            raw = self.backend.identity_raw(plain._raw)
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, raw)
        made = self.tape.find(raw)
        assert isinstance(made, Var)
        return made

    def _trial_generator(self, device: str, number: int) -> Any:
        with self.tape.pause():
            if self.seed is None:
                self.seed = self.backend.draw_seed()
            generator = self.backend.new_generator(device)
            generator.manual_seed(mixed(int(self.seed), number, 0))
        return generator

    # -- in the body

    def unstack(self, source: Tensor, axis: Dim | None) -> Traced:
        """The frame of this step."""
        loop = self.loop
        axis = axis or loop.axis
        if isinstance(source, Traced) and source.recorder is self.recorder:
            raise LoopError(f"{loop.name}: unstack of a value of the body", got=source.name, expected="a tensor from outside")
        plain = self._plain(source)
        if axis is None:
            raise LoopError(
                f"{loop.name}: unstack along which axis?",
                got=plain.describe_dims(),
                hint="rf.Loop(axis=time), or loop.unstack(x, axis=time)",
            )
        with self.tape.pause(), listening(None):
            position = plain.axis(axis)
            self._agree(plain, axis)
            frame = self._first_frame(plain, axis, position)
        loop.axis = loop.axis or axis
        self.unstacked.append((source, axis))
        traced = self._input("", frame)
        number = len(self.unstacked) - 1
        self.frames.append((self._var(frame), lambda: self._frames(number)))
        return self.recorder.from_line(traced, "unstack")

    def _agree(self, plain: Tensor, axis: Dim) -> None:
        size = plain.size_of(axis)
        if self.size is not None and not self.size.agrees(size):
            raise DimRebound(f"{self.loop.name}: unstacked tensors differ in length", got=f"{self.size} and {size}")
        self.size = size

    def _first_frame(self, plain: Tensor, axis: Dim, position: int) -> Tensor:
        signature = align.without(plain.sig, [axis])
        size = plain.size_of(axis)
        shape = list(self.backend.get_shape_tuple_raw(plain._raw))
        if size.max == 0:
            raw = self.backend.full_raw(shape[:position] + shape[position + 1 :], 0, plain.dtype, plain.device)
        else:
            raw = self.backend.alias_raw(self.backend.frames_raw(plain._raw, position)[0])
        frame = tensor_of(raw, signature, plain.lengths)
        return frame if size.max == 0 or not (size.values == 0).any() else self._without_empty(frame, size, 0)

    def _without_empty(self, frame: Tensor, size: Size, value: Any) -> Tensor:
        """Zeros where the sequence is empty."""
        mask = self.backend.from_numpy_raw(size.values > 0, frame.device)
        return where(tensor_of(mask, align.sig(size.dims), frame.lengths), frame, value).copy_transpose(frame.dims)

    def _frames(self, number: int) -> Sequence[Any]:
        """All frames of an unstacked tensor; behind the end of a sequence its last frame, zeros if it has none."""
        source, axis = self.unstacked[number]
        plain = self._plain(source)
        size = plain.size_of(axis)
        if size.ragged and size.max > 0:
            plain = self._repeat_last(plain, axis, size)
        return self.backend.frames_raw(plain._raw, plain.axis(axis))  # type: ignore[no-any-return]

    def _repeat_last(self, plain: Tensor, axis: Dim, size: Size) -> Tensor:
        steps = np.minimum(np.arange(size.max), np.maximum(size.values[..., None] - 1, 0))
        steps_sig = align.sig([*size.dims, axis], axis)
        indices = tensor_of(self.backend.from_numpy_raw(steps, plain.device), steps_sig, plain.lengths)
        filled: Tensor = gather(plain, indices=indices, axis=axis)
        return self._without_empty(filled, size, 0) if (size.values == 0).any() else filled

    def iter_idx(self) -> Traced:
        """The number of this step. {} int64"""
        if self._iter_idx is None:
            with self.tape.pause(), listening(None):
                frame = tensor_of(self.backend.full_raw([], 0, "int64", None), align.sig(()), EMPTY)
            self._iter_idx = self.recorder.from_line(self._input("", frame), "iter_idx")
            self.frames.append((self._var(frame), self._steps))
        return self._iter_idx

    def _steps(self) -> Sequence[Any]:
        return StepNumbers(self.backend)

    def stack(self, source: Tensor, name: str | None) -> Pending:
        """The values of all steps, when the block ends."""
        traced = self._of_body(source, "stack")
        pending = Pending.__new__(Pending)
        pending._name = name or traced.name
        pending.sig = align.sig([self.axis, *traced.dims], traced.sparse_dim, traced.sig.feature_dim)
        pending.lengths = EMPTY
        self.outputs.append((traced, pending))
        return pending

    def _of_body(self, source: Tensor, what: str) -> Traced:
        if isinstance(source, Traced) and source.recorder is self.recorder:
            return source
        if not isinstance(source, Tensor):
            raise LoopError(f"{self.loop.name}: {what} of something that is no tensor", got=type(source).__name__)
        plain = self._plain(source)
        with self.tape.pause(), listening(None):
            copy = plain.like(self.backend.identity_raw(plain._raw))
        self.tape.record(self.backend.identity_raw, (plain._raw,), {}, copy._raw)
        return self.recorder._wrap(copy, plain.name)

    def last(self, source: Tensor, name: str | None) -> Pending:
        """The value at the last step of each sequence, when the block ends."""
        traced = self._of_body(source, "last")
        pending = Pending.__new__(Pending)
        pending._name = name or traced.name
        pending.sig, pending.lengths = traced.sig, EMPTY
        self.lasts.append((traced, pending))
        return pending

    def _carry_lasts(self, by_name: dict[str, Any]) -> None:
        """A last value that is no state is carried like one."""
        for traced, _ in self.lasts:
            key = next((name for name, leaf in by_name.items() if leaf is traced), None)
            if key is None:
                key = f"#last{len(self.last_keys)}"
                self._carry(key, traced.plain, traced.dtype)
                by_name[key] = traced
            self.last_keys.append(key)

    def _carry(self, key: str, like: Tensor, dtype: str) -> None:
        """A state of the loop's own, zeros at first."""
        with self.tape.pause(), listening(None):
            zeros = self.backend.full_raw(self.backend.get_shape_tuple_raw(like._raw), 0, dtype, like.device)
            signature = like.sig if dtype == like.dtype else align.sig(like.dims)
            frame = tensor_of(self.backend.alias_raw(zeros), signature, like.lengths)
        self.names.append(key)
        self.initial.append(zeros)
        self.before.append(self._input(key, frame))
        self.state_vars.append(self._var(frame))

    def end(self, source: Tensor, include_eos: bool) -> None:
        """Sequences end where `source` holds."""
        if self.condition is not None:
            raise LoopError(f"{self.loop.name}: end is called twice", hint="combine: loop.end(rf.logical_or(a, b), …)")
        if source.dtype != "bool":
            raise LoopError(f"{self.loop.name}: end needs a condition", got=source.dtype, expected="bool")
        self.condition = self._of_body(source, "end")
        self.include_eos = include_eos
        self._carry(ENDED, self.condition.plain, "bool")
        self._carry(LENGTHS, self.condition.plain, "int64")

    def reorder(self, indices: Tensor, dim: Dim) -> None:
        """The states follow `indices` along `dim`; those of the loop itself as well."""
        state = self.loop.state
        state._map(lambda leaf: gather(leaf, indices=indices, axis=dim) if dim in leaf.dims_set else leaf)
        self.reorders.append((indices, dim))

    # -- leaving

    @property
    def axis(self) -> Dim:
        """The axis of what is stacked."""
        if self.loop.axis is None:
            self.loop.axis = Dim(None, name=f"{self.loop.name}:steps")
        return self.loop.axis

    def abort(self) -> None:
        """The body raised: nothing is kept, and rfnb listens no longer."""
        self._context.close()
        self.recorder.open = False
        self.loop.state._end_body()

    def finish(self) -> None:
        """Computes all steps, and gives the results their numbers."""
        try:
            self.recorder.take_names()
            self.recorder.graph.body_values = len(self.recorder.graph.values)
            limit = self._limit()
            new, kept, ended = self._close_step(limit)
            grown = [(dim, var) for dim, var in zip(self.before, self.state_vars, strict=True) if isinstance(dim, Dim)]
            new_vars, kept_vars = self._state_vars(new, grown), self._state_vars(kept, grown)
            output_vars = [self._var(traced.plain) for traced, _ in self.outputs]
            ended_var = None if ended is None else self._var(ended.plain)
            self._refuse_grown_outputs(grown)
        finally:
            self.abort()
        if grown:
            replace_grown(self.recorder, grown)
        inputs = [*self.state_vars, *[var for var, _ in self.frames]]
        needs_gradient = self.backend.needs_gradient_raw if self.outer is None else lambda raw: True
        self.program = Program(self.tape, inputs, needs_gradient)
        self.tape.values.clear()
        free = 0 if limit is None or self.condition is not None else int(limit.values.min(initial=limit.max))
        self.schedule = Schedule(
            tuple(self.state_vars), tuple(var for var, _ in self.frames), new_vars, kept_vars, tuple(output_vars), ended_var,
            self.max_steps, self.max_steps if new_vars == kept_vars else free,
        )  # fmt: skip
        self._run(new, limit)

    def _limit(self) -> Size | None:
        """How many steps each sequence may take."""
        loop = self.loop
        size = self.size
        if size is None and loop.axis is not None and loop.axis.is_defined() and self.condition is None:
            size = loop.axis.size
        longest = loop.max_seq_len
        if isinstance(longest, Tensor):
            with self.tape.pause():
                longest = Size(longest.dims, self.backend.to_numpy_raw(self._plain(longest)._raw))
        elif longest is not None:
            longest = Size([], longest)
        if size is None and longest is None:
            raise LoopError(
                f"{loop.name}: nothing says how many steps there are",
                expected="an axis with lengths, or max_seq_len",
                hint="rf.Loop(axis=time) with loop.unstack(x); or rf.Loop(max_seq_len=…) with loop.end(…)",
            )
        limit = size if longest is None else longest if size is None else _shorter(size, longest)
        self.max_steps = limit.max
        return limit

    def _close_step(self, limit: Size | None) -> tuple[list[Any], list[Any], Traced | None]:
        """New states, new states with ended sequences frozen, and which sequences have ended."""
        active = self._active(limit)
        ended_now: Traced | None = None
        by_name: dict[str, Any] = dict(self.loop.state._leaves())
        self._carry_lasts(by_name)
        if self.condition is not None:
            before = dict(zip(self.names, self.before, strict=True))
            ended, lengths = (self._reordered(before[key]) for key in (ENDED, LENGTHS))
            ended_now = logical_or(ended, self.condition).copy_transpose(self.condition.dims)
            live = logical_not(ended if self.include_eos else ended_now)
            active = live if active is None else logical_and(live, active)
            by_name[ENDED] = ended_now
            by_name[LENGTHS] = (lengths + cast(active, "int64")).copy_transpose(self.condition.dims)
        new = [self._like_before(name, old, by_name[name]) for name, old in zip(self.names, self.before, strict=True)]
        kept = [
            value if name in (ENDED, LENGTHS) else self._frozen(active, value, self._reordered(old))
            for name, value, old in zip(self.names, new, self.before, strict=True)
        ]
        if self.condition is not None:
            new = kept
        return new, kept, ended_now

    def _active(self, limit: Size | None) -> Traced | None:
        """Whether a sequence takes this step."""
        if limit is None or not limit.ragged:
            return None
        mask = np.arange(max(limit.max, 1))[(slice(None), *[None] * limit.values.ndim)] < limit.values
        with self.tape.pause(), listening(None):
            raw = self.backend.from_numpy_raw(mask)
            frame = tensor_of(self.backend.alias_raw(self.backend.frames_raw(raw, 0)[0]), align.sig(limit.dims), EMPTY)
        traced = self._input("active", frame)
        self.frames.append((self._var(frame), lambda: self.backend.frames_raw(raw, 0)))
        return traced

    def _reordered(self, value: Any) -> Any:
        for indices, dim in self.reorders if isinstance(value, Tensor) else ():
            if dim in value.dims_set:
                value = gather(value, indices=indices, axis=dim)
        return value

    def _frozen(self, active: Traced | None, new: Any, old: Any) -> Any:
        if active is None or not isinstance(new, Tensor) or not set(active.dims) <= set(new.dims) or new is old:
            return new
        if new.dims != old.dims:
            return new
        return where(active, new, old).copy_transpose(old.dims)

    def _like_before(self, name: str, old: Any, new: Any) -> Any:
        """The state rule: the dims, in any order, and the type of the initial value."""
        if isinstance(old, Dim) or not isinstance(new, Tensor):
            return new
        traced = self._of_body(new, f"the state {name!r}")
        grown = self._new_dims()
        expected = [grown.get(dim, dim) for dim in old.dims]
        if set(traced.dims) != set(expected):
            missing = [dim.name for dim in traced.dims if dim not in expected]
            shown = ", ".join([*(dim.name for dim in old.dims), *missing])
            raise DimError(
                f"{self.loop.name}: the state {name!r} changes its dims",
                got=traced.describe_dims(),
                expected=old.describe_dims(),
                hint=f"start with the dims that it has later: loop.state.{name} = rf.zeros([{shown}])"
                if missing
                else f"every step needs the dims of the initial value of {name!r}",
            )
        traced = traced if list(traced.dims) == expected else traced.copy_transpose(expected)
        return traced if traced.dtype == old.dtype else cast(traced, old.dtype)

    def _new_dims(self) -> dict[Dim, Dim]:
        values = dict(self.loop.state._leaves())
        return {old: values[name] for name, old in zip(self.names, self.before, strict=True) if isinstance(old, Dim)}

    def _state_vars(self, values: list[Any], grown: list[tuple[Dim, Var]]) -> tuple[Var, ...]:
        return tuple(
            self._size_var(value, grown) if isinstance(value, Dim) else self._var(value.plain) for value in values
        )

    def _size_var(self, dim: Dim, grown: list[tuple[Dim, Var]]) -> Var:
        own = next((var for known, var in grown if known is dim), None)
        if own is not None:
            return own
        size = SizeOf(dim, [known for known, _ in grown])
        var = self.tape.number_input(0)
        self.tape.calls.append(Call(size, tuple(v for _, v in grown), {}, var.number))
        return var

    def _refuse_grown_outputs(self, grown: list[tuple[Dim, Var]]) -> None:
        roots = {dim.serial for dim, _ in grown}
        for traced, _ in self.outputs:
            if roots and grows(traced, roots):
                raise LoopError(
                    f"{self.loop.name}: stack of `{traced.name}`, whose size differs per step",
                    got=traced.describe_dims(),
                    hint="carry it as a state and take it after the loop, or reduce over the axis that grows",
                )

    # -- running

    def _run(self, new: list[Any], limit: Size | None) -> None:
        frames = [make() for _, make in self.frames]
        record = session.wants(self.loop.debug) and self.outer is None
        if self.outer is None:
            outcome = execute(
                self.program, self.schedule, self.backend, self.initial, frames, int(self.seed or 0),
                record=record, progress=session.progress(self.loop.name, self.max_steps),
            )  # fmt: skip
            if record:
                self.loop.run = session.keep(recorded(self, outcome, frames))
            if outcome.error is not None:
                raise self._told(outcome)
            stacked = [self._stacked(taken, traced) for taken, (traced, _) in zip(outcome.outputs, self.outputs, strict=True)]
            states = list(outcome.states)
        else:
            states, stacked = self._run_inside(frames)
        self._settle(states, stacked, limit)

    def _run_inside(self, frames: list[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
        """Within the body of another loop: one call on its tape."""
        structure = [self.initial, frames, self.program.externals, [self.seed]]

        def run(*flat: Any) -> list[Any]:
            rest = iter(flat)
            initial, all_frames, externals, [seed] = map_leaves(lambda leaf: next(rest), structure)
            with listening(None):
                outcome = execute(
                    self.program, self.schedule, self.backend, initial, all_frames, int(seed), record=False, externals=externals
                )
            if outcome.error is not None:
                raise self._told(outcome)
            taken = [self._stacked(out, traced) for out, (traced, _) in zip(outcome.outputs, self.outputs, strict=True)]
            return [*outcome.states, *taken]

        results = opaque(run, *leaves(structure))
        return results[: len(self.names)], results[len(self.names) :]

    def _stacked(self, taken: list[Any], traced: Traced) -> Any:
        if taken:
            return self.backend.stack_raw(taken)
        shape = self.backend.get_shape_tuple_raw(traced.plain._raw)
        return self.backend.full_raw([0, *shape], 0, traced.dtype, traced.device)

    def _told(self, outcome: Outcome) -> BaseException:
        """The error of a step, with its step and line."""
        error = outcome.error
        assert error is not None
        node = None if outcome.failed_call is None else self.program.calls[outcome.failed_call].node
        place = f", {node.source.place()} ({node.op})" if node is not None and node.source else ""
        error.add_note(f"in step {outcome.steps} of {self.loop.name}{place}")
        return error

    def _settle(self, states: list[Any], stacked: list[Any], limit: Size | None) -> None:
        final = {name: self._final(old, raw) for name, old, raw in zip(self.names, self.before, states, strict=True)}
        size = self._axis_size(final, limit)
        for raw, (traced, pending) in zip(stacked, self.outputs, strict=True):
            lengths = traced.lengths
            if (known := lengths.size(self.axis)) is None or not known.agrees(size):
                lengths = lengths.bind({self.axis: size})
            pending.settle(tensor_of(raw[: size.max], pending.sig, lengths))
        for key, (_, pending) in zip(self.last_keys, self.lasts, strict=True):
            self._refuse_empty(key, size)
            pending.settle(final[key])
        replaced = [final[name] for name, _ in self.loop.state._leaves()]
        self.loop.state._replace(self._with_final_dims(replaced))

    def _final(self, old: Any, raw: Any) -> Any:
        return raw if isinstance(old, Dim) else tensor_of(raw, old.sig, old.lengths)

    def _with_final_dims(self, values: list[Any]) -> list[Any]:
        """Dims that grew get a Dim of the size that they have in the end."""
        olds = [old for name, old in zip(self.names, self.before, strict=True) if not name.startswith("#")]
        grown = {
            old: Dim(size, name=old.name) for old, size in zip(olds, values, strict=True) if isinstance(old, Dim)
        }

        def settle(old: Any, value: Any) -> Any:
            if isinstance(old, Dim):
                return grown[old]
            dims = [grown.get(dim, dim) for dim in old.dims]
            return tensor_of(value._raw, align.sig(dims, old.sparse_dim, old.sig.feature_dim), value.lengths)

        return [settle(old, value) if grown else value for old, value in zip(olds, values, strict=True)]

    def _axis_size(self, final: dict[str, Any], limit: Size | None) -> Size:
        assert limit is not None
        if self.condition is None:
            size = limit
        else:
            taken = final[LENGTHS]
            size = Size(taken.dims, self.backend.to_numpy_raw(taken._raw))
        if self.size is None or not self.size.agrees(size):
            self.axis.define(size, by=f"loop {self.loop.name}")
        return size

    def _refuse_empty(self, key: str, size: Size) -> None:
        if key.startswith("#") and size.values.size and size.values.min() == 0:
            raise LoopError(
                f"{self.loop.name}: last of a value that a sequence without steps does not have",
                got=f"lengths {size}",
                hint="make it a state: its initial value is its last value there",
            )


class StepNumbers(Sequence[Any]):
    """The numbers of the steps as raw tensors, made when asked for: a loop may have no end in sight."""

    def __init__(self, backend: Any):
        self._backend = backend

    def __getitem__(self, step: Any) -> Any:
        return self._backend.full_raw([], step, "int64", None)

    def __len__(self) -> int:
        return 0


def _shorter(a: Size, b: Size) -> Size:
    if not b.dims:
        return Size(a.dims, np.minimum(a.values, b.values))
    if not a.dims or a.dims == b.dims:
        return Size(b.dims, np.minimum(a.values, b.values))
    raise LoopError("the lengths of the axis and max_seq_len have other dims", got=f"{a} and {b}")
