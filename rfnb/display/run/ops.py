"""The ops of one step, including those inside of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.display.kit.data import read
from rfnb.display.kit.degrade import reason
from rfnb.display.kit.dims import describe_axes
from rfnb.display.run.schema import OpRow, OpsView, OpView
from rfnb.display.run.sequence_choice import ChosenSequence
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.value import describe_value

if TYPE_CHECKING:
    from rfnb.trace.run.step import RunStep


def describe_ops(at: RunStep, wanted: int | None, chosen: ChosenSequence) -> OpsView:
    """The ops in their order, with the values of the wanted one; -1 is the last."""
    try:
        ops = at.ops()
        number = None if wanted is None or not ops else min(wanted % len(ops) if wanted < 0 else wanted, len(ops) - 1)
        rows = [_row(i, op) for i, op in enumerate(ops)]
        op = None if number is None else _op(number, ops[number], at.step, chosen)
    except Exception as error:
        return {"rows": [], "op": None, "error": reason(error)}
    return {"rows": rows, "op": op, "error": None}


def _op(number: int, op: Any, step: int, chosen: ChosenSequence) -> OpView:
    def described(value: Any) -> ValueView:
        live = chosen.live(value, step)
        return describe_value(value.name, value, at=chosen.in_step(step), pictures=True, live=live)

    return {"number": number, "inputs": list(map(described, op.inputs)), "outputs": list(map(described, op.outputs))}


def _row(number: int, op: Any) -> OpRow:
    data = read(op.outputs[0]) if op.outputs else None
    return {
        "number": number,
        "op": op.node.op,
        "name": op.name,
        "path": op.node.path,
        "line": op.line,
        "dims": [] if data is None else describe_axes(data.axes, data.feature),
        "dtype": "" if data is None else data.dtype,
        "is_loop": op.node.kind == "loop",
    }
