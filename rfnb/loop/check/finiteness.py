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
from rfnb.core.graph.model_graph import argument_names, owner
from rfnb.core.ground import backends
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import RawTensor, Tensor, plain_tensor
from rfnb.core.tensor.tensor_dict import as_dicts
from rfnb.errors import DtypeError, ParameterError, fact_lines
from rfnb.printable import terminal_text
from rfnb.trace.graph.meters import raw_of, raws_in
from rfnb.trace.observe import Observer, OpEvent, observing

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

    event: OpEvent
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
        subject = f"{self.event.op}: {entries} of {self.event.name}" + (f", first at {self.at}" if self.at else "")
        facts = [(self.kind, f"made by {f'the gradient through {self.event.op}' if self.gradient else subject}")]
        facts.append(("where", self.event.place()))
        facts += [("operand", operand) for operand in self.operands]
        source = self.came_from
        while source is not None:
            facts.append(("from", f"{source.kind} of {source.event.place()}"))
            source = source.came_from
        return facts


@dataclass(repr=False)
class FiniteReport(Shown):
    """The result of `finite`; true if ops were followed and all computed values are finite.

    first: the op that made the first NaN, or the first infinity if there is no NaN. made: all such ops, in order.
    passed: how many results have a NaN or an infinity because an operand has one. given: tensors from outside that
    have one. in_training: parameters whose gradient has one only if nothing is observed, as in training, where a loop
    computes ops for all steps together. results: how many results of ops were checked. result_is_finite: whether that
    of the function has numbers, all finite. The tensor of `first` is `report.first.tensor`; later findings have none.
    """

    made: list[NotFinite] = field(default_factory=list)
    passed: int = 0
    given: list[str] = field(default_factory=list)
    in_training: list[str] = field(default_factory=list)
    results: int = 0
    result_is_finite: bool = False

    @property
    def first(self) -> NotFinite | None:
        """The first NaN, or the first infinity."""
        return next((origin for origin in self.made if origin.kind == "NaN"), self.made[0] if self.made else None)

    def __bool__(self) -> bool:
        return self.results > 0 and not (self.made or self.given or self.in_training)

    def __repr__(self) -> str:
        if self:
            return f"finite: no NaN and no infinity in {count_of(self.results, 'result')}"
        count = count_of(len(self.made), "op")
        head = f"finite: {count} made NaN or infinity, {count_of(self.passed, 'result')} passed it on"
        if not self.results:
            head = "finite: nothing was checked, as no op of rfnb or torch ran in this call"
        return terminal_text("\n".join([head, *fact_lines(self.facts())]))

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the tensors from outside and the first finding, each with a label."""
        facts = [*(("given", text) for text in self.given), *(("gradient", text) for text in self.in_training)]
        hint = [] if self.results else [("hint", "rf.check.finite(lambda: …), with the call of the model inside")]
        if self.first is not None:
            facts += self.first.facts()
            if self.result_is_finite and not self.first.gradient:
                facts.append(("result", "finite all the same"))
        return [*facts, *hint]


def finite(fn: Callable[..., object], *args: object, gradients: bool = False, **kwargs: object) -> FiniteReport:
    """Calls fn(*args, **kwargs) and names the op, line and loop step that made the first NaN or infinity.

    The ops of rfnb are followed, and the functions of plain torch. A scripted module counts as one op; code of
    `torch.compile` runs as it is written. Padding does not count, nor does an infinity that is passed to an op as a
    Python number, as for masking, nor −∞ from outside, as in a mask that is added to scores, as long as it stays −∞.

    Args:
        gradients: if all values are finite, also check the gradients of the sum of the results of `fn`, op by op. If
            they are finite, `fn` is called again without being observed, as in training, and the gradients of its
            parameters are checked.

    Raises DtypeError if `fn` is not a function, ParameterError if no gradients flow to its result.

    >>> x = rf.convert_to_tensor([1.0, 0.0], dims=[rf.Dim(2, name="feat")])
    >>> report = rf.check.finite(lambda: rf.log(x) * 0.0)
    >>> bool(report), report.first.kind, report.first.event.op, report.first.came_from.event.op
    (False, 'NaN', 'mul', 'log')
    >>> report = rf.check.finite(torch.nn.Linear(2, 3), torch.tensor([1.0, float("nan")]))
    >>> report.given
    ['the input `input` {axis0:2} already has NaN, first used by linear at ...']
    """
    if not callable(fn):
        raise DtypeError(
            f"check.finite: {called(fn)} is not a function, and the ops that made it have already run",
            got=type(fn).__name__,
            expected="a function to call, so that its ops can be checked",
            hint="rf.check.finite(lambda: …)",
        )
    search = _Search(argument_names(fn, args, kwargs), gradients=gradients)
    with observing(search.see, [owner(fn), *leaves([args, kwargs])]) as observer:
        search.begin(observer)
        result = fn(*args, **kwargs)
    search.end(result)
    if gradients and not search.report.made:
        search.backward(result)
        if search:
            search.in_training(fn(*args, **kwargs))
    return search.report


@dataclass(frozen=True)
class _Bad:
    """The entries of a tensor that are NaN, those that are infinite, and the signs of the infinities."""

    nan: np.ndarray
    infinite: np.ndarray
    signs: frozenset[float]

    @property
    def kind(self) -> str:
        return "NaN" if self.nan.any() else "infinity"


class _Search:
    """Checks each result when it is computed.

    inputs: the arguments of the function, with their names. gradients: whether to prepare for `backward`.
    """

    def __init__(self, inputs: list[tuple[str, object]], *, gradients: bool):
        self.report = FiniteReport()
        named = [leaf for name, value in inputs for leaf in named_leaves(as_dicts(value), name)]
        self._inputs = {id(raw): name for name, leaf in named if (raw := raw_of(leaf)) is not None}
        self._alive = inputs  # so that no id is reused
        self._infinite: dict[int, tuple[weakref.ref[RawTensor], NotFinite]] = {}  # by id of the raw tensor
        self._inner: list[NotFinite] = []  # of calls inside of ops and modules of rfnb, perhaps only in padding
        self._newest: NotFinite | None = None  # the first of them since the last op of rfnb
        self._meant: dict[int, tuple[weakref.ref[RawTensor], frozenset[float]]] = {}  # signs of infinities, as of masks
        self._backward = _Backward() if gradients else None

    def __bool__(self) -> bool:
        return bool(self.report)

    def begin(self, observer: Observer) -> None:
        """Gives the inputs their names."""
        observer.calls.names.update(self._inputs)
        self._observer = observer

    def see(self, event: OpEvent) -> None:
        self.report.results += len(event.outputs) or event.plain  # inside of vmap, results cannot be read
        if event.changed is not None:
            self._move(event.outputs[0]._raw, event.changed._raw)
        if self._backward is not None:
            self._backward.see(event)
        for output in event.outputs:
            bad = _bad(output, event.counts(output))
            if bad is not None and event.plain and event.op.removeprefix("new_").startswith("empty"):
                self._remember(output, NotFinite(_bare(event), "NaN", 1, ""))  # its memory is not set yet
            elif bad is not None:
                self._found(event, output, bad)
        if not event.inner:
            self._newest = None

    def _move(self, raw: RawTensor, former: object) -> None:
        """What is known of a tensor that was changed in place holds for the tensor with its former value."""
        tables: tuple[dict[int, Any], ...] = (self._infinite, self._meant)
        for table in tables:
            if id(raw) in table:
                table[id(former)] = weakref.ref(former), table.pop(id(raw))[1]

    def _found(self, event: OpEvent, output: Tensor, bad: _Bad) -> None:
        operands = [(x, _bad(x, event.counts(x))) for x in event.inputs]
        broken = [(x, bad_entries) for x, bad_entries in operands if bad_entries is not None]
        signs = [self._signs(x, bad_entries) for x, bad_entries in broken]
        if self._known(output) is not None or event.kind in ("input", "state") or any(b.nan.any() for _, b in broken):
            self._pass_on(event, output, broken)
        elif event.op == "raw_call" and self._newest is not None:
            self._remember(output, self._confirmed(self._newest))
        elif bad.nan.any():
            self._made(event, output, "NaN", bad.nan, broken)
        elif not all(signs):
            self._pass_on(event, output, broken)
        elif (broken and bad.signs <= {-np.inf}.union(*signs)) or _writes_infinity(event):
            self._meant[id(output._raw)] = weakref.ref(output._raw), bad.signs
        else:
            self._made(event, output, "infinity", bad.infinite, broken)

    def _signs(self, x: Tensor, bad: _Bad) -> frozenset[float]:
        """The signs of the infinities that are meant, as in a mask; empty if they are not."""
        where, signs = self._meant.get(id(x._raw), (None, frozenset[float]()))
        if where is not None and where() is x._raw:
            return signs
        is_given = self._known(x) is None and not bad.nan.any()
        return bad.signs if is_given and bad.signs == {-np.inf} else frozenset()

    def _is_meant(self, x: Tensor) -> bool:
        where = self._meant.get(id(x._raw), (None, None))[0]
        return where is not None and where() is x._raw

    def _made(
        self, event: OpEvent, output: Tensor, kind: str, where: np.ndarray, broken: list[tuple[Tensor, _Bad]]
    ) -> None:
        cause = next((origin for x, _ in broken if (origin := self._known(x)) is not None), None)
        operands = _operands(event)
        position = _first(output, where)
        origin = NotFinite(_bare(event), kind, int(where.sum()), position, operands, cause)
        if sum(entry.kind == kind for entry in self.report.made) < KEPT:
            place = tuple(map(int, np.argwhere(where)[0])) if output.dims else ()
            origin = replace(origin, event=event, tensor=output, place=place, counts=event.counts(output))
        (self._inner if event.inner else self.report.made).append(origin)
        self._newest = self._newest or (origin if event.inner else None)
        self._remember(output, origin)

    def _confirmed(self, finding: NotFinite) -> NotFinite:
        """The finding, which counts from now on, as it has reached an entry that is not padding."""
        if any(finding is inner for inner in self._inner):
            self._inner = [inner for inner in self._inner if inner is not finding]
            self.report.made.append(finding)
        return finding

    def _pass_on(self, event: OpEvent, output: Tensor, broken: list[tuple[Tensor, _Bad]]) -> None:
        self.report.passed += 1
        origins = [origin for x, _ in broken if (origin := self._known(x)) is not None]
        if origins and not event.inner:
            self._confirmed(origins[0])
        if not origins:
            x, bad = next(((x, bad) for x, bad in broken if not self._signs(x, bad)), (output, _bad(output)))
            self._came_in(event, x, bad)
        self._remember(output, origins[0] if origins else NotFinite(_bare(event), "NaN", 1, ""))

    def _came_in(self, event: OpEvent, x: Tensor, bad: _Bad | None) -> None:
        """Reports a tensor that no observed op made: it is from outside, or a state from an earlier step."""
        if not (self.report.made or self.report.given):
            role = self._role(x)
            place = event.place()
            if role and bad is not None:
                words = f"the {role} `{_name(x)}` {x.describe_dims()} already has {bad.kind}"
                self.report.given.append(f"{words}, first used by {event.op} at {place}")
            else:
                self.report.given.append(f"{_name(x)} {x.describe_dims()} was already not finite at {place}")
        self._remember(x, NotFinite(_bare(event), "NaN", 1, ""))

    def _role(self, x: Tensor) -> str:
        """Whether a tensor is an "input" or a "parameter"; else ""."""
        recorder = self._observer.calls.recorder
        if isinstance(x, Parameter) or (recorder is not None and id(x._raw) in recorder.modules.parameters):
            return "parameter"
        return "input" if id(x._raw) in self._inputs else ""

    def end(self, result: object) -> None:
        """Checks the parts of the result that no observed op made."""
        leaves_of_result = [(name, leaf, _as_tensor(leaf)) for name, leaf in named_leaves(as_dicts(result))]
        parts = [(name, leaf, x, _bad(x)) for name, leaf, x in leaves_of_result if x is not None]
        self.report.result_is_finite = bool(parts) and all(bad is None for *_, bad in parts)
        for name, leaf, x, bad in parts:
            if bad is None or self._is_meant(x):
                continue
            if (origin := self._known(x)) is not None:
                self._confirmed(origin)
            if not (self.report.made or self.report.given):
                words = f"{leaf}" if isinstance(leaf, float) else f"{x.describe_dims()} with {bad.kind}"
                self.report.given.append(f"the result {name and f'{name} '}is {words}, made by no op that was followed")

    def _remember(self, output: Tensor, finding: NotFinite) -> None:
        for raw in _with_base(output):
            self._infinite[id(raw)] = weakref.ref(raw), finding

    def _known(self, x: Tensor) -> NotFinite | None:
        """The finding for a tensor, if an observed op made it. A new tensor may have the id of a freed one."""
        for raw in _with_base(x):
            where, origin = self._infinite.get(id(raw), (None, None))
            if where is not None and where() is raw:
                return origin
        return None

    # -- gradients

    def backward(self, result: object) -> None:
        """Follows the gradients back to the first op that makes a NaN or an infinity from finite ones.

        Raises ParameterError if no gradients flow to the result.
        """
        assert self._backward is not None
        ends = _ends(result)
        if not ends:
            raise ParameterError(
                "check.finite: no gradients flow to the result",
                got="gradients switched off, or no parameter is trained",
                hint="gradients=True needs gradients to be on, and a result that depends on a parameter",
            )
        origins, unseen = self._backward.follow(ends)
        self.report.made += origins
        self.report.in_training += unseen

    def in_training(self, result: object) -> None:
        """Checks the gradients of parameters, for a result that was computed without observing ops."""
        assert self._backward is not None
        backend, names = backends.selected(), self._backward.names()

        def look(raw: RawTensor, gradient: object) -> None:
            if not backend.is_finite_raw(gradient):
                name = names.get(id(raw), f"a parameter of shape {backend.get_shape_tuple_raw(raw)}")
                self.report.in_training.append(f"that of {name} is not finite in training, though that of each op is")

        ends = _ends(result)
        parameters = backend.gradient_leaves_raw(ends)
        hooks = [raw.register_hook(partial(look, raw)) for raw in parameters]
        try:
            backend.follow_gradients_raw(ends, parameters)
        finally:
            for hook in hooks:
                hook.remove()


class _Backward:
    """The ops through which gradients flow, and the gradients that arrive at their operands and results."""

    def __init__(self) -> None:
        self._ops: list[tuple[OpEvent, list[int], list[int]]] = []  # with the numbers of operands and results
        self._tensors: list[Tensor] = []  # by number
        self._numbers: dict[int, int] = {}  # by id of the raw tensor
        self._hooks: list[Any] = []
        self._arrived: dict[int, str] = {}  # by number, in order: "NaN", "infinity" or ""

    def see(self, event: OpEvent) -> None:
        """Watches the operands and results of an op; a tensor that was changed in place is another one afterwards."""
        if not any(_needs_gradient(x) for x in event.outputs):
            return
        former = None if event.changed is None else self._numbers.pop(id(event.outputs[0]._raw), None)
        operands = [self._number(x) for x in event.inputs if _needs_gradient(x)]
        operands += [] if former is None else [former]
        self._ops.append((event, operands, [self._number(x) for x in event.outputs if _needs_gradient(x)]))

    def _number(self, x: Tensor) -> int:
        number = self._numbers.setdefault(id(x._raw), len(self._tensors))
        if number == len(self._tensors):
            self._tensors.append(x)
            self._hooks.append(x._raw.register_hook(partial(self._look, number)))
        return number

    def _look(self, number: int, gradient: object) -> None:
        bad = _bad(self._tensors[number].like(gradient))
        self._arrived.setdefault(number, "" if bad is None else bad.kind)

    def follow(self, ends: list[RawTensor]) -> tuple[list[NotFinite], list[str]]:
        """The first op that makes a NaN or an infinity of finite gradients, or a description of what it gave it to."""
        backend = backends.selected()
        try:
            backend.follow_gradients_raw(ends, backend.gradient_leaves_raw(ends))
        finally:
            for hook in self._hooks:
                hook.remove()
        number, kind = next(((number, kind) for number, kind in self._arrived.items() if kind), (-1, ""))
        if not kind:
            return [], []
        event = self._blame(number)
        if event is None:
            x = self._tensors[number]
            maker = next((f" ({e.place()})" for e, _, results in self._ops if number in results), "")
            return [], [f"that of {_name(x)} {x.describe_dims()}{maker} has {kind}, made by no op that was followed"]
        return [NotFinite(event, kind, 1, "", _operands(event), gradient=True)], []

    def _blame(self, number: int) -> OpEvent | None:
        """The op with a finite gradient for its result that gave a tensor its gradient; None if it was not followed."""
        readers = [(event, results) for event, operands, results in self._ops if number in operands]
        sound = [event for event, results in readers if not any(self._arrived.get(n) for n in results)]
        return next(iter(sound or [event for event, _ in readers]), None)

    def names(self) -> dict[int, str]:
        """Descriptions of the operands and results, by id of the raw tensor."""
        return {id(x._raw): f"{_name(x)} {x.describe_dims()}" for x in self._tensors}


WRITING = frozenset({"where", "full", "pad", "copy_masked", "masked_scatter"})
"""Ops that make infinities only from a number that they write."""


def _writes_infinity(event: OpEvent) -> bool:
    return event.op in WRITING or any(not np.isfinite(number) for number in event.numbers)


def _with_base(x: Tensor) -> list[object]:
    """The raw tensor, and the one that it is a view of."""
    return [raw for raw in (x._raw, getattr(x._raw, "_base", None)) if raw is not None]


def _as_tensor(leaf: object) -> Tensor | None:
    """A number, an array or a raw tensor as a Tensor; None for anything else."""
    if isinstance(leaf, Tensor):
        return None if leaf.raw_tensor is None else leaf
    if isinstance(leaf, float):
        return plain_tensor(leaf)
    is_raw = isinstance(leaf, tuple(backends.BACKENDS))
    return plain_tensor(leaf) if is_raw and backends.backend_of_raw(leaf).is_readable_raw(leaf) else None


def _ends(result: object) -> list[RawTensor]:
    """The raw tensors of a result through which gradients flow."""
    backend = backends.selected()
    return [raw for raw in raws_in(as_dicts(result)) if backend.needs_gradient_raw(raw)]


def _bare(event: OpEvent) -> OpEvent:
    """The event without its tensors, so that they can be freed."""
    return replace(event, inputs=(), outputs=(), changed=None)


def _needs_gradient(x: Tensor) -> bool:
    return bool(getattr(x._raw, "requires_grad", False))


def _bad(x: Tensor, counts: np.ndarray | None = None) -> _Bad | None:
    """The valid entries that are NaN or infinite; None if all are finite. counts: the entries to check."""
    raw = x._raw
    backend = backends.backend_of_raw(raw)
    if not backend.is_readable_raw(raw) or backend.is_finite_raw(raw):
        return None
    values, valid = backend.to_numpy_raw(raw), valid_entries(x, counts)
    infinite = np.isinf(values) & valid
    signs = frozenset(np.sign(values.real[infinite]).astype(float) * np.inf)
    bad = _Bad(np.isnan(values) & valid, infinite, signs)
    return bad if bad.nan.any() or infinite.any() else None


def valid_entries(x: Tensor, counts: np.ndarray | None = None) -> np.ndarray:
    """Which entries are not padding, and among `counts` if given."""
    backend = backends.backend_of_raw(x._raw)
    mask = backend.mask_for(x, x.dims)
    valid = np.True_ if mask is None else backend.to_numpy_raw(mask)
    entries: np.ndarray = np.asarray(valid if counts is None else valid & counts)
    return entries


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


def _operands(event: OpEvent) -> tuple[str, ...]:
    return tuple(dict.fromkeys(describe_operand(x, event.counts(x)) for x in event.inputs))


def describe_operand(x: Tensor, counts: np.ndarray | None = None, name: str | None = None) -> str:
    """The dims and the range of an operand: "energy {batch:2, time:5}: -3.1 … 0.5"."""
    name = name or _name(x)
    values = backends.backend_of_raw(x._raw).to_numpy_raw(x._raw)
    values = values[np.broadcast_to(valid_entries(x, counts), values.shape)]
    finite_ones = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
    if values.dtype.kind not in "fiu" or not finite_ones.size:
        return f"{name} {x.describe_dims()}"
    zeros, not_finite = int((values == 0).sum()), values.size - finite_ones.size
    text = f"{name} {x.describe_dims()}: {finite_ones.min():.4g} … {finite_ones.max():.4g}"
    text += f", {count_of(zeros, 'zero')}" if zeros else ""
    return text + (f", {not_finite} not finite" if not_finite else "")
