"""Finds the first op whose result for a sequence differs between a batch and the sequence alone.

>>> time = rf.Dim(None, name="time")
>>> x = rf.convert_to_tensor([[1.0, 2.0], [4.0]], dims=[rf.batch_dim, time])
>>> bool(rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time), x))
True
>>> rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time, use_mask=False), x).first.event.op
'reduce_mean'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from rfnb.core.dims.binding import bind_again, current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.dtype import has_fractions
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.argument_errors import not_a_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.errors import DimError, DtypeError, fact_lines
from rfnb.loop.check.finiteness import describe_operand
from rfnb.printable import terminal_text
from rfnb.trace.observe import Event, observing

TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float64": 1e-8}
"""Allowed difference by dtype, relative to the largest entry; 1e-4 for others, as the order of sums may change."""


@dataclass(frozen=True)
class Difference:
    """A result in the batch that differs from the result for the sequence alone.

    largest: the largest difference. together, alone: the two entries that differ most. at: their position, by dim.
    lengths: how the lengths differ, if they do. own_lengths: whether that dim has a length for each sequence. tensor,
    tensor_alone: the two results. place: the entry's position along each axis of `tensor`. operands: descriptions of
    the op's operands in the batch.
    """

    event: Event
    sequence: str
    largest: float
    together: float
    alone: float
    at: str
    lengths: str | None = None
    own_lengths: bool = True
    tensor: Tensor | None = None
    tensor_alone: Tensor | None = None
    place: tuple[int, ...] | None = None
    operands: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class BatchReport(Shown):
    """The result of `batch_invariance`; true if each sequence has the same results in the batch as alone.

    first: the first difference. results: how many results were compared. mixed: the first op that combines the
    sequences. skipped: how many ops ran only in the batch, or only alone. sequences: the number of sequences.
    """

    first: Difference | None
    results: int
    mixed: Event | None = None
    skipped: int = 0
    sequences: int = 0

    def __bool__(self) -> bool:
        return self.first is None

    def __repr__(self) -> str:
        if self.first is None:
            of = count_of(self.sequences, "single sequence")
            left = f"; {count_of(self.skipped, 'op')} ran only in the batch or only alone" if self.skipped else ""
            return f"batch invariance: {count_of(self.results, 'result')} agree with those of {of}{left}"
        head = f"batch invariance: {self.first.event.name} differs for {self.first.sequence}"
        return terminal_text("\n".join([head, *fact_lines(self.facts())]))

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the first difference, each with a label."""
        found = self.first
        if found is None:
            return []
        at = f", at {found.at}" if found.at else ""
        what = found.lengths or f"{found.together:.6g} in the batch, {found.alone:.6g} alone{at}"
        return [
            ("op", found.event.op),
            ("where", found.event.place()),
            ("got", what),
            ("expected", f"the same up to rounding (largest difference {found.largest:.3g})"),
            *(("operand", operand) for operand in found.operands),
            ("hint", self._hint(found)),
        ]

    def _hint(self, found: Difference) -> str:
        if found.event.random:
            return "random numbers differ from call to call: check without dropout, in a forward context"
        if self.mixed is not None:
            return f"an earlier op combines the sequences: {self.mixed.place()}"
        return "padding affects the result: a mask is off (use_mask=False), or a raw axis is used"


