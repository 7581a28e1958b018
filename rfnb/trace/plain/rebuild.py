"""Variables of a recorded loop as objects of Python again, which share memory and parts as the first ones did."""

from __future__ import annotations

import copy
import random
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType
from typing import Any, TypeGuard

import numpy as np

from rfnb.core.ground import backends
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import BackendError, DtypeError, LoopError
from rfnb.printable import printable
from rfnb.trace.plain.containers import Attributed, OddKey, slots_of
from rfnb.trace.plain.generators import iterator_of, thawed
from rfnb.trace.plain.hidden_state import (
    ITERATOR,
    LOST,
    MADE_ANEW,
    MODULE,
    OBJECT,
    RANDOM,
    VALUE,
    ObjectState,
    contents_of,
    is_same_state,
    role_of,
)  # fmt: skip
from rfnb.trace.plain.log import Entry, Summary
from rfnb.trace.plain.values import Kept, Opaque, Parts, backend_of, objects_in, tensor_backend, tensors_in


class CannotRebuild(Exception):
    """A value that cannot be had again; the reason as text."""


class Rebuilder:
    """Makes the values of variables at one moment, each object once.

    Args:
        objects: the states of objects at this moment, by the `id` of the `Kept`.
        changing: the identities of the objects that have other states at other moments.
        cells: the variables of the fork, which functions that were made in the same function share with it.
        shares: whether the code of a function is inside of that of the loop's function.
        inputs: copies of tensors at this moment, by the `id` of the tensor, in place of those that were changed later.
        around: what made the variables with which a fork begins, whose objects are taken for items.
    """

    def __init__(
        self,
        objects: Mapping[int, ObjectState],
        changing: set[int],
        cells: Mapping[str, CellType],
        shares: Callable[[CodeType], bool],
        inputs: Mapping[int, Kept],
        around: Rebuilder | None = None,
    ):
        self._inputs, self._around = inputs, around
        self._origins: dict[int, object] = {}  # by the `id` of what was made, what gave the object
        self.lasting: set[int] = set()  # the identities of what is in the iterable, which lives as long as the loop
        self._objects, self.changing, self.cells, self._shares = objects, changing, cells, shares
        self._different = _different(objects, changing)
        self._owners = {state.identity: state.owner for state in objects.values()}
        self._by_identity: dict[int, Any] = {}
        self._seen: set[int] = set()  # the objects of which the tensors were listed
        self.notes: dict[str, None] = {}
        self.modules: list[object] = []
        self.objects: list[object] = []  # others that stay as they are

    def values(self, entries: Mapping[str, Entry], anew: Container[str] = ()) -> dict[str, object]:
        """The variables. Raises LoopError for one that cannot be had again; those of `anew` are left out instead."""
        self._share(self.check(entries, anew))
        values: dict[str, object] = {}
        for name, entry in entries.items():
            try:
                values |= {name: self._value(name, entry.kept)} if not self._is_left_out(entry, anew) else {}
            except CannotRebuild as reason:
                if name not in anew:
                    raise _lost(name, str(reason)) from None
        return values

    def check(self, entries: Mapping[str, Entry], anew: Container[str] = ()) -> dict[int, tuple[str, Kept]]:
        """The tensors and arrays in variables, also those in objects, each once with its name. Copies nothing.

        Raises LoopError for a variable that cannot be had again.
        """
        once: dict[int, tuple[str, Kept]] = {}
        for name, entry in entries.items():
            for part, value in () if self._is_left_out(entry, anew) else self._parts(name, entry.kept):
                if self._has(value) or (isinstance(value, Kept) and value.identity in self._by_identity):
                    continue
                if _is_tensor(value):
                    value = _unchanged(value, self._inputs)
                    once[value.identity or id(value)] = part, value
                elif name not in anew and (reason := self._reason(value)) is not None:
                    raise _lost(name, reason)
        for name, snapshot in once.values():
            if (reason := self._reason(snapshot)) is not None:
                raise _lost(name, reason)
        return once

    def copy_of(self, kept: Any) -> object:
        """What was made in place of an object; None if nothing was, or if it is as it is today."""
        value = self._by_identity.get(kept.identity) if isinstance(kept, Kept) else None
        return None if value is None or value is kept.original else value

    def _has(self, value: object) -> bool:
        """Whether an object is one with which the fork began."""
        around = self._around
        if around is None or not isinstance(value, Kept) or value.identity not in around._by_identity:
            return False
        is_same = isinstance(value.origin, weakref.ref) and around._origins.get(value.identity) is value.origin
        return is_same or value.identity in around.lasting

    def inside(self, value: object) -> set[int]:
        """The identities of the containers and objects in a value, and of the value."""
        todo, identities = [value], set[int]()
        while todo:
            part = todo.pop()
            if isinstance(part, Kept) and part.identity not in identities:
                identities.add(part.identity)
                contents = self._inside(part)
                todo += contents.items if isinstance(contents, Parts) else ()
        return identities

    def _is_left_out(self, entry: Entry, anew: Container[str]) -> bool:
        """Whether a variable is lost that need not be had again."""
        return entry.name in anew and reason_lost(entry, self._inputs) is not None

    def _parts(self, name: str, value: object) -> Iterator[tuple[str, object]]:
        """A value and all in it, also in objects; of those that stay as they are today, only what can never be had."""
        if not isinstance(value, Kept):
            yield name, value
            return
        if isinstance(value.value, Opaque) and value.identity:
            if value.identity in self._seen:
                return
            self._seen.add(value.identity)
        yield name, value
        if self._has(value):
            return
        if self._stays(value):
            objects = objects_in(self._inside(value))
            yield from ((name, part) for part in objects if self._stays(part) is None)
            return
        if _is_tensor(value) and (grad := self._objects.get(id(value))) is not None:
            yield from self._parts(f"{name}.grad", grad.kept)
        contents = self._inside(value)
        function = isinstance(value.value, Opaque) and value.value.type is FunctionType
        cells = self.cells if function and contents and self._shares(value.value.inside.extra[0]) else ()
        for key, item in contents.named() if isinstance(contents, Parts) else ():
            if key not in cells:
                yield from self._parts(f"{name}.{key}", item)

    def _stays(self, kept: Kept) -> bool | None:
        """Whether it is an object that a fork has as it is today; None for one that no fork can have."""
        if not isinstance(kept.value, Opaque):
            return False
        role, state = role_of(kept.value.type), self._objects.get(id(kept))
        if role == LOST:
            return None
        return role == OBJECT and state is not None and state.identity not in self._different

    def _inside(self, kept: Kept) -> Any:
        """The parts of a value, or of an object."""
        if not isinstance(kept.value, Opaque):
            return kept.value
        state = self._objects.get(id(kept))
        return state.kept.value if state is not None and isinstance(state.kept, Kept) else kept.value.inside

    def _share(self, once: Mapping[int, tuple[str, Kept]]) -> None:
        """Copies the tensors and arrays, in memory as it was."""
        backend: Any = next((snapshot.backend for _, snapshot in once.values() if snapshot.backend is not None), None)
        layouts = [snapshot.layout or backend.layout_raw(snapshot.raw) for _, snapshot in once.values()]
        raws = [snapshot.raw for _, snapshot in once.values()]
        try:
            copies = (backend or tensor_backend()).copies_raw(list(zip(raws, layouts, strict=True)))
        except BackendError as error:
            raise LoopError(f"fork: {error}", got=", ".join(dict.fromkeys(name for name, _ in once.values()))) from None
        for (identity, (_, snapshot)), twin in zip(once.items(), copies, strict=True):
            self._by_identity[identity], self._origins[identity] = self._with_gradient(snapshot, twin), snapshot.origin
        for identity, (name, snapshot) in once.items():
            if (state := self._objects.get(id(snapshot))) is not None and isinstance(state.kept, Kept):
                self._by_identity[identity].grad = self._items(name, state.kept.value, 0)[0]

    def _with_gradient(self, kept: Kept, copy: RawTensor) -> object:
        if kept.gradient:
            copy = copy.requires_grad_() if kept.gradient == 1 else copy.requires_grad_().clone()
        value = kept.value
        return tensor_of(copy, value.sig, value.lengths) if isinstance(value, Tensor) else copy

    def _reason(self, value: object) -> str | None:
        """The reason why a value cannot be had again, as far as its parts do not matter."""
        if isinstance(value, Summary):
            return "no longer kept"
        if not isinstance(value, Kept):
            return None
        if _is_tensor(value):
            return _reason_of_tensor(value)
        if value.note:
            return value.note
        if isinstance(value.value, Opaque):
            return self._reason_of_object(value)
        if not isinstance(value.value, Parts):
            return None
        if value.value.extra is Attributed:
            return f"the attributes of {value.value.kind.__name__} objects are not kept"
        odd = (key for key in value.value.keys or () if isinstance(key, OddKey))
        return "some of its keys no longer exist" if any(key.origin() is None for key in odd) else None

    def _reason_of_object(self, kept: Kept) -> str | None:
        opaque, today = kept.value, kept.original
        role, state = role_of(opaque.type), self._objects.get(id(kept))
        if role == LOST:
            return f"the state of {opaque.kind} objects is not kept"
        if opaque.inside is not None:
            return None
        if role in (RANDOM, ITERATOR) and state is not None and state.kept is not None:
            return None
        if role == ITERATOR:
            return f"the state of {opaque.kind} objects is not kept"
        if role == VALUE and not hasattr(opaque.type, "layout"):
            return f"the parts of {opaque.kind} objects are not kept"
        if role == OBJECT and state is not None and state.identity in self._different:
            if state.kept is None:
                return f"the attributes of the {opaque.kind} are no longer kept"
            return None if _can_be_copied(opaque.type) else f"{opaque.kind} objects cannot be copied"
        return f"the {opaque.kind} no longer exists" if today is None and opaque.type not in MADE_ANEW else None

    def _value(self, name: str, kept: Any, depth: int = 0) -> Any:
        identity = kept.identity or id(kept) if isinstance(kept, Kept) else None
        if identity in self._by_identity:
            return self._by_identity[identity]
        if self._around is not None and self._has(kept):
            return self._around._by_identity[kept.identity]
        if (reason := self._reason(kept)) is not None:
            raise CannotRebuild(reason)
        if not isinstance(kept, Kept) or identity is None:
            return kept
        self._origins[identity] = kept.origin
        if isinstance(kept.value, Opaque):
            value = self._object(name, kept, depth)
        elif isinstance(kept.value, Parts):
            return self._container(name, kept.value, identity, depth)
        else:
            return kept.value
        self._by_identity[identity] = value
        return value

    def _items(self, name: str, parts: Parts, depth: int) -> list[Any]:
        return [self._value(f"{name}.{key}", item, depth + 1) for key, item in parts.named()]

    def _container(self, name: str, parts: Parts, identity: int, depth: int) -> object:
        kind: Any = parts.kind
        if issubclass(kind, tuple | frozenset):
            items = self._items(name, parts, depth)
            value = kind.__new__(kind, *items) if parts.keys else kind.__new__(kind, items)
            self._by_identity[identity] = value
            return value
        value = self._by_identity[identity] = _empty(kind, parts.extra)  # before its parts, which may contain it
        items = self._items(name, parts, depth)
        if issubclass(kind, dict):
            for key, item in zip(map(self._key, parts.keys or ()), items, strict=True):
                (OrderedDict if issubclass(kind, OrderedDict) else dict).__setitem__(value, key, item)
            if hasattr(kind, "__dataclass_fields__"):
                value.__dict__.update(zip(parts.keys or (), items, strict=True))
        elif issubclass(kind, set):
            set.update(value, items)
        elif issubclass(kind, list | deque):
            (list if issubclass(kind, list) else deque).extend(value, items)
        else:
            _set_attributes(value, parts.keys or (), items)
        return value

    def _key(self, key: object) -> object:
        """The key of a dict; one that is an object is the one that the fork has in its place."""
        if not isinstance(key, OddKey):
            return key
        today = key.origin()
        if id(today) in self._different:
            return self._value("", self._owners[id(today)])
        return self._by_identity.get(id(today), today)

    def _object(self, name: str, kept: Kept, depth: int) -> object:
        """An object as it is today, or as it was, if it has changed."""
        opaque = kept.value
        role, today, state = role_of(opaque.type), kept.original, self._objects.get(id(kept))
        if opaque.inside is not None:
            return self._function(name, kept, depth)
        if role == RANDOM and state is not None and state.kept is not None:
            return generator_of(opaque.type, state.kept, today)
        if role == ITERATOR and state is not None:
            parts = state.kept.value
            return iterator_of(dict(zip(parts.keys, self._items(name, parts, depth), strict=True)))
        if role == OBJECT and state is not None and state.identity in self._different:
            return self._copy(name, kept, state, depth)
        if opaque.type in MADE_ANEW and today is None:
            return MADE_ANEW[opaque.type]()
        if role == MODULE:
            self.modules.append(today)
        if role == OBJECT:
            self.objects.append(today)
        if role in (VALUE, RANDOM) or (role == OBJECT and (state is None or state.kept is None)):
            self.notes[f"with today's {name}"] = None
        return today

    def _copy(self, name: str, kept: Kept, state: ObjectState, depth: int) -> object:
        value = self._by_identity[kept.identity] = object.__new__(kept.value.type)
        _set_attributes(value, state.kept.value.keys, self._items(name, state.kept.value, depth))
        return value

    def _function(self, name: str, kept: Kept, depth: int) -> object:
        """A method, a partial, or a function from inside of another one, which reads the variables of the fork."""
        parts, kind = kept.value.inside, kept.value.type
        if kind is not FunctionType:
            items = self._items(name, self._inside(kept), depth)
            if kind in (BuiltinMethodType, MethodWrapperType):
                return getattr(items[0], parts.extra)
            return MethodType(parts.extra, *items) if kind is MethodType else partial(items[0], *items[1], **items[2])
        code, names, label, defaults, keywords = parts.extra
        cells = {free: self.cells.get(free) if self._shares(code) else None for free in code.co_freevars}
        unset = [free for free, cell in cells.items() if cell is None]
        function = FunctionType(code, names, label, defaults, tuple(cell or CellType() for cell in cells.values()))
        function.__kwdefaults__ = keywords
        if kept.original is not None:
            function.__dict__.update(kept.original.__dict__)
        self._by_identity[kept.identity] = function
        contents = self._inside(kept)
        for cell, (free, item) in zip(function.__closure__ or (), contents.named(), strict=True):
            if free in unset:
                cell.cell_contents = self._value(f"{name}.{free}", item, depth + 1)
        return function


