"""Random loop programs: which values a body computes, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st

from tests.outside.grammar import RULES, SIZES, Facts, Known, facts

Draw = Any


class Input(NamedTuple):
    """A value that a body reads. source: where it comes from."""

    name: str
    facts: Facts
    source: Literal["frame", "whole", "weight", "step"]


INPUTS = (
    Input("x", facts("bh", -1.5, 1.5), "frame"),
    Input("positive", facts("bh", 0.5, 1.5), "frame"),
    Input("u", facts("b", -1.5, 1.5), "frame"),
    Input("label", facts("b", 0, 1, "labels"), "frame"),
    Input("memory", facts("beh", 0.5, 1.5), "whole"),
    Input("energy", facts("be", -1.5, 1.5), "whole"),
    Input("all_x", facts("bth", 0.5, 1.5), "whole"),
    Input("g", facts("bh", 0.5, 1.5), "whole"),
    Input("p", facts("h", -0.7, 0.7), "weight"),
    Input("r", facts("h", 0.5, 1.5), "weight"),
    Input("table", facts("hk", -0.7, 0.7), "weight"),
    Input("step", facts("", 0, 6), "step"),
)


class Op(NamedTuple):
    """A rule applied to values, which are numbered: the inputs, the states, then the results of ops."""

    rule: str
    args: tuple[int, ...]


class Cond(NamedTuple):
    """One of two ops: the first one in the steps before `step`."""

    step: int
    sides: tuple[Op, Op]


class Inner(NamedTuple):
    """A loop over e in a step: from `start`, each step sees a frame of `source`, computes `ops`, and sets its state to
    tanh of the value `update`."""

    source: int
    start: int
    ops: tuple[Op, ...]
    update: int


class State(NamedTuple):
    """A state, and how a step sets it from the value `update`."""

    facts: Facts
    zero: bool
    how: Literal["tanh", "leak", "grow"]
    update: int


class End(NamedTuple):
    """Ends a sequence where the mean of a value is above a number."""

    value: int
    above: float
    include_eos: bool


@dataclass(frozen=True)
class Program:
    """A loop over a batch.

    t, e: the lengths. over_t: whether the loop is over the frames of t. before: whether ops that read nothing of a step
    are computed before the loop. max_len: the largest number of steps, for all sequences or each.
    """

    t: tuple[int, ...]
    e: tuple[int, ...]
    over_t: bool
    before: bool
    max_len: int | tuple[int, ...] | None
    states: tuple[State, ...]
    ops: tuple[Op | Cond | Inner, ...]
    end: End | None
    stacked: tuple[int, ...]
    lasts: tuple[int, ...]
    seed: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Those that a body can read: frames only in a loop over t."""
        return INPUTS if self.over_t else tuple(each for each in INPUTS if each.source != "frame")

    @property
    def first_state(self) -> int:
        return len(self.inputs)

    @property
    def first_op(self) -> int:
        return len(self.inputs) + len(self.states)

    def before_loop(self) -> set[int]:
        """The values that are computed before the loop."""
        if not self.before:
            return set()
        outside = {i for i, each in enumerate(self.inputs) if each.source in ("whole", "weight")}
        for number, op in enumerate(self.ops, self.first_op):
            if isinstance(op, Op) and outside.issuperset(op.args):
                outside.add(number)
        return outside


