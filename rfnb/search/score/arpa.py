"""Files of n-gram models in the ARPA format."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rfnb.errors import SearchError

SECTION, COUNT = re.compile(r"\\(\d+)-grams:"), re.compile(r"ngram\s+(\d+)\s*=\s*(\d+)")
LN10 = math.log(10.0)


@dataclass
class Arpa:
    """An n-gram model. words: number by word. log_probs: for each order, the natural log-probability of each n-gram, as
    numbers of its words. backoffs: those that are not 0, by n-gram."""

    words: dict[str, int] = field(default_factory=dict)
    log_probs: list[dict[tuple[int, ...], float]] = field(default_factory=list)
    backoffs: dict[tuple[int, ...], float] = field(default_factory=dict)


def read_arpa(path: str | Path) -> Arpa:
    """The n-gram model of a file, which may be compressed (".gz").

    Raises SearchError, with the line, for what is not ARPA.
    """
    lines = _Lines(Path(path))
    model, counts = Arpa(), _counts(lines)
    while lines.line != "\\end\\":
        _section(lines, model, counts)
    if len(model.log_probs) != len(counts):
        raise lines.error("an order is missing", f"\\{len(model.log_probs) + 1}-grams:")
    return model


class _Lines:
    """The lines of a file that are not empty, one at a time, with their number."""

    def __init__(self, path: Path):
        self.path, self.number, self.line = path, 0, ""
        self._rest = self._read()

    def _read(self) -> Iterator[str]:
        opened = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opened(self.path, "rt", encoding="utf-8-sig") as file:
                for self.number, line in enumerate(file, 1):
                    if text := line.strip(" \t\r\n"):  # other spaces belong to words
                        yield text
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise SearchError(f"ARPA: {self.path.name} cannot be read", got=str(error)) from error

    def next(self, expected: str) -> str:
        """The next line. Raises SearchError at the end of the file."""
        line = next(self._rest, None)
        if line is None:
            self.line = "the end of the file"
            raise self.error("the file is not complete", expected)
        self.line = line
        return line

    def error(self, what: str, expected: str | None = None) -> SearchError:
        return SearchError(f"ARPA: {self.path.name}, line {self.number}: {what}", got=self.line[:80], expected=expected)


def _counts(lines: _Lines) -> list[int]:
    """How many n-grams the file says it has of each order."""
    while lines.next("\\data\\") != "\\data\\":
        pass  # whatever stands before it is a comment
    counts: list[int] = []
    while (match := COUNT.fullmatch(lines.next("\\1-grams:"))) is not None:
        if int(match[1]) != len(counts) + 1:
            raise lines.error("orders do not follow each other", f"ngram {len(counts) + 1}=…")
        counts.append(int(match[2]))
    if not counts:
        raise lines.error("no counts of n-grams", "ngram 1=…")
    return counts


def _section(lines: _Lines, found: Arpa, counts: list[int]) -> None:
    """Reads the n-grams of one order, and the line behind them."""
    order = len(found.log_probs) + 1
    match = SECTION.fullmatch(lines.line)
    if match is None or int(match[1]) != order or order > len(counts):
        expected = f"\\{order}-grams:" if order <= len(counts) else "\\end\\"
        raise lines.error("unexpected line", expected)
    section: dict[tuple[int, ...], float] = {}
    found.log_probs.append(section)
    while not lines.next("\\end\\").startswith("\\"):
        fields = re.split("[ \t]+", lines.line)
        if not order + 1 <= len(fields) <= order + 2:
            raise lines.error(f"not a {order}-gram", f"log-probability, {order} words, perhaps a backoff weight")
        words = _numbers(lines, found, fields[1 : order + 1])
        if words in section:
            raise lines.error(f"the {order}-gram occurs twice")
        section[words] = _number(lines, fields[0], "log-probability")
        if len(fields) == order + 2:
            backoff = _number(lines, fields[-1], "backoff weight")
            if backoff:
                found.backoffs[words] = backoff
    if len(section) != counts[order - 1]:
        raise lines.error(f"{len(section)} {order}-grams came before", f"{counts[order - 1]}, as its head says")


def _numbers(lines: _Lines, found: Arpa, words: list[str]) -> tuple[int, ...]:
    """The numbers of the words of an n-gram, whose beginning must be an n-gram too."""
    if len(words) == 1:
        return (found.words.setdefault(words[0], len(found.words)),)
    for word in words:
        if word not in found.words:
            raise lines.error(f"{word!r} is not among the 1-grams")
    numbers = tuple(found.words[word] for word in words)
    if numbers[:-1] not in found.log_probs[len(words) - 2]:
        raise lines.error(f"its context {' '.join(words[:-1])!r} is not among the {len(words) - 1}-grams")
    return numbers


def _number(lines: _Lines, text: str, what: str) -> float:
    """A number to base 10 as natural logarithm."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or number == math.inf or (what == "log-probability" and number > 1e-4):
        raise lines.error(f"{text!r} is no {what}", "a logarithm to base 10")
    return number * LN10