def _different(objects: Mapping[int, ObjectState], changing: set[int]) -> set[int]:
    """The identities of the objects that are not always the same in the loop and today, or that have such an object."""
    holders: dict[int, list[int]] = {}
    todo: list[int] = []
    for state in {id(state): state for state in objects.values()}.values():
        today = state.owner.original
        for part in state.inside:
            if (inner := objects.get(id(part))) is not None:
                holders.setdefault(inner.identity, []).append(state.identity)
        is_same = state.kept is None or is_same_state(contents_of(today, state.owner), state.kept)
        if state.identity in changing or today is None or not is_same:
            todo.append(state.identity)
    identities: set[int] = set()
    while todo:
        identity = todo.pop()
        if identity not in identities:
            identities.add(identity)
            todo += holders.get(identity, ())
    return identities


def _can_be_copied(kind: type) -> bool:
    """Whether the attributes of an object are all of it: it has no parts that only C code knows, and ends silently."""
    bases = kind.__mro__[:-1]
    return all(base.__flags__ & MADE_BY_PYTHON and "__del__" not in base.__dict__ for base in bases)


MADE_BY_PYTHON = 1 << 9
"""The flag of types that can be made while Python runs."""


def _set_attributes(value: object, names: Iterable[str], items: Iterable[object]) -> None:
    """Sets attributes, also of frozen objects, without code of the class."""
    slots = slots_of(type(value))
    for name, item in zip(names, items, strict=True):
        if name in slots:
            slots[name].__set__(value, item)
        else:
            value.__dict__[name] = item


