"""Pairs of matching values of two runs, over all steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.graph.graph import Value
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RunFileError
from rfnb.trace.compare.match import match_values
from rfnb.trace.run.entries import Entries, numbers
from rfnb.trace.run.file.stored import StoredReplay
from rfnb.trace.run.step import StepText, StepValue

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

ORDER = ("first", "second")
HELD = 16 * 2**20
"""Bytes of numbers that are collected before they are compared."""


class Matched(NamedTuple):
    """A value that both runs have. key: the same at all steps. lines: its lines in the two bodies. state: the name of
    the state that it is; None for values of the body.
    """

    key: tuple[Any, ...]
    name: str
    lines: tuple[int | None, int | None] = (None, None)
    state: str | None = None


class Pair(NamedTuple):
    """A value at one step, in both runs; of plain Python also texts of other values, and of those that are lost."""

    what: Matched
    a: Entries | str
    b: Entries | str


@dataclass
class Stretch:
    """A pair at several steps with the same dtypes, dims and sizes, which are compared together for speed.

    first: the pair at the first of these steps. places: the position of the value in each step. a, b: its numbers at
    each step, or texts. missing: why the numbers are missing, if they are.
    """

    first: Pair
    steps: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    a: list[Any] = field(default_factory=list)
    b: list[Any] = field(default_factory=list)
    missing: str = ""

    @property
    def is_text(self) -> bool:
        """Whether one of the two is no number."""
        return isinstance(self.first.a, str) or isinstance(self.first.b, str)


class Pairs:
    """The pairs of two runs. only: names of values in one run only, complete after the first step has been read."""

    def __init__(self, a: Run, b: Run):
        self.runs = a, b
        self.states = [name for name in a.states if name in b.states]
        self.only = tuple([f"state {name}" for name in run.states if name not in self.states] for run in (a, b))
        self.notes: list[str] = []
        self.forgotten = 0  # steps that one of the runs no longer has
        forgotten = [getattr(run.replay, "forgotten", 0) for run in self.runs]
        if steps := min(max(forgotten), *(run.steps for run in self.runs)):
            self.forgotten = steps
            which = "both no longer have" if all(forgotten) else f"the {ORDER[not forgotten[0]]} no longer has"
            self.notes.append(f"{steps_text(range(steps))} not compared: {which} {'it' if steps == 1 else 'them'}")
        self._found: dict[Any, list[tuple[Matched, int, int]]] = {}

    def stretches(self) -> Iterator[Stretch]:
        """All pairs of all common steps that both still have; step -1 stands for the states at the start."""
        open_: dict[Any, Stretch] = {}
        n_bytes = 0
        for step in range(self.forgotten or -1, min(run.steps for run in self.runs)):
            for place, pair in enumerate(self._states(0) if step < 0 else self._at(step)):
                n_bytes += _add(open_, step, place, pair)
            if n_bytes > HELD:
                yield from open_.values()
                open_, n_bytes = {}, 0
        yield from open_.values()

    def _at(self, step: int) -> list[Pair]:
        """The values that a step computed, also inside modules, and the states after it."""
        if not all(run.graph.values for run in self.runs):  # plain Python code
            return self._remembered(step)
        values_a, values_b = ([pair for pair in run.replay.computed(step) if pair[0].node] for run in self.runs)
        matched = self._matched([value for value, _ in values_a], [value for value, _ in values_b])
        return [Pair(entry, values_a[i][1], values_b[j][1]) for entry, i, j in matched] + self._states(step + 1)

    def _remembered(self, step: int) -> list[Pair]:
        """What the lines of a step assigned, in order, and the other states after it."""
        rows: list[list[StepValue | StepText]] = [[*run[step].values(), *run[step].texts()] for run in self.runs]
        rows_a, rows_b = rows
        sides = [[(row.name, _text(run, row.line)) for row in side] for run, side in zip(self.runs, rows, strict=True)]
        key = tuple(tuple(side) for side in sides)
        matches = self._found.get(key)
        if matches is None:
            positions = match_values(*sides)
            self._note_alone(step, rows, positions)
            lines = [(rows_a[i].line, rows_b[j].line) for i, j in positions]
            matches = self._found[key] = _numbered([(sides[0][i][0], i, j) for i, j in positions], lines)
        pairs = [Pair(entry, a, b) for entry, i, j in matches if not _unknown(a := rows_a[i][3], b := rows_b[j][3])]
        names = {pair.what.name for pair in pairs}
        return [*pairs, *(pair for pair in self._states(step + 1) if pair.what.state not in names)]

    def _note_alone(self, step: int, rows: list[list[StepValue | StepText]], found: list[tuple[int, int]]) -> None:
        """Notes values that one of the runs does not have, and the first line that only one of them ran."""
        for side, assigned in enumerate(rows):
            paired, names = {pair[side] for pair in found}, {row.name for row in rows[1 - side]}
            extra = [row for i, row in enumerate(assigned) if i not in paired]
            self.only[side].extend({row.name: 0 for row in extra if row.name not in (*names, *self.only[side])})
            repeat = next((row for row in extra if row.name in names), None)
            note = f"only the {ORDER[side]} assigns"
            if repeat is not None and not any(earlier.partition(": ")[2].startswith(note) for earlier in self.notes):
                self.notes.append(f"step {step}: {note} {repeat.name} in line {repeat.line}")

    def _states(self, step: int) -> list[Pair]:
        a, b = (run.replay for run in self.runs)
        whats = {name: Matched(("state", name), f"state {name}", state=name) for name in self.states}
        return [Pair(entry, a.state(name, step), b.state(name, step)) for name, entry in whats.items()]

    def _matched(self, mine: list[Value], theirs: list[Value]) -> list[tuple[Matched, int, int]]:
        """The matching values, with their positions in both. Most steps compute the same values: they are cached."""
        key = tuple(value.number for value in mine), tuple(value.number for value in theirs)
        if key not in self._found:
            sides = [[(run.replay.name_of(value), _code(value)) for value in values]
                     for run, values in zip(self.runs, (mine, theirs), strict=True)]  # fmt: skip
            positions = match_values(*sides)
            for side, values in enumerate(sides if not self._found else ()):
                paired = {pair[side] for pair in positions}
                extra = [i for i in range(len(values)) if i not in paired]
                hidden = {i for i in extra if _inside((mine, theirs)[side][i])} if self._from_file(1 - side) else set()
                self.only[side].extend(values[i][0] for i in extra if i not in hidden)
                self._note_hidden(side, len(hidden))
            lines = [(_line(mine[i]), _line(theirs[j])) for i, j in positions]
            self._found[key] = _numbered([(sides[0][i][0], i, j) for i, j in positions], lines)
        return self._found[key]

    def _from_file(self, side: int) -> bool:
        return isinstance(self.runs[side].replay, StoredReplay)

    def _note_hidden(self, side: int, count: int) -> None:
        """Adds a note on values that are missing in a file because it has none of modules and functions."""
        if count:
            owner, partner = ORDER[side], ORDER[1 - side]
            where = f"inside modules and functions of the {owner}: the file of the {partner} does not contain them"
            self.notes.append(f"{count_of(count, 'value')} {where}")


def _numbered(
    pairs: list[tuple[str, int, int]], lines: Sequence[tuple[int | None, int | None]]
) -> list[tuple[Matched, int, int]]:
    """Pairs of positions with the value that they are; those of one name and line are numbered."""
    counts, matches = Counter[Any](), []
    for (name, i, j), line_pair in zip(pairs, lines, strict=True):
        counts[name, line_pair] += 1
        matches.append((Matched((name, line_pair, counts[name, line_pair]), name, line_pair), i, j))
    return matches


def _text(run: Run, line: int) -> str:
    """A line of the code of a run."""
    at = line - run.source.first_line
    return run.source.lines[at].strip() if 0 <= at < len(run.source.lines) else ""


def _inside(value: Value) -> bool:
    """Whether a value was computed in a module or function, rather than by a line of the body."""
    node = value.node
    return node is not None and node.source != node.at


def _unknown(a: Any, b: Any) -> bool:
    """Whether nothing can be said about two objects of one type, or two containers of one length."""
    return isinstance(a, str) and isinstance(b, str) and a == b and (a.startswith("<") or a.endswith(" parts"))


def _add(open_: dict[Any, Stretch], step: int, place: int, pair: Pair) -> int:
    """Adds a pair to its stretch; returns the size of its numbers in bytes."""
    a: Any = pair.a
    b: Any = pair.b
    form: Any = None
    missing, size = "", 0
    if not isinstance(a, str) and not isinstance(b, str):
        try:
            a, b = numbers(a), numbers(b)
        except RunFileError as error:
            a = b = np.zeros(0)
            missing = error.what
        size, form = a.nbytes + b.nbytes, (_form(pair.a, a), _form(pair.b, b))
    stretch = open_.setdefault((pair.what.key, missing, form), Stretch(pair, missing=missing))
    stretch.steps.append(step)
    stretch.places.append(place)
    stretch.a.append(a)
    stretch.b.append(b)
    return size


def steps_text(steps: Sequence[int]) -> str:
    """`step 3 was`, or `12 steps from 0 to 20 were`."""
    first, last = min(steps), max(steps)
    if len(steps) == 1:
        return f"step {first} was" if first >= 0 else "the start was"
    return f"{count_of(len(steps), 'step')} from {max(first, 0)} to {last} were"


def _form(value: Entries | str, array: np.ndarray) -> Any:
    return (value.sig, value.lengths, value.dtype, array.shape) if isinstance(value, Tensor) else type(value)


def _line(value: Value) -> int | None:
    return None if value.node is None else value.node.line


def _code(value: Value) -> str:
    node = value.node
    return "" if node is None else f"{node.op} {'' if node.source is None else node.source.text()} {value.output}"
