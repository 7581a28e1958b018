"""A Program: the raw calls of one step, written as Python code, which steps of the same structure share."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, External, Stream, Tape, Var

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Program:
    """The raw calls of one step of a loop.

    Args:
        tape: the raw calls of the traced frame.
        inputs: the Vars of a step's inputs: states, then frames.
        needs_gradient: whether gradients flow through an external. A value that depends on no such external and on no
            input is the same at every step; its value on the traced frame is used.
    """

    def __init__(self, tape: Tape, inputs: Sequence[Var], needs_gradient: Callable[[Any], bool]):
        self.calls = list(tape.calls)
        self.externals = list(tape.externals)
        self.stream_devices = [str(generator.device) for generator in tape.streams]
        self.inputs = tuple(inputs)
        self._overwritten = {number for number, raw in enumerate(self.externals) if tape.is_kept(raw)}
        self.constants = self._fold(tape, needs_gradient)
        self._loops: dict[Any, Written] = {}  # cache: an inner loop runs once per step of the outer one

    def supply(self, constants: dict[Var, Any], frames: Sequence[Var]) -> None:
        """Takes values from outside instead of computing them: constants of all steps, or one more frame per step."""
        self.constants |= {var.number: raw for var, raw in constants.items()}
        self.inputs = (*self.inputs, *frames)

    def join(self, backend: type[Backend], values: Sequence[Any], wanted: Sequence[Var]) -> None:
        """Joins calls that `wanted` depends on into fewer calls. values: the values of the Vars on the traced frame."""
        if self._overwritten:
            return  # a joined call reads later than the calls it replaces: perhaps after a write
        positions = self.needed(wanted)
        calls = [self.calls[position] for position in positions]
        joined = backend.joined_raw(calls, values, self.externals, set(wanted))
        for position, call in zip(positions, joined, strict=True):
            self.calls[position] = call

    def copy(self) -> Program:
        """A copy whose calls can be replaced without changing this Program."""
        other = copy(self)
        other.calls, other.externals, other._loops = list(self.calls), list(self.externals), {}
        return other

    def with_given(self, given: Sequence[Var]) -> Program:
        """A copy that takes these values as further inputs of each step, instead of computing them."""
        other, numbers = self.copy(), {var.number for var in given}
        other.inputs = (*self.inputs, *given)
        other.constants = {var: raw for var, raw in self.constants.items() if var not in numbers}
        other.calls = [
            call if numbers.isdisjoint(call.made) else _without(call, numbers) for call in self.calls
        ]  # at the same positions
        return other

    def replace(self, call: Call, others: Sequence[Call]) -> None:
        """Replaces `call` by `others`."""
        position = next(i for i, known in enumerate(self.calls) if known is call)
        self.calls[position : position + 1] = others

    def add_external(self, raw: Any) -> External:
        """Adds a raw tensor from outside, and returns its reference."""
        self.externals.append(raw)
        return External(len(self.externals) - 1)

    def detach(self, alias: Callable[[Any], Any]) -> None:
        """Releases the autograd graph and the externals."""
        self.externals.clear()
        self.constants = {var: alias(raw) for var, raw in self.constants.items()}

    def _fold(self, tape: Tape, needs_gradient: Callable[[Any], bool]) -> dict[int, Any]:
        """Values of the traced frame that are the same at every step: made from numbers and constants only."""
        read = {each for call in self.calls if not call.effect for each in call.reads}
        fixed = {each for each in read.intersection(self._fixed()) if not needs_gradient(self.externals[each.number])}
        made = [self.calls[position].made for position in self._made_of(fixed, range(len(self.calls)))]
        return {number: tape.values[number] for numbers in made for number in numbers}

    def needed(self, wanted: Sequence[Var | External], *, effects: bool = True) -> list[int]:
        """The positions of the calls that `wanted` depends on, and of those with effects, in order."""
        given = {var.number for var in self.inputs}.union(self.constants)
        alive = {var.number for var in wanted if type(var) is Var} - given
        found = []
        for position in range(len(self.calls) - 1, -1, -1):
            call = self.calls[position]
            result = call.result
            if (
                result in alive
                or (effects and call.effect)
                or (call.changes and not alive.isdisjoint(call.changes))
                or (call.parts and not alive.isdisjoint(call.made))
            ):
                found.append(position)
                for var in call.read_vars:
                    if var not in given:
                        alive.add(var)
        return found[::-1]

    def reads(self, wanted: Sequence[Var | External], *, effects: bool = True) -> set[Any]:
        """What a step reads that gives `wanted`: these themselves, and the arguments of the calls that they need."""
        calls = [self.calls[position] for position in self.needed(wanted, effects=effects)]
        return {*wanted, *(read for call in calls for read in call.reads)}

    def compile(
        self,
        wanted: Sequence[Var | External],
        generator: Callable[[int, int], Any],
        externals: Sequence[Any] | None = None,
        *,
        effects: bool = True,
    ) -> Compiled:
        """Compiles a function `run(i, *inputs)` that returns `wanted`.

        generator: returns the generator of a stream, seeded for step i. externals: replace those that were traced.
        """
        lines, once, _ = self._lines(wanted, effects)
        inputs = "".join(f", v{var.number}" for var in self.inputs)
        written = Written(lines, once, [f"def run(i{inputs}):"], [f"    return {lines.tuple_of(wanted)}"], 1)
        return written.bind(self.constants, externals or self.externals, generator)

    def compile_loop(
        self,
        new: Sequence[Var],
        outputs: Sequence[Var],
        ended: Var | None,
        generator: Callable[[int, int], Any],
        externals: Sequence[Any] | None = None,
        *,
        effects: bool = True,
        keep: bool = False,
    ) -> Compiled:
        """Compiles a function `run(steps, states, frames, outputs, over, keep)` that runs all of `steps`.

        It returns how many steps are done, the states after them, and whether the loop has ended. If it raises, its
        local variables have `done` and `states`.

        new: the states after a step. outputs: values that each step passes to the functions in the argument `outputs`.
        ended: the value that the argument `over` reduces to whether to stop. keep: pass the states after each step to
        the argument `keep`.
        """
        key = (tuple(new), tuple(outputs), ended, effects, keep)
        written = self._loops.get(key)
        if written is None:
            written = self._loops[key] = self._write_loop(new, outputs, ended, effects, keep)
        return written.bind(self.constants, externals or self.externals, generator)

    def _write_loop(
        self, new: Sequence[Var], outputs: Sequence[Var], ended: Var | None, effects: bool, keep: bool
    ) -> Written:
        wanted = [*new, *outputs, *([] if ended is None else [ended])]
        lines, once, read = self._lines(wanted, effects)
        states, frames = self.inputs[: len(new)], self.inputs[len(new) :]
        head = ["def run(steps, states, frames, outputs, over, keep):", "    done, ended = steps.start, False"]
        head += [f"    {_unpacked('p', len(frames))}frames", f"    {_unpacked('o', len(outputs))}outputs"]
        head += [f"    {''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        head += [
            "    for i in steps:",
            *[f"        v{var.number} = p{n}[i]" for n, var in enumerate(frames) if var in read],
        ]
        tail = [f"o{n}({lines.text(var)})" for n, var in enumerate(outputs)]
        tail += [f"ended = over({lines.text(ended)})"] if ended is not None else []
        tail += [f"new = {lines.tuple_of(new)}", *(["keep(new)"] if keep else [])]
        tail += ["states, done = new, i + 1"]  # in one statement, so that an interrupt cannot separate them
        tail += [f"{''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        tail += ["if ended: break"] if ended is not None else []
        return Written(lines, once, head, [*[f"        {line}" for line in tail], "    return done, states, ended"], 2)

    def _lines(self, wanted: Sequence[Var | External], effects: bool) -> tuple[Lines, int, set[Any]]:
        """The calls that `wanted` needs, first those that are the same at every step; the line count of these; and what
        the others read, with `wanted`."""
        lines, positions = Lines(self.constants), self.needed(wanted, effects=effects)
        once = self._made_of({*self._fixed(), *map(Var, self.constants)}, positions)
        for position in once:
            lines.call(self.calls[position], position)
        before = len(lines.lines)
        each = [position for position in positions if position not in once]
        for position, over in zip(each, self._last_reads(each, wanted), strict=True):
            lines.call(self.calls[position], position, over)
        return lines, before, {*wanted, *(read for position in each for read in self.calls[position].reads)}

    def _last_reads(self, positions: Sequence[int], wanted: Sequence[Var | External]) -> list[list[int]]:
        """For each of these calls, the Vars that no later call reads: they are freed after it."""
        left = {var for position in positions for var in self.calls[position].made}
        left -= {var.number for var in wanted if type(var) is Var}
        found: list[list[int]] = []
        for position in reversed(positions):
            call = self.calls[position]
            over = left.intersection((*call.read_vars, *call.made))
            left -= over
            found.append(sorted(over) if len(over) > 1 else list(over))
        return found[::-1]

    def _fixed(self) -> list[External]:
        """What comes from outside, and no step writes into."""
        return [External(number) for number in range(len(self.externals)) if number not in self._overwritten]

    def _made_of(self, known: set[Any], positions: Sequence[int]) -> list[int]:
        """The calls that depend on nothing but `known` and their results, and change nothing. Adds these to `known`."""
        changed = {var for position in positions for var in self.calls[position].changes}
        found = []
        for position in positions:
            call = self.calls[position]
            if call.effect or call.changes or not known.issuperset(call.reads):
                continue
            made = call.made
            if changed.isdisjoint(made):
                found.append(position)
                known.update(map(Var, made))
        return found


def _without(call: Call, numbers: Container[int]) -> Call:
    """The call, but these Vars do not take its results."""
    parts = tuple((i, var) for i, var in call.parts if var not in numbers)
    return replace(call, result=None if call.result in numbers else call.result, parts=parts)


def _unpacked(letter: str, count: int) -> str:
    return f"{', '.join(f'{letter}{n}' for n in range(count))}, = " if count else ""


CODE_NAME = f"{__file__}: step"  # a path in this package, so that it never counts as user code
Table = list[Any]


class Lines:
    """Raw calls as lines of code. Functions, numbers, externals and generators become arguments of the code, so that
    steps of the same structure share their text and are compiled once.

    constants: numbers of the Vars whose values are passed as arguments.
    """

    def __init__(self, constants: Container[int]):
        self.lines: list[str] = []
        self.positions: list[int] = []  # for each line, the position of its call on the tape
        self._constants = constants
        self._functions: Table = []
        self._numbers: Table = []
        self._given: list[tuple[str, int]] = []  # constants and externals
        self._streams: list[int] = []
        self._names: dict[Any, str] = {}

    def call(self, call: Call, position: int, over: Sequence[int] = ()) -> None:
        """Adds a line for a call, and one for each part of its result. over: Vars that are freed after it."""
        function = self._argument("f", self._functions, call.fn, ("f", id(call.fn)))
        known, text = self._constants, self.text
        arguments = [f"v{a.number}" if type(a) is Var and a.number not in known else text(a) for a in call.args]
        arguments += [f"{key}={text(arg)}" for key, arg in call.kwargs.items()]
        target = f"v{call.result} = " if call.result is not None else "r = " if call.parts else ""
        lines = [f"{target}{function}({', '.join(arguments)})", *[f"v{var} = r[{i}]" for i, var in call.parts]]
        forget = [f"v{number}" for number in over] + (["r"] if call.parts else [])
        lines[-1] += f"; del {', '.join(forget)}" if forget else ""
        self.lines += lines
        self.positions += [position] * len(lines)

    def text(self, argument: Any) -> str:
        """The code of an argument of a call, or of a value that the step returns."""
        kind = type(argument)
        if kind is Var:
            if argument.number not in self._constants:
                return f"v{argument.number}"
            return self._argument("e", self._given, ("constant", argument.number), ("constant", argument.number))
        if kind is External:
            return self._argument("e", self._given, ("external", argument.number), ("external", argument.number))
        if kind is Stream:
            return self._argument("g", self._streams, argument.number, ("stream", argument.number)) + "(i)"
        if kind is slice:
            return f"slice({self.text(argument.start)}, {self.text(argument.stop)}, {self.text(argument.step)})"
        if kind is tuple:
            return f"({''.join(self.text(part) + ', ' for part in argument)})"
        if kind is list:
            return f"[{', '.join(self.text(part) for part in argument)}]"
        if kind is dict:
            return "{" + ", ".join(f"{key!r}: {self.text(value)}" for key, value in argument.items()) + "}"
        if argument is None:
            return "None"
        self._numbers.append(argument)
        return f"c{len(self._numbers) - 1}"

    def tuple_of(self, wanted: Sequence[Any]) -> str:
        """The code of a tuple of values: "(v1, v2, )"."""
        return f"({''.join(self.text(found) + ', ' for found in wanted)})"

    def _argument(self, letter: str, table: Table, value: Any, key: Any) -> str:
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{letter}{len(table)}"
            table.append(value)
        return name

    def unpacking(self) -> list[str]:
        """Lines that assign the arguments to their names."""
        tables = {"f": self._functions, "c": self._numbers, "e": self._given, "g": self._streams}
        return [
            f"{', '.join(f'{letter}{i}' for i in range(len(table)))}, = {letter.upper()}"
            for letter, table in tables.items()
            if table
        ]

    def tables(
        self, constants: Mapping[int, Any], externals: Sequence[Any], generator: Callable[[int, int], Any]
    ) -> list[Table]:
        """The arguments of the code: functions, numbers, constants and externals, generators."""
        given = [constants[n] if kind == "constant" else externals[n] for kind, n in self._given]
        return [self._functions, self._numbers, given, [partial(generator, number) for number in self._streams]]


class Written:
    """The code of a function, which `bind` turns into a function for given constants, externals and generators.

    Args:
        once: how many of the lines are the same at every step and run once, before the function.
        head, tail: lines of the function before and after the other lines. indent: indentation levels of these.
    """

    def __init__(self, lines: Lines, once: int, head: Sequence[str], tail: Sequence[str], indent: int):
        self._lines = lines
        before = [*lines.unpacking(), *lines.lines[:once]]
        each = [f"{'    ' * indent}{line}" for line in lines.lines[once:]]
        body = [*before, *head, *each, *tail]
        text = "\n".join(["def make(F, C, E, G):", *[f"    {line}" for line in body], "    return run"])
        first = 2 + len(before) + len(head)
        self.calls_by_line = dict(enumerate(lines.positions[once:], first))
        namespace: dict[str, Any] = {}
        exec(_code(text), namespace)  # generated code: names and numbers only
        self._make = namespace.pop("make")  # without it in its own namespace, there is no reference cycle

    def bind(
        self, constants: Mapping[int, Any], externals: Sequence[Any], generator: Callable[[int, int], Any]
    ) -> Compiled:
        """Makes the function."""
        return Compiled(self._make(*self._lines.tables(constants, externals, generator)), self.calls_by_line)


class Compiled:
    """A function of raw calls, and for each of its lines the position of its call on the tape."""

    __slots__ = ("calls_by_line", "run")

    def __init__(self, run: Callable[..., Any], calls_by_line: dict[int, int]):
        self.run = run
        self.calls_by_line = calls_by_line

    def failed_call(self, error: BaseException) -> int | None:
        """The position on the tape of the call that raised `error`."""
        traceback = _inside(error)
        return None if traceback is None else self.calls_by_line.get(traceback.tb_lineno)

    @staticmethod
    def variables(error: BaseException) -> dict[str, Any]:
        """The local variables of the function when it raised `error`."""
        traceback = _inside(error)
        return {} if traceback is None else traceback.tb_frame.f_locals


def _inside(error: BaseException) -> TracebackType | None:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != CODE_NAME:
        traceback = traceback.tb_next
    return traceback


@lru_cache(maxsize=512)
def _code(text: str) -> CodeType:
    return compile(text, CODE_NAME, "exec")
