"""One value in a nested structure, on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import Data, read
from rfnb.display.kit.degrade import Notes, reason
from rfnb.display.kit.dims import describe_axes, describe_dim
from rfnb.display.markup.numbers import percent, short
from rfnb.display.tensor.arrays import data_of
from rfnb.display.tensor.stats import measure, moments
from rfnb.display.tensor.value import value_text
from rfnb.display.tree.schema import TreeNode
from rfnb.errors import ViewError

PLAIN = (bool, int, float, complex, str, bytes, type(None))
FEW = 8
TEXT = 60
"""Longest string shown, in characters."""


def fill(node: TreeNode, value: Any, *, look: bool, closely: bool = True) -> int:
    """Fills in facts about a value, with `look` also about a tensor's entries. Returns its number of entries."""
    if isinstance(value, PLAIN):
        node["text"] = _clipped(value)
    elif isinstance(value, Dim):
        node["text"] = value.describe()
    elif isinstance(value, Tensor) or hasattr(type(value), "shape") or isinstance(value, list | tuple):
        try:
            data = read(value) if isinstance(value, Tensor) else data_of(value)
        except Exception as error:
            node["dims"] = [describe_dim(dim, value.lengths) for dim in value.dims] if isinstance(value, Tensor) else []
            node["text"] = f"({error.what if isinstance(error, ViewError) else f'no numbers: {reason(error)}'})"
        else:
            _add(node, data, look=look, closely=closely)
            return data.entries
    return 0


def _add(node: TreeNode, data: Data, *, look: bool, closely: bool) -> None:
    """Adds facts about a tensor's entries, if they can be read."""
    notes = Notes(*data.notes)
    notes.attempt("numbers", lambda: _tensor(node, data, look, closely), None)
    node["text"] += f"{'  ' if node['text'] else ''}({notes.text()})" if notes.lines else ""


def _tensor(node: TreeNode, data: Data, look: bool, closely: bool) -> None:
    plain = data.cls != "Tensor"
    node["dims"] = [] if plain else describe_axes(data.axes, data.feature)
    node["dtype"] = f"{data.dtype} {list(data.shape)}" if plain else data.dtype
    node["tensors"] = 0 if data.cls in ("list", "tuple") else 1
    node["bytes"] = node["tensors"] * data.entries * int(getattr(data.raw.dtype, "itemsize", 0))
    if data.device not in ("cpu", "None"):
        node["dtype"] += f" {data.device}"
    if look and data.device != "meta":
        node["text"], node["flags"] = in_short(data, closely=closely)


def in_short(data: Data, *, closely: bool = True) -> tuple[str, list[str]]:
    """The numbers if there are few, else `μ 0.1 σ 1 [-3 .. 3]`, or `≈ μ 0.1 …` for a sample; and NaN and Inf."""
    measured = measure(data, closely=closely)
    flags = [] if measured is None else [f"{bad.count:,} {word}" for word, bad in measured.bad.items()]
    if data.entries <= FEW or data.sparse is not None:
        return value_text(data), flags
    if measured is None:
        return "only padding", flags
    values = moments(measured.frames)
    if values["min"] == "nan":
        return "no finite entries", flags
    return ("≈ " if measured.where else "") + _in_words(values, data.dtype == "bool"), flags


def _in_words(values: Mapping[str, Any], of_bools: bool) -> str:
    if of_bools:
        return f"true {percent(values['mean'])}"
    low, mean, high, std = (short(values[key]) for key in ("min", "mean", "max", "std"))
    return f"all {low}" if values["min"] == values["max"] else f"μ {mean} σ {std} [{low} .. {high}]"


def _clipped(value: Any) -> str:
    return cut(repr(value[:TEXT] if isinstance(value, str | bytes) else value), TEXT)
