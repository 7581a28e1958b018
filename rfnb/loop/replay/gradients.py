"""Gradients through time: the gradients of a loss by the states, at each step of a recorded run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.defaults import is_float_dtype
from rfnb.core.ground.show import Shown
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import LoopError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


class Gradients(Shown):
    """Norms of d loss / d state, for the value that each step assigns to the state. Returned by `run.gradients(loss)`.

    `norm["h"][i]` is the norm over the whole batch at step i, `per_sequence["h"][i, b]` that of sequence b, NaN after
    its end; `start["h"]` is the norm for the initial value.

    Args:
        run: the run with these steps.
        loss: the name of the loss.
        norm: for each state, [steps].
        per_sequence: for each state with one value per sequence, [steps, sequences].
        start: for each state.

    >>> loop = rf.Loop(max_seq_len=3, debug=True)
    >>> loop.state.h, weight = rf.ones([]), rf.Parameter([], initial=0.01)
    >>> with loop:
    ...     loop.state.h = loop.state.h * weight
    >>> gradients = loop.run.gradients(loop.state.h)
    >>> [round(norm, 6) for norm in gradients.norm["h"].tolist()], gradients.verdict["h"]
    ([0.0001, 0.01, 1.0], 'vanishes before step 1')
    """

    def __init__(
        self,
        run: Run,
        loss: str,
        norm: dict[str, np.ndarray],
        per_sequence: dict[str, np.ndarray],
        start: dict[str, float],
    ):
        self.run, self.loss = run, loss
        self.norm, self.per_sequence, self.start = norm, per_sequence, start

    @property
    def verdict(self) -> dict[str, str]:
        """For each state: "vanishes before step 12", "explodes before step 3", "not finite up to step 7", or ""."""
        return {name: verdict(norms.tolist()) for name, norms in self.norm.items()}


FAR = 1000.0
"""Ratio of the norms at the two ends of a run from which on a gradient is said to explode or vanish."""


def verdict(norms: Sequence[float]) -> str:
    """Names the problem with the norms of a state over the steps; "" if there is none.

    >>> verdict([1e-9, 1e-6, 1e-4, 0.1, 1.0]), verdict([0.5, 0.7]), verdict([3e4, 20.0, 1.0])
    ('vanishes before step 3', '', 'explodes before step 1')
    """
    odd = [i for i, n in enumerate(norms) if not np.isfinite(n)]
    if odd:
        return f"not finite up to step {odd[-1]}"
    norm = next((n for n in reversed(norms) if n > 0), 0.0)
    if norm == 0:
        return "no gradient"
    small, large = norms[0] * FAR < norm, norms[0] > norm * FAR
    if small or large:
        within = next(i for i, n in enumerate(norms) if (n * FAR >= norm if small else n <= norm * FAR))
        return f"{'vanishes' if small else 'explodes'} before step {within}"
    return ""


def gradients(replay: Replay, run: Run, loss: object) -> Gradients:
    """Goes back from the last step: recomputes each step and takes the gradients by the states before it."""
    back = _BackFromValue(replay, loss) if isinstance(loss, str) else _BackFromTensor(replay, loss)
    names = [name for name in replay.step.assigned_vars if back.is_float(name)]
    rows: dict[str, list[tuple[float, object]]] = {name: [] for name in names}
    for step in reversed(range(replay.steps)):
        for name, raw in back.step(step, names).items():
            rows[name].append(_norms(replay, run, name, raw, step))
    return Gradients(
        run,
        loss if isinstance(loss, str) else _name_of(loss),
        {name: np.array([total for total, _ in reversed(rows[name])]) for name in names},
        {name: _stacked(run, [row for _, row in reversed(rows[name])]) for name in names if back.counts(name, run)},
        {name: back.at_start(name) for name in names},
    )


def _name_of(loss: object) -> str:
    name = getattr(loss, "name", None)
    return "loss" if name in (None, "tensor") else str(name)


class _BackwardPass:
    """The gradients by the states, from the last step to the first."""

    def __init__(self, replay: Replay):
        self.replay, self.backend = replay, replay.backend
        self.carried: list[RawTensor] = [None] * len(
            replay.templates
        )  # gradients by the states after the next step to handle

    def loss_terms(self, step: int) -> list[tuple[Var | External, Callable[[RawTensor], object]]]:
        """Values of a step that the loss depends on directly, each with a function from the value to its gradient."""
        raise NotImplementedError

    def is_float(self, name: str) -> bool:
        """Whether a state has floats, which have gradients."""
        template = self.replay.templates[self.replay.places[name]]
        return isinstance(template, Tensor) and is_float_dtype(template.dtype)

    def counts(self, name: str, run: Run) -> bool:
        """Whether a state has a value for each sequence."""
        return run.sequence_dim in self.replay.step.assigned_vars[name][1]

    def step(self, step: int, names: Sequence[str]) -> dict[str, RawTensor]:
        """The gradients by the values that `step` assigns to the states `names`."""
        replay = self.replay
        self._cut_edits(step + 1)
        before = [self._leaf(raw) for raw in replay.states_before(step)]
        after, terms = replay.after(step), self.loss_terms(step)
        assigned = [replay.step.assigned_vars[name][0] for name in names]
        raws = replay.compute(step, [*after, *(var for var, _ in terms), *assigned], before, gradients=True)
        count = len(after) + len(terms)
        results, new = raws[:count], raws[count:]
        arriving = [*self.carried, *(make(raw) for (_, make), raw in zip(terms, results[len(after) :], strict=True))]
        after_it = {name: self.carried[replay.places[name]] for name in names}
        pulled = self.backend.pull_back_raw(results, arriving, [*before, *new])
        self.carried = pulled[: len(before)]
        by_new = zip(names, pulled[len(before) :], new, strict=True)
        return {name: gradient if self._follows(raw) else after_it[name] for name, gradient, raw in by_new}

    def _cut_edits(self, step: int) -> None:
        """No gradient goes back through entries that were edited before `step`."""
        for edit in self.replay.edits_before(step):
            place = self.replay.places[edit.name]
            raw = self.carried[place]
            if raw is not None:
                mask = self.backend.from_numpy_raw(edit.mask, self.backend.get_device_raw(raw))
                self.carried[place] = self.backend.masked_fill_raw(raw, mask, 0)

    def _follows(self, raw: RawTensor) -> bool:
        return bool(self.backend.needs_gradient_raw(raw))  # else it depends on no state

    def _leaf(self, raw: RawTensor) -> object:
        if isinstance(raw, int | None) or not is_float_dtype(self.backend.get_dtype_name_raw(raw)):
            return raw
        leaf = self.backend.alias_raw(raw)
        self.backend.set_requires_gradient_raw(leaf)
        return leaf

    def at_start(self, name: str) -> float:
        """The norm for the initial value of a state. Call it after all steps."""
        self._cut_edits(0)
        raw = self.carried[self.replay.places[name]]
        return 0.0 if raw is None else float(np.sqrt(_squares(self.backend, raw).sum()))


class _BackFromTensor(_BackwardPass):
    """The backward pass from a loss that was computed from the results of the loop."""

    def __init__(self, replay: Replay, loss: object):
        super().__init__(replay)
        self.arrived = _arrived(replay, loss._raw if isinstance(loss, Tensor) else loss)
        self.carried = [self.arrived.get(("state", i)) for i in range(len(replay.templates))]

    def loss_terms(self, step: int) -> list[tuple[Var | External, Callable[[RawTensor], object]]]:
        """The outputs of the step; the gradient of each is its part of the gradient of the stacked output."""
        outputs = enumerate(self.replay.schedule.outputs)
        return [(var, partial(self._part, i, step)) for i, var in outputs if ("output", i) in self.arrived]

    def _part(self, output: int, step: int, _: RawTensor) -> RawTensor:
        return self.backend.select_raw(self.arrived["output", output], 0, step)


def _arrived(replay: Replay, loss: object) -> dict[Hashable, RawTensor]:
    """The gradients of a loss by the results of the loop."""
    name, way = replay.step.name, 'or the name of a value of the body: run.gradients("loss")'
    if replay.probe is None:
        raise LoopError(f"{name}: no gradient can reach the results of this run", hint=way.removeprefix("or "))
    if not isinstance(loss, replay.backend.RawTensorType) or not replay.backend.needs_gradient_raw(loss):
        raise LoopError(
            f"{name}: this loss has no gradient",
            got=type(loss).__name__,
            expected=f"a Tensor computed from the results of the loop, with gradients on; {way}",
        )
    try:
        gradients_by_var: dict[object, object] = replay.probe.gradients(loss)
    except RuntimeError as error:
        raise LoopError(
            f"{name}: the autograd graph of this loss has been freed",
            hint="call run.gradients(loss) before loss.backward(), or use loss.backward(retain_graph=True)",
        ) from error
    if not gradients_by_var:
        raise LoopError(
            f"{name}: this loss does not depend on the results of this run", hint="is it the loss of another run?"
        )
    return gradients_by_var


class _BackFromValue(_BackwardPass):
    """The backward pass from the sum of a value of the body over all steps."""

    def __init__(self, replay: Replay, name: str):
        super().__init__(replay)
        self.name = name
        self.var, (self.sig, self.lengths) = replay.value(name)

    def loss_terms(self, step: int) -> list[tuple[Var | External, Callable[[RawTensor], object]]]:
        """The value itself; its gradient is 1, and 0 in padding and in sequences that have ended."""
        return [(self.var, partial(self._ones, step))]

    def _ones(self, step: int, raw: RawTensor) -> object:
        backend, dtype = self.backend, self.backend.get_dtype_name_raw(raw)
        if not is_float_dtype(dtype):
            raise LoopError(f"{self.replay.step.name}: `{self.name}` has no gradient", got=dtype, expected="floats")
        device = backend.get_device_raw(raw)
        gradient = backend.full_raw(backend.get_shape_tuple_raw(raw), 1, dtype, device)
        gradient = backend.fill_padding(tensor_of(gradient, self.sig, self.lengths), 0)
        over = ~_active(self.replay.size, self.sig.dims, step)
        return backend.masked_fill_raw(gradient, backend.from_numpy_raw(over, device), 0)


def _norms(replay: Replay, run: Run, name: str, raw: RawTensor, step: int) -> tuple[float, object]:
    """The norm over all sequences that take the step, and that of each."""
    _, dims = replay.step.assigned_vars[name]
    active = _active(replay.size, dims, step)
    squares = np.zeros(active.shape) if raw is None else np.where(active, _squares(replay.backend, raw), 0)
    axes = tuple(i for i, dim in enumerate(dims) if dim is not run.sequence_dim)
    norms = np.where(active.any(axes), np.sqrt(squares.sum(axes)), np.nan)
    return float(np.sqrt(squares.sum())), norms


def _stacked(run: Run, rows: list[RawTensor]) -> np.ndarray:
    """The rows of all steps as one array. [steps, sequences]"""
    return np.array([np.broadcast_to(row, run.batch or 0) for row in rows]).reshape(len(rows), run.batch or 0)


def _squares(backend: type[Backend], raw: RawTensor) -> np.ndarray:
    squares: np.ndarray = backend.to_numpy_raw(raw).astype("float64") ** 2
    return squares


def _active(size: Size, dims: Sequence[Dim], step: int) -> np.ndarray:
    """Which sequences take a step, in a shape that broadcasts to `dims`."""
    if not set(size.dims) <= set(dims):
        return np.ones([1] * len(dims), bool)
    takes_it = np.asarray(step < size.values)
    order = sorted(range(len(size.dims)), key=lambda i: dims.index(size.dims[i]))
    return takes_it.transpose(order).reshape(
        [takes_it.shape[size.dims.index(d)] if d in size.dims else 1 for d in dims]
    )
