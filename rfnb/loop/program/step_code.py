"""The code of a step: raw calls as lines of Python, which steps of the same structure share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import CodeType, TracebackType
from typing import Any

from rfnb.backend.base.tape import Call, External, Stream, Var

CODE_NAME = f"{__file__}: step"  # a path in this package, so that it never counts as user code
Table = list[Any]


class Lines:
    """Raw calls as lines of code. Functions, numbers, externals and generators become arguments of the code, so that
    steps of the same structure share their text and are compiled once.

    constants: numbers of the Vars whose values are passed as arguments.
    """

    def __init__(self, constants: Iterable[int]):
        self.lines: list[str] = []
        self.positions: list[int] = []  # for each line, the position of its call on the tape
        self._constants = frozenset(constants)  # without the values: lines are kept for other loops
        self._functions: Table = []
        self._numbers: Table = []
        self._given: list[tuple[str, int]] = []  # constants and externals
        self._streams: list[int] = []
        self._names: dict[Any, str] = {}

    def call(self, call: Call, position: int, over: Sequence[int] = ()) -> None:
        """Adds a line for a call, and one for each part of its result. over: Vars that are freed after it."""
        function = self._argument("f", self._functions, call.fn, ("f", id(call.fn)))
        constants, text = self._constants, self.text
        arguments = [f"v{a.number}" if type(a) is Var and a.number not in constants else text(a) for a in call.args]
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
        return f"({''.join(self.text(value) + ', ' for value in wanted)})"

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
        values = [constants[n] if kind == "constant" else externals[n] for kind, n in self._given]
        return [self._functions, self._numbers, values, [partial(generator, number) for number in self._streams]]


class Written:
    """The code of a function, which `bind` turns into a function for given constants, externals and generators.

    Args:
        once: how many of the lines are the same at every step and run once, before the function.
        head, tail: lines of the function before and after the other lines. indent: indentation levels of these.
    """

    def __init__(self, lines: Lines, once: int, head: Sequence[str], tail: Sequence[str], indent: int):
        self._lines = lines
        before = [*lines.unpacking(), *lines.lines[:once]]
        indented = [f"{'    ' * indent}{line}" for line in lines.lines[once:]]
        body = [*before, *head, *indented, *tail]
        text = "\n".join(["def make(F, C, E, G):", *[f"    {line}" for line in body], "    return run"])
        start = 2 + len(before) + len(head)
        self.calls_by_line = dict(enumerate(lines.positions[once:], start))
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
