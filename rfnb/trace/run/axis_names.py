"""Names for the axes of variables of plain Python code, whose tensors have none, and the dims that stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, kind_of_name
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import LoopError, ParameterError
from rfnb.printable import printable, printable_name

Axes = Mapping[str, Sequence[str | Dim]]
"""For variables, the names of their axes, or Dims."""
Form = tuple[align.Sig, Lengths]


class AxisNames:
    """Dims for the axes of variables, the same for the same name and size.

    Args:
        dims: the names that a user gave.
    """

    def __init__(self, dims: Axes | None = None):
        self.of: dict[str, Sequence[str | Dim]] = {}
        self._dims: dict[tuple[str | int, ...], Dim] = {}
        self._forms: dict[tuple[str, tuple[int, ...]], Form] = {}  # by variable and shape
        self._given: dict[str, Dim] = {}
        self._lengths: dict[Dim, Size | None] = {}  # of the batch that the loop had
        for name, axes in (dims or {}).items():
            self.name(name, axes)

    def name(self, variable: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable, or removes their names."""
        self._forms.clear()
        self.of.pop(variable, None)
        if axes is None:
            self._given = {dim.name: dim for axes in self.of.values() for dim in axes if isinstance(dim, Dim)}
            return
        self.of[variable] = axes
        for dim in axes:
            if isinstance(dim, Dim):
                self._given[dim.name] = dim
                self._lengths[dim] = current_lengths([dim]).size(dim)

    def adopt(self, variable: str, dims: Sequence[Dim]) -> None:
        """Takes the dims that a file has for the axes of a variable without names."""
        for axis, dim in enumerate(dims):
            if dim.name == f"axis{axis}" and dim.dimension is not None:
                self._dims.setdefault((variable, axis, dim.dimension), dim)

    def rename(self, variable: str, axes: Sequence[str | Dim] | None, values: Iterable[Tensor]) -> None:
        """The same, unless the names fit none of the values, which have them already where they do.

        Raises LoopError if they do not, and ParameterError for what is not a name.
        """
        axes_of("name_axes", None if axes is None else {variable: axes})
        old_axes, reason = self.of.get(variable), "it is not a tensor in any step of the run"
        self.name(variable, axes)
        if axes is None:
            return
        for value in values:
            if (misfit := _misfit(value, axes)) is None:
                return
            reason = misfit
        self.name(variable, old_axes)
        words = ", ".join(map(_word, axes))
        raise LoopError(f"name_axes: the axes of {variable} cannot have these names: {reason}", got=words)

    def form(self, variable: str, shape: tuple[int, ...], raw: RawTensor) -> Form:
        """Dims for the axes of a variable, the lengths of padded ones, and what whole numbers are labels of."""
        form = self._forms.get((variable, shape))
        if form is not None:
            return form
        names: list[str | Dim | None] = [*self.of.get(variable, ())]
        label_dim = names.pop() if len(names) == len(shape) + 1 else None
        names = names if len(names) == len(shape) else [None] * len(shape)
        dims, lengths = self._dims_of(variable, shape, names)
        labels = label_dim if isinstance(label_dim, Dim) and _are_labels(raw, label_dim) else None
        form = align.sig(dims, labels), lengths
        if label_dim is None:  # else it depends on the numbers
            self._forms[variable, shape] = form
        return form

    def dim(self, name: str, size: int) -> Dim:
        """The dim of all axes with this name and size."""
        named = self._given.get(name)
        return named if named and named.dimension == size else self._made(name, kind_of_name(name), (name, size), size)

    def _made(self, name: str, kind: str | None, key: tuple[str | int, ...], size: int) -> Dim:
        if key not in self._dims:
            self._dims[key] = Dim(size, name=name, kind=kind)
        return self._dims[key]

    def _dims_of(
        self, variable: str, shape: tuple[int, ...], names: Sequence[str | Dim | None]
    ) -> tuple[list[Dim], Lengths]:
        named = [self._given.get(name) if isinstance(name, str) else name for name in names]
        fixed = {dim for dim, size in zip(named, shape, strict=True) if dim is not None and dim.dimension == size}
        dims, sizes = [], dict[Dim, Size]()
        for axis, (size, name, dim) in enumerate(zip(shape, names, named, strict=True)):
            if dim is not None and dim not in fixed:
                lengths = self._lengths[dim]
                if lengths is not None and lengths.max == size and fixed.issuperset(lengths.dims):
                    sizes[dim] = lengths
                else:
                    dim = None
            if dim is None:
                word = name.name if isinstance(name, Dim) else name
                dim = self.dim(word, size) if word else self._made(f"axis{axis}", None, (variable, axis, size), size)
            dims.append(dim)
        if len(set(dims)) < len(dims):
            return [Dim(size, name=f"axis{axis}") for axis, size in enumerate(shape)], EMPTY
        return dims, EMPTY.bind(sizes) if sizes else EMPTY


def is_unnamed(dim: Dim) -> bool:
    """Whether this is the dim of an axis that has no name.

    >>> is_unnamed(rf.Dim(2, name="axis0")), is_unnamed(rf.Dim(2, name="batch"))
    (True, False)
    """
    return dim.name.startswith("axis") and dim.name[4:].isdigit()


def axes_of(caller: str, dims: Any) -> Axes | None:
    """The names of axes that a user gave. Raises ParameterError if they are something else."""
    rows = dims.items() if isinstance(dims, Mapping) else [("", dims)] if dims is not None else []
    for name, axes in rows:
        is_row = isinstance(name, str) and isinstance(axes, Sequence) and not isinstance(axes, str)
        if not (is_row and all(isinstance(axis, str | Dim) for axis in axes)):
            raise ParameterError(
                f"{caller}: `dims` does not name the axes of variables",
                got=printable(repr(dims))[:80],
                expected='for each variable a list of names, such as {"att": ["batch", "source"]}',
            )
    names: Axes | None = dims
    return names


def _misfit(value: Tensor, axes: Sequence[str | Dim]) -> str | None:
    """Why a value does not have the dims that its axes were to be; None if it has them."""
    dims, extra = value.dims, axes[len(value.dims) :]
    if len(axes) < len(dims) or len(extra) > 1 or any(isinstance(name, str) for name in extra):
        return f"the number of its axes is {len(dims)}"
    words = [_word(name) for name in axes[: len(dims)]]
    if len({*words}) < len(words):
        return "two axes have the same name"
    for axis, (dim, name, word) in enumerate(zip(dims, axes, words, strict=False)):
        if dim is not name and (isinstance(name, Dim) or dim.name != name):
            return f"axis {axis} does not have the size of {word}"
    is_labels = not extra or value.sparse_dim is extra[0]
    return None if is_labels else f"its numbers are not all labels of {_word(extra[0])}"


def _are_labels(raw: RawTensor, dim: Dim) -> bool:
    """Whether all numbers are labels of a dim."""
    array, count = np.asarray(backend_of_raw(raw).to_numpy_raw(raw)), dim.dimension or 0
    return array.dtype.kind in "iu" and (not array.size or bool(array.min() >= 0 and array.max() < count))


def _word(axis: str | Dim) -> str:
    return printable_name(axis.name if isinstance(axis, Dim) else axis)
