"""The training loops of another process, shown here as `rf.progress` shows those of this one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rfnb.display.kit.progress_bar import DisplayPlace, new_bar
from rfnb.display.kit.view import View
from rfnb.display.markup.numbers import short
from rfnb.display.training.schema import ProgressView
from rfnb.printable import encodable, visible
from rfnb.trace.run.options import in_notebook


class ShownLoops:
    """Bars of loops, and in notebooks their curves, which stay below the cell."""

    def __init__(self) -> None:
        self._bars: dict[tuple[str, int], Any] = {}  # by loop and epoch
        self._plots: dict[str, DisplayPlace] = defaultdict(DisplayPlace)

    def update(self, loop: str, view: ProgressView) -> None:
        """Shows how far a loop is."""
        epoch, total = view["epoch"], view["total"]
        bar = self._bars.get((loop, epoch))
        if bar is None:
            if (finished := self._bars.get((loop, epoch - 1))) is not None:
                finished.update((total or finished.n) - finished.n)
                finished.close()
            title = f"{view['name']} epoch {epoch}" if epoch > 1 else view["name"]
            bar = self._bars[loop, epoch] = new_bar(title, total=total, unit="step")
        bar.update(view["steps"] - (epoch - 1) * (total or 0) - bar.n)
        measures = ", ".join(f"{curve['name']} {short(curve['last'])}" for curve in view["curves"])
        bar.set_postfix_str(encodable(visible(measures)))
        if in_notebook() and view["curves"]:
            self._plots[loop].show(View(view)._repr_mimebundle_())

    def close(self) -> None:
        """Ends the bars."""
        for bar in self._bars.values():
            bar.close()
