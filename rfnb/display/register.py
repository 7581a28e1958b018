"""Which view shows which class. Called when rfnb is imported; classes and views are imported when first needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rfnb.core.show import KINDS, MAKERS
from rfnb.display.error.card import show_in_notebooks

if TYPE_CHECKING:
    from pathlib import Path

    from rfnb.core.model_graph import ModelGraph
    from rfnb.trace.run import Run

VIEWS = {
    "tensor": "rfnb.core.tensor.Tensor",
    "tree": "rfnb.core.tensor_dict.TensorDict rfnb.core.state.State collections.abc.Mapping"
    " builtins.dict builtins.list builtins.tuple",
    "dim": "rfnb.core.dim.Dim",
    "module": "rfnb.nn.module.Module torch.nn.modules.module.Module",
    "graph": "rfnb.core.model_graph.ModelGraph",
    "history": "rfnb.trace.run.Run",
    "runs": "rfnb.trace.runs.Runs",
    "explanation": "rfnb.loop.explain.Explanation",
    "gradients": "rfnb.loop.gradients.Gradients",
    "comparison": "rfnb.trace.compare.comparison.Comparison",
    "check": "rfnb.loop.batch_invariance.BatchReport rfnb.loop.finite.FiniteReport",
    "seen": "rfnb.trace.capture.Captured rfnb.trace.capture.Seen",
    "loaded": "rfnb.checkpoint.report.LoadReport",
    "progress": "rfnb.display.training.progress.Progress",
    "gradient_norms": "rfnb.display.training.gradient_norms.GradientNorms",
    "error": "builtins.Exception",
}
"""By kind, which is called as its file in `views`: the classes."""


def register_views() -> None:
    """From now on, views are found; then who makes what besides."""
    KINDS.update({name: kind for kind, names in VIEWS.items() for name in names.split()})
    MAKERS.update(view=view_of, line=line, dot=dot_of, page=save_page)
    show_in_notebooks()
    answer_the_panel()


def answer_the_panel() -> None:
    """In the kernel of a notebook; scripts and terminals need nothing of it."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython() if ipython is not None else None, "kernel", None)
    if kernel is not None:
        from rfnb.display import comm
        from rfnb.trace.runs import runs

        comm.install(runs, kernel)


def view_of(shown: Any) -> Any:
    """Of an object."""
    from rfnb.display import bundle

    return bundle.view_of(shown)


def line(name: str, x: Any, live: Any) -> str:
    """A tensor in one line."""
    from rfnb.display import line

    return line.line(name, x, live)


def dot_of(graph: ModelGraph, **choice: Any) -> Any:
    """For Graphviz."""
    from rfnb.display import dot

    return dot.graph_to_dot(graph, **choice)


def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """A page."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
