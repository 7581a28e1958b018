"""Forks: continues a recorded loop of plain Python from an iteration, with edited variables."""

from __future__ import annotations

import ast
import contextlib
import io
import operator
import time
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from rfnb.core.ground.source import codes_in, parsed, words_of
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import LoopError
from rfnb.trace.plain.events import Busy
from rfnb.trace.plain.hidden_state import (
    CONSTANT,
    MODULE,
    Copies,
    LoopContext,
    Weights,
    role_of,
    set_numbers,
    weights_of,
)
from rfnb.trace.plain.iterations import CLOCKS, Iterations, difference, has_other_devices
from rfnb.trace.plain.log import Entry, Log, Summary
from rfnb.trace.plain.rebuild import Rebuilder, edited_value, reason_lost, reason_missing
from rfnb.trace.plain.recorded_variables import continue_from, locked_variables
from rfnb.trace.plain.recorder import STALE, LoopClient, recording_here
from rfnb.trace.plain.syntax import FUNCTIONS, Use, assigned_by, local_names, outside_of_functions, read_again
from rfnb.trace.plain.user_code import same_globals
from rfnb.trace.plain.values import Kept, Opaque, tensor_backend, tensors_in
from rfnb.trace.run.random_numbers import OwnNumbers

ITEMS, MORE = ".items", ".more"
"""The variables of a fork that stand for the iterable of its loop, and for what counts its iterations."""


GONE = Summary("not followed: the loop does not name it")
"""The value, in a fork, of a variable that the loop does not name."""


class Forked(Iterations):
    """The iterations of a fork, in one log: the first are those of the loop that it continues.

    Args:
        parent: that loop.
        at: the first iteration of its own.
        own: those from there on; None if there are none.
        edited: the variables that were edited before.
        notes: what is not as it was.
    """

    def __init__(
        self, parent: Iterations, at: int, own: Iterations | None, edited: Collection[str], notes: Sequence[str]
    ):
        super().__init__(parent.code, parent.outline, parent.number, Log())
        self._parent, self._at, self.notes = parent, at, notes
        self.forked_at, self.first, self.inputs = at, parent.first, parent.inputs if at else {}
        self.name, self.around = parent.name, parent.around
        cut, ran = parent.starts[at], parent.ran[at]
        self.log.extend(parent.log, slice(cut), slice(ran))
        self.starts, self.ran, self.moments = parent.starts[:at], parent.ran[:at], parent.moments[:at]
        self.places = parent.places
        self.inner = [inner for inner in parent.inner if inner.end <= cut]
        self.end, self.ran_end, self.codes = cut, ran, parent.codes
        if own is not None:
            self._go_on(own, edited, ran)

    def _go_on(self, own: Iterations, edited: Collection[str], ran: int) -> None:
        """Takes the iterations of its own. What was edited belongs to no iteration, and is there before the first."""
        header = self.outline.header_of(self.number)
        for name, entry in self._parent.before(self._at).items():
            at = own.places.get(name, -1)
            if at >= 0 and own.log.values[at] is STALE:
                own.log.values[at], own.log.versions[at] = entry.value, entry.version
        entries = own.before(0)
        for name in self._parent.before(self._at):
            value = entries[name].value if name in entries else GONE  # other names may change it
            if value is GONE or (isinstance(value, Kept) and value.note):
                self.log.add(Use(name, header, self.text.first, False, True), value, None)
        cut = len(self.log)
        self.log.extend(own.log)
        for at in range(cut, cut + own.starts[0]):
            use = self.log.uses[at]
            if use.name in edited:
                self.log.uses[at] = use._replace(statement=header, line=self.text.first)
                if not self.starts:
                    self.places = self.places | {use.name: at}
        for loop in _all_of(own):
            loop.move(self.log, cut, ran)
        self.starts, self.ran = [*self.starts, *own.starts], [*self.ran, *own.ran]
        self.moments, self.inner = [*self.moments, *own.moments], [*self.inner, *own.inner]
        self.end, self.ran_end = own.end, own.ran_end
        self.codes = [*self.codes, own.code]
        if own.failed is not None:
            self.failed = own.failed._replace(step=self._at + own.failed.step)

    def span(self, step: int) -> tuple[int, int]:
        """Where in the log an iteration begins and ends."""
        return self._parent.span(step) if step < self._at else super().span(step)

    def before(self, step: int) -> dict[str, Entry]:
        """The variables at the beginning of an iteration."""
        return self._parent.before(step) if step < self._at else super().before(step)


