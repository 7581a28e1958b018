"""Which view shows which class. Called when rfnb is imported; classes and views are imported when first needed.

Users add views of their own classes by `rf.register_view`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import KINDS, MODULES, class_name, make_dot, make_line, make_page, make_view
from rfnb.display.error.card import show_in_notebooks
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from pathlib import Path

    from rfnb.core.graph.model_graph import ModelGraph
    from rfnb.display.kit.blocks import Page
    from rfnb.trace.run.run import Run

VIEWS = {
    "tensor": ("tensor.view", "rfnb.core.tensor.tensor.Tensor"),
    "tree": (
        "tree",
        "rfnb.core.tensor.tensor_dict.TensorDict rfnb.core.tensor.tensor_dict.State collections.abc.Mapping"
        " builtins.dict builtins.list builtins.tuple",
    ),
    "dim": ("dims:page_of_dim", "rfnb.core.dims.dim.Dim"),
    "dims": ("dims:page_of_dims", ""),
    "module": ("module", "rfnb.nn.module.module.Module torch.nn.modules.module.Module"),
    "graph": ("graph.view", "rfnb.core.graph.model_graph.ModelGraph"),
    "run": ("run.view", "rfnb.trace.run.run.Run"),
    "run_step": ("run.view:page_of_step", "rfnb.trace.run.step.RunStep"),
    "runs": ("run.list_view", "rfnb.trace.run.runs.Runs"),
    "loop_explanation": ("loop", "rfnb.loop.steps.explain.Explanation"),
    "net_explanation": ("rfnb.netdict.views.loops", "rfnb.netdict.loops.explain.NetExplanation"),
    "gradients": ("run.gradients_view", "rfnb.loop.replay.gradients.Gradients"),
    "comparison": ("comparison", "rfnb.trace.compare.comparison.Comparison"),
    "check": ("check", "rfnb.loop.check.invariance.BatchReport rfnb.loop.check.finiteness.FiniteReport"),
    "attention": ("attention.view", ""),
    "attention_list": (
        "attention.view:page_of_captured",
        "rfnb.trace.capture.capture.Captured rfnb.trace.capture.capture.Seen",
    ),
    "load_report": ("checkpoint:page_of_report", "rfnb.checkpoint.report.LoadReport"),
    "checkpoint": ("checkpoint:page_of_checkpoint", "rfnb.checkpoint.entries.CheckpointFile"),
    "progress": ("training.progress", "rfnb.display.training.progress.Progress"),
    "gradient_norms": ("training.gradient_norms", "rfnb.display.training.gradient_norms.GradientNorms"),
    "probe": ("training.probe_view", "rfnb.trace.probe.probe.Probe"),
    "beam": (
        "beam.view",
        "rfnb.search.found.Found rfnb.search.tree.Tree",
    ),
    "where": ("explain:page_of_where", "rfnb.search.explain.where.Where"),
    "why": ("explain:page_of_why", "rfnb.search.explain.where.Why"),
    "search_comparison": (
        "explain:page_of_comparison",
        "rfnb.search.explain.compare.SearchComparison rfnb.search.explain.compare.BeamsCompared",
    ),
    "search_report": (
        "search_report",
        "rfnb.search.corpus.SearchReport rfnb.search.corpus.SearchReports",
    ),
    "network": ("rfnb.netdict.views.network", "rfnb.netdict.network.Network"),
    "net_diff": (
        "rfnb.netdict.views.diff",
        "rfnb.netdict.code.diff.NetDiff rfnb.netdict.code.compare.NetComparison",
    ),
    "network_report": ("rfnb.netdict.views.report", "rfnb.netdict.report.findings.NetworkReport"),
    "net_stages": ("rfnb.netdict.views.stages", "rfnb.netdict.stages.Stages"),
    "net_training": ("rfnb.netdict.views.training", "rfnb.netdict.report.training.Training"),
    "job": ("rfnb.jobs.job", "rfnb.jobs.job.Job"),
    "overview": ("overview", ""),
    "error": ("error.view", "builtins.Exception"),
}
"""By kind: the function that makes the view, in `rfnb.display` unless its name is in full, and the full names of the
classes it shows. A module without a function has `describe`."""


def register_views() -> None:
    """Registers the views of rfnb's classes, shows errors in notebooks, and answers the panel."""
    KINDS.update({name: kind for kind, (_, names) in VIEWS.items() for name in names.split()})
    in_display = "rfnb.display.{}".format
    MODULES.update({kind: path if path[:5] == "rfnb." else in_display(path) for kind, (path, _) in VIEWS.items()})
    show_in_notebooks()
    follow_cells()
    answer_the_panel()


