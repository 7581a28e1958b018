"""Finds the first op whose result for a sequence differs between a batch and the sequence alone.

>>> time = rf.Dim(None, name="time")
>>> x = rf.convert_to_tensor([[1.0, 2.0], [4.0]], dims=[rf.batch_dim, time])
>>> bool(rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time), x))
True
>>> rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time, use_mask=False), x).first.event.op
'reduce_mean'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, product
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import bind_again, current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.model_graph import argument_names, owner
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.ground.hook import keep_state
from rfnb.core.ground.nested import leaves, map_leaves, named_leaves
from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.tensor import RawTensor, Tensor, plain_tensor, tensor_of
from rfnb.core.tensor.tensor_dict import TensorDict, as_dicts
from rfnb.errors import DimError, DtypeError, ParameterError, fact_lines
from rfnb.loop.check.finiteness import describe_operand, valid_entries
from rfnb.printable import terminal_text
from rfnb.trace.graph.meters import raws_in
from rfnb.trace.graph.model_graph import Unchanged
from rfnb.trace.observe import OpEvent, observing

TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float64": 1e-8}
"""Allowed difference by dtype, relative to the largest entry; 1e-4 for others, as the order of sums may change."""


@dataclass(frozen=True)
class BatchDifference:
    """A result in the batch that differs from the result for the sequence alone.

    largest: the largest difference. together, alone: the two entries that differ most. at: their position, by dim.
    lengths: how the lengths differ, if they do; or the entries with and without padding, of a value that has no axis of
    the sequences. own_lengths: whether that dim has a length for each sequence. tensor, tensor_alone: the two results.
    place: the entry's position along each axis of `tensor`. operands: descriptions of the op's operands in the batch.
    """

    event: OpEvent
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
    sequences. skipped: how many ops ran only in the batch, or only alone. sequences: the number of sequences. cause:
    for plain tensors, whether "padding", other "sequences" or "random numbers" make the difference. unseen: whether
    the function has results without an axis of the sequences, such as a loss, that could not be compared.
    """

    first: BatchDifference | None
    results: int
    mixed: OpEvent | None = None
    skipped: int = 0
    sequences: int = 0
    cause: str = ""
    unseen: bool = False

    def __bool__(self) -> bool:
        return self.first is None and self.results > 0

    def __repr__(self) -> str:
        if self.first is None and not self.results:
            head = "batch invariance: nothing was compared, as no value of this call has an axis of the sequences"
            return terminal_text("\n".join([head, *fact_lines(self.facts())]))
        if self.first is None:
            of = count_of(self.sequences, "single sequence")
            note = f"; {count_of(self.skipped, 'op')} ran only in the batch or only alone" if self.skipped else ""
            note += "; results without an axis of the sequences were not compared" if self.unseen else ""
            agree = "agrees" if self.results == 1 else "agree"
            return f"batch invariance: {count_of(self.results, 'result')} {agree} with those of {of}{note}"
        head = f"batch invariance: {self.first.event.name} differs for {self.first.sequence}"
        return terminal_text("\n".join([head, *fact_lines(self.facts())]))

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the first difference, each with a label."""
        difference = self.first
        if difference is None:
            return [] if self.results else [("hint", "let the function return its results before they are summed up")]
        at = f", at {difference.at}" if difference.at else ""
        got = difference.lengths or f"{difference.together:.6g} in the batch, {difference.alone:.6g} alone{at}"
        return [
            ("op", difference.event.op),
            ("where", difference.event.place()),
            ("got", got),
            ("expected", f"the same up to rounding (largest difference {difference.largest:.3g})"),
            *(("operand", operand) for operand in difference.operands),
            ("hint", self._hint(difference)),
        ]

    def _hint(self, difference: BatchDifference) -> str:
        if difference.event.random:
            return "random numbers differ from call to call: check without dropout, in a forward context"
        if self.cause:
            return CAUSES[self.cause]
        if self.mixed is not None:
            return f"an earlier op combines the sequences: {self.mixed.place()}"
        return "padding affects the result: a mask is off (use_mask=False), or a raw axis is used"


CAUSES = {
    "padding": (
        "padding affects the result: is the mask passed on, or are the lengths? src_key_padding_mask and "
        "key_padding_mask are true for padding, attention_mask is 1 for frames, pack_padded_sequence takes lengths"
    ),
    "random numbers": "random numbers differ from call to call: check without dropout, after model.eval()",
    "sequences": "other sequences affect the result: an op over their axis, or batch norm in training: model.eval()",
}


def batch_invariance(
    fn: Callable[..., object], *args: object, lengths: object = None, tolerance: float | None = None, **kwargs: object
) -> BatchReport:
    """Calls fn(*args, **kwargs) with a batch and with each sequence alone, and finds the first op whose result differs.

    Padding is not compared; values of loop bodies are, step by step. `fn` should not draw random numbers. A dim that
    has one size for all sequences, such as that of relative positions, may depend on the longest sequence, except in
    the results of `fn`. A result without an axis of the sequences, such as a loss, is compared for each sequence alone,
    with and without padding.

    Args:
        fn: a function or module. The batch is all Tensors in its arguments, also in a TensorDict or in a structure. For
            a module or function of plain torch tensors, the results decide, and the first of its ops that differs is
            named.
        lengths: for plain tensors, how many frames of each sequence count; not needed with a mask of the sequences,
            such as `src_key_padding_mask` or `attention_mask`, whose padding is at the end. They are passed on to `fn`
            if it has a parameter of this name.
        tolerance: allowed difference, relative to the largest entry; by default that of the coarsest dtype so far.

    Raises DtypeError if `fn` is not a function or `lengths` are not numbers of frames, DimError if no dim or axis of
    the batch counts the sequences, ParameterError for `lengths` of a batch that has dims.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0]], dims=[rf.batch_dim, time])
    >>> bool(rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time), x))
    True
    >>> report = rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time, use_mask=False), x)
    >>> report.first.event.op, report.first.sequence, report.first.alone
    ('reduce_mean', 'sequence 1', 4.0)
    >>> report = rf.check.batch_invariance(lambda x: torch.softmax(x, 1), torch.ones(2, 3), lengths=[3, 1])
    >>> report.first.event.op, report.first.sequence, report.first.alone, report.cause
    ('softmax', 'sequence 1', 1.0, 'padding')
    """
    if not callable(fn):
        raise DtypeError(
            "check.batch_invariance: the first argument must be a function",
            got=type(fn).__name__,
            expected="a function of the batch",
            hint="rf.check.batch_invariance(lambda batch: …, batch)",
        )
    batch, all_lengths = [list(args), kwargs], None
    if not any(isinstance(leaf, Tensor) for leaf in _leaves(batch)):
        plain = with_dims(fn, args, kwargs, lengths)
        if plain is None:
            raise _without_lengths(args, kwargs)
        batch, all_lengths = plain
    elif lengths is not None and takes_lengths(fn):
        kwargs["lengths"] = lengths
    elif lengths is not None:
        raise ParameterError(
            "check.batch_invariance: `lengths` are for plain tensors",
            got="a batch of Tensors",
            hint="rf.convert_to_tensor(x, dims=[batch_dim, time, …], lengths=[…]), whose lengths are those of its dims",
        )
    with Unchanged() as before:
        for keep in keep_state.of(type(owner(fn))) if all_lengths is not None else ():
            keep(owner(fn), before)
        return _Comparison(fn, batch, all_lengths, tolerance).report()


def _without_lengths(args: tuple[object, ...], kwargs: dict[str, object]) -> DtypeError:
    error = not_a_tensor("check.batch_invariance: the batch", next(iter([*args, *kwargs.values()]), None))
    error.hint = f"{error.hint}; for plain tensors lengths=[…], or a mask such as src_key_padding_mask=…"
    return error


class _Comparison:
    """Compares the values of a call with the whole batch to those of calls with single sequences.

    lengths: those of the sequences, if the function takes plain tensors.
    """

    def __init__(self, fn: Callable[..., object], batch: object, lengths: np.ndarray | None, tolerance: float | None):
        self._fn, self._batch, self._lengths = fn, batch, lengths
        self._tensors = [leaf for leaf in _leaves(batch) if isinstance(leaf, Tensor)]
        self._owner = _owner(self._tensors)
        self._scope = _scope(partial(self._call, names={}), batch, self._tensors[0])
        self._together, self._given = self._events(batch)
        events = self._together
        self._tolerances = _coarsest(events) if tolerance is None else [tolerance] * len(events)
        self._first: BatchDifference | None = None
        self._where = len(events)  # of the first difference
        self._count = 0
        self._unseen = any(
            id(x) in self._given and self._is_of_all(event, x) for event in events for x in event.outputs
        )

    def report(self) -> BatchReport:
        """Compares all sequences."""
        owner, tensors, lengths = self._owner, self._tensors, self._lengths
        sequences = next(x.size_of(owner) if owner in x.dims else x.lengths.size(owner) for x in tensors)
        assert sequences is not None
        skipped, cause, tags = 0, "", dict[int, str]()
        numbers = np.full(sequences.max, -1) if lengths is None else lengths
        for i in range(sequences.max):
            if not numbers[i]:
                continue  # a sequence without frames has no values
            tag = tags[i] = f"sequence {i}" if sequences.tags is None else f"{sequences.tags[i]!r} (sequence {i})"
            place = InBatch(sequences.max, i, numbers)
            events, _ = self._alone(i)
            skipped = max(skipped, min(self._where, len(events)) - len(_pairs(self._together[: self._where], events)))
            if self._differs(events, place, tag) and lengths is not None:
                cause = self._cause(place, events) if self._together[self._where].plain else ""
        mixed = next((e for e in self._together[: self._where + 1] if _mixes(e, owner)), None)
        if self._first is None and self._unseen:
            self._first = next(filter(None, (self._padded(i, tag) for i, tag in tags.items())), None)
            mixed, cause = None, "" if self._first is None or not self._first.event.plain else "padding"
        diff = self._first
        if diff is not None:
            operands = [x for x in diff.event.inputs if not (diff.event.plain and _is_trained(x))]
            diff = replace(diff, operands=tuple(dict.fromkeys(describe_operand(x, name=x.name) for x in operands)))
        return BatchReport(diff, self._count, mixed, skipped, sequences.max, cause, self._unseen)

    def _cause(self, place: InBatch, alone: list[OpEvent]) -> str:
        """The cause of the first difference: by the same call again, and with other numbers in the other sequences."""
        assert self._first is not None
        outputs = dict(_pairs(self._together, alone))[self._where].outputs
        number = next(i for i, x in enumerate(outputs) if x is self._first.tensor_alone)

        def part(events: list[OpEvent]) -> np.ndarray:
            event = dict(_pairs(self._together, events)).get(self._where)
            values = np.zeros(0) if event is None else _numbers(event.outputs[number])
            return next(place.parts(values, _numbers(outputs[number]).shape, result=False), np.zeros(0))

        tensors = [with_other_numbers(x, self._owner, place.index) for x in self._tensors]
        for batch, cause in ((self._batch, "random numbers"), (_structure(self._batch, tensors), "sequences")):
            if not np.array_equal(part(self._together), part(self._events(batch)[0]), equal_nan=True):
                return cause
        return "padding"

    def _events(self, batch: object) -> tuple[list[OpEvent], set[int]]:
        """The events of a call, and the ids of its results. Plain results are those of a last event."""
        events: list[OpEvent] = []
        with self._scope(), observing(events.append, [owner(self._fn)]) as observer:
            result = leaves(as_dicts(self._call(batch, observer.calls.names)))
        raws = raws_in([leaf for leaf in result if not isinstance(leaf, Tensor)])
        plain = [observer.calls.tensor(raw) for raw in raws if backend_of_raw(raw).is_readable_raw(raw)]
        if plain:
            events.append(OpEvent(RESULT, (), tuple(plain), None, plain=True))
        return events, {id(leaf) for leaf in (*result, *plain)}

    def _call(self, batch: Any, names: dict[int, str]) -> object:
        """Calls the function. names: where the names of plain tensors are put, by id."""
        args, kwargs = batch if self._lengths is None else without_dims(batch, names)
        return self._fn(*args, **kwargs)

    def _alone(self, i: int, *, padded: bool = False) -> tuple[list[OpEvent], set[int]]:
        """The events of a call with one sequence, and the ids of its results. padded: with its padding."""
        tensors = self._tensors
        try:
            return self._events(_structure(self._batch, _alone(tensors, self._owner, i, padded=padded)))
        except Exception as error:
            error.add_note(f"in the call with sequence {i} alone")
            raise
        finally:
            for tensor in tensors:
                bind_again(tensor.dims, tensor.lengths)

    def _is_of_all(self, event: OpEvent, x: Tensor) -> bool:
        """Whether an output has no axis of the sequences."""
        return not x.dims if event.plain else self._owner not in x.dims

    def _padded(self, i: int, tag: str) -> BatchDifference | None:
        """The first difference that padding makes for a value of all sequences, if it makes one for a result."""
        sizes = [(_length(x, dim, self._owner, i), x.size_of(dim).max) for x in self._tensors for dim in x.dims]
        if not any(1 < longest != length for length, longest in sizes):
            return None
        alone, results = self._alone(i)
        try:
            padded, _ = self._alone(i, padded=True)
        except Exception:  # a function may need frames up to the end of the axis
            return None
        first: BatchDifference | None = None
        differs = False
        for position, other in _pairs(padded, alone):
            event = padded[position]
            for x, y in zip(event.outputs, other.outputs, strict=False):
                a, b, exact = _numbers(x), _numbers(y), not has_fractions(x.dtype)
                is_inner = exact and event.plain and id(y) not in results  # which may say whether there is padding
                if not self._is_of_all(event, y) or a.shape != b.shape or is_inner:
                    continue
                apart = _largest(a, b, valid_entries(y), exact=exact, most=self._tolerances[-1])
                self._unseen = self._unseen and id(y) not in results
                self._count += id(y) in results
                if apart is not None:
                    words = f"{apart[2]:.6g} with padding, {apart[3]:.6g} without"
                    first = first or BatchDifference(event, tag, apart[0], apart[2], apart[3], "", words)
                    differs = differs or id(y) in results
        return first if differs else None

    def _differs(self, events: list[OpEvent], place: InBatch, tag: str) -> bool:
        """Compares the values of a sequence; keeps a difference that comes before those of other sequences.

        Differences inside of plain calls count if the results differ, or cannot be compared.
        """
        end = len(self._together) - 1
        pairs = dict(_pairs(self._together, events))
        decides = end in pairs and self._together[end].op == RESULT
        if decides:
            compared, difference = self._difference(end, pairs[end], place, tag)
            self._count += compared
            if compared and difference is None:
                pairs = {position: event for position, event in pairs.items() if not self._is_soft(event)}
            decides = compared > 0
        candidate: tuple[int, BatchDifference] | None = None
        for position, event in pairs.items():
            if position >= self._where and not (candidate and position == end):
                continue
            compared, difference = self._difference(position, event, place, tag)
            self._count += 0 if decides and self._is_soft(event) else compared
            candidate = candidate or (None if difference is None else (position, difference))
            if difference is not None and (not self._is_soft(event) or position == end or not decides):
                break
        else:
            return False
        assert candidate is not None
        self._where, self._first = candidate
        return True

    def _is_soft(self, event: OpEvent) -> bool:
        """Whether a difference only counts if the results differ, as the dims of the values are not known."""
        return event.plain or self._lengths is not None

    def _difference(
        self, position: int, alone: OpEvent, place: InBatch, tag: str
    ) -> tuple[int, BatchDifference | None]:
        """How many values of an event were compared, and the first difference."""
        event, tolerance = self._together[position], self._tolerances[position]
        pairs = zip(event.outputs, alone.outputs, strict=False)
        if self._is_soft(event):
            verdicts = [_compare_plain(event, a, b, place, tag, tolerance) for a, b in pairs]
            apart = (verdict for verdict in verdicts if isinstance(verdict, BatchDifference))
            return sum(verdict is not None for verdict in verdicts), next(apart, None)
        differences = [
            difference
            for a, b in pairs
            if (difference := _compare(event, a, b, self._owner, place.index, tag, tolerance)) is not None
            and (difference.lengths is None or difference.own_lengths or id(a) in self._given)
        ]
        return 1, next(iter(differences), None)


def _is_trained(x: Tensor) -> bool:
    backend = backend_of_raw(x._raw)
    return bool(backend.needs_gradient_raw(x._raw) and backend.is_leaf_raw(x._raw))


RESULT = "result"
"""The op of the event for plain results of the function."""


def _leaves(batch: object) -> list[object]:
    parts = [leaf.data.values() if isinstance(leaf, TensorDict) else [leaf] for leaf in leaves(batch)]
    return [leaf for part in parts for leaf in part]


def _structure(batch: object, tensors: Iterable[Tensor]) -> object:
    """A copy of the structure `batch` with `tensors` in place of its own."""
    values = iter(tensors)

    def copied(leaf: object) -> Any:
        if isinstance(leaf, TensorDict):
            return TensorDict({name: next(values) for name in leaf.data})
        return next(values) if isinstance(leaf, Tensor) else leaf

    return map_leaves(copied, batch)


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


def _alone(tensors: Sequence[Tensor], owner: Dim, i: int, *, padded: bool) -> list[Tensor]:
    """Sequence `i` as a batch of one, with or without padding. Also binds the dims to its lengths."""
    for tensor in tensors:
        for serial, size in tensor.lengths.sizes.items():
            for dim in tensor.dims:
                if (root := dim.roots.get(serial)) is not None:
                    root.bind(_size_alone(root, size, owner, i, padded=padded))
    result = []
    for tensor in tensors:
        lengths, raw = current_lengths(tensor.dims), tensor._raw
        backend = backends.backend_of_raw(raw)
        for axis, dim in enumerate(tensor.dims):
            start = i if dim is owner else 0
            if (extent := lengths.size(dim)) is not None:
                raw = backend.slice_raw(raw, axis, start, start + extent.max, 1)
        row = tensor_of(raw, tensor.sig, lengths)
        row.name = tensor.name
        result.append(row)
    return result


def _size_alone(dim: Dim, size: Size, owner: Dim, i: int, *, padded: bool) -> Size:
    if dim is owner:
        return Size((), 1, tags=None if size.tags is None else [size.tags[i]])
    if owner not in size.dims:
        return size
    values = size.values.take([i], size.dims.index(owner))
    return Size(size.dims, values, capacity=size.max if padded else None)


def _scope(fn: Callable[[Any], object], batch: object, tensor: Tensor) -> Callable[[], AbstractContextManager[None]]:
    """A context to call `fn` in: without gradients if `fn` allows it, since with them ops write 0 into padding."""
    untrained = backends.backend_of_raw(tensor._raw).no_gradients
    try:
        with untrained():
            fn(batch)
    except Exception:  # an error for another reason is raised again by the next call
        return nullcontext
    return untrained


def _coarsest(events: Sequence[OpEvent]) -> list[float]:
    """For each event, the tolerance of the coarsest dtype so far, as rounding errors are passed on."""
    tolerances = [max((TOLERANCE.get(x.dtype, 1e-4) for x in (*e.inputs, *e.outputs)), default=0.0) for e in events]
    return list(accumulate(tolerances, max))


def _pairs(some: Sequence[OpEvent], others: Sequence[OpEvent]) -> list[tuple[int, OpEvent]]:
    """Pairs events of the same call: the same op on the same line, in order. Each pair is an index and an event."""
    places: dict[object, list[OpEvent]] = {}
    for event in reversed(others):
        places.setdefault((event.op, event.source, event.path, event.step), []).append(event)
    keys = [(event.op, event.source, event.path, event.step) for event in some]
    return [(i, places[key].pop()) for i, key in enumerate(keys) if places.get(key)]


def _mixes(event: OpEvent, owner: Dim) -> bool:
    return any(owner in x.dims for x in event.inputs) and not any(owner in x.dims for x in event.outputs)


def _compare(
    event: OpEvent, together: Tensor, alone: Tensor, owner: Dim, i: int, tag: str, tolerance: float
) -> BatchDifference | None:
    """The difference between two results for sequence `i`; None if they agree, or if they have no sequences."""
    if owner not in together.dims or len(together.dims) != len(alone.dims):
        return None
    a, b, names = _numbers(together), _numbers(alone), [dim.name for dim in together.dims]
    a = a.take([i], together.axis(owner))
    sizes = [[_length(x, dim, owner, at) for dim in x.dims] for x, at in ((together, i), (alone, 0))]
    for axis, (n, m) in enumerate(zip(*sizes, strict=True)):
        if n != m and together.dims[axis] is not owner:
            is_of_batch = owner in together.size_of(together.dims[axis]).dims
            words = f"{names[axis]} has {n} frames in the batch, {m} alone"
            return BatchDifference(event, tag, float("inf"), n, m, "", words, is_of_batch, together, alone)
    shape = tuple(slice(0, 1 if dim is owner else n) for dim, n in zip(together.dims, sizes[1], strict=True))
    mask = np.broadcast_to(valid_entries(alone), b.shape)[shape]
    apart = _largest(a[shape], b[shape], mask, exact=not has_fractions(together.dtype), most=tolerance)
    if apart is None:
        return None
    largest, at, entry, entry_alone = apart
    place = ", ".join(f"{name} {k}" for name, k, dim in zip(names, at, together.dims, strict=True) if dim is not owner)
    position = tuple(i if dim is owner else k for k, dim in zip(at, together.dims, strict=True))
    return BatchDifference(
        event, tag, largest, entry, entry_alone, place, tensor=together, tensor_alone=alone, place=position
    )


def _largest(
    a: np.ndarray, b: np.ndarray, mask: np.ndarray | bool, *, exact: bool, most: float
) -> tuple[float, tuple[int, ...], float, float] | None:
    """The largest difference, its position and the two entries; None if all entries agree."""
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    difference[np.isnan(difference)] = np.inf
    difference = np.where(mask, difference, 0.0)
    if not difference.size:
        return None
    finite = np.abs(b[np.isfinite(b)])
    if difference.max() <= (0.0 if exact else most * max(1.0, finite.max(initial=0.0))):
        return None
    at = tuple(map(int, np.unravel_index(int(difference.argmax()), difference.shape)))
    return float(difference.max()), at, float(a[at]), float(b[at])


def _compare_plain(
    event: OpEvent, together: Tensor, alone: Tensor, place: InBatch, tag: str, tolerance: float
) -> BatchDifference | bool | None:
    """The difference between two plain values for a sequence; False if they agree, None if they cannot be compared.

    Inside, only numbers with fractions are compared: others may be positions in the batch.
    """
    exact, result = not has_fractions(together.dtype), event.op == RESULT
    if exact and not result:
        return None
    a, b = _numbers(together), _numbers(alone)
    parts = list(place.parts(a, b.shape, result=result))
    apart = [_largest(part, b, True, exact=exact, most=tolerance) for part in parts]
    if not parts or None in apart:
        return False if parts else None
    assert apart[0] is not None
    largest, at, entry, entry_alone = apart[0]
    words = ", ".join(f"axis{axis} {k}" for axis, k in enumerate(at))
    tensor = plain_tensor(parts[0]).with_name(event.name)
    return BatchDifference(event, tag, largest, entry, entry_alone, words, tensor=tensor, tensor_alone=alone, place=at)


def _numbers(x: Tensor) -> np.ndarray:
    values = backend_of_raw(x._raw).to_numpy_raw(x._raw)
    return values if values.dtype.kind == "c" else values.astype(np.float64)


def _length(x: Tensor, dim: Dim, owner: Dim, i: int) -> int:
    size = x.size_of(dim)
    return size.of_one(owner, min(i, _count(size, owner) - 1)).max if owner in size.dims else size.max


def _count(size: Size, owner: Dim) -> int:
    return int(size.values.shape[size.dims.index(owner)])


# -- batches of plain tensors: which of their axes count sequences and frames


@dataclass(frozen=True)
class _Frames:
    """The lengths along axes of `size` frames. name: the argument that they are of."""

    dim: Dim
    size: int
    lengths: np.ndarray
    name: str = ""


def with_dims(
    fn: Callable[..., object], args: Sequence[object], kwargs: dict[str, object], lengths: object
) -> tuple[list[Any], np.ndarray] | None:
    """The arguments of a function of plain tensors, as Tensors with dims for sequences and frames, and the lengths.

    None if no lengths are known. Raises DimError if they do not fit.
    """
    if lengths is not None and takes_lengths(fn):
        raw = lengths if _is_raw(lengths) else backends.selected().from_numpy_raw(_checked(lengths), None)
        kwargs = kwargs | {"lengths": raw}
    names = [name for name, _ in argument_names(fn, tuple(args), {})]
    arguments = [*zip(names, args, strict=False), *kwargs.items()]
    named = [(name, leaf) for key, value in arguments for name, leaf in named_leaves(value, key) if _is_raw(leaf)]
    frames = _frames(named, lengths)
    if not frames:
        return None
    count, batch = len(frames[0].lengths), Dim(None, name="batch", kind="batch")
    batch.bind(Size((), count))
    for extent in frames:
        extent.dim.bind(Size((batch,), extent.lengths, capacity=extent.size))
    modules = [] if owner(fn) is None else owner(fn).modules()
    second = any(getattr(module, "batch_first", True) is False for module in modules)
    tensors = [_tensor(name, raw, batch, count, frames, second=second) for name, raw in named]
    if not any(batch in tensor.dims for tensor in tensors):
        raise DimError(
            "check.batch_invariance: no axis counts the sequences",
            got=", ".join(f"{name} {_shape(raw)}" for name, raw in named),
            expected=f"an axis of {count}, one entry for each of the lengths",
        )
    values = iter(tensors)
    return map_leaves(lambda leaf: next(values) if _is_raw(leaf) else leaf, [list(args), kwargs]), frames[0].lengths


def without_dims(arguments: object, names: dict[int, str]) -> Any:
    """The arguments as plain tensors again: copies in one piece, which the function may change.

    names: where the names of the copies are put, by id.
    """

    def copied(leaf: object) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        raw = backends.backend_of_raw(leaf._raw).copy_raw(leaf._raw)
        names[id(raw)] = leaf.name
        return raw

    return map_leaves(copied, arguments)


def with_other_numbers(x: Tensor, batch: Dim, index: int) -> Tensor:
    """An argument with other numbers in all sequences but one, if it has more axes than for the sequences and is not a
    mask."""
    backend = backends.backend_of_raw(x._raw)
    if batch not in x.dims or len(x.dims) < 2 or x.dtype == "bool" or "mask" in x.name:
        return x
    values = backend.to_numpy_raw(x._raw)
    rows = np.moveaxis(values, x.axis(batch), 0)
    indices = [i for i in range(len(rows)) if i != index]
    rows[indices] = rows[indices] * 2 + 1 if values.dtype.kind in "fc" else rows.flat[0]
    changed = tensor_of(backend.convert_raw(values, x.dtype, x.device), x.sig, x.lengths)
    changed.name = x.name
    return changed


def takes_lengths(fn: Callable[..., object]) -> bool:
    """Whether a function or module has a parameter of the name `lengths`."""
    try:
        return "lengths" in inspect.signature(getattr(fn, "forward", fn)).parameters
    except (TypeError, ValueError):
        return False


def _checked(lengths: object) -> np.ndarray:
    """The lengths as integers. Raises DtypeError if they are not numbers of frames."""
    raw = lengths.raw_tensor if isinstance(lengths, Tensor) else lengths
    try:
        numbers = _array(raw).reshape(-1)
    except ValueError:  # lists of different lengths
        numbers = np.zeros(0, object)
    if numbers.dtype.kind not in "iuf" or (numbers < 0).any() or (numbers % 1 != 0).any():
        raise DtypeError(
            "check.batch_invariance: `lengths` are not numbers of frames",
            got=repr(lengths)[:80],
            expected="one for each sequence, such as lengths=[5, 3]",
        )
    return numbers.astype(np.int64)


def _is_raw(leaf: object) -> bool:
    return isinstance(leaf, tuple(backends.BACKENDS))


def _shape(raw: RawTensor) -> tuple[int, ...]:
    return tuple(int(n) for n in backends.backend_of_raw(raw).get_shape_tuple_raw(raw))


def _array(values: object) -> np.ndarray:
    return backends.backend_of_raw(values).to_numpy_raw(values) if _is_raw(values) else np.asarray(values)


def _frames(named: Sequence[tuple[str, object]], lengths: object) -> list[_Frames]:
    """The lengths that are given, or that masks or an argument for lengths say."""
    masks = [(name, _array(raw)) for name, raw in named if _is_mask(name, _shape(raw))]
    if lengths is None and not masks:
        lengths = next((raw for name, raw in named if "len" in name and len(_shape(raw)) == 1), None)
    if lengths is None:
        return [_Frames(Dim(None, name="time"), mask.shape[1], _lengths_of(name, mask), name) for name, mask in masks]
    numbers = _checked(lengths)
    count, longest = len(numbers), int(numbers.max(initial=0))
    main = next((_shape(raw) for name, raw in named if count in _shape(raw)[:2] and len(_shape(raw)) > 1), ())
    sizes_after = [n for axis, n in enumerate(main) if axis != main.index(count)]
    sizes = [mask.shape[1] for _, mask in masks if len(mask) == count]
    sizes += [n for n in sizes_after if n == longest] + [n for n in sizes_after if n > longest]
    size = next(iter(sizes), None)
    if size is None:
        raise DimError(
            "check.batch_invariance: the lengths do not fit the batch",
            got=f"lengths {numbers.tolist()}, for {', '.join(f'{name} {_shape(raw)}' for name, raw in named)}",
            expected=f"an axis of {count}, one entry for each of the lengths, and one of at least {longest} frames",
        )
    return [_Frames(Dim(None, name="time"), size, numbers)]


def _is_mask(name: str, shape: tuple[int, ...]) -> bool:
    """Whether an argument says which frames of each sequence count; a square mask may be about pairs of frames."""
    return "mask" in name and len(shape) == 2 and ("pad" in name or "attention_mask" in name or shape[0] != shape[1])


def _lengths_of(name: str, mask: np.ndarray) -> np.ndarray:
    """The lengths that a mask says. Raises DimError if its frames do not stand at the beginning."""
    frames = mask != 0
    if not np.isfinite(mask).all():
        frames = np.isfinite(mask)
    elif "pad" in name or ("attention_mask" not in name and not frames[:, :1].all()):
        frames = ~frames
    lengths: np.ndarray = frames.sum(1)
    wrong = (frames != (np.arange(mask.shape[1]) < lengths[:, None])).any(1)
    if wrong.any():
        raise DimError(
            f"check.batch_invariance: the padding of {name} is not at the end",
            got=f"row {int(np.argmax(wrong))} of the mask",
            expected="the frames of each sequence first, then its padding",
            hint="lengths=[…], or a batch that is padded at the end",
        )
    return lengths


def _tensor(name: str, raw: RawTensor, batch: Dim, count: int, frames: list[_Frames], *, second: bool) -> Tensor:
    """A raw tensor with the dims of its axes. second: whether the second axis counts the sequences if both could."""
    shape = _shape(raw)
    dims: list[Dim] = [Dim(n, name=f"axis{i}") for i, n in enumerate(shape)]
    places = [i for i in (0, 1) if i < len(shape) and shape[i] == count]
    place = places[-1 if second and not _is_mask(name, shape) else 0] if places else None
    if place is not None:
        dims[place] = batch
    is_mask = any(word in name for word in ("mask", "bias"))
    for i, n in enumerate(shape):
        extents = [extent for extent in frames if extent.size == n]
        if i == place or not extents or (place is None and not is_mask):
            continue
        time = max(extents, key=lambda extent: extent.name.partition("_")[0] == name.partition("_")[0])
        if time.dim not in dims:
            dims[i] = time.dim
        elif is_mask:
            dims[i] = Dim(None, name=time.dim.name)
            dims[i].bind(Size((batch,), time.lengths, capacity=n))
    tensor = tensor_of(raw, align.sig(dims), current_lengths(dims))
    tensor.name = name
    return tensor


# -- what their results hold of one sequence


@dataclass(frozen=True)
class InBatch:
    """A sequence in its batch: the number of sequences, its index, and the lengths of all."""

    count: int
    index: int
    lengths: np.ndarray

    def parts(self, together: np.ndarray, shape: tuple[int, ...], *, result: bool) -> Iterator[np.ndarray]:
        """The parts of an array of the whole batch that may be that of this sequence, of this shape.

        The most likely comes first. result: whether the array is a result of the function: its sequences are in order
        then, and padding is at the end. Inside, they may be sorted by their lengths, or positions may be relative.
        """
        if together.ndim != len(shape):
            return
        sizes = together.shape
        axes = sorted(range(len(shape)), key=lambda i: (sizes[i] != self.count or shape[i] != 1, i))
        for axis in axes:
            for part in self._along(together, axis, shape[axis], result=result):
                if all(n >= m for n, m in zip(part.shape, shape, strict=True)):
                    excess = [n - m for n, m in zip(part.shape, shape, strict=True)]
                    for start in product(*([0] if result or not n else [0, n // 2, n] for n in excess)):
                        yield part[tuple(slice(s, s + m) for s, m in zip(start, shape, strict=True))]

    def _along(self, together: np.ndarray, axis: int, size: int, *, result: bool) -> Iterator[np.ndarray]:
        """What an axis holds of this sequence, if it counts sequences, alone or together with something else."""
        total, ends = together.shape[axis], list(accumulate(self.lengths.tolist()))
        width = total // self.count
        order = np.argsort(-self.lengths, kind="stable").tolist()
        if total % self.count == 0 and size <= width:
            before, after = together.shape[:axis], together.shape[axis + 1 :]
            for index in dict.fromkeys([self.index] if result else [self.index, order.index(self.index)]):
                yield together.reshape(*before, self.count, width, *after).take(index, axis)
                if width > 1:
                    yield together.reshape(*before, width, self.count, *after).take(index, axis + 1)
        if total == ends[-1] and size == self.lengths[self.index]:
            yield together.take(range(ends[self.index] - size, ends[self.index]), axis)
            rows = [(step, index) for step in range(max(self.lengths)) for index in order if step < self.lengths[index]]
            yield together.take([i for i, row in enumerate(rows) if row[1] == self.index], axis)
