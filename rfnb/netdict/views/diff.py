"""The views of the difference of two nets, and of a comparison of their values."""

from __future__ import annotations

from itertools import groupby

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, join
from rfnb.netdict.code.compare import NetComparison
from rfnb.netdict.code.diff import NetDiff

COLOURS = {"added": style.PALETTE[2], "gone": style.ALARM, "renamed": style.PALETTE[0], "changed": style.WARN}
MOST = 200
"""Largest number of rows, and of boxes of the picture."""


@page.shows("net_diff", "rfnb.netdict.code.diff.NetDiff", "rfnb.netdict.code.compare.NetComparison")
def describe(shown: NetDiff | NetComparison) -> page.Page:
    """What differs."""
    return describe_comparison(shown) if isinstance(shown, NetComparison) else describe_diff(shown)


def describe_diff(shown: NetDiff) -> page.Page:
    """The counts, a strip of all layers, and a row for each difference."""
    kinds = {"added": shown.added, "gone": shown.gone, "renamed": list(shown.renamed), "changed": shown.changed}
    counts = [(kind, len(paths)) for kind, paths in kinds.items() if paths]
    a, b = shown.names
    words: list[page.Words] = [page.name(a), " → ", page.name(b), " "]
    words += [page.chip(f"{count} {kind}", COLOURS[kind]) for kind, count in counts] or [page.quiet("no difference")]
    text = ", ".join(f"{count} {kind}" for kind, count in counts) or "no difference"
    rows = [["added", path, "", "", ""] for path in shown.added]
    rows += [["gone", path, "", "", ""] for path in shown.gone]
    rows += [["renamed", new, "", old, new] for old, new in shown.renamed.items()]
    rows += [["changed", x.layer, x.option, _short(x.before), _short(x.after)] for x in shown.changes]
    after = [[x.layer or "all", x.what, x.before, x.after] for x in shown.consequences]
    blocks: list[page.Block] = [
        page.Line(page.Span(words, text=f"{a} → {b}: {text}"), look=style.HEAD),
        page.Figure(_strip(shown)),
        page.Grid(rows[:MOST], ["", "layer", "option", "before", "after"]) if rows else None,
        page.Fold("what follows", [page.Grid(after[:MOST], ["layer", "", "before", "after"])], is_open=True)
        if after
        else None,
        page.Note(f"{len(rows) - MOST} more rows" if len(rows) > MOST else None),
        *(page.Note(note) for note in shown.notes),
    ]
    table = page.Table(["what", "layer", "option", "before", "after"], [*rows, *(["follows", *row] for row in after)])
    return page.Page("net_diff", f"{a} → {b}", blocks, table)


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) < 3 else f"{value!r:.80}"


def _strip(shown: NetDiff) -> Html:
    """A box for each layer, in the order of the second net; those between differences are counted."""
    kinds = dict.fromkeys(shown.added, "added") | dict.fromkeys(shown.gone, "gone")
    kinds |= dict.fromkeys(shown.changed, "changed")
    kinds = dict.fromkeys(shown.renamed.values(), "renamed") | kinds
    boxes: list[Html] = []
    for kind, paths in groupby(shown.layers[:MOST], lambda path: kinds.get(path, "")):
        if kind:
            more = ";text-decoration:line-through" if kind == "gone" else ""
            boxes += [_box(path, COLOURS[kind], more) for path in paths]
        else:
            boxes.append(_box(f"{len([*paths])} equal", style.GREY, ""))
    return el("div", join(boxes), style="display:flex;flex-wrap:wrap;gap:4px;margin:6px 0;font-size:12px")


def _box(text: str, colour: str, more: str) -> Html:
    look = f"border:1px solid {colour};border-left:4px solid {colour};border-radius:3px;padding:1px 6px{more}"
    return el("span", text, " ", style=look)


def describe_comparison(shown: NetComparison) -> page.Page:
    """The first layer that differs, and a row for each one."""
    a, b = shown.names
    first = shown.first
    verdict = "all layers agree" if first is None else f"{first.layer} is the first layer that differs"
    colour = style.GREY if first is None else style.ALARM
    rows = [[x.layer, x.other if x.other != x.layer else "", x.what] for x in shown.differences]
    counts = f"{count_of(len(shown.agree), 'layer')} agree, {len(rows)} differ"
    blocks: list[page.Block] = [
        page.Line(
            page.Span([page.name(a), " and ", page.name(b), " ", page.chip(verdict, colour), page.quiet(counts)],
                 text=f"{a} and {b}: {verdict} ({counts})"),
            look=style.HEAD,
        ),
        page.Grid(rows[:MOST], ["layer", "in the other net", "difference"]) if rows else None,
        page.Facts([
            (words, ", ".join(paths)) for words, paths in (
                (f"only in {a}", shown.only_a), (f"only in {b}", shown.only_b), ("NaN in both", shown.not_numbers),
            ) if paths
        ]),
    ]  # fmt: skip
    table = page.Table(["layer", "other", "difference"], [[x.layer, x.other, x.what] for x in shown.differences])
    return page.Page("net_comparison", f"{a} and {b}", blocks, table)
