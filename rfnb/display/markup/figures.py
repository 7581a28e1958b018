"""Figures of matplotlib, for papers and slides."""

from __future__ import annotations

import io
from typing import Any

from rfnb.core.ground.text import cut
from rfnb.errors import ViewError
from rfnb.printable import printable_name

LONGEST = 30
"""Longest label, in characters."""


def figure_class() -> Any:
    """The figure class of matplotlib, with a picture for notebooks that works without pyplot."""
    try:
        from matplotlib.figure import Figure as Base
    except ImportError:
        raise ViewError("figure: matplotlib is not installed", hint="pip install matplotlib") from None

    class Figure(Base):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Figure


def literal(label: str) -> str:
    """Text on one line, shortened, in which `$` does not start a formula."""
    label = printable_name(label)
    return cut(label, LONGEST).replace("$", r"\$")
