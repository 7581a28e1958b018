"""Finds attention in the graph of a recorded loop, and computes the weights of all steps with a replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import BodyGraph, Node
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.shape import replace_dim_v2
from rfnb.trace.capture.attention_finder import SAME, SUMS, FoundAttention, OpPlace, found_of, query_dims, variable_of
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import by_hypothesis, over_steps


@dataclass(frozen=True)
class _InStep:
    """A value of the body that contains attention weights, their axis, and the dims of the queries."""

    number: int
    axis: Dim
    queries: list[Dim]
    place: OpPlace


def attention_of(run: Run, path: str | None, room: int) -> tuple[list[FoundAttention], list[str]]:
    """The attention in a run, with weights over all steps {axis, …}; and the names of attention that was left out.

    path: of the module that contains the loop; None if only modules called in the body count. room: the most bytes that
    the weights may use.
    """
    items: list[FoundAttention] = []
    left_out: list[str] = []
    for place in _loops_inside(run.graph.nodes, path):
        left_out.append(f"{place}, a loop inside {run.name}")
    entries = list(_in_graph(run.graph, path))
    count = min(run.steps, run.size.max)  # without include_eos, the last step has no frame
    if not entries or not count:
        return items, left_out
    last = run.replay.computed(count - 1, {entry.number for entry in entries})  # the largest step, if sizes grow
    sizes = {value.number: backend_of_raw(x._raw).nbytes_raw(x._raw) * count for value, x in last}
    for entry in entries:
        if entry.number not in sizes:
            continue
        room -= sizes[entry.number]
        if room < 0:
            left_out.append(entry.place.path or entry.place.variable or run.name)
            continue
        steps = [_at(run, step, entry.number) for step in range(count)]
        if len({x.dims for x in steps}) > 1 or run.axis in steps[0].dims:
            left_out.append(f"{entry.place.variable or run.name}: its dims differ from step to step")
            continue
        steps, cols = _as_wide(steps, entry.axis)
        weights = by_hypothesis(over_steps(steps, run.axis, run.size), run.axis, run.replay.lineages)
        dynamic = [dim for dim in entry.queries if dim.is_dynamic()]
        items.append(found_of(weights, cols, dynamic or [run.axis], entry.place))
    return items, left_out


def _as_wide(steps: list[Tensor], axis: Dim) -> tuple[list[Tensor], Dim]:
    """Pads with 0 to the largest size, if the axis grows with each step as in causal self-attention."""
    sizes = {x.size_of(axis).max for x in steps}
    if len(sizes) == 1:
        return steps, axis
    widest = Dim(max(sizes), name=axis.name)
    return [replace_dim_v2(x, in_dim=axis, out_dim=widest) for x in steps], widest


def _at(run: Run, step: int, number: int) -> Tensor:
    ((_, tensor),) = run.replay.computed(step, {number})
    return tensor


def _in_graph(graph: BodyGraph, path: str | None) -> Iterator[_InStep]:
    """Finds softmaxes in the graph, and follows their weights until they are summed over."""
    marks: dict[int, tuple[int, Node, str, bool]] = {}  # by value: softmax, its node and module, times values or not
    for node, owner in _walk(graph.nodes, path):
        dims = [set(graph.values[n].dims) for n in node.inputs]
        out = set(graph.values[node.outputs[0]].dims) if node.outputs else set()
        if node.op == "softmax" and node.outputs:
            if owner is not None:
                marks[node.outputs[0]] = node.outputs[0], node, owner, False
            continue
        at = next((i for i, n in enumerate(node.inputs) if n in marks), None)
        if at is None or not node.outputs:
            continue
        number, origin, module, with_values = marks[node.inputs[at]]
        weights = graph.values[number].dims
        reduced = [dim for dim in weights if dim in dims[at] and dim not in out]
        other_dims = set().union(*(operand_dims for i, operand_dims in enumerate(dims) if i != at))
        sums = node.op == "matmul" or (node.op in SUMS and with_values)
        if sums and len(reduced) == 1:
            of_values = other_dims if node.op == "matmul" else dims[at] - (set(weights) - {reduced[0]})
            yield _InStep(number, reduced[0], query_dims(weights, reduced[0], of_values), _place(origin, module))
            marks = {n: mark for n, mark in marks.items() if mark[0] != number}
        elif node.op in SAME and not reduced:
            values = node.op == "mul" and bool(other_dims - set(weights))
            marks[node.outputs[0]] = number, origin, module, with_values or values


def _place(node: Node, module: str) -> OpPlace:
    variable = variable_of(node.source)
    if not variable and not module:  # returned by a function: named where the body calls it
        variable = variable_of(node.at)
    return OpPlace(module, variable, node.source)


def _walk(nodes: list[Node], path: str | None) -> Iterator[tuple[Node, str | None]]:
    """All nodes except modules, each with the path of its module; without those of inner loops."""
    for node in nodes:
        if node.kind != "loop":
            if node.module is None:
                yield node, path
            yield from _walk(node.body, _inside(node, path))


def _inside(node: Node, path: str | None) -> str | None:
    return path if node.module is None else node.module.path


def _loops_inside(nodes: list[Node], path: str | None) -> Iterator[str]:
    for node in nodes:
        if node.kind != "loop":
            yield from _loops_inside(node.body, _inside(node, path))
        elif any(inner.op == "softmax" and at is not None for inner, at in _walk(node.body, path)):
            yield node.source.place() if node.source is not None else "a loop"
