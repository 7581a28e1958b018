"""Which view shows which class. Called when rfnb is imported; classes and views are imported when first needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import KINDS, MODULES, make_dot, make_line, make_page, make_view
from rfnb.display.error.card import show_in_notebooks

if TYPE_CHECKING:
    from pathlib import Path

    from rfnb.core.graph.model_graph import ModelGraph
    from rfnb.trace.run.run import Run

VIEWS = {
    "tensor": ("tensor.view", "rfnb.core.tensor.tensor.Tensor"),
    "tree": (
        "tree.view",
        "rfnb.core.tensor.tensor_dict.TensorDict rfnb.core.tensor.state.State collections.abc.Mapping"
        " builtins.dict builtins.list builtins.tuple",
    ),
    "dim": ("dims.dim_view", "rfnb.core.dims.dim.Dim"),
    "dims": ("dims.table_view", ""),
    "module": ("module.view", "rfnb.nn.module.module.Module torch.nn.modules.module.Module"),
    "graph": ("graph.view", "rfnb.core.graph.model_graph.ModelGraph"),
    "run": ("run.view", "rfnb.trace.run.run.Run"),
    "runs": ("run.list_view", "rfnb.trace.run.runs.Runs"),
    "loop_explanation": ("loop.view", "rfnb.loop.explain.Explanation"),
    "gradients": ("run.gradients_view", "rfnb.loop.gradients.Gradients"),
    "comparison": ("comparison.view", "rfnb.trace.compare.comparison.Comparison"),
    "check": ("check.view", "rfnb.loop.batch_invariance.BatchReport rfnb.loop.finite.FiniteReport"),
    "attention": ("attention.view", ""),
    "attention_list": ("attention.list_view", "rfnb.trace.capture.capture.Captured rfnb.trace.capture.capture.Seen"),
    "load_report": ("checkpoint.view", "rfnb.checkpoint.report.LoadReport"),
    "progress": ("training.progress_view", "rfnb.display.training.progress.Progress"),
    "gradient_norms": ("training.gradient_norms_view", "rfnb.display.training.gradient_norms.GradientNorms"),
    "error": ("error.view", "builtins.Exception"),
    "note": ("kit.note", ""),
}
"""By kind: the module that makes the view, inside `rfnb.display`, and the full names of the classes it shows."""


def register_views() -> None:
    """Lets core find the views; has errors shown in notebooks, and commands of the panel answered."""
    KINDS.update({name: kind for kind, (_, names) in VIEWS.items() for name in names.split()})
    MODULES.update({kind: f"rfnb.display.{module}" for kind, (module, _) in VIEWS.items()})
    show_in_notebooks()
    answer_the_panel()


def answer_the_panel() -> None:
    """In the kernel of a notebook; scripts and terminals need nothing of it."""
    ipython = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython() if ipython is not None else None, "kernel", None)
    if kernel is not None:
        from rfnb.display.panel import comm
        from rfnb.trace.run.runs import runs

        comm.install(runs, kernel)


@make_view.register
def view_of(shown: Any) -> Any:
    """Of an object."""
    from rfnb.display.kit.view import view_of as made

    return made(shown)


@make_line.register
def line(name: str, x: Any, live: Any) -> str:
    """A tensor in one line."""
    from rfnb.display.tensor.value import one_line

    return one_line(name, x, live)


@make_dot.register
def dot_of(graph: ModelGraph, **choice: Any) -> Any:
    """A model graph for Graphviz, folded as `rf.show(graph, **choice)` folds it."""
    from rfnb.display.graph import view

    return view.to_dot(view.describe(graph, **choice))


@make_page.register
def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """A page."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
