"""What a recorded run keeps of a body: how its steps are computed, and what the values in it are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import Block, with_block
from rfnb.loop.body import has_steps
from rfnb.loop.execute import Schedule
from rfnb.loop.explain import Told
from rfnb.loop.program import Program
from rfnb.loop.rerun import Call
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body import Body
    from rfnb.loop.end_of_step import Closed


@dataclass(frozen=True)
class Plan:
    """The steps of a loop without their numbers; the same for all runs that are made of them.

    names, templates: of the states. assigned: what the body gives them, before ended sequences keep theirs.
    vars: of the values of the graph; in_branches: of those in the sides of branches.
    size: how many steps each sequence takes, if the data says so; frames: how many frames it has. call: that of the
    function in which the loop ran. told: where its ops were done. changes: the line that writes into something which
    the steps read, if there is one.
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
    assigned: dict[str, tuple[Var, Sequence[Dim]]]
    vars: dict[int, Var | External]
    in_branches: dict[int, Var]
    axis: Dim
    size: Size | None
    frames: Size | None
    ends: bool
    include_eos: bool
    told: Told | None
    changes: str | None
    call: Call | None


def plan_of(body: Body, closed: Closed) -> Plan:
    """To be asked for while the body still knows its traced frame."""
    recorder = body.recorder
    found, inside = _vars(recorder, recorder.traced()), _vars(recorder, recorder.traced_in_branches())
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
        vars=found,
        in_branches={number: var for number, var in inside.items() if isinstance(var, Var)},
        axis=body.axis,
        size=closed.limit,
        frames=body.size or (axis.size if (axis := body.loop.axis) is not None and has_steps(axis) else None),
        ends=body.condition is not None,
        include_eos=body.include_eos,
        told=body.loop._told,
        changes=_changes(body, closed),
        call=body.call,
    )


def _vars(recorder: Recorder, traced: Sequence[Traced]) -> dict[int, Var | External]:
    """What the values are on the tape; the recorder gets their dims."""
    found: dict[int, Var | External] = {}
    for each in traced:
        number, plain = each.value.number, each.plain
        recorder.templates[number] = plain.sig, plain.lengths
        var = recorder.tape.find(plain._raw)
        if isinstance(var, Var | External):
            found[number] = var
    return found


def _assigned(body: Body) -> Iterator[tuple[str, tuple[Var, Sequence[Dim]]]]:
    for name, leaf in body.loop.state._leaves():
        if isinstance(leaf, Traced) and isinstance(var := body.tape.find(leaf.plain._raw), Var):
            yield name, (var, leaf.dims)


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
