"""The two comms of the panel: one receives and answers commands, the other sends events.

They are apart because a kernel sends what comes in on a comm to the thread that last sent on it: a cell that sent
events on the command comm would make the front end wait for that cell.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import Any, Literal

from rfnb.display.kit.progress_bar import bar
from rfnb.display.panel.commands import Dispatcher, Later, RunList
from rfnb.display.panel.paused import holder
from rfnb.display.panel.schema import Event
from rfnb.display.run import list_view as runs_view
from rfnb.trace.pause import Holding, can_hold, pauses, show_and_wait
from rfnb.trace.plain.cells import has_loop
from rfnb.trace.run.run import Run, open_in_panel
from rfnb.trace.run.runs import runs
from rfnb.trace.run.session import make_progress

COMMANDS_TARGET = "rfnb.commands"
EVENTS_TARGET = "rfnb.events"
READY = "rfnb-ready"
"""The id of a display that does not exist; its update shows panels that rfnb has been imported."""
FIRST_PANEL = 2.0
"""How long the first pause waits for a panel, in seconds."""
PAUSE = 0.25
"""Smallest time between two events about the list of runs, in seconds."""

_links: list[PanelLink] = []


def install(runs: RunList, kernel: object) -> PanelLink | None:
    """Answers the panel of the notebook that this kernel belongs to; never raises."""
    if _links:
        return _links[0]
    try:
        link = PanelLink(runs, kernel)
        link.listen()
    except Exception:
        return None
    _links.append(link)
    return link


def open_run(run: Run) -> bool:
    """Shows a run in the panel; returns whether there is a panel."""
    if not _links:
        return False
    if run not in _links[0].runs:  # one from a file
        runs.add(run)
    return _links[0].emit({"event": "open", "data": {"run": run.serial}})


def main_thread_later() -> Later | None:
    """A function that runs a callable on the main thread; None outside of a kernel."""
    return _links[0].later if _links else None


def stay_on_own_thread(comm: object) -> None:
    """Keeps messages on the thread that the front end chose, not the one that last sent on this comm."""
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


class PanelLink:
    """The connection between the runs of this process and the panels that show them."""

    def __init__(self, runs: RunList, kernel: Any):
        self.runs = runs
        self.kernel = kernel
        self.panels: list[Any] = []
        self.arrived = threading.Event()
        self.cell_runs = self.hears_cells = False
        self.news = News(self.tell_runs, self.call_later)
        self.dispatcher = Dispatcher(runs, later=self.later, emit=self.emit, is_busy=self.is_busy)

    def listen(self) -> None:
        """Registers the comm targets, follows the cells and the list of runs, and shows the progress of long loops."""
        self.kernel.comm_manager.register_target(COMMANDS_TARGET, self.on_commands)
        self.kernel.comm_manager.register_target(EVENTS_TARGET, self.on_events)
        self.cell_runs = True  # the cell that imports rfnb
        self.kernel.shell.events.register("pre_run_cell", self.on_cell)
        self.kernel.shell.events.register("post_run_cell", self.on_cell_end)
        self.runs.on_change(self.news.changed)
        open_in_panel.register(open_run)
        make_progress.register(bar)
        self.kernel.shell.display_pub.publish({"text/plain": ""}, transient={"display_id": READY}, update=True)
        can_hold.register(self.can_hold)
        show_and_wait.register(lambda paused: holder.hold(paused, self.emit))

    def can_hold(self) -> Holding:
        """Whether a panel is connected, and its messages arrive while a cell runs."""
        if not self.panels:  # in the cell that imports rfnb, a panel connects while the cell runs
            self.arrived.wait(FIRST_PANEL)
            self.arrived.set()
        return "no panel" if not self.panels else "yes" if self.hears_cells else "no subshells"

    def on_commands(self, comm: Any, message: object) -> None:
        """A panel opened the command comm."""
        stay_on_own_thread(comm)

        def answer(message: Any) -> None:
            self.hears_cells = current_thread() is not main_thread()
            reply = self.dispatcher.handle(message["content"]["data"])
            if reply["status"] != "queued":  # the answer is as quick as word of it
                comm.send(reply)

        comm.on_msg(answer)

    def on_events(self, comm: Any, message: object) -> None:
        """A panel opened the event comm."""
        self.panels.append(comm)
        self.arrived.set()
        comm.on_close(lambda _: self.panels.remove(comm) if comm in self.panels else None)

    def on_cell(self, *_: object) -> None:
        """A cell starts."""
        self.cell_runs = True

    def on_cell_end(self, result: object = None) -> None:
        """A cell is over."""
        self.cell_runs = False
        text = getattr(getattr(result, "info", None), "raw_cell", "")
        for words in pauses.cell_ended(has_loop(text)):
            print(words)
        self.news.flush()

    def later(self, work: Callable[[], None]) -> Literal["queued", "busy"]:
        """Runs `work` on the main thread, whose event loop runs only between cells."""
        status: Literal["queued", "busy"] = "busy" if self.is_busy() else "queued"
        holder.put(work)
        self.kernel.io_loop.add_callback(holder.do_next)
        return status

    def is_busy(self) -> bool:
        """Whether a cell runs that is not paused."""
        return self.cell_runs and holder.paused is None

    def call_later(self, work: Callable[[], None]) -> None:
        """Runs `work` on the main thread after a delay, or after the running cell."""
        self.kernel.io_loop.add_callback(lambda: self.kernel.io_loop.call_later(PAUSE, work))

    def emit(self, event: Event) -> bool:
        """Sends an event to all panels; returns whether there are any."""
        for comm in list(self.panels):
            try:
                comm.send(event)
            except Exception:
                self.panels.remove(comm)
        return bool(self.panels)

    def tell_runs(self) -> None:
        """Sends the list of runs."""
        if self.panels:
            self.emit({"event": "runs", "data": runs_view.describe(self.runs)["runs"]})


class News:
    """Sends changes of the list at a limited rate.

    Args:
        tell: sends the list.
        call_later: calls a function after a pause.
        clock: seconds.
    """

    def __init__(
        self,
        tell: Callable[[], None],
        call_later: Callable[[Callable[[], None]], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self.tell, self.call_later, self.clock = tell, call_later, clock
        self.told = -PAUSE
        self.due = False

    def changed(self) -> None:
        """Sends the list at once, or once after a pause."""
        waiting, self.due = self.due, True
        if current_thread() is main_thread() and self.clock() - self.told >= PAUSE:
            self.flush()
        elif not waiting:
            self.call_later(self.flush)

    def flush(self) -> None:
        """Sends changes that were held back."""
        if not self.due:
            return
        self.due, self.told = False, self.clock()
        self.tell()
