"""The arguments of a search outside of loops, for each sequence: numbers, labels, and how many sequences there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.ground.nested import leaves
from rfnb.core.vocab import Vocab
from rfnb.errors import ParameterError


def numbers_of(name: str, given: Any, count: int, vocab: Vocab | None) -> np.ndarray:
    """A number, or a label, for each of `count` sequences. [count] int64"""
    given = given.tolist() if hasattr(given, "tolist") else given
    entries = list(given) if _is_list(given) else [given] * count
    numbers = [_label(name, entry, vocab) if isinstance(entry, str) else entry for entry in entries]
    if len(numbers) != count or not all(type(entry) is int and entry >= 0 for entry in numbers):
        raise ParameterError(
            f"decode: `{name}` does not give a number for each sequence",
            got=repr(given),
            expected=f"an integer of 0 or more, or a list of {count}",
        )
    size = None if vocab is None else len(vocab)
    if size is not None and any(entry >= size for entry in numbers):
        raise ParameterError(f"decode: `{name}` is not a label", got=repr(given), expected=f"0 to {size - 1}")
    return np.asarray(numbers, "int64")


def _is_list(given: Any) -> bool:
    """Whether there is a value for each sequence: a list, an array or a tensor."""
    return (isinstance(given, Sequence) and not isinstance(given, str)) or len(getattr(given, "shape", ())) == 1


def _label(name: str, text: str, vocab: Vocab | None) -> int:
    if vocab is None:
        raise ParameterError(f"decode: `{name}` is a text", got=text, hint="decode(…, labels=[…]): the labels in order")
    return vocab.encode([text])[0]


def batch_of(state: Any, *others: Any) -> int:
    """The number of sequences, by the first axis of the state or by the lists that have one entry for each."""
    shapes = [leaf.shape for leaf in leaves(state) if len(getattr(leaf, "shape", ())) > 0]
    sizes = [int(shape[0]) for shape in shapes]
    sizes += [len(entries) for entries in others if _is_list(entries)]
    if not sizes:
        raise ParameterError("decode: the number of sequences is unknown", hint="decode(…, batch=1)")
    return sizes[0]
