"""Makes a kept step of a traced one. It refuses what it cannot give back exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import Call, External, Var
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.body.hypotheses import Hypotheses
from rfnb.loop.program import Lines, Written
from rfnb.loop.step import Carried, TracedStep
from rfnb.trace.record.op_call import OpCall
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.core.graph.graph import Node, Value
    from rfnb.core.tensor.op import OpRow
    from rfnb.loop.step import FrameInput, Step


class NotKept(Exception):
    """The step cannot be kept, or a kept step does not fit a call. The argument says why."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands for a tensor in the arguments and results of an op: its position among all tensors of the step."""

    number: int


@dataclass(frozen=True, slots=True)
class OfParameter:
    """Stands for a parameter in the arguments of an op: its position among the parameters of the step."""

    number: int


class Given(NamedTuple):
    """The raw tensor of a given tensor."""

    number: int


class FromSizes(NamedTuple):
    """Lengths that are put together. sizes: for each dim, by serial, the given tensor that has it, and its serial
    there. finite: as in Lengths."""

    sizes: tuple[tuple[int, int, int], ...]
    finite: bool


class KeptTensor(NamedTuple):
    """A tensor of the step. raw: where its numbers come from; None if it is `given` itself. lengths: where its lengths
    come from; a constant if they have no sizes. emptied: the dims whose padding is known to be 0."""

    raw: Var | External | Given | None
    sig: Sig
    lengths: FromSizes | Lengths
    given: int | None
    emptied: tuple[Dim, ...] | None


class KeptOp(NamedTuple):
    """A call of an op. calls, outside, values: the ranges of its raw calls, of the tensors from outside that are read
    here first, and of the values that are made. runs: whether the op itself runs again, since its raw calls depend on
    sizes or lengths."""

    row: OpRow
    args: Any
    kwargs: Any
    given: tuple[Slot, ...]
    result: Any
    calls: tuple[int, int]
    outside: tuple[int, int]
    values: tuple[int, int]
    runs: bool

    def structure(self) -> tuple[Any, ...]:
        """What has to be equal in two traces of the same step."""
        return (self.row.name, *self[1:])


class OfSizes(NamedTuple):
    """A constant that is made of the sizes of dims: `make` of these and of a number. device: where it is."""

    make: Callable[[Sequence[int], int], Any]
    dims: tuple[Dim, ...]
    number: int
    device: Any


class KeptPart(NamedTuple):
    """A part of the raw calls, in order: those of an op that runs again, or others. op: its position.

    Of others: how many values there are before them, and until which one the tensors from outside are read; the numbers
    of the values that they read; their code, a function of these values that gives those that they make.
    """

    op: int | None
    values: int = 0
    outside: int = 0
    reads: tuple[int, ...] = ()
    code: Any = None


class KeptValue(NamedTuple):
    """A value of the body: a Traced without its tensor."""

    tensor: KeptTensor
    value: Value


@dataclass(frozen=True)
class KeptStep:
    """A step as it was traced, and how to make its tensors for another batch.

    step: its `carried` have a KeptValue each before the step, and as initial values those of what the loop itself
    carries, the same along the dims whose sizes differ from batch to batch. values: how many values are on its tape.
    outside: for each tensor from outside where it comes from; None if the op that reads it first makes it. outputs:
    each with the signature of all steps, and its name. lengths: those of the scores of a search. by_place: the outputs
    that are not resolved. draws: whether it has random numbers. ends: whether the number of steps
    differs between sequences, and its dims. unstacks: whether the body unstacks a tensor.
    """

    step: Step
    values: int
    outside: tuple[Given | OfParameter | OfSizes | None, ...]
    parameters: tuple[Parameter, ...]
    tensors: tuple[KeptTensor, ...]
    ops: tuple[KeptOp, ...]
    nodes: tuple[Node, ...]
    parts: tuple[KeptPart, ...]
    frames: tuple[FrameInput, ...]
    outputs: tuple[tuple[KeptValue, Sig, Any], ...]
    hypotheses: Hypotheses | None
    lengths: FromSizes | Lengths | None
    by_place: tuple[int, ...]
    draws: bool
    ends: tuple[bool, tuple[Dim, ...]]
    unstacks: bool

    def agrees(self, other: KeptStep) -> bool:
        """Whether two traces gave the same step."""
        try:
            return self._structure() == other._structure() and all(
                a is b for a, b in zip(self.parameters, other.parameters, strict=True)
            )
        except (ValueError, TypeError, RuntimeError):  # arguments that cannot be compared
            return False

    def _structure(self) -> tuple[Any, ...]:
        step = self.step
        once = {position for op in self.ops if op.runs for position in range(*op.calls)}
        calls = [
            (call.reads, call.result, call.parts, call.changes, call.effect)
            if position in once
            else (call.fn, call.args, call.kwargs, call.result, call.parts, call.changes, call.effect)
            for position, call in enumerate(step.program.calls)
        ]
        return (
            calls, self.values, self.outside, len(self.parameters), self.tensors, [op.structure() for op in self.ops],
            self.frames, [replace(carry, before=carry.before.tensor, initial=None) for carry in step.carried],
            step.schedule, step.ends, step.include_eos, self.by_place, self.lengths,
            self.hypotheses and self.hypotheses.beams, [(output.tensor, sig) for output, sig, _ in self.outputs],
            step.axis, step.gives_size, self.ends, self.unstacks, step.unfrozen, self.draws,
            len(step.program.stream_devices), step.states,
        )  # fmt: skip


def facts_of(given: Sequence[Tensor]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """What a traced step depends on of the tensors from outside: their dims and kinds, and the sizes that may differ
    from batch to batch."""
    facts: list[Any] = []
    sizes: list[int] = []
    for x in given:
        shape, lengths = x._raw.shape, x.lengths
        extents = tuple([(n, size.dims, size.ragged, size.min > 0, size.traced) for n, size in lengths.sizes.items()])
        shape_facts = tuple([min(n, 2) for n in shape])
        facts.append((x.sig, type(x._raw), x.dtype, x.device, shape_facts, extents, lengths.finite, emptied(x)))
        sizes += shape
    return tuple(facts), tuple(sizes)


def emptied(x: Tensor) -> tuple[Dim, ...] | None:
    """The dims of a tensor whose padding is known to be 0."""
    mark = getattr(x, "_emptied", None)
    return mark[2] if mark is not None and mark[0] is x._raw else None


WITHOUT_SIZES = {
    "__add__", "__and__", "__eq__", "__ge__", "__getitem__", "__gt__", "__invert__", "__le__", "__lt__", "__mul__",
    "__ne__", "__neg__", "__or__", "__radd__", "__rmul__", "__rsub__", "__sub__", "__truediv__", "abs", "add",
    "as_tensor", "bitwise_not", "cat", "cos", "detach", "div", "embedding", "eq", "exp", "flatten", "gather", "ge",
    "gelu", "gt", "index_select", "isneginf", "le", "linear", "log", "log_softmax", "logical_and", "logical_not",
    "logical_or", "lt", "masked_fill", "matmul", "maximum", "minimum", "mul", "ne", "neg", "permute", "pow", "relu",
    "rsqrt", "sigmoid", "silu", "sin", "softmax", "sqrt", "square", "squeeze", "sub", "t", "tanh", "to",
    "unsqueeze", "where",
}  # fmt: skip
"""Names of functions of which no argument is a size; of indices, full slices and new axes have none either."""
SIMPLE = (int, float, complex, str, bytes, type(None), Dim, Slot, OfParameter)
PLAIN = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)


def keep(step: TracedStep, given: Sequence[Tensor]) -> KeptStep:
    """The step without its tensors. Call it when the step is closed, before it runs.

    given: all tensors from outside that the body may read, besides parameters, and the initial states; in each call in
    the same order. Raises NotKept.
    """
    _check(step)
    return _Keeper(step, given).kept()


