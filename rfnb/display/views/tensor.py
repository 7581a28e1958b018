"""The view of a tensor: name, dtype, dims with true lengths, statistics, and the numbers, labels or a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from rfnb.display import options, style
from rfnb.display.attempt import Notes
from rfnb.display.data import Data, read, select
from rfnb.display.html import Child, Html, el, join
from rfnb.display.numbers import size as size_text
from rfnb.display.schema import DimView, StatsView, TensorView
from rfnb.display.stats import describe_stats
from rfnb.display.views.dim import describe_dim
from rfnb.display.views.dims import describe_axes, dim_pill, dim_word, dims_html, dims_text, origin
from rfnb.display.views.labels import describe_labels, labels_html, labels_text
from rfnb.display.views.moments import alarms, stats_html, stats_text
from rfnb.display.views.picture import describe_picture
from rfnb.display.views.table import describe_values, table_html, table_text
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


def describe(tensor: Tensor, batch: int | str | None = None, **positions: int | str) -> TensorView:
    """All of it, or one sequence by number or tag, and single positions of other dims."""
    try:
        data = read(tensor)
    except ViewError as error:
        return _bare(tensor, error.what)
    return describe_data(select(data, batch, **positions))


def describe_data(data: Data) -> TensorView:
    """What is known of the tensor, each part if it can be had."""
    notes = Notes(*data.notes)
    view = _frame(data)
    tags = _tags(data)
    view["tags"] = tags if tags is None or len(tags) <= options.TAGS else None
    if data.sparse is not None and data.sparse.vocab is not None and data.entries:
        nothing: tuple[Any, Any, Any] = (None, None, None)
        view["labels"], _, left_out = notes.attempt("labels", lambda: describe_labels(data), nothing)
        notes.add(left_out)
    elif data.entries == 0:
        notes.add("empty")
    else:
        view["stats"] = notes.attempt("statistics", lambda: describe_stats(data), None)
        _add_numbers(view, data, notes)
    view["note"] = notes.text()
    return view


def to_text(view: TensorView) -> str:
    """Some lines: what it is, statistics, then labels or numbers."""
    head = f"{view['name']} Tensor {view['dtype']} {dims_text(view['dims'])}"
    lines = [head + _extras(view)]
    if _many(view["stats"]):
        lines.append("  " + stats_text(view["stats"], ids=view["sparse"] is not None))
    if view["labels"] is not None:
        lines += [f"  {line}" for line in labels_text(view["labels"], view["tags"])]
    if view["values"] is not None:
        lines += table_text(view["values"], view["dims"], view["tags"])
    if view["note"]:
        lines.append(f"  ({view['note']})")
    return "\n".join(lines)


def to_repr(view: TensorView) -> str:
    """Two lines."""
    dims = ", ".join(dim_word(dim) for dim in view["dims"])
    lines = [f"Tensor{{{view['name']!r}, [{dims}], {view['dtype']}{_extras(view)}}}"]
    if _many(view["stats"]):
        lines.append("  " + stats_text(view["stats"], ids=view["sparse"] is not None))
    elif view["values"] is not None and not view["dims"]:
        lines[0] += " " + table_text(view["values"], [], None)[0].strip()
    if view["labels"] is not None:
        lines += [f"  {line}" for line in labels_text(view["labels"][:2], view["tags"])]
    if view["note"]:
        lines.append(f"  ({view['note']})")
    return "\n".join(lines)


def to_html(view: TensorView) -> Html:
    """The same facts, with a picture."""
    return el(
        "div",
        _head(view),
        stats_html(view["stats"], ids=view["sparse"] is not None) if _many(view["stats"]) else None,
        labels_html(view["labels"], view["tags"]) if view["labels"] is not None else None,
        table_html(view["values"], view["dims"], view["tags"]) if view["values"] is not None else None,
        _picture(view),
        el("div", f"({view['note']})", style=style.QUIET) if view["note"] else None,
        _lengths(view["dims"], view["tags"]),
        style=style.BOX,
    )


def _many(stats: StatsView | None) -> TypeGuard[StatsView]:
    """Whether there is more to tell than the one number."""
    return stats is not None and (stats["count"] > 1 or bool(alarms(stats)))


def _frame(data: Data) -> TensorView:
    return {
        "kind": "tensor",
        "name": data.name,
        "dtype": data.dtype,
        "device": data.device,
        "bytes": data.entries * _itemsize(data),
        "dims": describe_axes(data.axes, data.feature),
        "sparse": data.sparse.name if data.sparse is not None else None,
        "stats": None,
        "values": None,
        "labels": None,
        "tags": None,
        "picture": None,
        "picture_alt": None,
        "note": None,
    }


def _add_numbers(view: TensorView, data: Data, notes: Notes) -> None:
    if data.entries <= options.TABLE_ENTRIES:
        view["values"] = notes.attempt("numbers", lambda: describe_values(data), None)
        return
    drawn = notes.attempt("picture", lambda: describe_picture(data), None)
    if drawn is not None:
        view["picture"], view["picture_alt"] = drawn


def _bare(tensor: Tensor, note: str) -> TensorView:
    """What can be said without numbers."""
    notes = Notes(note)

    def ask(name: str, otherwise: str) -> str:
        return str(notes.attempt(name, lambda: getattr(tensor, name), otherwise) or otherwise)

    dims: list[DimView] = notes.attempt("dims", lambda: [describe_dim(dim, tensor.lengths) for dim in tensor.dims], [])
    empty = Data(ask("name", "tensor"), ask("dtype", "?"), ask("device", "?"), None, ())
    return {**_frame(empty), "bytes": 0, "dims": dims, "note": notes.text()}


def _itemsize(data: Data) -> int:
    dtype = getattr(data.raw, "dtype", None)
    return int(getattr(dtype, "itemsize", 0))


def _tags(data: Data) -> list[str] | None:
    return next((list(axis.tags) for axis in data.axes if axis.tags is not None), None)


def _extras(view: TensorView) -> str:
    parts = []
    if view["sparse"] is not None:
        parts.append(f"of {view['sparse']}")
    if view["device"] not in ("cpu", "?", "None"):
        parts.append(view["device"])
    if view["bytes"] >= 10_000:
        parts.append(size_text(view["bytes"]))
    return "".join(f" {part}" for part in parts)


def _head(view: TensorView) -> Html:
    return el(
        "div",
        el("span", view["name"], style=style.NAME),
        el("span", f" Tensor {view['dtype']} ", style=style.QUIET),
        dims_html(view["dims"]),
        el("span", _extras(view), style=style.QUIET),
        style=style.HEAD,
    )


def _picture(view: TensorView) -> Html | None:
    if view["picture"] is None:
        return None
    look = f"border:1px solid {style.tint(style.GREY, 0.35)};max-width:100%"
    return el(
        "div",
        el("img", src=view["picture"], alt=view["picture_alt"], style=look),
        el("div", view["picture_alt"], style=style.QUIET + ";font-size:11px"),
    )


def _lengths(dims: list[DimView], tags: list[str] | None) -> Html | None:
    """Folded: where the dims come from, and how long each sequence is."""
    told = [dim for dim in dims if dim["lengths"] is not None or origin(dim)]
    if not any(dim["lengths"] is not None for dim in dims):
        return None
    rows = [
        el(
            "tr",
            el("td", dim_pill(dim), style=style.LEFT_CELL),
            el("td", _told(dim, tags), style=style.LEFT_CELL),
            style=style.PLAIN_ROW,
        )
        for dim in told
    ]
    return el("details", el("summary", "dims", style=style.FOLD), el("table", rows, style=style.TABLE))


def _told(dim: DimView, tags: list[str] | None) -> Html:
    lengths = dim["lengths"]
    parts: list[Child] = [el("div", origin(dim))] if origin(dim) else []
    if lengths is not None:
        named = [
            f"{tags[i]}: {n}" if tags is not None and i < len(tags) else str(n) for i, n in enumerate(lengths[:64])
        ]
        padding = 1 - sum(lengths) / max(1, dim["size"] * len(lengths))
        more = f", … ({len(lengths)})" if len(lengths) > 64 else ""
        parts.append(el("div", "lengths ", ", ".join(named) + more, f"; padding {padding:.0%}"))
    return join(parts)
