"""`rf.stepper(run)`: the stepper in a cell's output; without scripts, the static view of the run."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from rfnb.display.kit.blocks import reason
from rfnb.display.kit.page import MIME, asset
from rfnb.display.kit.view import View
from rfnb.display.panel.comm import main_thread_later, stay_on_own_thread
from rfnb.display.panel.commands import SESSION, Dispatcher
from rfnb.display.run import step, view as history
from rfnb.errors import ViewError
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import Runs


def make(run: Run, batch: int | str | None) -> object:
    """The widget, or the static view of the run with a note."""
    sequence = None if batch is None else history.chosen(run, batch)
    try:
        return widget_class()(run, sequence)
    except ViewError as error:
        words = f"{error.what}: {error.hint}" if error.hint else error.what
    except Exception as error:
        words = f"no stepper: {reason(error)}"
    still = history.describe(run, batch)
    return View({**still, "note": "; ".join(note for note in (still["note"], words) if note)})


@lru_cache(maxsize=1)
def widget_class() -> type:
    """The widget class, made when first needed. Raises ViewError if anywidget or the built files are missing."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ViewError("stepper: anywidget is not installed", hint="pip install 'rfnb[lab]'") from None

    class Stepper(anywidget.AnyWidget):
        """One run and its steps; commands arrive as custom messages and are answered by custom messages."""

        _esm = asset("stepper.js")
        _css = asset("stepper.css")
        run = traitlets.Dict().tag(sync=True)
        first = traitlets.Dict(allow_none=True).tag(sync=True)
        session = traitlets.Unicode(SESSION).tag(sync=True)

        def __init__(self, run: Run, sequence: int | None = None):
            first = dict(step.describe_step(run, 0, sequence, seen=0, locked=True)) if run.steps else None
            super().__init__(run=dict(history.describe_run(run)), first=first)
            self.history = View(history.describe(run, sequence))
            self.dispatcher = Dispatcher(OneRun(run), later=main_thread_later())
            stay_on_own_thread(self.comm)
            self.on_msg(self._on_message)

        def _on_message(self, _: object, message: object, buffers: object) -> None:
            self.send(self.dispatcher.handle(message, answer=self.send))

        def _repr_mimebundle_(self, **choice: Any) -> Any:
            return with_static_view(super()._repr_mimebundle_(**choice), self.history, self.model_id)

    return Stepper


class OneRun(Runs):
    """A list of a single run, which lives as long as the widget."""

    def __init__(self, run: Run):
        super().__init__()
        self._added = [run]


def with_static_view(widget_bundle: object, history: View, model_id: str) -> object:
    """The MIME bundle of a widget together with its static view."""
    if widget_bundle is None:
        return history._repr_mimebundle_()
    bundle, metadata = widget_bundle if isinstance(widget_bundle, tuple) else (widget_bundle, {})
    mark = {"session": SESSION, "model_id": model_id, "kernel_id": kernel_id()}
    static = history._repr_mimebundle_()
    return {**bundle, **static, MIME: {**static[MIME], **mark}}, metadata


def kernel_id() -> str | None:
    """The id of this kernel on its server; None outside of a kernel."""
    kernelapp = sys.modules.get("ipykernel.kernelapp")
    if kernelapp is None or not kernelapp.IPKernelApp.initialized():
        return None
    name = str(kernelapp.IPKernelApp.instance().connection_file)
    return name.rsplit("/", 1)[-1].removeprefix("kernel-").removesuffix(".json")
