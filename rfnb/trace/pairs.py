"""Which values of two runs belong together."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core.graph import Value

if TYPE_CHECKING:
    from rfnb.trace.run import Run


class Pair(NamedTuple):
    """A value of one run, and that of the other. `key` is the same at all steps."""

    key: tuple[Any, ...]
    name: str
    lines: tuple[int | None, int | None]
    a: Any
    b: Any


def match_values(a: Sequence[tuple[str, str]], b: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Pairs of positions, in the order of `a`. Each value is (its name, the code that made it).

    Those of one name are paired by their code first, in order; then what is left of the name in order.

    >>> match_values([("x", "f(1)"), ("y", "g(2)")], [("z", "h(0)"), ("x", "f(7)")])
    [(0, 1)]
    """
    pairs: list[tuple[int, int]] = []
    for name in dict.fromkeys(name for name, _ in a):
        mine, theirs = ([i for i, (known, _) in enumerate(side) if known == name] for side in (a, b))
        same = SequenceMatcher(None, [a[i][1] for i in mine], [b[i][1] for i in theirs], autojunk=False)
        found = [(mine[m.a + k], theirs[m.b + k]) for m in same.get_matching_blocks() for k in range(m.size)]
        rest = (sorted({*side} - {pair[at] for pair in found}) for at, side in enumerate((mine, theirs)))
        pairs += [*found, *zip(*rest, strict=False)]
    return sorted(pairs)


class Pairs:
    """The pairs of two runs. `only`: what one of them has alone, known when the first step was asked for."""

    def __init__(self, a: Run, b: Run):
        self.runs = a, b
        self.states = [name for name in a.states if name in b.states]
        self.only = tuple([f"state {name}" for name in run.states if name not in self.states] for run in (a, b))
        self._found: dict[Any, list[tuple[int, int]]] = {}

    def at_start(self) -> list[Pair]:
        """The states before the first step."""
        return self._states(0)

    def at(self, step: int) -> list[Pair]:
        """What a step computed, also inside of modules, and the states after it."""
        mine, theirs = ([pair for pair in run.replay.computed(step) if pair[0].node] for run in self.runs)
        rows, seen = [], dict[Any, int]()
        for i, j in self._paired([value for value, _ in mine], [value for value, _ in theirs]):
            a, b = mine[i][1], theirs[j][1]
            lines = _line(mine[i][0]), _line(theirs[j][0])
            seen[a.name, lines] = count = seen.get((a.name, lines), 0) + 1
            rows.append(Pair((a.name, lines, count), a.name, lines, a, b))
        return rows + self._states(step + 1)

    def _states(self, step: int) -> list[Pair]:
        a, b = (run.replay for run in self.runs)
        return [
            Pair(("state", name), f"state {name}", (None, None), a.state(name, step), b.state(name, step))
            for name in self.states
        ]

    def _paired(self, mine: list[Value], theirs: list[Value]) -> list[tuple[int, int]]:
        key = tuple(value.number for value in mine), tuple(value.number for value in theirs)
        if key not in self._found:
            named = [[(run.replay.name_of(value), _code(value)) for value in values]
                     for run, values in zip(self.runs, (mine, theirs), strict=True)]  # fmt: skip
            pairs = self._found[key] = match_values(*named)
            for side, names in enumerate(named if len(self._found) == 1 else ()):
                paired = {pair[side] for pair in pairs}
                self.only[side].extend(name for i, (name, _) in enumerate(names) if i not in paired)
        return self._found[key]


def _line(value: Value) -> int | None:
    return None if value.node is None else value.node.line


def _code(value: Value) -> str:
    node = value.node
    return "" if node is None else f"{node.op} {'' if node.source is None else node.source.text()} {value.output}"