class _Drawing:
    """The values so far, while a program is drawn."""

    def __init__(self, draw: Draw, known: Known, facts: Sequence[Facts], names: Sequence[str]):
        self.draw, self.known, self.facts, self.names = draw, known, list(facts), names

    def one_of(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def op(self) -> tuple[Op, Facts] | None:
        """An op that applies to values so far, more often to late ones."""
        rule = RULES[self.one_of(self.names)]
        numbers = range(len(self.facts))
        tuples = [(i,) for i in numbers] if rule.arity == 1 else [(i, j) for j in numbers for i in numbers]
        found = [(args, rule.check(self.known, *[self.facts[i] for i in args])) for args in tuples]
        options = [each for each in found if each[1] is not None]
        if not options:
            return None
        late = options[-6:] if self.draw(st.booleans()) else options
        args, result = self.one_of(late[::-1])
        return Op(rule.name, args), result

    def add(self) -> Op | Cond | Inner | None:
        """Draws an op and adds its result."""
        kind = self.one_of(["op"] * 12 + ["cond", "inner"])
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
        return Cond(self.one_of([1, 2]), (first[0], other[0])), result

    def inner(self) -> tuple[Inner, Facts] | None:
        sources = [i for i, f in enumerate(self.facts) if {"b", "e"} <= f.axes and f.kind == "float"]
        starts = [i for i, f in enumerate(self.facts) if "b" in f.axes and "e" not in f.axes and f.kind == "float"]
        if not sources or not starts:
            return None
        source, start = self.one_of(sources[::-1]), self.one_of(starts[::-1])
        frame, state = self.facts[source], self.facts[start]
        state = Facts(state.axes, min(-1.0, state.low), max(1.0, state.high))
        inside = _Drawing(
            self.draw,
            self.known,
            [*self.facts, state, Facts(frame.axes - {"e"}, *frame[1:])],
            [name for name in self.names if not name.endswith("over e")],
        )
        ops = []
        for _ in range(self.draw(st.integers(1, 4))):
            found = inside.op()
            if found is not None:
                ops.append(found[0])
                inside.facts.append(found[1])
        updates = [i for i, f in enumerate(inside.facts) if f.kind == "float"]
        return Inner(source, start, tuple(ops), self.one_of(updates[::-1])), state


def names_of_rules(*, padding: bool) -> list[str]:
    """Each as often as its weight says."""
    return [rule.name for rule in RULES.values() if padding or not rule.padding for _ in range(rule.weight)]


STATE_AXES = ["b", "bh", "bk", "be", "beh"]


@st.composite
def programs(draw: Draw, *, padding: bool = True, size: int = 16) -> Program:
    """padding: with ops that can leave the finite numbers in padding. size: the largest number of ops."""
    batch = draw(st.integers(1, 3))
    least = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    t, e = (
        tuple(draw(st.lists(st.integers(low, SIZES[axis]), min_size=batch, max_size=batch)))
        for low, axis in zip(least, "te", strict=True)
    )
    over_t, before = draw(st.booleans()), draw(st.booleans())
    max_len: Any = draw(st.sampled_from(["none", "int", "each"] if over_t else ["int", "each"]))
    if max_len == "each":
        max_len = tuple(draw(st.lists(st.integers(0, 4), min_size=batch, max_size=batch)))
    else:
        max_len = draw(st.integers(1, 4)) if max_len == "int" else None
    inputs = tuple(each for each in INPUTS if over_t or each.source != "frame")
    empty = {"e"} if not least[1] else set()
    if not least[0] and (before or not over_t or not any(t)):  # steps of a loop over t see sequences with frames only
        empty.add("t")
    states = [_state(draw) for _ in range(draw(st.integers(1, 4)))]
    start = [*(each.facts for each in inputs), *(each.facts for each in states)]
    drawing = _Drawing(draw, Known(frozenset(empty), over_t), start, names_of_rules(padding=padding))
    ops = [op for _ in range(draw(st.integers(1, size))) if (op := drawing.add()) is not None]
    floats = [i for i, f in enumerate(drawing.facts) if f.kind == "float"][::-1]
    states = [state._replace(update=draw(st.sampled_from(floats))) for state in states]
    of_batch = [i for i in floats if "b" in drawing.facts[i].axes]
    end = None
    if draw(st.integers(0, 3)) == 0:
        value = draw(st.sampled_from(of_batch))
        middle = (drawing.facts[value].low + drawing.facts[value].high) / 2
        end = End(value, middle + 0.0123, draw(st.booleans()))
    stacked = draw(st.lists(st.sampled_from(of_batch), max_size=3, unique=True))
    lasting = bool(over_t and least[0] and not isinstance(max_len, tuple)) or (isinstance(max_len, int) and not over_t)
    lasting = lasting and (end is None or end.include_eos)
    lasts = draw(st.lists(st.sampled_from(of_batch), max_size=2, unique=True)) if lasting else []
    return Program(
        t, e, over_t, before, max_len, tuple(states), tuple(ops), end, tuple(stacked), tuple(lasts),
        draw(st.integers(0, 99)),
    )  # fmt: skip


def _state(draw: Draw) -> State:
    axes, zero = draw(st.sampled_from(STATE_AXES)), draw(st.booleans())
    how = draw(st.sampled_from(["tanh", "leak", "grow"]))
    low, high = {"tanh": (-1.0, 1.0), "leak": (-1.0, 1.0), "grow": (0.0 if zero else 0.2, 5.0)}[how]
    return State(Facts(frozenset(axes), low, high), zero, how, -1)
