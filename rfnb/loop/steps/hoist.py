"""Moves ops out of the steps: before them if they depend on no state, after them if only outputs depend on them.

An op whose operands are the same at every step is computed once. Other ops are computed for all steps together, over a
private Dim, `frames`, which counts the steps and has no padding; the op's row must allow it (`frames="any"`). All other
ops stay in the steps, and so do those that raise an error when they are computed over `frames`.

`_Placing` decides which ops may leave the steps. `DeferredGradients` moves the gradients of weights after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.mask import ended_by
from rfnb.backend.base.tape import Call, External, Product, Var
from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node, all_nodes
from rfnb.core.ground.nested import map_leaves
from rfnb.core.ground.scope import current_meter
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of, tensors_in
from rfnb.loop.ends import EndedFrames
from rfnb.loop.program import Schedule, with_attributes
from rfnb.loop.step import Outcome, frames_dim, one_step
from rfnb.loop.steps.explain import OpPlacement, Place, note_step
from rfnb.loop.steps.growing_axes import grows
from rfnb.trace.record.record import OpCall

if TYPE_CHECKING:
    from rfnb.loop.step import TracedStep


class PlacedOp:
    """An op of the body, and where it is computed.

    reads: the values that it reads. makes: those that it makes, without operands that it returns unchanged. why: why it
    stays in the steps. seconds: how long it took, if it was timed.
    """

    __slots__ = ("call", "makes", "place", "reads", "seconds", "why")

    def __init__(self, call: OpCall, reads: frozenset[Var], makes: frozenset[Var], place: Place = "steps"):
        self.call, self.reads, self.makes, self.place = call, reads, makes, place
        self.why = ""
        self.seconds: float | None = None


class Placement(NamedTuple):
    """The ops of a body, in order, as arguments of PlacedOp after the call. seen: for each value, the first op that has
    it as an operand or a result, and its position among these."""

    ops: list[tuple[frozenset[Var], frozenset[Var], Place]]
    seen: dict[Var, tuple[int, int]]


class _Placing:
    """Finds where each op may be computed, by its row and its operands. known: whether the number of steps is known
    before they run."""

    def __init__(self, step: TracedStep, known: bool):
        self.step, self.known = step, known
        self.program, self.tape, schedule = step.program, step.tape, step.schedule
        self.wanted = {*schedule.new, *schedule.kept, *([schedule.ended] if schedule.ended else [])}
        self.ops, self.seen = list[PlacedOp](), dict[Var, tuple[int, int]]()
        for number, call in enumerate(step.recorder.op_calls):
            for place, var in enumerate([*call.reads, *call.makes]):
                if type(var) is Var:
                    self.seen.setdefault(var, (number, place))
            reads, makes = (frozenset(var for var in part if type(var) is Var) for part in (call.reads, call.makes))
            self.ops.append(PlacedOp(call, reads, makes - reads))
        self.owners = {id(node): op for op in self.ops for node in all_nodes([op.call.node])}

    def placement(self) -> Placement:
        """Where each op may be computed."""
        staying = self._staying()
        self._place_before(staying)
        self._place_after(staying)
        return Placement([(op.reads, op.makes, op.place) for op in self.ops], self.seen)

    def _staying(self) -> set[PlacedOp]:
        """Ops that must stay in the steps: they draw random numbers, have an effect, or read what changes."""
        grown = self.step.recorder.grown
        staying = {op for op in self.ops if op.call.row.random or op.call.row.effect}
        if grown:
            serial, roots, grown_vars = min(grown), set(grown), set[Var]()
            for op in self.ops:
                if op.reads & grown_vars or grows([op.call.args, op.call.kwargs, op.call.result], roots):
                    staying.add(op)
                    grown_vars |= op.makes
                    dims = [dim for tensor in op.call.results for dim in tensor.dims]
                    roots |= {root for dim in dims for root in dim.roots if root > serial}  # made in the body: may grow
        written: set[object] = {External(i) for i, raw in enumerate(self.program.externals) if self.tape.is_kept(raw)}
        written |= {Var(n) for call in self.program.calls if id(call.node) not in self.owners for n in call.changes}
        if written:
            readers = [call for call in self.program.calls if not written.isdisjoint(call.reads)]
            staying |= {self.owners[id(call.node)] for call in readers if id(call.node) in self.owners}
            staying |= {
                op
                for op in self.ops
                if any(self.tape.find(x._raw) in written for x in tensors_in([op.call.args, op.call.kwargs]))
            }
        return staying

    def _place_before(self, staying: set[PlacedOp]) -> None:
        """Finds the ops that can be computed before the steps."""
        constants = {Var(number) for number in self.program.constants}
        constants &= self.seen.keys() | set(self.step.schedule.outputs)
        place: dict[Var, Place] = dict.fromkeys(constants, "once")
        for frame in self.step.frames:
            if frame.is_stackable and self.known:
                place[frame.var] = "frames"
        for op in self.ops:
            operands = {place.get(var, "steps") for var in op.reads}
            if op not in staying and "steps" not in operands:
                if "frames" not in operands:
                    op.place = "once"
                elif op.call.row.frames == "any":
                    op.place = "frames"
            for var in op.makes:
                place.setdefault(var, op.place)

    def _place_after(self, staying: set[PlacedOp]) -> None:
        """Moves ops after the steps if only outputs depend on them, and no op that stays in the steps."""
        for_states = set(self.program.needed([*self.wanted]))
        demand, busy = set[Any](self.wanted), set(staying)
        for position, call in enumerate(self.program.calls):
            owner = self.owners.get(id(call.node))
            if position in for_states or owner is None:
                demand.update(call.reads)
                busy |= {owner} if owner is not None else set()
        for op in reversed(self.ops):
            if op.place == "steps" and op.makes:
                if op.call.row.frames == "any" and op not in busy and demand.isdisjoint(op.makes):
                    op.place = "after"
                else:
                    demand |= op.reads


BUDGET = 2**31
"""Maximum size of an op's results for all steps together, in bytes; ops with larger results stay in the steps."""
LARGE = 2**20
"""Values larger than this, in bytes, are freed as soon as no later op reads them."""


