"""Statistics as one line of text or HTML."""

from __future__ import annotations

from rfnb.display.kit import options
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import amount, bars, percent, real, short
from rfnb.display.markup.widgets_html import quiet
from rfnb.display.tensor.schema import BadView, TensorStats
from rfnb.display.tensor.stats import same

WHOLE = ";display:inline-block;margin-bottom:2px"
"""Style that keeps a chip on one line."""


def stats_text(stats: TensorStats, *, ids: bool = False) -> str:
    """`μ 0.1  σ 1.2  [-2 ▁▃█▃▁ 2]  1 NaN at batch 1, time 2`; `ids` have no mean."""
    parts = [f"{sign} {number}" for sign, number in moments(stats, ids=ids)]
    return "  ".join([*parts, *spread(stats), *alarms(stats), *warnings(stats), *facts(stats)])


def moments(stats: TensorStats, *, ids: bool) -> list[tuple[str, str]]:
    """Mean and deviation with their signs; empty where they would mean nothing."""
    if stats["true"] is not None:
        return [("true", f"{percent(stats['true'] / stats['count'])} ({stats['true']:,} of {stats['count']:,})")]
    if ids or same(stats):
        return []
    return [("μ", short(stats["mean"])), ("σ", short(stats["std"]))]


def spread(stats: TensorStats) -> list[str]:
    """`[-2 ▁▃█▃▁ 2]`, or `all 2`; empty for bools, and if no entry is finite."""
    if stats["true"] is not None or stats["min"] == "nan":
        return []
    if same(stats):
        return [f"all {short(stats['min'])}"]
    between = bars(stats["histogram"]) if stats["histogram"] else ".."
    return [f"[{short(stats['min'])} {between} {short(stats['max'])}]"]


def alarms(stats: TensorStats) -> list[str]:
    """`2 NaN, first at batch 1 ('banana'), time 2`"""
    return [bad_text(bad) for bad in stats["bad"]]


def bad_text(bad: BadView) -> str:
    """The number of entries that are not finite in one way, and where the first is."""
    many = ", first" if bad["count"] > 1 else ""
    return f"{bad['count']:,} {bad['word']}" + (f"{many} at {bad['first']}" if bad["first"] else "")


def warnings(stats: TensorStats) -> list[str]:
    """What padding would change if lengths were ignored: `with padding μ -0.31, σ 2`."""
    padding = stats["padding"]
    if padding is None:
        return []
    if padding["bad"]:  # then there are no numbers with it
        return ["NaN or Inf in the padding"]
    return [f"padding ≠ 0: with it μ {short(padding['mean'])}, σ {short(padding['std'])}"] if _leaks(stats) else []


def facts(stats: TensorStats) -> list[str]:
    """Facts worth mentioning that are not errors."""
    lines = [f"{stats['masked']:,} −Inf, masked"] if stats["masked"] else []
    number = stats["true"] is None and stats["unique"] is None and not same(stats)
    partial = stats["count"] > options.HISTOGRAM_ENTRIES  # only they were looked at for this
    if number and stats["zeros"] >= 0.01:
        lines.append(f"{'≈ ' if partial and stats['zeros'] < 0.995 else ''}{percent(stats['zeros'])} zeros")
    if stats["unique"] is not None and not same(stats):
        lines.append(f"{'≥' if partial else ''}{stats['unique']:,} distinct")
    if stats["sampled"] is not None:
        lines.append(f"sampled {stats['sampled']:,} of {amount(stats['entries'])}")
    return lines


def stats_html(stats: TensorStats, *, ids: bool = False) -> Html:
    """Statistics as one line of HTML, errors first."""
    return el(
        "div",
        [el("span", alarm, style=style.chip(style.ALARM) + WHOLE) for alarm in alarms(stats)],
        [el("span", warning, style=style.chip(style.WARN) + WHOLE) for warning in warnings(stats)],
        [_pair(sign, number) for sign, number in moments(stats, ids=ids)],
        [el("span", text, style=style.NUMBERS + ";white-space:nowrap;margin-right:12px") for text in spread(stats)],
        [el("span", text, style=style.QUIET + ";margin-right:12px") for text in facts(stats)],
    )


def _leaks(stats: TensorStats) -> bool:
    padding = stats["padding"]
    mean, std = real(stats["mean"]), real(stats["std"])
    if padding is None or mean != mean:
        return False
    moved = abs(real(padding["mean"]) - mean) > 0.1 * std
    return moved or not 0.8 * std <= real(padding["std"]) <= 1.25 * std


def _pair(sign: str, number: str) -> Html:
    words = join(quiet(sign + " "), el("span", number, style=style.NUMBERS))
    return el("span", words, style="white-space:nowrap;margin-right:12px")
