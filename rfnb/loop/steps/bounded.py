"""States that stay finite by themselves after the end of a sequence: they need not be frozen at each step.

A state such as tanh(…) or f · c + i · g, with gates f and i, cannot grow faster than linearly. Its sequences may go on
after they have ended; their final values are taken from the steps in which they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims import align
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.traced_step import Carried, TracedStep
    from rfnb.trace.record.record import OpCall


class Growth(IntEnum):
    """How the size of a value depends on the number of steps after the end: in [-1, 1], bounded, linear, unknown."""

    UNIT, BOUNDED, LINEAR, UNKNOWN = range(4)


UNIT, BOUNDED, LINEAR, UNKNOWN = Growth
SQUASHING = {"tanh", "sigmoid", "softmax", "sin", "cos", "sign"}
NORMALIZING = {"layer_norm", "rms_norm"}
NOT_LARGER = {
    "relu", "neg", "abs", "where", "cast", "unstack", "split", "split_dims", "merge_dims", "replace_dim_v2",
    "copy_transpose", "expand_dim", "squeeze", "gather", "identity", "stop_gradient", "reduce_mean", "reduce_max",
    "reduce_min", "maximum", "minimum",
}  # fmt: skip
"""Ops whose results are no larger than their arguments."""
BOUNDED_BY_ARGUMENTS = {
    "linear",
    "matmul",
    "add",
    "sub",
    "mul",
    "reduce_sum",
    "dropout",
    "concat",
    "gelu",
    "silu",
    "elu",
}
"""Ops that give bounded results for bounded arguments."""


def unfrozen(step: TracedStep) -> list[int]:
    """The positions of carried states that need no freezing."""
    limit = step.limit
    if step.condition is not None or not limit.ragged or len(limit.dims) != 1:
        return []
    free = {place for place in range(len(step.carried)) if _may_go_on(step, place)}
    while free:
        growth = _growth(step, [each.var for place, each in enumerate(step.carried) if place in free])
        stay = {place for place in free if growth.get(step.schedule.new[place], UNKNOWN) != UNKNOWN}
        if stay == free:
            break
        free = stay
    return sorted(free)


def _may_go_on(step: TracedStep, place: int) -> bool:
    """Whether this is a state of the user that is frozen so far, with a value for each sequence."""
    carried, schedule = step.carried[place], step.schedule
    if carried.kind != "state" or not isinstance(carried.before, Tensor):
        return False
    return schedule.new[place] != schedule.kept[place] and step.limit.dims[0] in carried.before.sig.index


def _growth(step: TracedStep, linear: Sequence[Var]) -> dict[Any, Growth]:
    """The growth of all values, if these states grow at most linearly and all others are frozen."""
    found: dict[Any, Growth] = dict.fromkeys((*step.schedule.states, *step.schedule.frames), BOUNDED)
    found |= {Var(number): BOUNDED for number in step.program.constants}
    found |= dict.fromkeys(linear, LINEAR)
    for call in step.recorder.op_calls:
        growth = _of_call(step, call, found)
        for leaf in leaves(call.result):
            if isinstance(leaf, Tensor):
                found.setdefault(step.tape.find(leaf._raw), growth)
    return found


def _of_call(step: TracedStep, call: OpCall, found: dict[Any, Growth]) -> Growth:
    def growth(leaf: Any) -> Growth:
        if isinstance(leaf, Tensor):
            var = step.tape.find(leaf._raw)
            return BOUNDED if var is None or isinstance(var, External) else found.get(var, UNKNOWN)
        return UNIT if isinstance(leaf, int | float) and abs(leaf) <= 1 else BOUNDED

    name, given = call.row.name, [growth(leaf) for leaf in leaves([call.args, call.kwargs])]
    largest = max(
        (growth(leaf) for leaf in leaves([call.args, call.kwargs]) if isinstance(leaf, Tensor)), default=BOUNDED
    )
    if name in SQUASHING:
        return UNIT
    if name in NORMALIZING:
        return BOUNDED
    if name in NOT_LARGER:
        return largest
    if name == "mul" and len(given) == 2 and UNIT in given:
        return max(given)
    if name in ("add", "sub") and sorted(given)[:1] <= [BOUNDED] and sorted(given)[-1] == LINEAR and len(given) == 2:
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
