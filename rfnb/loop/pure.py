"""`rf.pure` marks functions whose results depend on their arguments alone; a loop keeps their step for its next calls.

`KeptStep` is a traced step that runs on other states and frames. `References` are what functions refer to: if something
else stands there in a later call, the step is traced again.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import unwrap
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeVar

from rfnb.backend.base.tape import External, current_tape
from rfnb.core.dims.binding import bind_again
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.backends import selected
from rfnb.core.ground.defaults import get_default_device, get_default_float_dtype, get_default_int_dtype
from rfnb.core.ground.nested import leaves, map_leaves, named_leaves
from rfnb.core.ground.scope import current_meter
from rfnb.core.ground.source import warn, words_of
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import ParameterError
from rfnb.loop.body.body import GlobalGenerators
from rfnb.loop.loop import Loop, StateHolder
from rfnb.loop.program import Program, with_attributes
from rfnb.loop.run_body import BodyRun
from rfnb.loop.step import TracedStep, Unstacked, has_steps
from rfnb.trace.record.traced import Pending
from rfnb.trace.run import session

Given = TypeVar("Given", bound=Callable[..., Any])
MOST_STEPS = 16
"""Largest number of steps that are kept, with the tensors that they read."""
MOST_REFERENCES = 2000
"""Largest number of objects that functions may refer to."""


def pure(function: Given) -> Given:
    """Marks a function, or a module: its result depends on its arguments alone, and it changes nothing else.

    A loop of `rf.scan` or `rf.while_loop` whose functions are all marked runs their Python code the first two times for
    inputs of one structure, and then steps that it has kept. Modules and tensors that the functions refer to may be
    trained; if others stand in their place, or other numbers, the functions run again. So they do in each call if they
    draw random numbers or write into tensors, with a warning. Returns the function.

    >>> time = rf.Dim(4, name="time")
    >>> @rf.pure
    ... def step(x, total):
    ...     return total + x, total + x
    >>> zero = rf.zeros([], dtype="int32")
    >>> sums, total, _ = rf.scan(spatial_dim=time, xs=rf.range_over_dim(time), initial=zero, body=step)
    >>> sums.raw_tensor.tolist(), total.item()
    ([0, 1, 3, 6], 6)

    In net dicts the mark has no effect.

    Raises ParameterError if it cannot be marked.
    """
    try:
        function.is_pure = True  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        fault = "pure: this cannot be marked"
        raise ParameterError(fault, got=repr(function)[:60], expected="a function that is written with def") from None
    return function


class References:
    """What functions refer to: their closures, global names and default values, and what is in these.

    Of objects that are neither containers nor modules, it is the attributes whose names occur in the functions.

    Args:
        functions: some of them, made anew for each call, may only have the same code.

    raws: the tensors among it. complete: whether it is all. has_own_code: whether some code is not a library's.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]]):
        self.has_own_code = False
        self._owners: list[tuple[int, object]] = []  # functions that are methods or modules, and what they belong to
        self._cells: list[tuple[int, int, object]] = []  # function, number of the cell, content
        self._names: list[tuple[Mapping[Any, object], Hashable, object]] = []
        self._others: list[tuple[CellType, object]] = []  # cells of other functions
        self._lists: list[tuple[list[object], tuple[object, ...]]] = []
        self._tensors: list[tuple[Tensor, object]] = []
        self.raws: dict[int, RawTensor] = {}
        codes = filter(None, map(_code, functions))
        self._words = {word for code in codes for word in words_of(code)}
        count = -1
        while count < len(self._words):  # methods of objects add words
            count, self._seen = len(self._words), dict[int, object]()
            for part in (self._owners, self._cells, self._names, self._others, self._lists, self._tensors, self.raws):
                part.clear()
            for number, function in enumerate(functions):
                self._start(number, function)
        self.complete = len(self._seen) < MOST_REFERENCES

    def _start(self, number: int, function: Callable[..., object]) -> None:
        if type(function) is FunctionType:
            for place, cell in enumerate(function.__closure__ or ()):
                self._cells.append((number, place, _content(cell)))
                self._visit(_content(cell))
            self._visit_globals(function)
        else:
            self._owners.append((number, _owner(function)))
            self._visit(function)

    def _visit_globals(self, function: FunctionType) -> None:
        for name in {*words_of(function.__code__)}:
            if name in function.__globals__:
                self._name(function.__globals__, name)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(default)

    def _name(self, names: Mapping[Any, object], name: Hashable) -> None:
        self._names.append((names, name, names[name]))
        self._visit(names[name])

    def _visit(self, value: object) -> None:
        if isinstance(value, MethodType):  # each access makes another
            self._visit(value.__func__)
            value = value.__self__
        if id(value) in self._seen or len(self._seen) >= MOST_REFERENCES or type(value) in _PLAIN:
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            raw = value._raw
            self._tensors.append((value, raw))
            self.raws[id(raw)] = raw
        elif isinstance(value, FunctionType):
            if not _is_library(value.__module__):
                self.has_own_code = True
                self._words.update(words_of(value.__code__))
                for cell in value.__closure__ or ():
                    self._others.append((cell, _content(cell)))
                    self._visit(_content(cell))
                self._visit_globals(value)
        elif isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._visit(part)
        elif isinstance(value, dict):
            for key in [*value]:
                self._name(value, key)
        elif isinstance(value, list | tuple | set | frozenset):
            if isinstance(value, list):
                self._lists.append((value, tuple(value)))
            for part in value:
                self._visit(part)
        elif isinstance(value, selected().RawTensorType):
            self.raws[id(value)] = value
        elif not isinstance(value, type | Dim) and type(getattr(value, "__dict__", None)) is dict:
            self._visit_object(value)

    def _visit_object(self, value: Any) -> None:
        is_module = hasattr(value, "named_parameters")
        if is_module and (getattr(value, "_forward_hooks", None) or "_parametrized_names" in vars(type(value))):
            self.has_own_code = True
        if type(value).__module__.partition(".")[0] in LIBRARIES and not is_module:
            return
        for name in [*vars(value)]:
            if is_module or name in self._words:
                self._name(vars(value), name)
        for cls in type(value).__mro__:
            if not _is_library(cls.__module__):
                self.has_own_code = True
                for name in vars(cls):
                    if is_module or name in self._words:
                        self._name(vars(cls), name)

    def same(self, functions: Sequence[Callable[..., object]]) -> bool:
        """Whether functions with the same code refer to the same."""
        if any(_owner(functions[number]) is not owner for number, owner in self._owners):
            return False
        for number, place, content in self._cells:
            closure: Any = functions[number].__closure__
            if _content(closure[place]) is not content:
                return False
        missing = self
        for names, name, value in self._names:
            if names.get(name, missing) is not value:
                return False
        if any(_content(cell) is not content for cell, content in self._others):
            return False
        for tensor, raw in self._tensors:
            if tensor._raw is not raw:
                return False
        return all(len(a) == len(b) and all(map(_is, a, b)) for a, b in self._lists)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The identities of all objects."""
        return (*self._seen, *map(id, self.raws.values()))


def _is(a: object, b: object) -> bool:
    return a is b


_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})


LIBRARIES = ("rfnb", "torch", "numpy")


def _is_library(module: str | None) -> bool:
    first = (module or "").partition(".")[0]
    return first in LIBRARIES or (first in sys.stdlib_module_names and first != "__main__")


def _content(cell: CellType) -> object:
    """What is in a cell; the cell itself if that is nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _owner(function: Callable[..., object]) -> object:
    """The object of a method; a module or another callable itself."""
    return getattr(function, "__self__", function)


