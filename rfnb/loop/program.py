"""A Program: the step of a loop, as Python code of raw calls made from the tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import Any

from rfnb.backend.base.tape import Call, External, Stream, Tape, Var

CODE_NAME = f"{__file__}: step"  # in this package, so that it is never taken for the user's code
Step = Callable[..., tuple[Any, ...]]


class Program:
    """What one step of a loop does.

    Args:
        tape: the raw calls of the traced frame.
        inputs: the Vars that `step(i, *inputs)` is given.
        needs_gradient: whether gradients flow through an external; what depends on none of those, and on no
            input, is the same at every step and is kept from the traced frame.
    """

    def __init__(self, tape: Tape, inputs: Sequence[Var], needs_gradient: Callable[[Any], bool]):
        self.calls = list(tape.calls)
        self.externals = list(tape.externals)
        self.stream_devices = [str(generator.device) for generator in tape.streams]
        self.inputs = tuple(inputs)
        self._needs_gradient = needs_gradient
        self._is_written = tape.is_kept
        self.constants = self._fold(tape)

    def give(self, constants: dict[Var, Any], frames: Sequence[Var]) -> None:
        """These values are no longer computed in the steps: they are the same at all, or given to each."""
        self.constants |= {var.number: raw for var, raw in constants.items()}
        self.inputs = (*self.inputs, *frames)

    def detach(self, alias: Callable[[Any], Any]) -> None:
        """Lets go of the graph of the gradients."""
        self.externals.clear()
        self.constants = {var: alias(raw) for var, raw in self.constants.items()}

    def _fold(self, tape: Tape) -> dict[int, Any]:
        """Values of the traced frame that hold for every step: made from numbers and constants alone."""
        changed = {var for call in self.calls for var in call.changes}
        constants: dict[int, Any] = {}
        for call in self.calls:
            made = _made(call)
            if call.changes or call.effect or not made or any(var in changed for var in made):
                continue
            if all(self._is_constant(read, constants) for read in call.reads()):
                constants |= {var: tape.values[var] for var in made}
        return constants

    def _is_constant(self, read: Var | External | Stream, constants: dict[int, Any]) -> bool:
        if isinstance(read, Var):
            return read.number in constants
        if not isinstance(read, External):
            return False
        raw = self.externals[read.number]
        return not self._needs_gradient(raw) and not self._is_written(raw)

    def needed(self, wanted: Sequence[Var | External], *, effects: bool = True) -> list[int]:
        """The calls that `wanted` depends on, and those that change something outside, in order."""
        given = {var.number for var in self.inputs} | set(self.constants)
        alive = {var.number for var in wanted if isinstance(var, Var)} - given
        found = []
        for position in range(len(self.calls) - 1, -1, -1):
            call = self.calls[position]
            made = [*_made(call), *call.changes]
            if (effects and call.effect) or any(var in alive for var in made):
                found.append(position)
                alive |= {read.number for read in call.reads() if isinstance(read, Var)} - given
        return found[::-1]

    def compile(
        self,
        wanted: Sequence[Var | External],
        generator: Callable[[int, int], Any],
        externals: Sequence[Any] | None = None,
        *,
        effects: bool = True,
    ) -> CompiledStep:
        """A function `step(i, *inputs)` that gives `wanted`.

        generator: gives the generator of a stream, seeded for step i. externals: other ones than those traced.
        """
        writer = _Writer(self, externals or self.externals, generator)
        positions = self.needed(wanted, effects=effects)
        for position in positions:
            writer.call(self.calls[position], position)
        result = ", ".join(writer.text(found) for found in wanted)
        inputs = "".join(f", v{var.number}" for var in self.inputs)
        body = [f"        {line}" for line in writer.lines]
        head = [f"    {target}" for target in writer.unpacking()]
        text = "\n".join(
            [
                "def make(F, C, E, G):",
                *head,
                f"    def step(i{inputs}):",
                *body,
                f"        return ({result}{',' if result else ''})",
                "    return step",
            ]
        )
        namespace: dict[str, Any] = {}
        exec(_code(text), namespace)  # our own text: names and numbers only
        first_line = 3 + len(head)
        make = namespace.pop("make")  # the names of a function are no part of it: no cycle
        step = make(writer.functions, writer.constants, writer.externals, writer.generators)
        lines = {first_line + i: position for i, position in enumerate(writer.line_calls)}
        return CompiledStep(step, lines)


class CompiledStep:
    """The code of a step, and which call of the tape each of its lines is."""

    __slots__ = ("calls_by_line", "step")

    def __init__(self, step: Step, calls_by_line: dict[int, int]):
        self.step = step
        self.calls_by_line = calls_by_line

    def failed_call(self, error: BaseException) -> int | None:
        """The position on the tape of the call that raised `error`."""
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == CODE_NAME:
                return self.calls_by_line.get(traceback.tb_lineno)
            traceback = traceback.tb_next
        return None


@lru_cache(maxsize=512)
def _code(text: str) -> CodeType:
    """The text holds the structure only, no numbers: steps of the same structure are compiled once."""
    return compile(text, CODE_NAME, "exec")


def _made(call: Call) -> list[int]:
    return [var for _, var in call.parts] if call.result is None else [call.result]


class _Writer:
    """Writes calls as lines; functions, numbers, externals and generators become arguments of the text."""

    def __init__(self, program: Program, externals: Sequence[Any], generator: Callable[[int, int], Any]):
        self.lines: list[str] = []
        self.line_calls: list[int] = []
        self.functions: list[Any] = []
        self.constants: list[Any] = []
        self.externals: list[Any] = []
        self.generators: list[Any] = []
        self._program = program
        self._all_externals = externals
        self._generator = generator
        self._names: dict[Any, str] = {}

    def call(self, call: Call, position: int) -> None:
        """A line for a call, and one for each part of its result."""
        function = self._argument("f", self.functions, call.fn, ("f", id(call.fn)))
        arguments = [self.text(arg) for arg in call.args] + [
            f"{key}={self.text(arg)}" for key, arg in call.kwargs.items()
        ]
        target = (
            ""
            if call.result is None and not call.parts
            else f"v{call.result} = "
            if call.result is not None
            else "r = "
        )
        self._line(f"{target}{function}({', '.join(arguments)})", position)
        for index, var in call.parts:
            self._line(f"v{var} = r[{index}]", position)

    def _line(self, text: str, position: int) -> None:
        self.lines.append(text)
        self.line_calls.append(position)

    def _argument(self, letter: str, table: list[Any], value: Any, key: Any) -> str:
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{letter}{len(table)}"
            table.append(value)
        return name

    def name(self, var: Var) -> str:
        """The name of a Var: of the step, or a constant of the traced frame."""
        constants = self._program.constants
        if var.number in constants:
            return self._argument("e", self.externals, constants[var.number], ("constant", var.number))
        return f"v{var.number}"

    def text(self, argument: Any) -> str:
        """An argument of a call, or what the step gives."""
        if isinstance(argument, Var):
            return self.name(argument)
        if isinstance(argument, External):
            return self._argument(
                "e", self.externals, self._all_externals[argument.number], ("external", argument.number)
            )
        if isinstance(argument, Stream):
            of_step = partial(self._generator, argument.number)
            return self._argument("g", self.generators, of_step, ("stream", argument.number)) + "(i)"
        if isinstance(argument, slice):
            return f"slice({self.text(argument.start)}, {self.text(argument.stop)}, {self.text(argument.step)})"
        if type(argument) is tuple:
            return f"({''.join(self.text(part) + ', ' for part in argument)})"
        if type(argument) is list:
            return f"[{', '.join(self.text(part) for part in argument)}]"
        if type(argument) is dict:
            return "{" + ", ".join(f"{key!r}: {self.text(value)}" for key, value in argument.items()) + "}"
        if argument is None:
            return "None"
        self.constants.append(argument)
        return f"c{len(self.constants) - 1}"

    def unpacking(self) -> list[str]:
        """Lines that give the arguments their names."""
        tables = {"f": self.functions, "c": self.constants, "e": self.externals, "g": self.generators}
        return [
            f"{', '.join(f'{letter}{i}' for i in range(len(table)))}, = {letter.upper()}"
            for letter, table in tables.items()
            if table
        ]
