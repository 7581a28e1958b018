"""Norms of gradients by parameter, by module, and of the whole model; their view: a bar for each, anomalies first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of, first_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import RawTensor
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.numbers import short
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


def joined(norms: Iterable[float | None]) -> float:
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


def gradient_norms(model: object) -> GradientNorms:
    """The gradient norms of a module of rfnb or torch."""
    if not hasattr(model, "named_parameters"):
        raise ParameterError(
            "gradient_norms: `model` is not a module", got=type(model).__name__, expected="a module of rfnb or torch"
        )
    from torch.nn.parameter import is_lazy

    every = {path: x.raw_tensor if isinstance(x, Parameter) else x for path, x in model.named_parameters()}
    trained = {path: raw for path, raw in every.items() if raw.requires_grad}
    empty = {p: "no shape yet" if is_lazy(x) else "on meta" for p, x in trained.items() if is_lazy(x) or x.is_meta}
    raws = {path: raw for path, raw in trained.items() if path not in empty}
    grads = {path: raw.grad for path, raw in raws.items() if raw.grad is not None}
    values = _norms([*grads.values(), *raws.values()])
    norms = dict(zip(grads, values, strict=False))
    weights = dict(zip(raws, values[len(grads) :], strict=True))
    return GradientNorms(model, {path: norms.get(path) for path in trained}, weights, empty)


def _norms(raws: list[RawTensor]) -> list[float]:
    """Norms of tensors, read from the device in one transfer."""
    import torch

    with torch.no_grad():
        norms = [raw.detach().norm(dtype=torch.float32 if raw.element_size() < 4 else None) for raw in raws]
        if len({(norm.device, norm.dtype) for norm in norms}) > 1:
            return [float(norm) for norm in norms]
        return torch.stack(norms).tolist() if norms else []


ROOM = 60
"""Largest number of rows; for larger models, modules and anomalies, then upper modules only."""
DECADES = 6
"""Range of a bar in powers of ten: it is full for the largest norm and empty for one this much smaller."""
BLOCKS = 12
PIXELS = 120


class GradientRow(NamedTuple):
    """The norm of a parameter's gradient, or of those of a module; None if there is none. odd: "NaN", "zero" or so."""

    path: str
    cls: str
    norm: float | None
    weight: float
    odd: str

    @property
    def depth(self) -> int:
        """How many modules it is in."""
        return self.path.count(".")


@page.shows("gradient_norms", "rfnb.display.training.gradient_norms.GradientNorms")
def describe(norms: GradientNorms) -> page.Page:
    """The norms as a table with bars, anomalies first."""
    rows = list(_rows(norms))
    visible = _with_room(rows)
    extra = f"{count_of(len(rows) - len(visible), 'more row')}: .table(); " if len(rows) > len(visible) else ""
    count = sum(not row.cls for row in rows)
    top = max((row.norm for row in rows if row.norm is not None and math.isfinite(row.norm)), default=0.0)
    blocks: list[page.Block] = [
        page.head(type(norms.model).__name__, f"  ‖grad‖ {short(norms.total)} of {count_of(count, 'parameter')}"),
        *(page.Line(page.chip(words, style.ALARM, text=f"! {words}")) for words in _bad(norms.bad)),
        page.Grid([_cells(row, top) for row in visible], ["", "‖grad‖", "", "‖·‖", ""], LOOKS, head=style.LABEL_CELL),
        page.Note(f"{extra}bars are logarithmic, over {DECADES} powers of ten"),
    ]
    table = page.Table(["name", "class", "grad norm", "norm", "odd"], rows)
    return page.Page("gradient_norms", type(norms.model).__name__, blocks, table)


def _rows(norms: GradientNorms) -> Iterator[GradientRow]:
    by_module: dict[str, list[str]] = {}
    bad = norms.bad
    for path in norms.parameters:
        by_module.setdefault(path.rpartition(".")[0], []).append(path)
    for path, module in norms.model.named_modules():
        if path and any(name.startswith(f"{path}.") for name in norms.parameters):
            gradient, weight = (norms.below(path, values) for values in (norms.parameters, norms.weights))
            yield GradientRow(path, type(module).__name__, gradient, weight, "")
        for own in by_module.get(path, ()):
            norm = norms.parameters[own]
            yield GradientRow(own, "", norm, norms.weights.get(own, 0.0), bad.get(own, ""))


def _with_room(rows: list[GradientRow]) -> list[GradientRow]:
    if len(rows) > ROOM:
        rows = [row for row in rows if row.cls or row.odd]
    depth = max((row.depth for row in rows), default=0)
    while len(rows) > ROOM and depth > 0:
        depth -= 1
        rows = [row for row in rows if row.depth <= depth]
    return rows[: 2 * ROOM]


def _bad(bad: dict[str, str]) -> list[str]:
    """ "no gradient: out.weight, out.bias" """
    words: dict[str, list[str]] = {}
    for path, word in bad.items():
        words.setdefault(word, []).append(path)
    return [f"{word}: {first_of(paths, 3)}" for word, paths in words.items()]


LOOKS = (
    style.LEFT_CELL,
    style.CELL,
    f"{style.LEFT_CELL};vertical-align:middle;min-width:{PIXELS}px",
    f"{style.CELL};opacity:0.65",
)


def _cells(row: GradientRow, top: float) -> list[page.Words]:
    name = row.path.rpartition(".")[2]
    words = f"{name}: {row.cls}" if row.cls else name
    part = _part(row.norm or 0.0, top)
    look = f"width:{round(part * PIXELS)}px;height:9px;background:"
    colour = style.tint(style.GREY if row.cls else style.PALETTE[0], 0.75)
    return [
        page.Span("\u2003" * row.depth + words, text="  " * row.depth + words),
        "" if row.norm is None else short(row.norm),
        page.Span(None, look + colour, text="█" * math.ceil(part * BLOCKS), tag="div"),
        short(row.weight),
        page.chip(row.odd, style.ALARM, text=f"! {row.odd}") if row.odd else None,
    ]


def _part(norm: float, top: float) -> float:
    """The filled part of the bar, from 0 to 1."""
    if not math.isfinite(norm) or not norm or not top:
        return 0.0
    return min(1.0, max(0.0, 1 + math.log10(norm / top) / DECADES))