def batch_invariance(fn: Callable[[Any], Any], batch: Any, *, tolerance: float | None = None) -> BatchReport:
    """Runs `fn` on the batch and on each sequence alone, and finds the first op whose result differs.

    Padding is not compared; values of loop bodies are, step by step. `fn` should not draw random numbers. A dim that
    has one size for all sequences, such as that of relative positions, may depend on the longest sequence, except in
    the results of `fn`.

    Args:
        batch: the argument of `fn`: a Tensor, or Tensors in a TensorDict, a dict or another structure.
        tolerance: allowed difference, relative to the largest entry; by default that of the coarsest dtype so far.

    Raises DtypeError if `fn` is not a function, DimError if no dim of the batch counts the sequences.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0]], dims=[rf.batch_dim, time])
    >>> bool(rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time), x))
    True
    >>> report = rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time, use_mask=False), x)
    >>> report.first.event.op, report.first.sequence, report.first.alone
    ('reduce_mean', 'sequence 1', 4.0)
    """
    if not callable(fn):
        raise DtypeError(
            "check.batch_invariance: the first argument must be a function",
            got=type(fn).__name__,
            expected="a function of the batch",
            hint="rf.check.batch_invariance(lambda batch: …, batch)",
        )
    tensors = [leaf for leaf in _leaves(batch) if isinstance(leaf, Tensor)]
    if not tensors:
        raise not_a_tensor("check.batch_invariance: the batch", batch)
    owner = _owner(tensors)
    scope = _scope(fn, batch, tensors[0])
    together, given = _events(fn, batch, scope)
    coarsest = _coarsest(together) if tolerance is None else [tolerance] * len(together)
    sequences = tensors[0].size_of(owner) if owner in tensors[0].dims else tensors[0].lengths.size(owner)
    assert sequences is not None
    count, first, skipped = 0, None, 0
    where = len(together)
    for i in range(sequences.max):
        tag = f"sequence {i}" if sequences.tags is None else f"{sequences.tags[i]!r} (sequence {i})"
        try:
            alone, _ = _events(fn, _structure(batch, _alone(tensors, owner, i)), scope)
        finally:
            for tensor in tensors:
                bind_again(tensor.dims, tensor.lengths)
        pairs = _pairs(together[:where], alone)
        skipped = max(skipped, min(where, len(alone)) - len(pairs))
        for position, other in pairs:
            found = [
                difference
                for a, b in zip(together[position].outputs, other.outputs, strict=False)
                if (difference := _compare(together[position], a, b, owner, i, tag, coarsest[position])) is not None
                and (difference.lengths is None or difference.own_lengths or id(a) in given)
            ]
            count += 1
            if found:
                first, where = found[0], position
                break
    mixed = next((e for e in together[: where + 1] if _mixes(e, owner)), None)
    if first is not None:
        first = replace(first, operands=tuple(describe_operand(x, name=x.name) for x in first.event.inputs))
    return BatchReport(first, count, mixed, skipped, sequences.max)


def _leaves(batch: Any) -> list[Any]:
    return list(batch.data.values()) if isinstance(batch, TensorDict) else leaves(batch)


def _structure(batch: Any, tensors: Iterable[Tensor]) -> Any:
    """A copy of the structure `batch` with `tensors` in place of its own."""
    rest = iter(tensors)
    if isinstance(batch, TensorDict):
        return TensorDict({name: next(rest) for name in batch.data})
    return map_leaves(lambda leaf: next(rest) if isinstance(leaf, Tensor) else leaf, batch)


def _owner(tensors: Sequence[Tensor]) -> Dim:
    """The dim that counts the sequences."""
    dims = [dim for tensor in tensors for dim in tensor.dims]
    owners = [dim for tensor in tensors for dim in tensor.lengths.owners]
    for dim in (*dims, *owners):
        if dim.is_batch_dim() or dim in owners:
            return dim
    raise DimError(
        "check.batch_invariance: no dim of the batch counts the sequences", got=[t.describe_dims() for t in tensors]
    )


def _alone(tensors: Sequence[Tensor], owner: Dim, i: int) -> list[Tensor]:
    """Sequence `i` as a batch of one, without padding. Also binds the dims to its lengths."""
    for tensor in tensors:
        for serial, size in tensor.lengths.sizes.items():
            for dim in tensor.dims:
                if (root := dim.roots.get(serial)) is not None:
                    root.bind(_size_alone(root, size, owner, i))
    result = []
    for tensor in tensors:
        lengths, raw = current_lengths(tensor.dims), tensor._raw
        backend = raw_registry.backend_of_raw(raw)
        for axis, dim in enumerate(tensor.dims):
            start = i if dim is owner else 0
            if (known := lengths.size(dim)) is not None:
                raw = backend.slice_raw(raw, axis, start, start + known.max, 1)
        alone = tensor_of(raw, tensor.sig, lengths)
        alone.name = tensor.name
        result.append(alone)
    return result


def _size_alone(dim: Dim, size: Size, owner: Dim, i: int) -> Size:
    if dim is owner:
        return Size((), 1, tags=None if size.tags is None else [size.tags[i]])
    if owner not in size.dims:
        return size
    return Size(size.dims, size.values.take([i], size.dims.index(owner)))


def _scope(fn: Callable[[Any], Any], batch: Any, tensor: Tensor) -> Callable[[], AbstractContextManager[None]]:
    """A context to call `fn` in: without gradients if `fn` allows it, since with them ops write 0 into padding."""
    untrained = raw_registry.backend_of_raw(tensor._raw).no_gradients
    try:
        with untrained():
            fn(batch)
    except Exception:  # an error for another reason is raised again by the next call
        return nullcontext
    return untrained


