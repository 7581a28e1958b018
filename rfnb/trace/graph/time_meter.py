"""Measures how long the nodes of a call take, without the time of the recorder and of the measuring itself."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import Meter
from rfnb.core.ground import raw as raw_registry

EVENTS = 300
"""How many empty events are timed to know what an event costs."""


class TimeMeter(Meter):
    """A clock that stands still while the recorder works.

    A GPU is waited for at the end of each node, so the time of a node includes its kernels.

    event, call: the seconds that the clock cannot see of an event of the recorder, and of a raw call in a step; known
    from empty ones. lost: the seconds that the clock stood still.
    """

    times = True

    def __init__(self, event: float = 0.0, call: tuple[float, float] = (0.0, 0.0)):
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
        self.lost += now - self._paused + self.event
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
        sample.amount += max(self._paused - self.lost - self._began.pop(), 0.0)
        sample.calls += 1

    # -- loops

    def timed(self, fn: Callable[..., Any], node: Node) -> Callable[..., Any]:
        """The function of a raw call in the steps of a loop; its time is added to that of `node`."""
        sample, wait, (around, inside) = self.sample(node), self._wait, self.call
        calls, sample.place = 0, sample.place or "steps"

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            began = perf_counter() - self.lost
            result = fn(*args, **kwargs)
            if wait is not None:
                wait()
            sample.amount += max(perf_counter() - self.lost - began - inside, 0.0)
            calls += 1
            sample.calls = max(sample.calls, calls)  # an op may make several raw calls
            self.lost += around
            return result

        return run

    def hoisted(self, node: Node, place: str, fn: Callable[[], Any], alone: Callable[[], Any], run: Any) -> Any:
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


def call_costs() -> tuple[float, float]:
    """What measuring a raw call costs, in seconds: around its own window, and within it."""
    meter, node = TimeMeter(), Node(0, "", ())
    plain = min(_many(_nothing) for _ in range(5))
    timed = meter.timed(_nothing, node)
    seen = min(_many(timed) for _ in range(5))
    sample = meter.samples[id(node)]
    return max(seen - plain, 0.0), max(min(sample.amount / sample.calls, seen) - plain, 0.0)


def event_cost(run: Callable[[Callable[[Any], None], TimeMeter | None], None]) -> float:
    """What the clock does not see of an event of the recorder, in seconds.

    run: calls a function of a tensor with the recorder that is given a meter, or without a recorder.
    """

    def seconds(meter: TimeMeter | None) -> float:
        took: list[float] = []

        def many(x: Any) -> None:
            now = perf_counter if meter is None else meter.now
            began = now()
            for _ in range(EVENTS):
                abs(x)
            took.append(now() - began)

        run(many, meter)
        return took[0]

    seconds(None)
    plain = min(seconds(None) for _ in range(3))
    return max(min(seconds(TimeMeter()) for _ in range(3)) - plain, 0.0) / EVENTS


def _nothing(x: Any = None) -> Any:
    return x


def _many(fn: Callable[..., Any]) -> float:
    began = perf_counter()
    for _ in range(EVENTS):
        fn(None)
    return (perf_counter() - began) / EVENTS