class _Values:
    """Values that are computed outside of the steps, with or without the dim `frames`, and those of the traced frame.

    seen: where each value of the traced frame is, as in Placement. dim: counts the steps, if their number is known.
    """

    def __init__(self, step: TracedStep, seen: dict[Var, tuple[int, int]], dim: Dim | None):
        self.backend, self.tape, self.dim = step.backend, step.tape, dim
        self._calls, self._seen = step.recorder.op_calls, seen
        self._traced: dict[Var, Tensor] = {}
        for variable, (output, _) in zip(step.schedule.outputs, step.outputs, strict=True):
            if variable not in seen:
                self._traced.setdefault(variable, output.plain)
        constants = map(Var, step.program.constants)
        self.computed = {v: self.traced(v) for v in constants if v in seen or v in self._traced}

    @property
    def on_cpu(self) -> bool:
        """Whether the values are on the CPU."""
        return all(self.traced(var).device == "cpu" for var in [*self._seen][:1])

    def traced(self, var: Var) -> Tensor:
        """The value on the traced frame."""
        tensor = self._traced.get(var)
        if tensor is None:
            op, place = self._seen[var]
            call = self._calls[op]
            tensor = self._traced[var] = [*call.given, *call.results][place]
        return tensor

    @property
    def frames(self) -> Dim:
        """The dim `frames`, once the number of steps is known."""
        assert self.dim is not None
        return self.dim

    def over_frames(self, var: Var) -> bool:
        """Whether a value has the dim `frames`."""
        return self.dim is not None and self.dim in self.computed[var].sig.index

    def raw(self, var: Var) -> RawTensor:
        """The raw value, [frames, …]; without `frames` if it is the same at every step."""
        dims = self.traced(var).dims
        return self.moved(self.computed[var], (self.frames, *dims) if self.over_frames(var) else dims)

    def moved(self, tensor: Tensor, dims: Sequence[Dim]) -> RawTensor:
        """The raw value, with its axes in this order."""
        return self.backend.move_raw(tensor._raw, align.move(tensor.dims, dims, trailing=False))

    def with_frames(self, raw: RawTensor, like: Tensor) -> Tensor:
        """Raw values of all steps as a tensor like that of one step."""
        return tensor_of(raw, align.sig([self.frames, *like.dims], like.sparse_dim, like.sig.feature_dim), like.lengths)

    def with_dims_of(self, traced: Tensor, made: Tensor) -> Tensor:
        """Replaces Dims that the op has created in this call by those that it created when it was traced."""
        new = [dim for dim in made.dims if dim is not self.dim and dim not in traced.sig.index]
        old = [dim for dim in traced.dims if dim not in made.sig.index]
        return made if not new or len(new) != len(old) else _renamed(made, dict(zip(new, old, strict=True)), traced)

    def var(self, tensor: Tensor) -> Var | None:
        """The variable of a tensor on the traced frame."""
        source = self.tape.find(tensor._raw)
        return source if type(source) is Var else None

    def at_step(self, var: Var, step: int) -> Tensor:
        """The value in one step."""
        tensor = self.computed[var]
        if not self.over_frames(var):
            return tensor
        raw = self.backend.select_raw(tensor._raw, tensor.axis(self.frames), step)
        return tensor_of(raw, align.without(tensor.sig, [self.frames]), tensor.lengths)

    def output(self, var: Var, steps: int) -> RawTensor:
        """The raw value, [steps, …]."""
        raw = self.raw(var)
        if not self.over_frames(var):
            raw = self.backend.expand_raw(self.backend.expand_dims_raw(raw, 0), 0, steps)
        return raw


