"""Attention weights that are a Tensor, and which of its dims are rows, columns, layers and heads."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.display.attention.weights import Side, Weights, split
from rfnb.display.kit.data import Data, read_as_called, to_numpy
from rfnb.display.kit.degrade import Notes
from rfnb.display.tensor.select import index_of, sequence
from rfnb.errors import ViewError


def of_tensor(tensor: Any, rows: Side, cols: Side, batch: int | str | None, notes: Notes) -> Weights:
    """One sequence of a Tensor. Raises ViewError if it has not two sides, or no such sequence."""
    data = read_as_called(tensor)
    for note in data.notes:
        notes.add(note)
    asked = [_dim_of(side, data) for side in (rows, cols)]
    at, index = data.sequence_axis(), None
    if at is not None and data.axes[at].dim in asked:
        at = None
    if at is None and batch is not None:
        sequence(data, batch)  # says what is wrong
    one, tag = data, None
    if at is not None:
        axis = data.axes[at]
        index = index_of(0 if batch is None else batch, axis.size, axis.tags)
        tag = axis.tags[index] if axis.tags is not None else f"{axis.dim.name} {index}"
        one = data.pick(at, index)
    roles, extra = _roles_of(one, asked)
    raw = data.raw if at is None else data.raw[(slice(None),) * at + (index,)]
    if extra:
        notes.add(f"mean over {', '.join(one.axes[i].dim.name for i in extra)}")
        raw = to_numpy(raw).mean(axis=tuple(extra))
    raws = split(raw, roles, None)
    sides = [axis for axis, i in zip(one.axes, range(len(one.axes)), strict=True) if i not in extra]
    row_axis, col_axis = (sides[roles.index(role)] for role in ("row", "col"))
    count, heads = len(raws), int(raws[0].shape[0]) if raws else 0
    return Weights(data.name, tag, index, raws, [*range(count)], [*range(heads)], [""] * count, row_axis, col_axis)


def _dim_of(side: Side, data: Data) -> Dim | None:
    """Which dim a side means; labels of a tensor mean the one dim that both have."""
    if isinstance(side, Dim):
        if data.position(side) is None:
            raise ViewError(f"show_attention: {data.name} has no dim {side.name}", got=[a.dim.name for a in data.axes])
        return side
    if hasattr(side, "raw_tensor"):
        count = data.sequence_axis()
        both = [d for d in side.dims if data.position(d) is not None and data.position(d) != count]
        return both[0] if both else None
    return None


def _roles_of(data: Data, asked: list[Dim | None]) -> tuple[list[str], list[int]]:
    """What the axes are, and those that are averaged away.

    Sides are what is named; else axes with lengths, else the last ones. Of the others one is heads, or two are layers
    and heads, in their order unless their names say it.
    """
    known = [data.position(dim) if dim is not None else None for dim in asked]
    if known[0] is not None and known[0] == known[1]:
        raise ViewError("show_attention: rows and columns are the same axis", got=data.axes[known[0]].dim.name)
    free = [i for i in range(len(data.axes)) if i not in known]
    free.sort(
        key=lambda i: (_is_named(data, i, "head") or _is_named(data, i, "layer"), data.axes[i].dim.is_static(), -i)
    )
    wanted = known.count(None)
    if len(free) < wanted:
        raise ViewError(
            "show_attention: needs two axes besides the one that counts sequences", got=[a.dim.name for a in data.axes]
        )
    chosen = iter(sorted(free[:wanted]))
    row, col = (i if i is not None else next(chosen) for i in known)
    rest = [i for i in range(len(data.axes)) if i not in (row, col)]
    layer = next((i for i in rest if _is_named(data, i, "layer")), rest[0] if len(rest) == 2 else None)
    if len(rest) == 2 and layer == rest[0] and _is_named(data, rest[0], "head"):
        layer = rest[1]
    head = next((i for i in rest if i != layer), None)
    extra = [i for i in rest if i not in (layer, head)]
    roles = {row: "row", col: "col", layer: "layer", head: "head"}
    return [roles[i] for i in range(len(data.axes)) if i not in extra], extra


def _is_named(data: Data, axis: int, word: str) -> bool:
    return word in data.axes[axis].dim.name.lower()
