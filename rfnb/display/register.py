"""Which view shows which class. Called when rfnb is imported; the views themselves are imported when first needed."""

from __future__ import annotations

from pathlib import Path

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.display.bundle import register
from rfnb.display.line import line
from rfnb.loop.explain import Explanation
from rfnb.loop.gradients import Gradients
from rfnb.loop.watch import describe_by
from rfnb.nn.module import Module
from rfnb.trace.compare.comparison import Comparison
from rfnb.trace.file.save import WRITERS
from rfnb.trace.run import Run
from rfnb.trace.runs import Runs


def register_views() -> None:
    """The table of views."""
    register(Tensor, "rfnb.display.views.tensor")
    register(Dim, "rfnb.display.views.dim")
    register(Module, "rfnb.display.views.module")
    register(Run, "rfnb.display.views.loop")
    register(Runs, "rfnb.display.views.runs")
    register(Explanation, "rfnb.display.views.explain")
    register(Gradients, "rfnb.display.views.gradients")
    register(Comparison, "rfnb.display.views.comparison")
    describe_by(line)
    WRITERS[".html"] = save_page


def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """A page; what makes it is imported when first needed."""
    from rfnb.display import run_page

    return run_page.save_page(run, path, limit)