def _all_of(loop: Iterations) -> Iterator[Iterations]:
    """A loop, and those in it."""
    yield loop
    for inner in loop.inner:
        yield from _all_of(inner)


class _Client(LoopClient):
    """A client that wants the loop of a fork."""

    stores = False

    def __init__(self, code: CodeType, number: int):
        super().__init__(number)
        self._code = code
        self.loop: Iterations | None = None

    def chooses(self, code: CodeType) -> bool:
        """Only the fork."""
        return code is self._code

    def done(self, loop: Iterations) -> None:
        """Takes the loop."""
        if loop.number == self._number:
            self.loop = loop


@continue_from.register
def fork(
    loop: Iterations, lines: Sequence[str], step: int, seed: int | None, edits: Mapping[str, object]
) -> tuple[Forked, BaseException | None]:
    """Runs a loop from an iteration on; the error that ended it, if there was one.

    Args:
        lines: the source of the loop.
        seed: of the random numbers; None for those of the recording.
        edits: new values of variables.
    """
    step = _checked(loop, step)
    seed = None if seed is None else operator.index(seed)
    if edits or seed is not None:  # first as it was, to see whether that comes back
        _continued(loop, lines, step, None, edits, trial=True)
    iterations, error, changes, notes = _continued(loop, lines, step, seed, edits)
    return Forked(loop, step, iterations, changes, notes), error


SECONDS = 1.0
"""The time for which a loop that is to be edited runs as it was, but for one iteration at least."""

Own = tuple[Iterations | None, BaseException | None, list[str], list[str]]
"""The iterations of a fork, the error that ended it, the variables that were edited, and what is not as it was."""


def _continued(
    loop: Iterations,
    lines: Sequence[str],
    step: int,
    seed: int | None,
    edits: Mapping[str, object],
    trial: bool = False,
) -> Own:
    """Runs the loop. trial: without the edits, for a while. Raises LoopError if it is not what it was without them."""
    for follows in (True, False):
        try:
            node, around, entries, targets, anew, rebuilder = _plan(loop, lines, step, follows)
            values = rebuilder.values({name: entry for name, entry in entries.items() if name not in targets}, anew)
        except LoopError:
            if not follows:
                raise
        else:
            if not rebuilder.notes:
                break
    items = list(_items(node, loop, step)) if isinstance(node, ast.For) else []
    cells = rebuilder.cells
    changes = _edited(edits, values, targets)
    for name, value in (values | ({} if trial else changes)).items():
        cells[name].cell_contents = value
    clock = _Clock(10 * len(loop.starts) + 1000, time.monotonic() + SECONDS if trial else None)
    source = _source(node, loop, step, rebuilder)
    numbers = None if seed is not None else around
    cells[ITEMS].cell_contents = _Items(loop, step, items, rebuilder, numbers, clock, source)
    cells[MORE].cell_contents = clock
    function = _compiled(node, loop, cells)
    attributes = _attributes(loop, step, values, rebuilder)
    notes = [*rebuilder.notes, *_notes(loop, step, seed, attributes)]
    inputs = [entry for name, entry in entries.items() if name not in anew] + [e for row in items for e in row.values()]
    cuts = any(part.gradient == 2 for entry in inputs for part in tensors_in(entry.value))
    if cuts and _computes_gradients(node):
        notes.append(f"gradients end at step {step}")
    modules = {id(module): module for module in (*rebuilder.modules, *(module() for _, module, _ in around.modules))}
    weights = [pair for module in _changed_modules(around) for pair in around.held.get(module, ())]
    with (
        _untouched([module for module in modules.values() if module is not None], rebuilder.objects, weights),
        same_globals(_words(node), around.names, values),
    ):
        for owner, name, value in attributes.values():
            setattr(owner, name, value)
        iterations, error = _run(function, loop, step, seed)
    is_as_it_was = trial or not (changes or seed is not None)
    if iterations is not None and _is_compared(error) and not notes and is_as_it_was:
        mismatch = difference(loop, iterations, step, not clock.has_stopped)
        if mismatch is not None and (not CLOCKS.isdisjoint(_all_words(node)) or has_other_devices(loop, step)):
            notes.append(str(mismatch))
        elif mismatch is not None:
            raise LoopError(f"fork: {mismatch}", hint=_hint(node, entries, values, rebuilder)) from error
    return iterations, error, list(changes), notes


