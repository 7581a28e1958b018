"""References: what a search should have found, given as text, labels or numbers, perhaps several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from rfnb.errors import DimError, SearchError

if TYPE_CHECKING:
    from rfnb.core.vocab import Vocab
    from rfnb.search.tree import Tree

FORMS = 'text ("L AE F"), labels (["L", "AE", "F"]) or numbers ([4, 1, 3]); several as a set or as a list of lists'
"""The forms of a reference."""


@dataclass(frozen=True)
class Reference:
    """A sequence of labels that a search should have found, without an end label, and its text."""

    labels: tuple[int, ...]
    text: str


def references_of(given: Any, tree: Tree, ends: bool = False) -> list[Reference]:
    """All references for the sequence of a tree; they are read with the vocabulary of the search.

    A list of strings is one reference if all of them are labels, and several texts otherwise. An end label at the end
    of a reference is left out, unless `ends`. Raises SearchError for anything else than references, or for unknown
    labels.
    """
    vocab = tree.own.vocab
    sequences = [_numbers(entry, vocab) for entry in _several(given, vocab)]
    if not sequences:
        raise SearchError("reference: the sequence has no reference", expected=FORMS)
    sequences = sequences if ends else [_without_end(entry, tree) for entry in sequences]
    return [Reference(labels, tree.text_of(labels)) for labels in sequences]


def _several(given: Any, vocab: Vocab | None) -> list[Any]:
    if isinstance(given, Set):
        return sorted(given, key=repr)
    if isinstance(given, list | tuple) and given:
        if all(isinstance(entry, str) for entry in given):
            return [given] if vocab is None or all(entry in vocab for entry in given) else list(given)
        if not any(isinstance(entry, Integral) for entry in given):
            return list(given)
    return [given]


def _numbers(given: Any, vocab: Vocab | None) -> tuple[int, ...]:
    given = getattr(given, "raw_tensor", given)
    given = given.tolist() if hasattr(given, "tolist") else given
    texts = isinstance(given, str) or (isinstance(given, Sequence) and all(isinstance(entry, str) for entry in given))
    if texts and len(given):
        return _encoded(given, vocab)
    if not isinstance(given, Sequence) or not all(isinstance(entry, Integral) for entry in given):
        raise SearchError("reference: this is not a reference", got=type(given).__name__, expected=FORMS)
    size = None if vocab is None else len(vocab)
    for number in given:
        if number < 0 or (size is not None and number >= size):
            expected = "0 or more" if size is None else f"0 to {size - 1}"
            raise SearchError("reference: no label has this number", got=number, expected=expected)
    return tuple(int(number) for number in given)


def _encoded(given: Iterable[str], vocab: Vocab | None) -> tuple[int, ...]:
    if vocab is not None:
        try:
            return tuple(vocab.encode(given))
        except DimError as error:
            raise SearchError(
                "reference: the vocabulary of the search does not have this label",
                got=error.got,
                expected=error.expected,
                hint=error.hint,
            ) from None
    words = given.split() if isinstance(given, str) else list(given)
    if not all(word.isdecimal() for word in words):
        raise SearchError(
            "reference: the labels of the search have no vocabulary",
            got=repr(given)[:60],
            expected="numbers: [4, 1, 3]",
        )
    return tuple(map(int, words))


def _without_end(labels: tuple[int, ...], tree: Tree) -> tuple[int, ...]:
    while labels and labels[-1] in tree.end_labels:
        labels = labels[:-1]
    return labels
