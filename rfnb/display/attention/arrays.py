"""Attention weights from arrays and Tensors: which axes are layers, heads, rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim
from rfnb.display.attention.weights import ROLES, Side, Unit, Weights, split
from rfnb.display.kit.data import Axis, Data, read_as_called, to_numpy
from rfnb.display.kit.degrade import Notes
from rfnb.display.tensor.select import index_of, sequence
from rfnb.errors import ViewError

PLAIN = {2: "row col", 3: "head row col", 4: "batch head row col", 5: "layer batch head row col"}
"""The axes of a plain array, by their number."""


def of_array(
    given: Any, rows: Side, cols: Side, batch: int | str | None, dims: Sequence[str] | None, lengths: Any
) -> Weights:
    """The weights of one sequence of an array. Raises ViewError if its axes are unknown or it has no such sequence."""
    raw = _real(given)
    named = _names(dims, len(raw.shape))
    roles = _roles(named)
    index = None
    if "batch" in roles:
        at = roles.index("batch")
        index = index_of(0 if batch is None else batch, int(raw.shape[at]), None)
    elif batch is not None:
        raise ViewError("show_attention: there is no batch axis", got=f"batch={batch!r}", expected=f"axes {named}")
    raws = split(raw, roles, index)
    row_count, col_count = (int(raw.shape[roles.index(role)]) for role in ("row", "col"))
    true = _true_lengths(lengths, row_count, col_count, index)
    row_axis, col_axis = (
        Axis(side if isinstance(side, Dim) else _dim(size, named[roles.index(role)]), length)
        for side, role, size, length in (
            (rows, "row", row_count, true[0]),
            (cols, "col", col_count, true[1]),
        )
    )
    tag = None if index is None or int(raw.shape[roles.index("batch")]) == 1 else f"batch {index}"
    count, heads = len(raws), int(raws[0].shape[0]) if raws else 0
    return Weights("weights", tag, index, raws, [*range(count)], [*range(heads)], [""] * count, row_axis, col_axis)


def _dim(size: int, name: str) -> Dim:
    """A Dim for an axis of an array, without a place in the user's code."""
    dim = Dim(size, name=name)
    dim.made = None
    return dim


def _real(given: Any) -> Any:
    raw: Any = given.detach() if hasattr(given, "detach") else _array(given)
    if (getattr(raw, "is_meta", False) or getattr(raw, "is_sparse", False)) or getattr(raw, "is_nested", False):
        raise ViewError(
            "show_attention: needs a plain tensor with numbers",
            got="one on the meta device" if raw.is_meta else "a sparse one" if raw.is_sparse else "a nested one",
            hint=None if raw.is_meta else ".to_dense()" if raw.is_sparse else ".to_padded_tensor(0)",
        )
    if raw.is_complex() if hasattr(raw, "is_complex") else raw.dtype.kind not in "biuf":
        raise ViewError("show_attention: weights must be real numbers", got=str(raw.dtype))
    return raw


def _array(given: Any) -> np.ndarray:
    if given is None:
        raise ViewError(
            "show_attention: the weights are None",
            hint='a fused kernel computes no weights; with transformers use attn_implementation="eager", '
            "with torch need_weights=True; or rf.capture(model)",
        )
    try:
        return np.asarray(given)
    except ValueError:
        raise ViewError(
            "show_attention: this is not an array", got=f"a {type(given).__name__} whose parts have different sizes",
            expected="an array, or a list with one for each layer", hint="weights[0], if each entry is for a step",
        ) from None  # fmt: skip


def _names(dims: Sequence[str] | None, count: int) -> list[str]:
    if dims is not None:
        if len(dims) != count:
            raise ViewError("show_attention: `dims` must name each axis", got=f"{len(dims)} names for {count} axes")
        return [dim.name if isinstance(dim, Dim) else str(dim) for dim in dims]
    if count not in PLAIN:
        raise ViewError(
            "show_attention: needs two to five axes",
            got=f"{count} axes",
            expected="[layers, batch, heads, rows, columns], or the last of these; batch comes before heads",
            hint='dims=["batch", "query", "key"] says what they are',
        )
    return PLAIN[count].split()


def _roles(names: list[str]) -> list[str]:
    """The roles of axes by name; the two axes without a name with a meaning are rows and columns."""
    roles = [name.rstrip("s") if name.rstrip("s") in ROLES[:3] else name for name in names]
    sides = [i for i, role in enumerate(roles) if role not in ROLES[:3]]
    if len(sides) != 2 or len(set(names)) < len(names):
        raise ViewError(
            "show_attention: which two axes are the sides?",
            got=f"dims={names}",
            expected='"layer", "batch", "head", each at most once, and two names for rows and columns',
        )
    roles[sides[0]], roles[sides[1]] = "row", "col"
    return roles


