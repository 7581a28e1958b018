"""`rf.pause`: a line at which a running loop pauses."""

from __future__ import annotations

from rfnb.core.ground.source import user_source
from rfnb.core.tensor.op import guarded
from rfnb.errors import LoopError
from rfnb.loop.body.body import entered
from rfnb.trace.plain.record import pause_here
from rfnb.trace.record.record import current_recorder


@guarded
def pause() -> None:
    """Pauses the running cell: in the body of a loop after each step, elsewhere at this line.

    >>> loop = rf.Loop(max_seq_len=3, name="counting")
    >>> loop.state.n = rf.convert_to_tensor(1)
    >>> with warnings.catch_warnings(record=True), rf.recording("last"), loop:  # doctest: +SKIP
    ...     loop.state.n = loop.state.n * 2
    ...     rf.pause()

    In JupyterLab, the panel shows the values of the step, or outside of loops the local variables, and steps on. Where
    no panel is connected, the pause is skipped with one warning, and the run of the loop is written to the folder
    `rf.options.pause_folder`. See `rf.pause_when` for pauses under a condition.

    Raises LoopError in a branch of `rf.cond` and in a loop inside of a loop, which cannot be held.
    """
    bodies = entered.get()
    if not bodies:
        pause_here()
        return
    body = bodies[-1]
    if body.outer is not None:
        raise LoopError(
            f"rf.pause() in {body.loop.name}, a loop inside of {bodies[0].loop.name}: inner loops cannot be paused",
            hint="move rf.pause() to the outer loop; in the panel, `Inner loops` opens the steps of the inner one",
        )
    if current_recorder() is not body.recorder:
        raise LoopError(
            f"rf.pause() in a branch of {body.loop.name}: a step is paused as a whole",
            hint=f'rf.pause_when(condition, loop="{body.loop.name}")',
        )
    source = user_source()
    if source is not None:
        body.pauses.append(source)
    body.recorder.recorded = True
