"""Draws random programs: by hypothesis, which makes a failing one small, or by a seed, which is faster and wilder."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.outside.grammar import FAMILIES, RULES, SIZES, Facts, Known
from tests.outside.programs import INPUTS, Cond, End, Inner, Op, Program, State

T = TypeVar("T")


class Choices:
    """Where choices come from."""

    def number(self, low: int, high: int) -> int:
        """From low to high."""
        raise NotImplementedError

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options; the first one is the simplest."""
        return options[self.number(0, len(options) - 1)]

    def some_of(self, options: Sequence[T], most: int) -> tuple[T, ...]:
        """Different ones, perhaps none."""
        return tuple(dict.fromkeys(self.one_of(options) for _ in range(self.number(0, most))))


class ByHypothesis(Choices):
    """Those of a strategy."""

    def __init__(self, draw: Callable[[Any], Any]):
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        found: int = self.draw(st.integers(low, high))
        return found


class BySeed(Choices):
    """Those of a random generator."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class _Drawing:
    """The values so far, while a program is drawn."""

    def __init__(self, choose: Choices, known: Known, facts: Sequence[Facts], names: Sequence[Sequence[str]]):
        self.choose, self.known, self.facts, self.names = choose, known, list(facts), names

    def op(self) -> tuple[Op, Facts] | None:
        """An op that applies to values so far, more often to late ones; None if a few that are tried do not apply."""
        return next((found for _ in range(5) if (found := self.try_op()) is not None), None)

    def try_op(self) -> tuple[Op, Facts] | None:
        rule = RULES[self.choose.one_of(self.choose.one_of(self.names))]
        numbers = range(len(self.facts))
        tuples = [(i,) for i in numbers] if rule.arity == 1 else [(i, j) for j in numbers for i in numbers]
        found = [(args, rule.check(self.known, *[self.facts[i] for i in args])) for args in tuples]
        options = [each for each in found if each[1] is not None]
        if not options:
            return None
        late = options[-6:] if self.choose.one_of([False, True]) else options
        args, result = self.choose.one_of(late[::-1])
        return Op(rule.name, args), result

    def add(self) -> Op | Cond | Inner | None:
        """Draws an op and adds its result."""
        kind = self.choose.one_of(["op"] * 12 + ["cond", "inner"])
        found: Any = {"op": self.op, "cond": self.cond, "inner": self.inner}[kind]()
        if found is None:
            return None
        self.facts.append(found[1])
        return found[0]

    def cond(self) -> tuple[Cond, Facts] | None:
        first, other = self.op(), self.op()
        if first is None or other is None or first[1].axes != other[1].axes or first[1].kind != other[1].kind:
            return None
        one, two = first[1], other[1]
        result = Facts(one.axes, min(one.low, two.low), max(one.high, two.high), one.kind)
        return Cond(self.choose.one_of([1, 2]), (first[0], other[0])), result

    def inner(self) -> tuple[Inner, Facts] | None:
        sources = [i for i, f in enumerate(self.facts) if {"b", "e"} <= f.axes and f.kind == "float"]
        starts = [i for i, f in enumerate(self.facts) if "b" in f.axes and "e" not in f.axes and f.kind == "float"]
        if not sources or not starts:
            return None
        source, start = self.choose.one_of(sources[::-1]), self.choose.one_of(starts[::-1])
        frame, state = self.facts[source], self.facts[start]
        state = Facts(state.axes, min(-1.0, state.low), max(1.0, state.high))
        inside = _Drawing(
            self.choose,
            self.known,
            [*self.facts, state, Facts(frame.axes - {"e"}, *frame[1:])],
            [kept for names in self.names if (kept := [name for name in names if not name.endswith("over e")])],
        )
        ops = []
        for _ in range(self.choose.number(1, 4)):
            found = inside.op()
            if found is not None:
                ops.append(found[0])
                inside.facts.append(found[1])
        updates = [i for i, f in enumerate(inside.facts) if f.kind == "float"]
        return Inner(source, start, tuple(ops), self.choose.one_of(updates[::-1])), state


def names_of_rules(*, padding: bool) -> list[list[str]]:
    """By family; each as often as its weight says."""
    return [
        [rule.name for rule in rules if padding or not rule.padding for _ in range(rule.weight)]
        for rules in FAMILIES.values()
    ]


STATE_AXES = ["b", "bh", "bk", "be", "beh"]


@st.composite
def programs(draw: Callable[[Any], Any], *, padding: bool = True) -> Program:
    """Those that `drawn` makes of the choices of hypothesis."""
    return drawn(ByHypothesis(draw), padding=padding)


def drawn(choose: Choices, *, padding: bool = True, size: int = 20) -> Program:
    """padding: with ops that can leave the finite numbers in padding. size: the largest number of ops."""
    least = {axis: choose.number(0, 1) for axis in "te"}
    batch = choose.number(1, 3)
    t, e = (tuple(choose.number(least[axis], SIZES[axis]) for _ in range(batch)) for axis in "te")
    over_t, before = choose.one_of([False, True]), choose.one_of([False, True])
    max_len = _max_len(choose, batch, over_t)
    empty = frozenset(axis for axis in "te" if not least[axis])  # a max over no frames is infinite
    inputs = tuple(each for each in INPUTS if over_t or each.source != "frame")
    states = [_state(choose) for _ in range(choose.number(1, 4))]
    start = [*(each.facts for each in inputs), *(each.facts for each in states)]
    drawing = _Drawing(choose, Known(empty, over_t), start, names_of_rules(padding=padding))
    ops = [op for _ in range(choose.number(1, size)) if (op := drawing.add()) is not None]
    floats = [i for i, f in enumerate(drawing.facts) if f.kind == "float"][::-1]
    of_batch = [i for i in floats if "b" in drawing.facts[i].axes]
    end = _end(choose, of_batch, drawing.facts) if choose.number(0, 3) == 3 else None
    some_steps = least["t"] == 1 if over_t else True  # `last` needs a step
    lasting = some_steps and not isinstance(max_len, tuple) and (end is None or end.include_eos)
    return Program(
        t=t,
        e=e,
        over_t=over_t,
        before=before,
        max_len=max_len,
        states=tuple(state._replace(update=choose.one_of(floats)) for state in states),
        ops=tuple(ops),
        end=end,
        stacked=choose.some_of(of_batch, 3),
        lasts=choose.some_of(of_batch, 2) if lasting else (),
        seed=choose.number(0, 99),
    )


def _max_len(choose: Choices, batch: int, over_t: bool) -> int | tuple[int, ...] | None:
    kind = choose.one_of(["none", "one", "each"] if over_t else ["one", "each"])
    if kind == "each":
        return tuple(choose.number(0, 4) for _ in range(batch))
    return choose.number(1, 4) if kind == "one" else None


def _end(choose: Choices, of_batch: Sequence[int], facts: Sequence[Facts]) -> End:
    value = choose.one_of(of_batch)
    middle = (facts[value].low + facts[value].high) / 2
    return End(value, middle + 0.0123, choose.one_of([False, True]))


STATE_AXES = ["b", "bh", "bk", "be", "beh"]


def _state(choose: Choices) -> State:
    axes, zero = choose.one_of(STATE_AXES), choose.one_of([False, True])
    how = choose.one_of(["tanh", "leak", "grow"])
    low, high = {"tanh": (-1.0, 1.0), "leak": (-1.0, 1.0), "grow": (0.0 if zero else 0.2, 5.0)}[how]
    return State(Facts(frozenset(axes), low, high), zero, how, -1)
