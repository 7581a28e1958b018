"""The view of a network of a net dict: its picture, and a card for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypedDict

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import count_of, cut, did_you_mean
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.graph import view as graph_view
from rfnb.display.graph.cards import amount
from rfnb.display.graph.picture import WIDTH, to_scripts as graph_scripts
from rfnb.display.graph.schema import GraphView
from rfnb.display.graph.unfold import nodes as all_nodes, opened, to_table as graph_table
from rfnb.display.kit import options
from rfnb.display.kit.data import UNKNOWN, Axis, DimView, colour_of, describe_axis, dim_word, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, fold, note_html, note_text, quiet, table_html
from rfnb.display.markup.html import Html, el, join
from rfnb.errors import ViewError
from rfnb.netdict.layer import Layer, nets_inside
from rfnb.netdict.network import Network
from rfnb.netdict.report.findings import reason, unsupported
from rfnb.netdict.report.outline import OutlineEntry
from rfnb.netdict.views.fold import NetFolder, Status, as_computed, loops_of


class LayerOption(TypedDict):
    """An option of a layer."""

    name: str
    given: str  # as in the net dict
    became: str  # the dim or layer that it means; empty if it is what was given


class LayerParam(TypedDict):
    """A parameter of a layer."""

    name: str  # in checkpoints: "encoder/W"
    dims: list[DimView]
    count: int
    trained: bool


class TakenRow(TypedDict):
    """A sequence, and which of its frames a mask takes."""

    name: str
    frames: int
    taken: int
    cells: list[float]  # of each frame, or of some frames together, the part that is taken


class TakenFrames(TypedDict):
    """The frames that masked_computation takes of the last batch."""

    axis: str
    width: int  # number of cells of the longest sequence
    rows: list[TakenRow]
    more: int  # sequences that are not listed


class LayerCard(TypedDict):
    """A layer, or several that differ in their names only."""

    path: str
    alike: list[str]  # paths of the others
    cls: str
    line: int | None  # of the config
    status: Literal["constructed", "stops", "waits", "unused"]
    reason: str  # why it stops, or what it waits for
    dims: list[DimView]  # of its output, in the declared order
    dtype: str
    sources: list[str]
    options: list[LayerOption]
    params: list[LayerParam]
    taken: TakenFrames | None


class NetworkView(TypedDict):
    """The network of a net dict."""

    kind: Literal["network"]
    name: str
    graph: GraphView
    layers: int  # constructed ones
    stops: int
    unused: int
    cards: list[LayerCard]
    chosen: str | None  # the layer that alone is shown, by its path
    note: str | None


CELLS = 120
"""The most cells of a strip; in longer sequences, a cell is several frames."""
TAG = 24
STRIP_WIDTH = 480
"""Width of the longest strip, in pixels."""
CELL = 16
"""The greatest width of a cell."""
TAKEN = style.PALETTE[2]


def describe_taken(mask: Tensor, axis: Dim) -> TakenFrames:
    """The strips. {…, axis}"""
    outer = [dim for dim in mask.dims if dim is not axis]
    array = mask.copy_transpose([*outer, axis]).numpy()
    size = mask.size_of(axis)
    lengths = np.broadcast_to(size.over(outer), array.shape[:-1])
    tags = [mask.size_of(dim).tags for dim in outer]
    places = list(np.ndindex(array.shape[:-1]))
    per_cell = -(-array.shape[-1] // CELLS) or 1
    rows = [
        _row(_sequence_name(outer, place, tags), array[place][: int(lengths[place])], per_cell)
        for place in places[: options.BARS]
    ]
    width = max((len(row["cells"]) for row in rows), default=0)
    return {"axis": axis.name, "width": width, "rows": rows, "more": len(places) - len(rows)}


def _sequence_name(others: Sequence[Dim], place: Sequence[int], tags: Sequence[Sequence[str] | None]) -> str:
    """The tag of a sequence, or its place, and the places along other dims: "batch 0 beam 2"."""
    named = zip(others, place, tags, strict=True)
    return " ".join(f"{dim.name} {i}" if labels is None else cut(labels[i], TAG) for dim, i, labels in named)


def _row(name: str, taken: np.ndarray, per_cell: int) -> TakenRow:
    cells = [float(taken[i : i + per_cell].mean()) for i in range(0, len(taken), per_cell)]
    return {"name": name, "frames": len(taken), "taken": int(taken.sum()), "cells": cells}


def taken_text(view: TakenFrames | None) -> list[str]:
    """A line for each sequence: █ for a frame that is taken, · for another one, ▒ for some of several."""
    if view is None:
        return []
    wide = max((len(row["name"]) for row in view["rows"]), default=0)
    lines = [_head(view)]
    for row in view["rows"]:
        strip = "".join("█" if part == 1 else "▒" if part else "·" for part in row["cells"])
        lines.append(f"  {row['name']:<{wide}}  {strip:<{view['width']}}  {_counts(row)}")
    return [*lines, *_more(view)]


def taken_html(view: TakenFrames | None) -> Html | None:
    """A row for each sequence; the darker a cell, the more of its frames are taken."""
    if view is None:
        return None
    cell = min(CELL, STRIP_WIDTH / max(view["width"], 1))
    rows = [
        el(
            "tr",
            el("td", row["name"], style=style.LABEL_CELL),
            el("td", _strip(row, cell), style=style.LEFT_CELL),
            el("td", _counts(row), style=style.LABEL_CELL),
            style=style.PLAIN_ROW,
        )
        for row in view["rows"]
    ]
    return el("div", quiet(_head(view)), el("table", rows, style=style.TABLE), [quiet(line) for line in _more(view)])


def _strip(row: TakenRow, width: float) -> list[Html]:
    """Cells that are equal and side by side are one element."""
    cells, start = [], 0
    for i, part in enumerate(row["cells"]):
        if i + 1 == len(row["cells"]) or row["cells"][i + 1] != part:
            colour = style.tint(TAKEN, 0.25 + 0.65 * part) if part else style.tint(style.GREY, 0.18)
            look = f"display:inline-block;height:10px;width:{(i + 1 - start) * width:.4g}px;background-color:{colour}"
            cells.append(el("span", style=look))
            start = i + 1
    return cells


def _head(view: TakenFrames) -> str:
    return f"frames of {view['axis']} in the last batch; those taken are filled"


def _counts(row: TakenRow) -> str:
    return f"{row['frames']} → {row['taken']}"


def _more(view: TakenFrames) -> Iterator[str]:
    if view["more"]:
        yield f"  … {count_of(view['more'], 'sequence')} more"


WORDS = 120
"""The most characters of an option."""


def cards_of(
    entries: Mapping[str, OutlineEntry],
    layers: Mapping[str, Layer],
    templates: Mapping[str, Tensor],
    status: Mapping[str, Status],
    variables: Mapping[str, Parameter],
    masks: Mapping[str, tuple[Tensor, Dim]],
) -> list[LayerCard]:
    """The cards; layers that differ in names, lines and sources only share one.

    variables: the parameters by their names in checkpoints. masks: of the frames that layers take.
    """
    cards: dict[object, LayerCard] = {}
    names = {id(parameter): name for name, parameter in variables.items()}
    for path, entry in entries.items():
        card = _card(entry, layers.get(path), templates.get(path), status[path], names)
        params = tuple((param["name"].removeprefix(path), param["count"]) for param in card["params"])
        options = tuple((option["name"], option["given"]) for option in card["options"])
        dims = tuple(dim["serial"] for dim in card["dims"])
        key = card["cls"], card["status"], card["reason"], options, params, dims
        if key in cards:
            cards[key]["alike"].append(path)
        else:
            cards[key] = card
            card["taken"] = describe_taken(*masks[path]) if path in masks else None
    return list(cards.values())


def _card(
    entry: OutlineEntry, layer: Layer | None, template: Tensor | None, status: Status, names: Mapping[int, str]
) -> LayerCard:
    state, reason = status
    return {
        "path": entry.path,
        "alike": [],
        "cls": entry.cls,
        "line": entry.line,
        "status": state,
        "reason": reason,
        "dims": [] if template is None else [_dim(dim) for dim in template.dims],
        "dtype": "" if template is None else template.dtype,
        "sources": [reference.written for reference in entry.references if reference.option == "from"],
        "options": list(_options(entry, layer)),
        "params": [] if layer is None else [_param(name, x, entry, names) for name, x in layer.params.items()],
        "taken": None,
    }


def _dim(dim: Dim) -> DimView:
    size = UNKNOWN if dim.dimension is None else dim.dimension
    kind = dim.kind if dim.kind in ("batch", "spatial", "feature") else "other"
    return describe_axis(Axis(dim, size), kind) | {"made": None}  # type: ignore[arg-type]


def _options(entry: OutlineEntry, layer: Layer | None) -> Iterator[LayerOption]:
    for name, value in entry.described.items():
        if name in ("class", "from", "subnetwork") or (name == "unit" and isinstance(value, Mapping)):
            continue
        became = "" if layer is None else _became(getattr(layer, "out_dim" if name == "n_out" else str(name), None))
        refers = next((x.path for x in entry.references if x.option == name and x.path != x.written), None)
        yield {"name": str(name), "given": cut(repr(value), WORDS), "became": became or refers or ""}


def _became(value: object) -> str:
    """The dims that an option means."""
    if isinstance(value, Dim):
        return f"{value.name}:{'?' if value.dimension is None else value.dimension}"
    if isinstance(value, tuple) and value and all(isinstance(dim, Dim) for dim in value):
        return ", ".join(map(_became, value))
    return ""


def _param(name: str, parameter: Parameter, entry: OutlineEntry, names: Mapping[int, str]) -> LayerParam:
    return {
        "name": names.get(id(parameter), f"{entry.path}/{name}"),
        "dims": [_dim(dim) for dim in parameter.dims],
        "count": parameter.num_elements(),
        "trained": bool(parameter.trainable),
    }


MOST = 80
"""Largest number of boxes that are drawn because layers stop; the others stay in their closed box."""
BYTES = 110_000
"""Budget for the HTML of cards; those of the last layers are left out."""

ALIKE = 40
"""So many layers that are alike are named."""
COLOURS = {"stops": style.ALARM, "waits": style.GREY, "unused": style.GREY}


def describe(
    net: Network, *, depth: int | None = None, open: str | Sequence[str] = (), layer: str | None = None
) -> NetworkView:
    """The network as nested boxes, without a batch.

    Args:
        depth: so many levels are open: 0 shows the outermost boxes only; if it is not given, what can be taken in at a
            glance.
        open: paths of layers that are open, with all around them: `open="encoder"`.
        layer: the card of only this layer, by path.

    Raises ViewError if there is no such layer.
    """
    entries = net.outline()
    status = status_of(net, entries)
    templates = net.templates()
    layers = net.every_layer()
    leaves = {path: instance for path, instance in layers.items() if not nets_inside(instance)}
    params = {path: sum(x.num_elements() for x in instance.params.values()) for path, instance in leaves.items()}
    loops = loops_of(net)
    folder = NetFolder(as_computed(entries, layers, loops), templates, status, params, loops)
    graph: GraphView = {
        "kind": "graph", "name": net.name, "root": folder.root, "dims": folder.values.dims, "bodies": folder.bodies,
        "open": [], "params": net.get_num_params(), "failure": None, "note": None,
    }  # fmt: skip
    graph["open"] = _open(graph, depth, [open] if isinstance(open, str) else list(open))
    visible = entries if layer is None else {layer: _entry(entries, layer)}
    states = [state for state, _ in status.values()]
    return {
        "kind": "network",
        "name": net.name,
        "graph": graph,
        "layers": len(layers),
        "stops": states.count("stops"),
        "unused": states.count("unused"),
        "cards": cards_of(visible, layers, templates, status, net.variables(), net.masks_of_frames()),
        "chosen": layer,
        "note": None,
    }


def _entry(entries: Mapping[str, OutlineEntry], path: str) -> OutlineEntry:
    if path not in entries:
        hint = did_you_mean(path, entries)
        raise ViewError(f"show: there is no layer {path!r}", expected=", ".join(list(entries)[:12]), hint=hint)
    return entries[path]


def status_of(net: Network, entries: Mapping[str, OutlineEntry]) -> dict[str, Status]:
    """What became of each layer, and why."""
    statuses: dict[str, Status] = {}
    layers = net.every_layer()
    for path, entry in entries.items():
        if path in net.failures:
            statuses[path] = "stops", (next(unsupported(entry), None) or reason(net.failures[path]))[0]
        elif path in layers or not entry.used or entry.scope.path.rstrip("/") in layers:  # an `end` only searches need
            statuses[path] = ("constructed" if path in layers else "unused"), ""
        elif wrong := next(unsupported(entry), None):
            statuses[path] = "stops", wrong[0]
        else:
            missing = (need for need in entry.needs if statuses.get(need, ("",))[0] in ("stops", "waits"))
            statuses[path] = "waits", next(missing, entry.scope.path.rstrip("/"))
    return statuses


def _open(graph: GraphView, depth: int | None, paths: list[str]) -> list[str]:
    """What is open: as in other graphs, but not everything around layers that stop, if these are many."""
    candidates = opened(graph, depth, paths, {})
    if depth is not None:
        return candidates
    sizes = {node["id"]: len(graph["bodies"][node["body"]]["nodes"]) for _, node in all_nodes(graph) if node["body"]}
    requests = {node["id"] for _, node in all_nodes(graph) if node["path"] in paths}
    count, ids = len(graph["bodies"][graph["root"]]["nodes"]), []
    for key in candidates:
        count += sizes[key]
        if count <= MOST or key in requests:
            ids.append(key)
    return ids


def _facts(view: NetworkView) -> list[str]:
    params = view["graph"]["params"]
    return [count_of(view["layers"], "layer"), f"{amount(params)} parameters" if params else "no parameters"]


def _states(view: NetworkView) -> Iterator[str]:
    if view["stops"]:
        yield f"{count_of(view['stops'], 'layer')} {'stops' if view['stops'] == 1 else 'stop'} the network"
    if view["unused"]:
        yield f"{count_of(view['unused'], 'layer')} unused"


# -- text


def to_text(view: NetworkView) -> str:
    """A line of facts, then a row for each box of the picture; of a single layer, its card."""
    lines = [f"{view['name']}  {' · '.join([*_facts(view), *_states(view)])}"]
    if view["chosen"] is not None:
        lines += [f"  {line}" for line in _card_lines(view["cards"][0])]
    else:
        lines += [f"  {line}" for line in graph_table(view["graph"]).lines()]
    return "\n".join(lines + note_text(view["note"]))


def to_repr(view: NetworkView) -> str:
    """The facts, and the table of boxes."""
    return to_text(view)


def _card_lines(card: LayerCard) -> list[str]:
    lines = [" ".join(filter(None, [f"{_name(card)}: {card['cls']}", *_about(card)]))]
    lines += [f"from {', '.join(card['sources'])}"] if card["sources"] else []
    lines += [f"{x['name']} = {x['given']}" + (f" → {x['became']}" if x["became"] else "") for x in card["options"]]
    lines += [f"{x['name']} {dims_text(x['dims'])} {amount(x['count'])}" for x in card["params"]]
    return lines + taken_text(card["taken"])


def _about(card: LayerCard) -> Iterator[str]:
    if card["dims"]:
        yield f"{dims_text(card['dims'])} {card['dtype']}"
    yield {"constructed": "", "stops": "stops: ", "waits": "waits for ", "unused": "unused"}[card["status"]] + (
        card["reason"]
    )
    if card["line"] is not None:
        yield f"line {card['line']}"


def _name(card: LayerCard) -> str:
    count = len(card["alike"])
    return f"{card['path']} and {count} alike" if count else card["path"]


def to_table(view: NetworkView) -> Table:
    """A row for each layer."""
    rows = [
        [path, card["cls"], dims_text(card["dims"]) if card["dims"] else "", card["status"], card["reason"],
         sum(x["count"] for x in card["params"]), ", ".join(card["sources"])]
        for card in view["cards"]
        for path in (card["path"], *card["alike"])
    ]  # fmt: skip
    return Table(["layer", "class", "output", "status", "reason", "parameters", "from"], rows)


# -- HTML


def to_svg(view: NetworkView, width: float = WIDTH) -> str:
    """The picture as SVG."""
    return graph_view.to_svg(view["graph"], width)


def to_scripts(view: NetworkView) -> dict[str, object]:
    """The picture in parts, as of a model graph; nothing for the card of a layer."""
    return {} if view["chosen"] is not None else graph_scripts(view["graph"])


def to_html(view: NetworkView) -> Html:
    """The picture, its rows as a table, and the cards, folded."""
    head = el(
        "div",
        el("span", view["name"], style=style.NAME),
        quiet(" · " + " · ".join(_facts(view)) + " "),
        [chip(words, style.ALARM if "stop" in words else style.GREY) for words in _states(view)],
        style=style.HEAD,
    )
    if view["chosen"] is not None:
        return el("div", head, _card_html(view["cards"][0], is_open=True), style=style.BOX)
    rows = graph_table(view["graph"])
    return el(
        "div",
        head,
        graph_view.picture_html(view["graph"]),
        fold(f"as a table: {len(rows)} rows", table_html(rows)),
        fold(f"layers: {sum(1 + len(card['alike']) for card in view['cards'])}", _cards_html(view["cards"])),
        note_html(view["note"]),
        style=style.BOX,
    )  # fmt: skip


def _cards_html(cards: Sequence[LayerCard]) -> Html:
    """The cards, those of layers that stop first, within the budget."""
    parts: list[Html] = []
    room = BYTES
    for i, card in enumerate(sorted(cards, key=lambda card: card["status"] != "stops")):
        markup = _card_html(card)
        room -= len(markup)
        if room < 0 and i:
            parts.append(quiet(f'… {len(cards) - i} more: rf.show(net, layer="{card["path"]}")', tag="div"))
            break
        parts.append(markup)
    return el("div", parts, style=style.RAIL)


def _card_html(card: LayerCard, *, is_open: bool = False) -> Html:
    reason, alike = card["reason"], card["alike"]
    state = None if card["status"] == "constructed" else chip(card["status"], COLOURS[card["status"]])
    title = join(
        el("b", card["path"]),
        quiet(f" and {len(card['alike'])} alike") if card["alike"] else None,
        f" {card['cls']} ",
        state,
        _pills(card["dims"]),
        quiet(f" line {card['line']}") if card["line"] is not None else None,
    )
    lines = [
        el("div", reason if card["status"] == "stops" else f"waits for {reason}") if reason else None,
        _line("from", ", ".join(card["sources"])) if card["sources"] else None,
        *(_line(x["name"], x["given"] + (f" → {x['became']}" if x["became"] else "")) for x in card["options"]),
        *(_param_html(x) for x in card["params"]),
        taken_html(card["taken"]),
        _line("alike", ", ".join(alike[:ALIKE]) + " …" * (len(alike) > ALIKE)) if alike else None,
    ]
    body = el("div", lines, style=f"{style.RAIL};{style.NUMBERS}")
    return el("details", el("summary", title, style="cursor:pointer"), body, open=is_open)


def _line(name: str, words: str) -> Html:
    return el("div", quiet(f"{name} "), words)


def _param_html(param: LayerParam) -> Html:
    trained = "" if param["trained"] else " not trained"
    return el("div", param["name"], " ", _pills(param["dims"]), quiet(amount(param["count"]), trained))


def _pills(dims: Sequence[DimView]) -> list[Html]:
    """Pills with few bytes of HTML."""
    pills = []
    for dim in dims:
        colour = colour_of(dim) or style.GREY
        look = f"background:{style.tint(colour, 0.16)};border-left:3px solid {colour};padding:0 5px;margin-right:4px"
        pills.append(el("span", dim_word(dim), " ", class_="rfnb-dim", data_rfnb_dim=dim["serial"], style=look))
    return pills