def _code(function: Callable[..., object]) -> CodeType | None:
    """The code of a function, or of a module; None for others."""
    called = unwrap(getattr(function, "__func__", function))
    code = getattr(called, "__code__", None) or getattr(unwrap(type(called).__call__), "__code__", None)
    return code if isinstance(code, CodeType) else None


class LoopToKeep(Loop):
    """A loop whose traced step stays usable. kept: this step and its program, once it has run."""

    is_kept = True
    kept: tuple[TracedStep, Program] | None = None

    def _run(self, step: TracedStep) -> None:
        kept = step, _fresh(step.program)
        values, step.tape.values = step.tape.values, [*step.tape.values]  # the loop adds some
        BodyRun(self, step, forgets=False).run()
        step.tape.values = values
        self.kept = kept


def _fresh(program: Program) -> Program:
    """The program, for one run, which changes it."""
    lists = {"calls": [*program.calls], "externals": [*program.externals]}
    return with_attributes(program, **lists, constants={**program.constants})


@dataclass
class KeptStep:
    """A step, without the tensors that a call of the loop gives it.

    Args:
        loop, step, program: as they were before the steps ran.
        references: of the functions.
        externals: what the steps read from outside, whether gradients flow through it, and the versions of others.
        outputs: the structure of what is stacked, with numbers of outputs.
        new: for each state, the order of its dims at the end of the step.
    """

    loop: Loop
    step: TracedStep
    program: Program
    references: References
    externals: list[tuple[RawTensor, bool, int | None]]
    outputs: Any
    new: list[Sequence[Dim] | None]

    def fits(self, functions: Sequence[Callable[..., object]]) -> bool:
        """Whether a call with this key can run the step."""
        return self.references.same(functions) and all(
            raw.requires_grad == needs and (version is None or raw._version == version)
            for raw, needs, version in self.externals
        )

    def run(self, initial: dict[str, Any], xs: object) -> tuple[Any, dict[str, Any]]:
        """The stacked outputs and the last states."""
        template, axis, states = self.step, self.step.axis, [leaf for leaf in leaves(initial) if leaf is not None]
        sources = [leaf for leaf in leaves(xs) if leaf is not None]
        loop = with_attributes(self.loop, _state=StateHolder(self.loop.name))
        loop._state._values = initial if states else {}
        if has_steps(axis):
            bind_again(axis.size.dims, axis.lengths)
        size = _size(sources, axis)
        raws, frames = iter(states), iter(sources)
        step = with_attributes(
            template,
            program=_fresh(self.program),
            carried=tuple(
                [with_attributes(c, initial=next(raws)._raw) if c.kind == "state" else c for c in template.carried]
            ),
            frames=tuple(
                [f._replace(source=next(frames)) if isinstance(f.kind, Unstacked) else f for f in template.frames]
            ),
            size=size if sources else None,
            frames_size=size,
            limit=size or template.limit,
            originals=loop._state._values,
            outputs=tuple([(traced, _pending(like)) for traced, like in template.outputs]),
            unstacked=tuple([(x, traced) for x, (_, traced) in zip(sources, template.unstacked, strict=True)]),
            recorder=with_attributes(
                template.recorder, tape=with_attributes(template.tape, values=[*template.tape.values])
            ),
        )
        step.backend.uncompiled(BodyRun(loop, step, forgets=False).run)
        stacked = map_leaves(lambda n: None if n is None else step.outputs[n][1], self.outputs)
        if not states:
            return stacked, initial
        before, order = iter(states), iter(self.new)
        return stacked, map_leaves(
            lambda leaf: None if leaf is None else _ended(leaf, next(before), next(order)), loop._state._values
        )


