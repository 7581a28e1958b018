"""Curves as SVG and as a figure of matplotlib: reported values in pale, and their running mean on top."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.display.markup import style, svg
from rfnb.display.markup.figures import figure_class, literal
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import real, short
from rfnb.display.markup.svg import Point
from rfnb.display.training.schema import LossCurve

if TYPE_CHECKING:
    from rfnb.display.training.schema import ProgressView


SIZE = (340.0, 150.0)
LEFT, RIGHT, TOP, BOTTOM = 48.0, 8.0, 8.0, 18.0
FAR = 50.0
"""Ratio of highest to lowest value from which the axis is logarithmic."""


def plot(curve: LossCurve, colour: str) -> Html:
    """The plot of one measure."""
    steps = curve["steps"]
    low, high, log = extent(curve)
    first, last = steps[0], steps[-1]
    numbers = ticks(first, last, False) if first < last else [first]  # one alone is in the middle

    def place(step: float, value: float) -> Point:
        x = LEFT + ((step - first) / (last - first) if first < last else 0.5) * (SIZE[0] - LEFT - RIGHT)
        part = _share(min(max(value, low), high), low, high, log)
        return x, TOP + (1 - part) * (SIZE[1] - TOP - BOTTOM)

    ranges = zip(steps, curve["high"], curve["low"], strict=True)
    raw = [place(step, real(v)) for step, high, low in ranges for v in ((high,) if high == low else (high, low))]
    smooth = [place(step, real(v)) for step, v in zip(steps, curve["smooth"], strict=True)]
    return svg.image(
        *SIZE,
        *(part for value in ticks(low, high, log) for part in _level(value, place(first, value)[1])),
        *(_step(step, place(step, low)[0]) for step in numbers if step == int(step)),
        _line(raw, stroke=colour, stroke_width=1, opacity=0.4),
        _line(smooth, stroke=colour, stroke_width=2 if len(smooth) > 1 else 6),
    )


def extent(curve: LossCurve) -> tuple[float, float, bool]:
    """Ends of the axis, without a few outliers, and whether it is logarithmic."""
    lows, highs = sorted(map(real, curve["low"])), sorted(map(real, curve["high"]))
    smooth = list(map(real, curve["smooth"]))
    odd = len(lows) // 50
    low, high = min(lows[odd], *smooth), max(highs[-1 - odd], *smooth)
    log = low > 0 and high / low > FAR
    if high - low <= 1e-9 * abs(high):
        low, high = low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10
    return low, high, log


def ticks(low: float, high: float, log: bool) -> list[float]:
    """A few round numbers between two ends.

    >>> ticks(0.13, 2.9, False), ticks(0.002, 40.0, True), ticks(0.002, 0.12, True)
    ([1.0, 2.0], [0.01, 0.1, 1.0, 10.0], [0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
    """
    if log:
        powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
        factors = (1, 2, 5) if len(powers) <= 3 else (1,)
        marks = [float(f"{factor}e{power}") for power in powers for factor in factors]
        marks = [value for value in marks if low <= value <= high]
        return marks[:: -(-len(marks) // 6) or 1]
    rough = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(width * power for width in (1, 2, 5, 10) if width * power >= rough * 0.95)
    first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
    return [float(f"{n * width:.9g}") for n in range(first, last + 1)]


def _share(value: float, low: float, high: float, log: bool) -> float:
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def _level(value: float, y: float) -> list[Html]:
    return [
        _line([(LEFT, y), (SIZE[0] - RIGHT, y)], stroke=style.GREY, stroke_width=1, opacity=0.25),
        svg.words(LEFT - 5, y + 4, short(value), fill=svg.WORDS, text_anchor="end"),
    ]


def _step(step: float, x: float) -> Html:
    anchor = "end" if x > SIZE[0] - RIGHT - 12 else "middle"
    return svg.words(x, SIZE[1] - 4, short(int(step)), fill=svg.WORDS, text_anchor=anchor)


def _line(points: Sequence[Point], **attrs: object) -> Html:
    track = points if len(points) > 1 else [*points, *points]  # one alone is a dot
    path = "M" + "L".join(f"{svg.number(x)},{svg.number(y)}" for x, y in track)
    return el("path", d=path, fill="none", stroke_linejoin="round", stroke_linecap="round", **attrs)


def colour(number: int) -> str:
    """The colour of a measure, by its number, in all drawings."""
    return style.PALETTE[number % len(style.PALETTE)]


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
