"""The state that no line of a loop shows, at the beginning of each iteration: random generators, objects."""

from __future__ import annotations

import dataclasses
import io
import random
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.plain.attributes import MISSING
from rfnb.trace.plain.generators import NUMPY, frozen, other_numbers, thawed, torch_memory
from rfnb.trace.plain.values import (
    LARGE,
    MEDIUM,
    PLAIN,
    SEQUENCES,
    SMALL,
    Kept,
    Opaque,
    drop,
    has_objects,
    hold,
    is_same,
    keep,
    objects_in,
    tensor_backend,
    tensors_in,
)

CHUNK = 512
"""Bytes of the state of a generator that are kept once, as long as they stay the same."""
CHUNKS, OTHERS, STATE, REFERENCE = 1024, 28_000, 1024, 64
"""Bytes of a state of a generator of torch, of those of Python and numpy, of an object, and of one of its references at
a moment."""
MOST_OBJECTS = 256
"""Number of objects of which the attributes are kept; of more, none are."""
MOST_ATTRIBUTES = 256
"""Number of attributes of an object that are kept; of objects with more, none are."""
VALUE, CONSTANT, OBJECT, RANDOM, MODULE, LOST = "value", "constant", "object", "random", "module", "lost"
VALUES = (*PLAIN, *SEQUENCES, dict, Tensor, np.ndarray, np.generic)
SHOWING = ("IPython.", "ipykernel.", "ipywidgets.", "matplotlib.", "rfnb.display.", "tqdm.", "traitlets.")
"""Packages whose objects show what a loop does, and are no part of it: they stay as they are."""
RANDOM_TYPES = (random.Random, np.random.Generator, np.random.RandomState)


class Numbers(NamedTuple):
    """The states of the generators that are there without a variable.

    torch: of each device, in parts; empty where they cannot be read. others: of Python and numpy; None where nobody
    looked.
    """

    torch: tuple[tuple[bytes, ...], ...]
    others: tuple[Any, Any] | None


class ObjectState:
    """What is in an object: attributes as a `Kept`, or the state of a generator; None if it is no longer kept.

    identity: the `id` that the object had. inside: the objects in it.
    """

    __slots__ = ("identity", "inside", "kept")

    def __init__(self, identity: int, kept: Any):
        self.identity, self.kept = identity, kept
        self.inside = tuple(filter(_changes, objects_in(kept))) if isinstance(kept, Kept) else ()


class Moment(NamedTuple):
    """The beginning of an iteration: the random numbers, and the states of objects by the `id` of the `Kept`."""

    numbers: Numbers
    objects: dict[int, ObjectState]


NO_MOMENT = Moment(Numbers((), None), {})
"""Stands for the beginning of an iteration that was forgotten."""

Copies = list[tuple[Any, Any]]
"""References to tensors of a module, each with a copy."""


class Around:
    """What a loop begins with besides its variables.

    Args:
        names: the variables of its module.
        modes: of the backend, such as whether gradients are recorded.
    """

    def __init__(self, names: dict[str, Any], modes: dict[str, Any]):
        self.names, self.modes = names, modes
        self.outside: dict[str, Kept] = {}  # the variables of the module that it reads
        self.modules: list[tuple[str, Any, Any]] = []  # a variable, a reference to a module in it, and its weights
        self.others: Any = None  # the generators of Python and numpy, where steps do not have them
        self.trained: list[str] = []  # the variables with modules that the loop has changed
        self.held: dict[Any, Copies] = {}  # small modules that the loop has not changed, so that it can be continued
        self.sizes: dict[Any, int] = {}  # their memory, with copies of their weights
        self.stateful: set[str] = set()  # the attributes of modules that have changed
        self.drew = False  # whether it drew from these generators
        self.changed: set[str] = set()  # the variables of the module that have changed


