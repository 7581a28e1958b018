"""`rf.model_graph` runs a model once and returns the graph of this call, without tensors.

>>> feat, out = rf.Dim(4, name="feat"), rf.Dim(3, name="out")
>>> model = rf.Sequential(rf.Linear(feat, out), rf.relu)
>>> graph = rf.model_graph(model, rf.zeros([rf.Dim(2, name="batch"), feat]))
>>> for depth, node in graph.walk():
...     print("  " * depth, node.number, node.op, node.name, node.inputs, node.outputs)
 0 Linear 0 (0,) (3,)
   1 linear  (0, 1, 2) (3,)
 2 Functional 1 (3,) (4,)
   3 relu  (3,) (4,)
>>> [(value.number, value.kind, value.name or value.path, value.describe_dims()) for value in graph.values[:2]]
[(0, 'input', 'inp', '{batch:2, feat:4}'), (1, 'parameter', '0.weight', '{feat:4, out:3}')]
>>> graph.outputs, graph.nodes[0].module.path, graph.failure
((('output', 4),), '0', None)

How to read a graph (the classes are in `core.graph.graph`):

* `graph.values[number]` is a Value. `value.node` is the innermost node that computed it; in a folded picture, the value
  comes from the outermost folded box around that node. All bodies share one numbering, including those of loops, so a
  node in a body can refer to outer values directly. A node can have no outputs, or return one of its inputs (a module
  that does nothing). The inputs of a box are the inputs of all nodes in it that are computed outside of it.
* `node.kind` is the kind of a node, and `node.facts` has further facts. A "module" has `node.module` (ModuleFacts). A
  "loop" has `node.loop` (LoopFacts) and one step as its body. A "cond" has two nodes of kind "side" as its body
  (SideFacts); the side that was not taken is a `ghost`.
* Nodes with the same `graph.form_of(node)` (not 0) are repeated blocks: they differ in their parameters only.
* After a failed call, `graph.failure.node` is the number of the node that failed; this node and those around it have
  no outputs. `graph.unused` lists the modules that were not called.
"""

from __future__ import annotations

import random as random_of_python
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import chain
from statistics import median
from time import perf_counter
from typing import Any, get_args

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.call_recorder import ModuleTable, is_module
from rfnb.core.graph.graph import Node, name_graph
from rfnb.core.graph.meter import SUMMED, Bad, Meter, NodeMeasure, NodeMeasures, Sample, Show
from rfnb.core.graph.model_graph import ModelGraph, argument_names, failure, owner, title
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import set_default_device_ctx
from rfnb.core.ground.hook import TraceCall, drop_numbers, keep_state, trace_call
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.ground.scope import metering, modules_described_by
from rfnb.core.ground.source import user_source
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import as_dicts, copied_with
from rfnb.errors import ParameterError
from rfnb.ops.create import zeros
from rfnb.ops.random import random
from rfnb.trace.graph.meters import (
    ActivationMeter,
    Cost,
    GradientMeter,
    MemoryMeter,
    TimeMeter,
    call_cost,
    event_cost,
    raw_of,
)
from rfnb.trace.graph.tracer import ModelTracer
from rfnb.trace.run.session import drawing_to


class Unchanged(ExitStack):
    """A block after which random generators and kept parameters have their previous state."""

    def __enter__(self) -> Unchanged:
        backend = backends.selected()
        self.callback(backend.set_random_state, backend.get_random_state())
        self.callback(random_of_python.setstate, random_of_python.getstate())
        self.callback(np.random.set_state, np.random.get_state())
        self._kept: set[int] = set()
        super().__enter__()
        return self

    def keep(self, parameter: Parameter) -> None:
        """Restores a parameter at the end of the block; to be called before it is changed in place."""
        backend, raw = backend_of_raw(parameter._raw), parameter._raw
        if id(parameter) not in self._kept:
            self._kept.add(id(parameter))
            self.callback(backend.overwrite_raw, raw, backend.snapshot_raw(raw))

    def keep_held(self, models: Iterable[object]) -> None:
        """Restores the state of foreign modules that these models contain, such as those of torch."""
        for part in _held_by(models):
            for keep in keep_state.of(type(part)):
                keep(part, self)

    def without_numbers(self, models: Iterable[object], structure: object) -> Any:
        """Returns the given structure with tensors on the device "meta". Until the end of the block, the tensors of
        modules among `models` are there too.
        """
        self.enter_context(set_default_device_ctx("meta"))
        for tensor in _tensors_of(models):
            self.callback(setattr, tensor, "_raw", tensor._raw)
            tensor._raw = backend_of_raw(tensor._raw).without_numbers_raw(tensor._raw)
        for part in _held_by(models):
            for drop in drop_numbers.of(type(part)):
                drop(part, self)
        return copied_with(_without_numbers, structure)


