"""Measures of the nodes of a call: their time, their bytes, how large their entries and gradients are.

Times are without the time of the recorder and of the measuring itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from rfnb.backend.base.data import Magnitude
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import Lengths, going_on_mask
from rfnb.core.graph.graph import Node, Value
from rfnb.core.graph.meter import Bad, MeasuredLoop, Meter
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw, selected
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.core.tensor.tensor_dict import as_dicts
from rfnb.errors import BackendError, ParameterError
from rfnb.trace.run.entries import frames, frames_of, going_on
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import RunStep

Cost = tuple[float, float]
"""What measuring costs, in seconds: in all, and within the window of the node itself."""
EVENTS = 300
"""How many empty events are timed to know what an event costs."""


class TimeMeter(Meter):
    """A clock that stands still while the recorder works.

    A GPU is waited for at the end of each node, so the time of a node includes its kernels.

    event, call: what the clock cannot see of an event of the recorder, and of a raw call in a step: the seconds that it
    takes in all, and those of them within the window of its node. lost: the seconds that the clock stood still.
    """

    times = True

    def __init__(self, event: Cost = (0.0, 0.0), call: Cost = (0.0, 0.0)):
        super().__init__()
        self.event, self.call = event, call
        self.lost = 0.0
        self.device = backends.selected().synchronize()
        self._wait: Callable[[], object] = backends.selected().synchronize if self.device != "cpu" else _nothing
        self._paused = self._last = 0.0
        self._began: list[float] = []

    def now(self) -> float:
        """The time in seconds, without that of the measuring itself."""
        return perf_counter() - self.lost

    def whole(self, call: Callable[[], object]) -> object:
        """Calls the model, and measures the whole call."""
        self.lost, began = 0.0, perf_counter()
        self._last = began
        result = call()
        self._wait()
        self.total = self.now() - began
        return result

    def stopped(self) -> float:
        """When `pause` was called, as by `now`."""
        return self._paused - self.lost

    def since(self) -> float:
        """The seconds since the last node ended, or the one that is running began."""
        self._wait()
        return self.now() - self._last

    def pause(self) -> None:
        """The clock stops."""
        self._paused = perf_counter()

    def resume(self) -> None:
        """The clock goes on."""
        time = perf_counter()
        self.lost += time - self._paused + self.event[0]
        self._last = time - self.lost

    def enter(self, node: Node) -> None:
        """The work of a node begins."""
        self.sample(node)
        self.lost += perf_counter() - self._paused
        self._last = self.now()
        self._began.append(self._last)

    def exit(self, node: Node) -> None:
        """The work of a node ends."""
        self._wait()
        self._paused = perf_counter()
        sample = self.sample(node)
        sample.amount += max(self._paused - self.lost - self._began.pop() - self.event[1], 0.0)
        sample.calls += 1

    # -- loops

    def timed(self, fn: Callable[..., object], node: Node) -> Callable[..., object]:
        """The function of a raw call in the steps of a loop; its time is added to that of `node`."""
        sample, wait, (outer, inner) = self.sample(node), self._wait, self.call
        calls, sample.place = 0, sample.place or "steps"

        def run(*args: object, **kwargs: object) -> object:
            nonlocal calls
            began = perf_counter() - self.lost
            result = fn(*args, **kwargs)
            wait()
            sample.amount += max(perf_counter() - self.lost - began - inner, 0.0)
            calls += 1
            sample.calls = max(sample.calls, calls)  # an op may make several raw calls
            self.lost += outer
            return result

        return run

    def hoisted(
        self, node: Node, place: str, fn: Callable[[], object], alone: Callable[[], object], run: MeasuredLoop
    ) -> object:
        """Calls `fn`, which computes an op outside of the steps, and measures how long one step would take."""
        sample, began = self.sample(node), self.now()
        result = fn()
        self._wait()
        sample.amount += self.now() - began
        sample.calls, sample.place, sample.steps = sample.calls + 1, place, run.steps
        self.pause()
        try:
            sample.alone = min(self._seconds(alone) for _ in range(3))
        finally:
            self.resume()
        return result

    def _seconds(self, fn: Callable[[], object]) -> float:
        began = perf_counter()
        fn()
        self._wait()
        return perf_counter() - began


def call_cost() -> Cost:
    """What measuring a raw call costs."""
    meter, node = TimeMeter(), Node(0, "", ())
    plain = min(_many(_nothing) for _ in range(5))
    timed = meter.timed(_nothing, node)
    seconds = min(_many(timed) for _ in range(5))
    sample = meter.samples[id(node)]
    return max(seconds - plain, 0.0), max(min(sample.amount / sample.calls, seconds) - plain, 0.0)


def event_cost(run: Callable[[Callable[[Any], None], TimeMeter | None], None]) -> Cost:
    """What measuring an event of the recorder costs.

    run: calls a function of a tensor with the recorder that is given a meter, or without a recorder.
    """

    def seconds(meter: TimeMeter | None) -> Cost:
        took: list[float] = []

        def many(x: Any) -> None:
            clock = perf_counter if meter is None else meter.now
            began = clock()
            for _ in range(EVENTS):
                abs(x)
            took.append(clock() - began)

        run(many, meter)
        inner = 0.0 if meter is None else sum(sample.amount for sample in meter.samples.values())
        return took[0] / EVENTS, inner / EVENTS

    seconds(None)
    plain = min(seconds(None)[0] for _ in range(3))
    total, inner = min(seconds(TimeMeter()) for _ in range(3))
    return max(total - plain, 0.0), min(max(inner - plain, 0.0), max(total - plain, 0.0))


def _nothing(x: object = None) -> object:
    return x


def _many(fn: Callable[..., object]) -> float:
    began = perf_counter()
    for _ in range(EVENTS):
        fn(None)
    return (perf_counter() - began) / EVENTS


PLACES_OUTSIDE = ("once", "frames")
"""Where an op is computed whose result exists once, not once in each step."""


def raw_of(leaf: object) -> RawTensor:
    """The raw tensor of a leaf; None if it is not a tensor."""
    raw = leaf.raw_tensor if isinstance(leaf, Tensor) else leaf
    return raw if isinstance(raw, selected().RawTensorType) else None


def raws_in(tree: object) -> list[RawTensor]:
    """The raw tensors in a nested structure."""
    return [raw for leaf in leaves(as_dicts(tree)) if (raw := raw_of(leaf)) is not None]


class MemoryMeter(Meter):
    """The bytes that the results of nodes take newly: a view of an operand takes none."""

    records = True

    def __init__(self) -> None:
        super().__init__()
        self._inner: list[dict[object, int]] = [{}]  # by open node, the storages that the nodes in it have made
        self._left: dict[object, int] = {}  # those of the node that has just ended

    def enter(self, node: Node) -> None:
        """A node begins."""
        self._inner.append({})

    def exit(self, node: Node) -> None:
        """A node ends: what was made in it counts as known."""
        self._left = self._inner.pop()

    def made(self, node: Node, given: object, results: Iterable[object]) -> None:
        """Adds the new storages of the results."""
        old = dict(map(_storage, raws_in(given))) | self._left
        storages = dict(map(_storage, raws_in(list(results))))
        new = {key: size for key, size in storages.items() if key not in old}
        sample = self.sample(node)
        sample.amount, sample.calls = sample.amount + sum(new.values()), sample.calls + 1
        self._inner[-1] |= self._left | new
        self._left = {}

    def loop_ran(self, run: Run) -> None:
        """Adds the results of all steps of a loop. What was computed outside of the steps counts once."""
        for values, place_of, steps in steps_of(run):
            raws: dict[int, RawTensor] = {}
            for value, tensor in values:
                raws[value.number] = tensor._raw
                node = value.node
                if node is None or node.kind in ("input", "state", "module", "loop", "cond", "side"):
                    continue
                sample, place = self.sample(node), place_of(node)
                sample.place, sample.steps, sample.calls = place, steps[-1].run.steps, sample.calls + 1
                key, size = _storage(tensor._raw)
                inputs = {_storage(raws[number])[0] for number in node.inputs if number in raws}
                if key not in inputs and (place not in PLACES_OUTSIDE or steps[-1].step == 0):
                    sample.amount += size


def _storage(raw: RawTensor) -> tuple[object, int]:
    storage: tuple[object, int] = backend_of_raw(raw).storage_raw(raw)
    return storage


Steps = tuple[list[tuple[Value, Tensor]], Callable[[Node], str], tuple[RunStep, ...]]


def steps_of(run: Run, around: tuple[RunStep, ...] = ()) -> Iterator[Steps]:
    """The values of each step of a loop, and of the loops in it; where the loop computes its nodes; the step, after
    those around it.
    """
    replay: Any = run.replay
    data = replay.step.explanation_data
    places = {} if data is None else {id(placement.node): placement.place for placement in data.placements}
    has_loops = any(node.kind == "loop" for node in run.graph.all_nodes())
    for step in range(run.steps):
        steps = *around, run[step]
        yield run.replay.computed(step), lambda node: places.get(id(node), "steps"), steps
        for inner in run.replay.loops(step) if has_loops else ():
            yield from steps_of(inner, steps)


class _MagnitudeMeter(Meter):
    """Adds up how large entries are."""

    def add(
        self,
        node: Node,
        size: Magnitude | None,
        place: str = "",
        steps: int = 0,
        *,
        masked: bool = False,
        first: bool = True,
    ) -> None:
        """Adds the entries of a result to the sample of a node; nothing for a result without numbers.

        Args:
            place, steps: of the node, as in a `Sample`.
            masked: −Inf does not count as bad.
            first: if there is a NaN or an infinity, this node may be the one that made it.
        """
        if size is None:
            return
        sample = self.sample(node)
        sample.calls, sample.place, sample.steps = sample.calls + 1, place, steps
        sample.amount, sample.count = sample.amount + size.squares, sample.count + size.entries
        sample.most = max(sample.most, size.most)
        bad: Bad = "NaN" if size.nan else "infinity" if size.infinite or (size.minus_infinite and not masked) else ""
        sample.bad = "NaN" if "NaN" in (bad, sample.bad) else sample.bad or bad
        if bad and first and self.first_bad is None:
            self.first_bad = node


class ActivationMeter(_MagnitudeMeter):
    """How large the results of nodes are. Padding and ended sequences do not count, nor do masks of −Inf."""

    records = True

    def __init__(self) -> None:
        super().__init__()
        self._masked: dict[int, weakref.ref[object]] = {}  # by id of the raw tensor

    def made(self, node: Node, given: object, results: Iterable[object]) -> None:
        """Adds the entries of the results."""
        written = any(isinstance(leaf, float) and leaf == -np.inf for leaf in leaves(as_dicts(given)))
        masked = written or any(self._is_masked(raw) for raw in raws_in(given)) or node.kind != "op"
        for leaf in results:
            raw = raw_of(leaf)
            if raw is not None:
                magnitude = backend_of_raw(raw).magnitude_raw(raw, _mask(leaf))
                if magnitude is not None and magnitude.minus_infinite and masked:
                    self._masked[id(raw)] = weakref.ref(raw)
                self.add(node, magnitude, masked=masked)

    def _is_masked(self, raw: RawTensor) -> bool:
        reference = self._masked.get(id(raw))
        return reference is not None and reference() is raw

    def loop_ran(self, run: Run) -> None:
        """Adds the results of all steps of a loop."""
        for values, place_of, steps in steps_of(run):
            for value, tensor in values:
                node = value.node
                if node is None or node.kind in ("input", "state"):
                    continue
                mask = frames(tensor)
                for at in steps:
                    mask = mask & going_on(tensor, at.run.size, at.step)
                magnitude = backend_of_raw(tensor._raw).magnitude_raw(tensor._raw, mask)
                self.add(node, magnitude, place_of(node), steps[-1].run.steps, masked=True)


def _mask(leaf: object) -> np.ndarray | None:
    """Which entries count; None if all do."""
    if not isinstance(leaf, Tensor):
        return None
    mask = frames(leaf)
    return None if mask.all() else mask


class GradientMeter(_MagnitudeMeter):
    """How large the gradients of a loss by the results of nodes are."""

    watches = True

    def __init__(self, loss: Callable[[Any], object] | None):
        super().__init__()
        self._loss = loss
        self._seen: list[Node] = []  # in the order in which their gradients arrive

    def made(self, node: Node, given: object, results: Iterable[object]) -> None:
        """Watches the results."""
        for leaf in results:
            raw = raw_of(leaf)
            if raw is not None and not any(raw is operand for operand in raws_in(given)):
                self._watch(node, raw, _mask(leaf))

    def _watch(self, node: Node, raw: RawTensor, mask: np.ndarray | None, place: str = "", steps: int = 0) -> None:
        def see(gradient: object) -> None:
            magnitude = backend_of_raw(gradient).magnitude_raw(gradient, mask)
            self.add(node, magnitude, place, steps, first=node.kind == "op")

        backend_of_raw(raw).watch_gradient_raw(raw, see)

    # -- loops

    def watched(self, fn: Callable[..., Any], seen: Mapping[int, Any], run: MeasuredLoop) -> Callable[..., object]:
        """The function of a raw call in the steps of a loop, whose results are watched."""
        steps = 0

        def call(*args: object, **kwargs: object) -> object:
            nonlocal steps
            result = fn(*args, **kwargs)
            for position, (node, sig, lengths) in seen.items():
                raw = result if position < 0 else result[position]
                self._watch_step(node, raw, sig, lengths, run, steps)
            steps += 1
            return result

        return call

    def _watch_step(self, node: Node, raw: RawTensor, sig: Sig, lengths: Lengths, run: Any, step: int) -> None:
        def see(gradient: object) -> None:
            mask = frames_of(sig.dims, lengths) & going_on_mask(sig.dims, run.size, step)
            self.add(node, backend_of_raw(gradient).magnitude_raw(gradient, mask), "steps", run.steps)

        backend_of_raw(raw).watch_gradient_raw(raw, see)

    def hoisted(
        self, node: Node, place: str, fn: Callable[[], object], alone: Callable[[], object], run: MeasuredLoop
    ) -> object:
        """Calls `fn`, which computes an op outside of the steps, and watches its results."""
        result = fn()
        for leaf in leaves(result):
            if isinstance(leaf, Tensor):
                self._watch(node, leaf._raw, all_steps_mask(leaf, run), place, run.steps)
        return result

    def done(self, result: object) -> None:
        """Computes the gradients. Those of parameters are not kept. Raises ParameterError if there is no loss."""
        outputs = result if self._loss is None else self._loss(result)
        outputs = dict(outputs) if isinstance(outputs, Mapping) else outputs  # the outputs of a network, by layer
        tensors = [leaf for leaf in leaves(as_dicts(outputs)) if raw_of(leaf) is not None]
        losses = [raw for leaf in tensors if (raw := _summed(leaf)) is not None]
        if not losses:
            name = "result" if self._loss is None else "loss"
            if not tensors:
                reason = f"the {name} holds no tensor: {type(outputs).__name__}"
            elif not selected().grad_enabled_raw():
                reason = "gradients are switched off"
            else:
                reason = f"no tensor of the {name} depends on a trained parameter with gradients on"
            raise ParameterError(
                f"model_graph: no gradients flow to the {name}",
                got=reason,
                hint="call it with gradients on, and a result or loss=… that depends on a parameter",
            )
        backend = backend_of_raw(losses[0])
        try:
            backend.follow_gradients_raw(losses, backend.gradient_leaves_raw(losses))
        except RuntimeError as error:
            raise BackendError("model_graph: the backward pass of this call fails", got=str(error)) from error


def _summed(leaf: object) -> object:
    """A tensor without its padding, whose sum is the loss; None without gradients."""
    raw = raw_of(leaf)
    if raw is None or not backend_of_raw(raw).needs_gradient_raw(raw):
        return None
    return backend_of_raw(raw).fill_padding(leaf, 0) if isinstance(leaf, Tensor) else raw


def all_steps_mask(x: Tensor, run: MeasuredLoop) -> np.ndarray | None:
    """Which entries count of a value that was computed for all steps together."""
    mask = frames(x)
    if run.frames is not None and run.size is not None and run.frames in x.sig.index:
        shape = [1] * len(x.dims)
        shape[x.axis(run.frames)] = -1
        mask = mask & going_on_mask(x.dims, run.size, np.arange(run.steps).reshape(shape))
    return None if mask.all() else mask
