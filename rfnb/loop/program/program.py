"""A Program: the raw calls of one step, written as Python code, which steps of the same structure share."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, External, Tape, Var
from rfnb.loop.program.analysis import Analysis
from rfnb.loop.program.step_code import Compiled, Lines, Written

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


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
        needs_gradient: Callable[[Any], bool],
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

    def supply(self, constants: dict[Var, Any], frames: Sequence[Var]) -> None:
        """Takes values from outside instead of computing them: constants of all steps, or one more frame per step."""
        self.constants |= {var.number: raw for var, raw in constants.items()}
        self.inputs = (*self.inputs, *frames)

    def join(self, backend: type[Backend], values: Sequence[Any], wanted: Sequence[Var]) -> None:
        """Joins calls that `wanted` depends on into fewer calls. values: the values of the Vars on the traced frame."""
        if self._overwritten:
            return  # a joined call reads later than the calls it replaces: perhaps after a write
        if backend.joins_raw():
            question = "joined", self.inputs, tuple(self.constants), tuple(wanted)
            joined = self.analysis.get(question, lambda: self._joined(backend, values, wanted))
            for position, fn, args in joined:
                call = self.calls[position]
                self.calls[position] = Call(fn, args, {}, call.result, node=call.node)
            self.analysis = self.analysis.after(question)

    def _joined(
        self, backend: type[Backend], values: Sequence[Any], wanted: Sequence[Var]
    ) -> list[tuple[int, Callable[..., Any], tuple[Any, ...]]]:
        """The positions of calls that are joined with an earlier one, and the functions and arguments that they get."""
        positions = self.needed(wanted)
        calls = [self.calls[position] for position in positions]
        joined = backend.joined_raw(calls, values, self.externals, set(wanted))
        rows = zip(positions, calls, joined, strict=True)
        return [(position, new.fn, new.args) for position, call, new in rows if new is not call]

    def copy(self) -> Program:
        """A copy whose calls can be replaced without changing this Program."""
        program = copy(self)
        program.calls, program.externals, program.analysis = list(self.calls), list(self.externals), Analysis()
        return program

    def without_tensors(self) -> Program:
        """The calls alone."""
        program = self.copy()
        program.externals, program.constants = [], {}
        return program

    def with_given(self, given: Sequence[Var]) -> Program:
        """A copy that takes these values as further inputs of each step, instead of computing them."""
        program, numbers = self.copy(), {var.number for var in given}
        program.inputs = (*self.inputs, *given)
        program.constants = {var: raw for var, raw in self.constants.items() if var not in numbers}
        program.calls = [
            call if numbers.isdisjoint(call.made) else _without(call, numbers) for call in self.calls
        ]  # at the same positions
        return program

    def replace(self, call: Call, others: Sequence[Call]) -> None:
        """Replaces `call` by `others`."""
        position = next(i for i, c in enumerate(self.calls) if c is call)
        self.calls[position : position + 1] = others

    def add_external(self, raw: Any) -> External:
        """Adds a raw tensor from outside, and returns its reference."""
        self.externals.append(raw)
        return External(len(self.externals) - 1)

    def detach(self, alias: Callable[[Any], Any]) -> None:
        """Releases the autograd graph and the externals. Calls that read these run at each step then, not once."""
        self.externals.clear()
        self.constants = {var: alias(raw) for var, raw in self.constants.items()}

    def _folded(self, needs_gradient: Callable[[Any], bool]) -> list[int]:
        """The Vars whose values are the same at every step: made from numbers and constants only."""
        reads = {x for call in self.calls if not call.effect for x in call.reads}
        fixed = {x for x in reads.intersection(self._fixed()) if not needs_gradient(self.externals[x.number])}
        numbers_by_call = [self.calls[position].made for position in self._made_of(fixed, range(len(self.calls)))]
        return [number for numbers in numbers_by_call for number in numbers]

    @property
    def may_do_anything(self) -> bool:
        """Whether a step calls functions of the user, as in `rf.raw_call`."""
        return any(call.effect and call.made for call in self.calls)

    def needed(self, wanted: Sequence[Var | External], *, effects: bool = True) -> list[int]:
        """The positions of the calls that `wanted` depends on, and of those with effects, in order."""
        inputs = {var.number for var in self.inputs}.union(self.constants)
        alive = {var.number for var in wanted if type(var) is Var} - inputs
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

    def reads(self, wanted: Sequence[Var]) -> frozenset[Any]:
        """What a step reads that gives `wanted`: these themselves, and the arguments of the calls that they need."""
        question = "reads", self.inputs, tuple(self.constants), tuple(wanted)
        return self.analysis.get(question, lambda: frozenset(self._reads(wanted)))

    def _reads(self, wanted: Sequence[Var]) -> Iterator[Any]:
        yield from wanted
        for position in self.needed(wanted):
            yield from self.calls[position].reads

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

    def _lines(self, wanted: Sequence[Var | External], effects: bool) -> tuple[Lines, int, set[Any]]:
        """The calls that `wanted` needs, first those that are the same at every step; the line count of these; and what
        the others read, with `wanted`."""
        lines, positions = Lines(self.constants), self.needed(wanted, effects=effects)
        once = self._made_of({*self._fixed(), *map(Var, self.constants)}, positions)
        for position in once:
            lines.call(self.calls[position], position)
        before = len(lines.lines)
        loop_positions = [position for position in positions if position not in once]
        for position, over in zip(loop_positions, self._last_reads(loop_positions, wanted), strict=True):
            lines.call(self.calls[position], position, over)
        return lines, before, {*wanted, *(read for position in loop_positions for read in self.calls[position].reads)}

    def _last_reads(self, positions: Sequence[int], wanted: Sequence[Var | External]) -> list[list[int]]:
        """For each of these calls, the Vars that no later call reads: they are freed after it."""
        alive = {var for position in positions for var in self.calls[position].made}
        alive -= {var.number for var in wanted if type(var) is Var}
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

    def _made_of(self, known: set[Any], positions: Sequence[int]) -> list[int]:
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


def _without(call: Call, numbers: Container[int]) -> Call:
    """The call, but these Vars do not take its results."""
    parts = tuple((i, var) for i, var in call.parts if var not in numbers)
    return replace(call, result=None if call.result in numbers else call.result, parts=parts)


def _unpacked(letter: str, count: int) -> str:
    return f"{', '.join(f'{letter}{n}' for n in range(count))}, = " if count else ""
