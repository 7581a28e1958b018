"""Texts as outputs are shown, "the cat", as the word pieces that a vocabulary joins to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from rfnb.core.vocab import Vocab


class Mark(NamedTuple):
    """How word pieces show where words begin or end.

    Args:
        ends: whether a piece has the mark at its end.
        of_word: the letters of a word, with a sign for its beginning or end.
        of_piece: those of a piece, likewise.
    """

    ends: bool
    of_word: Callable[[str], str]
    of_piece: Callable[[str], str]


MARKS = {
    "▁": Mark(False, lambda word: f"▁{word}", str),
    "Ġ": Mark(False, lambda word: f"Ġ{word}", str),
    "##": Mark(False, lambda word: f" {word}", lambda piece: piece[2:] if piece.startswith("##") else f" {piece}"),
    "@@": Mark(True, lambda word: f"{word} ", lambda piece: piece[:-2] if piece.endswith("@@") else f"{piece} "),
    "</w>": Mark(True, lambda word: f"{word}</w>", str),
}
"""The marks of word pieces, in the order in which a vocabulary is asked for them."""


class Pieces(NamedTuple):
    """The word pieces of a vocabulary. numbers: by their letters; longest: how many letters they have at most."""

    mark: Mark
    numbers: dict[str, int]
    longest: int


@lru_cache(maxsize=8)
def pieces_of(vocab: Vocab) -> Pieces | None:
    """The word pieces of a vocabulary; None if its labels are none."""
    labels = [label for label in vocab.labels if not (label.startswith("<") and label.endswith(">"))]
    marks = (mark for mark in MARKS if any(label.startswith(mark) or label.endswith(mark) for label in vocab.labels))
    mark = next(marks, None)
    if mark is None or all(len(label) == 1 for label in labels):
        return None
    special = {vocab.bos_id, vocab.eos_id, vocab.unk_id, vocab.blank_id, vocab.pad_id}
    numbers = {MARKS[mark].of_piece(x): i for i, x in reversed([*enumerate(vocab.labels)]) if i not in special}
    return Pieces(MARKS[mark], numbers, max(map(len, numbers), default=0))


def spelled(text: str, vocab: Vocab) -> tuple[int, ...] | None:
    """Word pieces that a vocabulary joins to a text, as few as there can be; None if there are none.

    A text may begin, or end, without the mark of a word.

    >>> spelled("the cat", rf.Vocab(["</s>", "▁the", "▁c", "a", "t", "at"]))
    (1, 2, 5)
    >>> spelled("the cat", rf.Vocab(["</s>", "the", "c@@", "at"])), spelled("the dog", rf.Vocab(["the", "c@@", "at"]))
    ((1, 2, 3), None)
    """
    pieces, words = pieces_of(vocab), text.split()
    if pieces is None:
        return None
    letters, sign = "".join(map(pieces.mark.of_word, words)), pieces.mark.of_word("")
    bare = letters.removesuffix(sign) if pieces.mark.ends else letters.removeprefix(sign)
    rows = (_fewest(each, pieces) for each in ((bare, letters) if sign == "Ġ" else (letters, bare)))
    return next((row for row in rows if row is not None and vocab.join(row).split() == words), None)


def _fewest(letters: str, pieces: Pieces) -> tuple[int, ...] | None:
    """The fewest pieces with these letters."""
    best: list[tuple[int, ...] | None] = [()]
    for end in range(1, len(letters) + 1):
        rows = []
        for begin in range(max(end - pieces.longest, 0), end):
            row, number = best[begin], pieces.numbers.get(letters[begin:end])
            if row is not None and number is not None:
                rows.append((*row, number))
        best.append(min(rows, key=len, default=None))
    return best[-1]
