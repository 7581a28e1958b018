"""What is found out about a step, kept by its structure: a later loop with the same structure finds it there.

The structure of a step is what its raw calls are, with the numbers among their arguments, the shapes and dtypes on the
traced frame, and which ops made them. It refers to no tensor and no Dim. So the second run of the same `with loop:`, on
a batch of the same size, neither decides anew which ops leave the steps nor writes the code of the steps again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, TypeVar

from rfnb.backend.base.tape import Call, External, Stream, Tape, Var
from rfnb.core.tensor.tensor import tensors_in

if TYPE_CHECKING:
    from rfnb.loop.program.schedule import Schedule
    from rfnb.trace.record.op_call import OpCall

T = TypeVar("T")
MOST = 256
"""Maximum number of structures that are kept."""


class Analysis:
    """Answers to questions about the steps of one structure. A question names all that its answer depends on besides;
    once calls were replaced, further questions go to what `after` gives.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def get(self, question: Hashable, find: Callable[[], T]) -> T:
        """The answer to a question; `find()` if it is asked for the first time."""
        try:
            answer: T = self._answers[question]
        except KeyError:
            answer = self._answers[question] = find()
        return answer

    def after(self, change: Hashable) -> Analysis:
        """What is known of these steps after a change of their calls. change: all that decides what it is."""
        return self.get(("after", change), Analysis)


_kept: dict[Hashable, Analysis] = {}  # by structure, the oldest first
_keeping = Lock()


def analysis_of(
    tape: Tape,
    ops: Sequence[OpCall],
    schedule: Schedule,
    needs_gradient: Callable[[Any], bool],
    *,
    stackable: Sequence[bool],
    unstacks: bool,
) -> Analysis:
    """What is known of steps with this structure. Nothing is kept of steps that write into tensors or have other
    effects, with axes that grow, or with functions that were made for this batch.

    needs_gradient: whether gradients flow through a raw tensor from outside. stackable: for each input of
    `schedule.frames`, whether its frames of all steps can be one tensor. unstacks: whether the body unstacks a tensor.
    """
    structure = _structure(tape, ops, schedule, needs_gradient)
    if structure is None:
        return Analysis()
    key = structure, tuple(stackable), unstacks, schedule.max_steps > 0
    analysis = _kept.get(key)
    if analysis is None:
        with _keeping:
            while len(_kept) >= MOST:
                del _kept[next(iter(_kept))]
            analysis = _kept[key] = Analysis()
    return analysis


class _NoStructure(Exception):
    """An argument that may differ although it looks the same, or holds a tensor."""


def _structure(
    tape: Tape, ops: Sequence[OpCall], schedule: Schedule, needs_gradient: Callable[[Any], bool]
) -> Hashable | None:
    if tape.grown or tape._before:
        return None
    find = tape.find
    try:
        calls = tuple([_call(call) for call in tape.calls])
        owners = tuple([
            (
                op.row.name, op.row.frames, op.row.random, op.row.effect, op.node.tape,
                tuple([find(x._raw) for x in op.given]),
                tuple([find(x._raw) for x in tensors_in(op.result)]),
            )
            for op in ops
        ])  # fmt: skip
        values = tuple([(raw.shape, raw.dtype) for raw in tape.values])
        flags = tuple([needs_gradient(raw) for raw in tape.externals])
        inputs = schedule.states, schedule.frames, schedule.new, schedule.kept, schedule.outputs, schedule.ended
        key = calls, owners, values, flags, inputs, len(tape.streams)
        hash(key)
    except (_NoStructure, AttributeError, TypeError):  # values that are numbers, arguments that are not hashable
        return None
    return key


def _call(call: Call) -> Hashable:
    if call.effect or call.changes or not _is_plain(call.fn):
        raise _NoStructure
    kwargs = tuple([(name, _frozen(value)) for name, value in call.kwargs.items()]) if call.kwargs else None
    return call.fn, _all_frozen(call.args), kwargs, call.result, call.parts


def _all_frozen(parts: Sequence[Any]) -> Hashable:
    return tuple([part if type(part) in _AS_THEY_ARE else _frozen(part) for part in parts])


def _frozen(tree: Any) -> Hashable:
    """Hashable, and equal only for what gives the same result: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    kind = type(tree)
    if kind in _AS_THEY_ARE:
        return tree
    if kind is float:
        return "float", tree.hex()
    if kind is bool:
        return "bool", tree
    if kind is tuple or kind is list:
        return kind, _all_frozen(tree)
    if kind is slice:
        return "slice", _all_frozen((tree.start, tree.stop, tree.step))
    if kind is dict:
        return "dict", tuple([(_frozen(key), _frozen(value)) for key, value in tree.items()])
    if kind.__name__ in _OF_TORCH and kind.__module__ == "torch":
        return tree
    raise _NoStructure


_AS_THEY_ARE = frozenset({Var, External, Stream, int, str, type(None), type(Ellipsis)})
_OF_TORCH = frozenset({"Size", "dtype", "device", "layout", "memory_format"})
_OF_TYPES = frozenset({MethodDescriptorType, WrapperDescriptorType})


def _is_plain(fn: Any) -> bool:
    """Whether a function is one of a library, and holds nothing of a batch, as `x.add` holds x."""
    kind = type(fn)
    if kind in _OF_TYPES:
        return True
    if kind is BuiltinFunctionType:
        return isinstance(fn.__self__, type | ModuleType | None)
    return kind is FunctionType and fn.__closure__ is None and fn.__module__.partition(".")[0] in ("torch", "rfnb")