def _is_compared(error: BaseException | None) -> bool:
    """Whether the steps that an error has ended are compared; not if the fork itself was refused, or interrupted."""
    return error is None or (isinstance(error, Exception) and not isinstance(error, LoopError))


def _hint(node: ast.AST, entries: Mapping[str, Entry], values: Mapping[str, object], rebuilder: Rebuilder) -> str:
    """What to do about steps that do not come back."""
    for name in sorted(_words(node) & values.keys()):
        if isinstance(values[name], Iterator) and entries[name].kept.identity in rebuilder.lasting:
            return f"another iterator than `{name}` for the lines of the loop, which takes its items from it too"
    return "the code once more; what a function keeps from call to call, as in a global variable, is not recorded"


Plan = tuple[Any, LoopContext, dict[str, Entry], set[str], set[str], Rebuilder]
"""What a fork begins with, before anything is copied: the syntax of the loop, what it begins with besides its
variables, these by name, those that the header assigns, those that an iteration assigns anew, what makes their values.
"""


def _plan(loop: Iterations, lines: Sequence[str], step: int, follows: bool = False) -> Plan:
    """Raises LoopError for a loop that cannot be continued, as far as its syntax tells, and what it has changed.

    follows: with the variables, too, that only the iterable or other functions name, so that the fork records them.
    """
    around, node = loop.around, _loop_of(loop, lines)
    if around is None:
        raise LoopError(
            "fork: plain Python code that was not recorded as a loop cannot be continued",
            hint="rf.steps in the line of its loop, or %%record_loops in its cell",
        )
    _check_syntax(node)
    if recording_here().is_held:
        raise LoopError("fork: nothing is recorded while a loop of plain Python is paused", hint="let it go on first")
    if around.trained:
        raise LoopError(
            f"fork: the loop changes the weights of `{around.trained[0]}`, and those of its steps are not kept",
            hint="run it again",
        )
    names, of_module = _names(node, loop, step)
    words = _words_in(node.iter) if isinstance(node, ast.For) else set()
    local = loop.before(step)
    if follows:
        names |= {name for name in words | loop.outline.shared if name in local and not _is_constant(local[name].value)}
    cells = {name: CellType() for name in (*names, ITEMS, MORE)}
    codes = {part for code in loop.codes for part in codes_in(code)}
    inputs = {} if step else loop.inputs
    rebuilder = Rebuilder(loop.moments[step].objects, _changing(loop), cells, codes.__contains__, inputs)
    entries = {name: entry for name, entry in (of_module | local).items() if name in names}
    rebuilder.lasting = set[int]().union(*(rebuilder.inside(entries[name].value) for name in words if name in entries))
    return node, around, entries, _target_names(node), _stored(node) - {*loop.text.carried}, rebuilder


@locked_variables.register
def locked(loop: Iterations, lines: Sequence[str], step: int, names: Sequence[str]) -> dict[str, str]:
    """The variables that a fork cannot edit before an iteration, with the reasons: all if the loop cannot be continued.

    Nothing is copied, and of the items that come, only the first is looked at.
    """
    try:
        node, _, entries, targets, anew, rebuilder = _plan(loop, lines, _checked(loop, step))
        if isinstance(node, ast.For):
            next(_items(node, loop, step))
        rebuilder.check({name: entry for name, entry in entries.items() if name not in targets}, anew)
    except LoopError as error:
        return dict.fromkeys(names, error.what.removeprefix("fork: "))
    reasons: dict[str, str] = {}
    for name in names:
        if name in targets:
            reasons[name] = f"the header of the loop assigns `{name}` anew"
        elif name not in entries:
            reasons[name] = reason_missing(name)
    return reasons


def _checked(loop: Iterations, step: int) -> int:
    step = operator.index(step)
    if not -len(loop.starts) <= step < len(loop.starts):
        expected = f"0 … {len(loop.starts) - 1}" if len(loop.starts) else "none: the run has no steps"
        raise LoopError(f"there is no step {step}, so the run cannot be forked there", expected=expected)
    step %= len(loop.starts)
    if step < loop.first:
        expected = f"a step from {loop.first} on"
        raise LoopError(f"fork: step {step} is no longer kept", expected=expected, hint="rf.options.trace_budget")
    return step


