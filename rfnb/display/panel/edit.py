"""Edits of states, typed as labels or numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.text import did_you_mean
from rfnb.display.kit.data import read, to_numpy
from rfnb.display.tensor.entries import PAD
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import Tensor

BETWEEN = re.compile(r"[\s,;\[\]()]+")
TRUTH = {"true": 1.0, "false": 0.0}


def edited(state: Tensor | int, text: str, at: Mapping[Dim, int]) -> Any:
    """`state` with the entries of `text` at the chosen positions of its dims: one entry for all, or one for each.

    Raises ViewError if an entry is not a number or label, or if the number of entries does not fit.
    """
    if isinstance(state, int):
        return int(_number(text.strip()))
    values = to_numpy(state.raw_tensor).copy()
    part = values[(*(at.get(axis.dim, slice(None)) for axis in read(state).axes), ...)]
    entries = _entries(text, state.sparse_dim)
    if len(entries) not in (1, part.size):
        raise ViewError(
            f"{state.name}: {len(entries)} entries for {part.size}",
            got=text[:40],
            hint=f"write one for all of them, or {part.size}",
        )
    new = np.asarray([np.nan if entry is None else entry for entry in entries])
    keep = np.asarray([entry is None for entry in entries])
    shape = part.shape if len(entries) == part.size else ()
    with np.errstate(invalid="ignore"):
        part[...] = np.where(keep.reshape(shape), part, new.reshape(shape))
    if values.dtype.kind in "biu" and not (keep.reshape(shape) | (part == new.reshape(shape))).all():
        raise ViewError(f"{state.name} cannot hold {text[:40]!r}", expected=state.dtype)
    raw = state.raw_tensor
    return state.like(backend_of_raw(raw).convert_raw(values, state.dtype, state.device))


def _entries(text: str, sparse: Dim | None) -> list[float | None]:
    """The entries of a text; None for `·`, which leaves an entry unchanged."""
    vocab = sparse.vocab if sparse is not None else None
    if sparse is None or vocab is None:
        return [None if word == PAD else _number(word) for word in BETWEEN.split(text) if word]
    labels = [text] if text in vocab else text.split()
    unknown = [label for label in labels if label not in vocab and label != PAD]
    if unknown:
        hint = did_you_mean(text, vocab.labels, "{}") or did_you_mean(unknown[0], vocab.labels, "{}")
        raise ViewError(f"{sparse.name} has no label {unknown[0][:40]!r}", hint=hint)
    return [None if label not in vocab else float(vocab.encode([label])[0]) for label in labels]


def _number(word: str) -> float:
    try:
        return TRUTH[word.lower()] if word.lower() in TRUTH else float(word.replace("−", "-"))
    except ValueError:
        raise ViewError(f"{word[:40]!r} is not a number") from None
