"""The loops of another process, shown in a notebook."""

from __future__ import annotations

import IPython.display
import pytest

import rfnb as rf
import rfnb.display.training.progress as progress_file
from rfnb.display.training.progress import ProgressView, describe


def test_an_interrupt_while_curves_are_shown_makes_no_second_plot(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []

    class Handle:
        def display(self, bundle: object, **options: object) -> None:
            calls.append("display")
            if len(calls) == 1:
                raise KeyboardInterrupt

        def update(self, bundle: object, **options: object) -> None:
            calls.append("update")

    monkeypatch.setattr(IPython.display, "DisplayHandle", Handle)
    monkeypatch.setattr(IPython.display, "display", Handle().display)
    progress = rf.progress([1, 2], name="demo")
    for step in progress:
        progress.report(loss=step)
    view: ProgressView = describe(progress)
    monkeypatch.setattr(progress_file, "in_notebook", lambda: True)
    shown = progress_file.ShownLoops()
    with pytest.raises(KeyboardInterrupt):
        shown.update("demo", view)
    shown.update("demo", view)
    shown.close()
    assert calls == ["display", "update"]