def _is_tensor(value: object) -> TypeGuard[Kept]:
    """Whether it is a kept tensor or array."""
    return isinstance(value, Kept) and (value.backend is not None or isinstance(value.value, np.ndarray))


def reason_lost(entry: Entry, inputs: Mapping[int, Kept]) -> str | None:
    """The reason why a value cannot be had again, as far as tensors go. inputs: as for a `Rebuilder`."""
    value = entry.kept
    if isinstance(value, Summary):
        return "no longer kept"
    reasons = (_reason_of_tensor(_unchanged(part, inputs)) for part in tensors_in(value))
    return next(filter(None, reasons), None)


def _unchanged(kept: Kept, inputs: Mapping[int, Kept]) -> Kept:
    """A tensor, or the copy of it that was taken before it was changed."""
    return inputs.get(kept.identity, kept) if kept.changed() else kept


def _lost(name: str, reason: str) -> LoopError:
    return LoopError(f"fork: `{name}` cannot be had again: {reason}")


def _reason_of_tensor(kept: Kept) -> str | None:
    if isinstance(kept.value, np.ndarray) and kept.value.dtype.hasobject:
        return "an array of objects"
    if kept.note or not kept.changed():
        return kept.note or None
    return "it was changed later, by a line that the recording did not see"


def _empty(kind: Any, extra: object) -> Any:
    """A container without parts."""
    for base in (defaultdict, deque, OrderedDict, dict, list, set):
        if issubclass(kind, base):
            value = base.__new__(kind)
            base.__init__(value, *([extra] if base is defaultdict else [(), extra] if base is deque else []))
            return value
    return object.__new__(kind)


