"""Measures the raw calls in the steps of a loop, and the ops that are computed outside of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rfnb.backend.base.tape import Call, External, Var, current_tape, untaped
from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import MeasuredLoop, Meter
from rfnb.core.ground.scope import current_meter
from rfnb.loop.program.program import Program
from rfnb.trace.record.traced import Traced


def results_of(traced: Sequence[Traced]) -> dict[int, tuple[Node, Any, Any]]:
    """The ops whose results are Vars, with the dims and lengths of these, by number of the Var."""
    results: dict[int, tuple[Node, Any, Any]] = {}
    for tensor in traced:
        node, var = tensor.value.node, tensor.recorder.tape.find(tensor.plain._raw)
        if node is not None and node.kind == "op" and type(var) is Var:
            results.setdefault(var.number, (node, tensor.plain.sig, tensor.plain.lengths))
    return results


def metered(program: Program, loop: MeasuredLoop | None) -> Program:
    """The program, its calls measured if the current meter measures them. loop: None inside of the steps of another.

    While the loop around it is traced, nothing is measured: that run only makes values for the trace.
    """
    meter = current_meter()
    if meter is None or not (meter.times or (meter.watches and loop is not None)) or current_tape() is not None:
        return program
    if id(program) not in meter.programs:
        meter.pause()
        watched = program.copy()
        results = results_of(loop.traced()) if meter.watches and loop is not None else {}
        watched.calls = [_measured(call, meter, loop, results) for call in program.calls]
        meter.programs[id(program)] = program, watched
        meter.resume()
    measured: Program = meter.programs[id(program)][1]
    return measured


def _measured(call: Call, meter: Meter, loop: MeasuredLoop | None, made: dict[int, tuple[Node, Any, Any]]) -> Call:
    if meter.times:
        return call if call.node is None else replace(call, fn=meter.timed(call.fn, call.node))
    places = [(-1, call.result)] if call.result is not None else list(call.parts)
    values = {place: made[var] for place, var in places if var in made}
    return replace(call, fn=meter.watched(call.fn, values, loop)) if values and loop is not None else call


def one_step(calls: Sequence[Call], values: Sequence[Any], externals: Sequence[Any]) -> None:
    """Computes calls on the traced frame."""

    def value(tree: Any) -> Any:
        kind = type(tree)
        if kind is Var:
            return values[tree.number]
        if kind is External:
            return externals[tree.number]
        if kind is slice:
            return slice(value(tree.start), value(tree.stop), value(tree.step))
        if kind is tuple or kind is list:
            return kind([value(part) for part in tree])
        return {key: value(part) for key, part in tree.items()} if kind is dict else tree

    with untaped():
        for call in calls:
            call.fn(*value(call.args), **value(call.kwargs))
