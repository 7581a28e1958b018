"""Letters to phonemes: the CMU Pronouncing Dictionary, split into train, dev and test words, and the error rate.

>>> data = load()
>>> data["train"][0]
("'bout", ['B', 'AW', 'T'])
>>> data["test"]["datum"]
[['D', 'AE', 'T', 'AH', 'M'], ['D', 'EY', 'T', 'AH', 'M']]
"""

from __future__ import annotations

import hashlib
import lzma
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypedDict

FILE = Path(__file__).parent / "data" / "cmudict.dict.xz"

LETTERS = list("abcdefghijklmnopqrstuvwxyz'")
"""The letters of the words that are used; words with other characters are left out."""

PHONES = "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
"""All phonemes, without stress."""

Phones = list[str]
Part = Literal["train", "dev", "test"]


class Split(TypedDict):
    """Train has pairs, with a word twice if it has two pronunciations; dev and test map a word to all of them."""

    train: list[tuple[str, Phones]]
    dev: dict[str, list[Phones]]
    test: dict[str, list[Phones]]


def load(file: Path = FILE) -> Split:
    """The dictionary in three parts, in its original order. A word is always in the same one of them."""
    split: Split = {"train": [], "dev": {}, "test": {}}
    for word, phones in entries(lzma.decompress(file.read_bytes()).decode("ascii")):
        part = part_of(word)
        if part == "train":
            split["train"].append((word, phones))
        else:
            split[part].setdefault(word, []).append(phones)
    return split


def entries(text: str) -> Iterable[tuple[str, Phones]]:
    """Word and phonemes of each line `tomato(2) T AH0 M AA1 T OW2 # comment`, once if only stress differs."""
    stress = dict.fromkeys(map(ord, "0123456789"))
    lines = re.findall(r"^([a-z']+)(?:\(\d+\))? ([A-Z0-9 ]*[A-Z0-9])", text, re.MULTILINE)
    pairs = dict.fromkeys((word, stressed.translate(stress)) for word, stressed in lines)
    return ((word, phones.split()) for word, phones in pairs)


def part_of(word: str) -> Part:
    """The part of a word by its md5 hash, which needs no list of words: about 10 % test, 2 % dev, 88 % train."""
    percent = int(hashlib.md5(word.encode()).hexdigest(), 16) % 100
    return "test" if percent < 10 else "dev" if percent < 12 else "train"


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn `a` into `b`.

    >>> edit_distance("K AE T".split(), "K AE T S".split())
    1
    """
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
        above = row
    return above[-1]


def best_reference(phones: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The number of errors and the length of the best reference: the one with the lowest error rate."""
    errors = [(edit_distance(phones, reference), len(reference)) for reference in references]
    return min(errors, key=lambda pair: pair[0] / pair[1])


def error_rates(answers: dict[str, Phones], references: dict[str, list[Phones]]) -> tuple[float, float]:
    """Phoneme error rate and word error rate in percent, each word against its best matching reference.

    >>> references = {"cat": [["K", "AE", "T"]], "toward": [["T", "AH", "W", "AO", "R", "D"], ["T", "AO", "R", "D"]]}
    >>> error_rates({"cat": ["K", "AE", "T"], "toward": ["T", "AO", "R", "T", "S"]}, references)
    (28.571428571428573, 50.0)
    """
    best = [best_reference(phones, references[word]) for word, phones in answers.items()]
    errors, length = sum(e for e, _ in best), sum(n for _, n in best)
    wrong = sum(e > 0 for e, _ in best)
    return 100 * errors / max(length, 1), 100 * wrong / max(len(best), 1)
