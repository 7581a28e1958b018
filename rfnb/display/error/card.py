"""Cards for errors of rfnb that end a cell: HTML in a notebook, a short text in a terminal.

IPython takes the lines of a traceback from `_render_traceback_`, if the exception has this method.
"""

from __future__ import annotations

import traceback
import weakref
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import untaped
from rfnb.core.ground.source import ipython_shell
from rfnb.errors import RfError

if TYPE_CHECKING:
    from rfnb.display.kit.view import View

OWN_MODES = ("Verbose", "Docs", "Minimal")
"""Modes of `%xmode` in which IPython shows errors of rfnb like all others."""

_shown: list[tuple[weakref.ref[RfError], int]] = []
"""The error whose card was shown last, and its cell: IPython renders an error twice, to show and to store it."""


def show_in_notebooks() -> None:
    """Makes IPython show errors of rfnb as cards."""
    RfError._render_traceback_ = render_traceback


def render_traceback(error: RfError) -> list[str]:
    """The lines of the traceback. In a notebook the card is shown first, and the traceback is short."""
    shell = ipython_shell()
    try:
        if shell is None or shell.InteractiveTB.mode in OWN_MODES:
            return _of_ipython(shell, error)
        with untaped():
            view = _card(error)
            if getattr(shell, "kernel", None) is None:
                return view.text.split("\n")
            _publish_once(shell, error, view)
            return _short(error)
    except Exception:
        return _of_ipython(shell, error)


def _card(error: RfError) -> View:
    """The card of an error. Raises if it cannot be made."""
    from rfnb.display.error import view as error_view
    from rfnb.display.kit import blocks
    from rfnb.display.kit.view import View

    page = error_view.describe(error)
    blocks.to_text(page), blocks.to_html(page)  # a View never raises
    return View(page)


def _publish_once(shell: Any, error: RfError, view: View) -> None:
    key = weakref.ref(error), shell.execution_count
    if _shown != [key]:
        _shown[:] = [key]
        shell.display_pub.publish(view._repr_mimebundle_())


def _short(error: RfError) -> list[str]:
    """The place and message of an error, on one line."""
    from rfnb.display.error.view import place_of

    source = place_of(error)
    place = f"{source.place()}: " if source else ""
    return [f"{type(error).__name__}: {place}{error.what}"]


def _of_ipython(shell: Any, error: RfError) -> list[str]:
    """The traceback as for any other error."""
    if shell is None:
        return "".join(traceback.format_exception(error)).split("\n")
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines
