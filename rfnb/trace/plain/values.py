"""Values of variables as they were after a line: by reference where changes in place can be seen, else copied."""

from __future__ import annotations

import dataclasses
import gc
import random
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, islice, repeat
from operator import attrgetter, call, is_, is_not
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
)
from typing import Any

import numpy as np

from rfnb.core.ground import backends
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.trace.plain.containers import (
    PLAIN,
    SEQUENCES,
    extra_of,
    is_atom,
    length_of,
    parts_of,
    places_in,
    reference,
)
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run.variables import NUMBERS, Grown

SMALL = 2**16
"""Bytes of a value without a counter of changes that is compared at each line that reads it."""
MEDIUM = 2**22
"""Bytes of a value without a counter of changes that is compared at the end of each iteration."""
LARGE = 2**26
"""Bytes of a value without a counter of changes that is copied; larger ones may have changed when they are read."""
LONG = 16
"""Number of parts from which on those of a container are compared as a whole."""
MANY_PARTS = 64
"""Number of parts, also of those inside, from which on a container of containers or objects is compared less and less
often while it stays as it is, but for its length, by lines that are not known to change it. A change that is undone in
between is not seen."""
FEW_HUNDRED = 256
"""Number of parts up to which such a container is compared at the beginning of each iteration."""
MOST_SKIPPED = 64
"""Number of times in a row that such a container is not compared."""
MORE_SKIPPED = 1024
"""Number of parts of a list that grows for which it is once more not compared."""
COMPARED = 8
"""Number of times that a list that grows is as it was before its longer values are compared less often."""
MOST_PARTS = 4096
"""Number of parts of a container that are kept; of a list that grows, of those that are new."""
MOST_GROWN = 2**16  # of a list that grows
DEEPEST = 6
"""Levels of containers in containers that are kept."""
MAY = "may have changed later"


class Opaque:
    """Stands for an object of which only the type is kept, and for a function or method `inside`, what it refers to."""

    __slots__ = ("inside", "kind", "type")

    def __init__(self, value: object, inside: Parts | None = None):
        self.type, self.inside = type(value), inside
        self.kind = self.type.__name__

    def __repr__(self) -> str:
        return f"<{self.kind}>"


class Growth(Grown):
    """The parts of a list that grows, which its values after several lines share.

    entries: in how many entries of the log it is. held, counted: of how many parts the memory, and the objects, are
    counted. has_kept: whether some are not atoms. is_flat: whether all are atoms and tensors; is_plain: these by
    reference, so that they need no look at each step. total: their number, with those inside. compared: how often they
    were as before. to_skip: how often a new value will not be compared. unsure: values since the last comparison.
    """

    def __init__(self, parts: Iterable[object]):
        super().__init__()
        self.entries = self.held = self.counted = self.total = self.compared = self.to_skip = 0
        self.unsure: list[Kept] = []
        self._tensors: tuple[list[int], list[Kept]] = [], []  # which part each is in, and the tensors
        self._objects: tuple[list[int], list[Kept]] = [], []
        self._is_watched = True  # whether objects of parts live, or it is known when they are gone
        self.has_kept, self.is_plain, self.is_flat, self._places = False, True, True, b""
        self._watched: list[object] = []  # references to the objects of parts
        self._died: list[object] = []  # those of them that are gone, so that other objects may be where they were
        self.add(parts, None, False)

    def add(self, parts: Iterable[object], value: list[object] | None, is_known: bool) -> None:
        """Adds parts, with which it has those of a list. is_known: that list has the same objects before them."""
        at = len(self.parts)
        self.parts += parts
        new = [part for part in self.parts[at:] if type(part) is Kept]
        self.has_kept = self.has_kept or bool(new)
        self.is_plain = self.is_plain and all(map(_is_plain_part, new))
        self.is_flat = self.is_flat and all(part.backend is not None for part in new)
        self.total += len(self.parts) - at + sum(part.value.total for part in new if type(part.value) is Parts)
        for number, part in enumerate(self.parts[at:] if new else (), at):
            for (numbers, members), look in ((self._tensors, tensors_in), (self._objects, objects_in)):
                members += look(part)
                numbers += repeat(number, len(members) - len(numbers))
        for part in new:
            if part.original is None:
                self._is_watched = False
            elif isinstance(part.origin, weakref.ref):
                self._watched.append(weakref.ref(part.original, self._died.append))
        if value is not None and not is_known:  # equal numbers may be other objects, which nothing keeps
            is_known = all(type(part) is Kept or part is item for part, item in zip(self.parts, value, strict=True))
        self._places = places_in(value, len(self.parts)) if value is not None and is_known else b""

    def let_go(self) -> None:
        """Watches its objects no longer."""
        self._watched, self._places = [], b""

    def begins(self, value: list[object], length: int) -> bool:
        """Whether a list has the same objects at so many first places; False also if that is not known."""
        is_short = self.is_plain and self.has_kept and length <= LONG  # which is compared closely
        if is_short or not self._is_watched or self._died or 8 * length > len(self._places):
            return False
        return places_in(value, length) == self._places[: 8 * length]

    def tensors(self, length: int) -> Iterator[Kept]:
        """The tensors and arrays in so many first parts."""
        return islice(self._tensors[1], bisect_left(self._tensors[0], length))

    def objects(self, length: int) -> Iterator[Kept]:
        """The objects in so many first parts that can change where no line shows it."""
        return islice(self._objects[1], bisect_left(self._objects[0], length))


