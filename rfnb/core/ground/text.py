"""Counts and names, formatted for sentences."""

from __future__ import annotations


def count_of(number: int, word: str) -> str:
    """The number with its noun, in the plural where needed.

    >>> count_of(1, "step"), count_of(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def cut(word: str, most: int) -> str:
    """The word, shortened to at most `most` characters.

    >>> cut("banana", 6), cut("bananas", 6)
    ('banana', 'banan…')
    """
    return word if len(word) <= most else word[: most - 1] + "…"
