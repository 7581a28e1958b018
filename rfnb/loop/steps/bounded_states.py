"""States that stay finite by themselves after the end of a sequence: they need not be frozen at each step.

A state such as tanh(…) or f · c + i · g, with gates f and i, cannot grow faster than linearly. Its sequences may go on
after they have ended; their final values are taken from the steps in which they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Tape, Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.default import has_fractions
from rfnb.core.tensor.tensor import Tensor, tensors_in

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.traced_step import Carried
    from rfnb.trace.record.op_call import OpCall


class StateGrowth(IntEnum):
    """How the size of a value depends on the number of steps after the end: in [-1, 1], bounded, linear, unknown."""

    UNIT, BOUNDED, LINEAR, UNKNOWN = range(4)


UNIT, BOUNDED, LINEAR, UNKNOWN = StateGrowth
SQUASHING = {"tanh", "sigmoid", "softmax", "sin", "cos", "sign"}
NORMALIZING = {"layer_norm", "rms_norm"}
NOT_LARGER = {
    "relu", "neg", "abs", "where", "cast", "unstack", "split", "split_dims", "merge_dims", "replace_dim_v2",
    "copy_transpose", "expand_dim", "squeeze", "gather", "identity", "stop_gradient", "set_feature_dim", "reduce_mean",
    "reduce_max", "reduce_min", "maximum", "minimum",
}  # fmt: skip
"""Ops whose results are no larger than their arguments."""
BOUNDED_BY_ARGUMENTS = {
    "linear", "matmul", "add", "sub", "mul", "reduce_sum", "dropout", "concat", "gelu", "silu", "elu",
}  # fmt: skip
"""Ops that give bounded results for bounded arguments."""


def unfrozen(
    carried: Sequence[Carried], new: Sequence[Any], owner: Dim, tape: Tape, calls: Sequence[OpCall]
) -> set[int]:
    """The positions of carried states that need no freezing.

    new: their values after a step. owner: the dim of the sequences. calls: the ops of the step.
    """
    free = {
        place
        for place, (carry, value) in enumerate(zip(carried, new, strict=True))
        if carry.kind == "state" and value is not carry.before and _is_of_sequences(carry.before, value, owner)
    }
    while free:
        growth = _growth([carry.var for place, carry in enumerate(carried) if place in free], tape, calls)
        stay = {place for place in free if growth.get(tape.find(new[place].plain._raw), UNKNOWN) != UNKNOWN}
        if stay == free:
            break
        free = stay
    return free


def _is_of_sequences(before: Any, after: Any, owner: Dim) -> bool:
    """Whether a state has numbers for each sequence. Integers may be indices, which must not leave their range."""
    if not isinstance(before, Tensor) or not has_fractions(before.dtype) or owner not in before.sig.index:
        return False
    return after.dims == before.dims


def _growth(free: Sequence[Var], tape: Tape, calls: Sequence[OpCall]) -> dict[Any, StateGrowth]:
    """The growth of all values that depend on these states, if these grow at most linearly and others are frozen."""
    growths: dict[Any, StateGrowth] = dict.fromkeys(free, LINEAR)
    find = tape.find
    for call in calls:
        name = call.row.name
        operands = [growths.get(find(x._raw)) for x in call.given]
        if name not in SQUASHING and not any(growth is not None for growth in operands):
            continue  # its results are bounded, since they depend on no free state
        growth = _of_call(name, operands, call.args)
        results = tensors_in(call.result)
        if growth is LINEAR and any(x.dtype.startswith(("int", "uint")) for x in results):
            return {}  # an index could leave its range
        for x in results:
            growths.setdefault(find(x._raw), growth)
    return growths


def _of_call(name: str, given: Sequence[StateGrowth | None], args: Sequence[Any]) -> StateGrowth:
    """The growth of the results of an op, of which an argument depends on a free state, or which squashes.

    given: the growth of the tensors among its arguments; None for those that depend on no free state.
    """
    if name in SQUASHING:
        return UNIT
    if name in NORMALIZING:
        return BOUNDED
    all_of = [BOUNDED if growth is None else growth for growth in given]
    largest = max(all_of)
    if name in NOT_LARGER:
        return max(largest, BOUNDED)
    all_of += [UNIT if abs(number) <= 1 else BOUNDED for number in args if isinstance(number, int | float)]
    if name == "mul" and UNIT in all_of:
        return max(all_of)
    if name in ("add", "sub") and largest is LINEAR and sorted(all_of)[:-1] <= [BOUNDED]:
        return LINEAR
    return BOUNDED if name in BOUNDED_BY_ARGUMENTS and largest <= BOUNDED else UNKNOWN


def at_the_end(backend: type[Backend], carried: Carried, limit: Size, states: Sequence[Any]) -> Any:
    """The state of each sequence after its last step, from the states after each step."""
    place = carried.before.axis(limit.dims[0])
    rows = [
        backend.select_raw(states[length - 1] if length else carried.initial, place, index)
        for index, length in enumerate(limit.values.tolist())
    ]
    order = [place, *(axis for axis in range(len(carried.before.dims)) if axis != place)]
    back = tuple(order.index(axis) for axis in range(len(order)))
    return align.permute(backend.stack_raw(rows), back)
