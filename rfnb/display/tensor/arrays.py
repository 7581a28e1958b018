"""Plain arrays for views: of numpy, of torch, or nested lists, with names for their axes if the user gives some.

Data is neither copied nor moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim, kind_of_name
from rfnb.core.ground.text import count_of, did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import Axis, Data, dtype_of, numbers, to_numpy
from rfnb.errors import ViewError
from rfnb.trace.record.traced import Pending, Traced


def is_array(shown: object) -> bool:
    """Whether it is an array of numpy, torch or another library that numpy understands, or nested lists of numbers."""
    if isinstance(shown, Tensor | Dim):
        return False
    if isinstance(shown, list | tuple):
        return type(shown) in (list, tuple) and _is_regular(shown)
    return hasattr(shown, "dtype") and hasattr(type(shown), "shape") and hasattr(shown, "__array__")


def data_of(array: object, dims: Sequence[str | Dim] | None = None, lengths: object = None) -> Data:
    """The data of an array. Raises ViewError if dims or lengths do not fit, or entries are not numbers.

    Args:
        dims: a name or a Dim for each axis; without, axes are called "axis0", "axis1", …
        lengths: one for each sequence, of the first axis that counts neither sequences nor features; or by name.
    """
    if isinstance(array, Tensor):
        raise ViewError("show: a Tensor has its own dims and lengths", got=f"dims={dims}, lengths={lengths}")
    if not isinstance(array, list | tuple) and not is_array(array):
        raise ViewError(f"show: a {type(array).__name__} is not an array", expected="an array for dims and lengths")
    source = _listed(array) if isinstance(array, list | tuple) else array
    source = source if hasattr(source, "detach") else np.asarray(source)
    raw, remark = numbers(source)
    shape = tuple(int(size) for size in raw.shape)
    axes = [
        Axis(_dim(dim, i, size), size) for i, (dim, size) in enumerate(zip(_named(dims, shape), shape, strict=True))
    ]
    data = Data(
        name="array",
        dtype=dtype_of(source),
        device=str(getattr(raw, "device", "cpu")),
        raw=raw,
        axes=tuple(axes),
        feature=next((axis.dim for axis in axes if axis.dim.kind == "feature"), None),
        notes=tuple(filter(None, (remark, _unseen(array)))),
        cls=class_of(array),
        source=source,
    )
    return data if lengths is None else with_lengths(data, lengths)


def _unseen(array: object) -> str | None:
    masked = isinstance(array, np.ma.MaskedArray) and bool(np.ma.getmaskarray(array).any())
    return "masked entries count too" if masked else None


def class_of(array: object) -> str:
    """`Tensor`, `torch.Tensor`, `numpy.ndarray`, `list`"""
    kind = Tensor if isinstance(array, Traced | Pending) else type(array)
    module, name = kind.__module__.partition(".")[0], kind.__name__
    return name if module in ("builtins", "rfnb") else f"{module}.{name}"


def _is_regular(shown: object) -> bool:
    """Whether numpy can make an array of numbers from a list; its first entry is checked first, which is cheap."""
    entry, depth = shown, 0
    while isinstance(entry, list | tuple) and len(entry) and depth < 8:
        entry, depth = entry[0], depth + 1
    if isinstance(entry, bool) or not isinstance(entry, int | float | complex | np.number):
        return False
    try:
        return np.asarray(shown).dtype.kind in "iufc"
    except ValueError:
        return False


def _listed(nested: Sequence[object]) -> np.ndarray:
    try:
        return np.asarray(nested)
    except ValueError:
        raise ViewError(
            "show: the lists differ in length",
            got=f"{type(nested).__name__} of {len(nested)}",
            expected="one length along each axis",
            hint="rf.convert_to_tensor(lists, dims=[…]) pads them; rf.show(lists) shows them as they are",
        ) from None


def _named(dims: Any, shape: tuple[int, ...]) -> Sequence[str | Dim | None]:
    if dims is None:
        return [None] * len(shape)
    entries = [dims] if isinstance(dims, str | Dim) or not isinstance(dims, Iterable) else list(dims)
    wrong = next((dim for dim in entries if not isinstance(dim, str | Dim)), None)
    if wrong is not None:
        raise ViewError(
            f"show: {wrong!r} is not the name of a dim", got=type(wrong).__name__, expected='"time", or a Dim'
        )
    if len(entries) != len(shape):
        words = dims.split() if isinstance(dims, str) else []
        raise ViewError(
            "show: dims do not fit the array",
            got=f"{count_of(len(entries), 'dim')} for shape {shape}",
            expected=f"a name for each axis, not {[_name(dim) for dim in entries]}",
            hint=f"dims={words}" if len(words) == len(shape) else "without dims=…, axes are called axis0, axis1, …",
        )
    return entries


def _dim(dim: str | Dim | None, at: int, size: int) -> Dim:
    if not isinstance(dim, Dim):
        return _plain_dim(f"axis{at}" if dim is None else dim, None if kind_of_name(dim) != "feature" else size)
    if dim.dimension is not None and dim.dimension != size:
        raise ViewError(
            f"show: axis {at} does not fit {dim.name}", got=f"{size} entries", expected=f"{dim.name}:{dim.dimension}"
        )
    return dim


@lru_cache(maxsize=512)
def _plain_dim(name: str, size: int | None) -> Dim:
    """A Dim for an axis; one name always gives the same Dim, so that it keeps its colour."""
    dim = Dim(size, name=name, kind=kind_of_name(name))
    dim.made = None  # by no line of the user
    return dim


def _name(dim: str | Dim) -> str:
    return dim.name if isinstance(dim, Dim) else dim


def with_lengths(data: Data, lengths: object) -> Data:
    """The data with lengths for its first axis that counts neither sequences nor features, or for axes by name.

    Raises ViewError if there is no such axis, or they do not fit.
    """
    at = data.sequence_axis()
    at = 0 if at is None else at
    by_name = lengths if isinstance(lengths, Mapping) else {_first_moving(data, at): lengths}
    axes = list(data.axes)
    for key, values in by_name.items():
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
        "show: no axis can have these lengths",
        got=", ".join(axis.dim.name for axis in data.axes) or "a scalar",
        hint='say which: lengths={"time": …}',
    )


def _axis_of(data: Data, key: object) -> int:
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
        f"show: {axis.dim.name} counts the sequences, so it has no lengths",
        expected="a name for each axis" if twice else f"lengths of {', '.join(set(names) - {axis.dim.name}) or 'none'}",
        hint='the axis of the sequences is called "batch", or is the first',
    )


def _checked(lengths: object, axis: Axis, sequences: Axis) -> np.ndarray:
    name = axis.dim.name
    expected = f"{sequences.size} whole numbers, one for each entry of {sequences.dim.name}"
    values = _numbers(lengths, name, expected)
    if values.shape != (sequences.size,):
        hint = "a mask? mask.sum(-1) gives lengths" if values.dtype == bool and values.ndim == 2 else None
        raise ViewError(
            f"show: lengths of {name} do not fit", got=f"shape {tuple(values.shape)}", expected=expected, hint=hint
        )
    if values.dtype.kind not in "iu" and values.size:
        raise ViewError(
            f"show: lengths of {name} must be whole numbers",
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


def _numbers(lengths: object, name: str, expected: str) -> np.ndarray:
    if isinstance(lengths, Tensor):
        lengths = lengths.raw_tensor
    try:
        return to_numpy(lengths) if hasattr(lengths, "detach") else np.asarray(lengths)
    except ValueError:
        raise ViewError(
            f"show: lengths of {name} must be whole numbers", got=f"{lengths!r:.60}", expected=expected
        ) from None


def _rounded(lengths: np.ndarray, size: int) -> str:
    return f"relative lengths? (lengths * {size}).round().astype(int)" if lengths.max() <= 1 else "lengths.astype(int)"
