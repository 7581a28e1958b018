"""The state that no line of a loop shows, at the beginning of each iteration: random generators, attributes of objects."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.plain.values import PLAIN, Kept, Opaque, drop, hold, is_same, keep, objects_in

CHUNK = 512
"""Bytes of the state of a generator that are kept once, as long as they stay the same."""
MOST_OBJECTS = 256
"""Number of objects of which the attributes are kept; of more, none are."""
MOST_ATTRIBUTES = 256
"""Number of attributes of an object that are kept; of objects with more, none are."""
CONSTANT, OBJECT, RANDOM, MODULE, LOST = "constant", "object", "random", "module", "lost"
RANDOM_TYPES = (random.Random, np.random.Generator, np.random.RandomState)
NUMPY: Any = np.random


class Numbers(NamedTuple):
    """The states of the generators that are there without a variable.

    torch: of each device, in parts. others: of Python and numpy; None where they were not looked at.
    """

    torch: tuple[tuple[bytes, ...], ...]
    others: tuple[Any, Any] | None


class State:
    """What is in an object: attributes as a `Kept`, or the state of a generator; None if it is no longer kept."""

    __slots__ = ("kept",)

    def __init__(self, kept: Any):
        self.kept = kept


class Moment(NamedTuple):
    """The beginning of an iteration: the random numbers, and the states of objects by the `id` of the `Kept`."""

    numbers: Numbers
    objects: dict[int, State]


class Hidden:
    """Takes the moments of the loops of a frame.

    code: which runs. names: of its global variables. spent: adds to the bytes that are kept.
    """

    def __init__(self, code: CodeType, names: dict[str, Any], spent: Callable[[int], None]):
        from rfnb.backend.torch.global_rng import global_generators

        self._generators, self._spent = global_generators, spent
        self._all = any(map(_draws, _words(code), (names.get(word) for word in _words(code))))
        self._numbers, self._last = Numbers((), None), ()
        self._parts: dict[int, tuple[Kept, tuple[Kept, ...]]] = {}  # by id of a value, the objects in it
        self._objects: dict[int, State] = {}
        self.states: list[State] = []  # all that need memory, the oldest first

    def moment(self, values: Iterable[Any]) -> Moment:
        """The beginning of an iteration; `values` are those that may have objects in them."""
        states = tuple(generator.get_state().numpy().tobytes() for generator in self._generators())
        if states != self._last:
            old = (*self._numbers.torch, *((),) * len(states))
            self._numbers, self._last = self._numbers._replace(torch=tuple(map(_chunks, states, old))), states
        if self._all and (others := other_numbers()) != self._numbers.others:
            self._numbers = self._numbers._replace(others=others)
        self._look(values)
        return Moment(self._numbers, self._objects)

    def _look(self, values: Iterable[Any]) -> None:
        parts, changed = {}, False
        for value in values:
            if type(value) is Kept:
                entry = self._parts.get(id(value))
                if entry is None or entry[0] is not value:
                    entry, changed = (value, tuple(part for part in objects_in(value) if _changes(part))), True
                parts[id(value)] = entry
        changed = changed or len(parts) != len(self._parts)
        self._parts = parts
        todo = [part for _, inside in parts.values() for part in inside]
        objects: dict[int, State] = {}
        seen: dict[int, State] = {}  # by id of the object
        while todo:
            part = todo.pop()
            value = part.object
            if value is None or id(part) in objects:
                continue
            state = seen.get(id(value))
            if state is None:
                if len(seen) >= MOST_OBJECTS:
                    objects = {}
                    break
                state = seen[id(value)] = self._state(part, value, self._objects.get(id(part)))
                changed = changed or state is not self._objects.get(id(part))
                if isinstance(state.kept, Kept):
                    todo += [inside for inside in objects_in(state.kept) if _changes(inside)]
            objects[id(part)] = state
        if changed or len(objects) != len(self._objects):
            self._objects = objects

    def _state(self, part: Kept, value: Any, old: State | None) -> State:
        contents = contents_of(value, part)
        if old is not None and old.kept is not None:
            if is_same_state(contents, old.kept):
                return old
        if type(contents) is not dict or len(contents) > MOST_ATTRIBUTES:
            return State(contents if type(contents) is not dict else None)
        state = State(keep(contents, before=None if old is None else old.kept))
        if old is not None and isinstance(old.kept, Kept):
            old.kept.let_go()
        self._spent(hold(state.kept))
        self.states.append(state)
        return state

    def free(self) -> int:
        """Forgets the oldest state that needs memory; how much that was."""
        state = self.states.pop(0)
        size, state.kept = drop(state.kept), None
        return size

    def end(self) -> None:
        """The outermost loop has ended: no object is kept alive."""
        for state in self.states:
            if isinstance(state.kept, Kept):
                state.kept.let_go()
        self.states, self._objects, self._parts = [], {}, {}


def contents_of(value: Any, part: Kept) -> Any:
    """What is in an object now: a dict, or something that can be compared; None if it cannot be read."""
    if part.gradient == 1:
        return {"grad": getattr(value, "grad", None)}
    role = role_of(type(value))
    if role == RANDOM:
        return random_state(value)
    if type(value) is FunctionType:
        return dict(zip(value.__code__.co_freevars, map(_content, value.__closure__ or ()), strict=True))
    return object.__getattribute__(value, "__dict__") if role == OBJECT else None


def is_same_state(contents: Any, kept: Any) -> bool:
    """Whether an object has the contents that were kept of it."""
    if not isinstance(kept, Kept):
        return type(contents) is type(kept) and bool(contents == kept)
    if type(contents) is not dict:
        return False
    parts = kept.value
    return (
        len(contents) == parts.length
        and tuple(contents) == parts.keys
        and all(map(_is_same, contents.values(), parts.items))
    )


def _is_same(value: Any, kept: Any) -> bool:
    return value is kept or is_same(value, kept)


def other_numbers() -> tuple[Any, Any]:
    """The states of the generators of Python and numpy."""
    return random.getstate(), _frozen(NUMPY.get_state(legacy=False))


def random_state(generator: Any) -> Any:
    """The state of a generator, as something that can be compared."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return _frozen(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return _frozen(generator.get_state(legacy=False))
    return generator.get_state().numpy().tobytes()


