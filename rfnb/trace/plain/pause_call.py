"""`rf.pause()` in plain Python code: at a line of a loop that is recorded, or with the variables of the frame."""

from __future__ import annotations

from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from rfnb.core.ground.source import Source, user_frame
from rfnb.trace.pause import can_hold, pauses
from rfnb.trace.plain.iterations import Iterations, variables_at
from rfnb.trace.plain.pause import pauses_of
from rfnb.trace.plain.record import OneLoop
from rfnb.trace.plain.recorder import FrameRecorder, Recording, recording_here
from rfnb.trace.plain.syntax import Outline, outline, outline_of_calls


def pause_here() -> None:
    """Pauses at the line of the user's code that runs now, and shows its variables."""
    frame = user_frame()
    if frame is None or pauses.muted:
        return
    recorder, at = recording_here().frames.get(frame), None
    if recorder is None or not recorder._open:
        at = _place(frame)
        recorder = None if at is None else _recorder_of(frame, *at)
    if recorder is None:
        return
    of = pauses_of(recorder, recorder._open[-1])
    if of.is_off and can_hold() != "yes":
        return
    if at is not None:
        recorder.add_step(variables_at(frame, *at))
    of.hold(frame, f"rf.pause() in {Source(frame.f_code, frame.f_lasti).place()}", frame.f_lineno)


def _recorder_of(frame: FrameType, text: Outline, number: int, running: int) -> FrameRecorder:
    """The recorder of the pauses at this line: each is a step, with the variables as they are then."""
    recorders = _recorders.setdefault(frame.f_code, {})
    if frame.f_lineno not in recorders:
        name = frame.f_code.co_name
        client = OneLoop(number, "cell" if name == "<module>" else name, None, True, lambda: None)
        recorder = recorders[frame.f_lineno] = FrameRecorder(frame.f_code, text, [client], Recording())
        loop = Iterations(frame.f_code, text, number, recorder.variables.log)
        loop.name = client.name(number)
        recorder._open.append(loop)
    return recorders[frame.f_lineno]


def _place(frame: FrameType) -> tuple[Outline, int, int] | None:
    """The outline of the code, and in it the innermost loop, or the whole, and the statement that runs now."""
    for text in (outline(frame.f_code), outline_of_calls(frame.f_code)):
        place = None if text is None else text.places.get(frame.f_lasti)
        if text is not None and place is not None and text.statements[place.statement].loops:
            return text, text.statements[place.statement].loops[-1], place.statement
    return None


_recorders: WeakKeyDictionary[Any, dict[int, FrameRecorder]] = WeakKeyDictionary()
"""By code and line, the calls of `rf.pause()` in code that is not recorded."""