# -- syntax


def _loop_of(loop: Iterations, lines: Sequence[str]) -> Any:
    """The syntax of a loop, with its lines. Raises LoopError for what is not a loop in readable code."""
    if loop.number not in loop.outline.headers.values():
        raise LoopError("fork: the steps are calls of a function, which cannot be continued")
    text = "\n".join(lines) + "\n"
    indented = text[:1].isspace()
    try:
        [node] = parsed(f"if True:\n{text}" if indented else text).body
    except (SyntaxError, ValueError):
        raise LoopError("fork: the source of the loop is no longer available") from None
    node = node.body[0] if indented and isinstance(node, ast.If) else node
    return ast.increment_lineno(node, loop.text.first - getattr(node, "lineno", 0))


REFUSED: dict[type, str] = {
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Await: "await",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Nonlocal: "nonlocal",
    ast.Global: "global",
}


def _check_syntax(loop: ast.stmt) -> None:
    for node in outside_of_functions(loop):
        words = REFUSED.get(type(node))
        is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
        if is_super and not getattr(node, "args", None):
            words = "super()"
        if isinstance(node, ast.comprehension) and node.is_async:
            words = "async for"
        if words is not None:
            line = getattr(node, "lineno", loop.lineno)
            raise LoopError(f"fork: a loop with `{words}` cannot be continued", got=f"line {line}")


def _words(loop: ast.AST) -> set[str]:
    """All names in a loop; a fork does not evaluate the iterable."""
    parts = [part for part in ast.iter_child_nodes(loop) if part is not getattr(loop, "iter", None)]
    return set[str]().union(*map(_words_in, parts))