class Hoist:
    """Computes ops of a body outside of the steps: `before()` and `after(…)`.

    step_outputs: the values that the steps give instead of the outputs; `before` sets them.
    """

    def __init__(self, step: TracedStep):
        self.traced_step, self.program, self.backend = step, step.program, step.backend
        schedule = step.schedule
        self.outputs = schedule.outputs
        self.step_outputs: list[Var] = []
        self.failed: tuple[int, Node] | None = None  # the step and the op of an error after the steps
        self.wanted = {*schedule.new, *schedule.kept, *([schedule.ended] if schedule.ended else [])}
        self.frames: dict[Var, Any] = {frame.var: frame for frame in step.frames}
        has_size = step.size is not None and not step.ends and step.limit.max > 0
        dim = frames_dim(step.limit.max) if has_size else None  # not known if the loop may end early
        self.analysis = self.program.analysis
        placed = self.analysis.get(("placed", has_size), lambda: _Placing(step, has_size).placement())
        self.ops = [PlacedOp(call, *op) for call, op in zip(step.recorder.op_calls, placed.ops, strict=True)]
        self.values = _Values(step, placed.seen, dim)
        self.clocked = False  # whether the ops are timed
        self.meter, self.measured = current_meter(), step.recorder.measured
        if self.measured is not None:
            self.measured.size, self.measured.frames = step.limit, dim

    @cached_property
    def _owners(self) -> dict[int, PlacedOp]:
        """The op that makes the raw calls of each node, by id of the node."""
        return {id(node): op for op in self.ops for node in all_nodes([op.call.node])}

    def _ops_at(self, *places: Place) -> list[PlacedOp]:
        return [op for op in self.ops if op.place in places]

    # -- before the steps

    def before(self, *, record: bool) -> tuple[dict[Var, RawTensor], dict[Var, RawTensor]]:
        """Computes what depends on no state. Returns the raw values that the steps need: constants, and [steps, …].

        record: return outputs as well, so that a replay can show them; and time the ops, on the CPU.
        """
        self.clocked = record and self.values.on_cpu
        with listening(None), broadcast_allowed(), self._ended():
            numbers, unused, stacked = self.analysis.get("live", self._live)
            for number in unused:
                self.ops[number].why = "nothing needs it"
            for var in stacked:
                frames = self.frames[var]
                self.values.computed[var] = frames.kind.stacked(self.backend, frames.source, self.values.frames)
            live = [self.ops[number] for number in numbers]
            for count, op in enumerate(live, 1):
                self._run(op)
                self._free_unused(op.reads, live[count:])
        question = "given", record, self._places()
        self.step_outputs, inputs = self.analysis.get(question, lambda: self._given(record))
        of_frames = {var for var in inputs if self.values.over_frames(var)}
        return (
            {var: self.values.raw(var) for var in inputs if var not in of_frames},
            {var: self.values.raw(var) for var in inputs if var in of_frames},
        )

    def _given(self, record: bool) -> tuple[list[Var], list[Var]]:
        """The values that the steps give, and those that they get of the computed ones."""
        after = {var for op in self._ops_at("after") for var in op.makes}
        carried = sorted(self._read_after() - after - set(self.outputs))
        outputs = [var for var in (*self.outputs, *carried) if var not in self.values.computed and var not in after]
        inputs = {*map(Var, self.program.constants), *self.frames}  # which the steps have without this
        new = sorted(self.values.computed.keys() - inputs)
        reads = self._read_by_steps([*outputs, *(self.outputs if record else ())]) if new else ()
        return outputs, [var for var in new if var in reads]

    def _ended(self) -> AbstractContextManager[None]:
        """A context in which ops know which sequences have ended."""
        dim = self.values.dim
        return nullcontext() if dim is None else ended_by(EndedFrames(self.traced_step.limit, dim))

    def _live(self) -> tuple[list[int], list[int], list[Var]]:
        """The ops before the steps whose results are needed, in order; those whose results are not; and the frames to
        be stacked for them, or after the steps."""
        live, unused, demand, ops = [], [], self._read_after() | set(self.outputs), self._ops_at("once", "frames")
        reads = set(demand)
        demand |= self._read_by_steps([*demand]) if ops else set()
        for number, op in reversed([*enumerate(self.ops)]):
            if op.place not in ("once", "frames") or op.makes <= self.values.computed.keys():
                continue
            if op.makes.isdisjoint(demand):
                unused.append(number)
                continue
            live.append(number)
            demand |= op.reads
            reads |= op.reads
        has_size = self.values.dim is not None
        stacked = [var for var, frame in self.frames.items() if var in reads and frame.is_stackable and has_size]
        return live[::-1], unused, stacked

    def _read_after(self) -> set[Var]:
        return {var for op in self._ops_at("after") for var in op.reads}

    def _read_by_steps(self, outputs: Sequence[Var]) -> set[Var]:
        """The values that the calls left in the steps read, and those that the steps give."""
        reads = self.wanted | set(outputs)
        for position in self.program.needed([*reads]):
            call = self.program.calls[position]
            owner = self._owners.get(id(call.node))
            if owner is None or owner.place == "steps":
                reads |= {ref for ref in call.reads if isinstance(ref, Var)}
        return reads

    def _run(self, op: PlacedOp) -> None:
        """Computes an op for all steps. If that fails, it stays in the steps, and so do the ops that depend on it."""
        if not op.reads <= self.values.computed.keys():
            op.place = "steps"
        elif self._too_large(op):
            op.place, op.why = "steps", "its results for all steps together are too large"
        elif not self._try_all_steps(op):
            op.place, op.why = "steps", "it cannot be computed for all steps together"

    def _free_unused(self, read: frozenset[Var], later: Sequence[PlacedOp]) -> None:
        """Frees large values that neither a later op nor a step reads."""
        computed = self.values.computed
        large = {var for var in read & computed.keys() if self.backend.nbytes_raw(computed[var]._raw) > LARGE}
        if large:
            large -= {var for op in [*later, *self._ops_at("after")] for var in op.reads} | set(self.outputs)
            for var in large - self.analysis.get(("read", self._places()), self._read_later):
                del computed[var]

    def _read_later(self) -> set[Var]:
        return self._read_by_steps([*self.outputs, *self._read_after()])

    def _places(self) -> tuple[Place, ...]:
        return tuple([op.place for op in self.ops])

    def _too_large(self, op: PlacedOp) -> bool:
        size = sum(self.backend.nbytes_raw(self.values.traced(var)._raw) for var in op.makes)
        return op.place == "frames" and size * (self.values.frames.dimension or 0) > BUDGET

    def _try_all_steps(self, op: PlacedOp) -> bool:
        """Computes an op for all steps together; False if it raised. The steps then raise the error with its place."""
        try:
            tensors = tensors_in(self._call(op, self.values.computed))
        except Exception:
            return False
        results: dict[Var, Tensor] = {}
        for traced, var, tensor in zip(op.call.results, op.call.makes, tensors, strict=True):
            if var in op.makes:
                tensor = self.values.with_dims_of(traced, tensor)
                if set(tensor.dims) - {self.values.dim} != set(traced.dims) or tensor.dtype != traced.dtype:
                    return False
                results.setdefault(var, tensor)
        self.values.computed |= results
        return True

    def _call(self, op: PlacedOp, values: Mapping[Var, Tensor]) -> object:
        """Calls an op on `values` instead of the values of the traced frame."""

        def value(leaf: Any) -> Any:
            var = self.values.var(leaf) if isinstance(leaf, Tensor) else None
            return leaf if var is None else _relabelled(values[var], self.values.traced(var), leaf)

        args, kwargs = map_leaves(value, op.call.args), map_leaves(value, op.call.kwargs)
        if self.meter is None or self.measured is None:
            began = perf_counter()
            result = op.call.row.fn(*args, **kwargs)
            if self.clocked:
                op.seconds = (op.seconds or 0.0) + perf_counter() - began
            return result
        calls = [call for call in self.program.calls if self._owners.get(id(call.node)) is op]
        single = partial(one_step, calls, self.traced_step.tape.values, self.program.externals)
        stacked = partial(op.call.row.fn, *args, **kwargs)
        return self.meter.hoisted(op.call.node, op.place, stacked, single, self.measured)

    # -- after the steps

    def after(self, stacked: Sequence[RawTensor], steps: int, taken: Callable[[], Size]) -> list[RawTensor]:
        """Computes the outputs from the stacked `step_outputs` of the steps: raw tensors [steps, …].

        taken: finds the number of steps of each sequence.
        """
        self.values.dim = frames_dim(steps)
        if self.measured is not None:
            self.measured.frames = self.values.dim
        shared = set(self.values.computed)  # outputs among these may be views of tensors outside
        given = dict(zip(self.step_outputs, stacked, strict=True))
        live, demand = [], set(self.outputs)
        for op in reversed(self._ops_at("after")):
            if not op.makes.isdisjoint(demand):
                live.append(op)
                demand |= op.reads
        if live:
            self._run_after(live, given, steps, taken())
        pairs = [(var, given[var] if var in given else self.values.output(var, steps)) for var in self.outputs]
        return [self.backend.copy_raw(raw) if var in shared else raw for var, raw in pairs]

    def _run_after(self, live: list[PlacedOp], given: Mapping[Var, RawTensor], steps: int, taken: Size) -> None:
        for var in given.keys() & {var for op in live for var in op.reads}:
            self.values.computed[var] = self.values.with_frames(given[var], self.values.traced(var))
        with listening(None), broadcast_allowed(), ended_by(EndedFrames(taken, self.values.frames)):
            while live:
                op = live.pop()
                if not self._try_all_steps(op):
                    self._step_by_step(op, steps)
                for var in op.reads.difference(self.outputs, *[later.reads for later in live]):
                    self.values.computed.pop(var, None)

    def _step_by_step(self, op: PlacedOp, steps: int) -> None:
        rows = []
        for step in range(steps):
            try:
                result = self._call(op, {var: self.values.at_step(var, step) for var in op.reads})
            except Exception as error:
                note_step(error, step, self.traced_step.name, op.call.node)
                self.failed = step, op.call.node
                raise
            rows.append(tensors_in(result))
        for traced, var, column in zip(op.call.results, op.call.makes, zip(*rows, strict=True), strict=True):
            if var in op.makes:
                raws = [self.values.moved(self.values.with_dims_of(traced, result), traced.dims) for result in column]
                self.values.computed.setdefault(var, self.values.with_frames(self.backend.stack_raw(raws), traced))

    # -- for the explanation

    def placements(self) -> list[OpPlacement]:
        """Where each op of the body's lines is computed, and what it depends on. Call it after `before`."""
        ops = self.ops[: self.traced_step.own_ops]
        return [OpPlacement(op.call.node, op.call.row, op.reads, op.makes, op.place, op.why, op.seconds) for op in ops]


