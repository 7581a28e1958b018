"""The view of a module: a tree with the parameters of each part. Layers of equal form are one card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rfnb.core.graph.call_recorder import note_of
from rfnb.core.ground.text import count_of
from rfnb.display.kit import options
from rfnb.display.kit.dims import colour_of, dim_word, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.grid import Table
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import amount, real, short, size
from rfnb.display.markup.schema import Number
from rfnb.display.markup.widgets_html import chip, note_text, quiet
from rfnb.display.module.equal_layers import grouped
from rfnb.display.module.rows import ModuleRows, children_of, parameters_of, settings_of
from rfnb.display.module.schema import ModuleNode, ModuleView, ParamRow

BAD = ("nan", "inf", "-inf")
_GRADIENT = " in the gradient"


def describe(module: Any) -> ModuleView:
    """The JSON of a module and all its parts."""
    rows = ModuleRows()
    root = _node("", "", module, rows, {}, 0)
    unique = [row for row in rows.rows if row["shared"] is None]
    dtypes, devices = (Counter[str]() for _ in range(2))
    for row in unique:
        dtypes[row["dtype"]] += row["count"]
        devices[row["device"]] += row["count"]
    return {
        "kind": "module",
        "root": root,
        "rows": rows.rows,
        "count": root["count"],
        "frozen": root["frozen"],
        "bytes": sum(row["bytes"] for row in unique),
        "dtype": _most(dtypes),
        "device": _most(devices),
        "bad": sorted((f"{row['path']}: {word}" for row in unique for word in _flags(row)), key=_in_gradient),
        "note": rows.note(),
    }


def _most(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else ""


def _node(name: str, path: str, module: Any, rows: ModuleRows, seen: dict[int, str], depth: int) -> ModuleNode:
    shared = seen.setdefault(id(module), path)
    repeated = (shared != path or depth > options.MODULE_DEPTH) and depth > 0
    prefix = f"{path}." if path else ""
    numbers = [] if repeated else [rows.add(prefix + n, p, buffer=b) for n, p, b in parameters_of(module)]
    children = (
        [] if repeated else [_node(n, prefix + n, child, rows, seen, depth + 1) for n, child in children_of(module)]
    )
    counted = [row for row in (rows.rows[i] for i in numbers) if row["shared"] is None and not row["buffer"]]
    return {
        "name": name,
        "cls": type(module).__name__,
        "note": note_of(module),
        "settings": settings_of(module),
        "repeat": 1,
        "params": [[number] for number in numbers],
        "count": sum(row["count"] for row in counted) + sum(child["count"] for child in children),
        "frozen": sum(row["count"] for row in counted if not row["trainable"]) + sum(c["frozen"] for c in children),
        "differs": [],
        "shared": (shared or "the whole") if repeated else None,
        "children": grouped(children, rows.rows),
    }


# -- words


def _name(row: ParamRow) -> str:
    return row["path"].rpartition(".")[2]


def _shape(row: ParamRow) -> str:
    if row["shape"] is not None:
        return str(row["shape"])
    return dims_text(row["dims"]) if row["dims"] or row["count"] else "no shape yet"


def _flags(row: ParamRow) -> list[str]:
    """ "NaN", "Inf in the gradient" """
    norms = ((row["norm"], ""), (row["grad"], _GRADIENT))
    return [f"{'NaN' if value == 'nan' else 'Inf'}{where}" for value, where in norms if value in BAD]


def _in_gradient(flag: str) -> bool:
    """A flag for bad gradients, unless values are bad too: they are often the cause."""
    return flag.endswith(_GRADIENT)


def _span(values: Sequence[Number | None]) -> str | None:
    """One number, or the range of several."""
    numbers = sorted(real(value) for value in values if value is not None and value not in BAD)
    if not numbers:
        return None
    low, high = short(numbers[0]), short(numbers[-1])
    return low if low == high else f"{low} … {high}"


def _facts(rows: list[ParamRow], view: ModuleView) -> list[str]:
    """Unusual properties: dtype, device and whether it is trained; then norms."""
    first = rows[0]
    words = [first["dtype"]] if first["dtype"] != view["dtype"] else []
    words += [first["device"]] if first["device"] != view["device"] else []
    words += ["buffer"] if first["buffer"] else [] if any(row["trainable"] for row in rows) else ["not trained"]
    if first["shared"] is not None:
        return [*words, f"the same as {first['shared']}"]
    norms, grads = _span([row["norm"] for row in rows]), _span([row["grad"] for row in rows])
    words += [f"‖·‖ {norms}"] if norms is not None else []
    return [*words, f"‖grad‖ {grads}"] if grads is not None else words


def _count(node: ModuleNode) -> str:
    if node["shared"] is not None:
        return f"the same as {node['shared']}"
    if not node["count"]:
        return ""
    share = f"{amount(node['count'] // node['repeat'])} each, " if node["repeat"] > 1 else ""
    frozen = node["frozen"]
    words = "" if not frozen else ", not trained" if frozen == node["count"] else f", {amount(frozen)} not trained"
    return f"{share}{count_of(node['count'], 'parameter')}{words}"


def _title(node: ModuleNode) -> str:
    times = f" × {node['repeat']}" if node["repeat"] > 1 else ""
    return f"{node['name']}: {node['cls']}{times}" if node["name"] else f"{node['cls']}{times}"


def _total(view: ModuleView) -> list[str]:
    count = count_of(view["count"], "parameter")
    frozen = f" ({amount(view['frozen'])} not trained)" if view["frozen"] else ""
    return [f"{count}{frozen}", *(word for word in (size(view["bytes"]), view["dtype"], view["device"]) if word)]


def _bad(view: ModuleView) -> str | None:
    text = ", ".join(view["bad"][:3])
    return f"{text} and {len(view['bad']) - 3} more" if len(view["bad"]) > 3 else text or None


# -- text


def to_text(view: ModuleView) -> str:
    """One line per module and parameter."""
    lines = [f"{view['root']['cls']}  {' · '.join(_total(view))}"]
    lines += [f"! {bad}" for bad in (_bad(view),) if bad]
    lines += [f"{'  ' * depth}{words}" for depth, words in _lines(view["root"], view, 1)]
    if len(lines) > options.MODULE_LINES:
        lines = [*lines[: options.MODULE_LINES], f"… {len(lines) - options.MODULE_LINES} more lines; all: .table()"]
    return "\n".join(lines + note_text(view["note"], ""))


def to_repr(view: ModuleView) -> str:
    """The direct parts, in short."""
    root = view["root"]
    lines = [f"{root['cls']}  {' · '.join(_total(view))}", *(f"! {bad}" for bad in (_bad(view),) if bad)]
    parts = [_param_words(indices, view) for indices in root["params"]] + [_words(child) for child in root["children"]]
    tail = [f"… {len(parts) - 12} more"] if len(parts) > 12 else []
    return "\n".join([lines[0], *(f"  {line}" for line in [*lines[1:], *parts[:12], *tail])])


def _words(node: ModuleNode) -> str:
    return "  ".join(word for word in (_title(node), node["note"], _count(node)) if word)


def _param_words(indices: list[int], view: ModuleView) -> str:
    rows = [view["rows"][i] for i in indices]
    flags = list(dict.fromkeys(f"! {flag}" for row in rows for flag in _flags(row)))
    return "  ".join([f"{_name(rows[0])} {_shape(rows[0])}", *_facts(rows, view), *flags])


def _lines(node: ModuleNode, view: ModuleView, depth: int) -> Iterator[tuple[int, str]]:
    for indices in node["params"]:
        yield depth, _param_words(indices, view)
    for child in node["children"]:
        yield depth, _words(child)
        yield from ((depth + 1, f"({words})") for words in child["differs"])
        yield from _lines(child, view, depth + 1)


# -- table


def to_table(view: ModuleView) -> Table:
    """A row for each parameter and buffer. A shared one is listed under each of its names."""
    columns = ["name", "dims", "shape", "dtype", "device", "count", "trained", "weight decay", "shared with"]
    return Table([*columns, "norm", "mean", "std", "grad norm"], [_cells(row) for row in view["rows"]])


def _cells(row: ParamRow) -> list[Any]:
    shape = [dim["size"] for dim in row["dims"]] if row["shape"] is None else row["shape"]
    names = ", ".join(dim["name"] for dim in row["dims"])
    trained = "buffer" if row["buffer"] else "yes" if row["trainable"] else "no"
    facts = [row["dtype"], row["device"], row["count"], trained, row["weight_decay"], row["shared"]]
    numbers = [row["norm"], row["mean"], row["std"], row["grad"]]
    return [row["path"], names, "×".join(map(str, shape)), *facts, *numbers]


# -- HTML

ROW = "white-space:nowrap"
COLUMN = "display:inline-block;min-width:8em;padding-right:8px"


def to_html(view: ModuleView) -> Html:
    """The tree with folds."""
    room = [options.MODULE_LINES]
    bad = _bad(view)
    head = join(el("span", view["root"]["cls"], style=style.NAME), quiet("  " + " · ".join(_total(view))))
    tree = _inside(view["root"], view, room)
    remark = f"… and more; all: .table(). {view['note'] or ''}" if room[0] <= 0 else view["note"]
    return el(
        "div",
        el("div", head, style=style.HEAD),
        el("div", chip(bad, style.ALARM)) if bad else None,
        el("div", tree, style=f"{style.RAIL};overflow-x:auto;{style.NUMBERS}"),
        quiet(remark, tag="div") if remark else None,
        style=style.BOX,
    )


def _inside(node: ModuleNode, view: ModuleView, left: list[int]) -> list[Html]:
    parts = []
    for indices in node["params"]:
        if left[0] > 0:
            left[0] -= 1
            parts.append(_param(indices, view))
    for child in node["children"]:
        if left[0] > 0:
            left[0] -= 1
            parts.append(_fold(child, view, left))
    return parts


def _fold(node: ModuleNode, view: ModuleView, left: list[int]) -> Html:
    title = join(_head(node), quiet(" · ".join(word for word in (node["note"], _count(node)) if word)))
    lines = [quiet(words, tag="div") for words in node["differs"]] + _inside(node, view, left)
    if not lines:
        return el("div", title, style="padding-left:13px")
    return el("details", el("summary", title, style="cursor:pointer"), el("div", lines, style=style.RAIL),
              open=_small(node))  # fmt: skip


def _small(node: ModuleNode) -> bool:
    """Whether a part is too small to be folded."""
    return node["repeat"] == 1 and 0 < len(node["children"]) <= 8


def _head(node: ModuleNode) -> Html:
    name = el("b", f"{node['name']}: ") if node["name"] else None
    times = chip(f"× {node['repeat']}", style.GREY) if node["repeat"] > 1 else None
    return join(name, node["cls"], " ", times)


def _param(indices: list[int], view: ModuleView) -> Html:
    rows = [view["rows"][i] for i in indices]
    flags = dict.fromkeys(flag for row in rows for flag in _flags(row))
    return el(
        "div",
        el("span", _name(rows[0]), style=COLUMN),
        [_pill(dim) for dim in rows[0]["dims"]] if rows[0]["dims"] else quiet(f"{_shape(rows[0])} "),
        [chip(flag, style.ALARM) for flag in flags],
        quiet(" · ".join(_facts(rows, view))),
        style=ROW,
    )


def _pill(dim: Any) -> Html:
    """A pill with few bytes of HTML, which takes font and wrapping from its row."""
    colour = colour_of(dim) or style.GREY
    look = f"background:{style.tint(colour, 0.16)};border-left:3px solid {colour};padding:0 5px;margin-right:4px"
    return el("span", dim_word(dim), class_="rfnb-dim", data_rfnb_dim=dim["serial"], style=look)