def _words_in(part: ast.AST) -> set[str]:
    words: set[str] = set()
    for node in ast.walk(part):
        for field in ("id", "name", "rest"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                words.add(word)
        if isinstance(node, ast.alias):
            words.add(node.asname or node.name.partition(".")[0])
    return words


def _computes_gradients(loop: ast.AST) -> bool:
    """Whether a loop names a function that computes gradients."""
    return any("backward" in word or word.endswith("grad") for word in _all_words(loop) - {"no_grad", "zero_grad"})


def _all_words(loop: ast.AST) -> set[str]:
    """The names of variables and attributes in a loop."""
    return {
        word for node in ast.walk(loop) for word in (getattr(node, "attr", None), getattr(node, "id", None)) if word
    }


def _stored(node: ast.AST) -> set[str]:
    """The variables that a loop assigns."""
    stored: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            stored |= {part.target.id for part in ast.walk(child) if isinstance(part, ast.NamedExpr)}
            continue
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            stored.add(child.id)
        elif isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            stored |= {name} if (name := getattr(child, "name", None)) else set()
        elif (name := assigned_by(child)) is not None:
            stored.add(name)
        elif isinstance(child, ast.alias):
            stored.add(child.asname or child.name.partition(".")[0])
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            stored |= _stored(child)
    return stored


def _target_names(loop: object) -> set[str]:
    """The variables that the header of a `for` loop assigns."""
    target = getattr(loop, "target", None)
    return set() if target is None else {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _names(node: ast.AST, loop: Iterations, step: int) -> tuple[set[str], dict[str, Entry]]:
    """The variables that the fork has for itself, and those of the module among them."""
    code, around = loop.code, loop.around
    assert around is not None
    words, stored, variables = _words(node), _stored(node), loop.before(step)
    of_module: dict[str, Entry] = {}
    if code.co_name == "<module>":
        names = {name for name, entry in variables.items() if not _is_constant(entry.value)} & words | stored
        for name in words - names:
            _check_reads(name, around.names.get(name), stored, set())
        return names, of_module
    local = set[str]().union(*map(local_names, loop.codes))
    if written := sorted(stored - local):
        raise LoopError(f"fork: `{written[0]}` is a variable of the module, which the loop assigns")
    if written := sorted(stored & {*loop.codes[0].co_freevars}):
        raise LoopError(f"fork: `{written[0]}` is a variable of the function around, which the loop assigns (nonlocal)")
    for name, value in around.outside.items():
        if name in words and name not in local:
            if name in around.changed and step:
                raise LoopError(f"fork: `{name}` of the module changes in the loop, and its values are not kept")
            of_module[name] = Entry(name, 0, value)
    return words & local | {*of_module}, of_module


def _is_constant(value: object) -> bool:
    """Whether it is a function, class or module, which stays as it is."""
    return isinstance(value, Kept) and (
        isinstance(value.value, type)
        or (isinstance(value.value, Opaque) and role_of(value.value.type) in (CONSTANT, MODULE))
    )


def _check_reads(name: str, value: object, stored: set[str], seen: set[int]) -> None:
    """Raises LoopError for a function that reads a variable of the module that the loop assigns."""
    if type(value) is not FunctionType or id(value) in seen:
        return
    seen.add(id(value))
    for word in words_of(value.__code__):
        if word in stored:
            raise LoopError(f"fork: `{name}` reads `{word}` of the module, which the loop assigns")
        _check_reads(name, value.__globals__.get(word), stored, seen)


# -- values


def _changing(loop: Iterations) -> set[int]:
    """The identities of the objects that have several states."""
    states: dict[int, set[int]] = {}
    for number in range(len(loop.starts)):
        for state in loop.moments[number].objects.values():
            states.setdefault(state.identity, set()).add(id(state))
    return {identity for identity, versions in states.items() if len(versions) > 1}


def _items(node: ast.For, loop: Iterations, step: int) -> Iterator[dict[str, Entry]]:
    """What the header assigned, from an iteration on."""
    for part in ast.walk(node.target):
        if isinstance(part, ast.Attribute | ast.Subscript):
            raise LoopError(f"fork: the header assigns `{ast.unparse(part)}`, whose values are not kept")
    names = _target_names(node)
    reassigned = loop.text.short and any(
        isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id in names
        for statement in node.body
        for part in ast.walk(statement)
    )
    for number in range(step, len(loop.starts)):
        targets = loop.targets(number)
        if names != {*targets} or reassigned:
            raise LoopError(f"fork: the item of step {number} is not kept")
        for name, entry in targets.items():
            if (reason := reason_lost(entry, {} if number else loop.inputs)) is not None:
                raise LoopError(f"fork: `{name}` of step {number} cannot be had again: {reason}")
        yield targets


def _source(node: ast.AST, loop: Iterations, step: int, rebuilder: Rebuilder) -> Iterator[object]:
    """The iterator of the fork from which both the header and other lines take items; an empty one if there is none."""
    part = getattr(node, "iter", None)
    while isinstance(part, ast.Call) and part.args and ast.unparse(part.func).endswith(("steps", "enumerate")):
        part = part.args[0]
    if isinstance(part, ast.Name) and part.id in {*_words(node), *loop.codes[0].co_cellvars} - _stored(node):
        entry = loop.before(step).get(part.id)
        value = None if entry is None else rebuilder.copy_of(entry.kept)
        if isinstance(value, Iterator):
            return value
    return iter(())


class _Items:
    """The items of the iterations of a fork, each with the random numbers of its iteration; each but the first is also
    taken from `source`.
    """

    def __init__(
        self,
        loop: Iterations,
        step: int,
        items: list[dict[str, Entry]],
        rebuilder: Rebuilder,
        around: LoopContext | None,
        clock: _Clock,
        source: Iterator[object],
    ):
        self._loop, self._step, self._items, self._rebuilder, self._around = loop, step, items, rebuilder, around
        self._clock, self._source = clock, source
        self.target: ast.expr | None = None

    def __iter__(self) -> Iterator[object]:
        for number, entries in enumerate(self._items, self._step):
            if number > self._step and not self._clock(True):
                return
            if number > self._step:
                next(self._source, None)
            moment = self._loop.moments[number]
            inputs = {} if number else self._loop.inputs
            maker = self._rebuilder
            values = Rebuilder(moment.objects, maker.changing, {}, ().__contains__, inputs, maker).values(entries)
            if self._around is not None:
                set_numbers(moment.numbers, self._around)
            yield _item(self.target, values)


def _item(target: Any, values: Mapping[str, object]) -> Any:
    """An item that the target of a loop takes apart into these values."""
    if isinstance(target, ast.Name):
        return values[target.id]
    parts: list[object] = []
    for part in target.elts:
        if isinstance(part, ast.Starred):
            parts += _item(part.value, values)
        else:
            parts.append(_item(part, values))
    return tuple(parts)


class _Clock:
    """Lets a loop go on for a time, if it has an end; raises LoopError for too many iterations.

    has_stopped: whether the time is over.
    """

    def __init__(self, limit: int, end: float | None):
        self._left, self._limit, self._end = limit, limit, end
        self.has_stopped = False

    def __call__(self, test: object) -> object:
        """The test of a `while` loop, as it is, or false."""
        self._left -= 1
        if self._left < 0:
            raise LoopError(f"the fork has not ended after {self._limit} steps")
        self.has_stopped = self._end is not None and self._left < self._limit - 1 and time.monotonic() > self._end
        return False if self.has_stopped else test


def _edited(edits: Mapping[str, object], values: Mapping[str, object], targets: set[str]) -> dict[str, object]:
    """The new values of variables."""
    for name in edits:
        if name in targets:
            raise LoopError(f"fork: the header of the loop assigns `{name}` anew", expected=", ".join(values))
        if name not in values:
            hint = did_you_mean(name, list(values), most=2, cutoff=0.5)
            raise LoopError(f"fork: there is no variable {name!r}", expected=", ".join(values), hint=hint)
    return {name: edited_value(name, values[name], value) for name, value in edits.items()}


def _attributes(
    loop: Iterations, step: int, values: Mapping[str, object], rebuilder: Rebuilder
) -> dict[str, tuple[object, str, object]]:
    """The attributes of modules that the loop changes: the module, the name, and the value that it had."""
    variables, attributes = loop.before(step), {}
    for state in loop.moments[step].modules.values():
        owner, table = state.owner.original, state.kept
        if table is None:
            raise LoopError(f"fork: the attributes of the {state.owner.value.kind} are no longer kept")
        entries = {name: Entry(name, 0, item) for name, item in zip(table.value.keys, table.value.items, strict=True)}
        for name, value in rebuilder.values(entries).items() if owner is not None else ():
            attributes[f"{state.identity}.{name}"] = owner, name, value
    for text, path in loop.outline.paths.items():
        owner = values.get(path.root)
        if path.written and len(path.steps) == 1 and text in variables and role_of(type(owner)) == MODULE:
            attributes[text] = owner, text.rpartition(".")[2], rebuilder.values({text: variables[text]})[text]
    return attributes


def _notes(loop: Iterations, step: int, seed: int | None, attributes: Container[str]) -> Iterator[str]:
    around = loop.around
    assert around is not None
    changed = _changed_modules(around)
    if any(module not in around.held or weights_of(module)[1] != weights[1] for module, weights in changed.items()):
        yield "with today's weights"
    yield from (f"with today's {name}" for name in sorted(around.stateful) if name not in attributes)
    numbers = loop.moments[step].numbers
    if seed is None and ((around.drew and step) or not numbers.torch):
        yield "with other random numbers"


def _changed_modules(around: LoopContext) -> dict[object, Weights]:
    """The modules with other weights or modes than at the time, and what they had."""
    modules = [(module(), weights) for _, module, weights in around.modules]
    return {module: weights for module, weights in modules if module is not None and weights_of(module) != weights}


# -- running


def _compiled(node: Any, original: Iterations, cells: Mapping[str, CellType]) -> FunctionType:
    """A function whose body is the loop, with the variables in `cells`."""
    loop, code, around = _Rewritten().visit(node), original.code, original.around
    assert around is not None
    loop.orelse = []  # which runs after the last iteration
    if isinstance(loop, ast.For):
        cells[ITEMS].cell_contents.target = loop.target
        loop.iter = ast.copy_location(ast.Name(ITEMS, ast.Load()), loop.iter)
    else:
        call = ast.Call(ast.Name(MORE, ast.Load()), [loop.test], [])
        loop.test = ast.copy_location(call, loop.test)
        ast.copy_location(call.func, loop.test)
    arguments = ast.arguments([], [], None, [], [], None, [])
    inner = ast.FunctionDef(".loop", arguments, [ast.Nonlocal([*cells]), loop], [])
    assignment = ast.Assign([ast.Name(name, ast.Store()) for name in cells], ast.Constant(None))
    outer: ast.stmt = ast.FunctionDef("around", arguments, [assignment, inner], [])
    owner = code.co_qualname.split(".")[-2:-1]
    if owner and owner != ["<locals>"]:  # private names have that of the class in front
        outer = ast.ClassDef(owner[0], [], [], [outer], [])
    for new in ast.walk(outer):
        if new is not loop and not hasattr(new, "lineno") and "lineno" in new._attributes:
            line = loop.lineno - 1  # so that the loop's line begins
            vars(new).update(lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)
    flags = code.co_flags & FUTURE
    module = compile(ast.Module([outer], []), code.co_filename, "exec", flags, dont_inherit=True)
    body = next(part for part in codes_in(module) if ITEMS in part.co_freevars)
    body = body.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    read_again(body, loop, original.outline, original.number)
    return FunctionType(body, around.names, code.co_name, None, tuple(cells[name] for name in body.co_freevars))


FUTURE = 0x01FE_0000
"""The flags of code that `from __future__` sets."""


class _Rewritten(ast.NodeTransformer):
    """Writes `x: int = 1` as `x = 1`, since variables of a function around have no annotations."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """An assignment with an annotation."""
        if not isinstance(node.target, ast.Name):
            return node
        new = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return ast.copy_location(new, node)

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        """Functions stay as they are."""
        return node

    visit_ClassDef = visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef


def _run(
    function: FunctionType, loop: Iterations, step: int, seed: int | None
) -> tuple[Iterations | None, BaseException | None]:
    """Runs the loop, and returns what was recorded, and the error that ended it."""
    around, client, recording = loop.around, _Client(function.__code__, loop.number), recording_here()
    assert around is not None
    backend = tensor_backend()
    recording.problem, recording.stale = None, _stale(loop, step)
    try:
        recording.add(client)
    except Busy as error:
        raise LoopError(f"fork: nothing can be recorded, because {error}") from None
    problem: BaseException | None = None
    try:
        with backend.modes(around.modes), OwnNumbers(), contextlib.redirect_stdout(io.StringIO()):
            set_numbers(loop.moments[step].numbers, around, seed)
            try:
                function()
            except BaseException as error:
                problem = error
    finally:
        recording.stale = frozenset()
        recording.remove(client)
    if client.loop is None and recording.problem is not None:
        words = f"{type(recording.problem).__name__}: {recording.problem}"
        raise LoopError(f"fork: its steps could not be recorded: {words}", hint="the fork without these edits")
    return client.loop, problem


def _stale(loop: Iterations, step: int) -> frozenset[str]:
    """The attributes of items that an iteration has taken from its item, as the one before had another."""
    start, end = loop.span(step)
    header, names = loop.outline.header_of(loop.number), loop.outline.paths.keys() & loop.before(step).keys()
    uses = [use for use in loop.log.uses[start:end] if use.statement == header and use.reads]
    return frozenset(use.name for use in uses if use.name in names)


@contextlib.contextmanager
def _untouched(modules: Sequence[Any], objects: Sequence[object], weights: Copies) -> Iterator[None]:
    """Keeps attributes of objects, and gradients of modules, as they are; no optimizer may change weights.

    weights: of modules, with copies that they have inside.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def refuse(*_: object) -> None:
        raise LoopError("fork: the loop trains, and the weights of its steps are not kept", hint="run it again")

    parts = {id(part): part for module in modules for part in module.modules()}
    tables = [table for part in parts.values() for table in (part.__dict__, part._buffers)]
    tables += [vars(owner) for owner in objects if hasattr(owner, "__dict__")]
    saved = [(table, {**table}) for table in tables]
    parameters = {id(parameter): parameter for module in modules for parameter in module.parameters()}
    gradients = [(parameter, parameter.grad) for parameter in parameters.values()]
    today = [(tensor, tensor.data, copy) for reference, copy in weights if (tensor := reference()) is not None]
    hook = register_optimizer_step_pre_hook(refuse)
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        for tensor, _, copy in today:
            tensor.data = copy
        yield
    finally:
        hook.remove()
        for tensor, data, _ in today:
            tensor.data = data
        for table, entries in saved:
            for name in table.keys() - entries.keys():
                del table[name]
            table.update(entries)
        for parameter, gradient in gradients:
            parameter.grad = gradient
