"""Iterates over the batches of a training loop, and shows progress and reported measures, with a curve for each."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import count
from numbers import Real
from typing import Any, Generic, Literal, TypedDict, TypeVar
from weakref import ref

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.run_ctx import Loss, get_run_ctx
from rfnb.display.kit import blocks as page
from rfnb.display.kit.progress_bar import DisplayPlace, new_bar
from rfnb.display.kit.view import View
from rfnb.display.markup import style, svg
from rfnb.display.markup.html import Html, chip, el, quiet
from rfnb.display.markup.numbers import Number, bars, plain, real, short
from rfnb.display.markup.svg import Point, data_uri, figure_class, literal
from rfnb.display.training.history import BinnedCurve, MeasureHistory
from rfnb.errors import ParameterError
from rfnb.printable import encodable, visible
from rfnb.trace.plain.record import record_loop
from rfnb.trace.plain.recorder import recording_here
from rfnb.trace.probe.probe import followers
from rfnb.trace.run.job import KERNEL, in_job, write_json
from rfnb.trace.run.options import in_notebook
from rfnb.trace.run.session import should_record, should_store, waits_for

WIDTH = 32
"""Number of blocks of a curve in text."""


class LossCurve(TypedDict):
    """A measure over the steps of training. Bins of several steps have their last step, lowest and highest value."""

    name: str
    steps: list[int]
    low: list[Number]
    high: list[Number]
    smooth: list[Number]  # the running mean
    last: Number | None
    peak: Literal["lowest", "highest"]  # which extreme is shown: the lowest value, unless the curve began with it
    peak_value: Number | None
    peak_at: int | None
    bad: int  # values that are not finite
    first_bad: int | None  # at which step


class ProgressView(TypedDict):
    """A training loop: its progress and reported measures."""

    kind: Literal["progress"]
    name: str
    steps: int
    total: int | None  # of an epoch
    epoch: int  # from 1
    stopped: bool  # before the batches ended
    curves: list[LossCurve]
    note: str | None


@page.shows("progress", "rfnb.display.training.progress.Progress")
def describe(progress: Progress) -> ProgressView:
    """The curves to draw, as JSON."""
    try:
        total = len(progress)
    except TypeError:
        total = None
    return {
        "kind": "progress",
        "name": progress.name or "",
        "steps": progress.step + 1,
        "total": total,
        "epoch": progress.epoch,
        "stopped": progress.stopped and not progress.running,
        "curves": [describe_curve(name, curve, progress.smooth) for name, curve in progress.curves.items()],
        "note": progress.note,
    }


def describe_curve(name: str, curve: BinnedCurve, smooth: float | None) -> LossCurve:
    """A curve as JSON. smooth: how many values its running mean is over."""

    def numbers(values: list[float]) -> list[Number]:
        return [plain(float(f"{value:.5g}")) for value in values]

    at_start = curve.lowest is not None and curve.lowest[0] <= curve.bins[len(curve.bins) // 20].step
    rising = at_start and curve.highest != curve.lowest
    peak = curve.highest if rising else curve.lowest
    return {
        "name": name,
        "steps": [part.step for part in curve.bins],
        "low": numbers([part.low for part in curve.bins]),
        "high": numbers([part.high for part in curve.bins]),
        "smooth": numbers(curve.smoothed(curve.over(smooth))),
        "last": plain(curve.last[1]) if curve.last else None,
        "peak": "highest" if rising else "lowest",
        "peak_value": plain(peak[1]) if peak else None,
        "peak_at": peak[0] if peak else None,
        "bad": curve.bad,
        "first_bad": curve.first_bad if curve.bad else None,
    }


# -- words


def _place(view: ProgressView) -> str:
    """`120 of 400 steps, stopped`"""
    steps, total, epoch = view["steps"], view["total"], view["epoch"]
    if epoch > 1 or total is None:
        words = count_of(steps, "step") + (f", epoch {epoch}" if epoch > 1 else "")
    else:
        words = f"{steps:,} of {count_of(total, 'step')}"
    return f"{words}, stopped" if view["stopped"] else words


def _peak(curve: LossCurve) -> str:
    return f"{curve['peak']} {short(curve['peak_value'])} at step {curve['peak_at']}" if curve["steps"] else ""


def _bad(curve: LossCurve) -> str:
    if not curve["bad"]:
        return ""
    return f"not finite at step {curve['first_bad']}" + (f" and {curve['bad'] - 1} more" if curve["bad"] > 1 else "")


def to_page(view: ProgressView) -> page.Page:
    """A plot for each measure, as many per row as fit; in a terminal, a line for each."""
    curves, columns = view["curves"], ["measure", "last", "running mean", "lowest or highest", "at step", "not finite"]
    lines = [[c["name"], short(c["last"]), _blocks(c), _peak(c), f"! {_bad(c)}" if c["bad"] else ""] for c in curves]
    rows = [
        [c["name"], c["last"], c["smooth"][-1] if c["smooth"] else None, c["peak_value"], c["peak_at"], c["bad"]]
        for c in curves
    ]
    plots = el("div", [picture(curve, number) for number, curve in enumerate(curves)])
    blocks: list[page.Block] = [
        page.Line(
            page.Span(f"{view['name']}  ", style.NAME) if view["name"] else None,
            page.Span(_place(view), style.QUIET),
            look=style.HEAD,
        ),
        page.Only("text", [page.Grid(lines)]) if lines else None,
        page.Figure(plots),
        page.Note(view["note"]),
    ]
    return page.Page("progress", view["name"] or "", blocks, page.Table(columns, rows))


def _blocks(curve: LossCurve) -> str:
    values = curve["smooth"]
    return bars([values[round(i * (len(values) - 1) / (WIDTH - 1))] for i in range(WIDTH)] if values else [])


def picture(curve: LossCurve, number: int) -> Html:
    """The plot of a measure, with its last value above. number: of its colour."""
    look = f"border-bottom:3px solid {colour(number)};font-weight:bold"
    words = f"{curve['name']} {short(curve['last'])}, {_peak(curve)}"
    source = data_uri(str(plot(curve, colour(number)))) if curve["steps"] else None
    return el(
        "div",
        el("div", el("span", curve["name"], style=look), f" {short(curve['last'])} ", quiet(_peak(curve)), " ",
           chip(_bad(curve), style.ALARM) if curve["bad"] else None),
        el("img", src=source, alt=words, width=int(SIZE[0]), style="max-width:100%") if source else None,
        style="display:inline-block;vertical-align:top;max-width:100%;margin-right:12px",
    )  # fmt: skip


B = TypeVar("B")
_serials = count(1)
PAUSE = 0.4
"""Smallest time between two updates of the display, in seconds."""
SHARE = 200
"""Smallest time between two updates, as a multiple of the time that one takes."""


class Progress(Shown, Generic[B]):
    """The result of `rf.progress`: an iterable of the batches."""

    def __init__(
        self,
        batches: Iterable[B],
        *,
        total: int | None = None,
        plot: bool | Collection[str] = True,
        smooth: float | None = None,
        name: str | None = None,
    ):
        iterable = isinstance(batches, Iterable) or hasattr(batches, "__getitem__")
        for argument, value, fits, expected in (
            ("batches", batches, iterable, "an iterable"),
            ("total", total, total is None or (isinstance(total, Real) and total >= 0), "a number of batches, or None"),
            ("smooth", smooth, smooth is None or isinstance(smooth, Real), "a number of values, or None"),
            ("name", name, name is None or isinstance(name, str), "a text, or None"),
        ):
            if not fits:
                got = f"{type(value).__name__} {value!r:.40}"
                raise ParameterError(f"progress: `{argument}` is of the wrong kind", got=got, expected=expected)
        self.batches, self.total, self.name = batches, total, name
        self.plot, self.smooth = [plot] if isinstance(plot, str) else plot, smooth
        self.step, self.epoch = -1, 0
        self.running = self.stopped = False
        self._serial = next(_serials)
        self._history = MeasureHistory()
        self._marked: dict[str, ref[Loss]] = {}
        self._reported: set[str] = set()
        self.note: str | None = None
        self._plot_place = DisplayPlace()
        self._running: Any = None  # the bar of the epoch that runs
        self._next = 0.0

    # -- going on

    def __iter__(self) -> Iterator[B]:
        """Iterates over the batches. Each iteration is an epoch; steps and history continue.

        The loop is recorded as an `rf.Loop` would be: in notebooks, or if a condition may pause it.
        """
        name = self.name or "training"
        if should_record(None, name) or sys._getframe(1) in recording_here().frames:  # which takes the name from here
            caller, stores = "progress" if waits_for(name) else "", should_store(None)
            record_loop(sys._getframe(1), name, caller=caller, stores=stores, pausing=self._draw_now)
        return self.unrecorded()

    def unrecorded(self) -> Generator[B]:
        """Iterates over the batches, for a loop that belongs to another library, which is not recorded."""
        self.epoch += 1
        self.running = self.stopped = True
        self._remember_marked()
        bar = self._running = self._bar()
        try:
            for batch in self.batches:
                self.step, self._reported = self.step + 1, set()
                counted = followers.count
                yield batch
                self._take_marked()
                followers.after_step(counted, self.name, self._measures)
                bar.update()
                if time.monotonic() >= self._next:
                    self._draw(bar)
            self.stopped = False
        finally:
            self.running = False
            self._draw(bar)
            bar.leave = not self._plot_place.is_used
            bar.close()
            self._running = None

    def __len__(self) -> int:
        """Number of batches in an epoch. Raises TypeError if it is unknown."""
        batches: Any = self.batches
        return len(batches) if self.total is None else self.total

    def report(self, **measures: object) -> None:
        """Reports measures of this step: numbers, Tensors (by their mean), or torch tensors with one entry.

        >>> progress = rf.progress(range(3))
        >>> for batch in progress:
        ...     progress.report(loss=0.5**batch)
        >>> progress.history[-1]
        {'epoch': 1, 'step': 2, 'loss': 0.25}

        After the loop they belong to its last step: `progress.report(dev_loss=…)`. Raises ViewError for more than one
        number without dims.
        """
        self._history.report({"epoch": self.epoch, "step": max(self.step, 0)}, measures)
        self._reported.update(measures)
        if not self.running and self._plot_place.is_used:
            self._draw(None)

    def _remember_marked(self) -> None:
        self._marked = {name: ref(loss) for name, loss in get_run_ctx().losses.items()}

    def _take_marked(self) -> None:
        """Reports the losses that were marked in this step, unless they were reported already."""
        losses = get_run_ctx().losses
        new: dict[str, Loss] = {
            name: loss
            for name, loss in losses.items()
            if name not in self._reported and (name not in self._marked or self._marked[name]() is not loss)
        }
        if new:
            self._history.report({"epoch": self.epoch, "step": self.step}, new)
            self._remember_marked()

    def _measures(self) -> dict[str, float]:
        """The running mean of each measure, or its last value if that is not finite."""
        self._history.read()
        curves = {name: curve for name, curve in self._history.curves.items() if curve.last}
        return {name: curve.recent(self.smooth) for name, curve in curves.items()}

    # -- looking back

    @property
    def history(self) -> list[dict[str, float]]:
        """All reports, one dict per step, for `pandas.DataFrame(progress.history)`."""
        return self._history.rows()

    @property
    def curves(self) -> dict[str, BinnedCurve]:
        """The curves to draw, by measure."""
        self._history.read()
        choice = self.plot
        if isinstance(choice, bool):
            return dict(self._history.curves)
        return {name: self._history.curves[name] for name in choice if name in self._history.curves}

    def table(self) -> page.Table:
        """The history with a column for each measure."""
        return self._history.table()

    def figure(self) -> Any:
        """The curves as a matplotlib figure. Raises ViewError without matplotlib."""

        return to_figure(describe(self))

    # -- showing

    def _bar(self) -> Any:
        try:
            total: int | None = len(self)
        except TypeError:
            total = None
        is_hidden = not _is_first() or KERNEL in os.environ
        return new_bar(self._title(), total=total, unit="step", disable=is_hidden, mininterval=0.2)

    def _title(self) -> str:
        return " ".join([*filter(None, [self.name]), f"epoch {self.epoch}"]) if self.epoch > 1 else self.name or ""

    def _draw(self, bar: Any) -> None:
        """Updates the values next to the bar, and the plot. Errors here do not stop the training."""
        began = time.thread_time()
        try:
            if bar is not None:
                bar.set_postfix_str(encodable(visible(self._last())), refresh=False)
            in_job(lambda folder: write_json(folder / f"progress-{self._serial}.json", describe(self)))
            if self.plot and _is_first() and in_notebook() and self.curves:
                self._plot_place.show(self._repr_mimebundle_())
        except Exception as error:
            self.note = f"not drawn: {page.reason(error)}"
        self._next = time.monotonic() + max(PAUSE, SHARE * (time.thread_time() - began))

    def _draw_now(self) -> None:
        """Shows the state of now, as nothing is drawn during a pause."""
        if self._running is not None:
            self._draw(self._running)
            self._running.refresh()

    def _last(self) -> str:
        values = {name: curve.last[1] for name, curve in self.curves.items() if curve.last}
        return ", ".join(f"{name} {short(value)}" for name, value in values.items())


class ShownLoops:
    """The loops of another process, shown here as those of this one: bars, and in notebooks curves below the cell."""

    def __init__(self) -> None:
        self._bars: dict[tuple[str, int], Any] = {}  # by loop and epoch
        self._plots: dict[str, DisplayPlace] = defaultdict(DisplayPlace)

    def update(self, loop: str, view: ProgressView) -> None:
        """Shows how far a loop is."""
        epoch, total = view["epoch"], view["total"]
        bar = self._bars.get((loop, epoch))
        if bar is None:
            if (finished := self._bars.get((loop, epoch - 1))) is not None:
                finished.update((total or finished.n) - finished.n)
                finished.close()
            title = f"{view['name']} epoch {epoch}" if epoch > 1 else view["name"]
            bar = self._bars[loop, epoch] = new_bar(title, total=total, unit="step")
        bar.update(view["steps"] - (epoch - 1) * (total or 0) - bar.n)
        measures = ", ".join(f"{curve['name']} {short(curve['last'])}" for curve in view["curves"])
        bar.set_postfix_str(encodable(visible(measures)))
        if in_notebook() and view["curves"]:
            self._plots[loop].show(View(view)._repr_mimebundle_())

    def close(self) -> None:
        """Ends the bars."""
        for bar in self._bars.values():
            bar.close()


def _is_first() -> bool:
    """Whether this process is the first of those that train together; only that one shows progress."""
    return os.environ.get("RANK", "0") == "0"


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


def to_figure(view: ProgressView) -> object:
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
