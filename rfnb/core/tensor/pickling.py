"""Pickling of tensors and dims.

A pickled Dim keeps its identity: in the process that made it, it is loaded as the same Dim; in another process, as one
new Dim, however often it is loaded. Places in the user's code and cached values are not pickled.
"""

from __future__ import annotations

import copyreg
import os
import weakref
from typing import Any

from rfnb.core.dims import align, dim_math
from rfnb.core.dims.dim import DIMS, Dim, batch_dim, single_step_dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab

_processes: list[tuple[int, str]] = [(0, os.urandom(8).hex())]
"""The process that assigned serial numbers, by the first number: after a fork, both processes count from the same."""

_guests: weakref.WeakValueDictionary[tuple[str, int], Dim] = weakref.WeakValueDictionary()
"""The dims of this process that stand for dims of other processes, by `key_of`."""


def _forked() -> None:
    _processes.append((Dim(None).serial, os.urandom(8).hex()))


os.register_at_fork(after_in_child=_forked)


SHARED = [batch_dim, single_step_dim]
"""The dims that exist in every process."""


def _shared(number: int) -> Dim:
    return SHARED[number]


def _maker(serial: int) -> str:
    return next(name for start, name in reversed(_processes) if start <= serial)


def key_of(dim: Dim) -> tuple[str, int]:
    """The process that made a dim and its serial number there. The key is the same in every process."""
    guest = next((key for key, guest_dim in _guests.items() if guest_dim is dim), None)
    return guest or (_maker(dim.serial), dim.serial)


def dim_by_key(key: tuple[str, int]) -> Dim | None:
    """The dim with this key, if it is alive in this process."""
    maker, serial = key
    dim = DIMS.get(serial) if maker == _maker(serial) else None
    return dim or _guests.get(key)


def remember(key: tuple[str, int], dim: Dim) -> Dim:
    """Registers `dim` as the Dim with this key in this process, and returns it."""
    _guests[key] = dim
    return dim


def _send_dim(dim: Dim) -> Any:
    if dim in SHARED:
        return _shared, (SHARED.index(dim),)
    if dim.expr is not None and dim_math.make(*dim.expr) is dim:
        return dim_math.make, tuple(dim.expr)
    return _dim, (*key_of(dim), dim.dimension, dim.name, dim.kind, dim.capacity, dim.vocab, dim.template)


def _dim(
    maker: str,
    serial: int,
    size: int | None,
    name: str,
    kind: str | None,
    capacity: int | None,
    vocab: Vocab | None,
    template: Tensor | None = None,
) -> Dim:
    dim = dim_by_key((maker, serial))
    if dim is None:
        new = Dim(size, name=name, kind=kind, capacity=capacity, vocab=vocab, dyn_size_ext=template)
        dim = remember((maker, serial), new)
    return dim


def _size(dims: tuple[Dim, ...], values: object, tags: list[str] | None, dtype: str | None = None) -> Size:
    return Size(dims, values, tags=tags, dtype=dtype)


def _lengths(sizes: dict[Dim, Size]) -> Lengths:
    """Makes the `Lengths` of a batch, and binds the dims that are not bound yet to it."""
    lengths = EMPTY.bind(sizes) if sizes else EMPTY
    for dim in sizes:
        if dim.bound is None and dim.is_dynamic():
            dim.bound = lengths
    return lengths


_NOT_PICKLED = {"__weakref__", "_name", "_emptied", "_lengths_of"}  # the last two mean something in this process only


def _send_tensor(tensor: Tensor) -> Any:
    slots = [slot for cls in type(tensor).__mro__ for slot in getattr(cls, "__slots__", ()) if slot not in _NOT_PICKLED]
    values = {slot: getattr(tensor, slot) for slot in slots if hasattr(tensor, slot)}
    return _tensor, (type(tensor), {**values, "_name": tensor.name})


def _tensor(cls: type[Tensor], values: dict[str, object]) -> Tensor:
    tensor = object.__new__(cls)
    for slot, value in {"_emptied": None, **values}.items():
        setattr(tensor, slot, value)
    return tensor


copyreg.pickle(Dim, _send_dim)
copyreg.pickle(Size, lambda size: (_size, (size.dims, size.values, size.tags, size.dtype)))
copyreg.pickle(Lengths, lambda lengths: (_lengths, ({DIMS[s]: n for s, n in lengths.sizes.items() if s in DIMS},)))
copyreg.pickle(align.Sig, lambda sig: (align.sig, (sig.dims, sig.sparse_dim, sig.feature_dim)))
copyreg.pickle(Tensor, _send_tensor)
copyreg.pickle(Parameter, _send_tensor)
