"""Stacks a value over all steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.expression.expression import Expression
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.ops.convert import convert_to_tensor
from rfnb.trace.run.names import evaluate

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


def stacked(run: Run, what: str, resolve: bool = True) -> Tensor:
    """Stacks a variable of the body, or an expression, over all steps. → {axis, …}"""
    names = {run.replay.name_of(value) for value in run.graph.values}
    if what in names or str(what).isidentifier():
        return run.replay.stack(what, resolve)
    expression = Expression(what)
    values = [_tensor(evaluate(expression, run[step]), what) for step in range(min(run.steps, run.size.max))]
    if not values:
        raise LoopError(
            f"{run.name}: `{what}` cannot be computed without a step", got="0 steps", expected="a variable of the body"
        )
    first = values[0]
    for step, value in enumerate(values):
        if value.dims_set != first.dims_set or run.axis in value.dims:
            raise LoopError(
                f"{run.name}: `{what}` cannot be stacked", got=f"{value.describe_dims()} at step {step}",
                expected=f"{first.describe_dims()} at all steps, without {run.axis.name}",
            )  # fmt: skip
    return over_steps(values, run.axis, run.size).with_name(what)


def over_steps(values: Sequence[Tensor], axis: Dim, size: Size) -> Tensor:
    """Stacks values with the same dims, one for each step, along `axis`. → {axis, …}"""
    first = values[0]
    raws = [value.copy_transpose(first.dims)._raw for value in values]
    signature = align.sig([axis, *first.dims], first.sparse_dim, first.feature_dim)
    return tensor_of(backend_of_raw(raws[0]).stack_raw(raws), signature, first.lengths.bind({axis: size}))


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float):
        return convert_to_tensor(value)
    raise LoopError(f"`{what}` is neither a Tensor nor a number", got=type(value).__name__)
