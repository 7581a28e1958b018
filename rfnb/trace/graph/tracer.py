"""The listener that records a call of a model, and copies the traced bodies of its loops into the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.call_recorder import CallRecorder, ModuleTable, below
from rfnb.core.graph.graph import BodyGraph, LoopFacts, LoopState, Node, SideFacts, Value, ValueKind, all_nodes
from rfnb.core.graph.meter import Meter
from rfnb.core.graph.model_graph import title
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.scope import inside_module
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.record.record import LoopRecord, OpCall
from rfnb.trace.record.traced import Traced

WITH_BODY = ("module", "cond", "side")
"""Kinds of nodes whose body is drawn. The ops inside an op are not."""


class LoopDrawer:
    """Draws the loops of a call. Inner loops are kept until the body around them is drawn."""

    def __init__(self, tracer: ModelTracer):
        self.tracer = tracer
        self.inner: dict[int, Node] = {}  # loops that are not yet part of a body, by the id of their own body
        self.failed: list[Node] = []  # inner loops that failed: the body around them does not contain them
        self.failed_at: Node | None = None
        self.nodes: dict[int, Node] = {}  # by id of the original node of a recorder
        self.numbers: dict[tuple[int, int], int] = {}  # by id of the graph, and number in it
        self._alive: list[BodyGraph] = []  # so that no id is reused

    def draw(self, record: LoopRecord) -> Node:
        """Adds a node for the loop to the body that is open, or keeps it for the body of the outer loop; returns it."""
        self._alive.append(record.recorder.graph)
        at = record.source
        node = Node(0, "Loop", (), (), self.tracer.inside[-1][0], at, at, kind="loop", name=record.name)
        if not record.around:
            self.tracer.inside[-1][1].append(node)
        elif not record.error:
            self.inner[id(record.recorder.graph.nodes)] = node
        body = _DrawnBody(self, record)
        node.body[:] = body.nodes()
        facts = node.facts = body.facts(node)
        sources = [state.initial for state in facts.states] + [source for source, _ in facts.unstacked]
        node.inputs = tuple(dict.fromkeys(number for number in (*sources, *body.read) if number is not None))
        node.outputs = tuple(dict.fromkeys(body.out))
        if record.error:
            if record.around:
                self.failed.append(node)
            self.failed_at = self.failed_at or self.nodes.get(id(record.failed)) or body.unfinished() or node
        return node

    def number(self, traced: Traced) -> int:
        """The number of a value of a body in the graph of the call; adds the value if it is new."""
        key = id(traced.recorder.graph), traced.value.number
        number = self.numbers.get(key)
        if number is None:
            value = self.tracer.add_value(traced)
            value.name = traced.value.name
            number = self.numbers[key] = value.number
        return number


class _DrawnBody:
    """The body of a loop while it is drawn. read: numbers of the outer values it uses. out: numbers of its results."""

    def __init__(self, drawer: LoopDrawer, record: LoopRecord):
        self._drawer, self._tracer, self._record = drawer, drawer.tracer, record
        recorder = record.recorder
        self.read: list[int] = []
        self.out: list[int] = []
        self._own = id(recorder.graph)
        self._calls: dict[int, OpCall] = {id(call.node): call for call in recorder.all_op_calls()}
        self._loops_own = {id(call.node) for call in recorder.op_calls[record.own_ops :]}
        self._traced = {traced.value.number: traced for traced in (*recorder.traced(), *recorder.traced_in_branches())}

    # -- nodes

    def nodes(self) -> list[Node]:
        """Copies of the nodes of the user's code."""
        top = self._tracer.inside[-1][0]
        nodes = list(self._copies(self._record.recorder.graph.nodes, top))
        if self._record.error:
            _last_open(nodes).extend(self._drawer.failed)
            self._drawer.failed.clear()
        for traced in self._traced.values():
            number = self._drawer.numbers.get((self._own, traced.value.number))
            if number is not None and traced.value.node is not None:
                value = self._tracer.graph.values[number]
                value.node = self._drawer.nodes.get(id(traced.value.node))
                value.output = max(traced.value.output, 0)
        return nodes

    def _copies(self, nodes: Iterable[Node], path: str) -> Iterator[Node]:
        return (self._copy(n, path) for n in nodes if id(n) not in self._loops_own and n.kind != "state")

    def _copy(self, node: Node, path: str) -> Node:
        copy = self._drawer.inner.pop(id(node.body), None)
        if copy is None:
            inputs, facts = self._inputs(node), node.facts
            copy = Node(0, node.op, inputs, source=node.source, at=node.at, kind=node.kind, facts=facts)
        copy.path = path
        self._drawer.nodes[id(node)] = copy
        if node.module is not None:
            copy.name = below(node.module.path, path)
        if node.kind in WITH_BODY:
            copy.body[:] = self._copies(node.body, path if node.module is None else node.module.path)
        else:
            for inner in all_nodes(node.body):
                self._drawer.nodes.setdefault(id(inner), copy)  # those of an inner loop have copies of their own
        copy.outputs = tuple(self._drawer.number(self._traced[number]) for number in node.outputs)
        return copy

    def _inputs(self, node: Node) -> tuple[int, ...]:
        call = self._calls.get(id(node))
        if call is not None:
            return tuple(dict.fromkeys(self.value(tensor) for tensor in call.given))
        return tuple(self._drawer.number(self._traced[number]) for number in node.inputs)

    def unfinished(self) -> Node | None:
        """The node at which the body stopped: the op, or the node around it if that op completed."""
        nodes, outer = self._record.recorder.graph.nodes, None
        while nodes:
            node = nodes[-1]
            if node.kind not in WITH_BODY:
                return outer if id(node) in self._calls or node.outputs else self._drawer.nodes.get(id(node))
            if node.outputs:
                break
            nodes, outer = node.body, self._drawer.nodes.get(id(node))
        return outer

    # -- values

    def value(self, tensor: Tensor) -> int:
        """The number of a value of this body, of an outer body, or from outside of all loops."""
        recorders = (self._record.recorder, *self._record.around)
        matches = (recorder.of_plain(tensor) for recorder in recorders)
        traced = tensor if isinstance(tensor, Traced) else next((entry for entry in matches if entry is not None), None)
        number = self._tracer.number_of(tensor) if traced is None else self._drawer.number(traced)
        if traced is None or id(traced.recorder.graph) != self._own:
            self.read.append(number)
        return number

    def _result(self, tensor: Tensor, node: Node, name: str) -> int:
        number = self._drawer.number(tensor) if isinstance(tensor, Traced) else self._tracer.number_of(tensor, "", name)
        value = self._tracer.graph.values[number]
        if value.node is None and not value.kind:
            value.node, value.output, value.name = node, len(self.out), value.name or name
        self.out.append(number)
        return number

    def facts(self, node: Node) -> LoopFacts:
        """The facts about the loop: its states, inputs and results."""
        record = self._record
        size = record.size or (record.axis.size if record.axis is not None and record.axis.is_defined() else None)
        states = tuple(self._state(name, node) for name in record.before)
        for source, frame in record.unstacked:
            self._frame(source, frame)
        return LoopFacts(
            record.name,
            record.axis,
            size,
            states,
            unstacked=tuple((self.value(source), self.value(frame)) for source, frame in record.unstacked),
            stacked=tuple((self.value(value), self._result(out, node, out.name)) for value, out in record.stacked),
            lasts=tuple((self.value(value), self._result(out, node, out.name)) for value, out in record.lasts),
            end=None if record.end is None else self.value(record.end),
            include_eos=record.include_eos,
        )

    def _frame(self, source: Tensor, frame: Tensor) -> None:
        value = self._tracer.graph.values[self.value(frame)]
        value.kind = "frame"
        if value.node is not None:
            value.node.inputs = (self.value(source),)

    def _state(self, name: str, node: Node) -> LoopState:
        record = self._record
        before, final = record.before[name], record.final.get(name)
        if isinstance(before, Dim):
            return LoopState(name, dim=before)
        number = self.value(before)
        value = self._tracer.graph.values[number]
        value.kind, value.name = "state", name
        after, initial = record.after.get(name), record.initial.get(name)
        return LoopState(
            name,
            self.value(initial) if isinstance(initial, Tensor) else None,
            number,
            self.value(after) if isinstance(after, Tensor) and after is not before else None,
            self._result(final, node, name) if isinstance(final, Tensor) else None,
        )


def _last_open(nodes: list[Node]) -> list[Node]:
    """The innermost body that was open when an error occurred."""
    while nodes and nodes[-1].body and not nodes[-1].outputs and nodes[-1].kind in WITH_BODY:
        nodes = nodes[-1].body
    return nodes


class ModelTracer(CallRecorder, Listener):
    """Records the ops, modules and loops of a call. assigned: called with each parameter before it is changed."""

    tensor_type = Tensor

    def __init__(
        self, model: object, modules: ModuleTable, assigned: Callable[[Parameter], None], meter: Meter | None = None
    ):
        super().__init__(model, modules, meter)
        self.takes_kernels = self.meter.times
        self._assigned = assigned
        self._loops = LoopDrawer(self)

    def add_value(self, tensor: Tensor) -> Value:
        """Adds a value to the graph, with the dims of `tensor` and their sizes."""
        value = self.graph.add_value("", tensor.dims, tensor.sparse_dim)
        value.dtype = tensor.dtype
        value.sizes = tuple([tensor.lengths.size(dim) for dim in tensor.dims])
        return value

    def number_of(self, tensor: Tensor, kind: ValueKind = "constant", name: str = "") -> int:
        """The number of a value. Constants are named by their number or the tensor's name, parameters by their path."""
        if kind == "constant" and not isinstance(tensor, Parameter):
            name = _number(tensor) or tensor.name
        return super().number_of(tensor, kind, name)

    def here(self) -> Source | None:
        """The current line of the user's code."""
        return user_source()

    def fail(self, error: BaseException, node: Node | None) -> Node | None:
        """Marks the node that failed and those around it; for an error in a loop, the node found by the loop."""
        at, self._loops.failed_at = self._loops.failed_at, None
        return super().fail(error, at or node)

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Runs an op and records it, with the ops inside it as its body."""
        with self._apart():
            node = self.begin(row.name, self.numbers(args, kwargs))
            node.name = _name_of_call(row, args, kwargs)
            if row.effect and args and isinstance(args[0], Parameter):
                self._assigned(args[0])
            for leaf in leaves([args, kwargs]) if self.takes_kernels else ():
                if isinstance(leaf, Parameter) and leaf.auxiliary:  # a kernel may change running statistics
                    self._assigned(leaf)
            with self.open(node):
                result = row.fn(*args, **kwargs)
            self.made(node, result, (args, kwargs))
        return result

    def call_module(
        self, module: object, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Runs a module and records it, with its ops and modules as its body."""
        with self._apart():
            node = self.begin_module(module, self.numbers(args, kwargs))
            if node is not None:
                with inside_module(node.op), self.open(node):
                    result = forward(module, *args, **kwargs)
                self.made(node, result, (args, kwargs))
                return result
        return forward(module, *args, **kwargs)

    def cond(self, pred: Tensor, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> object:
        """Runs the side of a branch that is taken, and records the other as a ghost; without numbers, runs both."""
        with self._apart():
            node = self.begin("cond", self.numbers(pred), "cond")
            with self.open(node):
                is_meta = pred.device == "meta"
                holds = is_meta or bool(pred)
                results = [
                    self._side(SideFacts(when=True, taken=holds), true_fn),
                    self._side(SideFacts(when=False, taken=is_meta or not holds), false_fn),
                ]
            result = results[0 if holds else 1]
            self.made(node, result)
        return result

    def _side(self, facts: SideFacts, fn: Callable[[], object]) -> object:
        with self._apart():
            side = self.begin(facts.name, (), "side", facts)
            if not facts.taken:
                return None
            count = len(self.graph.values)
            with self.open(side):
                result = fn()
            self.made(side, result)
            side.inputs = tuple(number for number in side.outputs if number < count)
        return result

    def attention(
        self, query: Tensor, keys: Tensor, values: Tensor, *, result: Tensor, bias: Tensor | None, **_: object
    ) -> None:
        """Records attention that a kernel has just computed, as an op."""
        seconds = self.meter.since()
        with self._apart():
            node = self.begin("dot_attention", self.numbers(query, keys, values, bias))
            sample = self.meter.sample(node)
            sample.amount, sample.calls = seconds, 1
            self.made(node, [result], (query, keys, values))

    def loop(self, record: LoopRecord) -> None:
        """Adds a node for a loop that has finished or failed, with one step as its body."""
        node = self._loops.draw(record)
        measured = record.recorder.measured
        if measured is None:
            return
        measured.size = record.size
        if self.meter.times and not record.around:
            sample = self.meter.sample(node)
            sample.amount, sample.calls = self.meter.stopped() - measured.began, 1

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Inside, the recorder works, and `open` the model."""
        self.meter.pause()
        try:
            yield
        finally:
            self.meter.resume()

    def measured(self) -> None:
        """Gives the nodes of the graph what was measured in the steps of loops. Called at the end."""
        self.meter.moved(self._loops.nodes)


FULL: dict[int | float, str] = {0: "zeros", 1: "ones"}
"""Names of `full` for common fill values."""


def _name_of_call(row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """A more specific name than the op: `zeros` for `full`, or the function that `raw_call` calls; else ""."""
    fill = kwargs.get("fill_value")
    if row.name == "full" and isinstance(fill, int | float):
        return FULL.get(fill, "")
    return title(args[0]) if row.name == "raw_call" and args else ""


def _number(tensor: Tensor) -> str:
    """The number in a scalar on the CPU, as text; "" for all other tensors."""
    return f"{tensor.raw_tensor.item():g}" if not tensor.dims and tensor.device == "cpu" else ""