class Parts:
    """A container as it was: its kind, and its parts by key.

    extra: how long a deque may be, what makes the missing entries of a defaultdict. total: the number of parts, with
    those inside. skipped: how often it was not compared since it was the last time. to_skip: how often it will not be.
    has_tensors: whether there are tensors or arrays inside. is_constant: whether it is a tuple of atoms or such tuples.
    """

    __slots__ = tuple(
        "_is_flat _items _opened extra has_tensors is_constant keys kind length skipped to_skip total".split()
    )

    def __init__(
        self,
        kind: type,
        keys: tuple[Any, ...] | None,
        items: tuple[object, ...] | Growth,
        length: int,
        extra: object = None,
    ):
        self.kind, self.keys, self._items, self.length, self.extra = kind, keys, items, length, extra
        self._opened: list[object] | None = None
        self._is_flat: bool | None = None
        self.skipped = self.to_skip = 0
        if isinstance(items, Growth):
            self.total, self.to_skip, self.has_tensors = items.total, items.to_skip, any(items.tensors(length))
            self.is_constant = False
            return
        parts = [item for item in items if type(item) is Kept]
        self.total = length + sum(part.value.total for part in parts if type(part.value) is Parts)
        self.has_tensors = any(map(_has_tensors, parts))
        self.is_constant = kind is tuple and all(map(_is_constant, parts))

    @property
    def growth(self) -> Growth | None:
        """What it shares with later values of the list."""
        return self._items if type(self._items) is Growth else None

    @property
    def items(self) -> Sequence[Any]:
        """The parts."""
        return self._items.parts[: self.length] if isinstance(self._items, Growth) else self._items

    def numbers(self) -> object:
        """The parts of a list or tuple of numbers; None for others."""
        if not self.length or not issubclass(self.kind, list | tuple):
            return None
        if self.growth is not None:
            return self.growth.numbers(self.length)
        return self.items if all(issubclass(kind, NUMBERS) for kind in {*map(type, self.items)}) else None

    @property
    def is_flat(self) -> bool:
        """Whether all parts are atoms and tensors, or tuples of them, which are compared without a loop of Python."""
        if self.growth is not None:
            return self.growth.is_flat
        if self._is_flat is None:
            self._is_flat = all(part.backend is not None for part in self.opened if type(part) is Kept)
        return self._is_flat

    @property
    def opened(self) -> Sequence[object]:
        """The parts, with those of tuples, but for atoms, in place of the tuples, which cannot change."""
        if type(self._items) is Growth:
            return self.items
        if self._opened is None:
            self._opened = [part for item in self.items for part in _opened(item)]
        return self._opened

    def named(self) -> Iterator[tuple[str, object]]:
        """The parts with their names."""
        keys = range(len(self.items)) if self.keys is None else self.keys
        yield from ((str(key), item) for key, item in zip(keys, self.items, strict=True))


