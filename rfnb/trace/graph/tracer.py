"""The listener that records a call of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rfnb.core.graph.call_recorder import CallRecorder, ModuleTable
from rfnb.core.graph.graph import Node, SideFacts, Value, ValueKind
from rfnb.core.graph.meter import Meter
from rfnb.core.graph.model_graph import title
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.scope import inside_module
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.record.draw_loop import LoopDrawer
from rfnb.trace.record.loop_record import LoopRecord


class Tracer(CallRecorder, Listener):
    """Records the ops, modules and loops of a call. assigned: called with each parameter before it is changed."""

    tensor_type = Tensor

    def __init__(
        self, model: Any, modules: ModuleTable, assigned: Callable[[Parameter], None], meter: Meter | None = None
    ):
        super().__init__(model, modules, meter)
        self.takes_kernels = self.meter.times
        self._assigned = assigned
        self._loops = LoopDrawer(self)

    def add_value(self, tensor: Tensor) -> Value:
        """Adds a value to the graph, with the dims of `tensor` and their sizes."""
        value = self.graph.add_value("", tensor.dims, tensor.sparse_dim)
        value.dtype = tensor.dtype
        value.sizes = tuple([tensor.lengths.size(dim) for dim in tensor.dims])
        return value

    def number_of(self, tensor: Tensor, kind: ValueKind = "constant", name: str = "") -> int:
        """The number of a value. Constants are named by their number or the tensor's name, parameters by their path."""
        if kind == "constant" and not isinstance(tensor, Parameter):
            name = _number(tensor) or tensor.name
        return super().number_of(tensor, kind, name)

    def here(self) -> Source | None:
        """The current line of the user's code."""
        return user_source()

    def fail(self, error: BaseException, node: Node | None) -> Node | None:
        """Marks the node that failed and those around it; for an error in a loop, the node found by the loop."""
        at, self._loops.failed_at = self._loops.failed_at, None
        return super().fail(error, at or node)

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an op and records it, with the ops inside it as its body."""
        with self._apart():
            node = self.begin(row.name, self.numbers(args, kwargs))
            node.name = _name_of_call(row, args, kwargs)
            if row.effect and args and isinstance(args[0], Parameter):
                self._assigned(args[0])
            for leaf in leaves([args, kwargs]) if self.takes_kernels else ():
                if isinstance(leaf, Parameter) and leaf.auxiliary:  # a kernel may change running statistics
                    self._assigned(leaf)
            with self.open(node):
                result = row.fn(*args, **kwargs)
            self.made(node, result, (args, kwargs))
        return result

    def call_module(
        self, module: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a module and records it, with its ops and modules as its body."""
        with self._apart():
            node = self.begin_module(module, self.numbers(args, kwargs))
            if node is not None:
                with inside_module(node.op), self.open(node):
                    result = forward(module, *args, **kwargs)
                self.made(node, result, (args, kwargs))
                return result
        return forward(module, *args, **kwargs)

    def cond(self, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """Runs the side of a branch that is taken, and records the other as a ghost; without numbers, runs both."""
        with self._apart():
            node = self.begin("cond", self.numbers(pred), "cond")
            with self.open(node):
                is_meta = pred.device == "meta"
                holds = is_meta or bool(pred)
                results = [
                    self._side(SideFacts(when=True, taken=holds), true_fn),
                    self._side(SideFacts(when=False, taken=is_meta or not holds), false_fn),
                ]
            result = results[0 if holds else 1]
            self.made(node, result)
        return result

    def _side(self, facts: SideFacts, fn: Callable[[], Any]) -> Any:
        with self._apart():
            side = self.begin(facts.name, (), "side", facts)
            if not facts.taken:
                return None
            first = len(self.graph.values)
            with self.open(side):
                result = fn()
            self.made(side, result)
            side.inputs = tuple(number for number in side.outputs if number < first)
        return result

    def attention(
        self, query: Tensor, keys: Tensor, values: Tensor, *, result: Tensor, bias: Tensor | None, **_: Any
    ) -> None:
        """Records attention that a kernel has just computed, as an op."""
        seconds = self.meter.since()
        with self._apart():
            node = self.begin("dot_attention", self.numbers(query, keys, values, bias))
            sample = self.meter.sample(node)
            sample.amount, sample.calls = seconds, 1
            self.made(node, [result], (query, keys, values))

    def loop(self, record: LoopRecord) -> None:
        """Adds a node for a loop that has finished or failed, with one step as its body."""
        node = self._loops.draw(record)
        measured = record.recorder.measured
        if measured is None:
            return
        measured.size = record.size
        if self.meter.times and not record.around:
            sample = self.meter.sample(node)
            sample.amount, sample.calls = self.meter.stopped() - measured.began, 1

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Inside, the recorder works, and `open` the model."""
        self.meter.pause()
        try:
            yield
        finally:
            self.meter.resume()

    def measured(self) -> None:
        """Gives the nodes of the graph what was measured in the steps of loops. Called at the end."""
        self.meter.moved(self._loops.nodes)


FULL: dict[int | float, str] = {0: "zeros", 1: "ones"}
"""Names of `full` for common fill values."""


def _name_of_call(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A more specific name than the op: `zeros` for `full`, or the function that `raw_call` calls; else ""."""
    fill = kwargs.get("fill_value")
    if row.name == "full" and isinstance(fill, int | float):
        return FULL.get(fill, "")
    return title(args[0]) if row.name == "raw_call" and args else ""


def _number(tensor: Tensor) -> str:
    """The number in a scalar on the CPU, as text; "" for all other tensors."""
    return f"{tensor.raw_tensor.item():g}" if not tensor.dims and tensor.device == "cpu" else ""