def _relabelled(made: Tensor, traced: Tensor, leaf: Tensor) -> Tensor:
    """`made` with the dims and roles of `leaf`; on the traced frame, `leaf` shares its data with `traced`."""
    if leaf.sig is traced.sig:
        return made
    return _renamed(made, dict(zip(traced.dims, leaf.dims, strict=True)), leaf)


def _renamed(made: Tensor, names: Mapping[Dim, Dim], like: Tensor) -> Tensor:
    signature = align.sig([names.get(dim, dim) for dim in made.dims], like.sparse_dim, like.sig.feature_dim)
    return tensor_of(made._raw, signature, like.lengths if made.lengths.finite else like.lengths.infinite())


MIN_STEPS = 4
"""Smallest number of steps for which deferring the gradients saves time."""


class DeferredGradients:
    """A Program whose weights get their gradients after the loop, once `defer()` was called.

    Args:
        schedule: what the steps take and give. stacked: the frames of each Var as one raw tensor, [steps, …].

    program, schedule: what to run. After `defer()` they have additional frames and outputs; the results are the same.
    """

    def __init__(self, step: TracedStep, schedule: Schedule, stacked: dict[Var, RawTensor]):
        self.program = self._plain = step.program
        self.schedule, self.backend, self._max_steps = schedule, step.backend, step.limit.max
        self._stacked, self._values = dict(stacked), step.tape.values
        self._inputs: list[Var] = []  # the operands that the weights are multiplied with
        self._waiting: list[
            tuple[list[RawTensor], int]
        ] = []  # lists to fill with the inputs of all steps; how many of them

    def frames(self) -> list[Sequence[RawTensor]]:
        """The stacked frames, each as a sequence over the steps."""
        return [self.backend.unstack_raw(raw, 0) for raw in self._stacked.values()]

    def collect(self, outcome: Outcome) -> None:
        """Takes the additional outputs out of `outcome`, for the gradients; the plain Program's outcome remains."""
        outputs = len(outcome.outputs) - len(self._inputs)
        raws = iter(outcome.outputs[outputs:])
        del outcome.outputs[outputs:]
        if outcome.error is None:
            for waiting, count in self._waiting:
                waiting += [self.backend.stack_detached_raw(next(raws)) for _ in range(count)]
        elif outcome.failed_call is not None:
            node = self.program.calls[outcome.failed_call].node
            outcome.failed_call = next((i for i, call in enumerate(self._plain.calls) if call.node is node), None)

    def defer(self) -> None:
        """Defers the gradients of weights in the steps, if gradients are on and the number of steps is known."""
        schedule = self.schedule
        if schedule.ended is None and self._max_steps >= MIN_STEPS and self.backend.grad_enabled_raw():
            self._defer([*schedule.new, *schedule.kept, *schedule.outputs])

    def _defer(self, targets: list[Var]) -> None:
        calls = [self.program.calls[position] for position in self.program.needed(targets)]
        products = [
            product
            for product in self.backend.products_raw(calls, self._values, self.program.externals)
            if self.backend.needs_gradient_raw(self.program.externals[product.weight.number])
        ]
        if not products:
            return
        change = "deferred gradients", self.program.inputs, tuple(self.program.constants), tuple(targets)
        self.program = self.program.copy()
        self.program.analysis = self._plain.analysis.after(change)
        for frames, group in self._groups(products, calls, targets).items():
            self._defer_group(frames, group)
        self.program.inputs += tuple(var for var in self._stacked if var not in self.program.inputs)
        self.schedule = with_attributes(self.schedule, outputs=(*self.schedule.outputs, *self._inputs))

    def _groups(self, products: list[Product], calls: list[Call], targets: list[Var]) -> dict[Var, list[Product]]:
        """Groups the products by the frames that they are added to; without such frames, by their own result."""
        uses = Counter(var for call in calls for var in call.reads)
        uses.update(set(targets))
        summed = {var: var for var in self._stacked if uses[var] == 1}  # the frames, by sums of them and products only
        groups: dict[Var, list[Product]] = {}
        for product in products:
            result = _made(product)
            frames = result if product.x is None else summed.get(product.x, result)
            if frames is not result and uses[result] == 1:
                summed[result] = frames
            groups.setdefault(frames, []).append(product)
        return groups

    def _defer_group(self, frames: Var, group: list[Product]) -> None:
        weights = [self.program.externals[product.weight.number] for product in group]
        result = None
        if frames not in self._stacked:
            zeros = self.backend.no_frames_raw(self._values[frames.number], self._max_steps)
            frames, result = self._new_var(), self._new_var()
            self._stacked[frames] = zeros
        out_first = [product.out_first for product in group]
        self._stacked[frames], waiting = self.backend.deferred_raw(self._stacked[frames], weights, out_first)
        self._waiting.append((waiting, len(group)))
        for product, weight in zip(group, weights, strict=True):
            self._inputs.append(product.h)
            constant = self.program.add_external(self.backend.constant_weight_raw(weight, product.transposed))
            calls = [product.with_weight(constant, _made(product).number)]
            if result is not None:
                calls = [
                    product.with_weight(constant, result.number),
                    Call(self.backend.sum_raw, (result, frames), {}, _made(product).number, node=product.call.node),
                ]
            self.program.replace(product.call, calls)

    def _new_var(self) -> Var:
        self._values.append(None)
        return Var(len(self._values) - 1)


def _made(product: Product) -> Var:
    assert product.call.result is not None
    return Var(product.call.result)
