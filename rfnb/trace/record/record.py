"""Records a loop body while it is traced: a graph with dims and places in the code, and a tape of raw calls.

The dependencies and consumers of its values are found in that graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import CodeType
from typing import Any

from rfnb.backend.base.tape import Reference, Tape, Var
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.graph.graph import BodyGraph, Node, NodeKind, SideFacts, Value
from rfnb.core.graph.meter import MeasuredLoop
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.nested import leaves, map_leaves, named_parts
from rfnb.core.ground.scope import calling, module_facts, module_path, random_from
from rfnb.core.ground.source import Source, frame_of, locals_of, source_in, user_source
from rfnb.core.tensor.listener import Listener, active_listener, listening
from rfnb.core.tensor.op import OpRow, guarded
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.errors import LoopError
from rfnb.ops.grad import as_constants, makes_constants
from rfnb.trace.record.traced import Traced


class Recorder(Listener):
    """The listener that records a body while it is traced; `open` is true during that time."""

    def __init__(self, name: str, tape: Tape, generator: Callable[[str, int], object] | None, code: CodeType | None):
        self.name = name
        self.tape = tape
        self.code = code  # of the body
        self.file: str | None = None  # of rfnb, if the body is written there: its variables name values
        self.line: Source | None = None  # of a listing, whose values are named by `called`
        self.graph = BodyGraph()
        self.open = True
        self.grown: set[int] = set()  # serials of the dims whose size differs per step
        self.op_calls: list[OpCall] = []
        self.templates: dict[int, tuple[Sig, Lengths]] = {}  # by value number, for a recorded run
        self.recorded = False  # whether its steps, or those of the loop around it, become a Run
        self.without_gradients = False  # whether the steps run inside a `stop_gradient_scope`, so that nothing has any
        self.within: Recorder | None = None  # for a side of a branch: the recorder of the body
        self.choose: Callable[[Recorder, Tensor, Callable[[], object], Callable[[], object]], object] | None = None
        self.check: Callable[[Sequence[Dim], str], None] | None = None  # of the dims of each result
        self.measured: MeasuredLoop | None = None  # what the current meter is told of the loop
        self._generator = generator
        self._sides: list[Recorder] = []  # of branches
        self._bodies: list[list[Node]] = [self.graph.nodes]
        self._last_op: dict[Source, str] = {}  # by place in the user's code
        self._named: dict[Source, tuple[Value, ...]] = {}  # by place in `file`
        self._traced: dict[int, Traced] = {}  # by id of the plain tensor, which the Traced keeps alive
        self._results: set[int] = set()  # values of the body itself, not those inside its modules

    # -- values

    def input(self, name: str, plain: Tensor) -> Traced:
        """Adds a value that is an input of the step: a state, a frame, or the step number."""
        self.tape.input(plain._raw)
        return self._wrap(plain, name)

    def input_node(self, traced: Traced, op: str, kind: NodeKind = "input") -> Traced:
        """Adds a node without operands for an input that a line of the body reads; returns the input."""
        node = self._begin(op, [], kind)
        self._gives(node, [traced.value])
        traced.value.node = node
        self._last_op_is(node)
        return traced

    def drop_last_node(self, traced: Any) -> None:
        """Removes the node just added for `traced`: the loop created this value, not the user's body."""
        self._bodies[-1].pop()
        traced.value.node = None

    def inner_loop(self, inner: Recorder, results: Sequence[tuple[str, Tensor]], position: int) -> list[Traced]:
        """Adds a node for a loop inside this body; returns its named results as values of this body."""
        node = self._begin("Loop", [], "loop")
        node.body = inner.graph.nodes
        self.tape.calls[position].node = node
        wrapped = self.wrap_results({str(place): tensor for place, (_, tensor) in enumerate(results)}, node)
        values: list[Traced] = list(wrapped.values())
        for value, (name, _) in zip(values, results, strict=True):
            value.value.name = name
        return values

    def _wrap(self, plain: Tensor, name: str = "") -> Traced:
        traced = self._traced.get(id(plain))
        if traced is None:
            self.tape.refer(plain._raw)  # it may be from outside: a cached mask, or the same data with other dims
            value = self.graph.add_value(name, plain.dims, plain.sparse_dim)
            traced = self._traced[id(plain)] = Traced(plain, self, value)
        return traced

    def called(self, traced: Traced, name: str, op: str) -> Traced:
        """The value with a name. One that has a name already, of another line, gets a second value in the graph."""
        if not traced.value.name:
            traced.value.name = name
        if traced.value.name == name:
            return traced
        node = self._begin(op, [traced.value.number])
        copy = self._wrap(traced.plain.like(traced.plain._raw), name)
        copy.value.node = node
        self._gives(node, [copy.value])
        return copy

    def becomes(self, traced: Traced, other: Traced) -> None:
        """From now on `traced` is the value of `other`; the value that it was stays in the graph."""
        self._traced[id(traced.plain)] = Traced(*traced._trace)
        self._traced[id(other.plain)] = traced
        traced._trace, traced.sig, traced.lengths = other._trace, other.sig, other.lengths

    def wrap_results(self, result: object, node: Node) -> Any:
        """Wraps the results of an op or a module as values of the body, and returns them."""
        if type(result) is Tensor:
            wrapped = self._wrap(result)
            outputs = [(wrapped.value, 0)]
        else:
            wrapped = map_leaves(lambda leaf: self._wrap(leaf) if type(leaf) is Tensor else leaf, result)
            outputs = list(_positions(wrapped))
        for value, position in outputs:
            if value.node is None and value.name == "":
                value.node, value.output = node, position
        if self.check is not None:
            for value, _ in outputs:
                self.check(value.dims, node.op)
        self._gives(node, [value for value, _ in outputs])
        self._last_op_is(node)
        if self.file is not None:
            self._name([value for value, _ in outputs], source_in(self.file))
        return wrapped

    def _gives(self, node: Node, values: Sequence[Value]) -> None:
        node.outputs = tuple([value.number for value in values])
        if len(self._bodies) == 1 and self.line is None:
            self._results.update(node.outputs)

    def _name(self, values: list[Value], place: Source | None) -> None:
        """Names values after the variables assigned at `place`. If the line runs again, the new values get them."""
        names = place.names() if place is not None else ()
        if place is None or len(names) != len(values):
            return
        for old in self._named.get(place, ()):
            old.name = ""
        self._named[place] = tuple(values)
        for value, name in zip(values, names, strict=True):
            value.name = name

    def _last_op_is(self, node: Node) -> None:
        if node.source is not None:
            self._last_op[node.source] = node.op

    def name_of(self, value: Value) -> str:
        """The variable assigned in the body, else the op; inside modules with their path: "Decoder.energy"."""
        if value.name or value.node is None:
            return value.name
        node = value.node
        in_body, line_of_body = self.in_body(value), node.source is not None and node.source.code is self.code
        called = in_body or not line_of_body  # the variable names the result of the call, not the values inside it
        name = (self._target(node, value.output) if called else None) or node.op
        return name if in_body or not node.path else f"{node.path}.{name}"

    def _target(self, node: Node, output: int) -> str | None:
        """The variable that the user's line assigns, for the last op of that line: one call of rfnb may run several."""
        if node.source is None or self._last_op.get(node.source) != node.op:
            return None
        names = node.source.names()
        return names[output] if 0 <= output < len(names) and (len(names) > 1 or len(node.outputs) == 1) else None

    def in_body(self, value: Value) -> bool:
        """Whether a line of the body itself computes or assigns the value, not a function or module that it calls."""
        node = value.node
        if node is None or value.name:
            return node is not None
        return value.number in self._results and node.source is not None and node.source.code is self.code

    def forget(self) -> None:
        """Frees the traced frame. The graph is kept."""
        self.tape.forget()
        for side in self._sides:
            side.forget()
        self._sides.clear()
        self.op_calls.clear()
        self._traced.clear()
        self.let_go()

    def let_go(self) -> None:
        """Releases what was needed only while lines ran."""
        self._generator = self.choose = None

    def of_plain(self, plain: Tensor) -> Traced | None:
        """The value of the body, or of a branch in it, for a tensor of the traced frame; None if there is none."""
        candidates = (recorder._traced.get(id(plain)) for recorder in (self, *self._sides_below()))
        return next((traced for traced in candidates if traced is not None), None)

    def all_op_calls(self) -> list[OpCall]:
        """The calls of ops in the body, including those in branches."""
        return [call for recorder in (self, *self._sides_below()) for call in recorder.op_calls]

    def _sides_below(self) -> list[Recorder]:
        return [child for side in self._sides for child in (side, *side._sides_below())]

    def traced(self) -> list[Traced]:
        """All values of the body, in the order of their creation."""
        return list(self._traced.values())

    def traced_in_branches(self) -> list[Traced]:
        """All values of the branches in the body, including nested branches."""
        return [traced for side in self._sides_below() for traced in side.traced()]

    def take_names(self) -> None:
        """Names values after the variables of the body that hold them now, unless an assignment already names them."""
        frame = frame_of(self.code) if self.code is not None else None
        for name, content in locals_of(frame).items() if frame is not None else ():
            is_plain = isinstance(content, tuple | list | dict)
            for path, leaf in few_leaves(content, name) if is_plain else [(name, content)]:
                if isinstance(leaf, Traced) and leaf.recorder is self:
                    value, node = leaf.value, leaf.value.node
                    if node and not (self.in_body(value) and self._target(node, value.output)):
                        value.name = path

    # -- calls

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Runs an op on the traced frame and records it."""
        row = as_constants(row) if makes_constants.get() and not self.without_gradients else row
        operands: list[Tensor] = []
        inputs: list[int] = []
        plain = partial(self._plain, operands, inputs)
        plain_args, plain_kwargs = map_leaves(plain, args), map_leaves(plain, kwargs) if kwargs else {}
        node = self._begin(row.name, inputs)
        start = len(self.tape.values)
        if not self.tape.ops:
            self.tape.wrap = self.tape.settings()
        self.tape.ops.append(row.name)
        self._bodies.append(node.body)
        try:
            if row.random:
                with random_from(self.new_stream):
                    result = row.fn(*plain_args, **plain_kwargs)
            else:
                result = row.fn(*plain_args, **plain_kwargs)
            if self.grown:
                result = map_leaves(partial(self._own, start), result)
        finally:
            self.tape.ops.pop()
            self._bodies.pop()
        self._close(node)
        if self.tape.ops:
            return result
        result = map_leaves(partial(_apart, operands, node), result)
        if self.tape.wrap is not None:
            row = replace(row, fn=self.tape.wrap(row.fn))
        wrapped = self.wrap_results(result, node)
        self.add_call(OpCall(row, plain_args, plain_kwargs, operands, result, node))
        return wrapped

    def add_call(self, call: OpCall) -> None:
        """Adds a call of an op, and finds its tensors on the tape."""
        find, call.results = self.tape.find, tensors_in(call.result)
        call.reads, call.makes = [find(x._raw) for x in call.given], [find(x._raw) for x in call.results]
        self.op_calls.append(call)

    def new_parameter(self, dims: Sequence[Dim]) -> None:
        """Refuses a parameter, which would be another one each time that the body is traced."""
        line = user_source()
        raise LoopError(
            "a parameter is made in the body of a loop" + ("" if line is None else f" ({line.place()})"),
            got=f"{{{', '.join(f'{dim.name}:{dim.dimension}' for dim in dims)}}}",
            hint="make it, or the module that it belongs to, before the loop",
        )

    def _plain(self, operands: list[Tensor], inputs: list[int], leaf: Any) -> Any:
        """The operand on the traced frame; appends the tensor to `given` and its number in this body to `inputs`."""
        kind = type(leaf)
        if kind is Traced:
            plain, recorder, value = leaf._trace
            if recorder.graph is self.graph:
                inputs.append(value.number)
            plain = plain if recorder.open else leaf._raw  # raises an error with the reason
        elif isinstance(leaf, Tensor):
            plain = leaf
        else:
            return leaf
        operands.append(plain)
        return plain

    def _own(self, start: int, leaf: Any) -> object:
        """Copies a result that is an operand itself, because the op had nothing to do at this size."""
        variable = self.tape.find(leaf._raw) if type(leaf) is Tensor else None
        if variable is None or (isinstance(variable, Var) and variable.number >= start):
            return leaf
        return leaf.like(backend_of_raw(leaf._raw).identity_raw(leaf._raw))

    def call_module(
        self, module: object, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Runs a module and records it as a node, with the ops of the module as its body."""
        node = self._begin(type(module).__name__, self.numbers([args, kwargs]), "module")
        node.facts = module_facts(module)
        self._bodies.append(node.body)
        try:
            with calling(module):
                result = forward(module, *args, **kwargs)
        finally:
            self._bodies.pop()
        self._close(node)
        outputs = [*_positions(result)]
        self._gives(node, [value for value, _ in outputs])
        for value, position in outputs:
            if value.node is not None and value.node.source == node.source:
                value.output = position
        return result

    def cond(self, pred: Tensor, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> object:
        """Records a branch that is decided at every step, if `pred` is a value of a body; else takes one side now."""
        if not isinstance(pred, Traced):
            return super().cond(pred, true_fn, false_fn)
        assert self.choose is not None
        return self.choose(self, pred, true_fn, false_fn)

    @contextmanager
    def branch(self, node: Node, facts: SideFacts) -> Iterator[Recorder]:
        """Records the ops inside the block as a side of `node`: on the same tape and graph, with separate values."""
        side = Recorder(self.name, self.tape, self._generator, self.code)
        self._sides.append(side)
        side.recorded, side.check, side.line = self.recorded, self.check, self.line
        side.without_gradients = self.without_gradients
        side.graph, side.grown, side.choose, side.within = self.graph, self.grown, self.choose, self
        part = Node(node.number, facts.name, (), (), node.path, node.source, node.at, kind="side", facts=facts)
        node.body.append(part)
        side._bodies = [part.body]
        try:
            with listening(side):
                yield side
        finally:
            side.open, side.choose = False, None

    def numbers(self, operands: object) -> list[int]:
        """The numbers of the values of this body among the leaves of a structure."""
        graph = self.graph
        return [leaf.value.number for leaf in leaves(operands) if type(leaf) is Traced and leaf.recorder.graph is graph]

    def _begin(self, op: str, inputs: Sequence[int], kind: NodeKind = "op") -> Node:
        start = len(self.tape.calls)
        source = self.line or user_source()
        at = source
        if source is not None and self.code is not None and source.code is not self.code:
            frame = frame_of(self.code)
            at = None if frame is None else Source(frame.f_code, frame.f_lasti)
        number, path = len(self.op_calls), module_path()
        node = Node(number, op, tuple(inputs), (), path, source, at, tape=(start, start), kind=kind)
        self._bodies[-1].append(node)
        return node

    def _close(self, node: Node) -> None:
        node.tape = (node.tape[0], len(self.tape.calls))
        for call in self.tape.calls[node.tape[0] :]:
            call.node = call.node or node

    def new_stream(self, device: str) -> object:
        """Creates a random generator that is reseeded for each step."""
        assert self._generator is not None, "the recorder is closed"
        generator = self._generator(device, len(self.tape.streams))
        self.tape.stream(generator)
        return generator


def few_leaves(tree: object, path: str) -> Iterator[tuple[str, object]]:
    """The leaves of a tree with their paths, without those in lists and dicts of many parts, such as a dataset."""
    if isinstance(tree, tuple | list | dict) and len(tree) > 16:
        return
    parts = named_parts(tree)
    if parts is None:
        yield path, tree
    for key, part in parts or ():
        yield from few_leaves(part, f"{path}.{key}")


def _apart(operands: list[Tensor], node: Node, leaf: Any) -> object:
    """A result that is an operand itself, as a value of its own if the user's line gives it a name."""
    is_operand = id(leaf) in map(id, operands)
    return leaf.like(leaf._raw) if is_operand and node.source is not None and node.source.names() else leaf


def _positions(result: object) -> Iterator[tuple[Value, int]]:
    """The values in a result, each with its position; -1 inside a part that is itself a structure."""
    parts = result if isinstance(result, tuple | list) else [result]
    for position, part in enumerate(parts):
        for leaf in leaves(part):
            if isinstance(leaf, Traced):
                yield leaf.value, position if leaf is part else -1


def current_recorder() -> Recorder | None:
    """The recorder of the innermost loop body that is traced now; None outside of loop bodies."""
    listener = active_listener()
    return listener if isinstance(listener, Recorder) else None


def current_side() -> Recorder | None:
    """The recorder of the branch side that is being traced, if any."""
    who = current_recorder()
    return who if who is not None and who.within is not None else None


def unwrap(leaf: object) -> Any:
    """The tensor of the traced frame, for a value of this body or an outer one. Other leaves are returned unchanged."""
    if not isinstance(leaf, Traced):
        return leaf
    return leaf.plain if leaf.recorder.open else leaf._raw  # raises, with the reason


@dataclass
class LoopRecord:
    """A loop that has finished or failed, with all that is drawn of it. It is freed after drawing.

    around: the recorders of outer loops, the innermost first. own_ops: how many ops belong to the user's body; later
    ones were added by the loop. initial, before, after, final: the states by name, as Tensors or Dims, before the loop,
    at the start and end of the body, and after the loop. unstacked: pairs (source, frame). stacked, lasts: pairs (value
    of the body, result). error: whether the loop failed; failed: the node that failed in a step.
    """

    name: str
    recorder: Recorder
    around: list[Recorder]
    source: Source | None
    axis: Dim | None
    size: Size | None
    own_ops: int
    initial: dict[str, Tensor | Dim]
    before: dict[str, Tensor | Dim]
    after: dict[str, Tensor | Dim]
    final: dict[str, Tensor | Dim]
    unstacked: list[tuple[Tensor, Tensor]]
    stacked: list[tuple[Tensor, Tensor]]
    lasts: list[tuple[Tensor, Tensor]]
    end: Tensor | None
    include_eos: bool
    error: bool
    failed: Node | None


@guarded
def get_tensor_dependencies(x: Tensor) -> list[Tensor]:
    """The inputs of the op that computed `x`, in the loop body that is being traced.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = a + h
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.get_tensor_dependencies(b)]
    >>> names
    ['a', 'h']

    Raises BackendError for tensors outside of loop bodies: they are computed at once, and nothing is recorded.
    """
    if not isinstance(x, Traced):
        return list(backend_of_raw(x._raw).get_tensor_dependencies(x))
    node = x.value.node
    return [] if node is None else _values(x, node.inputs)


@guarded
def get_tensor_consumers(x: Tensor) -> list[Tensor]:
    """The results of ops that have used `x` so far, in the loop body that is being traced.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = a + h
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.get_tensor_consumers(h)]
    >>> names
    ['a', 'b']

    Raises BackendError for tensors outside of loop bodies: they are computed at once, and nothing is recorded.
    """
    if not isinstance(x, Traced):
        return list(backend_of_raw(x._raw).get_tensor_consumers(x))
    numbers = [n for node in x.recorder.graph.consumers(x.value.number) for n in node.outputs]
    return _values(x, numbers)


def walk_tensor_consumers(
    seed: Tensor,
    *,
    filter_outputs: Callable[[Tensor], bool] | None = None,
    ending_condition: Callable[[Tensor], bool] | None = None,
) -> Iterator[Tensor]:
    """All values that depend on `seed`, each once, in breadth-first order.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = 2 * a
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.walk_tensor_consumers(h)]
    >>> names
    ['a', 'b']

    Args:
        filter_outputs: values for which this is false are skipped, together with what depends on them only.
        ending_condition: the walk ends after a value for which this is true.
    """
    ids, waiting = {id(seed)}, [seed]
    while waiting:
        for consumer in get_tensor_consumers(waiting.pop(0)):
            if id(consumer) in ids or (filter_outputs is not None and not filter_outputs(consumer)):
                continue
            ids.add(id(consumer))
            waiting.append(consumer)
            yield consumer
            if ending_condition is not None and ending_condition(consumer):
                return


def _values(x: Traced, numbers: list[int] | tuple[int, ...]) -> list[Tensor]:
    by_number: dict[int, Tensor] = {traced.value.number: traced for traced in x.recorder.traced()}
    return [by_number[number] for number in dict.fromkeys(numbers)]


@dataclass(slots=True, eq=False)
class OpCall:
    """A call of an op in the body, kept to repeat it for all steps, or when its raw calls depend on a growing size.

    given, results: the tensors among its arguments, and those in its result. reads, makes: what they are on the tape.
    """

    row: OpRow
    args: tuple[object, ...]
    kwargs: dict[str, object]
    given: list[Tensor]
    result: object
    node: Node
    results: list[Tensor] = field(init=False)
    reads: list[Reference | None] = field(init=False)
    makes: list[Reference | None] = field(init=False)
