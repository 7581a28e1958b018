"""One value in a nested structure, on one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.display import options
from rfnb.display.arrays import data_of
from rfnb.display.attempt import Notes
from rfnb.display.data import Data, read
from rfnb.display.numbers import percent, short
from rfnb.display.schema import TreeNode
from rfnb.display.stats import measure
from rfnb.display.views.dims import describe_axes
from rfnb.display.views.value import sampled, value_text

PLAIN = (bool, int, float, complex, str, bytes, type(None))
FEW = 8
TEXT = 60
"""So much of a string is shown."""


def fill(node: TreeNode, value: Any, *, look: bool) -> None:
    """Says what the value is; `look`: also what is in a tensor."""
    if isinstance(value, PLAIN):
        node["text"] = _clipped(value)
    elif isinstance(value, Dim):
        node["text"] = value.describe()
    elif isinstance(value, Tensor) or hasattr(value, "shape") or isinstance(value, list | tuple):
        notes = Notes()
        data = notes.attempt("numbers", lambda: read(value) if isinstance(value, Tensor) else data_of(value), None)
        if data is not None:
            notes.attempt("numbers", lambda: _tensor(node, data, look), None)
        node["text"] = node["text"] or (f"({notes.text()})" if notes.lines else "")


def _tensor(node: TreeNode, data: Data, look: bool) -> None:
    plain = data.cls != "Tensor"
    node["dims"] = [] if plain else describe_axes(data.axes, data.feature)
    node["dtype"] = f"{data.dtype} {list(data.shape)}" if plain else data.dtype
    node["tensors"] = 0 if data.cls in ("list", "tuple") else 1
    node["bytes"] = node["tensors"] * data.entries * int(getattr(data.raw.dtype, "itemsize", 0))
    if data.device not in ("cpu", "None"):
        node["dtype"] += f" {data.device}"
    if look and data.device != "meta":
        node["text"], node["flags"] = in_short(data)


def in_short(data: Data) -> tuple[str, list[str]]:
    """The numbers if they are few, else `μ 0.1 σ 1 [-3 .. 3]` of a sample; and what is not finite, of all."""
    flags = _not_finite(data)
    if data.entries <= FEW or data.sparse is not None:
        return value_text(data), flags
    seen = sampled(data)
    seen = seen[np.isfinite(seen)]
    if not seen.size:
        return "nothing finite" if flags else "only padding", flags
    if data.dtype == "bool":
        return f"true {percent(float(seen.mean()))}", flags
    low, high = float(seen.min()), float(seen.max())
    if low == high:
        return f"all {short(low)}", flags
    return f"μ {short(float(seen.mean()))} σ {short(float(seen.std()))} [{short(low)} .. {short(high)}]", flags


def _not_finite(data: Data) -> list[str]:
    """One sum tells whether to look closer; of large tensors only a sample is looked at."""
    if data.entries == 0 or data.dtype == "bool" or data.dtype.startswith(("int", "uint")):
        return []
    few = data.entries <= options.EXACT_ENTRIES
    with np.errstate(all="ignore"):
        if np.isfinite(float(data.raw.sum())) if few else np.isfinite(sampled(data)).all():
            return []
    found = measure(data)
    return [] if found is None else [f"{bad.count:,} {word}" for word, bad in found.bad.items()]


def _clipped(value: Any) -> str:
    text = repr(value[:TEXT] if isinstance(value, str | bytes) else value)
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
