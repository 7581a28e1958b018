"""The lengths that somebody gives for a plain array: which axis they are of, and whether they can be true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import Axis, Data, to_numpy
from rfnb.errors import ViewError


def with_lengths(data: Data, lengths: Any) -> Data:
    """The same with lengths: of the first axis that counts neither sequences nor features, or by name.

    Raises ViewError if there is no such axis, or they do not fit.
    """
    at = data.sequence_axis()
    at = 0 if at is None else at
    given = lengths if isinstance(lengths, Mapping) else {_first_moving(data, at): lengths}
    axes = list(data.axes)
    for key, values in given.items():
        i = _axis_of(data, key)
        if i == at:
            raise _of_sequences(data, axes[at])
        axes[i] = replace(axes[i], over=(axes[at].dim,), lengths=_checked(values, axes[i], axes[at]))
    return replace(data, axes=tuple(axes))


def _first_moving(data: Data, sequences: int) -> int:
    for i, axis in enumerate(data.axes):
        if i != sequences and axis.dim.kind not in ("batch", "feature") and axis.dim.is_dynamic():
            return i
    raise ViewError(
        "show: there is no axis that lengths could be of",
        got=", ".join(axis.dim.name for axis in data.axes) or "a scalar",
        hint='say which: lengths={"time": …}',
    )


def _axis_of(data: Data, key: Any) -> int:
    names = [axis.dim.name for axis in data.axes]
    for i, axis in enumerate(data.axes):
        if axis.dim is key or axis.dim.name == key or (isinstance(key, int) and key == i):
            return i
    raise ViewError(
        f"show: lengths of {getattr(key, 'name', key)}, but there is no such dim",
        expected=", ".join(names),
        hint=did_you_mean(getattr(key, "name", key), names, "{}"),
    )


def _of_sequences(data: Data, axis: Axis) -> ViewError:
    names = [axis.dim.name for axis in data.axes]
    twice = names.count(axis.dim.name) > 1
    return ViewError(
        f"show: {axis.dim.name} counts the sequences, it has no lengths",
        expected="a name for each axis" if twice else f"lengths of {', '.join(set(names) - {axis.dim.name}) or 'none'}",
        hint='the axis of the sequences is called "batch", or is the first',
    )


def _checked(lengths: Any, axis: Axis, sequences: Axis) -> np.ndarray:
    name = axis.dim.name
    expected = f"{sequences.size} whole numbers, one for each entry of {sequences.dim.name}"
    values = _numbers(lengths, name, expected)
    if values.shape != (sequences.size,):
        hint = "a mask? mask.sum(-1) are lengths" if values.dtype == bool and values.ndim == 2 else None
        raise ViewError(
            f"show: lengths of {name} do not fit", got=f"shape {tuple(values.shape)}", expected=expected, hint=hint
        )
    if values.dtype.kind not in "iu" and values.size:
        raise ViewError(
            f"show: lengths of {name} are whole numbers",
            got=str(values.dtype),
            expected=expected,
            hint=_rounded(values, axis.size) if values.dtype.kind == "f" else None,
        )
    wrong = np.nonzero((values < 0) | (values > axis.size))[0]
    if wrong.size:
        raise ViewError(
            f"show: a length of {name} is not possible",
            got=f"{values[wrong[0]]} for {sequences.dim.name} {wrong[0]}",
            expected=f"0 to {axis.size}, as {name} has {axis.size} entries",
            hint="are they lengths from before subsampling, or of another axis?",
        )
    return values.astype(np.int64)


def _numbers(lengths: Any, name: str, expected: str) -> np.ndarray:
    if isinstance(lengths, Tensor):
        lengths = lengths.raw_tensor
    try:
        return to_numpy(lengths) if hasattr(lengths, "detach") else np.asarray(lengths)
    except ValueError:
        raise ViewError(
            f"show: lengths of {name} are whole numbers", got=f"{lengths!r:.60}", expected=expected
        ) from None


def _rounded(lengths: np.ndarray, size: int) -> str:
    return f"relative lengths? (lengths * {size}).round().astype(int)" if lengths.max() <= 1 else "lengths.astype(int)"
