"""Which view shows which class. Called when rfnb is imported; the views themselves are imported when first needed."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.display.bundle import register
from rfnb.nn.module import Module
from rfnb.trace.run import Run
from rfnb.trace.session import Runs


def register_views() -> None:
    """The table of views."""
    register(Tensor, "rfnb.display.views.tensor")
    register(Dim, "rfnb.display.views.dim")
    register(Module, "rfnb.display.views.module")
    register(Run, "rfnb.display.views.loop")
    register(Runs, "rfnb.display.views.runs")
