"""Views as files: the suffix of the name decides what is written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rfnb.display.kit.page import view_page
from rfnb.errors import ViewError
from rfnb.printable import visible

if TYPE_CHECKING:
    from rfnb.display.kit.view import View

DPI = 200
"""Resolution of PNG files."""


def content(view: View, path: Path) -> str | bytes:
    """The content of the file with this name. Raises ViewError for a suffix that the view does not support."""
    formats = formats_of(view)
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in formats:
        raise ViewError(
            f"save: a view of kind {view.data['kind']!r} cannot be written to {path.name!r}",
            got=f"the suffix {path.suffix!r}" if suffix else "a name without a suffix",
            expected=", ".join(formats),
        )
    return formats[suffix](view)


def formats_of(view: View) -> dict[str, Callable[[View], str | bytes]]:
    """What can be written of a view, by suffix."""
    formats: dict[str, Callable[[View], str | bytes]] = {"html": _html, "json": _json, "txt": _txt}
    if view.has("to_table"):
        formats["csv"] = _csv
    if view.has("to_figure"):
        formats |= {form: _figure(form) for form in ("svg", "pdf", "png")}
    if (picture := view.svg) is not None:
        formats["svg"] = lambda _: picture
    return formats


def _html(view: View) -> str:
    title = str(view.data.get("name") or view.data["kind"])
    return view_page(title, view.html, view.scripts)


def _json(view: View) -> str:
    return json.dumps(view.data)


def _txt(view: View) -> str:
    return view.full_text + "\n"


def _csv(view: View) -> str:
    table, file = view.table(), io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    return visible(file.getvalue())


def _figure(form: str) -> Callable[[View], bytes]:
    def drawn(view: View) -> bytes:
        file = io.BytesIO()
        view.figure().savefig(file, format=form, dpi=DPI)
        return file.getvalue()

    return drawn
