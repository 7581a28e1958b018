"""Copies the traced body of a loop into the graph of a call, in which all bodies share one numbering of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.call_recorder import below
from rfnb.core.graph.graph import BodyGraph, LoopFacts, LoopState, Node, all_nodes
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.record.loop_record import LoopRecord
from rfnb.trace.record.op_call import OpCall
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.trace.graph.tracer import Tracer

WITH_BODY = ("module", "cond", "side")
"""Kinds of nodes whose body is drawn. The ops inside an op are not."""


class LoopDrawer:
    """Draws the loops of a call. Inner loops are kept until the body around them is drawn."""

    def __init__(self, tracer: Tracer):
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
        for node in nodes:
            if id(node) not in self._loops_own and node.kind != "state":
                yield self._copy(node, path)

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
            last = nodes[-1]
            if last.kind not in WITH_BODY:
                return outer if id(last) in self._calls or last.outputs else self._drawer.nodes.get(id(last))
            if last.outputs:
                break
            nodes, outer = last.body, self._drawer.nodes.get(id(last))
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
