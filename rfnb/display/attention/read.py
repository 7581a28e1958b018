"""Reads attention weights of one sequence from a Tensor, an array, or one of either for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.display.attention.arrays import of_array, of_tensor
from rfnb.display.attention.weights import Side, Weights
from rfnb.display.kit.degrade import Notes
from rfnb.errors import ViewError
from rfnb.trace.capture.capture import Captured, Seen


def read_weights(
    given: Any,
    *,
    rows: Side,
    cols: Side,
    batch: int | str | None,
    dims: Sequence[str] | None,
    lengths: Any,
    notes: Notes,
) -> Weights:
    """The weights of a sequence. Raises ViewError if two sides cannot be found, or the sequence does not exist."""
    if isinstance(given, Captured):
        given = _of_one_kind(given, notes)
    layered = isinstance(given, list | tuple) and any(layer is None or _is_array(layer) for layer in given)
    if isinstance(given, list | tuple) and not given:
        raise ViewError("show_attention: there are no weights", got="an empty list")
    parts = [_one(layer, rows, cols, batch, dims, lengths, notes) for layer in (given if layered else [given])]
    shape: tuple[int, ...] = () if hasattr(given, "raw_tensor") else getattr(given, "shape", ())
    if len(shape) == 4 and shape[0] > 1 and dims is None and batch is None:
        notes.add('the first axis was taken for sequences; dims=["layer", "head", "row", "col"] if it is layers')
    shapes = {part.full for part in parts} | {part.full for part in parts if len(part.heads) != len(parts[0].heads)}
    if len(shapes) > 1 or len({len(part.heads) for part in parts}) > 1:
        raise ViewError(
            "show_attention: the layers have different sizes",
            got=", ".join(f"{len(part.heads)}×{part.full[0]}×{part.full[1]}" for part in parts),
            hint="show them one by one",
        )
    if len(parts) == 1:
        return parts[0]
    raws = [raw for part in parts for raw in part.raws]
    names = [name for part in parts for name in part.names]
    return replace(
        parts[0],
        name=_common(names) or ("attention" if any(names) else parts[0].name),
        raws=raws,
        layers=list(range(len(raws))),
        names=names,
    )


def _one(
    given: Any, rows: Side, cols: Side, batch: int | str | None, dims: Sequence[str] | None, lengths: Any, notes: Notes
) -> Weights:
    if isinstance(given, Seen):
        rows, cols = (rows if isinstance(rows, Dim) else given.rows), given.cols
        weights = of_tensor(given.weights, rows, cols, batch, notes)
        return replace(weights, name=given.name, names=[given.name] * len(weights.names))
    if hasattr(given, "raw_tensor"):
        if dims is not None or lengths is not None:
            raise ViewError("show_attention: a Tensor has its own dims and lengths", got="dims= or lengths=")
        return of_tensor(given, rows, cols, batch, notes)
    return of_array(given, rows, cols, batch, dims, lengths)


# -- several
def _is_array(given: Any) -> bool:
    return hasattr(given, "raw_tensor") or isinstance(given, Seen) or len(getattr(given, "shape", ())) >= 2


def _of_one_kind(captured: Captured, notes: Notes) -> list[Seen]:
    """The weights of the first call with the most frequent dims and sizes; names of the others go into the notes."""
    groups: dict[Any, list[Seen]] = {}
    first, last = (pick((entry.call for entry in captured), default=1) for pick in (min, max))
    for entry in captured:
        if entry.call == first:
            sides = ("" if entry.rows is None else entry.rows.name, entry.cols.name)
            groups.setdefault((entry.shape, sides), []).append(entry)
    if not groups:
        raise ViewError("show_attention: no attention was seen", hint=captured.why_nothing())
    largest = max(groups.values(), key=len)
    names = [entry.name for group in groups.values() for entry in group if group is not largest]
    if last > first:
        notes.add(f"of several calls the first; rf.show_attention(seen['*#{last}'])")
    if names:
        tail = f" and {len(names) - 3} more" if len(names) > 3 else ""
        notes.add(f"of other dims or sizes: {', '.join(names[:3])}{tail}; rf.show_attention(seen[{names[0]!r}])")
    return largest


def _common(names: list[str]) -> str:
    """The common start of all names: "encoder.layers"."""
    first, last = min(names), max(names)
    stop = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:stop].rstrip("._#0123456789 ")