def generator_of(kind: Any, state: Any, today: Any) -> object:
    """A random generator in a state; the global one of torch itself."""
    import torch

    if issubclass(kind, random.Random):
        generator = kind()
        generator.setstate(state)
        return generator
    if issubclass(kind, np.random.Generator | np.random.RandomState):
        state = thawed(state)
        name = dict(state)["bit_generator"]
        generator = kind(getattr(np.random, name)())
        if isinstance(generator, np.random.RandomState):
            generator.set_state(state)
        else:
            generator.bit_generator.state = state
        return generator
    if any(today is shared for shared in (torch.default_generator, *torch.cuda.default_generators)):
        return today
    device = "cuda" if today is None and len(state) < 100 else "cpu" if today is None else today.device
    generator = torch.Generator(device=device)
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    return generator


NUMBERS = bool | int | float | complex | np.generic


def edited_value(name: str, old: Any, new: Any) -> Any:
    """A value for a variable that is of the kind of the old one: a tensor or array of its shape and dtype, a number, a
    text, a container of its type.

    A number, or a tensor that can be broadcast, fills a tensor; a list of numbers takes those of a tensor. The new
    value shares no memory with anything.

    Raises DtypeError for numbers that the dtype cannot hold, LoopError for other values that do not fit.
    """
    if isinstance(old, Tensor):
        if isinstance(new, Tensor):
            new = new.copy_compatible_to_dims_raw(old.dims) if new.dims_set <= old.dims_set else new._raw
        return tensor_of(edited_value(name, old._raw, new), old.sig, old.lengths)
    if isinstance(new, Tensor):
        new = new._raw
    if isinstance(old, np.ndarray) or backend_of(old) is not None:
        return _filled(name, old, new)
    if isinstance(old, NUMBERS):
        return _number(name, old, new)
    if old is None or isinstance(new, type(old)):
        return copy.deepcopy(new)
    if has_numbers(old) and len(getattr(new, "shape", ())) == 1:
        return type(old)(_filled(name, np.asarray(old), new).tolist())
    raise _refused(name, new, f"{printable(type(old).__name__)}, as it is")