class Kept:
    """A tensor or array, or the value of a variable, as it was after a line.

    value: a raw tensor that shares memory, a copy, an atom, `Parts` or `Opaque`. origin: gives the object that was
    kept, while it lives; None if it is `value`. version: of the raw tensor when it was kept; None where nothing counts
    its changes. backend: of the raw tensor. note: what is to be said about the value. compared: whether changes in
    place are looked for at each line. holders: in how many entries of the log it is. copied_at: of a copy, the version
    of the raw tensor when it was taken. identity: the `id` of the object, which no other one had at that time. layout:
    of a copy, where the memory was, and how many bytes entries are apart on each axis. gradient: whether it was a leaf
    that needs a gradient (1), or the result of something that does (2).
    """

    __slots__ = tuple(
        "__weakref__ backend compared copied_at gradient holders identity layout note origin value version".split()
    )

    def __init__(
        self,
        value: Any,
        origin: Callable[[], object] | None = None,
        version: int | None = None,
        backend: Any = None,
        note: str = "",
        compared: bool = True,
    ):
        self.value, self.origin, self.version, self.backend, self.note = value, origin, version, backend, note
        self.compared, self.holders, self.gradient, self.identity = compared, 0, 0, 0
        self.copied_at: int | None = None
        self.layout: tuple[int, tuple[int, ...]] | None = None

    @classmethod
    def of_raw(cls, raw: RawTensor, version: int) -> Kept:
        """A raw tensor with the version that it had; no autograd graph is kept."""
        backend = backend_of(raw)
        snapshot = cls(backend.alias_raw(raw), weakref.ref(raw), version, backend)
        snapshot.identity = id(raw)
        return snapshot

    @property
    def original(self) -> Any:
        """The object that was kept; None if it no longer exists."""
        return self.value if self.origin is None else self.origin()

    def is_of(self, value: object) -> bool:
        """Whether a value is the object that was kept; None is not an object that no longer exists."""
        return self.original is value and (value is not None or self.origin is None)

    def is_as_it_was(self, value: object, raw_kind: type) -> bool:
        """Whether a value is the object that was kept, which cannot have changed; False also if that is not plain.

        raw_kind: the type of tensors that can be asked for their version by any code.
        """
        if value is None or self.origin is None or self.origin() is not value:
            return False
        kind = type(self.value)
        return kind is Opaque or (kind is raw_kind and self.version is not None and not self.changed())

    def grown(self, value: list[object]) -> Kept | None:
        """The value of a list that has only got more items; None for others, and if a closer look is needed."""
        parts, growth = self.value, growth_of(self)
        if growth is None or len(growth.parts) != parts.length or parts.skipped or self.original is not value:
            return None
        if not parts.length < len(value) or not growth.is_plain or not growth.begins(value, parts.length):
            return None
        spare = MOST_PARTS - len(value) + parts.length
        if spare < 0 or len(value) > MOST_GROWN:
            return None
        snapshot = _grown(value, growth, parts.length, 0, [spare], False)
        snapshot.identity, self.origin = id(value), _gone
        return snapshot

    @property
    def raw(self) -> RawTensor:
        """The raw tensor."""
        return self.value._raw if isinstance(self.value, Tensor) else self.value

    def changed(self) -> bool:
        """Whether the memory that is shared was written after the value was kept."""
        return self.version is not None and self.backend.current_version_raw(self.raw) != self.version

    def was_written(self) -> bool:
        """Whether the memory of the object was written after it was kept, also if a copy was taken before."""
        value = self.original
        if self.copied_at is None or value is None:
            return self.changed()
        return bool(self.backend.version_raw(value._raw if isinstance(value, Tensor) else value) != self.copied_at)

    def separate(self) -> None:
        """Takes a copy, before the memory that is shared is written; the change will be seen."""
        self.compared = True
        if self.note == MAY:
            self.note = ""
        elif self.version is None or self.changed():
            return
        value = self.value
        if isinstance(value, np.ndarray):
            self.value = value.copy()
            return
        copied = self.backend.snapshot_raw(self.raw)
        self.layout = self.backend.layout_raw(self.raw)
        if self.origin is None:
            self.origin = weakref.ref(value)
        self.value = tensor_of(copied, value.sig, value.lengths) if isinstance(value, Tensor) else copied
        self.copied_at, self.version = self.version, None

    def settle(self) -> None:
        """Compares a container of many parts, which may have been left out; the value is marked if it has changed."""
        parts = self.value
        if isinstance(parts, Parts) and parts.skipped:
            value = self.original
            self.mark(value is not None and _same_parts(value, parts, MEDIUM, False), value)

    def mark(self, same: bool, value: object) -> None:
        """Takes whether a container of many parts is the same now; if not, it may have changed when it was left out."""
        parts, growth = self.value, self.value.growth
        if parts.skipped and not same and not (type(value) is list and _has_grown(parts, value, MEDIUM)):
            for snapshot in (self, *(growth.unsure if growth is not None else ())):
                snapshot.note = MAY
        limit = MOST_SKIPPED if growth is None else max(MOST_SKIPPED, parts.total // MORE_SKIPPED)
        parts.skipped, parts.to_skip = 0, min(2 * parts.to_skip + 1, limit)
        if growth is not None:
            growth.unsure, growth.compared = [], growth.compared + 1
            growth.to_skip = parts.to_skip if growth.compared > COMPARED else 0

    def continues(self, value: list[object]) -> bool:
        """Whether a list that has grown, of which the first objects are the same, is not compared with them."""
        parts = self.value
        if self.note or parts.is_flat or parts.total <= FEW_HUNDRED or parts.skipped >= parts.to_skip:
            return False
        return len(parts.growth.parts) == parts.length < len(value)

    def pass_on(self, later: Kept) -> None:
        """A value after this one, of the same list that grows, will be compared in place of it."""
        parts = self.value
        parts.growth.unsure.append(self)
        later.value.skipped, later.value.to_skip, parts.skipped = parts.skipped + 1, parts.to_skip, 0

    def let_go(self, parts: bool = True) -> None:
        """Keeps an object alive no longer that cannot be referenced weakly, such as a list with its tensors."""
        self.settle()
        if self.origin is not None and not isinstance(self.origin, weakref.ref) and not self._is_small():
            self.origin = _gone
        contents = self.value.inside if isinstance(self.value, Opaque) else self.value
        for part in contents.items if parts and isinstance(contents, Parts) else ():
            if isinstance(part, Kept):
                part.let_go()
        if parts and (growth := growth_of(self)) is not None:
            growth.let_go()

    def _is_small(self) -> bool:
        """Whether it is an object that holds no others, such as a device, or a tuple of atoms."""
        return _is_constant(self) or (isinstance(self.value, Opaque) and not gc.is_tracked(self.original))

    @property
    def bytes(self) -> int:
        """The memory of a tensor or array, and of those in a container."""
        if self.backend is not None:
            return int(self.backend.nbytes_raw(self.raw))
        if isinstance(self.value, Parts):
            return sum(part.bytes for part in tensors_in(self.value))
        return self.value.nbytes if isinstance(self.value, np.ndarray) else 0


def _gone() -> None:
    """Stands for an object that is kept alive no longer."""


def hold(kept: object) -> int:
    """The memory that one more entry of the log needs."""
    if type(kept) is Kept and kept.backend is not None:
        kept.holders += 1
        return kept.bytes if kept.holders == 1 else 0
    growth = growth_of(kept)
    if growth is not None:
        growth.entries += 1
        new, growth.held = growth.parts[growth.held :], len(growth.parts)
        return sum(map(hold, new))
    return _count(kept, 1, 1)


def _count(kept: object, change: int, last: int) -> int:
    """Changes in how many entries the tensors in a value are; the bytes of those that are in so many then."""
    size = 0
    for part in tensors_in(kept):
        part.holders += change
        size += part.bytes if part.holders == last else 0
    return size


def drop(kept: object) -> int:
    """The memory that is free without an entry of the log."""
    growth = growth_of(kept)
    if growth is not None:
        growth.entries -= 1
        return sum(map(drop, growth.parts)) if not growth.entries else 0
    return _count(kept, -1, 0)


def _is_plain_part(part: Kept) -> bool:
    """Whether it is a tensor by reference that needs no look at each step."""
    return part.version is not None and part.gradient != 1 and isinstance(part.origin, weakref.ref)


def has_objects(kept: Kept) -> bool:
    """Whether there may be objects in a value that can change where no line shows it."""
    if kept.backend is not None:
        return kept.gradient == 1
    parts = kept.value
    if not isinstance(parts, Parts):
        return True
    return bool(parts.length) if parts.growth is None else any(parts.growth.objects(parts.length))


def has_stayed(old: object, new: object) -> bool:
    """Whether all parts that a container had are in the value after it, or it had none."""
    return growth_of(new) is not None or (type(old) is Kept and isinstance(old.value, Parts) and not old.value.length)


def growth_of(kept: object) -> Growth | None:
    """What the value of a list that grows shares with its earlier ones."""
    return kept.value.growth if isinstance(kept, Kept) and isinstance(kept.value, Parts) else None


def version_of(value: object) -> int | None:
    """The version of a raw tensor that can be kept as it is; None for all other values."""
    kind = type(value)
    if kind not in _by_type:
        backend_of(value)
    backend = _by_type[kind]
    return None if backend is None else backend.counted_version_raw(value)


def keep(value: object, copied: bool = False, before: object = None) -> Kept:
    """The value of a variable, as it is now. copied: also tensors that count their changes. before: its last one."""
    return Kept(value) if is_atom(value) else _kept(value, 0, [MOST_PARTS], copied, before)


def is_opaque(value: object) -> bool:
    """Whether only the type of a value is kept."""
    kind = type(value)
    if is_atom(value) or backend_of(value) is not None or dataclasses.is_dataclass(kind):
        return False
    return not issubclass(kind, (Tensor, np.ndarray, dict, *SEQUENCES))


def is_same(value: Any, kept: object, limit: int = SMALL, closely: bool = False) -> bool:
    """Whether a variable still has the value that was kept of it: a `Kept`, or a value that cannot change.

    limit: the bytes of values that are compared, if nothing counts their changes. closely: in containers of many parts,
    too, it is looked whether tensors that count their changes have changed, which else is seen when they are read, and
    they are compared each time. Else it may be found out later that one has changed: then its value is marked. With
    the limit MEDIUM, at the beginning of iterations, only those of a few hundred parts are left out; those of tensors,
    numbers and texts alone never are.
    """
    if not isinstance(kept, Kept) or not isinstance(parts := kept.value, Parts) or closely:
        return _is_same(value, kept, limit, closely)
    if not kept.is_of(value):
        return False
    if parts.growth is not None:
        if len(value) != parts.length:
            return False  # if it was skipped, it is compared with the next value, or settled
        if parts.growth.is_plain and parts.growth.begins(value, parts.length):
            return True
    if parts.total <= MANY_PARTS:
        return _is_same(value, kept, limit, closely)
    may_skip = not parts.is_flat and (limit == SMALL or parts.total > FEW_HUNDRED)
    may_skip = may_skip and (parts.growth is None or parts.growth.begins(value, parts.length))
    if may_skip and parts.skipped < parts.to_skip and length_of(value) == parts.length:
        parts.skipped += 1
        return True
    is_equal = _same_parts(value, parts, MEDIUM, False)
    kept.mark(is_equal, value)
    return is_equal


def _is_same(value: Any, kept: object, limit: int, closely: bool) -> bool:
    if not isinstance(kept, Kept):
        return type(kept) is type(value) and (kept is value or bool(kept == value))
    if not kept.is_of(value):
        return False
    if kept.version is not None:
        return not kept.changed()
    if isinstance(kept.value, Parts):
        return kept.value.is_constant or _same_parts(value, kept.value, limit, closely)
    if kept.copied_at is not None:
        return bool(kept.backend.version_raw(value._raw if isinstance(value, Tensor) else value) == kept.copied_at)
    if is_atom(value) or not (kept.compared or kept.bytes <= limit):
        return True
    if isinstance(kept.value, np.ndarray):
        return _same_array(value, kept.value)
    if kept.backend is not None:
        return bool(kept.backend.same_raw(value._raw if isinstance(value, Tensor) else value, kept.raw))
    return True


def _same_array(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are bitwise equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.flags.c_contiguous and b.flags.c_contiguous and not a.dtype.hasobject:
        return bool((a.reshape(-1).view(np.uint8) == b.reshape(-1).view(np.uint8)).all())  # which needs no copies
    return a.tobytes() == b.tobytes()


def _kept(value: object, depth: int, spare: list[int], copied: bool, before: object = None) -> Kept:
    snapshot = _new(value, depth, spare, copied, before)
    snapshot.identity = id(value)
    return snapshot


def _new(value: Any, depth: int, spare: list[int], copied: bool, before: Any) -> Kept:
    kind = type(value)
    if (backend := _by_type.get(kind)) is not None:
        return _kept_raw(value, value, backend, copied)
    if issubclass(kind, np.ndarray):
        shared = value.nbytes > LARGE
        copy = value.view() if shared else value.copy()
        snapshot = Kept(copy, reference(value), note=MAY if shared else "", compared=value.nbytes <= SMALL)
        snapshot.layout = value.__array_interface__["data"][0], value.strides
        return snapshot
    if issubclass(kind, Traced | Pending):  # of an `rf.Loop`, whose numbers differ at every step
        return Kept(Opaque(value), reference(value))
    raw = value._raw if issubclass(kind, Tensor) and value.raw_tensor is not None else value
    backend = backend_of(raw)
    if backend is not None:
        return _kept_raw(value, raw, backend, copied)
    origin = reference(value)
    past = before.value if isinstance(before, Kept) and isinstance(before.value, Parts) else None
    new = len(value) - (past.length if past is not None and past.growth is not None else 0) if kind is list else 0
    is_long = kind is list and (new > spare[0] or len(value) > MOST_GROWN)
    if kind is list and past is not None and past.kind is list and not is_long and past.length <= len(value):
        growth = past.growth
        is_known = growth is not None and growth.begins(value, past.length)
        is_sure = growth is not None and growth.is_plain and is_known
        if growth is not None and past.length == len(value):
            if is_sure or _begins_with(tuple(value), past, SMALL, False):  # as it was since it has grown
                return Kept(Parts(list, None, growth, past.length), origin)
            is_known = is_sure = False
        continues = is_known and not is_sure and depth == 0 and before.continues(value)
        if is_sure or continues or _has_grown(past, value, MEDIUM if past.skipped else SMALL):
            spare[0] -= new
            if growth is not None and not is_sure and not continues and depth == 0:
                before.mark(True, value)
            if growth is None or len(growth.parts) > past.length:
                growth, is_known = Growth(past.items), False
            snapshot = _grown(value, growth, past.length, depth, spare, copied, is_known)
            if continues:
                before.pass_on(snapshot)
            return snapshot
    is_long = is_long or (kind is list and len(value) > spare[0])
    known_keys = () if past is None else past.keys or ()
    parts = ((), value) if is_long else parts_of(value, known_keys) if depth < DEEPEST else None
    if parts is None:
        return Kept(Opaque(value, _inside(value, depth, spare)), origin)
    keys, items = parts
    spare[0] -= len(items)
    if is_long or spare[0] < 0:
        return Kept(Opaque(value), origin, note=f"more than {MOST_PARTS} parts, which are not kept")
    old = () if past is None else past.items
    if not PLAIN.issuperset(map(type, items)):
        items = tuple(
            item
            if is_atom(item)
            else was
            if isinstance(was, Kept)
            and (was.backend is not None or _is_constant(was) or _is_weak(was))
            and is_same(item, was, MEDIUM)
            else _kept(item, depth + 1, spare, copied, was)
            for item, was in zip(items, chain(old, repeat(None)), strict=False)
        )
    return Kept(Parts(kind, keys, items, len(items), extra_of(value)), origin)


def _grown(
    value: list[object], growth: Growth, length: int, depth: int, spare: list[int], copied: bool, is_known: bool = True
) -> Kept:
    """The value of a list that had so many items before. is_known: these are where they were."""
    new = (item if is_atom(item) else _kept(item, depth + 1, spare, copied) for item in value[length:])
    growth.add(new, value, is_known)
    return Kept(Parts(list, None, growth, len(value)), lambda: value)


def _inside(value: Any, depth: int, spare: list[int]) -> Parts | None:
    """What a function or method refers to, where it may be gone when the loop has ended."""
    if depth >= DEEPEST:
        return None
    if type(value) is MethodType:
        return Parts(MethodType, None, (_kept(value.__self__, depth + 1, spare, False),), 1, value.__func__)
    if type(value) is partial:
        items = value.func, value.args, value.keywords
        return Parts(partial, None, tuple(_kept(item, depth + 1, spare, False) for item in items), 3)
    if type(value) in (BuiltinMethodType, MethodWrapperType) and not isinstance(
        value.__self__, NoneType | ModuleType | type
    ):
        if any(value.__self__ is shared for shared in SHARED):
            return None
        return Parts(type(value), None, (_kept(value.__self__, depth + 1, spare, False),), 1, value.__name__)
    if type(value) is not FunctionType or "<locals>" not in value.__qualname__:
        return None
    names, cells = value.__code__.co_freevars, value.__closure__ or ()
    contents = [cell_content(cell) for cell in cells]
    parts = tuple(item if is_atom(item) else _kept(item, depth + 1, spare, False) for item in contents)
    about = value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__kwdefaults__
    return Parts(FunctionType, names, parts, len(parts), about)


def cell_content(cell: CellType) -> object:
    """What a closure holds in a cell."""
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


SHARED: tuple[object, ...] = (random._inst, np.random.mtrand._rand)
"""The generators that functions of Python and numpy draw from, which are methods of them."""


def _kept_raw(value: RawTensor, raw: RawTensor, backend: Any, copied: bool) -> Kept:
    """A raw tensor, or the Tensor that has it; of sparse ones, and inside of transforms, only the type is kept."""
    if not backend.is_readable_raw(raw):
        return Kept(Opaque(value), reference(value))
    version = backend.current_version_raw(raw) if not copied and backend.counts_changes_raw(raw) else None
    size = backend.nbytes_raw(raw) if version is None else 0
    shared = version is not None or size > LARGE
    copy = backend.alias_raw(raw) if shared else backend.snapshot_raw(raw)
    copy = copy if value is raw else tensor_of(copy, value.sig, value.lengths)
    snapshot = Kept(copy, reference(value), version, backend, MAY if size > LARGE else "", size <= SMALL)
    snapshot.layout = None if shared else backend.layout_raw(raw)
    snapshot.gradient = backend.needs_gradient_raw(raw) and 2 - backend.is_leaf_raw(raw)
    return snapshot


_by_type = backends.table_by_type()


def backend_of(value: object) -> Any:
    """The backend of a raw tensor; None for arrays of numpy, which count no changes, and for other values."""
    kind = type(value)
    if kind not in _by_type:
        is_raw = issubclass(kind, tuple(backends.BACKENDS)) and not issubclass(kind, np.ndarray)
        _by_type[kind] = backends.backend_of_raw(value) if is_raw else None
    return _by_type[kind]


def tensor_backend() -> Any:
    """The backend of torch, whose tensors plain code computes with, also where rfnb makes arrays of numpy."""
    return backends.BACKENDS[tensor_type()]


def tensor_type() -> type:
    """The type of the raw tensors of that backend."""
    return next(kind for kind in backends.BACKENDS if not issubclass(kind, np.ndarray))


def _same_parts(value: Any, parts: Parts, limit: int, closely: bool) -> bool:
    if parts.kind is list and len(value) != parts.length:
        return False
    current = parts_of(value, parts.keys or ())
    if current is None:
        return True
    keys, items = current
    return len(items) == parts.length and keys == parts.keys and _begins_with(items, parts, limit, closely)


def _has_grown(parts: Parts, value: list[object], limit: int = SMALL) -> bool:
    """Whether a list has got more items, and no other ones in place of those that it had."""
    return 0 < parts.length < len(value) and _begins_with(tuple(value[: parts.length]), parts, limit, False)


def _opened(item: object) -> Iterator[object]:
    value = item.value if type(item) is Kept else None
    if not isinstance(value, Parts) or not issubclass(value.kind, tuple):
        yield item
        return
    for part in value.items:
        yield from _opened(part) if type(part) is Kept else ()


def _begins_with(items: tuple[object, ...], parts: Parts, limit: int, closely: bool) -> bool:
    """Whether the first items are those that were kept."""
    originals = parts.items
    pairs = [*compress(zip(items, originals, strict=False), map(is_not, items, originals))]
    if not pairs:
        return True
    if len(originals) > LONG and not closely:  # without a loop of Python
        try:
            if None not in map(_version, parts.opened) and not any(map(partial(is_, None), items)):
                return all(map(is_, map(call, map(_origin, originals)), items))
        except (AttributeError, TypeError):  # not all are tensors by reference
            pass
    return all(
        (type(original) is Kept and _is_same(item, original, limit, closely))
        or (type(item) is type(original) and type(item) in PLAIN and item == original)
        for item, original in pairs
    )


_version, _origin, _value = attrgetter("version"), attrgetter("origin"), attrgetter("value")


def _is_constant(kept: Kept) -> bool:
    return type(kept.value) is Parts and kept.value.is_constant


def _is_weak(kept: Kept) -> bool:
    return type(kept.value) is Opaque and isinstance(kept.origin, weakref.ref)


def _has_tensors(kept: Kept) -> bool:
    value = kept.value
    return kept.backend is not None or isinstance(value, np.ndarray) or (type(value) is Parts and value.has_tensors)


def tensors_in(kept: object) -> Iterator[Kept]:
    """The tensors and arrays of a value."""
    if isinstance(kept, Kept):
        if kept.backend is not None or isinstance(kept.value, np.ndarray):
            yield kept
        yield from tensors_in(kept.value) if isinstance(kept.value, Parts) else ()
    elif isinstance(kept, Parts) and kept.growth is not None:
        yield from kept.growth.tensors(kept.length)
    elif isinstance(kept, Parts) and kept.has_tensors:
        for item in kept.items:
            if type(item) is Kept and item.backend is not None:
                yield item
            else:
                yield from tensors_in(item)


def written_in(kept: object) -> set[int]:
    """Which of the tensors of a value were written after it was kept, also if copies were taken before."""
    parts = [*tensors_in(kept)]
    versions = [*map(_version, parts)]
    if len(parts) > LONG and None not in versions and all(type(part.value) is not Tensor for part in parts):
        current = [*map(parts[0].backend.current_version_raw, map(_value, parts))]
        if current == versions:
            return set()
    return {number for number, part in enumerate(parts) if part.was_written()}


def objects_in(kept: object) -> Iterator[Kept]:
    """The objects of a value that can change where no line shows it, also tensors with gradients of their own."""
    if isinstance(kept, Kept):
        if isinstance(kept.value, Opaque) or kept.gradient == 1:
            yield kept
        contents = kept.value.inside if isinstance(kept.value, Opaque) else kept.value
        if isinstance(contents, Parts) and contents.growth is not None:
            yield from contents.growth.objects(contents.length)
            return
        for item in contents.items if isinstance(contents, Parts) else ():
            if type(item) is Kept and (item.backend is None or item.gradient == 1):
                yield from objects_in(item)
