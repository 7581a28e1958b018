"""Measures how long the nodes of a call take, without the time of the recorder and of the measuring itself."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import MeasuredLoop, Meter
from rfnb.core.ground import raw as raw_registry

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
        self.device = raw_registry.selected().synchronize()
        self._wait = raw_registry.selected().synchronize if self.device != "cpu" else None
        self._paused = self._last = 0.0
        self._began: list[float] = []

    def now(self) -> float:
        """The time in seconds, without that of the measuring itself."""
        return perf_counter() - self.lost

    def whole(self, call: Callable[[], Any]) -> Any:
        """Calls the model, and measures the whole call."""
        self.lost, began = 0.0, perf_counter()
        self._last = began
        result = call()
        if self._wait is not None:
            self._wait()
        self.total = self.now() - began
        return result

    def stopped(self) -> float:
        """When `pause` was called, as by `now`."""
        return self._paused - self.lost

    def since(self) -> float:
        """The seconds since the last node ended, or the one that is running began."""
        if self._wait is not None:
            self._wait()
        return self.now() - self._last

    def pause(self) -> None:
        """The clock stops."""
        self._paused = perf_counter()

    def resume(self) -> None:
        """The clock goes on."""
        now = perf_counter()
        self.lost += now - self._paused + self.event[0]
        self._last = now - self.lost

    def enter(self, node: Node) -> None:
        """The work of a node begins."""
        self.sample(node)
        self.lost += perf_counter() - self._paused
        self._last = self.now()
        self._began.append(self._last)

    def exit(self, node: Node) -> None:
        """The work of a node ends."""
        if self._wait is not None:
            self._wait()
        self._paused = perf_counter()
        sample = self.sample(node)
        sample.amount += max(self._paused - self.lost - self._began.pop() - self.event[1], 0.0)
        sample.calls += 1

    # -- loops

    def timed(self, fn: Callable[..., Any], node: Node) -> Callable[..., Any]:
        """The function of a raw call in the steps of a loop; its time is added to that of `node`."""
        sample, wait, (outer, inner) = self.sample(node), self._wait, self.call
        calls, sample.place = 0, sample.place or "steps"

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            began = perf_counter() - self.lost
            result = fn(*args, **kwargs)
            if wait is not None:
                wait()
            sample.amount += max(perf_counter() - self.lost - began - inner, 0.0)
            calls += 1
            sample.calls = max(sample.calls, calls)  # an op may make several raw calls
            self.lost += outer
            return result

        return run

    def hoisted(
        self, node: Node, place: str, fn: Callable[[], Any], alone: Callable[[], Any], run: MeasuredLoop
    ) -> Any:
        """Calls `fn`, which computes an op outside of the steps, and measures how long one step would take."""
        sample, began = self.sample(node), self.now()
        result = fn()
        if self._wait is not None:
            self._wait()
        sample.amount += self.now() - began
        sample.calls, sample.place, sample.steps = sample.calls + 1, place, run.steps
        self.pause()
        try:
            sample.alone = min(self._seconds(alone) for _ in range(3))
        finally:
            self.resume()
        return result

    def _seconds(self, fn: Callable[[], Any]) -> float:
        began = perf_counter()
        fn()
        if self._wait is not None:
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
            now = perf_counter if meter is None else meter.now
            began = now()
            for _ in range(EVENTS):
                abs(x)
            took.append(now() - began)

        run(many, meter)
        inner = 0.0 if meter is None else sum(sample.amount for sample in meter.samples.values())
        return took[0] / EVENTS, inner / EVENTS

    seconds(None)
    plain = min(seconds(None)[0] for _ in range(3))
    total, inner = min(seconds(TimeMeter()) for _ in range(3))
    return max(total - plain, 0.0), min(max(inner - plain, 0.0), max(total - plain, 0.0))


def _nothing(x: Any = None) -> Any:
    return x


def _many(fn: Callable[..., Any]) -> float:
    began = perf_counter()
    for _ in range(EVENTS):
        fn(None)
    return (perf_counter() - began) / EVENTS
