"""`rf.watch`: shows a value while the loop runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Call, current_tape, untaped
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.show import make_line
from rfnb.core.ground.source import assigned_name
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body.entered import entered
from rfnb.trace.record.traced import Traced
from rfnb.trace.run.entries import going_on

if TYPE_CHECKING:
    from rfnb.backend.base.tape import Tape, Var
    from rfnb.core.dims.dim import Dim

LINES = 100
"""At most so many of one `watch` in one run."""

Steps = Collection[int] | Callable[[Tensor], Any] | None


def watch(x: Tensor, *, steps: Steps = None, name: str | None = None) -> Tensor:
    """Shows `x` at some steps of the loop, a line each, and gives it back: `att = rf.watch(rf.softmax(e))`.

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

    A loop that fails shows the last value that there was, whatever `steps` says. What is watched is computed before
    the steps where that is possible, else in them, never behind them; results stay the same, to rounding. Replays show
    nothing. Outside of a loop `x` is shown at once. Entries of sequences that have ended are a `·`, and count for
    nothing.

    Args:
        steps: at which: numbers, as `[0, 7]` or `range(0, 1000, 100)`; or a function of the Tensor of the step that
            gives True or False, as `lambda x: rf.reduce_max(x, axis=x.dims) > 9`. The default are the first ten, then
            10, 20, 50, 100, 200, 500, … and the last one. At most 100 lines are shown.
        name: the default is what your line calls it.

    Raises LoopError if `steps` is something else.
    """
    if not isinstance(x, Tensor):
        raise LoopError("watch: not a Tensor", got=type(x).__name__, hint="print(…) shows it, once")
    if isinstance(steps, str) or not (steps is None or callable(steps) or isinstance(steps, Collection)):
        raise LoopError(
            "watch: `steps` are numbers, or a function of the tensor",
            got=repr(steps),
            hint="steps=range(0, 1000, 100), or lambda x: …" if steps == "all" else f"steps=[{steps}]",
        )
    bodies = entered.get()
    target = assigned_name()
    if target and isinstance(x, Traced) and x.recorder.in_body(x.value):
        x.value.name = x.value.name or target  # the line names what it watches
    watcher = Watcher(name or target or x.name, [body.loop.name for body in bodies], steps)
    for body in bodies[-1:]:
        body.watchers.append(watcher)
    _watch(x, watcher, *[body.step_number() for body in bodies])
    return x


@op(effect=True, name="watch")
def _watch(x: Tensor, watcher: Watcher, *numbers: Tensor) -> None:
    raws, tape = [number._raw for number in numbers], current_tape()
    if tape is None or tape.paused:
        watcher.see(x, raws)
    else:
        tape.record(watcher.of_frame(x), (x._raw, *raws), {}, None, always=True)
        watcher.call = tape.calls[-1]


def leave_out_ended(
    watchers: Sequence[Watcher], tape: Tape, masks: Sequence[tuple[Var, Sequence[Dim], bool]], moved: Sequence[Dim]
) -> None:
    """Gives watchers the masks of the sequences that go on, which are known at the end of the step.

    masks: each with its dims, and whether it holds for those that have ended. moved: dims whose entries change places,
    which are shown as long as one of them goes on.
    """
    for watcher in watchers:
        if watcher.call is not None and any(watcher.call is call for call in tape.calls):
            call, watcher.call = watcher.call, None
            call.args = (*call.args, *[var for var, _, _ in masks])
            call._reads = call._read_vars = None
            watcher.masks = [(dims, negated, moved) for _, dims, negated in masks]


class Watcher:
    """Shows a value of a loop, and remembers the last one that it did not show."""

    def __init__(self, name: str, loops: Sequence[str], steps: Steps):
        self.name, self.loops, self.steps = name, loops, steps
        self.lines = 0
        self.call: Call | None = None  # on the tape of a body that is open
        self.masks: list[tuple[Sequence[Dim], bool, Sequence[Dim]]] = []  # behind the numbers: dims, negated, moved
        self._rest: tuple[Tensor, list[int], Sequence[Any]] | None = None

    def of_frame(self, frame: Tensor) -> Callable[..., None]:
        """What is called at each step, with a raw tensor in place of that of the traced frame."""
        alias, signature, lengths = backend_of_raw(frame._raw).alias_raw, frame.sig, frame.lengths
        return lambda raw, *numbers: self.see(tensor_of(alias(raw), signature, lengths), numbers)

    def see(self, x: Tensor, numbers: Sequence[Any]) -> None:
        """The value at a step; with no number, outside of a loop."""
        count = len(self.loops)
        steps, masks = [int(number) for number in numbers[:count]], numbers[count:]
        with listening(None), untaped():
            if self._asked(x, steps):
                self._show(x, steps, masks)
            else:
                self._rest = x, steps, masks

    def finish(self, *, failed: bool) -> None:
        """The loop is over: shows what came last, if all steps are of interest, or if it failed."""
        rest, self._rest = self._rest, None
        if rest is not None and (failed or (self.steps is None and _of_interest(rest[1][:-1]))):
            with listening(None), untaped():
                self._show(*rest)

    def _asked(self, x: Tensor, steps: list[int]) -> bool:
        if not _of_interest(steps if self.steps is None else steps[:-1]):
            return False
        if callable(self.steps):
            return bool(self.steps(x))
        return self.steps is None or not steps or steps[-1] in self.steps

    def _live(self, x: Tensor, masks: Sequence[Any]) -> np.ndarray | None:
        """Which entries are of sequences that go on."""
        live = None
        for raw, (dims, negated, moved) in zip(masks, self.masks, strict=False):
            mask = backend_of_raw(raw).to_numpy_raw(raw) ^ negated
            mask = mask.any(axis=tuple(i for i, dim in enumerate(dims) if dim in moved))
            goes_on = going_on(x, Size([dim for dim in dims if dim not in moved], mask), 0)
            live = goes_on if live is None else live & goes_on
        return live

    def _show(self, x: Tensor, steps: list[int], masks: Sequence[Any]) -> None:
        self._rest = None
        self.lines += 1
        if self.lines > LINES + 1:
            return
        if self.lines > LINES:
            print(f"watch of {self.name}: {LINES} lines are shown, and no more of this run")
            return
        place = ", ".join(f"{loop} step {step}" for loop, step in zip(self.loops, steps, strict=True))
        said = make_line(self.name, x, self._live(x, masks))
        print(f"{place}: {said}" if place else said)


def _of_interest(steps: Sequence[int]) -> bool:
    """0 to 9, 10, 20, 50, 100, 200, 500, … of each loop."""
    return all(step < 10 or str(step).rstrip("0") in ("1", "2", "5") for step in steps)
