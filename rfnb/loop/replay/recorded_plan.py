"""What a recorded run keeps of a body: its program, and the names of its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import Block, with_block
from rfnb.loop.body.rerun import EnclosingCall
from rfnb.loop.body.traced_step import Carried
from rfnb.loop.steps.execute import Schedule
from rfnb.loop.steps.explain import ExplanationData
from rfnb.loop.steps.frames import has_steps
from rfnb.loop.steps.program import Program
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body.traced_step import TracedStep


@dataclass(frozen=True)
class RecordedPlan:
    """The steps of a loop without their data; shared by all runs of these steps.

    carried: the values that each step passes to the next, without initial values. assigned: the Vars that the body
    assigns to the states, before ended sequences keep theirs. vars: the Vars of the values in the graph; in_branches:
    those of values in the sides of branches. size: how many steps each sequence takes, if the data determines it;
    frames: how many frames it has. call: the call of the function in which the loop ran. explanation_data: where its
    ops were computed. changes: a message that names the line which writes into something that the steps read, if any.
    """

    name: str
    place: str
    source: Block
    backend: Any
    program: Program
    schedule: Schedule
    recorder: Recorder
    carried: tuple[Carried, ...]
    assigned: dict[str, tuple[Var, Sequence[Dim]]]
    vars: dict[int, Var | External]
    in_branches: dict[int, Var]
    axis: Dim
    size: Size | None
    frames: Size | None
    ends: bool
    include_eos: bool
    explanation_data: ExplanationData | None
    changes: str | None
    call: EnclosingCall | None


def plan_of(step: TracedStep, explanation_data: ExplanationData | None) -> RecordedPlan:
    """The RecordedPlan of a traced step. Call it while the recorder still has its traced frame."""
    recorder = step.recorder
    found, inside = _vars(recorder, recorder.traced()), _vars(recorder, recorder.traced_in_branches())
    return RecordedPlan(
        name=step.name,
        place=step.source.place() if step.source is not None else "",
        source=with_block(step.source),
        backend=step.backend,
        program=step.program,
        schedule=step.schedule,
        recorder=recorder,
        carried=tuple(replace(each, initial=None) for each in step.carried),
        assigned=dict(_assigned(step)),
        vars=found,
        in_branches={number: var for number, var in inside.items() if isinstance(var, Var)},
        axis=step.axis,
        size=step.limit,
        frames=step.size or (step.axis.size if has_steps(step.axis) else None),
        ends=step.condition is not None,
        include_eos=step.include_eos,
        explanation_data=explanation_data,
        changes=_changes(step),
        call=step.call,
    )


def _vars(recorder: Recorder, traced: Sequence[Traced]) -> dict[int, Var | External]:
    """The place of each value on the tape, by its number. Also stores the dims of the values in the recorder."""
    found: dict[int, Var | External] = {}
    for each in traced:
        number, plain = each.value.number, each.plain
        recorder.templates[number] = plain.sig, plain.lengths
        var = recorder.tape.find(plain._raw)
        if isinstance(var, Var | External):
            found[number] = var
    return found


def _assigned(step: TracedStep) -> Iterator[tuple[str, tuple[Var, Sequence[Dim]]]]:
    for name, leaf in step.assigned.items():
        if isinstance(leaf, Traced) and isinstance(var := step.tape.find(leaf.plain._raw), Var):
            yield name, (var, leaf.dims)


def _changes(step: TracedStep) -> str | None:
    """Why replayed steps may differ: they run without effects, so what the body writes and reads is not written."""
    program, kept = step.program, step.tape.is_kept
    written = {number for number, raw in enumerate(program.externals) if kept(raw)}
    if not written:
        return None

    def reads_written(reads: Iterable[Any]) -> bool:
        return any(type(read) is External and read.number in written for read in reads)

    schedule = step.schedule
    wanted = [*schedule.kept, *schedule.outputs, *([] if schedule.ended is None else [schedule.ended])]
    calls = [program.calls[position] for position in program.needed(wanted, effects=False)]
    if not reads_written(wanted) and not any(reads_written(call.reads()) for call in calls):
        return None
    writers = [call.node for call in program.calls if call.effect and reads_written(call.reads())]
    lines = [f" ({node.source.place()}: `{node.source.text()}`)" for node in writers if node and node.source]
    return f"the loop changes something that it reads{lines[0] if lines else ''}"
