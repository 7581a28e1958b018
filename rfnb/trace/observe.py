"""Reports every op of a function and every step of its loops, in order, and calls of plain torch between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary, ref

import numpy as np

from rfnb.core.advice.torch_equivalents import variable_of
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.call_recorder import CallRecorder
from rfnb.core.graph.graph import Node, NodeKind
from rfnb.core.graph.meter import Meter
from rfnb.core.ground.backends import BACKENDS, backend_of_raw
from rfnb.core.ground.hook import record_calls
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.scope import module_path
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OPS, OpRow
from rfnb.core.tensor.tensor import RawTensor, Tensor, plain_tensor
from rfnb.trace.run import session
from rfnb.trace.run.entries import going_on
from rfnb.trace.run.run import Run


@dataclass(frozen=True, slots=True)
class OpEvent:
    """An op that has finished. The ops inside it are reported before it.

    numbers: the Python floats among its arguments. loop, step: the loop and step that it belongs to. steps: how many
    steps each sequence takes in that loop. kind: the kind of its node. plain: whether it is a call of plain torch or of
    a module whose inner calls are not seen; its tensors have dims called by their positions. changed: the former value
    of the operand that it changed in place. named: whether the names in the user's line are those of its results.
    inner: whether it is a call inside of an op or a module of rfnb, which knows what is padding.
    """

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    source: Source | None
    path: str = ""
    numbers: tuple[float, ...] = ()
    loop: str | None = None
    step: int | None = None
    steps: Size | None = None
    kind: NodeKind = "op"
    plain: bool = False
    changed: Tensor | None = None
    named: bool = True
    inner: bool = False

    def counts(self, x: Tensor) -> np.ndarray | None:
        """A mask of the entries of an input or output whose sequences take this step; None outside of loops."""
        return None if self.steps is None or self.step is None else going_on(x, self.steps, self.step)

    @property
    def name(self) -> str:
        """The name of the result in the user's line, else that of the op."""
        return (self.source.name() if self.source is not None and self.named else None) or self.op

    @property
    def random(self) -> bool:
        """Whether the op draws random numbers."""
        return self.op in OPS and OPS[self.op].random

    def place(self) -> str:
        """The place as text: "cell 4, line 2: `y = rf.log(x)`, in Encoder, step 3 of decoder"."""
        parts = [] if self.source is None else [f"{self.source.place()}: `{self.source.text()}`"]
        parts += [f"in {self.path}"] if self.path else []
        parts += [f"step {self.step} of {self.loop}"] if self.loop is not None else []
        return ", ".join(parts) or "rfnb"


