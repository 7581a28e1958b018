"""Measures the raw calls in the steps of a loop, and the ops that are computed outside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rfnb.backend.base.tape import Call, External, Var, current_tape, untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import Meter, current_meter
from rfnb.loop.steps.program import Program
from rfnb.trace.record.traced import Traced


@dataclass
class MeasuredLoop:
    """What a meter is told of a loop.

    size: how many steps each sequence takes; the largest possible until the loop has ended. frames: the dim of what is
    computed for all steps together. made: by number of a Var, the node that it is a result of, and its dims.
    """

    size: Size
    frames: Dim | None = None
    made: Mapping[int, tuple[Node, Any, Any]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.size.max


def results_of(traced: Sequence[Traced], meter: Meter) -> dict[int, tuple[Node, Any, Any]]:
    """The nodes of the body's ops by the Vars of their results; empty if the meter does not watch them."""
    found: dict[int, tuple[Node, Any, Any]] = {}
    for each in traced if meter.watches else ():
        node, var = each.value.node, each.recorder.tape.find(each.plain._raw)
        if node is not None and node.kind == "op" and type(var) is Var:
            found.setdefault(var.number, (node, each.plain.sig, each.plain.lengths))
    return found


def metered(program: Program, loop: MeasuredLoop | None) -> Program:
    """The program, its calls measured if the current meter measures them. loop: None inside of the steps of another.

    While the loop around it is traced, nothing is measured: that run only makes values for the trace.
    """
    meter = current_meter()
    if meter is None or not (meter.times or (meter.watches and loop is not None)) or current_tape() is not None:
        return program
    if id(program) not in meter.programs:
        meter.pause()
        found = program.copy()
        found.calls = [_measured(call, meter, loop) for call in program.calls]
        meter.programs[id(program)] = program, found
        meter.resume()
    measured: Program = meter.programs[id(program)][1]
    return measured


def _measured(call: Call, meter: Meter, loop: MeasuredLoop | None) -> Call:
    if meter.times:
        return call if call.node is None else replace(call, fn=meter.timed(call.fn, call.node))
    assert loop is not None
    places = [(-1, call.result)] if call.result is not None else list(call.parts)
    seen = {place: loop.made[var] for place, var in places if var in loop.made}
    return replace(call, fn=meter.watched(call.fn, seen, loop)) if seen else call


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
