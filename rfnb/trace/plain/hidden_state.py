"""The state that no line of a loop shows, at the beginning of each iteration: random generators, objects."""

from __future__ import annotations

import dataclasses
import io
import random
import sys
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import chain
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.ground.source import words_of
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.trace.plain.containers import MISSING, PLAIN, SEQUENCES, attributes_in, namespaces_of, slots_of
from rfnb.trace.plain.generators import (
    ITERATORS,
    NUMPY,
    OtherNumbers,
    frozen,
    iterator_contents,
    other_numbers,
    thawed,
    torch_memory,
)
from rfnb.trace.plain.values import (
    LARGE,
    MEDIUM,
    SMALL,
    Kept,
    Opaque,
    Parts,
    cell_content,
    drop,
    growth_of,
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
INPUTS = 2**20
"""Bytes of all buffers of which copies are taken before a loop."""
MOST_OBJECTS = 256
"""Number of objects of which the attributes are kept; of more, none are."""
MOST_LEFT_OUT = 64
"""Number of iterations that begin without a look at objects, after there were too many."""
MOST_ATTRIBUTES = 256
"""Number of attributes of an object that are kept; of objects with more, none are."""
VALUE, CONSTANT, OBJECT, RANDOM = "value", "constant", "object", "random"
ITERATOR, MODULE, LOST = "iterator", "module", "lost"
VALUES = (*PLAIN, *SEQUENCES, dict, Tensor, np.ndarray, np.generic)
SHOWING = ("IPython.", "ipykernel.", "ipywidgets.", "logging.", "matplotlib.", "rfnb.display.", "tqdm.", "traitlets.")
"""Packages whose objects show what a loop does, and are not part of it: they stay as they are."""
MADE_ANEW: dict[type, Callable[[], object]] = {type(make()): make for make in (threading.Lock, threading.RLock)}
MADE_ANEW |= dict.fromkeys((weakref.ref, weakref.KeyedRef), lambda: lambda: None)
"""What a fork has anew, if it no longer exists: an open lock, a reference to what is gone."""
IMMUTABLE = 1 << 8
"""The flag of types that are not made by Python code, to whose instances it gives no state."""
RANDOM_TYPES = (random.Random, np.random.Generator, np.random.RandomState)


class GeneratorStates(NamedTuple):
    """The states of the generators that are there without a variable.

    torch: of each device, in parts; empty where they cannot be read. others: of Python and numpy; None where nobody
    looked.
    """

    torch: tuple[tuple[bytes, ...], ...]
    others: OtherNumbers | None


class ObjectState:
    """What is in an object: attributes as a `Kept`, or the state of a generator; None if it is no longer kept.

    identity: the `id` that the object had. owner: stands for the object. inside: the objects in it.
    """

    __slots__ = ("identity", "inside", "kept", "owner")

    def __init__(self, identity: int, kept: Any, owner: Kept):
        self.identity, self.kept, self.owner = identity, kept, owner
        self.inside = tuple(filter(_changes, objects_in(kept))) if isinstance(kept, Kept) else ()


class HiddenState(NamedTuple):
    """The beginning of an iteration: the random numbers, the states of objects by the `id` of the `Kept`, and those of
    modules by their `id`."""

    numbers: GeneratorStates
    objects: dict[int, ObjectState]
    modules: dict[int, ObjectState]


NO_MOMENT = HiddenState(GeneratorStates((), None), {}, {})
"""Stands for the beginning of an iteration that was forgotten."""

Weights = tuple[tuple[list[tuple[int, int]], dict[str, tuple[int, int]]], list[bool]]
"""The memory and versions of the parameters of a module, and of its buffers by name; whether its parts train."""
Copies = list[tuple[weakref.ref[RawTensor], RawTensor]]
"""References to tensors of a module, each with a copy."""


class LoopContext:
    """What a loop begins with besides its variables.

    Args:
        names: the variables of its module.
        modes: of the backend, such as whether gradients are recorded.
    """

    def __init__(self, names: dict[str, object], modes: dict[str, object]):
        self.names, self.modes = names, modes
        self.outside: dict[str, Kept] = {}  # the variables of the module that it reads
        self.modules: list[tuple[str, Callable[[], object], Weights]] = []  # a variable, a module in it, its weights
        self.others: OtherNumbers | None = None  # the generators of Python and numpy, where steps do not have them
        self.trained: list[str] = []  # the variables with modules that the loop has changed
        self.held: dict[object, Copies] = {}  # small modules that the loop has not changed, so that it can be continued
        self.sizes: dict[object, int] = {}  # their memory, with copies of their weights
        self.stateful: set[str] = set()  # the attributes of modules that have changed
        self.drew = False  # whether it drew from these generators
        self.changed: set[str] = set()  # the variables of the module that have changed


class HiddenStateRecorder:
    """Takes the moments of the loops of a frame.

    code: which runs. names: its global variables. hides: whether it changes tensors where nothing counts that. spent:
    adds to the bytes that are kept.
    """

    def __init__(self, code: CodeType, names: dict[str, object], hides: bool, spent: Callable[[int], None]):
        from rfnb.backend.torch.random import global_generators

        self._generators, self._spent, self._names, self._hides = global_generators, spent, names, hides
        self._around: LoopContext | None = None
        self._modules: ModuleStates | None = None
        self._all = any(map(_draws, words := [*words_of(code)], map(names.get, words)))
        self._numbers, self._last = GeneratorStates((), None), [b""]
        self._place = torch_memory()
        self._memory: bytes | None = None
        self._parts: dict[int, tuple[Kept, tuple[Kept, ...]]] = {}  # by id of a value, the objects in it
        self._objects: dict[int, ObjectState] = {}
        self._is_first = True  # before the first iteration
        self._too_many: set[int] = set()  # by id, values that lead to more objects than are kept
        self._left_out = self._to_leave_out = 0  # looks since there were too many, and how many are left out
        self._values: list[Kept] = []
        self.states: list[ObjectState] = []  # all that need memory, the oldest first
        self.bytes = 0  # of the moments that were not counted yet, without what states hold

    def numbers(self) -> GeneratorStates:
        """The states of the generators now."""
        global _newest
        generators = self._generators()
        memory: bytes | None = None if self._place is None or len(generators) > 1 else self._place.raw
        if memory is None or memory != self._memory:
            newest = _newest
            if memory is None or memory != newest[0]:
                try:
                    states = [generator.get_state().numpy().tobytes() for generator in generators]
                except RuntimeError:  # inside of a transform
                    return GeneratorStates((), None)
                old = (*self._numbers.torch, *((),) * len(states))
                newest = _newest = memory, states, tuple(map(_chunks, states, old))
            _, states, parts = newest
            if states != self._last:
                self._numbers, self._last = self._numbers._replace(torch=parts), states
                self.bytes += CHUNKS * len(states)
            self._memory = memory
        if self._all and (pair := other_numbers()) != self._numbers.others:
            self._numbers = self._numbers._replace(others=pair)
            self.bytes += OTHERS
        return self._numbers

    def around(self, initial: Mapping[str, object], names: Iterable[str]) -> LoopContext:
        """What a loop begins with besides its variables. initial: these. names: of all that it uses."""
        local = initial.keys()
        of_module = {name: self._names[name] for name in names if name in self._names and name not in local}
        self._around = LoopContext(self._names, tensor_backend().get_modes())
        for name, value in of_module.items():
            large = type(value) is np.ndarray and value.nbytes > SMALL
            if role_of(type(value)) in (VALUE, OBJECT, RANDOM) and not large:
                self._around.outside[name] = keep(value)
        parts: dict[int, tuple[str, object]] = {}
        for name, value in chain(initial.items(), of_module.items()):
            for module in _modules(value):
                self._around.modules.append((name, weakref.ref(module), weights_of(module)))
                parts = {id(part[1]): part for part in parts_of(name, module)} | parts
        self._modules = ModuleStates(parts.values(), self._take) if parts else None
        self._around.others = None if self._all else other_numbers()
        return self._around

    def objects(self, values: list[Kept]) -> dict[int, ObjectState]:
        """The states of the objects in some values; the same list as the last time has the same objects."""
        if self._objects or values is not self._values:
            self._look(values)
        return self._objects

    def _look(self, values: list[Kept]) -> None:
        self._values, parts = values, {}
        for value in filter(has_objects, values):
            parts[id(value)] = self._parts.get(id(value)) or (value, tuple(filter(_changes, objects_in(value))))
        self._parts = parts
        if self._too_many and (self._too_many <= parts.keys() or self._left_out < self._to_leave_out):
            self._left_out += 1
            return
        todo = [part for _, members in parts.values() for part in members]
        objects: dict[int, ObjectState] = {}
        states: dict[int, ObjectState] = {}  # by id of the object
        old_states: dict[int, ObjectState] = {}  # the same of the states before
        self._too_many, changed = set(), False
        while todo:
            part = todo.pop()
            value = part.original
            if value is None or id(part) in objects:
                continue
            state = states.get(id(value))
            if state is None:
                if len(states) >= MOST_OBJECTS:
                    objects, self._too_many = {}, {number for number, (_, members) in parts.items() if members}
                    self._left_out, self._to_leave_out = 0, min(2 * self._to_leave_out + 1, MOST_LEFT_OUT)
                    break
                old = self._objects.get(id(part))
                if old is None:  # another value has the object, or the same one, if nothing can refer to it weakly
                    old_states = old_states or {state.identity: state for state in self._objects.values()}
                    old = old_states.get(id(value))
                    if old is not None and isinstance(old.owner.origin, weakref.ref) and not old.owner.is_of(value):
                        old = None
                state = states[id(value)] = self._state(part, value, old)
                changed = changed or state is not self._objects.get(id(part))
                todo += state.inside
            objects[id(part)] = state
        self._is_first = False
        if changed or len(objects) != len(self._objects):
            self._objects = objects
            self.bytes += REFERENCE * len(objects)

    def _state(self, part: Kept, value: object, old: ObjectState | None) -> ObjectState:
        contents = contents_of(value, part)
        if old is not None and old.kept is not None and is_same_state(contents, old.kept):
            return old
        if type(contents) is not dict or len(contents) > MOST_ATTRIBUTES:
            return ObjectState(id(value), contents if type(contents) is not dict else None, part)
        old_contents = None if old is None else old.kept
        state = ObjectState(id(value), _contents_kept(contents, self._hides or part.gradient == 1, old_contents), part)
        for tensor in tensors_in(state.kept) if self._is_first else ():  # later, only what has changed in place is
            if tensor.bytes <= SMALL:
                tensor.separate()
        if isinstance(old_contents, Kept):
            _let_go(old_contents, state.kept)
        self._take(state)
        return state

    def _take(self, state: ObjectState) -> None:
        """Counts a new state that needs memory."""
        self._spent(hold(state.kept))
        self.states.append(state)
        self.bytes += STATE

    def modules(self) -> dict[int, ObjectState]:
        """The states of the modules that change in the loop."""
        return {} if self._modules is None else self._modules.moment()

    def forget(self, moment: HiddenState) -> None:
        """Keeps no states that were there only before this moment."""
        ids = {id(state) for states in (moment.objects, moment.modules) for state in states.values()}
        place = max((at for at, state in enumerate(self.states) if id(state) in ids), default=0)
        old, self.states = self.states[:place], self.states[place:]
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

    def end(self, others: Iterable[object]) -> None:
        """The outermost loop has ended: no object is kept alive, but small modules. others: all but raw tensors."""
        around, self._around = self._around, None
        if around is not None:
            followed = set() if self._modules is None else self._modules.names
            around.trained = [
                name
                for name, module, weights in around.modules
                if module() and _is_trained(name, module(), weights, followed)
            ]
            opaque = (value for value in others if type(value) is Kept and type(value.value) is Opaque)
            assigned = {id(v.original): v.original for v in opaque if role_of(v.value.type) == MODULE}
            for module in assigned.values():
                if module is not None and all(reference() is not module for _, reference, _ in around.modules):
                    around.modules.append(("", weakref.ref(module), weights_of(module)))
            for name, module, _ in around.modules:
                if name not in around.trained and module() is not None and _bytes_of(module()) <= LARGE:
                    copies = around.held[module()] = copies_of(module())
                    around.sizes[id(copies)] = 2 * _bytes_of(module())
            around.stateful |= set() if self._modules is None else self._modules.changed_names()
            around.drew = around.others is not None and around.others != other_numbers()
            for name, original in around.outside.items():
                if not is_same(around.names.get(name), original):
                    around.changed.add(name)
                original.let_go()
        for state in self.states:
            if isinstance(state.kept, Kept):
                state.kept.let_go()
        self.states, self._objects, self._parts, self._values, self._modules = [], {}, {}, [], None
        self._too_many, self._to_leave_out, self._is_first = set(), 0, True


class ModuleStates:
    """Follows the attributes and buffers of modules that have changed when the second iteration of a loop begins.

    Args:
        parts: the modules, with names.
        new: takes the states that need memory.
    """

    def __init__(self, parts: Iterable[tuple[str, Any]], new: Callable[[ObjectState], None]):
        self._parts = [(name, part, attributes_of(part)) for name, part in parts]
        self._new, spare = new, INPUTS
        self._first: dict[tuple[int, str], Kept] = {}  # containers and buffers before the loop
        self._versions: dict[tuple[int, str], int | None] = {}  # of tensors before the loop
        self._followed: list[tuple[object, tuple[str, ...]]] = []
        self._moments: list[dict[int, ObjectState]] = []  # the first, and the last one
        self.names: set[str] = set()  # of the attributes that are followed
        for _, part, attributes in self._parts:
            for name, value in attributes.items():
                if type(value) in (list, dict, set):
                    self._first[id(part), name] = keep(value)
                elif (version := _version_of(value)) is not None:
                    self._versions[id(part), name] = version
                    if name in part._buffers and value.nbytes <= min(SMALL, spare):
                        spare -= value.nbytes
                        self._first[id(part), name] = keep(value, True)

    def moment(self) -> dict[int, ObjectState]:
        """The states when an iteration begins, by `id`; those of the first one are added when the second one begins."""
        if len(self._moments) == 1:
            self._look()
        states = {id(part): self._state(part, names) for part, names in self._followed}
        self._moments[1:] = [states]
        return states

    def _look(self) -> None:
        for label, part, old in self._parts:
            names = tuple(self._changed(part, old))
            if not names:
                continue
            contents = {name: self._first.get((id(part), name), old[name]) for name in names if name in old}
            items = [
                value if isinstance(value, Kept) else self._kept(part, *i) for i in contents.items() for value in i[1:]
            ]
            self._add(self._moments[0], part, Kept(Parts(dict, tuple(contents), tuple(items), len(items))))
            self._followed.append((part, names))
            self.names.update(f"{label}.{name}" for name in names)

    def _kept(self, part: object, name: str, value: object) -> Kept:
        snapshot = keep(value)
        if self._versions.get((id(part), name)) != _version_of(value):
            snapshot.note = "it was changed later, by a line that the recording did not see"
        return snapshot

    def _add(self, states: dict[int, ObjectState], part: object, kept: Kept) -> None:
        state = states[id(part)] = ObjectState(id(part), kept, keep(part))
        self._new(state)

    def _state(self, part: object, names: Container[str]) -> ObjectState:
        contents, old = {n: v for n, v in attributes_of(part).items() if n in names}, self._moments[-1].get(id(part))
        if old is not None and old.kept is not None and is_same_state(contents, old.kept):
            return old
        states: dict[int, ObjectState] = {}
        self._add(states, part, _contents_kept(contents, False, None if old is None else old.kept))
        return states[id(part)]

    def _changed(self, part: object, before: dict[str, object]) -> Iterator[str]:
        attributes = attributes_of(part)
        for name in before | attributes:
            value, original = attributes.get(name, MISSING), self._first.get((id(part), name))
            if (
                value is not before.get(name, MISSING)
                or (original is not None and not is_same(value, original, MEDIUM, closely=True))
                or self._versions.get((id(part), name)) != _version_of(value)
            ):
                yield name

    def changed_names(self) -> set[str]:
        """The attributes that have changed in the loop, and are not followed."""
        changed = {f"{label}.{name}" for label, part, old in self._parts for name in self._changed(part, old)}
        return changed - self.names


def parts_of(name: str, module: object) -> Iterator[tuple[str, object]]:
    """The modules in a module, each with its name."""
    for path, part in sys.modules["torch"].nn.Module.named_modules(module):
        yield ".".join(filter(None, (name, path))), part


def attributes_of(module: object) -> dict[str, Any]:
    """The attributes and buffers of a module, without what all modules have for themselves."""
    usual = _usual()
    return {name: v for name, v in module.__dict__.items() if name not in usual} | module.__dict__.get("_buffers", {})


@cache
def _usual() -> frozenset[str]:
    return frozenset(vars(sys.modules["torch"].nn.Module())) - {"training"}


def _version_of(value: object) -> int | None:
    kind: Any = sys.modules["torch"].Tensor
    return int(tensor_backend().version_raw(value)) if isinstance(value, kind) else None


def copies_of(module: object) -> Copies:
    """The parameters and buffers of a module, each with a copy of its values; the same as last time, if they are."""
    weights = weights_of(module)[0]
    old, copies = _copies.get(module, (None, []))
    if old != weights:
        kind = sys.modules["torch"].nn.Module
        copies = [(weakref.ref(t), t.detach().clone()) for t in (*kind.parameters(module), *kind.buffers(module))]
        _copies[module] = weights, copies
    return copies


_copies: weakref.WeakKeyDictionary[object, tuple[object, Copies]] = weakref.WeakKeyDictionary()


def weights_of(module: object) -> Weights:
    """The memory and the versions of the parameters and buffers of a module, these by name, and its modes."""
    kind, version = sys.modules["torch"].nn.Module, tensor_backend().version_raw
    parameters = [(_address(tensor), version(tensor)) for tensor in kind.parameters(module)]
    buffers = {name: (_address(tensor), version(tensor)) for name, tensor in kind.named_buffers(module)}
    return (parameters, buffers), [part.training for part in kind.modules(module)]


def _is_trained(name: str, module: object, before: Weights, followed: Container[str]) -> bool:
    """Whether other tensors than buffers that are followed have changed."""
    (parameters, buffers), (new_parameters, now_buffers) = before[0], weights_of(module)[0]
    changed = (path for path in buffers | now_buffers if buffers.get(path) != now_buffers.get(path))
    return parameters != new_parameters or any(f"{name}.{path}" not in followed for path in changed)


def _bytes_of(module: object) -> int:
    kind = sys.modules["torch"].nn.Module
    return sum(tensor.nbytes for tensor in (*kind.parameters(module), *kind.buffers(module)))


def _address(tensor: RawTensor) -> int:
    try:
        return int(tensor.data_ptr())
    except (RuntimeError, ValueError):  # of tensors that have no memory of their own, or not yet
        return id(tensor)


def _modules(value: object) -> Iterator[object]:
    """The modules in a value."""
    if not isinstance(value, Kept):
        yield from [value] if role_of(type(value)) == MODULE else []
        return
    for part in objects_in(value):
        if isinstance(part.value, Opaque) and role_of(part.value.type) == MODULE:
            yield part.original


def set_numbers(numbers: GeneratorStates, around: LoopContext, seed: int | None = None) -> None:
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
    states = numbers.others or around.others
    if states is not None:
        random.setstate(states[0])
        state = thawed(states[1])
        if NUMPY.get_state(legacy=False)["bit_generator"] != state["bit_generator"]:
            NUMPY.set_bit_generator(getattr(NUMPY, state["bit_generator"])())
        NUMPY.set_state(state)


def contents_of(value: Any, part: Kept) -> object:
    """What is in an object now: a dict, or something that can be compared; None if it cannot be read."""
    if part.gradient == 1:
        return {"grad": getattr(value, "grad", None)}
    role = role_of(type(value))
    if role == RANDOM:
        return random_state(value)
    if role == ITERATOR:
        return iterator_contents(value)
    if type(value) is FunctionType:
        return dict(zip(value.__code__.co_freevars, map(cell_content, value.__closure__ or ()), strict=True))
    if type(value) in (MethodType, BuiltinMethodType, MethodWrapperType):
        return {"0": value.__self__}
    if type(value) is partial:
        return {"0": value.func, "1": value.args, "2": value.keywords}
    return attributes_in(value) if role == OBJECT else None


def _contents_kept(contents: dict[str, object], copied: bool, before: object) -> Kept:
    """What is in an object, as it is now: what is the same as before is the same `Kept`. copied: all tensors.

    A tensor that has changed in place is copied from then on.
    """
    old_items = dict(zip(before.value.keys, before.value.items, strict=True)) if isinstance(before, Kept) else {}
    items: list[object] = []
    for name, value in contents.items():
        old = old_items.get(name)
        if isinstance(old, Kept) and not old.note and is_same(value, old, MEDIUM, closely=True):
            items.append(old)
            continue
        changes = any(tensor.version is None or tensor.changed() for tensor in tensors_in(old))
        items.append(value if type(value) in PLAIN else keep(value, copied or changes, old))
    return Kept(Parts(dict, tuple(contents), tuple(items), len(items)))


def _let_go(old: Kept, new: Kept) -> None:
    """Keeps alive no longer what is no longer in an object."""
    new_items = dict(zip(new.value.keys, new.value.items, strict=True))
    for name, item in zip(old.value.keys, old.value.items, strict=True):
        if isinstance(item, Kept) and new_items.get(name) is not item:
            item.let_go(parts=growth_of(new_items.get(name)) is None)


def is_same_state(contents: object, kept: object) -> bool:
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


def _is_same(value: object, kept: object) -> bool:
    return value is kept or is_same(value, kept, MEDIUM)


def random_state(generator: Any) -> object:
    """The state of a generator, as something that can be compared."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return frozen(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return frozen(generator.get_state(legacy=False))
    return generator.get_state().numpy().tobytes()


def _changes(part: Kept) -> bool:
    """Whether an object can change where no line shows it."""
    if part.gradient == 1:
        return True
    assert isinstance(part.value, Opaque)
    if part.value.inside is not None:
        return bool(part.value.inside.items)
    return role_of(part.value.type) in (OBJECT, RANDOM, ITERATOR) and part.value.type is not partial


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
    namespaces = namespaces_of(kind)
    names = {name for namespace in namespaces for name in namespace}
    if f"{namespaces[0].get('__module__')}.".startswith(SHOWING):
        return CONSTANT
    if kind in ITERATORS:
        return ITERATOR
    if kind in MADE_ANEW or (kind.__flags__ & IMMUTABLE and "__call__" in names):
        return CONSTANT
    optimizer = sys.modules.get("torch.optim.optimizer")
    is_lazy = "__next__" in names and any("__next__" in b.__dict__ and b.__flags__ & IMMUTABLE for b in kind.__mro__)
    if is_lazy or issubclass(kind, io.IOBase) or {"acquire", "release"} <= names:
        return LOST
    if optimizer is not None and issubclass(kind, optimizer.Optimizer):
        return LOST
    table = next((namespace["__dict__"] for namespace in namespaces if "__dict__" in namespace), None)
    return OBJECT if type(table) is GetSetDescriptorType or slots_of(kind) else CONSTANT


role_of: Callable[[type], str] = cache(_role)
"""What objects of a type are for a loop."""


def _draws(word: str, value: Any) -> bool:
    """Whether a name, or the global variable of this name, is that of a generator of Python or numpy."""
    bound = type(value) in (BuiltinFunctionType, MethodType) and type(value.__self__) in RANDOM_TYPES
    return "random" in word or bound


_newest: tuple[bytes | None, list[bytes], tuple[tuple[bytes, ...], ...]] = (None, [], ())
"""The memory of torch's generators, their states, and these in parts, as any loop has seen them last."""


def _chunks(state: bytes, before: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The state of a generator in parts, of which those that did not change are the same objects."""
    parts = [state[at : at + CHUNK] for at in range(0, len(state), CHUNK)]
    old = [*before, *[b""] * len(parts)]
    return tuple(was if was == part else part for part, was in zip(parts, old, strict=False))