def _pending(like: Tensor) -> Pending:
    pending = Pending.__new__(Pending)
    pending._name, pending.sig, pending.lengths = like._name, like.sig, like.lengths
    return pending


def _ended(final: Tensor, initial: Tensor, dims: Sequence[Dim] | None) -> Tensor:
    final.lengths = initial.lengths
    return final if dims is None else final.copy_transpose(dims)


def _size(sources: Sequence[Tensor], axis: Dim) -> Size | None:
    """How many frames each sequence has; None if that is found by the loop."""
    if sources:
        return sources[0].size_of(axis)
    return axis.size if has_steps(axis) else None


class StepCache:
    """Steps of pure functions, by the code of the functions and the structure of the arguments.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int = MOST_STEPS) -> None:
        self._most = most
        self._steps: OrderedDict[Hashable, KeptStep] = OrderedDict()
        self._before: OrderedDict[Hashable, tuple[int, ...]] = OrderedDict()  # what the functions referred to
        self._refused: OrderedDict[Hashable, References] = OrderedDict()  # with them, the step could not be kept
        self._warned: set[CodeType] = set()

    def __reduce__(self) -> tuple[type[StepCache], tuple[int]]:
        """A copy has no steps."""
        return StepCache, (self._most,)

    def may_keep(self, key: Hashable, functions: Sequence[Callable[..., object]]) -> bool:
        """Whether the step for a call was not refused before."""
        refused = self._refused.get(key)
        return refused is None or not refused.same(functions)

    def find(self, key: Hashable | None, functions: Sequence[Callable[..., object] | None]) -> KeptStep | None:
        """The step for a call of a loop; key: None if none is kept."""
        step = self._steps.get(key)
        callables = [function for function in functions if function is not None]
        return step if step is not None and step.fits(callables) else None

    def wait_for(self, key: Hashable, references: References) -> bool:
        """Whether a step is worth keeping, because the functions referred to the same the last time."""
        before = self._before.get(key)
        self._add(self._before, key, references.numbers)
        return references.complete and before == references.numbers

    def add(self, key: Hashable, step: KeptStep) -> None:
        """Keeps a step; the oldest is forgotten."""
        self._add(self._steps, key, step)

    def refuse(self, key: Hashable, references: References) -> None:
        """The step cannot be kept as long as the functions refer to the same."""
        self._add(self._refused, key, references)

    def _add(self, table: OrderedDict[Hashable, Any], key: Hashable, value: object) -> None:
        table.pop(key, None)
        table[key] = value
        while len(table) > self._most:
            table.popitem(last=False)

    def warn(self, function: Callable[..., object], reason: str) -> None:
        """Tells once why the steps of a function are not kept."""
        if (code := _code(function)) is not None and code not in self._warned:
            self._warned.add(code)
            warn(f"pure: {code.co_name} runs in each call of its loop, because {reason}")


kept_steps = StepCache()


def key_of(
    functions: Sequence[Callable[..., object] | None], axis: Dim, name: str, how: Hashable, *trees: object
) -> Hashable | None:
    """What a kept step depends on besides the references of the functions; None where no step is kept: some function is
    not marked, or the loop is observed, recorded or inside of another one.

    Args:
        functions: of the loop.
        axis: of its steps.
        name: of the loop. how: other arguments of it.
        trees: structures of Tensors; of those that have the axis, its size is left open.
    """
    callables = [function for function in functions if function is not None]
    codes = [_code(function) if getattr(function, "is_pure", False) else None for function in callables]
    if None in codes:
        return None
    is_seen = active_listener() is not None or current_meter() is not None or current_tape() is not None
    if is_seen or session.is_drawing() or session.should_record(None, name) or selected().is_observed():
        return None
    named = [named_leaves(tree) for tree in trees]
    tensors = [leaf for pairs in named for _, leaf in pairs if leaf is not None]
    if any(type(leaf) is not Tensor for leaf in tensors):
        return None
    sizes = [tensor.size_of(axis) for tensor in tensors if axis in tensor.sig.index]
    if any(size.traced or size.min == 0 or not size.agrees(sizes[0]) for size in sizes):
        return None
    backend, ctx = selected(), get_run_ctx()
    modes = backend.get_modes()
    return (
        len(functions), tuple(codes), tuple([type(f) is FunctionType or id(_owner(f)) for f in callables]),
        axis, name, how, tuple([tuple([(path, leaf is None) for path, leaf in pairs]) for pairs in named]),
        tuple([_form(tensor, axis) for tensor in tensors]), has_steps(axis),
        bool(sizes) and (sizes[0].ragged, sizes[0].dims), modes["gradients"], tuple(modes["autocast"].values()),
        tuple(ctx._train_flags.items()), get_default_device(), get_default_float_dtype(), get_default_int_dtype(),
    )  # fmt: skip


def _form(tensor: Tensor, axis: Dim) -> Hashable:
    raw, place = tensor._raw, tensor.sig.index.get(axis)
    shape = tuple(raw.shape)
    shape = shape if place is None else (*shape[:place], *shape[place + 1 :])
    sizes = [(serial, size.dims, size.values.tobytes()) for serial, size in _others(tensor, axis)]
    return tensor.sig, raw.dtype, raw.device, type(raw), shape, raw.requires_grad, tensor.lengths.finite, tuple(sizes)


def _others(tensor: Tensor, axis: Dim) -> Iterator[tuple[int, Size]]:
    return ((serial, size) for serial, size in tensor.lengths.sizes.items() if serial != axis.serial)


NO_AXIS = Dim(1, name="no axis")


def loop_to_keep(keeping: Keeping | None, **options: Any) -> Loop:
    """A loop, whose step is kept if that is expected to be of use."""
    return LoopToKeep(**options) if keeping is not None and keeping.expects else Loop(**options)


class Keeping:
    """Keeps the step of a loop that is traced now, if it can be kept.

    Args:
        key: of the call. functions: of the loop.
        initial, xs: the initial values of the states, and what is unstacked.
        steps: where it is kept.
    """

    def __init__(
        self,
        key: Hashable,
        functions: Sequence[Callable[..., Any] | None],
        steps: StepCache = kept_steps,
    ):
        self.functions = [function for function in functions if function is not None]
        self._key, self._steps = key, steps
        self._promised = not all(_is_library(function.__module__) for function in self.functions)
        self.expects = False
        if steps.may_keep(key, self.functions):
            self._references = References(self.functions)
            if self._references.has_own_code and not self._promised:
                steps.refuse(key, self._references)
            else:
                self.expects = steps.wait_for(key, self._references)
        self._generators = GlobalGenerators(selected(), look=self.expects)

    def done(self, loop: Loop, stacked: object, new: object) -> None:
        """The loop has run. new: the state as the functions gave it."""
        if not isinstance(loop, LoopToKeep) or loop.kept is None:
            return
        step, program = loop.kept
        if (reason := self._reason(step, program)) is not None:
            if self._promised:
                self._steps.warn(self.functions[-1], reason)
            else:
                self._steps.refuse(self._key, self._references)
            step.recorder.forget()
            return
        step.recorder.let_go()
        place = {id(pending): number for number, (_, pending) in enumerate(step.outputs)}
        outputs = map_leaves(lambda leaf: None if leaf is None else place[id(leaf)], stacked)
        template = with_attributes(loop, _state=StateHolder(loop.name), kept=None, _explanation_data=None)
        template.__class__ = Loop  # type: ignore[assignment]
        closed = replace(
            step,
            carried=tuple(replace(c, initial=None) if c.kind == "state" else c for c in step.carried),
            frames=tuple(f._replace(source=None) if isinstance(f.kind, Unstacked) else f for f in step.frames),
            outputs=tuple((traced, _pending(like)) for traced, like in step.outputs),
            unstacked=tuple((None, traced) for _, traced in step.unstacked),  # type: ignore[misc]
            originals={}, assigned={}, reads=None,
        )  # fmt: skip
        states = [leaf for leaf in leaves(new) if leaf is not None]
        dims: list[Sequence[Dim] | None] = [leaf.dims if isinstance(leaf, Tensor) else None for leaf in states]
        folded = any(type(read) is External for call in program.calls if set(call.made) & program.constants.keys()
                     for read in call.reads)  # fmt: skip
        version = step.backend.counted_version_raw
        externals = [(raw, raw.requires_grad, version(raw) if folded else None) for raw in program.externals]
        self._steps.add(self._key, KeptStep(template, closed, program, self._references, externals, outputs, dims))

    def _reason(self, step: TracedStep, program: Program) -> str | None:
        """Why the step cannot be kept."""
        tape = step.tape
        if tape.streams or self._generators.used():
            return "it draws random numbers"
        if tape._before or any(call.changes for call in program.calls):
            return "it writes into tensors"
        if any(call.effect for call in program.calls) or step.watchers or step.pauses:
            return "it has effects, such as prints, or calls that are not ops"
        if tape.grown or step.hypotheses is not None:
            return "its states grow, or it is a search"
        if any(id(raw) not in self._references.raws for raw in program.externals):
            return "it reads a tensor that neither its arguments nor its modules have"
        return None