def _check(step: TracedStep) -> None:
    recorder, tape = step.recorder, step.tape
    reasons = {
        "a loop in a loop": step.outer is not None,
        "it is recorded": recorder.recorded,
        "values are watched": bool(step.watchers),
        "it pauses": bool(step.pauses),
        "values of the last step": bool(step.lasts),
        "an axis grows": bool(recorder.grown),
        "entries of states are reordered": step.reordered,
        "it has no steps": step.limit.max == 0,
        "branches": bool(recorder._sides),
        "it changes tensors from outside": bool(tape._before),
        "effects": any(call.effect for call in tape.calls),
        "the size of a batch is not a number": step.limit.traced,
        "it draws numbers outside of its ops": bool(step.generators),
    }
    for why, true in reasons.items():
        if true:
            raise NotKept(why)


class _Keeper:
    def __init__(self, step: TracedStep, given: Sequence[Tensor]):
        self.step, self.tape, self.given = step, step.tape, given
        self.recorder = step.recorder
        self.parameters: list[Parameter] = []
        self.tensors: list[KeptTensor] = []
        self.slots: dict[int, Slot] = {}  # by id
        self.places = {id(x): i for i, x in reversed(list(enumerate(given)))}
        self.raws = {id(x._raw): i for i, x in reversed(list(enumerate(given)))}
        self.lengths: dict[int, FromSizes | Lengths] = {}  # by id
        self.sizes: dict[int, tuple[int, int]] = {}  # by id of the Size
        for i, x in reversed(list(enumerate(given))):
            for serial, size in x.lengths.sizes.items():
                if size.traced:
                    raise NotKept("the size of a batch is not a number")
                self.sizes[id(size)] = (i, serial)

    def kept(self) -> KeptStep:
        step, tape = self.step, self.tape
        ops = [self._op(call) for call in self.recorder.op_calls]
        sources = self._outside(ops)
        for op in ops:
            self._check_operands(op, sources)
        ops = [op._replace(runs=self._runs(op, sources)) for op in ops]
        within = {position for op in ops for position in range(*op.calls)}
        for position, call in enumerate(tape.calls):
            if position not in within and not _is_plain(call):
                raise NotKept(f"a call of {getattr(call.fn, '__name__', 'a function')} outside of ops")
        hypotheses, lengths, by_place = self._hypotheses()
        carried = tuple(map(self._carried, step.carried))
        return KeptStep(
            step=step.without_tensors(carried=carried, program=step.program.without_tensors(), search=None),
            values=len(tape.values), outside=tuple(sources), parameters=tuple(self.parameters), ops=tuple(ops),
            nodes=tuple(call.node for call in self.recorder.op_calls),
            frames=tuple(frame._replace(source=self._place(frame.source)) for frame in step.frames),
            outputs=tuple((self._value(x), out.sig, out._name) for x, out in step.outputs),
            hypotheses=hypotheses, lengths=lengths, by_place=by_place, draws=step.seed is not None,
            tensors=tuple(self.tensors), parts=tuple(self._parts(ops)), ends=(step.limit.ragged, step.limit.dims),
            unstacks=step.size is not None,
        )  # fmt: skip

    def _hypotheses(self) -> tuple[Hypotheses | None, FromSizes | Lengths | None, tuple[int, ...]]:
        """The hypotheses of a search, their lengths, and the outputs that are not resolved."""
        of = self.step.hypotheses
        if of is None:
            return None, None, ()
        try:
            light = of.without_values()
        except (ValueError, AttributeError):
            raise NotKept("the result of a search that knows more of its batch") from None
        outputs = enumerate(self.step.outputs)
        by_place = tuple(i for i, (_, out) in outputs if any(out is value for value in of._by_place))
        return light, self._lengths(of.lengths), by_place

    def _carried(self, carried: Carried) -> Carried:
        before, initial = carried.before, None
        if carried.kind != "state":
            initial = self._same_for_all(carried.initial, before.sig.dims)
        return replace(carried, before=self._value(before), initial=initial)

    def _value(self, traced: Traced) -> KeptValue:
        return KeptValue(self._tensor(traced.plain), traced.value)

    def _same_for_all(self, raw: Any, dims: Sequence[Dim]) -> Any:
        """An initial value with size 1 along the dims whose sizes differ from batch to batch."""
        backend, row = self.step.backend, raw
        for axis, dim in enumerate(dims):
            if dim.dimension is None:
                row = backend.slice_raw(row, axis, 0, 1, 1)
        if 0 in backend.get_shape_tuple_raw(row) or not backend.all_true_raw(backend.compare_raw(raw, "equal", row)):
            raise NotKept("the loop begins with something else for each sequence")
        return backend.snapshot_raw(row)

    def _place(self, source: Tensor | None) -> int | None:
        place = self.places.get(id(source))
        if place is None and source is not None:
            raise NotKept("frames of a tensor that is not given")
        return place

    # -- ops

    def _op(self, call: OpCall) -> KeptOp:
        if call.row.effect:
            raise NotKept(f"{call.row.name} has an effect")
        slots = tuple(slot for x in call.given if isinstance(slot := self._leaf(x), Slot))
        return KeptOp(
            call.row, map_leaves(self._leaf, call.args), map_leaves(self._leaf, call.kwargs), slots,
            map_leaves(self._leaf, call.result), call.node.tape, call.outside, call.values, runs=False,
        )  # fmt: skip

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Parameter):
            return OfParameter(self._number(leaf))
        if isinstance(leaf, Tensor):
            slot = self.slots.get(id(leaf))
            if slot is None:
                slot = self.slots[id(leaf)] = Slot(len(self.tensors))
                self.tensors.append(self._tensor(leaf))
            return slot
        record = getattr(type(leaf), "__dataclass_params__", None)  # the rules of a beam, for example
        parts = leaves([*vars(leaf).values()]) if record is not None and record.frozen else None
        if parts is not None and all(self._leaf(part) is part for part in parts):
            return leaf
        function = isinstance(leaf, FunctionType) and leaf.__closure__ is None
        if not (isinstance(leaf, SIMPLE) or function or isinstance(leaf, type)):
            raise NotKept(f"an op gets a {type(leaf).__name__}")
        return leaf

    def _number(self, parameter: Parameter) -> int:
        for number, p in enumerate(self.parameters):
            if p is parameter:
                return number
        self.parameters.append(parameter)
        return len(self.parameters) - 1

    def _tensor(self, x: Tensor) -> KeptTensor:
        if isinstance(x, Traced):
            raise NotKept("a value of another loop")
        place, source = self.places.get(id(x)), self.tape.find(x._raw)
        raw = source if isinstance(source, Var | External) else self._given_raw(x)
        return KeptTensor(raw if place is None else None, x.sig, self._lengths(x.lengths), place, emptied(x))

    def _given_raw(self, x: Tensor) -> Given:
        if id(x._raw) not in self.raws:
            raise NotKept("an op reads a tensor that is not given")
        return Given(self.raws[id(x._raw)])

    def _lengths(self, lengths: Lengths) -> FromSizes | Lengths:
        if not lengths.sizes:
            return lengths
        result = self.lengths.get(id(lengths))
        if result is None:
            sizes = tuple((serial, *self._size(size)) for serial, size in lengths.sizes.items())
            result = self.lengths[id(lengths)] = FromSizes(sizes, lengths.finite)
        return result

    def _size(self, size: Size) -> tuple[int, int]:
        if id(size) not in self.sizes:
            raise NotKept("the body makes an axis with lengths of its own")
        return self.sizes[id(size)]

    def _outside(self, ops: Sequence[KeptOp]) -> list[Given | OfParameter | OfSizes | None]:
        """Where each tensor from outside comes from."""
        parameters = {id(parameter._raw): i for i, parameter in enumerate(self.parameters)}
        numbers = {number for op in ops for number in range(*op.outside)}
        sources: list[Given | OfParameter | OfSizes | None] = []
        for number, raw in enumerate(self.tape.externals):
            if id(raw) in parameters:
                sources.append(OfParameter(parameters[id(raw)]))
            elif id(raw) in self.raws:
                sources.append(Given(self.raws[id(raw)]))
            elif number in numbers:
                sources.append(None)
            elif id(raw) in self.recorder.of_sizes:
                sources.append(OfSizes(*self.recorder.of_sizes[id(raw)]))
            else:
                raise NotKept("a line reads a tensor that is not given")
        return sources

    def _check_operands(self, op: KeptOp, outside: Sequence[Any]) -> None:
        """An operand is given, or what an earlier op has made."""
        raws = [self.tensors[slot.number].raw for slot in op.given]
        new = [raw.number for raw in raws if isinstance(raw, External) and raw.number >= op.outside[0]]
        if any(outside[number] is None for number in new):
            raise NotKept("an op reads a tensor that is not given")

    def _runs(self, op: KeptOp, outside: Sequence[Any]) -> bool:
        """Whether an op has to run again: its raw calls have sizes, random numbers, or tensors made of lengths."""
        calls = self.tape.calls[slice(*op.calls)]
        if op.row.random or any(outside[number] is None for number in range(*op.outside)):
            return True
        return not all(_is_plain(call) and all(_known(read, outside) for read in call.reads) for call in calls)

    # -- parts

    def _parts(self, ops: Sequence[KeptOp]) -> Iterator[KeptPart]:
        """The parts of the raw calls. A part of calls ends where an input of the step comes between their results."""
        end = 0
        for place, op in enumerate(ops):
            if op.runs:
                yield from self._others(range(end, op.calls[0]))
                yield KeptPart(place)
                end = op.calls[1]
        yield from self._others(range(end, len(self.tape.calls)))

    def _others(self, positions: Sequence[int]) -> Iterator[KeptPart]:
        """The parts of consecutive calls."""
        part: list[int] = []
        newest = -1
        for position in positions:
            numbers = self.tape.calls[position].made
            if part and numbers[0] != newest + 1:
                yield self._part(part)
                part = []
            part.append(position)
            newest = numbers[-1]
        if part:
            yield self._part(part)

    def _part(self, positions: Sequence[int]) -> KeptPart:
        """Consecutive calls, as code."""
        calls, lines = [self.tape.calls[position] for position in positions], Lines(())
        for call, position in zip(calls, positions, strict=True):
            lines.call(call, position)
        variables = [var for call in calls for var in call.made]
        reads = tuple({var: None for call in calls for var in call.read_vars if var not in variables})
        numbers = [read.number + 1 for call in calls for read in call.reads if isinstance(read, External)]
        head = ["def run(given):", *([f"    {''.join(f'v{var}, ' for var in reads)}= given"] if reads else [])]
        code = Written(lines, 0, head, [f"    return ({''.join(f'v{var}, ' for var in variables)})"], 1)
        return KeptPart(None, min(variables), max(numbers, default=0), reads, code)


def _known(read: Any, outside: Sequence[Any]) -> bool:
    return type(read) is Var or (type(read) is External and outside[read.number] is not None)


def _is_plain(call: Call) -> bool:
    """Whether a raw call has no sizes among its arguments, and no function made for this batch."""
    fn = call.fn
    if type(fn) is MethodType or not (isinstance(fn, PLAIN) or _is_of_a_module(fn)):
        return False
    name = getattr(fn, "__name__", "")
    if name not in WITHOUT_SIZES:
        return False
    return name != "__getitem__" or _takes_all(call.args[1])


def _is_of_a_module(fn: Callable[..., Any]) -> bool:
    return isinstance(fn, FunctionType) and fn.__closure__ is None


def _takes_all(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or part == slice(None) for part in parts)
