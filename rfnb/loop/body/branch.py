"""Branches in the body of a loop: both sides are traced on its frame; each step computes the side it takes.

A branch is one call on the tape. All values that its sides read, from the step or from outside, are arguments of that
call, so gradients, the parameters of a replay and random streams work as for any other call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import Call, Reference, Var
from rfnb.core.dims import align
from rfnb.core.graph.graph import Node, SideFacts
from rfnb.core.ground.nested import arranged, leaves, map_leaves, named_leaves, same_structure
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError, LoopError
from rfnb.loop.program import Compiled, Program, map_references
from rfnb.loop.step import current_inspection, is_replaying
from rfnb.ops.convert import convert_to_tensor
from rfnb.trace.record.record import OpCall, Recorder, unwrap

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body


class _Case(NamedTuple):
    """The calls, ops and result of one side on the traced frame."""

    calls: list[Call]
    ops: list[OpCall]
    result: Any


def cond(
    body: Body, recorder: Recorder, pred: Tensor, true_fn: Callable[[], object], false_fn: Callable[[], object]
) -> Any:
    """Traces both sides and returns the result of the one taken, as values of the body that `recorder` records."""
    tape, plain = body.tape, unwrap(pred)
    with body.untraced():
        holds = body.backend.all_true_raw(plain._raw)
    node = recorder._begin("cond", recorder.numbers([pred]), "cond")
    yes = _side(body, recorder, node, SideFacts(when=True), true_fn, taken=holds)
    agree = partial(_matched_leaves, body, yes.result)
    no = _side(body, recorder, node, SideFacts(when=False), false_fn, taken=not holds, finish=agree)
    pairs = [pair for pair in no.result if isinstance(pair[0], Tensor)]
    columns = [[tape.refer(x._raw) for x in column] for column in zip(*pairs, strict=True)] or [[], []]
    reads = _outside_reads([yes.calls, no.calls], columns)
    with body.untraced():
        results = [_result_on_frame(body, *pair, holds=holds) for pair in no.result]
    raws = [x._raw for x in results if isinstance(x, Tensor)]
    choice = _Choice(body, reads, [yes.calls, no.calls], columns)
    calls = [*yes.calls, *no.calls]
    outer = {ref.number for ref in reads if isinstance(ref, Var)}
    tape.calls.append(
        Call(
            choice,
            (tape.refer(plain._raw), *reads),
            {},
            None,
            tuple((i, tape.input(raw).number) for i, raw in enumerate(raws)),
            changes=tuple({number for call in calls for number in call.changes if number in outer}),
            effect=any(call.effect for call in calls),
            node=node,
        )
    )
    values = iter(results)
    wrapped = recorder.wrap_results(map_leaves(lambda _: next(values), yes.result), node)
    _record_op(recorder, node, [plain, *_tensors_of(recorder, reads)], [yes, no], results)
    return wrapped


def _side(
    body: Body,
    recorder: Recorder,
    node: Node,
    facts: SideFacts,
    fn: Callable[[], object],
    *,
    taken: bool,
    finish: Callable[[Any], object] = lambda result: result,
) -> _Case:
    """Traces one side. Its calls are removed from the tape; changes made by a side that is not taken are undone."""
    tape = body.tape
    start = len(tape.calls)
    try:
        with nullcontext() if taken else tape.trying(body.backend.overwrite_raw), recorder.branch(node, facts) as side:
            first = len(recorder.graph.values)
            side_result = fn() if taken else _call_side_not_taken(facts.name, fn)
            part = node.body[-1]
            part.outputs = tuple(recorder.numbers(side_result))
            part.inputs = tuple(number for number in part.outputs if number < first)
            result = map_leaves(unwrap, finish(side_result))
        return _Case(tape.calls[start:], side.op_calls, result)
    finally:
        del tape.calls[start:]


def _call_side_not_taken(name: str, fn: Callable[[], object]) -> object:
    try:
        return fn()
    except Exception as error:
        error.add_note(f"in {name} of a `cond`, which is traced at step 0 although the other side is taken")
        raise


def not_in_branch(loop: str, what: str) -> LoopError:
    """The error for a call that concerns every step, such as `stack`, in one side of a `cond`."""
    return LoopError(
        f"{loop}: {what} in one side of a `cond`",
        expected="a call outside of the `cond`, as it concerns every step",
        hint="let both sides return a value: x = rf.cond(pred, …, …)",
    )


# -- the results of both sides


def _matched_leaves(body: Body, yes: object, no: object) -> list[tuple[object, object]]:
    """Pairs the leaves of both results; leaves of `no` get their dims in the order of `yes`."""
    no = arranged(no, yes)
    if not same_structure(yes, no):
        raise LoopError(
            f"{body.loop.name}: cond: false_fn returns a different structure than true_fn",
            got=[path or "one value" for path, _ in named_leaves(no)],
            expected=[path or "one value" for path, _ in named_leaves(yes)],
        )
    return [_pair(body, path, a, b) for (path, a), b in zip(named_leaves(yes), leaves(no), strict=True)]


def _pair(body: Body, path: str, a: object, b: object) -> tuple[object, object]:
    label = f"{body.loop.name}: cond: {path or 'the result'}"
    if not isinstance(a, Tensor) and not isinstance(b, Tensor) and (a is b or (type(a) is type(b) and a == b)):
        return a, a
    first, second = _as_tensor(body, a, b), _as_tensor(body, b, a)
    if first is None or second is None:
        raise LoopError(
            f"{label} differs between the two sides, and is not a Tensor",
            got=f"{_shown(b)} from false_fn",
            expected=f"{_shown(a)}, as from true_fn",
            hint="Tensors may differ from step to step; other values must be the same on both sides",
        )
    if first.dtype != second.dtype:
        raise DtypeError(
            f"{label} has a different dtype in false_fn",
            got=second.dtype,
            expected=first.dtype,
            hint=f'rf.cast(value, "{first.dtype}")',
        )
    if first.sparse_dim is not second.sparse_dim and first.sparse_dim is not None and second.sparse_dim is not None:
        raise DimError(f"{label} has labels from two different dims", got=second.sparse_dim, expected=first.sparse_dim)
    if first.dims_set != second.dims_set:
        raise DimError(
            f"{label} has different dims in false_fn",
            got=second.describe_dims(),
            expected=first.describe_dims(),
            hint="rf.expand_dims(value, dims=[…]) adds the dims that one side lacks",
        )
    return first, second if second.dims == first.dims else second.copy_transpose(first.dims)


def _as_tensor(body: Body, leaf: object, other: object) -> Tensor | None:
    """Converts a number to a Tensor with the dtype of the other side's leaf; None for other leaves."""
    if isinstance(leaf, bool | int | float):
        with body.untraced():
            leaf = float(leaf) if isinstance(other, float) else leaf
            return convert_to_tensor(leaf, dtype=other.dtype if isinstance(other, Tensor) else None)
    return leaf if isinstance(leaf, Tensor) else None


