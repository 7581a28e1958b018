"""A kept step: what the lines of a body did, without the tensors of their batch.

Its tensors are those of the traced frame. Each is described by where its numbers come from, its signature, and where
its lengths come from: from tensors that are *given* in each call, by their position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.core.graph.graph import Node, Value
    from rfnb.core.tensor.op import OpRow
    from rfnb.loop.body.hypotheses import Hypotheses
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


class Part(NamedTuple):
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
    that are not resolved. draws: whether it has random numbers.
    """

    step: Step
    values: int
    outside: tuple[Given | OfParameter | OfSizes | None, ...]
    parameters: tuple[Parameter, ...]
    tensors: tuple[KeptTensor, ...]
    ops: tuple[KeptOp, ...]
    nodes: tuple[Node, ...]
    parts: tuple[Part, ...]
    frames: tuple[FrameInput, ...]
    outputs: tuple[tuple[KeptValue, Sig, Any], ...]
    hypotheses: Hypotheses | None
    lengths: FromSizes | Lengths | None
    by_place: tuple[int, ...]
    draws: bool

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
        schedule, carried = replace(step.schedule, max_steps=0, free_steps=0), step.carried
        return (
            calls, self.values, self.outside, len(self.parameters), self.tensors, [op.structure() for op in self.ops],
            self.frames, [replace(carry, before=carry.before.tensor, initial=None) for carry in carried],
            schedule, step.ends, step.include_eos, self.by_place, self.lengths,
            self.hypotheses and self.hypotheses.beams, [(output.tensor, sig) for output, sig, _ in self.outputs],
            step.axis, step.gives_size, step.limit.ragged, step.limit.dims, step.unfrozen, self.draws,
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
