"""A Program: the raw calls of one step of a loop, from its tape, which it compiles to Python code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from rfnb.backend.base.tape import Call, External, Stream, Tape, Var
from rfnb.loop.steps.codegen import Compiled, Lines, Written


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
        self._needs_gradient = needs_gradient
        self._overwritten = {number for number, raw in enumerate(self.externals) if tape.is_kept(raw)}
        self.constants = self._fold(tape)
        self._loops: dict[Any, Written] = {}  # cache: an inner loop runs once per step of the outer one

    def supply(self, constants: dict[Var, Any], frames: Sequence[Var]) -> None:
        """Takes values from outside instead of computing them: constants of all steps, or one more frame per step."""
        self.constants |= {var.number: raw for var, raw in constants.items()}
        self.inputs = (*self.inputs, *frames)

    def join(self, backend: Any, values: Sequence[Any], wanted: Sequence[Var]) -> None:
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

    def _fold(self, tape: Tape) -> dict[int, Any]:
        """Values of the traced frame that are the same at every step: made from numbers and constants only."""
        changed = {var for call in self.calls for var in call.changes}
        constants: dict[int, Any] = {}
        for call in self.calls:
            made = call.made()
            if call.changes or call.effect or not made or not changed.isdisjoint(made):
                continue
            if all(self._is_constant(read, constants) for read in call.reads()):
                constants |= {var: tape.values[var] for var in made}
        return constants

    def _is_constant(self, read: Var | External | Stream, constants: dict[int, Any]) -> bool:
        if isinstance(read, Var):
            return read.number in constants
        if not isinstance(read, External):
            return False
        return read.number not in self._overwritten and not self._needs_gradient(self.externals[read.number])

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
                or (call.parts and not alive.isdisjoint(call.made()))
            ):
                found.append(position)
                for var in call.read_vars():
                    if var not in given:
                        alive.add(var)
        return found[::-1]

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
        lines, once = self._lines(wanted, effects)
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
        lines, once = self._lines([*new, *outputs, *([] if ended is None else [ended])], effects)
        states, frames = self.inputs[: len(new)], self.inputs[len(new) :]
        head = ["def run(steps, states, frames, outputs, over, keep):", "    done, ended = steps.start, False"]
        head += [f"    {_unpacked('p', len(frames))}frames", f"    {_unpacked('o', len(outputs))}outputs"]
        head += [f"    {''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        head += ["    for i in steps:", *[f"        v{var.number} = p{n}[i]" for n, var in enumerate(frames)]]
        tail = [f"o{n}({lines.text(var)})" for n, var in enumerate(outputs)]
        tail += [f"ended = over({lines.text(ended)})"] if ended is not None else []
        tail += [f"new = {lines.tuple_of(new)}", *(["keep(new)"] if keep else [])]
        tail += ["states, done = new, i + 1"]  # in one statement, so that an interrupt cannot separate them
        tail += [f"{''.join(f'v{var.number}, ' for var in states)}= states"] if states else []
        tail += ["if ended: break"] if ended is not None else []
        return Written(lines, once, head, [*[f"        {line}" for line in tail], "    return done, states, ended"], 2)

    def _lines(self, wanted: Sequence[Var | External], effects: bool) -> tuple[Lines, int]:
        """The calls that `wanted` needs, first those that are the same at every step; and the line count of these."""
        lines, positions = Lines(self.constants), self.needed(wanted, effects=effects)
        once = self._same_at_every_step(positions)
        for position in once:
            lines.call(self.calls[position], position)
        before = len(lines.lines)
        each = [position for position in positions if position not in once]
        for position, over in zip(each, self._last_reads(each, wanted), strict=True):
            lines.call(self.calls[position], position, over)
        return lines, before

    def _last_reads(self, positions: Sequence[int], wanted: Sequence[Var | External]) -> list[list[int]]:
        """For each of these calls, the Vars that no later call reads: they are freed after it."""
        kept = {var.number for var in wanted if type(var) is Var}
        made = {var for position in positions for var in self.calls[position].made()} - kept
        found: list[list[int]] = []
        for position in reversed(positions):
            call = self.calls[position]
            over = made.intersection(call.read_vars()).union(made.intersection(call.made()))
            made -= over
            found.append(sorted(over))
        return found[::-1]

    def _same_at_every_step(self, positions: Sequence[int]) -> list[int]:
        """The calls that depend on nothing but externals and constants, and change nothing."""
        changed = {var for position in positions for var in self.calls[position].changes}
        known = {Var(number) for number in self.constants}
        found = []
        for position in positions:
            call = self.calls[position]
            made = call.made()
            if call.effect or call.changes or not changed.isdisjoint(made):
                continue
            if all(read in known or self._stays(read) for read in call.reads()):
                found.append(position)
                known |= {Var(number) for number in made}
        return found

    def _stays(self, read: Var | External | Stream) -> bool:
        return isinstance(read, External) and read.number not in self._overwritten


def _unpacked(letter: str, count: int) -> str:
    return f"{', '.join(f'{letter}{n}' for n in range(count))}, = " if count else ""
