"""Statistics in views: one line of text, or of HTML."""

from __future__ import annotations

from rfnb.display import style
from rfnb.display.html import Html, el, join
from rfnb.display.numbers import bars, short
from rfnb.display.schema import StatsView


def stats_text(stats: StatsView, *, ids: bool = False) -> str:
    """`μ 0.1  σ 1.2  [-2 ▁▃█▃▁ 2]  1 NaN at batch 1, time 2`; numbers that are names (`ids`) have no mean."""
    parts = [] if ids or same(stats) else [f"μ {short(stats['mean'])}", f"σ {short(stats['std'])}"]
    parts += [range_text(stats), *alarms(stats), *sampled(stats)]
    return "  ".join(parts)


def range_text(stats: StatsView) -> str:
    """`[-2 ▁▃█▃▁ 2]`, or `all 2`"""
    if same(stats):
        return f"all {short(stats['min'])}"
    between = bars(stats["histogram"]) if stats["histogram"] else ".."
    return f"[{short(stats['min'])} {between} {short(stats['max'])}]"


def same(stats: StatsView) -> bool:
    """Whether all finite entries are equal."""
    return stats["min"] == stats["max"]


def alarms(stats: StatsView) -> list[str]:
    """`2 NaN, 1 Inf, first at batch 1 ('banana'), time 2`"""
    counts = [f"{stats[key]:,} {word}" for key, word in (("nan", "NaN"), ("inf", "Inf")) if stats[key]]  # type: ignore[literal-required]
    if not counts:
        return []
    many = stats["nan"] + stats["inf"] > 1
    where = f"{', first' if many else ''} at {stats['first_bad']}" if stats["first_bad"] else ""
    return [", ".join(counts) + where]


def sampled(stats: StatsView) -> list[str]:
    """`of a sample of 1,000,000 entries`"""
    return [f"of a sample of {stats['sampled']:,} entries"] if stats["sampled"] is not None else []


def stats_html(stats: StatsView, *, ids: bool = False) -> Html:
    """The same on one line, what is wrong first."""
    quiet = [] if ids or same(stats) else [_pair("μ", short(stats["mean"])), _pair("σ", short(stats["std"]))]
    return el(
        "div",
        [el("span", alarm, style=style.chip(style.ALARM)) for alarm in alarms(stats)],
        quiet,
        el("span", range_text(stats), style=style.NUMBERS + ";white-space:nowrap"),
        [el("span", " ", text, style=style.QUIET) for text in sampled(stats)],
    )


def _pair(sign: str, number: str) -> Html:
    return join(
        el("span", sign + " ", style=style.QUIET), el("span", number, style=style.NUMBERS + ";margin-right:12px")
    )