def _true_lengths(lengths: Any, rows: int, cols: int, index: int | None) -> tuple[int, int]:
    if lengths is None:
        return rows, cols
    pair = lengths if isinstance(lengths, tuple) and len(lengths) == 2 else (lengths if rows == cols else None, lengths)
    return _length(pair[0], rows, index), _length(pair[1], cols, index)


def _length(lengths: Any, size: int, index: int | None) -> int:
    if lengths is None:
        return size
    values = np.asarray(to_numpy(lengths)).reshape(-1)
    at = index or 0
    if values.dtype.kind not in "iu" or at >= len(values) or not 0 <= values[at] <= size:
        raise ViewError(
            "show_attention: lengths do not fit",
            got=f"{values.tolist()[:20]}",
            expected=f"a number from 0 to {size} for each sequence; for columns, or (rows, columns)",
        )
    return int(values[at])


def of_tensor(tensor: Any, rows: Side, cols: Side, batch: int | str | None, notes: Notes) -> Weights:
    """The weights of one sequence of a Tensor. Raises ViewError if it lacks two sides, or has no such sequence."""
    data = read_as_called(tensor)
    for note in data.notes:
        notes.add(note)
    side_dims = [_dim_of(side, data) for side in (rows, cols)]
    at, index = data.sequence_axis(), None
    if at is not None and data.axes[at].dim in side_dims:
        at = None
    if at is None and batch is not None:
        sequence(data, batch)  # says what is wrong
    part, tag = data, None
    if at is not None:
        axis = data.axes[at]
        index = index_of(0 if batch is None else batch, axis.size, axis.tags)
        tag = axis.tags[index] if axis.tags is not None else f"{axis.dim.name} {index}"
        part = data.pick(at, index)
    roles, extra = _roles_of(part, side_dims)
    raw = data.raw if at is None else data.raw[(slice(None),) * at + (index,)]
    if extra:
        notes.add(f"mean over {', '.join(part.axes[i].dim.name for i in extra)}")
        raw = to_numpy(raw).mean(axis=tuple(extra))
    raws = split(raw, roles, None)
    sides = [axis for axis, i in zip(part.axes, range(len(part.axes)), strict=True) if i not in extra]
    row_axis, col_axis = (sides[roles.index(role)] for role in ("row", "col"))
    count, heads = len(raws), int(raws[0].shape[0]) if raws else 0
    beams = [role for role, axis in zip(roles, sides, strict=True) if is_beam(axis.dim)]
    unit: Unit = "hypothesis" if "head" in beams else "head"
    names = [f"hypothesis {i}" if "layer" in beams else "" for i in range(count)]
    numbers = [*range(count)], [*range(heads)], names
    return Weights(data.name, tag, index, raws, *numbers, row_axis, col_axis, unit)


def _dim_of(side: Side, data: Data) -> Dim | None:
    """The dim that a side stands for; a tensor of labels stands for the one dim that both tensors have."""
    if isinstance(side, Dim):
        if data.position(side) is None:
            raise ViewError(f"show_attention: {data.name} has no dim {side.name}", got=[a.dim.name for a in data.axes])
        return side
    if hasattr(side, "raw_tensor"):
        count = data.sequence_axis()
        dims = [d for d in side.dims if data.position(d) is not None and data.position(d) != count]
        return dims[0] if dims else None
    return None


def _roles_of(data: Data, asked: list[Dim | None]) -> tuple[list[str], list[int]]:
    """The roles of the axes, and the axes to average over.

    The sides are the named dims, else axes with lengths, else the last axes. Of the others one is heads, or two are
    layers and heads, in this order unless their names say otherwise.
    """
    positions = [data.position(dim) if dim is not None else None for dim in asked]
    if positions[0] is not None and positions[0] == positions[1]:
        raise ViewError("show_attention: rows and columns are the same axis", got=data.axes[positions[0]].dim.name)
    free = [i for i in range(len(data.axes)) if i not in positions]
    free.sort(
        key=lambda i: (_is_named(data, i, "head") or _is_named(data, i, "layer"), data.axes[i].dim.is_static(), -i)
    )
    count = positions.count(None)
    if len(free) < count:
        raise ViewError(
            "show_attention: needs two axes besides the one that counts sequences", got=[a.dim.name for a in data.axes]
        )
    picks = iter(sorted(free[:count]))
    row, col = (i if i is not None else next(picks) for i in positions)
    outer = [i for i in range(len(data.axes)) if i not in (row, col)]
    layer = next((i for i in outer if _is_named(data, i, "layer")), outer[0] if len(outer) == 2 else None)
    if len(outer) == 2 and layer == outer[0] and _is_named(data, outer[0], "head"):
        layer = outer[1]
    head = next((i for i in outer if i != layer), None)
    extra = [i for i in outer if i not in (layer, head)]
    roles = {row: "row", col: "col", layer: "layer", head: "head"}
    return [roles[i] for i in range(len(data.axes)) if i not in extra], extra


def _is_named(data: Data, axis: int, word: str) -> bool:
    return word in data.axes[axis].dim.name.lower()