class Observer(Listener):
    """Calls `see` with each op when it has finished. calls: reports those of plain torch."""

    def __init__(self, see: Callable[[OpEvent], None]):
        source = user_source()  # whose line may name the result of the whole call

        def report(event: OpEvent) -> None:
            see(replace(event, named=False) if event.named and event.source == source else event)

        self._see = report
        self.calls = PlainCalls(report)

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Computes an op and reports it."""
        with self.calls.inside_op(seen=row.name == "raw_call"):
            result = super().call(row, args, kwargs)
        operands, results = leaves([args, kwargs]), leaves(result)
        event = OpEvent(
            row.name,
            tuple(leaf for leaf in operands if isinstance(leaf, Tensor)),
            tuple(leaf for leaf in results if isinstance(leaf, Tensor)),
            user_source(),
            module_path(),
            tuple(leaf for leaf in operands if isinstance(leaf, float)),
        )
        with self.calls.inside_op():
            self._see(event)
        return result

    def loop(self, run: Run) -> None:
        """Reports the ops of all steps of a loop that has finished."""
        with self.calls.inside_op():
            for step in range(run.steps):
                tensors: dict[int, Tensor] = {}
                for value, tensor in run.replay.computed(step):
                    tensors[value.number] = tensor
                    if value.node is not None:
                        self._see(_event(value.node, tensors, tensor, run, step))


class PlainCalls(Meter):
    """Reports the calls of torch that a recorder records, each tensor as the same Tensor until it is changed in place.

    recorder: knows the paths of parameters. names: what else tensors are called, by id.
    """

    def __init__(self, see: Callable[[OpEvent], None]):
        super().__init__()
        self._see = see
        self.recorder: CallRecorder | None = None
        self.names: dict[int, str] = {}
        self._tensors: WeakValueDictionary[int, Tensor] = WeakValueDictionary()  # by id of the raw tensor
        self._results: dict[int, tuple[ref[object], str]] = {}  # what results are called, by id of the raw tensor
        self._inside_op = False
        self._changed: dict[int, Tensor] = {}  # in place by the running call, with their former values

    @contextmanager
    def inside_op(self, *, seen: bool = False) -> Iterator[None]:
        """Inside the block, an op of rfnb runs. seen: whether its calls are reported."""
        recorder = self.recorder
        if recorder is None:
            yield
            return
        state = self._inside_op, recorder.quiet
        self._inside_op, recorder.quiet = True, recorder.quiet or not seen
        try:
            yield
        finally:
            self._inside_op, recorder.quiet = state

    def tensor(self, raw: RawTensor) -> Tensor:
        """The Tensor for a raw tensor."""
        tensor = self._tensors.get(id(raw))
        if tensor is None:
            tensor = self._tensors[id(raw)] = plain_tensor(raw)
            tensor.name = self._name_of(raw)
        return tensor

    def _name_of(self, raw: RawTensor) -> str:
        """The path of a parameter, the name of an argument, of the result of a call, or of a variable."""
        path = None if self.recorder is None else self.recorder.modules.parameters.get(id(raw))
        result, name = self._results.get(id(raw), (None, ""))
        result_name = name if result is not None and result() is raw else None
        called = path or self.names.get(id(raw)) or result_name or variable_of(raw)
        return called if called and called != "tensor" else "a tensor"

    def changes(self, raw: RawTensor) -> None:
        """The Tensor for this raw tensor keeps the present value."""
        if backend_of_raw(raw).is_readable_raw(raw):
            self._changed[id(raw)] = tensor = self.tensor(raw)
            tensor._raw = backend_of_raw(raw).snapshot_raw(raw)
            del self._tensors[id(raw)]

    def made(self, node: Node, given: object, results: Iterable[object]) -> None:
        """Reports a call with its readable tensors, unless the calls inside it were reported."""
        changed, self._changed = self._changed, {}
        arguments = leaves(given)
        raws = _readable(arguments)
        outputs = [raw for raw in _readable(results) if id(raw) in changed or not any(raw is arg for arg in raws)]
        is_same = not outputs and any(raw is leaf for raw in raws for leaf in results)
        if is_same or (node.kind == "module" and node.body):
            return
        inputs = tuple(changed[id(raw)] if id(raw) in changed else self.tensor(raw) for raw in raws)
        path = node.path if node.module is None else node.module.path
        event = OpEvent(
            node.op,
            inputs,
            (),
            node.source,
            ".".join(filter(None, (module_path(), path))),
            tuple(leaf for leaf in arguments if isinstance(leaf, float)),
            plain=True,
            changed=next(iter(changed.values()), None),
            named=self.recorder is not None and not self.recorder.in_library,
            inner=self._inside_op or bool(module_path()),
        )
        self._results.update((id(raw), (ref(raw), event.name)) for raw in outputs)
        self._see(replace(event, outputs=tuple(map(self.tensor, outputs))))


def _readable(leaves: Iterable[object]) -> list[object]:
    """The raw tensors whose numbers can be read."""
    kinds = tuple(BACKENDS)
    return [leaf for leaf in leaves if isinstance(leaf, kinds) and backend_of_raw(leaf).is_readable_raw(leaf)]


def _event(node: Node, tensors: dict[int, Tensor], output: Tensor, run: Run, step: int) -> OpEvent:
    inputs = tuple(tensors[number] for number in node.inputs if number in tensors)
    return OpEvent(
        node.op, inputs, (output,), node.source, node.path, loop=run.name, step=step, steps=run.size, kind=node.kind
    )


def observing(see: Callable[[OpEvent], None], models: Sequence[object] = ()) -> AbstractContextManager[Observer]:
    """Calls `see` with every op inside the block. Loops are recorded for this, but their runs are not kept.

    models: whose modules of torch have paths that begin with their class.
    """
    return _observing(Observer(see), models)


@contextmanager
def _observing(observer: Observer, models: Sequence[object]) -> Iterator[Observer]:
    calls = observer.calls
    with session.redirecting_runs(observer.loop), listening(observer), record_calls(models, calls) as calls.recorder:
        yield observer
