"""Curves of a training loop as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.display.markup.figures import figure_class, literal
from rfnb.display.markup.numbers import real
from rfnb.display.training.plot import colour, extent

if TYPE_CHECKING:
    from rfnb.display.training.schema import ProgressView


def to_figure(view: ProgressView) -> Any:
    """One plot for each measure, side by side. Raises ViewError without matplotlib."""
    Figure = figure_class()
    curves = [curve for curve in view["curves"] if curve["steps"]]
    figure = Figure(figsize=(3.6 * max(1, len(curves)), 2.4), layout="constrained")
    places = figure.subplots(1, max(1, len(curves)), squeeze=False).flat
    for number, (axes, curve) in enumerate(zip(places, curves, strict=False)):
        steps, (low, high, log) = curve["steps"], extent(curve)
        bounds = [[real(value) for value in curve[side]] for side in ("low", "high")]
        axes.fill_between(steps, *bounds, color=colour(number), alpha=0.3, linewidth=0)
        axes.plot(steps, [real(value) for value in curve["smooth"]], color=colour(number), linewidth=1.5)
        axes.set(title=literal(curve["name"]), xlabel="step", ylim=(low, high), yscale="log" if log else "linear")
    return figure
