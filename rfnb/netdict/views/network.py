"""The view of a network of a net dict: its picture, and a card for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
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
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import UNKNOWN, Axis, DimView, colour_of, describe_axis, dim_word, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, quiet as quiet_html
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


def taken_blocks(view: TakenFrames) -> list[page.Block]:
    """A row for each sequence; the darker a cell, the more of its frames are taken.

    In a terminal, █ is a frame that is taken, · another one, ▒ some of several.
    """
    cell, rows = min(CELL, STRIP_WIDTH / max(view["width"], 1)), list[list[page.Words]]()
    for row in view["rows"]:
        signs = "".join("█" if part == 1 else "▒" if part else "·" for part in row["cells"])
        strip = page.Span(_strip(row, cell), text=f"{signs:<{view['width']}}")
        rows.append([row["name"], strip, f"{row['frames']} → {row['taken']}"])
    tail = page.Line(page.quiet(f"… {count_of(view['more'], 'sequence')} more"), indent=2) if view["more"] else None
    head = page.Line(page.quiet(f"frames of {view['axis']} in the last batch; those taken are filled"))
    return [head, page.Grid(rows, looks=[style.LABEL_CELL, style.LEFT_CELL, style.LABEL_CELL]), tail]


def _strip(row: TakenRow, width: float) -> list[Html]:
    """Cells that are equal and side by side are one element."""
    cells = []
    for part, run in groupby(row["cells"]):
        colour = style.tint(TAKEN, 0.25 + 0.65 * part) if part else style.tint(style.GREY, 0.18)
        look = f"display:inline-block;height:10px;width:{len([*run]) * width:.4g}px;background-color:{colour}"
        cells.append(el("span", style=look))
    return cells


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


@page.shows("network", "rfnb.netdict.network.Network")
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


def to_page(view: NetworkView) -> page.Page:
    """A line of facts, the picture or a row for each of its boxes, and the cards, folded; of one layer its card."""
    facts, states = _facts(view), list(_states(view))
    chips = [page.chip(words, style.ALARM if "stop" in words else style.GREY) for words in states]
    head: list[page.Words] = [page.name(view["name"]), page.quiet(f" · {' · '.join(facts)} "), chips]
    blocks: list[page.Block] = [
        page.Line(page.Span(head, text=f"{view['name']}  {' · '.join([*facts, *states])}"), look=style.HEAD)
    ]
    if view["chosen"] is not None:
        blocks += _card_blocks(view["cards"][0], is_open=True)
    else:
        rows, count = graph_table(view["graph"]), sum(1 + len(card["alike"]) for card in view["cards"])
        picture = page.Figure(lambda: graph_view.picture_html(view["graph"]), [f"  {line}" for line in rows.lines()])
        folds = [
            page.Fold(f"as a table: {len(rows)} rows", [rows]),
            page.Fold(f"layers: {count}", [page.Figure(lambda: _cards_html(view["cards"]))]),
        ]
        blocks += [picture, page.Only("html", folds), page.Note(view["note"])]
    return page.Page("network", view["name"], blocks, _table(view))


def _about(card: LayerCard) -> Iterator[str]:
    if card["dims"]:
        yield f"{dims_text(card['dims'])} {card['dtype']}"
    words = {"constructed": "", "stops": "stops: ", "waits": "waits for ", "unused": "unused"}
    yield words[card["status"]] + card["reason"]
    if card["line"] is not None:
        yield f"line {card['line']}"


def _name(card: LayerCard) -> str:
    count = len(card["alike"])
    return f"{card['path']} and {count} alike" if count else card["path"]


def _table(view: NetworkView) -> page.Table:
    """A row for each layer."""
    rows = [
        [path, card["cls"], dims_text(card["dims"]) if card["dims"] else "", card["status"], card["reason"],
         sum(x["count"] for x in card["params"]), ", ".join(card["sources"])]
        for card in view["cards"]
        for path in (card["path"], *card["alike"])
    ]  # fmt: skip
    return page.Table(["layer", "class", "output", "status", "reason", "parameters", "from"], rows)


def to_svg(view: NetworkView, width: float = WIDTH) -> str:
    """The picture as SVG."""
    return graph_view.to_svg(view["graph"], width)


def to_scripts(view: NetworkView) -> dict[str, object]:
    """The picture in parts, as of a model graph; nothing for the card of a layer."""
    return {} if view["chosen"] is not None else graph_scripts(view["graph"])


def _cards_html(cards: Sequence[LayerCard]) -> Html:
    """The cards, those of layers that stop first, within the budget."""
    parts: list[Html] = []
    room = BYTES
    for i, card in enumerate(sorted(cards, key=lambda card: card["status"] != "stops")):
        markup = page.html_of(_card_blocks(card))
        room -= len(markup)
        if room < 0 and i:
            parts.append(quiet_html(f'… {len(cards) - i} more: rf.show(net, layer="{card["path"]}")', tag="div"))
            break
        parts.append(markup)
    return el("div", parts, style=style.RAIL)


def _card_blocks(card: LayerCard, *, is_open: bool = False) -> list[page.Block]:
    """What became of a layer, its options, parameters and frames; folded, or as lines below each other."""
    why, alike = card["reason"] if card["status"] == "stops" else f"waits for {card['reason']}", card["alike"]
    title: list[page.Words] = [
        page.bold(card["path"]),
        page.quiet(f" and {len(alike)} alike") if alike else None,
        f" {card['cls']} ",
        None if card["status"] == "constructed" else page.chip(card["status"], COLOURS[card["status"]]),
        _pills(card["dims"]),
        page.quiet(f" line {card['line']}") if card["line"] is not None else None,
    ]
    lines: list[page.Block] = [
        page.Only("html", [page.Line(why)]) if card["reason"] else None,
        page.Line(page.quiet("from "), ", ".join(card["sources"])) if card["sources"] else None,
        *map(_option_line, card["options"]),
        *map(_param_line, card["params"]),
        *(taken_blocks(card["taken"]) if card["taken"] else []),
        page.Only("html", [page.Line(page.quiet("alike "), ", ".join(alike[:ALIKE]) + " …" * (len(alike) > ALIKE))])
        if alike
        else None,
    ]
    head = page.Line(" ".join(filter(None, [f"{_name(card)}: {card['cls']}", *_about(card)])))
    fold = page.Fold(title, [page.Group(lines, look=f"{style.RAIL};{style.NUMBERS}")], is_open)
    return [page.Only("text", [page.Group([head, *lines], indent=2)]), page.Only("html", [fold])]


def _option_line(option: LayerOption) -> page.Line:
    name = page.Span(page.quiet(f"{option['name']} "), text=f"{option['name']} = ")
    return page.Line(name, option["given"], f" → {option['became']}" if option["became"] else None)


def _param_line(param: LayerParam) -> page.Line:
    dims = page.Span(_pills(param["dims"]), text=f"{dims_text(param['dims'])} ")
    return page.Line(
        param["name"],
        " ",
        dims,
        page.quiet(amount(param["count"]), None if param["trained"] else page.web(" not trained")),
    )


def _pills(dims: Sequence[DimView]) -> list[Html]:
    """Pills with few bytes of HTML."""
    pills = []
    for dim in dims:
        colour = colour_of(dim) or style.GREY
        look = f"background:{style.tint(colour, 0.16)};border-left:3px solid {colour};padding:0 5px;margin-right:4px"
        pills.append(el("span", dim_word(dim), " ", class_="rfnb-dim", data_rfnb_dim=dim["serial"], style=look))
    return pills