class Hidden:
    """Takes the moments of the loops of a frame.

    code: which runs. names: its global variables. hides: whether it changes tensors where nothing counts that. spent:
    adds to the bytes that are kept.
    """

    def __init__(self, code: CodeType, names: dict[str, Any], hides: bool, spent: Callable[[int], None]):
        from rfnb.backend.torch.random import global_generators

        self._generators, self._spent, self._names, self._hides = global_generators, spent, names, hides
        self._around: Around | None = None
        self._attributes: list[tuple[str, Any, dict[str, Any]]] = []  # of the modules, before the loop
        self._all = any(map(_draws, words := _words_of(code), map(names.get, words)))
        self._numbers, self._last = Numbers((), None), [b""]
        self._place, self._memory = torch_memory(), None
        self._parts: dict[int, tuple[Kept, tuple[Kept, ...]]] = {}  # by id of a value, the objects in it
        self._objects: dict[int, ObjectState] = {}
        self._too_many: set[int] = set()  # by id, values that lead to more objects than are kept
        self._values: list[Kept] = []
        self.states: list[ObjectState] = []  # all that need memory, the oldest first
        self.bytes = 0  # of the moments that were not counted yet, without what states hold

    def numbers(self) -> Numbers:
        """The states of the generators now."""
        global _newest
        generators = self._generators()
        memory: Any = None if self._place is None or len(generators) > 1 else self._place.raw
        if memory is None or memory != self._memory:
            newest = _newest
            if memory is None or memory != newest[0]:
                try:
                    states = [generator.get_state().numpy().tobytes() for generator in generators]
                except RuntimeError:  # inside of a transform
                    return Numbers((), None)
                old = (*self._numbers.torch, *((),) * len(states))
                newest = _newest = memory, states, tuple(map(_chunks, states, old))
            _, states, parts = newest
            if states != self._last:
                self._numbers, self._last = self._numbers._replace(torch=parts), states
                self.bytes += CHUNKS * len(states)
            self._memory = memory
        if self._all and (others := other_numbers()) != self._numbers.others:
            self._numbers = self._numbers._replace(others=others)
            self.bytes += OTHERS
        return self._numbers

    def around(self, initial: Mapping[str, Any], names: Iterable[str]) -> Around:
        """What a loop begins with besides its variables. initial: these. names: of all that it uses."""
        local = initial.keys()
        outside = {name: self._names[name] for name in names if name in self._names and name not in local}
        self._around = Around(self._names, tensor_backend().get_modes())
        for name, value in outside.items():
            large = type(value) is np.ndarray and value.nbytes > SMALL
            if role_of(type(value)) in (VALUE, OBJECT, RANDOM) and not large:
                self._around.outside[name] = keep(value)
        for name, value in chain(initial.items(), outside.items()):
            for module in _modules(value):
                self._around.modules.append((name, weakref.ref(module), weights_of(module)))
                self._attributes += attributes_of(name, module)
        self._around.others = None if self._all else other_numbers()
        return self._around

    def objects(self, values: list[Kept]) -> dict[int, ObjectState]:
        """The states of the objects in some values; the same list as the last time has the same objects."""
        if self._objects or values is not self._values:
            self._look(values)
        return self._objects

    def _look(self, values: list[Kept]) -> None:
        self._values, parts = values, {}
        for value in values:
            if not has_objects(value):
                continue
            entry = self._parts.get(id(value))
            if entry is None:
                entry = value, tuple(part for part in objects_in(value) if _changes(part))
            parts[id(value)] = entry
        self._parts = parts
        if self._too_many and self._too_many <= parts.keys():
            return
        todo = [part for _, members in parts.values() for part in members]
        objects: dict[int, ObjectState] = {}
        states: dict[int, ObjectState] = {}  # by id of the object
        self._too_many, changed = set(), False
        while todo:
            part = todo.pop()
            value = part.object
            if value is None or id(part) in objects:
                continue
            state = states.get(id(value))
            if state is None:
                if len(states) >= MOST_OBJECTS:
                    objects, self._too_many = {}, {number for number, (_, members) in parts.items() if members}
                    break
                state = states[id(value)] = self._state(part, value, self._objects.get(id(part)))
                changed = changed or state is not self._objects.get(id(part))
                todo += state.inside
            objects[id(part)] = state
        if changed or len(objects) != len(self._objects):
            self._objects = objects
            self.bytes += REFERENCE * len(objects)

    def _state(self, part: Kept, value: Any, old: ObjectState | None) -> ObjectState:
        contents = contents_of(value, part)
        if old is not None and old.kept is not None and is_same_state(contents, old.kept):
            return old
        if type(contents) is not dict or len(contents) > MOST_ATTRIBUTES:
            return ObjectState(id(value), contents if type(contents) is not dict else None)
        before = None if old is None else old.kept
        copied = self._hides or part.gradient == 1 or any(tensor.changed() for tensor in tensors_in(before))
        state = ObjectState(id(value), keep(contents, copied, before))
        if old is not None and isinstance(old.kept, Kept):
            old.kept.let_go()
        self._spent(hold(state.kept))
        self.states.append(state)
        self.bytes += STATE
        return state

    def forget(self, moment: Moment) -> None:
        """Keeps no states that were there only before this moment."""
        ids = set(map(id, moment.objects.values()))
        last = max((at for at, state in enumerate(self.states) if id(state) in ids), default=0)
        old, self.states = self.states[:last], self.states[last:]
        for state in old:
            if id(state) not in ids:
                self._spent(-drop(state.kept))
        self.states[:0] = [state for state in old if id(state) in ids]

    def settle(self) -> None:
        """Compares what was assumed to have stayed as it was."""
        for state in self._objects.values():
            for part in state.kept.value.items if isinstance(state.kept, Kept) else ():
                if isinstance(part, Kept):
                    part.settle()

    def free(self) -> int:
        """Forgets the oldest state that needs memory; how much that was."""
        state = self.states.pop(0)
        size, state.kept = drop(state.kept), None
        return size

    def end(self, others: Iterable[Any]) -> None:
        """The outermost loop has ended: no object is kept alive, but small modules. others: all but raw tensors."""
        around, self._around = self._around, None
        if around is not None:
            around.trained = [
                name for name, module, weights in around.modules if module() and weights_of(module())[0] != weights[0]
            ]
            modules: dict[int, Any] = {}  # modules that lines of the loop assigned
            for value in others:
                if type(value) is Kept and type(value.value) is Opaque and role_of(value.value.type) == MODULE:
                    modules[id(value.object)] = value.object
            for module in modules.values():
                if module is not None and all(reference() is not module for _, reference, _ in around.modules):
                    around.modules.append(("", weakref.ref(module), weights_of(module)))
            for name, module, _ in around.modules:
                if name not in around.trained and module() is not None and _bytes_of(module()) <= LARGE:
                    copies = around.held[module()] = copies_of(module())
                    around.sizes[id(copies)] = 2 * _bytes_of(module())
            for name, part, before in self._attributes:
                now = _attributes(part)
                changed = [key for key in now | before if now.get(key, MISSING) is not before.get(key, MISSING)]
                around.stateful.update(f"{name}.{key}" for key in changed)
            around.drew = around.others is not None and around.others != other_numbers()
            for name, original in around.outside.items():
                if not is_same(around.names.get(name), original):
                    around.changed.add(name)
                original.let_go()
        for state in self.states:
            if isinstance(state.kept, Kept):
                state.kept.let_go()
        self.states, self._objects, self._parts, self._values, self._attributes = [], {}, {}, [], []
        self._too_many = set()


