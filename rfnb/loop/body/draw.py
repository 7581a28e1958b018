"""Records a loop, finished or failed, for the graph drawer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node
from rfnb.core.ground.nested import named_leaves
from rfnb.loop.body.open_bodies import entered
from rfnb.trace.record.loop_record import LoopRecord
from rfnb.trace.record.record import Recorder

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body
    from rfnb.loop.loop import Loop
    from rfnb.loop.step import TracedStep


def loop_record(
    loop: Loop, lines: Body | TracedStep, *, size: Size | None = None, error: bool = False, failed: Node | None = None
) -> LoopRecord:
    """A record of a finished or failed loop. Call it before the traced frame is released.

    lines: what the user's lines did. size: number of steps of each sequence. failed: the node that raised in a step.
    """
    return LoopRecord(
        name=loop.name,
        recorder=lines.recorder,
        around=_around(lines),
        source=lines.source,
        axis=loop.axis,
        size=size or lines.size,
        own_ops=lines.own_ops,
        initial={name: leaf for name, leaf in named_leaves(lines.originals) if leaf is not None},
        before={carry.name: carry.before for carry in lines.carried if carry.kind == "state"},
        after=dict(lines.assigned),
        final={} if error else dict(loop.state._leaves()),
        unstacked=list(lines.unstacked),
        stacked=[] if error else list(lines.outputs),
        lasts=[] if error else list(lines.lasts),
        end=lines.condition,
        include_eos=lines.include_eos,
        error=error,
        failed=failed,
    )


def _around(lines: Body | TracedStep) -> list[Recorder]:
    """The recorders of the loops and branches around this loop, innermost first."""
    recorders, outer = [], lines.outer
    while outer is not None:  # sides of branches, then the body around them
        recorders.append(outer)
        outer = outer.within
    return [*recorders, *(body.recorder for body in reversed(entered.get()))]
