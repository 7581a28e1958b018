"""Names of axes as they are typed in the panel: `batch, time: lengths`, and labels: `batch, word: words`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import read, to_numpy
from rfnb.errors import ExpressionError, ViewError

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep

BETWEEN = re.compile(r",(?![^()\[\]]*[)\]])")
"""Commas, but those inside of brackets."""


def axes_typed(run: Run, name: str, text: str, step: int) -> list[str | Dim] | None:
    """The axes of a variable, as `Run.name_axes` takes them; None for an empty text.

    After a colon are the lengths of an axis, or its labels: an expression of the step, a variable of the notebook, or
    numbers. One more name, with labels, is what the numbers are labels of. Raises ViewError for what does not fit.
    """
    if not text.strip():
        return None
    parts = [tuple(map(str.strip, part.partition(":")[::2])) for part in BETWEEN.split(text)]
    if not all(word for word, _ in parts):
        raise ViewError("an axis has no name", got=text[:40], expected="names with commas between them")
    value = run[int(step)][name]
    sizes = [axis.size for axis in read(value).axes] if isinstance(value, Tensor) else []
    axes: list[str | Dim] = [word for word, _ in parts]
    for axis, (word, known) in enumerate(parts):
        if known:
            axes[axis] = _dim(run, axes, sizes, axis, word, _value(run[int(step)], known))
    return axes


def _dim(run: Run, axes: list[str | Dim], sizes: list[int], axis: int, word: str, value: object) -> Dim:
    """The dim of an axis with lengths, whose sequences then have a dim too, or with labels."""
    size = sizes[axis] if axis < len(sizes) else None
    numbers = None if isinstance(value, str | dict) else _whole_numbers(value)
    if numbers is None:
        dim = Dim(None, name=word, vocab=list(value) if isinstance(value, str) else value)
        if size not in (None, dim.dimension):
            raise ViewError(f"{word} has {dim.dimension} labels, and its axis {size} entries")
        return dim
    longest = max(numbers, default=0)
    if size is None or longest > size:
        raise ViewError(f"the longest of the lengths of {word} is {longest}", expected=f"at most {size or 0}")
    owner = next((i for i, other in enumerate(sizes) if i != axis and other == len(numbers)), None)
    if owner is None or owner >= len(axes):
        raise ViewError(f"{word} has {len(numbers)} lengths, and no other axis has as many entries")
    axis_of_sequences = axes[owner]
    if isinstance(axis_of_sequences, str):
        axis_of_sequences = axes[owner] = run.replay.names.dim(axis_of_sequences, sizes[owner])  # type: ignore[attr-defined]
    dim = Dim(None, name=word)
    dim.bind(Size([axis_of_sequences], numbers, capacity=size))
    return dim


def _value(at: RunStep, text: str) -> Any:
    """The value of what was typed."""
    if all(word.isdigit() for word in text.split()):
        return [int(word) for word in text.split()]
    try:
        return at.eval(text)
    except ExpressionError:
        value = vars(sys.modules["__main__"]).get(text)
        if value is None:
            raise
        return value


def _whole_numbers(value: object) -> list[int] | None:
    """A list of lengths; None for other values."""
    raw = value._raw if isinstance(value, Tensor) else value
    if isinstance(raw, list | tuple) and not all(type(entry) is int for entry in raw):
        return None
    if not isinstance(raw, list | tuple) and not hasattr(raw, "shape"):
        return None
    numbers = to_numpy(raw)
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iuf" and bool((numbers == numbers.astype(int)).all())
    if not is_list:
        raise ViewError("lengths are whole numbers, one for each sequence", got=f"{numbers.dtype} {numbers.shape}")
    return [int(number) for number in numbers]