def attributes_of(name: str, module: Any) -> list[tuple[str, Any, dict[str, Any]]]:
    """The modules in a module, each with its name and what it has."""
    kind = sys.modules["torch"].nn.Module
    return [
        (".".join(filter(None, (name, path))), part, _attributes(part)) for path, part in kind.named_modules(module)
    ]


def _attributes(module: Any) -> dict[str, Any]:
    return {**module.__dict__, **module.__dict__.get("_buffers", {})}


def copies_of(module: Any) -> Copies:
    """The parameters and buffers of a module, each with a copy of its values; the same as last time, if they are."""
    weights = weights_of(module)[0]
    old, copies = _copies.get(module, (None, []))
    if old != weights:
        kind = sys.modules["torch"].nn.Module
        copies = [(weakref.ref(t), t.detach().clone()) for t in (*kind.parameters(module), *kind.buffers(module))]
        _copies[module] = weights, copies
    return copies


_copies: weakref.WeakKeyDictionary[Any, tuple[Any, Copies]] = weakref.WeakKeyDictionary()


def weights_of(module: Any) -> Any:
    """The memory and the versions of the parameters and buffers of a module, and its modes."""
    kind = sys.modules["torch"].nn.Module
    tensors = [*kind.parameters(module), *kind.buffers(module)]
    return [(_address(tensor), tensor._version) for tensor in tensors], [part.training for part in kind.modules(module)]


