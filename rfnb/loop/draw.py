"""A loop tells whoever draws it what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.ground.nested import named_leaves
from rfnb.loop.print_value import entered
from rfnb.trace.record.loop_record import LoopRecord
from rfnb.trace.record.record import Recorder
from rfnb.trace.run import session

if TYPE_CHECKING:
    from rfnb.loop.body import Body


def tell(body: Body, *, error: bool = False) -> None:
    """To be called before the body forgets its traced frame. Does nothing if nobody draws."""
    draw = session.drawing()
    if draw is None:
        return
    now = dict(body.loop.state._leaves())
    pairs = zip(body.names, body.before, strict=True)
    draw(
        LoopRecord(
            name=body.loop.name,
            recorder=body.recorder,
            around=_around(body),
            source=body.source,
            axis=body.loop.axis,
            size=body.taken or body.size,
            own_ops=body.own_ops if body.assigned else len(body.recorder.op_calls),
            initial={name: leaf for name, leaf in named_leaves(body.originals) if leaf is not None},
            before={name: leaf for name, leaf in pairs if not name.startswith("#")},
            after=body.assigned or now,
            final={} if error else now,
            unstacked=list(body.unstacked),
            stacked=[] if error else list(body.outputs),
            lasts=[] if error else list(body.lasts),
            end=body.condition,
            include_eos=body.include_eos,
            error=error,
            failed=body.failed,
        )
    )


def _around(body: Body) -> list[Recorder]:
    found, outer = [], body.outer
    while outer is not None:  # sides of branches, then the body that they are in
        found.append(outer)
        outer = outer.within
    return [*found, *(other.recorder for other in reversed(entered.get()) if other is not body)]