def _events(
    fn: Callable[[Any], Any], batch: Any, scope: Callable[[], AbstractContextManager[None]]
) -> tuple[list[Event], set[int]]:
    """The events of a call of `fn`, and the ids of its results."""
    events: list[Event] = []
    with scope(), observing(events.append):
        result = fn(batch)
    return events, {id(leaf) for leaf in _leaves(result)}


def _coarsest(events: Sequence[Event]) -> list[float]:
    """For each event, the tolerance of the coarsest dtype so far, as rounding errors are passed on."""
    each = [max((TOLERANCE.get(x.dtype, 1e-4) for x in (*e.inputs, *e.outputs)), default=0.0) for e in events]
    return list(accumulate(each, max))


def _pairs(some: Sequence[Event], others: Sequence[Event]) -> list[tuple[int, Event]]:
    """Pairs events of the same call: the same op on the same line, in order. Each pair is an index and an event."""
    places: dict[Any, list[Event]] = {}
    for event in reversed(others):
        places.setdefault((event.op, event.source, event.step), []).append(event)
    keys = [(event.op, event.source, event.step) for event in some]
    return [(i, places[key].pop()) for i, key in enumerate(keys) if places.get(key)]


def _mixes(event: Event, owner: Dim) -> bool:
    return any(owner in x.dims for x in event.inputs) and not any(owner in x.dims for x in event.outputs)


def _compare(
    event: Event, together: Tensor, alone: Tensor, owner: Dim, i: int, tag: str, tolerance: float
) -> Difference | None:
    """The difference between two results for sequence `i`; None if they agree, or if they have no sequences."""
    if owner not in together.dims or len(together.dims) != len(alone.dims):
        return None
    a, b, names = _numbers(together), _numbers(alone), [dim.name for dim in together.dims]
    a = a.take([i], together.axis(owner))
    sizes = [[_length(x, dim, owner, at) for dim in x.dims] for x, at in ((together, i), (alone, 0))]
    for axis, (n, m) in enumerate(zip(*sizes, strict=True)):
        if n != m and together.dims[axis] is not owner:
            own = owner in together.size_of(together.dims[axis]).dims
            words = f"{names[axis]} has {n} frames in the batch, {m} alone"
            return Difference(event, tag, float("inf"), n, m, "", words, own, together, alone)
    shape = tuple(slice(0, 1 if dim is owner else n) for dim, n in zip(together.dims, sizes[1], strict=True))
    a, b = a[shape], b[shape]
    mask = _valid(alone, shape)
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    difference[np.isnan(difference)] = np.inf
    if mask is not None:
        difference = np.where(mask, difference, 0.0)
    if not difference.size:
        return None
    finite = np.abs(b[np.isfinite(b)])
    exact = not has_fractions(together.dtype)
    allowed = 0.0 if exact else tolerance * max(1.0, finite.max(initial=0.0))
    if difference.max() <= allowed:
        return None
    at = np.unravel_index(int(difference.argmax()), difference.shape)
    place = ", ".join(f"{name} {k}" for name, k, dim in zip(names, at, together.dims, strict=True) if dim is not owner)
    position = tuple(i if dim is owner else int(k) for k, dim in zip(at, together.dims, strict=True))
    return Difference(
        event, tag, float(difference.max()), float(a[at]), float(b[at]), place,
        tensor=together, tensor_alone=alone, place=position,
    )  # fmt: skip


def _numbers(x: Tensor) -> np.ndarray:
    values = raw_registry.backend_of_raw(x._raw).to_numpy_raw(x._raw)
    return values if values.dtype.kind == "c" else values.astype(np.float64)


def _length(x: Tensor, dim: Dim, owner: Dim, i: int) -> int:
    size = x.size_of(dim)
    return size.of_one(owner, min(i, _count(size, owner) - 1)).max if owner in size.dims else size.max


def _count(size: Size, owner: Dim) -> int:
    return int(size.values.shape[size.dims.index(owner)])


def _valid(x: Tensor, shape: tuple[slice, ...]) -> np.ndarray | None:
    backend = raw_registry.backend_of_raw(x._raw)
    mask = backend.mask_for(x, x.dims)
    if mask is None:
        return None
    full: np.ndarray = np.broadcast_to(backend.to_numpy_raw(mask), backend.get_shape_tuple_raw(x._raw))[shape]
    return full
