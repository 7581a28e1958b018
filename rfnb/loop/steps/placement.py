"""Decides which ops of a body may be computed outside of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import External, Tape, Var
from rfnb.core.graph.graph import all_nodes
from rfnb.core.tensor.tensor import tensors_in
from rfnb.loop.steps.explain import Place
from rfnb.loop.steps.growing_axes import grows
from rfnb.trace.record.op_call import OpCall

if TYPE_CHECKING:
    from rfnb.loop.body.traced_step import TracedStep


class PlacedOp(NamedTuple):
    """An op: the values that it reads, those that it makes, without operands that it returns unchanged, and where it
    may be computed."""

    reads: frozenset[Var]
    makes: frozenset[Var]
    place: Place


class Placement(NamedTuple):
    """The ops of a body, in order. seen: for each value, the first op that has it as an operand or a result, and its
    position among these."""

    ops: list[PlacedOp]
    seen: dict[Var, tuple[int, int]]


def place_ops(step: TracedStep, known: bool) -> Placement:
    """Where each op may be computed, by its row and its operands. known: whether the number of steps is known before
    they run."""
    return _Placing(step, known).placement()


class _PlacedOp:
    def __init__(self, call: OpCall, tape: Tape):
        self.call = call
        self.tensors = [*call.given, *tensors_in(call.result)]
        sources = [tape.find(x._raw) for x in self.tensors]
        self.vars = [var if type(var) is Var else None for var in sources]
        self.reads = frozenset(var for var in self.vars[: len(call.given)] if var is not None)
        self.makes = frozenset(var for var in self.vars[len(call.given) :] if var is not None) - self.reads
        self.place: Place = "steps"


class _Placing:
    def __init__(self, step: TracedStep, known: bool):
        self.step, self.known = step, known
        self.program, self.tape, schedule = step.program, step.tape, step.schedule
        self.wanted = {*schedule.new, *schedule.kept, *([schedule.ended] if schedule.ended else [])}
        self.ops = [_PlacedOp(call, self.tape) for call in step.recorder.op_calls]
        self.seen: dict[Var, tuple[int, int]] = {}
        for number, op in enumerate(self.ops):
            for place, var in enumerate(op.vars):
                if var is not None:
                    self.seen.setdefault(var, (number, place))
        self.owners = {id(node): op for op in self.ops for node in all_nodes([op.call.node])}

    def placement(self) -> Placement:
        """Where each op may be computed."""
        staying = self._staying()
        self._place_before(staying)
        self._place_after(staying)
        return Placement([PlacedOp(op.reads, op.makes, op.place) for op in self.ops], self.seen)

    def _staying(self) -> set[_PlacedOp]:
        """Ops that must stay in the steps: they draw random numbers, have an effect, or read what changes."""
        grown = self.step.recorder.grown
        staying = {op for op in self.ops if op.call.row.random or op.call.row.effect}
        if grown:
            serial, roots, grown_vars = min(grown), set(grown), set[Var]()
            for op in self.ops:
                if op.reads & grown_vars or grows([op.call.args, op.call.kwargs, op.call.result], roots):
                    staying.add(op)
                    grown_vars |= op.makes
                    dims = [dim for tensor in tensors_in(op.call.result) for dim in tensor.dims]
                    roots |= {root for dim in dims for root in dim.roots if root > serial}  # made in the body: may grow
        written: set[Any] = {External(i) for i, raw in enumerate(self.program.externals) if self.tape.is_kept(raw)}
        written |= {Var(n) for call in self.program.calls if id(call.node) not in self.owners for n in call.changes}
        if written:
            readers = [call for call in self.program.calls if not written.isdisjoint(call.reads)]
            staying |= {self.owners[id(call.node)] for call in readers if id(call.node) in self.owners}
            staying |= {
                op
                for op in self.ops
                if any(self.tape.find(x._raw) in written for x in tensors_in([op.call.args, op.call.kwargs]))
            }
        return staying

    def _place_before(self, staying: set[_PlacedOp]) -> None:
        """Finds the ops that can be computed before the steps."""
        constants = {Var(number) for number in self.program.constants}
        constants &= self.seen.keys() | set(self.step.schedule.outputs)
        place: dict[Var, Place] = dict.fromkeys(constants, "once")
        for frame in self.step.frames:
            if frame.is_stackable and self.known:
                place[frame.var] = "frames"
        for op in self.ops:
            operands = {place.get(var, "steps") for var in op.reads}
            if op not in staying and "steps" not in operands:
                if "frames" not in operands:
                    op.place = "once"
                elif op.call.row.frames == "any":
                    op.place = "frames"
            for var in op.makes:
                place.setdefault(var, op.place)

    def _place_after(self, staying: set[_PlacedOp]) -> None:
        """Moves ops after the steps if only outputs depend on them, and no op that stays in the steps."""
        for_states = set(self.program.needed([*self.wanted]))
        demand, busy = set[Any](self.wanted), set(staying)
        for position, call in enumerate(self.program.calls):
            owner = self.owners.get(id(call.node))
            if position in for_states or owner is None:
                demand.update(call.reads)
                busy |= {owner} if owner is not None else set()
        for op in reversed(self.ops):
            if op.place == "steps" and op.makes:
                if op.call.row.frames == "any" and op not in busy and demand.isdisjoint(op.makes):
                    op.place = "after"
                else:
                    demand |= op.reads