def _without_numbers(leaf: object) -> object:
    if not isinstance(leaf, Tensor):
        return leaf
    twin = leaf.like(backend_of_raw(leaf._raw).without_numbers_raw(leaf._raw))
    return twin.with_name(leaf.name)


def _tensors_of(models: Iterable[object]) -> Iterator[Tensor]:
    """All tensors that are attributes of these modules or of modules inside them, such as parameters."""
    ids: set[int] = set()
    for leaf in _held_by(models):
        if isinstance(leaf, Tensor) and leaf.raw_tensor is not None and id(leaf) not in ids:
            ids.add(id(leaf))
            yield leaf


def _held_by(models: Iterable[Any]) -> Iterator[object]:
    """What is in the attributes of these modules and of modules inside them."""
    for module in chain.from_iterable(model.modules() for model in models if is_module(model)):
        yield from leaves(dict(vars(module)))


@dataclass(frozen=True)
class Wanted:
    """What to measure. calls: over how many calls. loss: a function of the result, for gradients."""

    show: Show
    calls: int
    loss: Callable[[Any], object] | None

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
    request: Wanted, trace: Callable[[Meter], ModelGraph], plain: Callable[[], float], event: Callable[[], Cost]
) -> ModelGraph:
    """The graph of a call, with what was measured over all calls.

    trace: traces a call. plain: calls the model without recording it; returns the seconds. event: what an event of the
    recorder costs.
    """
    times, calls = request.show == "time", _Calls()
    with Unchanged():
        costs = (event(), call_cost()) if times else ((0.0, 0.0), (0.0, 0.0))
        graph = trace(calls.meter(_meter(request, costs)))
        calls.take(graph, graph)
        if times and graph.failure is None:
            calls = _Calls()  # that call has warmed up what the others measure
        while len(calls.meters) < request.calls and graph.failure is None:
            random([], distribution="normal")  # so that the next call draws other numbers
            calls.take(trace(calls.meter(_meter(request, costs))), graph)
        plains = [plain() for _ in range(request.calls)] if times and graph.failure is None else []
    loss = "the sum of the result" if request.loss is None else name_of(request.loss)
    nodes = _measures(graph, calls.samples, request.show)
    inside = sum(nodes[node.number].amount for node in graph.nodes if node.number in nodes) if times else 0.0
    graph.measured = NodeMeasures(
        request.show,
        max(len(calls.samples), 1),
        nodes,
        total=max(median(meter.total for meter in calls.meters), inside),  # less only as the overhead is an estimate
        overhead=median(meter.lost for meter in calls.meters),
        plain=median(plains) if plains else None,
        device=backends.selected().synchronize(),
        first_bad=calls.first_bad,
        loss=loss if request.show == "gradient" else "",
        notes=tuple(calls.notes),
    )
    return graph


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


def name_of(loss: Callable[[Any], object]) -> str:
    """What a loss is called."""
    return "loss" if getattr(loss, "__name__", "<").startswith("<") else loss.__name__


def _meter(request: Wanted, costs: tuple[Cost, Cost]) -> Meter:
    if request.show == "time":
        return TimeMeter(*costs)
    if request.show == "gradient":
        return GradientMeter(request.loss)
    return MemoryMeter() if request.show == "memory" else ActivationMeter()


