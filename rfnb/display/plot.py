"""Matplotlib figures of views, for papers and slides."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.display.numbers import real
from rfnb.display.png import SEQUENTIAL
from rfnb.errors import ViewError


def figure(view: Any) -> Any:
    """A figure of an attention view. Raises ViewError for other views, or without matplotlib."""
    if view["kind"] != "attention":
        raise ViewError("figure: only attention has one so far", got=view["kind"])
    try:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
    except ImportError:
        raise ViewError("figure: matplotlib is not installed", hint="pip install matplotlib") from None
    weights = np.array([[real(w) for w in row] for row in view["weights"]]).reshape(len(view["rows"]), -1)
    size = [min(12.0, 1.5 + 0.3 * n) for n in (len(view["cols"]), len(view["rows"]))]
    made = Figure(figsize=(size[0], size[1]), layout="constrained")
    axes = made.subplots()
    axes.imshow(weights, cmap=LinearSegmentedColormap.from_list("rfnb", SEQUENTIAL), aspect="auto", vmin=0)
    axes.set_xticks(range(len(view["cols"])), [_literal(label) for label in view["cols"]])
    axes.set_yticks(range(len(view["rows"])), [_literal(label) for label in view["rows"]])
    axes.set_xlabel(_literal(view["col_dim"]["name"]))
    axes.set_ylabel(_literal(view["row_dim"]["name"]))
    axes.set_title(_literal(view["tag"] or view["name"]))
    return made


def _literal(label: str) -> str:
    """As it is written: `$` does not start maths."""
    return label.replace("$", r"\$")
