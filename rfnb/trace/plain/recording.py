"""The recording of each thread: which frames are followed, for which clients."""

from __future__ import annotations

import contextlib
import os
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from rfnb.core.ground.source import warn
from rfnb.trace.plain.events import Events, make_events
from rfnb.trace.plain.recorder import Client, FrameRecorder
from rfnb.trace.plain.syntax import outline

if TYPE_CHECKING:
    pass


class Recording:
    """Records loops in one thread for several clients, from the first that is added until the last is removed.

    frames: the recorders of frames that run. is_held: whether an event holds a loop, so that no others arrive. problem:
    the last one by which a recorder has given up. stale: attributes that have, when a loop begins, the values of an
    iteration before.
    """

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.stale: frozenset[str] = frozenset()
        self._clients: list[Client] = []
        self.frames: dict[FrameType, FrameRecorder] = {}
        self._events: Events | None = None
        self.is_held = False

    def add(self, client: Client) -> None:
        """Records for one more client. Raises Busy if another tool uses the events."""
        self.check()
        if self._events is None:
            events = make_events(self.chooses, self._begin, warn)
            events.start()
            self._events = events
        self._clients.append(client)
        self._events.ask_again()

    def remove(self, client: Client) -> None:
        """Records no more for a client."""
        self.check()
        if client in self._clients:
            for frame, recorder in [*self.frames.items()]:  # such as those of generators that wait
                if recorder.clients == [client] and recorder is not client:
                    recorder.stop(frame)
        if client in self._clients:
            self._clients.remove(client)
        if not self._clients and self._events is not None:
            self._events.stop()
            self._events = None
            self.frames.clear()

    def check(self) -> None:
        """Ends all loops where they were when another tool began to trace, if one did."""
        if self._events is None or self._events.are_ours:
            return
        self._events.stop()
        self._events = None
        recorders = {id(recorder): recorder for recorder in self.frames.values()}
        self.frames.clear()
        for recorder in recorders.values():
            recorder.lose()
        with contextlib.suppress(Warning):  # also where warnings are errors
            warn("loops are no longer recorded, since a debugger or another tool has begun to trace")

    def interrupt(self, error: BaseException) -> None:
        """Ends all loops, because an error leaves a line; Python then traces no more."""
        for frame, recorder in reversed([*self.frames.items()]):
            recorder.leave(frame, error, None)
        for client in [*self._clients]:
            self.remove(client)

    def follow(self, frame: FrameType, client: Client, number: int | None = None) -> None:
        """Records a frame that runs already, for a client; `number` is the loop whose header runs."""
        text = outline(frame.f_code)
        if frame in self.frames:
            self.frames[frame].clients.append(client)
        elif text is not None and self._events is not None:
            self.frames[frame] = FrameRecorder(frame.f_code, text, [client], self)
            self._events.follow(frame)
        if number is not None and frame in self.frames:
            self.frames[frame].enter(frame, number, client.name(number))

    def chooses(self, code: CodeType) -> bool:
        """Whether frames that run this code are followed for any client."""
        clients = [client for client in self._clients if client.chooses(code)]
        return any(isinstance(client, FrameRecorder) or outline(code) is not None for client in clients)

    def _begin(self, frame: FrameType) -> FrameRecorder | None:
        if frame in self.frames:
            return self.frames[frame]
        clients = [client for client in self._clients if client.chooses(frame.f_code)]
        of_calls = [client for client in clients if isinstance(client, FrameRecorder)]
        of_loops = [client for client in clients if not isinstance(client, FrameRecorder)]
        recorder: FrameRecorder | None = next((recorder for recorder in of_calls if recorder.begin(frame)), None)
        text = outline(frame.f_code) if recorder is None and of_loops else None
        if text is not None:
            recorder = FrameRecorder(frame.f_code, text, of_loops, self)
        if recorder is not None:
            self.frames[frame] = recorder
        return recorder


class _OfThread(threading.local):
    """The recording of each thread."""

    def __init__(self) -> None:
        self.recording = Recording()


_of_thread = _OfThread()


def recording_here() -> Recording:
    """The recording of this thread."""
    return _of_thread.recording


def _start_anew() -> None:
    """In a forked process, such as the worker of a DataLoader, nothing is recorded."""
    events, _of_thread.recording = _of_thread.recording._events, Recording()
    if events is not None:
        events.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
