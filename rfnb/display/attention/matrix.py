"""The large picture of one head, with its measures."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.display.attention import drawing
from rfnb.display.attention.labels import name_or_number
from rfnb.display.attention.schema import AttentionHead, AttentionView
from rfnb.display.attention.weights import SEVERAL
from rfnb.display.kit.dims import dim_pill
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.widgets_html import chip, fold, quiet
from rfnb.display.tensor.labels import shown

STILL = {"data-rfnb-still": ""}
"""Attributes of elements about the chosen head: scripts hide them, because users may choose another head."""
MEASURES = ("entropy", "monotonicity", "coverage", "diagonal")


def large(view: AttentionView, head: AttentionHead) -> Html:
    """The chosen head with its dims, scale and faults, and its picture between the labels."""
    return el(
        "div",
        el(
            "div", _which(view), dim_pill(view["row_dim"]), quiet(" down  "),
            dim_pill(view["col_dim"]), quiet(" across  "),
            drawing.scale_bar(head["scale"]), style=style.HEAD,
        ),
        el("div", [chip(flag, style.ALARM) for flag in head["flags"]], **STILL),
        _picture(view, head) if view["picture"] else quiet("(empty)", tag="div"),
        el("div", measured(head), style=style.QUIET, **STILL) if view["picture"] else None,
    )  # fmt: skip


def measured(head: AttentionHead) -> str:
    """`entropy 0.42 · monotonicity 1 · coverage 0.9 · previous`"""
    words = [f"{name} {short(rounded(head[name]))}" for name in MEASURES[:3]]  # type: ignore[literal-required]
    return " · ".join(words + ([head["role"]] if head["role"] else []))


def strongest(view: AttentionView) -> list[tuple[str, str]]:
    """The label of each row and its strongest columns, `b 0.91  a 0.05`; rows with NaN come first."""
    pairs = []
    for label, row in zip(view["rows"], view["weights"], strict=True):
        numbers = np.array(row, np.float64)
        best = np.argsort(-np.where(np.isnan(numbers), np.inf, numbers), kind="stable")[:3]
        pairs.append((shown(label), "  ".join(f"{shown(view['cols'][i])} {short(row[i])}" for i in best)))
    return pairs


def strongest_html(view: AttentionView) -> Html:
    """The strongest columns of each row, folded."""
    pairs = strongest(view)
    wide = max((len(label) for label, _ in pairs), default=0)
    look = f"{style.NUMBERS};margin:0;padding:0;background:none"
    lines = el("pre", "\n".join(f"{label:<{wide}}  {best}" for label, best in pairs), style=look)
    return fold("strongest", lines, **STILL)


def rounded(number: Any) -> Any:
    """A number rounded to two digits."""
    return plain(round(real(number), 2))


def _which(view: AttentionView) -> Html | None:
    words = which_head(view)
    return el("span", words, style=f"{style.NAME};margin-right:10px", **STILL) if words else None


def which_head(view: AttentionView) -> str:
    """`layer 3 head 5`, the head that is drawn large; empty if there is only one."""
    if len(view["heads"]) < 2:
        return ""
    head = view["heads"][0]
    layers = len({entry["layer"] for entry in view["heads"]})
    layer = head["name"] or f"layer {name_or_number('', head['layer'])}"
    words = [layer] if layers > 1 else []
    unit = view.get("unit", "head")
    words.append(f"mean of the {SEVERAL[unit]}" if head["head"] < 0 else f"{unit} {head['head']}")
    return " ".join(words)


def _picture(view: AttentionView, head: AttentionHead) -> Html:
    row_unit, col_unit = (
        " s" if view[seconds] is not None and view[labels] is None else ""  # type: ignore[literal-required]
        for seconds, labels in (("row_seconds", "row_labels"), ("col_seconds", "col_labels"))
    )
    rows, cols = view["shape"]
    return drawing.large(
        view["picture"],
        [label + row_unit for label in view["rows"]],
        [label + col_unit for label in view["cols"]],
        padding=view["padding"],
        path=view["path"],
        marks={"data-rfnb-head": f"{head['layer']},{head['head']}", "data-rfnb-large": ""},
        alt=f"weights of {rows} rows on {cols} columns, dark is high; the strongest are listed below",
        square=rows == cols and not any(view["padding"]),
    )