def _shown(leaf: object) -> str:
    return leaf.describe_dims() if isinstance(leaf, Tensor) else repr(leaf)


def _result_on_frame(body: Body, a: Tensor, b: Tensor, *, holds: bool) -> object:
    """One leaf of the result on the traced frame, with the lengths of both sides joined."""
    if not isinstance(a, Tensor):
        return a
    feature = a.feature_dim if a.feature_dim is b.feature_dim else None
    signature = align.sig(a.dims, a.sparse_dim or b.sparse_dim, feature)
    raw = body.backend.alias_raw((a if holds else b)._raw)
    return tensor_of(raw, signature, a.lengths.join(b.lengths, a.sig, b.sig))


def _record_op(recorder: Recorder, node: Node, reads: list[Tensor], sides: list[_Case], results: list[object]) -> None:
    """Records the branch as an op that stays in the steps. `inside`: its values, some of whose sizes may differ."""
    calls = [[op.args, op.kwargs, op.result] for side in sides for op in side.ops]
    recorder.add_call(OpCall(ROW, (reads,), {"inside": calls}, reads, results, node))


def _tensors_of(recorder: Recorder | None, reads: Iterable[Reference]) -> list[Tensor]:
    numbers, tensors = {ref.number for ref in reads if isinstance(ref, Var)}, []
    while recorder is not None:
        for traced in recorder.traced():
            var = recorder.tape.find(traced.plain._raw)
            if isinstance(var, Var) and var.number in numbers:
                tensors.append(traced.plain)
        recorder = recorder.within
    return tensors


