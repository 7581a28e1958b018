"""How an error of rfnb is shown where it ends a cell: as a card in a notebook, as a short text in a terminal.

IPython asks an exception that has `_render_traceback_` for the lines of its traceback; others it shows as ever.
"""

from __future__ import annotations

import sys
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import untaped
from rfnb.errors import RfError

if TYPE_CHECKING:
    from rfnb.display.kit.view import View

OWN_MODES = ("Verbose", "Docs", "Minimal")
"""Modes of `%xmode` in which IPython shows our errors as any other."""

_shown: list[tuple[weakref.ref[RfError], int]] = []
"""The error whose card was shown last, and in which cell: IPython asks again for the text that it stores."""


def show_in_notebooks() -> None:
    """From now on, IPython shows errors of rfnb so."""
    RfError._render_traceback_ = render_traceback  # type: ignore[attr-defined]


def render_traceback(error: RfError) -> list[str]:
    """The lines of the traceback. In a notebook the card is shown before, and they are few."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    try:
        if shell is None or shell.InteractiveTB.mode in OWN_MODES:
            return _of_ipython(shell, error)
        with untaped():
            view = _card(error)
            if getattr(shell, "kernel", None) is None:
                return view.text.split("\n")
            _publish_once(shell, error, view)
            return _short(view)
    except Exception:
        return _of_ipython(shell, error)


def _card(error: RfError) -> View:
    """Raises what stands in the way of the card."""
    from rfnb.display.error import view as error_view
    from rfnb.display.kit.view import View

    view = error_view.describe(error)
    error_view.to_text(view), error_view.to_html(view)  # a View never raises
    return View(view)


def _publish_once(shell: Any, error: RfError, view: View) -> None:
    shown = weakref.ref(error), shell.execution_count
    if _shown != [shown]:
        _shown[:] = [shown]
        shell.display_pub.publish(view._repr_mimebundle_())


def _short(view: View) -> list[str]:
    """The sentence and the place."""
    code = view.data["code"]
    place = f"{code['place']}: " if code else ""
    return [f"{view.data['name']}: {place}{view.data['what']}"]


def _of_ipython(shell: Any, error: RfError) -> list[str]:
    """As any other error."""
    if shell is None:
        return "".join(traceback.format_exception(error)).split("\n")
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines
