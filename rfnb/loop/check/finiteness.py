"""Finds the op that made a NaN or an infinity, as opposed to ops that passed it on.

>>> found = rf.check.finite(lambda: rf.log(rf.convert_to_tensor(0.0)) * 0.0)
>>> found.first.event.op, found.first.kind, found.first.came_from.event.op
('mul', 'NaN', 'log')
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError, fact_lines
from rfnb.printable import terminal_text
from rfnb.trace.observe import Event, observing

KEPT = 4
"""Number of findings of each kind whose tensors are kept."""


@dataclass(frozen=True)
class NotFinite:
    """An op that made a NaN or an infinity from operands without it.

    kind: "NaN" or "infinity". count: how many entries have it. at: the position of the first, by dim; place: that along
    each axis of `tensor`. operands: descriptions of the op's operands. came_from: the op that made the infinity from
    which this one made a NaN. gradient: whether the op made it in the backward pass. tensor: the result, for the first
    findings only. counts: which of its entries belong to sequences that take this step.
    """

    event: Event
    kind: str
    count: int
    at: str
    operands: tuple[str, ...] = ()
    came_from: NotFinite | None = None
    gradient: bool = False
    tensor: Tensor | None = None
    place: tuple[int, ...] | None = None
    counts: np.ndarray | None = None

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the finding, each with a label."""
        entries = "an entry" if self.count == 1 else f"{self.count} entries"
        what = f"{self.event.op}: {entries} of {self.event.name}" + (f", first at {self.at}" if self.at else "")
        facts = [(self.kind, f"made by {f'the gradient through {self.event.op}' if self.gradient else what}")]
        facts.append(("where", self.event.place()))
        facts += [("operand", operand) for operand in self.operands]
        source = self.came_from
        while source is not None:
            facts.append(("from", f"{source.kind} of {source.event.place()}"))
            source = source.came_from
        return facts


@dataclass(repr=False)
class FiniteReport(Shown):
    """The result of `finite`; true if all computed values are finite.

    first: the op that made the first NaN, or the first infinity if there is no NaN. made: all such ops, in order.
    passed: how many results have a NaN or an infinity because an operand has one. given: tensors from outside that
    have one. in_training: parameters whose gradient has one only if nothing is observed, as in training, where a loop
    computes ops for all steps together. The tensor of `first` is `report.first.tensor`; later findings have no tensor.
    """

    made: list[NotFinite] = field(default_factory=list)
    passed: int = 0
    given: list[str] = field(default_factory=list)
    in_training: list[str] = field(default_factory=list)
    results: int = 0

    @property
    def first(self) -> NotFinite | None:
        """The first NaN, or the first infinity."""
        return next((found for found in self.made if found.kind == "NaN"), self.made[0] if self.made else None)

    def __bool__(self) -> bool:
        return not (self.made or self.given or self.in_training)

    def __repr__(self) -> str:
        if self:
            return f"finite: no NaN and no infinity in {self.results} results"
        made = count_of(len(self.made), "op")
        head = f"finite: {made} made NaN or infinity, {count_of(self.passed, 'result')} passed it on"
        return terminal_text("\n".join([head, *fact_lines(self.facts())]))

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the tensors from outside and the first finding, each with a label."""
        found = [*(("given", text) for text in self.given), *(("gradient", text) for text in self.in_training)]
        return [*found, *([] if self.first is None else self.first.facts())]


def finite(fn: Callable[..., Any], *args: Any, gradients: bool = False, **kwargs: Any) -> FiniteReport:
    """Calls fn(*args, **kwargs) and names the op, line and loop step that made the first NaN or infinity.

    Padding does not count, nor does an infinity that is passed to an op as a Python number, as for masking.

    Args:
        gradients: if all values are finite, also check the gradients of the sum of the results of `fn`, op by op. If
            they are finite, `fn` is called again without being observed, as in training, and the gradients of its
            parameters are checked.

    Raises DtypeError if `fn` is not a function.

    >>> x = rf.convert_to_tensor([1.0, 0.0], dims=[rf.Dim(2, name="feat")])
    >>> report = rf.check.finite(lambda: rf.log(x) * 0.0)
    >>> bool(report), report.first.kind, report.first.event.op, report.first.came_from.event.op
    (False, 'NaN', 'mul', 'log')
    """
    if not callable(fn):
        raise DtypeError(
            f"check.finite: {called(fn)} is not a function, and the ops that made it have already run",
            got=type(fn).__name__,
            expected="a function to call, so that its ops can be checked",
            hint="rf.check.finite(lambda: …)",
        )
    search = _Search()
    with observing(search.see):
        result = fn(*args, **kwargs)
    if gradients and not search.report.made:
        search.backward(result)
        if search:
            search.in_training(fn(*args, **kwargs))
    return search.report


class _Search:
    """Checks each result when it is computed."""

    def __init__(self) -> None:
        self.report = FiniteReport()
        self._infinite: dict[int, tuple[weakref.ref[Any], NotFinite]] = {}  # by id of the raw tensor
        self._differentiable: list[Event] = []

    def __bool__(self) -> bool:
        return bool(self.report)

    def see(self, event: Event) -> None:
        self.report.results += len(event.outputs)
        if any(_needs_gradient(x) for x in event.outputs):
            self._differentiable.append(event)
        for output in event.outputs:
            bad = _bad(output, event.counts(output))
            if bad is not None:
                self._found(event, output, *bad)

    def _found(self, event: Event, output: Tensor, nans: np.ndarray, infinities: np.ndarray) -> None:
        given = [(x, _bad(x, event.counts(x))) for x in event.inputs]
        given_nan = any(bad is not None and bad[0].any() for _, bad in given)
        given_inf = any(bad is not None and bad[1].any() for _, bad in given)
        written = any(not np.isfinite(number) for number in event.numbers)
        if self._known(output) is not None or given_nan or event.kind in ("input", "state"):
            self._pass_on(event, output, given)
        elif nans.any():
            self._made(event, output, "NaN", nans, given)
        elif given_inf:
            self._pass_on(event, output, given)
        elif not written:
            self._made(event, output, "infinity", infinities, given)

    def _made(self, event: Event, output: Tensor, kind: str, where: np.ndarray, given: list[Any]) -> None:
        cause = next((found for x, bad in given if bad and (found := self._known(x)) is not None), None)
        operands = tuple(describe_operand(x, event.counts(x)) for x in event.inputs)
        first = _first(output, where)
        found = NotFinite(_bare(event), kind, int(where.sum()), first, operands, cause)
        if sum(each.kind == kind for each in self.report.made) < KEPT:
            place = tuple(map(int, np.argwhere(where)[0])) if output.dims else ()
            found = replace(found, event=event, tensor=output, place=place, counts=event.counts(output))
        self.report.made.append(found)
        self._remember(output, found)

    def _pass_on(self, event: Event, output: Tensor, given: list[Any]) -> None:
        self.report.passed += 1
        bad = [x for x, found in given if found]
        known = [found for x in bad if (found := self._known(x)) is not None]
        if not known:
            self._came_in(event, bad[0] if bad else output)
        self._remember(output, known[0] if known else NotFinite(_bare(event), "NaN", 1, ""))

    def _came_in(self, event: Event, x: Tensor) -> None:
        """Reports a tensor that no observed op made: it is from outside, or a state from an earlier step."""
        if not (self.report.made or self.report.given):
            self.report.given.append(f"{_name(x)} {x.describe_dims()} was already not finite at {event.place()}")
        self._remember(x, NotFinite(_bare(event), "NaN", 1, ""))

    def _remember(self, output: Tensor, found: NotFinite) -> None:
        self._infinite[id(output._raw)] = weakref.ref(output._raw), found

    def _known(self, x: Tensor) -> NotFinite | None:
        """The finding for a tensor, if an observed op made it. A new tensor may have the id of a freed one."""
        where, found = self._infinite.get(id(x._raw), (None, None))
        return found if where is not None and where() is x._raw else None

    # -- gradients

    def backward(self, result: Any) -> None:
        """Follows the gradients back to the first op that makes a NaN or an infinity from finite ones."""
        arrived: dict[int, str] = {}  # by id of the raw tensor: "NaN", "infinity" or ""
        tensors = {id(x._raw): x for e in self._differentiable for x in (*e.inputs, *e.outputs) if _needs_gradient(x)}
        backend = raw_registry.selected()
        roots = [x._raw for x in tensors.values() if x._raw.is_leaf]
        ends = [x for x in leaves(result) if isinstance(x, Tensor) and _needs_gradient(x)]

        def look(key: int, gradient: Any) -> None:
            bad = _bad(tensors[key].like(gradient))
            arrived.setdefault(key, "" if bad is None else "NaN" if bad[0].any() else "infinity")

        if not ends or not roots:
            return
        hooks = [x._raw.register_hook(partial(look, key)) for key, x in tensors.items()]
        try:
            backend.follow_gradients_raw([x._raw for x in ends], roots)
        finally:
            for hook in hooks:
                hook.remove()
        for key, kind in arrived.items():
            if kind:
                self._blame(tensors[key], kind, arrived)
                return

    def in_training(self, result: Any) -> None:
        """Checks the gradients of parameters, for a result that was computed without observing ops."""
        backend = raw_registry.selected()
        ends = [x._raw for x in leaves(result) if isinstance(x, Tensor) and _needs_gradient(x)]
        names = {id(x._raw): f"{_name(x)} {x.describe_dims()}" for e in self._differentiable for x in e.inputs}

        def look(raw: Any, gradient: Any) -> None:
            if not backend.is_finite_raw(gradient):
                name = names.get(id(raw), f"a parameter of shape {backend.get_shape_tuple_raw(raw)}")
                self.report.in_training.append(f"that of {name} is not finite in training, though that of each op is")

        parameters = backend.gradient_leaves_raw(ends)
        hooks = [raw.register_hook(partial(look, raw)) for raw in parameters]
        try:
            backend.follow_gradients_raw(ends, parameters)
        finally:
            for hook in hooks:
                hook.remove()

    def _blame(self, x: Tensor, kind: str, arrived: dict[int, str]) -> None:
        """Reports the op with a finite gradient for its result that gave `x` this gradient."""
        readers = [e for e in self._differentiable if any(y._raw is x._raw for y in e.inputs)]
        sound = [e for e in readers if not any(arrived.get(id(y._raw)) for y in e.outputs)]
        for event in (sound or readers)[:1]:
            operands = tuple(describe_operand(y, event.counts(y)) for y in event.inputs)
            self.report.made.append(NotFinite(event, kind, 1, "", operands, gradient=True))


def _bare(event: Event) -> Event:
    """The event without its tensors, so that they can be freed."""
    return replace(event, inputs=(), outputs=())


def _needs_gradient(x: Tensor) -> bool:
    return bool(getattr(x._raw, "requires_grad", False))


def _bad(x: Tensor, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray] | None:
    """Which valid entries are NaN, and which infinite; None if all are finite. counts: the entries to check."""
    raw = x._raw
    backend = raw_registry.backend_of_raw(raw)
    if backend.is_finite_raw(raw):
        return None
    values, valid = backend.to_numpy_raw(raw), _valid(x, counts)
    bad = np.isnan(values) & valid, np.isinf(values) & valid
    return bad if bad[0].any() or bad[1].any() else None


def _valid(x: Tensor, counts: np.ndarray | None) -> np.ndarray:
    """Which entries are not padding, and among `counts` if given."""
    backend = raw_registry.backend_of_raw(x._raw)
    mask = backend.mask_for(x, x.dims)
    valid = np.True_ if mask is None else backend.to_numpy_raw(mask)
    made: np.ndarray = np.asarray(valid if counts is None else valid & counts)
    return made


def _first(x: Tensor, where: np.ndarray) -> str:
    """The position of the first entry in `where`: "batch 2 ('banana'), time 7"."""
    parts = []
    for dim, place in zip(x.dims, np.argwhere(where)[0], strict=False):  # a scalar has no dim
        size = x.lengths.size(dim)
        tag = f" ({size.tags[place]!r})" if size is not None and size.tags is not None else ""
        parts.append(f"{dim.name} {place}{tag}")
    return ", ".join(parts)


def _name(x: Tensor) -> str:
    return called(x) if x.name == "tensor" else x.name


def describe_operand(x: Tensor, counts: np.ndarray | None = None, name: str | None = None) -> str:
    """The dims and the range of an operand: "energy {batch:2, time:5}: -3.1 … 0.5"."""
    name = name or _name(x)
    values = raw_registry.backend_of_raw(x._raw).to_numpy_raw(x._raw)
    values = values[np.broadcast_to(_valid(x, counts), values.shape)]
    finite_ones = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
    if values.dtype.kind not in "fiu" or not finite_ones.size:
        return f"{name} {x.describe_dims()}"
    zeros, others = int((values == 0).sum()), values.size - finite_ones.size
    text = f"{name} {x.describe_dims()}: {finite_ones.min():.4g} … {finite_ones.max():.4g}"
    return text + (f", {zeros} zeros" if zeros else "") + (f", {others} not finite" if others else "")
