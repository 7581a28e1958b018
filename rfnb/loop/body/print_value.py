"""`rf.watch`: shows a value while the loop runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Call, current_tape, untaped
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.show import make_line
from rfnb.core.ground.source import assigned_name
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body.body import entered
from rfnb.printable import terminal_text
from rfnb.trace.record.traced import Traced
from rfnb.trace.run.entries import going_on
from rfnb.trace.run.find import takes_one
from rfnb.trace.run.random_numbers import with_own_numbers

if TYPE_CHECKING:
    from rfnb.backend.base.tape import Tape, Var
    from rfnb.core.dims.dim import Dim

LINES = 100
"""Largest number of lines that one `watch` prints in one run."""

Steps = Collection[int] | Callable[[Tensor], object] | None


@guarded
def watch(x: Tensor, *, steps: Steps = None, name: str | None = None, resolve: bool = True) -> Tensor:
    """Prints `x` at some steps of the loop, one line each, and returns it: `att = rf.watch(rf.softmax(e))`.

    x {…} → the same {…}

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 2.0, 3.0]], dims=[rf.batch_dim, time])
    >>> loop = rf.Loop(axis=time, name="sum")
    >>> loop.state.total = rf.zeros([rf.batch_dim])
    >>> with loop:
    ...     loop.state.total = rf.watch(loop.state.total + loop.unstack(x))
    sum step 0: total {batch} float32  1
    sum step 1: total {batch} float32  3
    sum step 2: total {batch} float32  6

    If the loop fails, the last value is printed regardless of `steps`. Watched values are computed before the steps
    where possible, otherwise in them, never after them; results stay the same up to rounding. Replays print nothing.
    Outside of a loop, `x` is printed at once. Entries of ended sequences appear as `·` and are left out of statistics.
    In a search, these are ended hypotheses, and values are those of the final hypotheses, as of `loop.stack(x)`; they
    are printed after the loop, when these are known.

    Args:
        steps: which steps to print: numbers such as `[0, 7]` or `range(0, 1000, 100)`, or a function of the step's
            Tensor that returns True or False, such as `lambda x: rf.reduce_max(x, axis=x.dims) > 9`. Default: the
            first ten, then 10, 20, 50, 100, 200, 500, … and the last one. At most 100 lines are printed.
        name: the name to print; default: the variable in your line.
        resolve: in a search, False prints values while it runs, by the places of the beam at each step.

    Raises LoopError if `steps` is something else.
    """
    if not isinstance(x, Tensor):
        raise LoopError("watch: `x` is not an rf.Tensor", got=type(x).__name__, hint="use print(…)")
    if not _is_choice(steps):
        raise LoopError(
            "watch: `steps` must be numbers, or a function of the tensor",
            got=repr(steps),
            expected="0 or more",
            hint=f"steps=[{steps}]" if _is_step(steps) else "steps=range(0, 1000, 100), or lambda x: …",
        )
    bodies = entered.get()
    target = assigned_name()
    if target and isinstance(x, Traced) and x.recorder.in_body(x.value):
        x.value.name = x.value.name or target  # the line names what it watches
    watcher = Watcher(name or target or x.name, [body.loop.name for body in bodies], steps, resolve=resolve)
    for body in bodies[-1:]:
        body.watchers.append(watcher)
    _watch(x, watcher, *[body.step_number for body in bodies])
    return x


def _is_choice(steps: object) -> bool:
    if steps is None or callable(steps):
        return steps is None or takes_one(steps)
    if isinstance(steps, list | tuple | set | frozenset | dict):
        return all(_is_step(step) for step in steps)
    return isinstance(steps, Collection) and not isinstance(steps, str | bytes | Tensor)


def _is_step(x: Any) -> bool:
    """Whether a value is the number of a step."""
    try:
        return operator.index(x) >= 0
    except TypeError:
        return False


@op(effect=True, name="watch")
def _watch(x: Tensor, watcher: Watcher, *numbers: Tensor) -> None:
    raws, tape = [number._raw for number in numbers], current_tape()
    if tape is None or tape.paused:
        watcher.see(x, raws)
    else:
        tape.record(watcher.of_frame(x), (x._raw, *raws), {}, None, always=True)
        watcher.call = tape.calls[-1]


def leave_out_ended(
    watchers: Sequence[Watcher],
    tape: Tape,
    masks: Sequence[tuple[Var, Sequence[Dim], bool]],
    moved: Sequence[Dim],
    parents: Sequence[tuple[Dim, Var]] = (),
    hypotheses: object = None,
) -> None:
    """Gives watchers the masks of active sequences, which are known only at the end of the step.

    masks: each with its dims, and whether it is true for ended sequences. moved: dims whose entries are reordered; they
    are printed as long as one of their entries is active. parents: of a search, the dim of the hypotheses after each
    choice, and which hypothesis before it each one extends. hypotheses: of a search, which follows them after the loop.
    """
    for watcher in watchers:
        watcher.hypotheses = hypotheses
        if watcher.call is not None and any(watcher.call is call for call in tape.calls):
            call, watcher.call = watcher.call, None
            position = next((i for i, (dim, _) in enumerate(parents, 1) if dim in watcher.dims), 0)
            followed = [var for _, var in parents[:position]]  # a value of later hypotheses comes after their choice
            extra: list[Var] = []
            watcher.masks = []
            for var, dims, negated in masks:
                follows = bool(position) and negated
                extra += [var, *(followed if follows else ())]
                of = [*dims[:-1], parents[position - 1][0]] if follows else dims
                watcher.masks.append((of, negated, moved, len(followed) if follows else 0))
            call.give(*extra)


class Watcher:
    """Prints a value of a loop at some steps, and keeps the last value that was not printed."""

    def __init__(self, name: str, loops: Sequence[str], steps: Steps, *, resolve: bool):
        self.name, self.loops, self.resolve = name, loops, resolve
        self.steps = with_own_numbers(steps) if callable(steps) else steps
        self.lines = 0
        self.call: Call | None = None  # on the tape of the open body
        self.dims: Sequence[Dim] = ()  # of the value
        self.masks: list[tuple[Sequence[Dim], bool, Sequence[Dim], int]] = []  # dims, negated, moved, number of choices
        self.hypotheses: Any = None  # of a search
        self._not_shown: Seen | None = None
        self._waiting: list[Seen] = []  # for the final hypotheses

    def of_frame(self, frame: Tensor) -> Callable[..., None]:
        """A function that each step calls with its raw tensor, in place of the traced frame's."""
        alias, signature, lengths = backend_of_raw(frame._raw).alias_raw, frame.sig, frame.lengths
        self.dims = frame.dims
        return lambda raw, *numbers: self.see(tensor_of(alias(raw), signature, lengths), numbers)

    def see(self, x: Tensor, numbers: Sequence[RawTensor]) -> None:
        """Prints `x` if its step is wanted, else keeps it. `numbers`: the step of each loop around, then the masks."""
        count = len(self.loops)
        steps, masks = [int(number) for number in numbers[:count]], numbers[count:]
        with listening(None), untaped():
            if not self._wants(x, steps):
                self._not_shown = x, steps, masks
            elif self.hypotheses is None or not self.resolve or not self.hypotheses.has(x):
                self._show(x, steps, masks)
            elif len(self._waiting) <= LINES:
                self._not_shown = None
                self._waiting.append((x, steps, masks))

    def finish(self, *, failed: bool) -> None:
        """Called after the loop: prints what waits for the final hypotheses, and the last value if it failed or if
        `steps` has its default."""
        pending, self._not_shown = self._not_shown, None
        waiting, self._waiting = self._waiting, []
        if pending is not None and (failed or (self.steps is None and _shown_by_default(pending[1][:-1]))):
            waiting = [*waiting, pending]
        with listening(None), untaped():
            for values in waiting:
                self._show(*values, resolve=self.resolve and not failed)

    def _wants(self, x: Tensor, steps: list[int]) -> bool:
        if not _shown_by_default(steps if self.steps is None else steps[:-1]):
            return False
        if callable(self.steps):
            answer: Any = self.steps(x)
            try:
                return bool(answer)
            except (RuntimeError, ValueError) as error:  # of several entries
                raise LoopError(
                    "watch: `steps` must return True or False", got=f"{type(answer).__name__} of shape {answer.shape}"
                ) from error
        return self.steps is None or not steps or steps[-1] in self.steps

    def _active(self, x: Tensor, masks: Sequence[object]) -> np.ndarray | None:
        """Which entries belong to active sequences."""
        active = None
        arrays = (backend_of_raw(raw).to_numpy_raw(raw) for raw in masks)
        for dims, negated, moved, choices in self.masks if masks else ():
            mask = next(arrays)
            for _ in range(choices):
                mask = np.take_along_axis(mask, next(arrays), axis=-1)
            mask = mask ^ negated
            mask = mask.any(axis=tuple(i for i, dim in enumerate(dims) if dim in moved))
            going = going_on(x, Size([dim for dim in dims if dim not in moved], mask), 0)
            active = going if active is None else active & going
        return active

    def _show(self, x: Tensor, steps: list[int], masks: Sequence[object], *, resolve: bool = False) -> None:
        self._not_shown = None
        self.lines += 1
        if self.lines > LINES + 1:
            return
        if self.lines > LINES:
            print(terminal_text(f"watch of {self.name}: {LINES} lines were shown; the rest of this run is left out"))
            return
        place = ", ".join(f"{loop} step {step}" for loop, step in zip(self.loops, steps, strict=True))
        active = self._active(x, masks)
        if resolve and self.hypotheses is not None:
            x, active = self.hypotheses.of_final(x, active, steps[-1])
        line = make_line(self.name, x, active)
        print(terminal_text(f"{place}: {line}" if place else line))


Seen = tuple[Tensor, list[int], Sequence[RawTensor]]
"""A value, the step of each loop around, and the masks."""


def _shown_by_default(steps: Sequence[int]) -> bool:
    """Whether every step number is one of 0 to 9, 10, 20, 50, 100, 200, 500, …"""
    return all(step < 10 or str(step).rstrip("0") in ("1", "2", "5") for step in steps)