def follow_cells() -> None:
    """Gives an IPython shell `%%record_loops`, and lets the panel record the loops of all cells."""
    shell = _shell()
    if shell is not None:
        from rfnb.trace.plain.cells import cells

        cells.follow(shell)


def answer_the_panel() -> None:
    """Opens the line to the panel in the kernel of a notebook; scripts and terminals do not need it."""
    kernel = getattr(_shell(), "kernel", None)
    if kernel is not None:
        from rfnb.display.panel import comm
        from rfnb.trace.run.runs import runs

        comm.install(runs, kernel)


def register_view(cls: type | str, make: Callable[..., Page]) -> None:
    """Shows objects of your own class: by `rf.show`, and as the result of a notebook's cell.

    >>> class Lexicon:
    ...     def __init__(self, words):
    ...         self.words = words
    >>> def page_of(lexicon, first=3):
    ...     words = [[word, len(word)] for word in lexicon.words[:first]]
    ...     return rf.page.Page("lexicon", "fruit", [rf.page.Line("lexicon"), rf.page.Grid(words, ["word", "letters"])])
    >>> rf.register_view(Lexicon, page_of)
    >>> rf.show(Lexicon(["kiwi", "<fig>"]))
    lexicon
      word   letters
      kiwi   4
      <fig>  5
    >>> print(rf.show(Lexicon(["kiwi", "<fig>"]), first=1).text.splitlines()[-1])
      kiwi  4

    A class that is registered again gets the new view. If the function raises, a note says why there is no view.

    Args:
        cls: the class, or its full name ("package.module.Class") if it should not be imported for this. Subclasses are
            shown like it.
        make: from an object, its `rf.page.Page`. Its further arguments are those that `rf.show` takes for this class.

    Raises ViewError if `cls` is neither a class nor the full name of one.
    """
    from rfnb.display.kit.view import OWN_VIEWS, own_view

    if not (inspect.isclass(cls) or (isinstance(cls, str) and "." in cls)):
        raise ViewError(
            "register_view: `cls` must be a class, or its full name", got=repr(cls), expected='"module.Class"'
        )
    kind = cls if isinstance(cls, str) else class_name(cls)
    KINDS[kind] = kind
    OWN_VIEWS[kind] = own_view(make)
    _format_in_notebooks(cls)


def _format_in_notebooks(cls: type | str) -> None:
    """From now on, objects of this class are shown by their view where they are the result of a cell."""
    shell = _shell()
    if shell is not None:
        shell.display_formatter.mimebundle_formatter.for_type(cls, lambda shown: view_of(shown)._repr_mimebundle_())


def _shell() -> Any:
    """The running IPython shell; None outside of IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


@make_view.register
def view_of(shown: object) -> Any:
    """The view of an object."""
    from rfnb.display.kit.view import view_of as made

    return made(shown)


@make_line.register
def line(name: str, x: Any, live: Any) -> str:
    """A tensor in one line."""
    from rfnb.display.tensor.value import one_line

    return one_line(name, x, live)


@make_dot.register
def dot_of(graph: ModelGraph, **choice: Any) -> Any:
    """The Graphviz source of a model graph, folded like `rf.show(graph, **choice)`."""
    from rfnb.display.graph import view

    return view.to_dot(view.describe(graph, **choice))


@make_page.register
def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """Writes a run as a page."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
