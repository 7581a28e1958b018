"""Which view shows which class. Called when rfnb is imported; the views themselves are imported when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rfnb.backend.torch.module_graph import PlainModule
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
from rfnb.trace.runs import Runs


def register_views() -> None:
    """The table of views: a kind is called as its file in `views`."""
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
    register("error", Exception)
    show_in_notebooks()
    describe_by(line)
    DRAWERS["dot"] = dot_of
    WRITERS[".html"] = save_page


def dot_of(graph: ModelGraph, **choice: Any) -> Any:
    """For Graphviz; what makes it is imported when first needed."""
    from rfnb.display import dot

    return dot.graph_to_dot(graph, **choice)


def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """A page; what makes it is imported when first needed."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
