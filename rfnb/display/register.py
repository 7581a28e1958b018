"""Which view shows which class. Called when rfnb is imported; the views themselves are imported when first needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rfnb.backend.torch.module_graph import PlainModule
from rfnb.checkpoint.report import LoadReport
from rfnb.core.dim import Dim
from rfnb.core.model_graph import DRAWERS, ModelGraph
from rfnb.core.state import State
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict
from rfnb.display.bundle import register
from rfnb.display.error.card import show_in_notebooks
from rfnb.display.line import line
from rfnb.loop.batch_invariance import BatchReport
from rfnb.loop.explain import Explanation
from rfnb.loop.finite import FiniteReport
from rfnb.loop.gradients import Gradients
from rfnb.loop.watch import describe_by
from rfnb.nn.module import Module
from rfnb.trace.capture import Captured, Seen
from rfnb.trace.compare.comparison import Comparison
from rfnb.trace.file.save import WRITERS
from rfnb.trace.run import Run
from rfnb.trace.runs import Runs, runs


def register_views() -> None:
    """The table of views: a kind is called as its file in `views`; then who draws what besides."""
    register("tensor", Tensor)
    register("tree", TensorDict, State, Mapping, dict, list, tuple)
    register("dim", Dim)
    register("module", Module, PlainModule)
    register("graph", ModelGraph)
    register("history", Run)
    register("runs", Runs)
    register("explanation", Explanation)
    register("gradients", Gradients)
    register("comparison", Comparison)
    register("check", BatchReport, FiniteReport)
    register("seen", Captured, Seen)
    register("loaded", LoadReport)
    register("error", Exception)
    show_in_notebooks()
    answer_the_panel()
    describe_by(line)
    DRAWERS["dot"] = dot_of
    WRITERS[".html"] = save_page


def answer_the_panel() -> None:
    """In the kernel of a notebook; scripts and terminals need nothing of it."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython() if ipython is not None else None, "kernel", None)
    if kernel is not None:
        from rfnb.display import comm

        comm.install(runs, kernel)


def dot_of(graph: ModelGraph, **choice: Any) -> Any:
    """For Graphviz; what makes it is imported when first needed."""
    from rfnb.display import dot

    return dot.graph_to_dot(graph, **choice)


def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """A page; what makes it is imported when first needed."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