ROW = OpRow("cond", cond, effect=True)


# -- in the steps


def _outside_reads(sides: Sequence[list[Call]], columns: Sequence[Sequence[Reference]]) -> list[Reference]:
    """All values that the sides read but do not compute, without duplicates."""
    reads: dict[Reference, None] = {}
    for calls, results in zip(sides, columns, strict=True):
        numbers = {number for call in calls for number in call.made}
        for ref in (*(ref for call in calls for ref in call.reads), *results):
            if not (isinstance(ref, Var) and ref.number in numbers):
                reads[ref] = None
    return list(reads)


class _Choice:
    """A call f(pred, *given) that runs the side taken at this step and returns its results."""

    def __init__(
        self, body: Body, reads: Sequence[Reference], sides: Sequence[list[Call]], values: Sequence[Sequence[object]]
    ):
        self._holds = body.backend.all_true_raw
        inputs = {ref: ref if isinstance(ref, Var) else body.tape.number_input(0) for ref in reads}
        outer = {ref.number for ref in reads if isinstance(ref, Var)}
        named = [_writes_named(body, calls, outer) for calls in sides]
        self._programs = [_program(body, calls, inputs) for calls, _ in named]
        self._wanted = [
            [*_with_inputs(list(results), inputs), *writes] for results, (_, writes) in zip(values, named, strict=True)
        ]
        self._steps: dict[tuple[int, bool, tuple[Var, ...]], Compiled] = {}

    def __call__(self, pred: RawTensor, *given: RawTensor) -> tuple[RawTensor, ...]:
        side, effects, inspection = 0 if self._holds(pred) else 1, not is_replaying(), current_inspection()
        also = () if inspection is None else self._made(side, inspection.wanted)
        step = self._steps.get((side, effects, also)) or self._compile(side, effects, also)
        try:
            results = step.run(0, *given)
        except Exception as error:
            position = step.failed_call(error)
            node = None if position is None else self._programs[side].calls[position].node
            if node is not None and node.source is not None:
                error.add_note(f"in {('true_fn', 'false_fn')[side]} of a `cond`, {node.source.place()} ({node.op})")
            raise
        if inspection is None:
            return results
        count = len(self._wanted[side])
        inspection.values |= zip(also, results[count:], strict=True)
        return results[:count]

    def _made(self, side: int, targets: Collection[Var]) -> tuple[Var, ...]:
        variables = [Var(number) for call in self._programs[side].calls for number in call.made]
        return tuple(var for var in variables if var in targets)

    def _compile(self, side: int, effects: bool, also: tuple[Var, ...]) -> Compiled:
        program, outputs = self._programs[side], [*self._wanted[side], *also]
        step = self._steps[side, effects, also] = program.compile(outputs, _no_stream, (), effects=effects)
        return step


def _no_stream(number: int, step: int) -> object:
    raise AssertionError("the generators of a branch are among its arguments")


def _writes_named(body: Body, calls: list[Call], outer: set[int]) -> tuple[list[Call], list[Var]]:
    """Gives a result to calls that only write into values from outside the side, so that they can be requested."""
    writes: list[Var] = []
    for i, call in enumerate(calls):
        if not outer.isdisjoint(call.changes) and not call.made:
            writes.append(body.tape.number_input(0))
            calls = [*calls[:i], replace(call, result=writes[-1].number), *calls[i + 1 :]]
    return calls, writes


def _program(body: Body, calls: list[Call], inputs: dict[Reference, Var]) -> Program:
    tape = body.backend.new_tape()
    tape.calls = [
        replace(call, args=_with_inputs(call.args, inputs), kwargs=_with_inputs(call.kwargs, inputs)) for call in calls
    ]
    tape.values = body.tape.values
    return Program(tape, list(inputs.values()), lambda raw: True)


def _with_inputs(tree: Any, inputs: dict[Reference, Var]) -> Any:
    """The arguments of a call, with values from outside the branch replaced by inputs."""
    return map_references(lambda read: read if type(read) is Var else inputs[read], tree)
