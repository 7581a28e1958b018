"""Forks: continues a recorded run from a step with edited states."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size, rebound
from rfnb.core.ground.nested import named_leaves
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError, LoopError
from rfnb.loop.step import STEP_OF_SEED, Bindings, LaterFrames, execute, replaying
from rfnb.loop.steps.explain import note_step
from rfnb.ops.math import cast, is_finite, where
from rfnb.trace.run import session
from rfnb.trace.run.entries import same
from rfnb.trace.run.failure import failure
from rfnb.trace.run.find import sequence_number
from rfnb.trace.run.random_numbers import OwnNumbers
from rfnb.trace.run.step import Only

if TYPE_CHECKING:
    from rfnb.backend.base.tape import Var
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


def fork(replay: Replay, run: Run, step: int, seed: int | None, only: Only, states: Mapping[str, object]) -> Run:
    """Runs the steps from `step` on with edited states, as a new Run; it is kept even if a step raises an error."""
    step, seed = _checked(replay, run, step), replay.seed if seed is None else operator.index(seed)
    bindings = replace(replay.bindings, seed=seed, given={})
    edits = edits_of(replay, run, step, only, states)
    before = apply_edits(replay, step, replay.states_before(step), edits)
    return _continued(replay, run, step, bindings, before, edits)


def locked_states(replay: Replay, run: Run, step: int) -> dict[str, str]:
    """The states that a fork cannot edit: sizes, and all of them if the body changes what it reads."""
    return sizes(replay) if replay.step.changes is None else dict.fromkeys(replay.places, replay.step.changes)


def sizes(replay: Replay) -> dict[str, str]:
    """The states that are sizes of axes, with the reason why they cannot be edited."""
    names = [name for name, place in replay.places.items() if isinstance(replay.final[place], int)]
    return {name: f"{name!r} is the size of an axis that grows, which cannot be edited" for name in names}


@dataclass(frozen=True)
class Edit:
    """New entries of one state.

    Args:
        name: of the state.
        raw: its value, of which the entries in `mask` count.
        mask: which entries are new, as a numpy array in the shape of the state.
    """

    name: str
    raw: RawTensor
    mask: np.ndarray


def edits_of(replay: Replay, run: Run, step: int, only: Only, states: Mapping[str, object]) -> list[Edit]:
    """The edits of the states before `step`. A tensor with all dims of a state changes the entries that differ."""
    where = ForkPoint.of(replay, run, *only)
    return [where.edit(replay, run, name, step, value) for name, value in _named(replay, states)]


def apply_edits(replay: Replay, step: int, before: Sequence[object], edits: Sequence[Edit]) -> list[object]:
    """All that is passed to `step`, with its edits, which are constants; gradients of all other entries go on."""
    after = list(before)
    for edit in edits:
        place, state = replay.places[edit.name], replay.state(edit.name, step)
        if edit.mask.all():
            after[place] = edit.raw
        elif edit.mask.any():
            mask = state.like(replay.backend.from_numpy_raw(edit.mask, state.device))
            new = where(mask, state.like(edit.raw), state.like(after[place]))
            after[place] = new.copy_transpose(state.dims)._raw
    return after


def fork_with(replay: Replay, run: Run, step: int, values: Mapping[Var, object]) -> Run:
    """Runs the steps from `step` on as a new Run, where these values of `step` are given instead of computed."""
    step = _checked(replay, run, step)
    bindings = replace(replay.bindings, given={step: values})
    return _continued(replay, run, step, bindings, replay.states_before(step))


def _continued(
    replay: Replay, run: Run, step: int, bindings: Bindings, before: Sequence[object], edits: Sequence[Edit] = ()
) -> Run:
    """The Run of the steps from `step` on, from the states `before`."""
    if replay.step.changes is not None:
        raise LoopError(f"{run.name}: cannot fork: {replay.step.changes}", hint="make it a state: loop.state.… = …")
    with replay.backend.modes(replay.modes, gradients=False), listening(None), replaying(), OwnNumbers():
        outcome = execute(replay.step, bindings, before, record=True, stack=False, start=step)
    if outcome.error is not None:
        node = None if outcome.failed_call is None else replay.program.calls[outcome.failed_call].node
        note_step(outcome.error, outcome.steps, run.name, node)
        outcome.failure = failure(outcome.error, outcome.steps, node, outcome.failed_call)
    forked = session.store(replay.continued(step, outcome, bindings, edits).run(parent=run, forked_at=step))
    if outcome.error is not None:
        raise outcome.error
    return forked


@dataclass(frozen=True)
class ForkPoint:
    """What an edit is for: the number of a sequence and of a hypothesis, each along its dim; None for all."""

    along: tuple[tuple[Dim, int], ...]

    @classmethod
    def of(cls, replay: Replay, run: Run, sequence: int | str | None, hypothesis: int | None) -> ForkPoint:
        """Raises LoopError if the run has no such sequence or hypothesis."""
        along: list[tuple[Dim, int]] = []
        if sequence is not None:
            number = sequence_number(run, sequence)
            assert run.sequence_dim is not None
            along.append((run.sequence_dim, number))
        if hypothesis is not None:
            search = replay.step.search
            beam = None if search is None else search.beams.dims[-1]
            size = 0 if beam is None else beam.get_dim_value()
            if beam is None or not 0 <= operator.index(hypothesis) < size:
                expected = f"0 … {size - 1}" if size else "a loop with loop.choice"
                raise LoopError(f"{run.name}: there is no hypothesis {hypothesis}", expected=expected)
            along.append((beam, operator.index(hypothesis)))
        return cls(tuple(along))

    def edit(self, replay: Replay, run: Run, name: str, step: int, value: object) -> Edit:
        """The edit of a state before `step`."""
        new, state = _edited(replay, run, step, name, value), replay.state(name, step)
        mask = np.ones([1] * len(state.dims), bool)
        for dim, number in self.along:
            if dim not in state.dims:
                raise DimError(
                    f"fork: the state {name!r} is the same for all entries of {dim.name}",
                    got=state.describe_dims(), expected=f"a state with {dim.name}",
                )  # fmt: skip
            shape = [-1 if d is dim else 1 for d in state.dims]
            mask = mask & (np.arange(state.size_of(dim).max) == number).reshape(shape)
        if isinstance(value, Tensor) and value.dims_set == state.dims_set:
            mask = mask & ~same(state, state.like(new))
        return Edit(name, new, np.broadcast_to(mask, replay.backend.get_shape_tuple_raw(new)).copy())


def _checked(replay: Replay, run: Run, step: int) -> int:
    """The number of a step that the run has started, counted from 0; the step in which a run failed is one too."""
    step = operator.index(step)
    end = run.steps if replay.failed is not None and run.steps < replay.bindings.limit.max else run.steps - 1
    if not -run.steps <= step <= end:
        expected = f"0 … {end}" if end >= 0 else "none: the run has no steps"
        raise LoopError(f"{run.name}: there is no step {step}, so it cannot be forked there", expected=expected)
    return step % run.steps if step < 0 else step


def _named(replay: Replay, states: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """The edits by the full names of states; structures are split into their parts."""
    names = replay.state_names()
    for name, value in states.items():
        nested = any(n.startswith(f"{name}.") for n in names)
        for path, leaf in named_leaves(value, name) if nested else [(name, value)]:
            if path not in names:
                if leaf is None:  # a part of the structure that stays None in all steps
                    continue
                raise LoopError(
                    f"fork: there is no state {path!r}",
                    expected=", ".join(names),
                    hint=did_you_mean(path, names, most=2, cutoff=0.5),
                )
            yield path, leaf


def _edited(replay: Replay, run: Run, step: int, name: str, value: object) -> object:
    """A copy of `value` as the raw tensor of a state, checked and cast to its dtype."""
    state = replay.state(name, step)
    if isinstance(state, int):
        raise LoopError(f"fork: {sizes(replay)[name]}", got=value)
    return replay.backend.snapshot_raw(_raw_of(replay, run, state, value))


def _raw_of(replay: Replay, run: Run, state: Tensor, value: Any) -> object:
    """`value`, which may lack dims of the state, as a raw tensor like that of the state."""
    if isinstance(value, list | tuple):
        return _raw_of_list(replay, run, state, value)
    backend, new = replay.backend, value
    if not isinstance(value, Tensor):
        number = np.asarray(_number(state, value))
        if number.dtype == object:
            raise _does_not_fit(state, value)
        new = tensor_of(backend.from_numpy_raw(number, state.device), align.sig([]), state.lengths)
    _check(state, new)
    if new.dtype != state.dtype:
        new, original = cast(new, state.dtype), new
        if not _fits(original, new):
            raise _does_not_fit(state, value)
    raw, shape = new.copy_compatible_to_dims_raw(state.dims), backend.get_shape_tuple_raw(state._raw)
    return backend.broadcast_raw(raw, shape)


def _fits(original: Tensor, new: Tensor) -> bool:
    """Whether another dtype has the same integers, and has finite numbers where they were finite."""
    if _kind(new.dtype) == "int":
        return bool(_kind(original.dtype) != "int" or same(original, new).all())
    return bool((is_finite(new).raw_tensor >= is_finite(original).raw_tensor).all())


def _does_not_fit(state: Tensor, value: object) -> DtypeError:
    return DtypeError(
        f"fork: a number does not fit into the state {state.name!r}", got=f"{value!r:.40}", expected=state.dtype
    )


def _raw_of_list(replay: Replay, run: Run, state: Tensor, values: Sequence[object]) -> object:
    """A list with one value per sequence as a raw tensor like that of the state."""
    backend, dims = replay.backend, state.dims
    along = run.sequence_dim if run.sequence_dim in dims else dims[0] if len(dims) == 1 else None
    if along is None or len(values) != state.size_of(along).max:
        raise DimError(
            f"fork: a list for the state {state.name!r} needs one entry per sequence",
            got=f"{len(values)} for {state.describe_dims()}",
            hint="rf.convert_to_tensor(values, dims=[…]) for other dims",
        )
    if not values:
        return state._raw
    axis = dims.index(along)
    signature = align.sig([dim for dim in dims if dim is not along], state.sparse_dim)
    row = tensor_of(backend.select_raw(state._raw, axis, 0), signature, state.lengths)
    row.name = state.name
    return backend.stack_raw([_raw_of(replay, run, row, value) for value in values], axis)


def _number(state: Tensor, value: object) -> bool | int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _label(state, value)
    if not isinstance(value, bool | int | float):
        raise not_a_tensor(f"fork: the state {state.name!r}", value)
    return value


def _label(state: Tensor, text: str) -> int:
    if state.vocab is None:
        hint = "rf.Dim(…, vocab=[…]) as the sparse_dim of the initial value" if state.sparse_dim is not None else None
        raise DimError(f"fork: cannot look up {text!r}: {state.name!r} has no vocabulary", got=state.dtype, hint=hint)
    [number] = state.vocab.encode([text])
    if state.vocab.decode(number) != text:
        raise DimError(f"fork: {state.name!r} has no label {text!r}", expected=state.vocab)
    return number


def _check(state: Tensor, new: Tensor) -> None:
    """Raises an error if `new` cannot replace a state: its dims, its lengths, its kind of numbers, its labels."""
    new.check_place(state.dims)
    for dim in new.dims:
        if not state.size_of(dim).agrees(new.size_of(dim)):
            raise rebound(dim, state.size_of(dim), new.size_of(dim))
    if KINDS.index(_kind(new.dtype)) > KINDS.index(_kind(state.dtype)) or (new.dtype == "bool") != (
        state.dtype == "bool"
    ):
        raise DtypeError(
            f"fork: the state {state.name!r} cannot hold values of this dtype", got=new.dtype, expected=state.dtype
        )
    if state.sparse_dim is None:
        return
    if new.sparse_dim not in (None, state.sparse_dim):
        raise DimError(f"fork: {state.name!r} has labels of another dim", got=new.sparse_dim, expected=state.sparse_dim)
    numbers, count = new.numpy(), state.sparse_dim.size.max
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        label = next(int(n) for n in numbers.flat if not 0 <= n < count)
        raise DimError(f"fork: {state.name!r} has no such label", got=label, expected=f"0 … {count - 1}")


KINDS = ("bool", "int", "float", "complex")


def _kind(dtype: str) -> str:
    return next((kind for kind in KINDS if kind in dtype), "float")


def since(replay: Replay, step: int) -> Replay:
    """The steps from one on, or from the nearest one before it whose states are kept, as those of a loop that begins
    there.
    """
    place = max(step - replay.start, 0) // replay.every
    first, bindings = replay.start + place * replay.every, replay.bindings
    later, size = copy(replay), bindings.frames_size
    later.origin, later.probe, later.edits = None, None, ()
    later.start, later._compiled, later._latest = 0, {}, None
    later.bindings = replace(
        bindings,
        frames=[LaterFrames(frames, first) for frames in bindings.frames],
        seed=bindings.seed + first * STEP_OF_SEED,
        limit=_later(bindings.limit, first),
        frames_size=None if size is None else _later(size, first),
        given={n - first: values for n, values in bindings.given.items() if n >= first},
    )
    later._free_steps = replay.schedule.free_steps(later.bindings.limit)
    later.steps, later.kept, later.size = replay.steps - first, replay.kept[place:], _later(replay.size, first)
    for name in ("search_steps", "parents", "lineages"):
        later.__dict__.pop(name, None)
    return later


def _later(size: Size, first: int) -> Size:
    """How many steps of each sequence come from a step on."""
    return Size(size.dims, np.maximum(size.values - first, 0), tags=size.tags)
