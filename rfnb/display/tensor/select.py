"""One sequence of a tensor, and single positions of its dims, by number, tag or label."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rfnb.core.ground.text import did_you_mean, number_of
from rfnb.display.kit.data import Axis, Data
from rfnb.errors import ViewError


def select(data: Data, batch: int | str | None, **positions: int | str) -> Data:
    """One sequence, by its number or tag, and single positions of other dims, by their names.

    A position is a number, or a label if the dim has a vocab. The choice is appended to the name.
    Raises ViewError if there is no such sequence, dim or position.
    """
    part = data if batch is None else sequence(data, batch)
    choices = [] if batch is None else [_word(data, batch)]
    for name, position in positions.items():
        at = next((i for i, axis in enumerate(part.axes) if axis.dim.name == name), None)
        if at is None:
            names = [axis.dim.name for axis in part.axes]
            raise ViewError(
                f"show: {data.name} has no dim {name}",
                got=f"{name}={position!r}",
                expected=", ".join(names) or "a scalar has none to choose from",
                hint=did_you_mean(name, [*names, "lengths", "dims", "batch"], "{}"),
            )
        axis = part.axes[at]
        index = _position(axis, position)
        short = 0 if axis.lengths is None else int((axis.lengths <= index).sum())
        if short:
            part = replace(part, notes=(*part.notes, f"{name} {index} is padding in {short} of the sequences"))
        part = part.pick(at, index)
        choices.append(f"{name} {position if isinstance(position, str) else index}")
    return replace(part, name=f"{data.name} of {', '.join(choices)}") if choices else part


def sequence(data: Data, batch: int | str) -> Data:
    """One sequence, by its number or tag. Raises ViewError if it does not exist."""
    at = data.sequence_axis()
    if at is None:
        raise ViewError(
            f"show: {data.name} has no axis that counts sequences",
            got=f"batch={batch!r}",
            expected=f"one of {', '.join(axis.dim.name for axis in data.axes) or 'no dims'} to be a batch dim",
            hint=None if data.cls == "Tensor" else 'rf.show(array, dims=["batch", …], batch=…)',
        )
    return data.pick(at, index_of(batch, data.axes[at].size, data.axes[at].tags))


def index_of(batch: int | str, size: int, tags: Sequence[str] | None) -> int:
    """The number of a sequence, given its number or tag. Raises ViewError if it does not exist."""
    if isinstance(batch, str):
        return number_of(batch, tags, "show", ViewError)
    return _within(batch, size, "show: no such sequence")


def _within(given: Any, size: int, what: str) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        number = size  # of no use either
    if not -size <= number < size:
        expected = f"0 to {size - 1}" if size else "nothing: there are none"
        raise ViewError(what, got=repr(given), expected=expected)
    return number % size


def _position(axis: Axis, position: int | str) -> int:
    vocab = axis.dim.vocab
    if isinstance(position, str) and vocab is not None:
        position = vocab.encode([position])[0]
    if axis.lengths is not None and isinstance(position, int) and position < 0:
        raise ViewError(
            f"show: {axis.dim.name} ends at a different position in each sequence",
            got=position,
            expected="one sequence: batch=…",
        )
    return _within(position, axis.size, f"show: no such position of {axis.dim.name}")


def _word(data: Data, batch: int | str) -> str:
    """The tag of a sequence, or "batch 3"."""
    axis = data.axes[data.sequence_axis() or 0]
    index = index_of(batch, axis.size, axis.tags)
    return repr(axis.tags[index]) if axis.tags is not None else f"{axis.dim.name} {index}"
