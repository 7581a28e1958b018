"""What a recorded run keeps of a body: how its steps are computed, and what the values in it are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import External, Var
from rfnb.core.dim import Dim
from rfnb.core.lengths import Size
from rfnb.core.source import Block, with_block
from rfnb.core.tensor import Tensor
from rfnb.loop.execute import Schedule
from rfnb.loop.program import Program
from rfnb.loop.rerun import Call
from rfnb.trace.record import Recorder
from rfnb.trace.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body import Body
    from rfnb.loop.close import Closed


@dataclass(frozen=True)
class Plan:
    """The steps of a loop without their numbers; the same for all runs that are made of them.

    names, templates: of the states. assigned: what the body gives them, before ended sequences keep theirs.
    vars: of the values of the graph. size: how many steps each sequence takes, if the data says so.
    call: that of the function in which the loop ran.
    changes: the line that writes into something which the steps read, if there is one.
    """

    name: str
    place: str
    source: Block
    backend: Any
    program: Program
    schedule: Schedule
    recorder: Recorder
    names: list[str]
    templates: list[Any]
    assigned: dict[str, tuple[Var, Tensor]]
    vars: dict[int, Var | External]
    axis: Dim
    size: Size | None
    ends: bool
    changes: str | None
    call: Call | None


def plan_of(body: Body, closed: Closed) -> Plan:
    """To be asked for while the body still knows its traced frame."""
    recorder, tape = body.recorder, body.tape
    traced = recorder.traced()
    found = [(each.value.number, tape.find(each.plain._raw)) for each in traced]
    recorder.templates = {each.value.number: (each.plain.sig, each.plain.lengths) for each in traced}
    return Plan(
        name=body.loop.name,
        place=body.source.place() if body.source is not None else "",
        source=with_block(body.source),
        backend=body.backend,
        program=closed.program,
        schedule=closed.schedule,
        recorder=recorder,
        names=body.names,
        templates=body.before,
        assigned=dict(_assigned(body)),
        vars={number: var for number, var in found if isinstance(var, Var | External)},
        axis=body.axis,
        size=closed.limit,
        ends=body.condition is not None,
        changes=_changes(body, closed),
        call=body.call,
    )


def _assigned(body: Body) -> Iterator[tuple[str, tuple[Var, Tensor]]]:
    for name, leaf in body.loop.state._leaves():
        if isinstance(leaf, Traced) and isinstance(var := body.tape.find(leaf.plain._raw), Var):
            yield name, (var, leaf.plain)


def _changes(body: Body, closed: Closed) -> str | None:
    """Steps without effects leave out what is written; that matters if states depend on it."""
    program, kept = closed.program, body.tape.is_kept
    written = {number for number, raw in enumerate(program.externals) if kept(raw)}
    if not written:
        return None

    def of_written(reads: Iterable[Any]) -> bool:
        return any(type(read) is External and read.number in written for read in reads)

    schedule = closed.schedule
    asked = [*schedule.kept, *schedule.outputs, *([] if schedule.ended is None else [schedule.ended])]
    steps = [program.calls[position] for position in program.needed(asked, effects=False)]
    if not of_written(asked) and not any(of_written(call.reads()) for call in steps):
        return None
    writers = [call.node for call in program.calls if call.effect and of_written(call.reads())]
    lines = [f" ({node.source.place()}: `{node.source.text()}`)" for node in writers if node and node.source]
    return f"the loop changes something that it reads{lines[0] if lines else ''}"
