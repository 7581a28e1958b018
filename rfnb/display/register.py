"""What display does for the rest of rfnb, from its import on; views are imported when first needed.

Users add views of their own classes by `rf.register_view`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import make_dot, make_line, make_page, view_of
from rfnb.core.ground.source import ipython_shell
from rfnb.display.error.card import show_in_notebooks
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from rfnb.core.graph.model_graph import ModelGraph
    from rfnb.core.tensor.tensor import Tensor
    from rfnb.display.kit.blocks import Page
    from rfnb.display.kit.view import View
    from rfnb.trace.run.run import Run


def connect_notebook() -> None:
    """Shows errors in notebooks, follows their cells, and answers the panel."""
    show_in_notebooks()
    follow_cells()
    answer_the_panel()


def follow_cells() -> None:
    """Gives an IPython shell `%%record_loops`, and lets the panel record the loops of all cells."""
    shell = ipython_shell()
    if shell is not None:
        from rfnb.trace.plain.cells import cells

        cells.follow(shell)


def answer_the_panel() -> None:
    """Opens the line to the panel in the kernel of a notebook; scripts and terminals do not need it."""
    kernel = getattr(ipython_shell(), "kernel", None)
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
    from rfnb.display.kit.view import OWN_VIEWS, class_name, own_view, views

    if not (inspect.isclass(cls) or (isinstance(cls, str) and "." in cls)):
        raise ViewError(
            "register_view: `cls` must be a class, or its full name", got=repr(cls), expected='"module.Class"'
        )
    kind = cls if isinstance(cls, str) else class_name(cls)
    views().kinds[kind] = kind
    OWN_VIEWS[kind] = own_view(make)
    shell = ipython_shell()
    if shell is not None:  # also where they are the result of a cell
        shell.display_formatter.mimebundle_formatter.for_type(cls, lambda shown: _view_of(shown)._repr_mimebundle_())


@view_of.register
def _view_of(shown: object) -> View | None:
    """The view of an object; None if its class has none."""
    from rfnb.display.kit import view

    return None if view.kind_of(shown) is None else view.view_of(shown)


@make_line.register
def line(name: str, x: Tensor, live: np.ndarray | None) -> str:
    """A tensor in one line."""
    from rfnb.display.tensor.value import one_line

    return one_line(name, x, live)


@make_dot.register
def dot_of(graph: ModelGraph, **choice: Any) -> object:
    """The Graphviz source of a model graph, folded like `rf.show(graph, **choice)`."""
    from rfnb.display.graph import view

    return view.to_dot(view.describe(graph, **choice))


@make_page.register
def save_page(run: Run, path: Path, limit: int | None) -> Path:
    """Writes a run as a page."""
    from rfnb.display.run import page

    return page.save_page(run, path, limit)
