"""Measures the nodes of a model's graph over several calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, get_args

from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import SUMMED, Bad, Meter, NodeMeasure, NodeMeasures, Sample, Show
from rfnb.core.graph.model_graph import ModelGraph
from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError
from rfnb.ops.random import random
from rfnb.trace.graph.time_meter import Cost, TimeMeter, call_cost
from rfnb.trace.graph.unchanged import Unchanged
from rfnb.trace.graph.value_meters import ActivationMeter, GradientMeter, MemoryMeter


@dataclass(frozen=True)
class Wanted:
    """What to measure. calls: over how many calls. loss: a function of the result, for gradients."""

    show: Show
    calls: int
    loss: Callable[[Any], Any] | None

    def check(self, *, meta: bool) -> None:
        """Raises ParameterError for what cannot be measured."""
        options = get_args(Show)
        if self.show not in options:
            expected = " or ".join(f'"{option}"' for option in options)
            raise ParameterError("model_graph: `show` is not known", got=repr(self.show), expected=expected)
        if isinstance(self.calls, bool) or not isinstance(self.calls, int) or self.calls < 1:
            raise ParameterError("model_graph: `calls` must be positive", got=repr(self.calls), expected="1, 2, 3, …")
        if self.loss is not None and (self.show != "gradient" or not callable(self.loss)):
            raise ParameterError(
                "model_graph: `loss` is a function of the result, for gradients",
                got=f"show={self.show!r}, loss={type(self.loss).__name__}",
                hint="show='gradient', loss=lambda result: …; a model's own argument of this name: call it in a lambda",
            )
        if meta:
            raise ParameterError(f"model_graph: nothing can be measured on meta: show={self.show!r}", hint="meta=False")


def measured(
    wanted: Wanted, trace: Callable[[Meter], ModelGraph], plain: Callable[[], float], event: Callable[[], Cost]
) -> ModelGraph:
    """The graph of a call, with what was measured over all calls.

    trace: traces a call. plain: calls the model without recording it; returns the seconds. event: what an event of the
    recorder costs.
    """
    times, calls = wanted.show == "time", _Calls()
    with Unchanged():
        costs = (event(), call_cost()) if times else ((0.0, 0.0), (0.0, 0.0))
        first = trace(calls.meter(_meter(wanted, costs)))
        calls.take(first, first)
        if times and first.failure is None:
            calls = _Calls()  # that call has warmed up what the others measure
        while len(calls.meters) < wanted.calls and first.failure is None:
            random([], distribution="normal")  # so that the next call draws other numbers
            calls.take(trace(calls.meter(_meter(wanted, costs))), first)
        plains = [plain() for _ in range(wanted.calls)] if times and first.failure is None else []
    loss = "the sum of the result" if wanted.loss is None else name_of(wanted.loss)
    first.measured = NodeMeasures(
        wanted.show,
        max(len(calls.samples), 1),
        _measures(first, calls.samples, wanted.show),
        total=median(meter.total for meter in calls.meters),
        overhead=median(meter.lost for meter in calls.meters),
        plain=median(plains) if plains else None,
        device=raw_registry.selected().synchronize(),
        first_bad=calls.first_bad,
        loss=loss if wanted.show == "gradient" else "",
        notes=tuple(calls.notes),
    )
    return first


class _Calls:
    """What was measured in each call.

    samples: by number of the node. first_bad: the number of the node that made the first NaN or infinity.
    """

    def __init__(self) -> None:
        self.meters: list[Meter] = []
        self.samples: list[dict[int, Sample]] = []
        self.first_bad: int | None = None
        self.notes: list[str] = []

    def meter(self, meter: Meter) -> Meter:
        """The meter of the next call."""
        self.meters.append(meter)
        return meter

    def take(self, graph: ModelGraph, first: ModelGraph) -> None:
        """Takes what the last meter has found in a call with this graph; `first` is that of the first call."""
        meter, nodes = self.meters[-1], graph.graph.all_nodes()
        if _shape(graph) != _shape(first):
            self.notes.append(f"call {len(self.meters)} ran other ops than the first, and does not count")
            return
        self.samples.append({node.number: meter.samples[id(node)] for node in nodes if id(node) in meter.samples})
        if self.first_bad is None and meter.first_bad is not None:
            self.first_bad = meter.first_bad.number


def name_of(loss: Callable[[Any], Any]) -> str:
    """What a loss is called."""
    return "loss" if getattr(loss, "__name__", "<").startswith("<") else loss.__name__


def _meter(wanted: Wanted, costs: tuple[Cost, Cost]) -> Meter:
    if wanted.show == "time":
        return TimeMeter(*costs)
    if wanted.show == "gradient":
        return GradientMeter(wanted.loss)
    return MemoryMeter() if wanted.show == "memory" else ActivationMeter()


def _shape(graph: ModelGraph) -> list[Any]:
    return [(node.op, node.kind, node.path, len(node.body)) for node in graph.graph.all_nodes()]


# -- one number for each node


def _measures(graph: ModelGraph, calls: list[dict[int, Sample]], show: Show) -> dict[int, NodeMeasure]:
    """The measures of all nodes with samples, or with such nodes inside."""
    measures: dict[int, NodeMeasure] = {}
    for node in reversed(graph.graph.all_nodes()):  # inner ones first
        children = [measures[child.number] for child in node.body if child.number in measures]
        samples = [call[node.number] for call in calls if node.number in call]
        measure = _measure(node, samples, children, show)
        if measure is not None:
            measures[node.number] = measure
    return measures


def _measure(node: Node, samples: list[Sample], inside: list[NodeMeasure], show: Show) -> NodeMeasure | None:
    if not samples and not inside:
        return None
    inner = {child.place for child in inside}
    place = next((s.place for s in samples if s.place), inner.pop() if len(inner) == 1 and node.kind != "loop" else "")
    ran = median(sample.calls for sample in samples) if samples else max(child.calls for child in inside)
    saved = [child.saved for child in inside if child.saved is not None]
    if show not in SUMMED:  # the largest number
        count = sum(sample.count for sample in samples)
        amount = (sum(sample.amount for sample in samples) / count) ** 0.5 if count else 0.0
        bad: list[Bad] = [word for word in (*(s.bad for s in samples), *(child.bad for child in inside)) if word]
        return NodeMeasure(
            max([amount, *(child.amount for child in inside)]), ran,
            max([*(sample.most for sample in samples), *(child.most for child in inside)]),
            "NaN" if "NaN" in bad else bad[0] if bad else "", place,
        )  # fmt: skip
    amount = median(sample.amount for sample in samples) if samples else 0.0
    if show == "memory" or not samples or (node.kind in ("module", "side") and place):
        amount += sum(child.amount for child in inside)
    savings = [s.alone * s.steps - s.amount for s in samples if s.alone is not None and s.place]
    saved += [median(savings)] if savings else []
    return NodeMeasure(amount, ran, place=place, saved=sum(saved) if saved else None)


# -- a call that is not recorded


class Restorer(Listener):
    """Sees only which parameters a call changes, so that they are restored."""

    takes_kernels = True

    def __init__(self, assigned: Callable[[Parameter], None]):
        self._assigned = assigned

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes an op."""
        for leaf in (*args, *kwargs.values()):
            if isinstance(leaf, Parameter) and (leaf.auxiliary or row.effect):
                self._assigned(leaf)
        return row.fn(*args, **kwargs)


def plain_seconds(call: Callable[[], Any], keep: Callable[[Unchanged], Any]) -> float:
    """The seconds of a call that is not recorded. keep: tells the block what to restore after it."""
    with Unchanged() as before:
        keep(before)
        wait = raw_registry.selected().synchronize
        wait()
        with listening(Restorer(before.keep)):
            began = perf_counter()
            call()
            wait()
            return perf_counter() - began