def _bytes_of(module: Any) -> int:
    kind = sys.modules["torch"].nn.Module
    return sum(tensor.nbytes for tensor in (*kind.parameters(module), *kind.buffers(module)))


def _address(tensor: Any) -> int:
    try:
        return int(tensor.data_ptr())
    except (RuntimeError, ValueError):  # of tensors that have no memory of their own, or not yet
        return id(tensor)


def _modules(value: Any) -> Iterator[Any]:
    """The modules in a value."""
    if not isinstance(value, Kept):
        yield from [value] if role_of(type(value)) == MODULE else []
        return
    for part in objects_in(value):
        if isinstance(part.value, Opaque) and role_of(part.value.type) == MODULE:
            yield part.object


def set_numbers(numbers: Numbers, around: Around, seed: int | None = None) -> None:
    """Gives the generators the states that they had, or seeds them."""
    import torch

    from rfnb.backend.torch.random import global_generators

    if seed is not None:
        for generator in global_generators():
            generator.manual_seed(seed)
        random.seed(seed)
        NUMPY.seed(seed % 2**32)
        return
    for generator, chunks in zip(global_generators(), numbers.torch, strict=False):
        generator.set_state(torch.frombuffer(bytearray(b"".join(chunks)), dtype=torch.uint8))
    others = numbers.others or around.others
    if others is not None:
        random.setstate(others[0])
        state = thawed(others[1])
        if NUMPY.get_state(legacy=False)["bit_generator"] != state["bit_generator"]:
            NUMPY.set_bit_generator(getattr(NUMPY, state["bit_generator"])())
        NUMPY.set_state(state)


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
    return value is kept or is_same(value, kept, MEDIUM)


def random_state(generator: Any) -> Any:
    """The state of a generator, as something that can be compared."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return frozen(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return frozen(generator.get_state(legacy=False))
    return generator.get_state().numpy().tobytes()


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
    if issubclass(kind, (torch.Tensor, *VALUES)) or dataclasses.is_dataclass(kind):
        return VALUE
    insides = [type.__dict__["__dict__"].__get__(base) for base in type.__dict__["__mro__"].__get__(kind)]
    names = {name for namespace in insides for name in namespace}
    if f"{insides[0].get('__module__')}.".startswith(SHOWING):
        return CONSTANT
    optimizer = sys.modules.get("torch.optim.optimizer")
    if "__next__" in names or issubclass(kind, io.IOBase) or {"acquire", "release"} <= names:
        return LOST
    if optimizer is not None and issubclass(kind, optimizer.Optimizer):
        return LOST
    table = next((namespace["__dict__"] for namespace in insides if "__dict__" in namespace), None)
    return OBJECT if type(table) is GetSetDescriptorType else CONSTANT


def _words_of(code: CodeType) -> list[str]:
    """The names that some code has, and the functions in it."""
    words = _words_by_code.get(code)
    if words is None:
        words = _words_by_code[code] = _words(code)
    return words


_words_by_code: weakref.WeakKeyDictionary[CodeType, list[str]] = weakref.WeakKeyDictionary()


def _words(code: CodeType) -> list[str]:
    nested = [word for part in code.co_consts if isinstance(part, CodeType) for word in _words(part)]
    return [*code.co_names, *nested]


def _draws(word: str, value: Any) -> bool:
    """Whether a name, or the global variable of this name, is that of a generator of Python or numpy."""
    bound = type(value) in (BuiltinFunctionType, MethodType) and type(value.__self__) in RANDOM_TYPES
    return "random" in word or bound


_newest: tuple[Any, list[bytes], tuple[tuple[bytes, ...], ...]] = (None, [], ())
"""The memory of torch's generators, their states, and these in parts, as any loop has seen them last."""


def _chunks(state: bytes, before: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The state of a generator in parts, of which those that did not change are the same objects."""
    parts = [state[at : at + CHUNK] for at in range(0, len(state), CHUNK)]
    old = [*before, *[b""] * len(parts)]
    return tuple(was if was == part else part for part, was in zip(parts, old, strict=False))
