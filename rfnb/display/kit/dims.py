"""Dims in views: their JSON, their word in text, their pill in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np

from rfnb.core.dims.dim import KINDS
from rfnb.display.kit import options
from rfnb.display.kit.data import Axis
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el, join

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.lengths import Lengths

Kind = Literal["batch", "spatial", "feature", "other"]

UNKNOWN = -1
"""The size of a dim that has none, outside of any batch."""

_seen: dict[int, int] = {}
_seen_lock = Lock()


def describe_axes(axes: Sequence[Axis], feature: Dim | None = None) -> list[DimView]:
    """The JSON of the axes of one tensor."""
    counted = {dim for axis in axes for dim in axis.over}
    return [describe_axis(axis, _kind(axis, counted, feature)) for axis in axes]


def describe_axis(axis: Axis, kind: Kind) -> DimView:
    """The JSON of one axis."""
    lengths = None if axis.lengths is None else np.asarray(axis.lengths)
    fits = lengths is not None and lengths.ndim == 1 and len(lengths) <= options.LENGTHS
    return {
        "name": axis.dim.name,
        "serial": axis.dim.serial,
        "size": axis.size,
        "kind": kind,
        "lengths": [int(n) for n in lengths] if lengths is not None and fits else None,
        "length_range": _range(lengths),
        "colour": None if kind in ("batch", "feature") else palette_index(axis.dim.serial),
        "formula": axis.dim.formula,
        "made": made_in(axis.dim),
    }


def describe_dim(dim: Dim, lengths: Lengths) -> DimView:
    """The JSON of a dim outside of a tensor, under the lengths of a batch; of size `UNKNOWN` if it has none."""
    size = lengths.size(dim)
    kind: Kind = _given_kind(dim) or ("spatial" if dim.is_dynamic() else "other")
    if size is None:
        return describe_axis(Axis(dim, UNKNOWN), kind)
    values = size.values if size.values.ndim else None
    return describe_axis(Axis(dim, size.max, size.dims, values, size.tags), kind)


def dim_word(dim: DimView) -> str:
    """`feat:4`, `time:2–5 Σ11`."""
    return f"{dim['name']}:{size_word(dim)}"


def dims_text(dims: Iterable[DimView]) -> str:
    """`{batch:3, time:2–5 Σ11, feat:4}`"""
    return "{" + ", ".join(dim_word(dim) for dim in dims) + "}"


def size_word(dim: DimView) -> str:
    """`4`, or `2–5 Σ11` where sequences differ; `?` if not known."""
    if dim["size"] == UNKNOWN:
        return "?"
    span = dim["length_range"]
    if span is None or (span[0] == span[1] == dim["size"]):
        return str(dim["size"])
    return f"{span[0]}–{span[1]} Σ{span[2]}"


def dims_html(dims: Iterable[DimView]) -> Html:
    """A pill for each dim."""
    return join([dim_pill(dim) for dim in dims])


def dim_pill(dim: DimView) -> Html:
    """Name and size of a dim in its colour; its tooltip says where it comes from. Scripts find it by its serial."""
    derived = f" ← {dim['formula']}" if dim["formula"] not in (None, dim["name"]) else ""
    return named_pill(dim, f"{dim['name']}:{size_word(dim)}{derived}")


def named_pill(dim: DimView, words: Child, look: str = "") -> Html:
    """The pill of a dim with text of your choice in it."""
    look = style.pill(colour_of(dim)) + look
    serial = dim["serial"]
    return el("span", words, " ", class_="rfnb-dim", data_rfnb_dim=serial, style=look, title=origin(dim))


def palette_index(serial: int, most: int = 4096) -> int:
    """The index of a dim's hue in the palette: the first Dim that is shown gets the first hue and keeps it."""
    with _seen_lock:
        if serial not in _seen and len(_seen) >= most:
            _seen.pop(next(iter(_seen)))
        return _seen.setdefault(serial, len(_seen) % len(style.PALETTE))


def colour_of(dim: DimView) -> str | None:
    """The hue of a dim; None for batch and feature dims, which have none."""
    return None if dim["colour"] is None else style.PALETTE[dim["colour"] % len(style.PALETTE)]


def origin(dim: DimView) -> str | None:
    """`time+1, made in cell 4, line 2`"""
    parts = [dim["formula"], f"made in {dim['made']}" if dim["made"] else None]
    return ", ".join(part for part in parts if part) or None


def made_in(dim: Dim) -> str | None:
    """Where in the user's code the dim was made; None for dims that rfnb defines."""
    place = None if dim.made is None else dim.made.place()
    return None if place is None or place.startswith("<frozen") else place


def _given_kind(dim: Dim) -> Kind | None:
    return next((kind for kind in KINDS if kind == dim.kind), None)


def _kind(axis: Axis, counted: set[Dim], feature: Dim | None) -> Kind:
    if (kind := _given_kind(axis.dim)) is not None:
        return kind
    if axis.dim in counted or axis.tags is not None:
        return "batch"
    if axis.lengths is not None or axis.dim.is_dynamic():
        return "spatial"
    return "feature" if axis.dim is feature else "other"


def _range(lengths: np.ndarray | None) -> list[int] | None:
    if lengths is None or lengths.size == 0:
        return None
    return [int(lengths.min()), int(lengths.max()), int(lengths.sum())]


HIGH = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def namesakes(dims: Iterable[Dim]) -> dict[int, int]:
    """Numbers, from 1, for different dims that share a name, by serial."""
    by_name: dict[str, dict[int, None]] = {}
    for dim in dims:
        by_name.setdefault(dim.name, {})[dim.serial] = None
    return {serial: i for serials in by_name.values() if len(serials) > 1 for i, serial in enumerate(serials, 1)}


def names_of(dims: Iterable[Dim]) -> dict[int, str]:
    """Names that distinguish the dims, by serial.

    >>> names = names_of([rf.Dim(3, name="time"), rf.Dim(4, name="time"), rf.Dim(2, name="feat")])
    >>> list(names.values())
    ['time¹', 'time²', 'feat']
    """
    every = list(dims)
    numbers = namesakes(every)
    return {dim.serial: dim.name + str(numbers.get(dim.serial, "")).translate(HIGH) for dim in every}
