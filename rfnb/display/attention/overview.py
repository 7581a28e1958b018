"""Small pictures of all heads: a row for each layer, or one sorted sequence."""

from __future__ import annotations

from rfnb.display.attention.labels import lines_of, name_or_number
from rfnb.display.attention.matrix import measured, rounded
from rfnb.display.attention.schema import AttentionHead, AttentionView
from rfnb.display.attention.weights import SEVERAL
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import short

ROOM = 440
"""Largest width of a row of pictures, in pixels."""
WORD = "font-family:monospace;font-size:10px;line-height:1.3"
BARE = "border:none;background:none"


def overview(view: AttentionView) -> Html:
    """The pictures in the order of the view; the chosen head has a frame."""
    wide, high = _size(view)
    look = "" if min(wide / _pixels(view, 1), high / _pixels(view, 0)) < 1 else "image-rendering:pixelated;"
    look += f"width:{wide}px;height:{high}px;display:block;max-width:none;margin:0"
    cells = [_cell(view, head, picture, look) for head, picture in zip(view["heads"], view["pictures"], strict=True)]
    measure = view["sort"] or "entropy"
    unit = view.get("unit", "head")
    sorted_ = f"layer.{unit}, or {unit}; " if view["sort"] else ""
    words = f"rows are layers, columns {SEVERAL[unit]}; " if view["grid"] else sorted_
    return el(
        "div",
        _grid(view, cells) if view["grid"] else _flow(view, cells, wide),
        el("div", f"{words}below each: {measure}", style=f"{style.QUIET};font-size:11px"),
        style="margin:4px 0 8px 0",
    )


def _grid(view: AttentionView, cells: list[Html]) -> Html:
    layers = list(dict.fromkeys(head["layer"] for head in view["heads"]))
    count = len(cells) // len(layers)
    names = lines_of({head["layer"]: head["name"] for head in view["heads"]})
    quiet = f"{BARE};{WORD};opacity:0.65;text-align:center;padding:0 4px 0 0;vertical-align:middle;font-weight:normal"
    numbers = [el("th", _head_word(head), style=quiet) for head in view["heads"][:count]]
    lines = [
        el(
            "tr", el("th", names[layer], style=quiet),
            [el("td", cell, style=f"{BARE};padding:1px 2px") for cell in cells[i * count : (i + 1) * count]],
            style=style.PLAIN_ROW,
        )
        for i, layer in enumerate(layers)
    ]  # fmt: skip
    first = el("tr", el("th", style=quiet), numbers, style=style.PLAIN_ROW)
    table = el("table", first, lines, style="border-collapse:collapse;margin:0")
    return el("div", table, style="overflow-x:auto")


def _flow(view: AttentionView, cells: list[Html], wide: int) -> Html:
    box = f"display:inline-block;vertical-align:top;margin:1px 4px 2px 0;width:{wide + 4}px"
    layered = len({head["layer"] for head in view["heads"]}) > 1
    names = [f"{name_or_number('', h['layer'])}.{_head_word(h)}" if layered else _head_word(h) for h in view["heads"]]
    quiet = f"{WORD};opacity:0.65;text-align:center"
    return el(
        "div",
        [el("div", el("div", name, style=quiet), cell, style=box) for name, cell in zip(names, cells, strict=True)],
    )


def _cell(view: AttentionView, head: AttentionHead, picture: str, look: str) -> Html:
    is_chosen = [head["layer"], head["head"]] == view["chosen"]
    edge = f"2px solid {style.PALETTE[1]}" if is_chosen else f"1px solid {style.tint(style.GREY, 0.35)}"
    alarm = f";color:{style.ALARM}" if head["flags"] else ";opacity:0.65"
    value = short(rounded(head[view["sort"] or "entropy"]))  # type: ignore[literal-required]
    title = ", ".join([measured(head), *head["flags"]])
    image = el(
        "img", src=picture, style=look, alt=f"layer {head['layer']} {view.get('unit', 'head')} {head['head']}",
        data_rfnb_head=f"{head['layer']},{head['head']}",
    )  # fmt: skip
    border = el("div", image, style=f"border:{edge};padding:1px;display:inline-block")
    return el(
        "div", border, el("div", value, style=f"{WORD}{alarm}"), title=title, style="text-align:center;line-height:0"
    )


def _size(view: AttentionView) -> tuple[int, int]:
    """The size of a picture on the page: proportional to its shape, but not too flat."""
    layers = len({head["layer"] for head in view["heads"]})
    across = len(view["heads"]) // layers if view["grid"] else min(len(view["heads"]), 10)
    room = max(28, min(128, ROOM // max(1, across) - 8))
    rows, cols = (_pixels(view, axis) for axis in (0, 1))
    if rows > cols:
        return max(16, round(room * max(0.3, cols / rows))), room
    return room, max(16, round(room * max(0.3, rows / cols)))


def _pixels(view: AttentionView, axis: int) -> int:
    return max(1, -(-view["shape"][axis] // view["head_pool"][axis]) + view["padding"][axis])


def _head_word(head: AttentionHead) -> str:
    return "mean" if head["head"] < 0 else str(head["head"])