def _shape(graph: ModelGraph) -> list[object]:
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

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Computes an op."""
        for leaf in (*args, *kwargs.values()):
            if isinstance(leaf, Parameter) and (leaf.auxiliary or row.effect):
                self._assigned(leaf)
        return row.fn(*args, **kwargs)


def plain_seconds(call: Callable[[], object], keep: Callable[[Unchanged], object]) -> float:
    """The seconds of a call that is not recorded. keep: tells the block what to restore after it."""
    with Unchanged() as block:
        keep(block)
        wait = backends.selected().synchronize
        wait()
        with listening(Restorer(block.keep)):
            began = perf_counter()
            call()
            wait()
            return perf_counter() - began


def model_graph(
    model: object,
    /,
    *args: object,
    meta: bool = False,
    show: Show | None = None,
    calls: int | None = None,
    loss: Callable[[Any], object] | None = None,
    **kwargs: object,
) -> ModelGraph:
    """Calls `model(*args, **kwargs)` once, and returns the graph of this call.

    The call has no lasting effects: random generators and running statistics are restored, and no tensor or run is
    kept. The current modes apply: gradients, and training or evaluation.

    >>> feat = rf.Dim(4, name="feat")
    >>> graph = rf.model_graph(lambda x: rf.exp(x) + x, rf.zeros([feat]))
    >>> [node.op for node in graph.nodes]
    ['exp', 'add']

    Args:
        model: a Module, a function, or a `torch.nn.Module` (whose inputs and outputs are plain tensors).
        meta: whether to compute without numbers, so that even a huge model takes no memory and no time: for the call,
            parameters and inputs are tensors on torch's device "meta". Code that depends on numbers, such as the `end`
            of a loop, fails.

        show: what is measured of each node, over several calls; the view of the graph shows it on each card and as a
            table. "time": seconds, without those that the measuring takes; on a GPU with its kernels. "memory": the
            bytes that results newly take. "activation", "gradient": the root mean square of the entries of results, or
            of the gradients by them; padding does not count.
        calls: how many calls are measured; 5 by default for "time", else 1. One more before these warms up "time".
        loss: the function of the result whose gradients are shown; by default the sum of the result.

    If the call fails, nothing is raised: the graph ends there, and `graph.failure` describes the error. Raises
    ParameterError for an unknown `show`, and for gradients that no parameter gets.

    >>> graph = rf.model_graph(lambda x: rf.exp(x) + x, rf.zeros([feat]), show="activation")
    >>> {graph.graph.all_nodes()[number].op: each.amount for number, each in sorted(graph.measured.nodes.items())}
    {'exp': 1.0, 'add': 1.0}
    """
    if show is None:
        options = {"calls": calls, "loss": loss}
        return graph_of_call(model, args, kwargs | {name: x for name, x in options.items() if x is not None}, meta=meta)
    return graph_of_call(model, args, kwargs, meta=meta, show=show, calls=calls, loss=loss)


def graph_of_call(
    model: Any,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    meta: bool = False,
    show: Show | None = None,
    calls: int | None = None,
    loss: Callable[[Any], object] | None = None,
) -> ModelGraph:
    """The graph of `model(*args, **kwargs)`, with the options of `rf.model_graph`."""
    request = None if show is None else Wanted(show, (5 if show == "time" else 1) if calls is None else calls, loss)
    if request is not None:
        request.check(meta=meta)
    trace = _tracer_of(model, args, kwargs)
    if trace is None:  # nothing in the call tells, so the first one does
        graph = _traced(model, args, kwargs, meta=meta)
        if graph.nodes and request is None:
            return graph
        trace = _traced if graph.nodes or graph.outputs else _plain
    if request is None:
        return trace(model, args, kwargs, meta=meta)

    def keep(before: Unchanged) -> None:
        objects = [model, *leaves(as_dicts([args, kwargs]))]
        for item in objects:
            for keep_its in keep_state.of(type(item)):
                keep_its(item, before)
        before.keep_held([owner(model), *objects])

    def call() -> object:
        with entered(get_run_ctx().again()):  # a loss of this step may be there already
            return model(*args, **kwargs)

    with ExitStack() as stack:
        return measured(
            request,
            lambda meter: trace(model, args, kwargs, meta=False, meter=meter, kept=stack),
            lambda: plain_seconds(call, keep),
            lambda: _event_cost(trace),
        )


def _event_cost(trace: TraceCall) -> Cost:
    """What measuring an event costs, with the recorder of such a call."""
    x = zeros([])
    operands = (x if trace is _traced else x.raw_tensor,)

    def run(fn: Callable[[Any], None], meter: Meter | None) -> None:
        if meter is None:
            fn(*operands)
        else:
            trace(fn, operands, {}, meta=False, meter=meter)

    return event_cost(run)


def _tracer_of(model: object, args: tuple[object, ...], kwargs: dict[str, object]) -> TraceCall | None:
    """The tracer of a model of rfnb or of torch, or of a function of such tensors; None if nothing shows which."""
    its = owner(model)
    for item in [its] if its is model else [*leaves(as_dicts([args, kwargs])), its]:
        if any(trace_call.of(type(item))):
            return _plain
        if isinstance(item, Tensor | Dim) or is_module(item):
            return _traced
    return None


def _plain(model: object, args: tuple[object, ...], kwargs: dict[str, Any], **how: Any) -> ModelGraph:
    """The graph of a call that computes with raw tensors."""
    trace = next(iter(trace_call.fns.values()))
    with Unchanged():
        return trace(model, args, kwargs, **how)


def _traced(
    model: Any,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    meta: bool,
    meter: Meter | None = None,
    **_: object,
) -> ModelGraph:
    """The graph of a call that computes with Tensors."""
    modules, its = ModuleTable(_own_parameters, _counted), owner(model)
    if its is not None:
        modules.add(its)
    block, call_site = Unchanged(), user_source()
    tracer = ModelTracer(its, modules, block.keep, meter)
    measuring = nullcontext() if meter is None else metering(meter)
    graph = ModelGraph(title(model), tracer.graph)
    failed: tuple[BaseException, Node | None] | None = None
    with block:
        try:
            inputs = leaves(as_dicts([args, kwargs]))
            block.keep_held([its, *inputs])
            if meta:
                args, kwargs = block.without_numbers([its, *inputs], (args, kwargs))
            graph.meta = meta or any(isinstance(leaf, Tensor) and leaf.device == "meta" for leaf in inputs)
            graph.inputs = tracer.given(argument_names(model, args, kwargs))
            marking = entered(get_run_ctx().again())  # a loss of this step may be there already
            with listening(tracer), drawing_to(tracer.loop), modules_described_by(modules.call), marking, measuring:
                result = tracer.meter.whole(lambda: model(*args, **kwargs))
            results = named_leaves(as_dicts(result))
            named = [(name, leaf) for name, leaf in results if isinstance(leaf, Tensor)]
            graph.outputs = tuple((_output_name(name, len(named)), tracer.number_of(leaf, "")) for name, leaf in named)
            if not named and any(raw_of(leaf) is not None for _, leaf in results):
                graph.notes.append("the result is a raw tensor: only ops of rfnb are followed here, up to `raw_tensor`")
        except Exception as error:
            failed = error, tracer.fail(error, None)
        else:
            tracer.meter.done(result)
    tracer.measured()
    graph.count, graph.unused = modules.count, modules.unused()
    name_graph(tracer.graph, call_site)
    if failed is not None:
        graph.failure = failure(*failed, meta=graph.meta)
    return graph


def _output_name(name: str, count: int) -> str:
    """The name of an output: parts of a tuple are numbered. `count` is the number of Tensors in the result."""
    return (f"output {name}" if count > 1 else "output") if name[:1].isdigit() else name or "output"


def _own_parameters(module: object) -> Iterator[tuple[str, Parameter]]:
    return ((name, value) for name, value in vars(module).items() if isinstance(value, Parameter))


def _counted(parameter: Parameter) -> tuple[int, bool]:
    return (0, False) if parameter.auxiliary else (parameter.num_elements(), bool(parameter.trainable))
