"""The ops of one step, one by one, also those inside of modules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.display.data import read
from rfnb.display.schema import OpRow, OpsView, OpView
from rfnb.display.views.dims import describe_axes
from rfnb.display.views.value import describe_value
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.trace.run import Run


def describe(run: Run, step: int) -> OpsView:
    """In the order in which they were done; reads no numbers."""
    rows = [_row(number, op) for number, op in enumerate(run[step].ops())]
    return {"kind": "ops", "run": run.serial, "step": step, "ops": rows}


def describe_one(run: Run, step: int, number: int, sequence: int | None) -> OpView:
    """What one of them took and gave. Raises ViewError if the step has no such op."""
    ops = run[step].ops()
    if not 0 <= number < len(ops):
        raise ViewError(f"step {step} of run {run.serial} has no op {number}: it has {len(ops)}")
    tell = partial(describe_value, sequences=run.sequence_dim, sequence=sequence, pictures=True)
    op = ops[number]
    return {
        "kind": "op",
        "number": number,
        "inputs": [tell(value.name, value) for value in op.inputs],
        "outputs": [tell(value.name, value) for value in op.outputs],
    }


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
        "is_loop": op.node.op == "Loop",
    }
