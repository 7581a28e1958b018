"""Traces a call of a net: which ops each layer calls, on which values and dims; loops with the ops of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal

from rfnb.core.dims.dim import Dim, batch_dim, single_step_dim
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.listener import Listener, active_listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.loop.choice import choose
from rfnb.loop.loop import Loop
from rfnb.netdict.axes import time_of
from rfnb.netdict.build import NetNode, run_node
from rfnb.netdict.layer import LAYERS, Layer
from rfnb.netdict.layers.rec.cell import Cell
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.run import RecRun
from rfnb.netdict.loss_holder import LossHolder, holders_of, penalties_of, reduced
from rfnb.netdict.network import Network
from rfnb.netdict.user_layers import OwnLayer
from rfnb.nn.cells.cell import RecCell
from rfnb.nn.module.module import Module
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import add, cast, square
from rfnb.ops.reduce import reduce_sum
from rfnb.trace.record.traced import Pending, Traced

Kind = Literal["op", "cell", "raw", "l2", "loop", "with", "method", "attribute", "set", "get"]


class Unwritten(NetworkError):
    """A net, or a layer of it, that has no form as code."""


def unwritten(owner: str, why: str, **more: Any) -> Unwritten:
    """The error for a layer that cannot be written."""
    where = f"layer {owner!r}" if owner else "the net"
    error = Unwritten(f"to_code: {where} has no form as code: {why}", **more)
    error.at_layer = owner or None  # type: ignore[attr-defined]
    return error


@dataclass(eq=False)
class Call:
    """A line of the code: an op, a cell, a loop, the `with` of its body, a method of it, a state that is set or read.

    Attributes:
        owner: the path of the layer that it belongs to; "" for none.
        kind, name, fn: what is called. args, kwargs, result: with what, and what it gave.
        body: the lines of a step of a loop, or of what a cell does. loop: the loop whose method or state this is.
        weights: the tensors of a cell by attribute. windows: of a convolution with the padding "same", the size, stride
            and dilation along each axis.
    """

    owner: str
    kind: Kind
    name: str
    fn: Callable[..., object] | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    body: list[Call] = field(default_factory=list)
    loop: Any = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    windows: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(eq=False)
class Trace:
    """What a call of a net did.

    Attributes:
        inputs: the data by key. calls: the lines, in order. outputs: the results of layers by path.
        losses: their values for the objective by the path of the layer, and constraints.
        cells: by the id of a cell, what made it for a layer. named: the results of layers, with those in loops.
        serial: of the newest dim before the call.
    """

    inputs: dict[str, Tensor]
    serial: int
    named: list[tuple[str, Tensor]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    losses: dict[str, Tensor] = field(default_factory=dict)
    cells: dict[int, Cell] = field(default_factory=dict)


class Tracer(Listener):
    """Adds each op to a trace. outer: in the body of a loop, what records the body. steps: those of cells are lines."""

    def __init__(self, trace: Trace, steps: bool):
        self.trace, self.lines, self.steps = trace, trace.calls, steps
        self.owner = ""  # the path of the layer that is computed now
        self.layer: Any = None
        self.busy = False
        self.known: dict[int, Tensor] = {}  # by id, what lines gave
        self.by_raw: dict[tuple[int, int], Tensor] = {}
        for x in trace.inputs.values():
            self.give(x)

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Computes an op, and adds it; ops inside of it are not added."""
        with self.quiet() as is_outer:
            result = super().call(row, args, kwargs)
        if is_outer:
            call = self.add("op", row.name, row.fn, args, kwargs, result)
            layer = self.layer
            if row.name in ("conv", "pool") and _is_a(layer, "conv", "pool") and layer.same:
                windows = zip(layer.sizes, layer.steps, layer.dilations, strict=True)
                call.windows = [] if layer.spec.batch_independent else list(windows)
        return result

    def call_module(
        self, module: object, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """Calls a layer, whose ops belong to it, or a cell, which is a line of its own."""
        if isinstance(module, RecCell) and not self.busy:
            if id(module) not in self.trace.cells:  # of a layer of the user, whose ops are lines of their own
                return super().call_module(module, forward, args, kwargs)
            weights = {name: self.origin(x) for name, x in tensors_of(module)}
            body: list[Call] = []
            with self.having(owner=self.trace.cells[id(module)].layer[0].name):
                if not self.steps:
                    with self.quiet():
                        result = super().call_module(module, forward, args, kwargs)
                else:
                    with self.having(lines=body):
                        axis = kwargs["spatial_dim"]
                        if axis is single_step_dim:
                            result = super().call_module(module, forward, args, kwargs)
                        else:
                            loop: Any = TracedLoop(Loop(axis=axis), self)
                            result = module.steps(loop, *module.prepared(args[0], kwargs["state"], axis))
                self.add("cell", type(module).__name__, None, args, kwargs, result, weights=weights, body=body)
            return result
        if not isinstance(module, Layer) or self.busy:
            return super().call_module(module, forward, args, kwargs)
        with self.having(owner=module.name, layer=module):
            result = super().call_module(module, forward, args, kwargs)
        output = result[0] if isinstance(result, tuple) else result
        if isinstance(module, OwnLayer) and id(self.origin(output)) not in self.known:
            raise unwritten(module.name, f"{module.layer_class} computes with something else than ops of rf")
        if isinstance(output, Tensor):
            self.trace.named.append((module.name, self.origin(output)))
        return result

    def cond(self, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> object:
        """A branch cannot be written yet."""
        raise unwritten(self.owner, "it has a branch that depends on values")

    def add(
        self, kind: Kind, name: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, **more: Any
    ) -> Call:
        """Adds a line."""
        args, kwargs = map_leaves(self.origin, args), {key: map_leaves(self.origin, x) for key, x in kwargs.items()}
        call = Call(self.owner, kind, name, fn, args, kwargs, result, **more)
        for x in leaves(result):
            self.give(x)
        self.lines.append(call)
        return call

    def give(self, x: object) -> None:
        """From here on, a tensor is one that lines gave."""
        if isinstance(x, Tensor):
            self.known.setdefault(id(x), x)
            if not isinstance(x, Pending):
                self.by_raw.setdefault(raw_of(x), x)

    def origin(self, x: object) -> Any:
        """The tensor that a line gave; a copy of it, as names in loops make them, is the same."""
        if not isinstance(x, Tensor) or isinstance(x, Parameter) or id(x) in self.known:
            return x
        return self.by_raw.get(raw_of(x), x)

    @contextmanager
    def quiet(self) -> Iterator[bool]:
        """Inside, nothing is added. Gives whether this is the outermost such block."""
        is_outer = not self.busy
        with self.having(busy=True):
            yield is_outer

    @contextmanager
    def having(self, **attributes: object) -> Iterator[None]:
        """Inside, the tracer has these attributes: the layer that ops belong to, the lines that they are added to."""
        before = {name: getattr(self, name) for name in attributes}
        vars(self).update(attributes)
        try:
            yield
        finally:
            vars(self).update(before)

    @contextmanager
    def inside(self, lines: list[Call]) -> Iterator[None]:
        """Inside, ops are those of the body of a loop, which is recorded as well."""
        with self.having(outer=active_listener(), lines=lines), listening(self):
            yield


def tensors_of(module: Module, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a module and of those in it, by attribute: "ff_weight", "input_norm.scale", "layers.0.weight"."""
    for name, part in vars(module).items():
        if isinstance(part, Tensor):
            yield f"{prefix}{name}", part
    for name, child in module.named_children():
        yield from tensors_of(child, f"{prefix}{name}.")


def raw_of(x: Tensor) -> tuple[int, int]:
    """What two tensors share that are the same value."""
    plain = x._trace[0] if isinstance(x, Traced) else x
    return id(plain._raw), id(x.sig)


class TracedLoop:
    """A loop whose methods and states are lines of the code."""

    def __init__(self, loop: Loop, tracer: Tracer):
        self.__dict__.update(_loop=loop, _tracer=tracer, _block=None, _line=None, state=TracedStates(loop, tracer))
        options = {"max_seq_len": loop.max_seq_len, "optimize_move_layers_out": loop.optimize_move_layers_out}
        tracer.add("loop", "Loop", Loop.__init__, (), {"axis": loop.axis, **options, "name": loop.name}, loop)

    def __getattr__(self, name: str) -> Any:
        if name == "iter_idx":
            return self._added("iter_idx", (), {})
        value = getattr(self._loop, name)
        if name == "found" and value is not None:
            return TracedObject(value, self._loop, "found.", self._tracer)
        if name not in ("unstack", "stack", "last", "end", "choice"):
            return value
        return lambda *args, **kwargs: self._added(name, args, kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state":
            for key, x in value.items():
                self.state[key] = x
        else:
            setattr(self._loop, name, value)

    def _added(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        with self._tracer.quiet():
            method = getattr(self._loop, name)
            result = method(*args, **kwargs) if callable(method) else method
        fn = choose if name == "choice" else getattr(Loop, name)
        self._tracer.add("method", name, fn, args, kwargs, result, loop=self._loop)
        return TracedObject(result, result, "", self._tracer) if name == "choice" else result

    def __enter__(self) -> TracedLoop:
        self._loop.__enter__()
        line = self._tracer.add("with", "with", None, (), {}, None, loop=self._loop)
        self.__dict__.update(_line=line, _block=self._tracer.inside(line.body))
        self._block.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        self._block.__exit__(*error)
        with self._tracer.quiet():
            stop = self._loop.__exit__(*error)
        for call in self._line.body if error[0] is None else ():
            if call.kind == "method":  # its result has numbers now
                self._tracer.give(call.result)
        return stop


class TracedObject:
    """The result of a choice, or of a search, whose attributes are lines of the code.

    Attributes: what it is; the loop or choice that stands before the dot, and what stands after it; the tracer.
    """

    def __init__(self, value: Any, owner: object, prefix: str, tracer: Tracer):
        self._value, self._owner, self._prefix, self._tracer = value, owner, prefix, tracer

    def __getattr__(self, name: str) -> object:
        value = getattr(self._value, name)
        if name == "follow":
            return self._follow
        if any(isinstance(leaf, Tensor) for leaf in leaves(value)):
            self._tracer.add("attribute", f"{self._prefix}{name}", None, (), {}, value, loop=self._owner)
        return value

    def _follow(self, x: Tensor) -> Tensor:
        with self._tracer.quiet():
            y: Tensor = self._value.follow(x)
        self._tracer.add("method", "follow", None, (x,), {}, y, loop=self._owner)
        return y


class TracedStates:
    """The states of a loop, which are lines of the code when they are set or read."""

    def __init__(self, loop: Loop, tracer: Tracer):
        self._loop, self._tracer = loop, tracer

    def __getitem__(self, name: str) -> object:
        value = self._loop.state[name]
        self._tracer.add("get", name, None, (), {}, value, loop=self._loop)
        return value

    def __setitem__(self, name: str, value: object) -> None:
        self._tracer.add("set", name, None, (value,), {}, None, loop=self._loop)
        self._loop.state[name] = value


class TracedRun(RecRun):
    """A run of a recurrent net that traces its steps each time."""

    tracer: Tracer

    def __init__(self, rec: RecNet, values: MutableMapping[str, Tensor], nodes: Mapping[str, NetNode]):
        super().__init__(rec, values, nodes)
        if self.axis is not rec.axis and rec.own_axis is None:
            hint = "rf.Network(…, batch_independent=True) counts the frames that there are"
            raise unwritten(rec.path, "its search counts one more frame of each shorter sequence", hint=hint)
        self.loop = TracedLoop(self.loop, self.tracer)  # type: ignore[assignment]
        self.search.loop = self.loop

    def _on(self, new: Dim, x: Tensor, old: Dim) -> Tensor:
        with self.tracer.quiet():
            y = super()._on(new, x, old)
        if y is not x:
            self.tracer.add("raw", "convert_to_tensor", None, (x,), {}, y)
        return y


def _is_a(layer: object, *names: str) -> bool:
    """Whether a layer is of one of these classes of net dicts; none is of a class whose file was not imported."""
    return isinstance(layer, tuple(LAYERS[name] for name in names if name in LAYERS))


def trace_of(net: Network, batch: Mapping[str, object], *, train: bool, steps: bool = False) -> Trace:
    """What a call of a net does with a batch, and its losses. steps: whether those of its cells are lines as well."""
    tensors = net.extern_data.tensors(batch)
    trace = Trace(tensors, Dim(1).serial)
    trace.cells = {id(x.cell): x for x in (vars(layer)["cell"] for layer in net.modules() if _is_a(layer, "rec"))}
    tracer = Tracer(trace, steps)
    run = type("TracedRun", (TracedRun,), {"tracer": tracer})
    values = {f"data:{key}": x for key, x in tensors.items()}
    with get_run_ctx().train_flag_ctx(train), listening(tracer):
        for node in net._order:
            if node.layer is None:
                continue
            if isinstance(node, NetNode):
                run_node(node, values)
            else:
                with tracer.having(owner=node.path):
                    run(node, values, net._nodes).run()
        trace.outputs = {path: tracer.origin(x) for path, x in values.items() if not path.startswith("data:")}
        if net.eval_flag:
            counts = net._has_loss if train else lambda node: net._has_loss(node) and node.loop is None
            for path, holder in holders_of(net._nodes.values(), values, counts).items():
                value = objective_of(holder)
                if value is not None:
                    trace.losses[path] = tracer.origin(value)
        constraints = constraints_in(net, tracer)
        if constraints is not None:
            trace.losses["constraints"] = tracer.origin(constraints)
    return trace


def without_dropout(trace: Trace) -> Trace:
    """The trace with the arguments of dropout in the place of its results, as in evaluation."""
    instead: dict[int, object] = {}

    def origin(x: object) -> Any:
        while id(x) in instead:
            x = instead[id(x)]
        return x

    def kept(calls: list[Call]) -> list[Call]:
        lines = []
        for call in calls:
            args = map_leaves(origin, call.args)
            if call.name == "dropout" and not call.kwargs.get("on_forward"):
                instead[id(call.result)] = args[0]
                continue
            kwargs = {key: map_leaves(origin, x) for key, x in call.kwargs.items()}
            weights = {key: origin(x) for key, x in call.weights.items()}
            lines.append(replace(call, args=args, kwargs=kwargs, weights=weights, body=kept(call.body)))
        return lines

    calls = kept(trace.calls)
    outputs, losses = ({key: origin(x) for key, x in of.items()} for of in (trace.outputs, trace.losses))
    named = [(path, origin(x)) for path, x in trace.named]
    return replace(trace, calls=calls, outputs=outputs, losses=losses, named=named)


def constraints_in(net: Network, tracer: Tracer) -> Tensor | None:
    """The sum of the constraints, where all parameters with one factor are a line."""
    by_factor: dict[float, list[Tensor]] = {}
    terms: list[Tensor] = []
    for layer in [module for module in net.modules() if isinstance(module, Layer)]:
        common = layer.spec.common
        if common.param_dropout or common.param_variational_noise:
            raise unwritten(layer.name, "noise is added to its parameters")
        if common.L2:
            by_factor.setdefault(common.L2, []).extend(p for p in layer.params.values() if p.trainable)
        terms += penalties_of(layer)
    for factor, weights in by_factor.items():
        if weights:
            with tracer.quiet():
                squares = [reduce_sum(square(weight), axis=list(weight.dims)) for weight in weights]
                value = reduce(add, squares) * factor
            tracer.add("l2", "sum", None, (weights, factor), {}, value)
            terms.insert(0, value)
    return reduce(add, terms) if terms else None


def objective_of(holder: LossHolder) -> Tensor | None:
    """What a loss adds to the objective, where the number of frames is computed too."""
    value = holder.get_loss_value_per_pos()
    if value is None or not holder.scale:
        return None
    value = reduced(value)
    value = value if holder.scale == 1.0 else value * holder.scale
    if not holder.loss.opts["use_normalized_loss"]:
        return value
    if holder.loss.opts["custom_norm_factor"] is not None or holder.custom_inv_norm_factor is not None:
        return value * holder.get_norm_factor()
    return value / count_of(holder)


def count_of(holder: LossHolder) -> Tensor:
    """The number of frames that a mean counts, or of sequences without frames."""
    counted = holder.target if holder.target is not None else holder.output
    frames = time_of(counted) or time_of(holder.output)
    if frames is None:
        return cast(get_size_tensor(batch_dim), "float32")
    lengths = get_size_tensor(frames)
    return cast(reduce_sum(lengths, axis=list(lengths.dims)), "float32")


def every_call(calls: list[Call]) -> Iterator[Call]:
    """The lines, with those in loops."""
    for call in calls:
        yield call
        yield from every_call(call.body)
