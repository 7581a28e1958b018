"""The planner: from the dims of operands to how their axes are permuted and expanded. It never sees data."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import RawTensor

_serials = itertools.count(1)
_interned: weakref.WeakValueDictionary[tuple[int, ...], Sig] = weakref.WeakValueDictionary()
_RECENT = 1024  # signatures kept alive, so that plans outlive the tensors of a step
_BATCHES = 8  # the same of dims that are made for one batch: more would hold much memory apart
serial_of = attrgetter("serial")
_PLANS = 256  # maximum number of plans kept per signature
_recent: deque[Sig] = deque(maxlen=_RECENT)
_of_batches: deque[tuple[int, deque[Sig]]] = deque(maxlen=_BATCHES)  # by the serial of the newest dim

Move = tuple[tuple[int, ...] | None, tuple[slice | None, ...] | None] | None
"""How to bring one operand into place: a permutation, then an index that inserts axes; None: nothing to do."""


class _Serials(dict[tuple["Dim", ...], tuple[int, ...]]):
    def __missing__(self, dims: tuple[Dim, ...]) -> tuple[int, ...]:
        serials = self[dims] = tuple(dim.serial for dim in dims)
        return serials


class Sig:
    """The dims of a tensor and their roles. Interned, so comparing the dims of two tensors is an identity check."""

    __slots__ = (
        "__weakref__",
        "batched",
        "dims",
        "feature_dim",
        "frames",
        "index",
        "plans",
        "priority_copies",
        "roots",
        "serial",
        "serials",
        "sparse_dim",
    )

    def __init__(self, dims: tuple[Dim, ...], sparse_dim: Dim | None, feature_dim: Dim | None):
        self.dims = dims
        self.sparse_dim = sparse_dim
        self.feature_dim = feature_dim
        self.serial = next(_serials)
        self.serials = _Serials()  # of some of the dims: for the keys of what `Lengths` keep, which must not hold dims
        self.index = {dim: axis for axis, dim in enumerate(dims)}
        copies = [dim for dim in dims if dim.expr is not None and dim.base is not dim]
        self.priority_copies = {dim.base: dim for dim in sorted(copies, key=lambda dim: dim.match_priority)}
        self._look_at_sizes()

    def _look_at_sizes(self) -> None:
        self.batched, self.roots, frames = False, dict[int, "Dim"](), []
        for dim in self.dims:
            is_batch = dim.kind == "batch"
            self.batched = self.batched or is_batch
            if dim.dimension is None:
                self.roots.update(dim.roots)
                if not is_batch:
                    frames.append(dim)
        self.frames = tuple(frames)  # may have padding
        self.plans: dict[Any, Any] = {}

    def __copy__(self) -> Sig:
        return self

    def __deepcopy__(self, memo: object) -> Sig:
        return self

    def resolve(self, dim: Dim, among: Sequence[Dim] = ()) -> Dim:
        """The dim that `dim` refers to: of the two axes of a square matrix, the one with the higher priority.

        among: dims that are named together with `dim`; if that one is among them, `dim` refers to the other.
        """
        if dim in self.index and dim not in self.priority_copies:
            return dim
        base = getattr(dim, "base", dim)
        copy = self.priority_copies.get(base, base)
        return dim if copy in among else copy

    def resolve_all(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """The dims that `dims`, which are named together, refer to."""
        return tuple(self.resolve(dim, dims) for dim in dims)

    def keep(self, key: object, plan: object) -> Any:
        """Stores a plan; the table is bounded."""
        if len(self.plans) >= _PLANS:
            self.plans.clear()
        self.plans[key] = plan
        return plan


def sig(dims: Sequence[Dim], sparse_dim: Dim | None = None, feature_dim: Dim | None = None) -> Sig:
    """The signature of these dims. Raises DimError if a dim occurs twice."""
    key = tuple(map(serial_of, dims))
    if sparse_dim is not None or feature_dim is not None:
        key += (-1, sparse_dim.serial if sparse_dim else -1, feature_dim.serial if feature_dim else -1)
    entry = _interned.get(key)
    if entry is None:
        dims = tuple(dims)
        if len(set(dims)) < len(dims):
            twice = next(dim for dim in dims if dims.count(dim) > 1)
            raise DimError(
                f"{twice.name} occurs twice in the dims of one tensor",
                got=f"{{{', '.join(dim.name for dim in dims)}}}",
                hint="give one of the axes a Dim of its own",
            )
        entry = _interned.setdefault(key, Sig(dims, sparse_dim, feature_dim))  # another thread may have been quicker
        _keep_alive(entry)
    return entry


def _keep_alive(entry: Sig) -> None:
    """Keeps a signature for the next step; one of a dim that was made for this batch only for a few batches."""
    fresh = max((serial for serial, root in entry.roots.items() if not root.is_bound_again), default=0)
    if not fresh:
        _recent.append(entry)
        return
    for serial, entries in tuple(_of_batches):
        if serial == fresh:
            entries.append(entry)
            return
    _of_batches.append((fresh, deque((entry,), _RECENT)))


EMPTY_SIG = sig(())


def forget(dims: Sequence[Dim]) -> None:
    """Discards all plans with these dims, because their sizes now come from elsewhere."""
    for signature in list(_interned.values()):
        if not signature.index.keys().isdisjoint(dims):
            signature._look_at_sizes()


def forget_all_plans() -> None:
    """Discards all plans, because what they may do has changed."""
    for signature in list(_interned.values()):
        signature.plans.clear()


def without(signature: Sig, removed: Sequence[Dim]) -> Sig:
    """The signature of a tensor that lost the dims `removed`."""
    feature = signature.feature_dim
    return sig(
        [dim for dim in signature.dims if dim not in removed],
        signature.sparse_dim,
        None if feature in removed else feature,
    )


def broadcast(
    dims_of: Sequence[Sequence[Dim]], order: Sequence[Dim] | None = None
) -> tuple[tuple[Dim, ...], list[Move]]:
    """The dims of a result that has all dims of the operands, and how to bring each operand there.

    Without `order`, the dims of the operand with most dims come first; if there are several, those of the first one.
    """
    if order is None:
        longest = max(dims_of, key=len)
        out = list(longest)
        for dims in dims_of:
            out += [dim for dim in dims if dim not in out]
    else:
        out = list(order)
    return tuple(out), [move(dims, out) for dims in dims_of]


def move(dims: Sequence[Dim], out: Sequence[Dim], *, trailing: bool = True) -> Move:
    """How to bring a tensor with `dims` into the order `out`, with axes of size 1 for what it does not have.

    trailing: leading axes of size 1 are left out, because broadcasting inserts them.
    """
    count = len(dims)
    if (trailing or count == len(out)) and tuple(out[len(out) - count :]) == tuple(dims):
        return None
    axis = {dim: i for i, dim in enumerate(dims)}
    perm = tuple([axis[dim] for dim in out if dim in axis])
    present = [dim in axis for dim in out]
    if trailing:
        while present and not present[0]:
            present.pop(0)
    index = None if all(present) else tuple([slice(None) if p else None for p in present])
    in_order = perm == tuple(range(len(perm)))
    if in_order and index is None:
        return None
    return (None if in_order else perm, index)


def apply(how: Move, raw: RawTensor) -> RawTensor:
    """`raw`, with its axes permuted and expanded as the move says."""
    if how is None:
        return raw
    perm, index = how
    if perm is not None:
        raw = permute(raw, perm)
    return raw if index is None else raw[index]


def permute(raw: RawTensor, perm: tuple[int, ...]) -> RawTensor:
    """`raw` with its axes in another order; also for arrays of lengths, which belong to no backend."""
    return raw.transpose(perm) if isinstance(raw, np.ndarray) else raw.permute(*perm)  # quicker than with a tuple


def show_dims(dims: Sequence[Dim]) -> str:
    """The dims with their current sizes, for messages: "{batch:2, time:5}"."""
    return "{" + ", ".join(dim.describe() for dim in dims) + "}"