def has_numbers(value: Any) -> bool:
    """Whether the new value of a variable with this one may be a tensor."""
    if isinstance(value, Tensor | np.ndarray | NUMBERS) or backend_of(value) is not None:
        return True
    return type(value) in (list, tuple) and bool(value) and all(isinstance(part, bool | int | float) for part in value)


def reason_missing(name: str) -> str:
    """Why something with this name, which has a value in the loop, cannot be edited."""
    return f"`{name}` {'has no value yet' if name.isidentifier() else 'is an attribute, not a variable'}"


def _number(name: str, old: object, new: object) -> object:
    """A number of the type of the old one; a tensor or array with one entry is one too."""
    if type(new) is type(old):
        return new
    dtype = np.dtype(type(old)) if not isinstance(old, np.generic) else old.dtype
    value = _numbers(name, new, dtype, ()).astype(dtype)[()]
    return value if isinstance(old, np.generic) else value.item()


def _filled(name: str, old: RawTensor, new: Any) -> RawTensor:
    """A tensor or array like the old one."""
    backend, shape = backends.backend_of_raw(old), tuple(old.shape)
    if type(new) is type(old) and tuple(new.shape) == shape and new.dtype == old.dtype:
        numbers: RawTensor = new.detach() if backend_of(new) is not None else new
    else:
        like = np.asarray(old if isinstance(old, np.ndarray) else backend.to_numpy_raw(old[..., :0] if shape else old))
        numbers = np.array(_numbers(name, new, like.dtype, shape))
    if isinstance(old, np.ndarray):
        return np.array(numbers, old.dtype)
    raw = backend.convert_raw(numbers, backend.get_dtype_name_raw(old), backend.get_device_raw(old))
    return backend.snapshot_raw(raw)


def _numbers(name: str, new: object, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers as an array of a shape, which a dtype can hold."""
    backend = backend_of(new)
    try:
        array = np.asarray(new if backend is None else backend.to_numpy_raw(new))
        array = np.broadcast_to(array, shape)
    except (ValueError, TypeError):
        raise _refused(name, new, f"shape {list(shape)}") from None
    if array.dtype.kind not in "biufc":
        raise _refused(name, new, f"numbers that fit {dtype}")
    if array.dtype.kind == "c" and dtype.kind != "c":
        fits = False
    else:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
            equal = converted == array if dtype.kind in "biu" else np.isfinite(converted) >= np.isfinite(array)
        fits = bool(equal.all()) and (dtype.kind != "b" or array.dtype.kind == "b")
    if not fits:
        raise DtypeError(f"`{name}` cannot hold this value", got=_text(new), expected=str(dtype))
    return array


def _refused(name: str, new: object, expected: str) -> LoopError:
    return LoopError(f"`{name}` cannot have this value", got=_text(new), expected=expected)


def _text(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {list(shape)}" if shape else printable(repr(value))[:60]
