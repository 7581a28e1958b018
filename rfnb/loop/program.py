"""The traced body as a program: the raw calls of one step, and their text as Python code.

`Program` has the calls, and which of them a result needs; `Schedule` says what goes in and out of a step; `Written` is
the code of the steps; `Analysis` keeps what was found out about steps of the same structure."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Lock
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, TypeVar

from rfnb.backend.base.tape import Call, External, Once, Reference, Stream, Tape, Var
from rfnb.core.tensor.tensor import RawTensor

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.core.dims.lengths import Size
    from rfnb.trace.record.record import OpCall


T = TypeVar("T")


@dataclass(frozen=True)
class Schedule:
    """Inputs and outputs of the steps of a loop, as Vars of its Program.

    states, frames: the inputs of a step. new: the states after a step in which no sequence has ended. kept: the states
    after a step in which ended sequences keep theirs. outputs: the values to stack. ended: which sequences have ended.
    """

    states: tuple[Var, ...]
    frames: tuple[Var, ...]
    new: tuple[Var, ...]
    kept: tuple[Var, ...]
    outputs: tuple[Var, ...]
    ended: Var | None

    def free_steps(self, limit: Size) -> int:
        """How many steps come before the first sequence ends. limit: the largest number of steps of each sequence."""
        return limit.max if self.new == self.kept else 0 if self.ended is not None else limit.min


class Program:
    """The raw calls of one step of a loop.

    Args:
        tape: the raw calls of the traced frame.
        inputs: the Vars of a step's inputs: states, then frames.
        needs_gradient: whether gradients flow through an external. A value that depends on no such external and on no
            input is the same at every step; its value on the traced frame is used.
        analysis: what is known of steps with this structure.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[Var],
        needs_gradient: Callable[[RawTensor], bool],
        analysis: Analysis | None = None,
    ):
        self.calls = list(tape.calls)
        self.externals = list(tape.externals)
        self.stream_devices = [str(generator.device) for generator in tape.streams]
        self.inputs = tuple(inputs)
        self._overwritten = {number for number, raw in enumerate(self.externals) if tape.is_kept(raw)}
        self.analysis = analysis or Analysis()
        folded = self.analysis.get("folded", lambda: self._folded(needs_gradient))
        self.constants = {number: tape.values[number] for number in folded}

    def supply(self, constants: dict[Var, RawTensor], frames: Sequence[Var]) -> None:
        """Takes values from outside instead of computing them: constants of all steps, or one more frame per step."""
        self.constants |= {var.number: raw for var, raw in constants.items()}
        self.inputs = (*self.inputs, *frames)

    def join(self, backend: type[Backend], values: Sequence[object], targets: Sequence[Var]) -> None:
        """Joins calls that `targets` depends on into fewer calls. values: those of the Vars on the traced frame."""
        if self._overwritten:
            return  # a joined call reads later than the calls it replaces: perhaps after a write
        if backend.joins_raw():
            question = "joined", self.inputs, tuple(self.constants), tuple(targets)
            joined = self.analysis.get(question, lambda: self._joined(backend, values, targets))
            for position, owner, fn, args in joined:
                args = tuple([self._compute(arg) if type(arg) is Once else arg for arg in args])
                node = self.calls[owner].node
                self.calls[position] = Call(fn, args, {}, self.calls[position].result, node=node)
            self.analysis = self.analysis.after(question)

    def _joined(
        self, backend: type[Backend], values: Sequence[object], targets: Sequence[Var]
    ) -> list[tuple[int, int, Callable[..., object], tuple[object, ...]]]:
        """The positions of calls that are joined with an earlier one, those of calls of the nodes that make them then,
        and the functions and arguments that they get."""
        positions = self.needed(targets)
        calls = [self.calls[position] for position in positions]
        joined = backend.joined_raw(calls, values, self.externals, set(targets))
        owners = {id(call.node): position for position, call in zip(positions, calls, strict=True)}
        rows = zip(positions, calls, joined, strict=True)
        return [(position, owners[id(new.node)], new.fn, new.args) for position, call, new in rows if new is not call]

    def _compute(self, once: Once) -> External:
        """The result of `once`, from now on an external."""
        return self.add_external(once.fn(*map_references(lambda read: self.externals[read.number], once.args)))

    def copy(self) -> Program:
        """A copy whose calls can be replaced without changing this Program."""
        return with_attributes(self, calls=[*self.calls], externals=[*self.externals], analysis=Analysis())

    def without_tensors(self) -> Program:
        """The calls alone."""
        program = self.copy()
        program.externals, program.constants = [], {}
        return program

    def with_given(self, variables: Sequence[Var]) -> Program:
        """A copy that takes these values as further inputs of each step, instead of computing them."""
        program, numbers = self.copy(), {var.number for var in variables}
        program.inputs = (*self.inputs, *variables)
        program.constants = {var: raw for var, raw in self.constants.items() if var not in numbers}
        program.calls = [
            call if numbers.isdisjoint(call.made) else _without(call, numbers) for call in self.calls
        ]  # at the same positions
        return program

    def replace(self, call: Call, calls: Sequence[Call]) -> None:
        """Replaces `call` by `calls`."""
        position = next(i for i, c in enumerate(self.calls) if c is call)
        self.calls[position : position + 1] = calls

    def add_external(self, raw: RawTensor) -> External:
        """Adds a raw tensor from outside, and returns its reference."""
        self.externals.append(raw)
        return External(len(self.externals) - 1)

    def detach(self, alias: Callable[[RawTensor], object]) -> None:
        """Releases the autograd graph and the externals. Calls that read these run at each step then, not once."""
        self.externals.clear()
        self.constants = {var: alias(raw) for var, raw in self.constants.items()}

    def _folded(self, needs_gradient: Callable[[RawTensor], bool]) -> list[int]:
        """The Vars whose values are the same at every step: made from numbers and constants only."""
        reads = {x for call in self.calls if not call.effect for x in call.reads}
        fixed = {x for x in reads.intersection(self._fixed()) if not needs_gradient(self.externals[x.number])}
        numbers_by_call = [self.calls[position].made for position in self._made_of(fixed, range(len(self.calls)))]
        return [number for numbers in numbers_by_call for number in numbers]

    @property
    def may_do_anything(self) -> bool:
        """Whether a step calls functions of the user, as in `rf.raw_call`."""
        return any(call.effect and call.made for call in self.calls)

    def needed(self, targets: Sequence[Var | External], *, effects: bool = True) -> list[int]:
        """The positions of the calls that `targets` depends on, and of those with effects, in order."""
        inputs = {var.number for var in self.inputs}.union(self.constants)
        alive = {var.number for var in targets if type(var) is Var} - inputs
        positions = []
        for position in range(len(self.calls) - 1, -1, -1):
            call = self.calls[position]
            result = call.result
            if (
                result in alive
                or (effects and call.effect)
                or (call.changes and not alive.isdisjoint(call.changes))
                or (call.parts and not alive.isdisjoint(call.made))
            ):
                positions.append(position)
                for var in call.read_vars:
                    if var not in inputs:
                        alive.add(var)
        return positions[::-1]

    def reads(self, targets: Sequence[Var]) -> frozenset[Reference]:
        """What a step reads that gives `targets`: these themselves, and the arguments of the calls that they need."""
        question = "reads", self.inputs, tuple(self.constants), tuple(targets)
        return self.analysis.get(question, lambda: frozenset(self._reads(targets)))

    def _reads(self, targets: Sequence[Var]) -> Iterator[Reference]:
        yield from targets
        for position in self.needed(targets):
            yield from self.calls[position].reads

    def compile(
        self,
        targets: Sequence[Var | External],
        generator: Callable[[int, int], object],
        externals: Sequence[object] | None = None,
        *,
        effects: bool = True,
        once: bool = True,
    ) -> Compiled:
        """Compiles a function `run(i, *inputs)` that returns `targets`.

        generator: returns the generator of a stream, seeded for step i. externals: replace those that were traced.
        once: whether what is the same at every step is computed before the first one.
        """
        lines, once_count, _ = self._lines(targets, effects)
        inputs = "".join(f", v{var.number}" for var in self.inputs)
        head, tail = [f"def run(i{inputs}):"], [f"    return {lines.tuple_of(targets)}"]
        written = Written(lines, once_count if once else 0, head, tail, 1)
        return written.bind(self.constants, externals or self.externals, generator)

    def compile_loop(
        self,
        new: Sequence[Var],
        outputs: Sequence[Var],
        ended: Var | None,
        generator: Callable[[int, int], object],
        externals: Sequence[object] | None = None,
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
        question = "loop", self.inputs, tuple(self.constants), tuple(new), tuple(outputs), ended, effects, keep
        written = self.analysis.get(question, lambda: self._write_loop(new, outputs, ended, effects, keep))
        return written.bind(self.constants, externals or self.externals, generator)

    def _write_loop(
        self, new: Sequence[Var], outputs: Sequence[Var], ended: Var | None, effects: bool, keep: bool
    ) -> Written:
        results = [*new, *outputs, *([] if ended is None else [ended])]
        lines, once, sources = self._lines(results, effects)
        states, frames = self.inputs[: len(new)], self.inputs[len(new) :]
        head = ["def run(steps, states, frames, outputs, over, keep):", "    done, ended = steps.start, False"]
        head += [f"    {_unpacked('p', len(frames))}frames", f"    {_unpacked('o', len(outputs))}outputs"]
        head += [f"    {''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        head += [
            "    for i in steps:",
            *[f"        v{var.number} = p{n}[i]" for n, var in enumerate(frames) if var in sources],
        ]
        tail = [f"o{n}({lines.text(var)})" for n, var in enumerate(outputs)]
        tail += [f"ended = over({lines.text(ended)})"] if ended is not None else []
        tail += [f"new = {lines.tuple_of(new)}", *(["keep(new)"] if keep else [])]
        tail += ["states, done = new, i + 1"]  # in one statement, so that an interrupt cannot separate them
        tail += [f"{''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        tail += ["if ended: break"] if ended is not None else []
        return Written(lines, once, head, [*[f"        {line}" for line in tail], "    return done, states, ended"], 2)

    def _lines(self, targets: Sequence[Var | External], effects: bool) -> tuple[Lines, int, set[Reference]]:
        """The calls that `targets` need, first those that are the same at every step; the line count of these; and what
        the others read, with `targets`."""
        lines, positions = Lines(self.constants), self.needed(targets, effects=effects)
        once = self._made_of({*self._fixed(), *map(Var, self.constants)}, positions)
        for position in once:
            lines.call(self.calls[position], position)
        before = len(lines.lines)
        loop_positions = [position for position in positions if position not in once]
        for position, over in zip(loop_positions, self._last_reads(loop_positions, targets), strict=True):
            lines.call(self.calls[position], position, over)
        return lines, before, {*targets, *(ref for position in loop_positions for ref in self.calls[position].reads)}

    def _last_reads(self, positions: Sequence[int], targets: Sequence[Var | External]) -> list[list[int]]:
        """For each of these calls, the Vars that no later call reads: they are freed after it."""
        alive = {var for position in positions for var in self.calls[position].made}
        alive -= {var.number for var in targets if type(var) is Var}
        deletions: list[list[int]] = []
        for position in reversed(positions):
            call = self.calls[position]
            over = alive.intersection((*call.read_vars, *call.made))
            alive -= over
            deletions.append(sorted(over) if len(over) > 1 else list(over))
        return deletions[::-1]

    def _fixed(self) -> list[External]:
        """What comes from outside, and no step writes into."""
        return [External(number) for number in range(len(self.externals)) if number not in self._overwritten]

    def _made_of(self, known: set[Reference], positions: Sequence[int]) -> list[int]:
        """The calls that depend on nothing but `known` and their results, and change nothing. Adds these to `known`."""
        changed = {var for position in positions for var in self.calls[position].changes}
        computable = []
        for position in positions:
            call = self.calls[position]
            if call.effect or call.changes or not known.issuperset(call.reads):
                continue
            numbers = call.made
            if changed.isdisjoint(numbers):
                computable.append(position)
                known.update(map(Var, numbers))
        return computable


def with_attributes(thing: T, **others: object) -> T:
    """A shallow copy with other values of these attributes: quicker than `copy` and `replace`."""
    new = object.__new__(type(thing))
    new.__dict__.update(thing.__dict__, **others)
    return new


def _without(call: Call, numbers: Container[int]) -> Call:
    """The call, but these Vars do not take its results."""
    parts = tuple((i, var) for i, var in call.parts if var not in numbers)
    return replace(call, result=None if call.result in numbers else call.result, parts=parts)


def map_references(fn: Callable[[Reference], object], tree: Any) -> Any:
    """The arguments of a call, with the results of `fn` in place of what they refer to."""
    kind = type(tree)
    if kind is Var or kind is External or kind is Stream:
        return fn(tree)
    if kind is tuple or kind is list:
        return kind([map_references(fn, part) for part in tree])
    if kind is dict:
        return {key: map_references(fn, part) for key, part in tree.items()}
    if kind is slice:
        return slice(*(map_references(fn, part) for part in (tree.start, tree.stop, tree.step)))
    return tree


def _unpacked(letter: str, count: int) -> str:
    return f"{', '.join(f'{letter}{n}' for n in range(count))}, = " if count else ""


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
        self._names: dict[object, str] = {}

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

    def tuple_of(self, values: Sequence[object]) -> str:
        """The code of a tuple of values: "(v1, v2, )"."""
        return f"({''.join(self.text(value) + ', ' for value in values)})"

    def _argument(self, letter: str, table: Table, value: object, key: object) -> str:
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
        self, constants: Mapping[int, object], externals: Sequence[object], generator: Callable[[int, int], object]
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
        self, constants: Mapping[int, object], externals: Sequence[object], generator: Callable[[int, int], object]
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


MOST = 256
"""Maximum number of structures that are kept."""


class Analysis:
    """Answers to questions about the steps of one structure. A question names all that its answer depends on besides;
    once calls were replaced, further questions go to what `after` gives.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def get(self, question: Hashable, find: Callable[[], T]) -> T:
        """The answer to a question; `find()` if it is asked for the first time."""
        try:
            answer: T = self._answers[question]
        except KeyError:
            answer = self._answers[question] = find()
        return answer

    def after(self, change: Hashable) -> Analysis:
        """What is known of these steps after a change of their calls. change: all that decides what it is."""
        return self.get(("after", change), Analysis)


_kept: dict[Hashable, Analysis] = {}  # by structure, the oldest first
_keeping = Lock()


def analysis_of(
    tape: Tape,
    ops: Sequence[OpCall],
    schedule: Schedule,
    needs_gradient: Callable[[RawTensor], bool],
    *,
    stackable: Sequence[bool],
    unstacks: bool,
    runs: bool,
) -> Analysis:
    """What is known of steps with this structure. Nothing is kept of steps that write into tensors or have other
    effects, with axes that grow, or with functions that were made for this batch.

    needs_gradient: whether gradients flow through a raw tensor from outside. stackable: for each input of
    `schedule.frames`, whether its frames of all steps can be one tensor. unstacks: whether the body unstacks a tensor.
    runs: whether there is a step.
    """
    structure = _structure(tape, ops, schedule, needs_gradient)
    if structure is None:
        return Analysis()
    key = structure, tuple(stackable), unstacks, runs
    analysis = _kept.get(key)
    if analysis is None:
        with _keeping:
            while len(_kept) >= MOST:
                del _kept[next(iter(_kept))]
            analysis = _kept[key] = Analysis()
    return analysis


class _NoStructure(Exception):
    """An argument that may differ although it looks the same, or holds a tensor."""


def _structure(
    tape: Tape, ops: Sequence[OpCall], schedule: Schedule, needs_gradient: Callable[[RawTensor], bool]
) -> Hashable | None:
    if tape.grown or tape._before:
        return None
    try:
        calls = tuple([_call(call) for call in tape.calls])
        owners = tuple([
            (
                op.row.name, op.row.frames, op.row.random, op.row.effect, op.node.tape, tuple(op.reads), tuple(op.makes)
            )
            for op in ops
        ])  # fmt: skip
        values = tuple([(raw.shape, raw.dtype) for raw in tape.values])
        flags = tuple([(needs_gradient(raw), raw.shape) for raw in tape.externals])
        inputs = schedule.states, schedule.frames, schedule.new, schedule.kept, schedule.outputs, schedule.ended
        key = calls, owners, values, flags, inputs, len(tape.streams)
        hash(key)
    except (_NoStructure, AttributeError, TypeError):  # values that are numbers, arguments that are not hashable
        return None
    return key


def _call(call: Call) -> Hashable:
    if call.effect or call.changes or not _is_plain(call.fn):
        raise _NoStructure
    kwargs = tuple([(name, _frozen(value)) for name, value in call.kwargs.items()]) if call.kwargs else None
    return call.fn, _all_frozen(call.args), kwargs, call.result, call.parts


def _all_frozen(parts: Sequence[object]) -> Hashable:
    return tuple([part if type(part) in _AS_THEY_ARE else _frozen(part) for part in parts])


def _frozen(tree: Any) -> Hashable:
    """Hashable, and equal only for what gives the same result: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    kind = type(tree)
    if kind in _AS_THEY_ARE:
        return tree
    if kind is float:
        return "float", tree.hex()
    if kind is bool:
        return "bool", tree
    if kind is tuple or kind is list:
        return kind, _all_frozen(tree)
    if kind is slice:
        return "slice", _all_frozen((tree.start, tree.stop, tree.step))
    if kind is dict:
        return "dict", tuple([(_frozen(key), _frozen(value)) for key, value in tree.items()])
    if kind.__name__ in _OF_TORCH and kind.__module__ == "torch":
        return tree
    raise _NoStructure


_AS_THEY_ARE = frozenset({Var, External, Stream, int, str, type(None), type(Ellipsis)})
_OF_TORCH = frozenset({"Size", "dtype", "device", "layout", "memory_format"})
_OF_TYPES = frozenset({MethodDescriptorType, WrapperDescriptorType})


def _is_plain(fn: Any) -> bool:
    """Whether a function is one of a library, and holds nothing of a batch, as `x.add` holds x."""
    kind = type(fn)
    if kind in _OF_TYPES:
        return True
    if kind is BuiltinFunctionType:
        return isinstance(fn.__self__, type | ModuleType | None)
    return kind is FunctionType and fn.__closure__ is None and fn.__module__.partition(".")[0] in ("torch", "rfnb")
