"""Which reference belongs to which sequence: by tag, or in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import SearchError
from rfnb.search.found import Found
from rfnb.search.tree import Tree


def trees_of(found: Found | Iterable[Found]) -> list[Tree]:
    """The trees of one or several searches, in order."""
    if not isinstance(found, Found | Iterable):
        raise SearchError("report: this is not the result of a search", got=type(found).__name__, expected="a Found")
    searches = [found] if isinstance(found, Found) else list(found)
    for item in searches:
        if not isinstance(item, Found):
            raise SearchError("report: this is not the result of a search", got=type(item).__name__, expected="a Found")
    return [tree for item in searches for tree in item.tree]


def for_each(trees: Sequence[Tree], given: Any, what: str) -> list[Any]:
    """What is given for each tree: a mapping by tag, a Tensor with the sequences as a dim, or one entry for each.

    Raises SearchError if a sequence has none.
    """
    if isinstance(given, Mapping):
        missing = [tree.name for tree in trees if tree.tag not in given]
        if missing:
            raise SearchError(
                f"report: a sequence has no {what}", got=", ".join(map(repr, missing[:8])), expected="one for each tag"
            )
        return [given[tree.tag] for tree in trees]
    entries = _entries(given, what)
    if len(entries) != len(trees):
        raise SearchError(
            f"report: {what}s and sequences differ in number",
            got=f"{len(entries)} {what}s",
            expected=f"{len(trees)}, or a mapping from tags",
        )
    return entries


def _entries(given: Any, what: str) -> list[Any]:
    if isinstance(given, Tensor):
        return _of_tensor(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SearchError(
            f"report: this is not a list of {what}s", got=type(given).__name__, expected="one for each sequence"
        )
    entries = list(given)
    if entries and all(isinstance(entry, Tensor) and entry.dims for entry in entries):  # a batch for each search
        return [row for entry in entries for row in _of_tensor(entry)]
    return entries


def _of_tensor(x: Tensor) -> list[Any]:
    """The entries of each sequence, without padding."""
    batch = next((dim for dim in x.dims if dim.is_batch_dim()), x.dims[0])
    axes = [dim for dim in x.dims if dim != batch]
    numbers = np.asarray(x.copy_transpose([batch, *axes]).tolist())
    if not axes:
        return numbers.tolist()
    if len(axes) > 1:
        raise SearchError("report: a Tensor of references has the dims of sequences and labels", got=x.dims)
    lengths = np.broadcast_to(x.size_of(axes[0]).over((batch,)), numbers.shape[:1])
    return [row[:length].tolist() for row, length in zip(numbers, lengths, strict=True)]
