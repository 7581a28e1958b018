"""Norms of gradients by parameter, by module, and of the whole model; their view: a bar for each, anomalies first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, aligned, chip, note_html, note_text, quiet
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.training.schema import GradientNorm, GradientNormsView
from rfnb.errors import ParameterError


class GradientNorms(Shown):
    """The result of `rf.gradient_norms`.

    Args:
        model: whose they are.
        parameters: by path, of what is trained; None where there is no gradient.
        weights: by path, the norms of the values.
        empty: by path, why a parameter has no values: "no shape yet" or "on meta".
    """

    def __init__(
        self,
        model: Any,
        parameters: Mapping[str, float | None],
        weights: Mapping[str, float],
        empty: Mapping[str, str] | None = None,
    ):
        self.model, self.parameters, self.weights = model, dict(parameters), dict(weights)
        self.empty = dict(empty or {})

    @property
    def total(self) -> float:
        """The norm of all gradients together, which `torch.nn.utils.clip_grad_norm_` compares with its limit."""
        return joined(self.parameters.values())

    @property
    def modules(self) -> dict[str, float]:
        """Norms by path of module, over all parameters in and below it."""
        return {path: self.below(path, self.parameters) for path, _ in self.model.named_modules()}

    @property
    def bad(self) -> dict[str, str]:
        """Anomalies by path: "NaN", "Inf", "no gradient", "zero", "no shape yet", "on meta"."""
        words = {path: self.empty.get(path) or verdict(norm) for path, norm in self.parameters.items()}
        return {path: word for path, word in words.items() if word}

    def below(self, module: str, norms: Mapping[str, float | None]) -> float:
        """The norms of parameters below the path of a module."""
        return joined(norm for path, norm in norms.items() if not module or path.startswith(f"{module}."))


def joined(norms: Any) -> float:
    """The joint norm of parts with these norms."""
    return math.sqrt(sum(norm * norm for norm in norms if norm is not None))


def verdict(norm: float | None) -> str:
    """The anomaly of a norm; "" if there is none.

    >>> [verdict(norm) for norm in (None, 0.0, float("nan"), float("inf"), 0.1)]
    ['no gradient', 'zero', 'NaN', 'Inf', '']
    """
    if norm is None:
        return "no gradient"
    return "NaN" if math.isnan(norm) else "Inf" if math.isinf(norm) else "" if norm else "zero"


def gradient_norms(model: Any) -> GradientNorms:
    """The gradient norms of a module of rfnb or torch."""
    if not hasattr(model, "named_parameters"):
        raise ParameterError(
            "gradient_norms: `model` is not a module", got=type(model).__name__, expected="a module of rfnb or torch"
        )
    from torch.nn.parameter import is_lazy

    trained = {path: raw for path, raw in _raws(model) if raw.requires_grad}
    empty = {p: "no shape yet" if is_lazy(x) else "on meta" for p, x in trained.items() if is_lazy(x) or x.is_meta}
    raws = {path: raw for path, raw in trained.items() if path not in empty}
    grads = {path: raw.grad for path, raw in raws.items() if raw.grad is not None}
    values = _norms([*grads.values(), *raws.values()])
    norms = dict(zip(grads, values, strict=False))
    weights = dict(zip(raws, values[len(grads) :], strict=True))
    return GradientNorms(model, {path: norms.get(path) for path in trained}, weights, empty)


def _raws(model: Any) -> Any:
    for path, parameter in model.named_parameters():
        yield path, parameter.raw_tensor if isinstance(parameter, Parameter) else parameter


def _norms(raws: list[Any]) -> list[float]:
    """Norms of tensors, read from the device in one transfer."""
    import torch

    with torch.no_grad():
        norms = [raw.detach().norm(dtype=torch.float32 if raw.element_size() < 4 else None) for raw in raws]
        if len({(norm.device, norm.dtype) for norm in norms}) > 1:
            return [float(norm) for norm in norms]
        return torch.stack(norms).tolist() if norms else []


if TYPE_CHECKING:
    pass

ROOM = 60
"""Largest number of rows; for larger models, modules and anomalies, then upper modules only."""
DECADES = 6
"""Range of a bar in powers of ten: it is full for the largest norm and empty for one this much smaller."""
BLOCKS = 12
PIXELS = 120


def describe(norms: GradientNorms) -> GradientNormsView:
    """A row for each module with trained parameters, and for each of these."""
    rows = list(_rows(norms))
    visible = _with_room(rows)
    extra = len(rows) - len(visible)
    return {
        "kind": "gradient_norms",
        "cls": type(norms.model).__name__,
        "total": plain(norms.total),
        "rows": rows,
        "shown": visible,
        "bad": _bad(norms.bad),
        "note": f"{count_of(extra, 'more row')}: .table(); bars are logarithmic, over {DECADES} powers of ten"
        if extra
        else f"bars are logarithmic, over {DECADES} powers of ten",
    }


def _rows(norms: GradientNorms) -> Iterator[GradientNorm]:
    by_module: dict[str, list[str]] = {}
    bad = norms.bad
    for path in norms.parameters:
        by_module.setdefault(path.rpartition(".")[0], []).append(path)
    for path, module in norms.model.named_modules():
        depth = path.count(".") + 1 if path else 0
        if path and any(name.startswith(f"{path}.") for name in norms.parameters):
            gradient, weight = (norms.below(path, values) for values in (norms.parameters, norms.weights))
            yield _row(path, depth, type(module).__name__, gradient, weight, "")
        for name in by_module.get(path, ()):
            norm = norms.parameters[name]
            yield _row(name, depth + 1, "", norm, norms.weights.get(name, 0.0), bad.get(name, ""))


def _row(path: str, depth: int, cls: str, norm: float | None, weight: float, flag: str) -> GradientNorm:
    return {
        "path": path,
        "depth": depth,
        "cls": cls,
        "norm": None if norm is None else plain(norm),
        "weight": plain(weight),
        "flag": flag,
    }


def _with_room(rows: list[GradientNorm]) -> list[int]:
    indices = list(range(len(rows)))
    if len(indices) > ROOM:
        indices = [i for i in indices if rows[i]["cls"] or rows[i]["flag"]]
    depth = max((row["depth"] for row in rows), default=0)
    while len(indices) > ROOM and depth > 1:
        depth -= 1
        indices = [i for i in indices if rows[i]["depth"] <= depth]
    return indices[: 2 * ROOM]


def _bad(bad: dict[str, str]) -> list[str]:
    """ "no gradient: out.weight, out.bias" """
    words: dict[str, list[str]] = {}
    for path, word in bad.items():
        words.setdefault(word, []).append(path)
    return [
        f"{word}: {', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}"
        for word, paths in words.items()
    ]


# -- words


def _title(view: GradientNormsView) -> tuple[str, str]:
    count = sum(not row["cls"] for row in view["rows"])
    return view["cls"], f"‖grad‖ {short(view['total'])} of {count_of(count, 'parameter')}"


def _name(row: GradientNorm) -> str:
    name = row["path"].rpartition(".")[2]
    return f"{name}: {row['cls']}" if row["cls"] else name


def _part(row: GradientNorm, top: float) -> float:
    """The filled part of the bar, from 0 to 1."""
    norm = real(row["norm"] or 0.0)
    if not math.isfinite(norm) or not norm or not top:
        return 0.0
    return min(1.0, max(0.0, 1 + math.log10(norm / top) / DECADES))


def _top(view: GradientNormsView) -> float:
    """The largest norm of a parameter or module."""
    norms = [real(row["norm"]) for row in view["rows"] if row["norm"] is not None]
    return max(filter(math.isfinite, norms), default=0.0)


def to_text(view: GradientNormsView) -> str:
    """One line per row."""
    top = _top(view)
    head = "  ".join(_title(view))
    lines = [["", "‖grad‖", "", "‖·‖", ""], *(_cells(view["rows"][i], top) for i in view["shown"])]
    bad = [f"! {words}" for words in view["bad"]]
    return "\n".join([head, *bad, *(f"  {line}" for line in aligned(lines)), *note_text(view["note"])])


def _cells(row: GradientNorm, top: float) -> list[str]:
    norm = "" if row["norm"] is None else short(row["norm"])
    bar = "█" * math.ceil(_part(row, top) * BLOCKS)
    return [
        "  " * (row["depth"] - 1) + _name(row),
        norm,
        bar,
        short(row["weight"]),
        f"! {row['flag']}" if row["flag"] else "",
    ]


def to_table(view: GradientNormsView) -> Table:
    """A row for each module and parameter."""
    columns = ["name", "class", "grad norm", "norm", "odd"]
    return Table(columns, [[r["path"], r["cls"], r["norm"], r["weight"], r["flag"]] for r in view["rows"]])


# -- HTML


def to_html(view: GradientNormsView) -> Html:
    """The norms as a table with bars."""
    name, words = _title(view)
    top = _top(view)
    heads = [el("th", word, style=style.LABEL_CELL) for word in ("", "‖grad‖", "", "‖·‖", "")]
    return el(
        "div",
        el("div", el("span", name, style=style.NAME), quiet(f"  {words}"), style=style.HEAD),
        [el("div", chip(words, style.ALARM)) for words in view["bad"]],
        el("table", el("tr", heads), [_line(view["rows"][i], top) for i in view["shown"]], style=style.TABLE),
        note_html(view["note"]),
        style=f"{style.BOX};overflow-x:auto",
    )


def _line(row: GradientNorm, top: float) -> Html:
    width = round(_part(row, top) * PIXELS)
    colour = style.GREY if row["cls"] else style.PALETTE[0]
    bar = el("div", style=f"width:{width}px;height:9px;background:{style.tint(colour, 0.75)}")
    return el(
        "tr",
        el("td", _name(row), style=f"{style.LEFT_CELL};padding-left:{14 * (row['depth'] - 1)}px"),
        el("td", "" if row["norm"] is None else short(row["norm"]), style=style.CELL),
        el("td", bar, style=f"{style.LEFT_CELL};vertical-align:middle;min-width:{PIXELS}px"),
        el("td", short(row["weight"]), style=f"{style.CELL};opacity:0.65"),
        el("td", chip(row["flag"], style.ALARM) if row["flag"] else None, style=style.LEFT_CELL),
        style=style.PLAIN_ROW,
    )