def _frozen(state: Any) -> Any:
    """A state of numpy, whose dicts and arrays become tuples and bytes."""
    if isinstance(state, dict):
        return tuple((name, _frozen(part)) for name, part in state.items())
    return (state.dtype.str, state.tobytes()) if isinstance(state, np.ndarray) else state


def thawed(state: Any) -> Any:
    """The state of numpy that was frozen."""
    if isinstance(state, tuple) and isinstance(state[0], tuple):
        return {name: thawed(part) for name, part in state}
    return np.frombuffer(state[1], state[0]).copy() if isinstance(state, tuple) else state


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _changes(part: Kept) -> bool:
    """Whether an object can change where no line shows it."""
    if part.gradient == 1:
        return True
    assert isinstance(part.value, Opaque)
    if part.value.type is FunctionType:
        return part.value.inside is not None and bool(part.value.inside.items)
    return role_of(part.value.type) in (OBJECT, RANDOM)


def role_of(kind: type) -> str:
    """What objects of a type are for a loop."""
    role = _roles.get(kind)
    if role is None:
        role = _roles[kind] = _role(kind)
    return role


_roles: dict[type, str] = {}


def _role(kind: type) -> str:
    torch = sys.modules["torch"]
    if issubclass(kind, FunctionType | BuiltinFunctionType | MethodType | ModuleType | type):
        return CONSTANT
    if issubclass(kind, torch.nn.Module):
        return MODULE
    if issubclass(kind, (torch.Generator, *RANDOM_TYPES)):
        return RANDOM
    names = {name for base in type.__dict__["__mro__"].__get__(kind) for name in type.__dict__["__dict__"].__get__(base)}
    optimizer = sys.modules.get("torch.optim.optimizer")
    if "__next__" in names or issubclass(kind, io.IOBase) or {"acquire", "release"} <= names:
        return LOST
    if optimizer is not None and issubclass(kind, optimizer.Optimizer):
        return LOST
    return OBJECT if "__dict__" in names and not issubclass(kind, Tensor | torch.Tensor) else CONSTANT


def _words(code: CodeType) -> list[str]:
    inside = [word for part in code.co_consts if isinstance(part, CodeType) for word in _words(part)]
    return [*code.co_names, *inside]


def _draws(word: str, value: Any) -> bool:
    """Whether a name, or the global variable of this name, is that of a generator of Python or numpy."""
    return "random" in word or isinstance(getattr(value, "__self__", None), random.Random | np.random.RandomState)


def _chunks(state: bytes, before: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The state of a generator in parts, of which those that did not change are the same objects."""
    parts = [state[at : at + CHUNK] for at in range(0, len(state), CHUNK)]
    old = [*before, *[b""] * len(parts)]
    return tuple(was if was == part else part for part, was in zip(parts, old, strict=False))

