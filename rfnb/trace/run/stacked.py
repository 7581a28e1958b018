"""Stacks a value over all steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.expression.expression import Expression
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.index import gather
from rfnb.trace.run.names import evaluate
from rfnb.trace.run.step import is_lost

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.variables import VariableSteps


class Lineage(NamedTuple):
    """Where the final hypotheses of a search are at each step.

    beam: the dim of the hypotheses at some point of a step. final: that of the final ones. dims: of the sequences.
    places: the place in `beam` that each final one extends, [steps, …, final].
    """

    beam: Dim
    final: Dim
    dims: tuple[Dim, ...]
    places: np.ndarray


def by_hypothesis(x: Tensor, axis: Dim, search: Sequence[Lineage]) -> Tensor:
    """Stacked values in the order of the final hypotheses of a search. {axis, …, beam} → {axis, …, final}"""
    lineage = next((entry for entry in search if entry.beam in x.dims), None)
    if lineage is None:
        return x
    backend, tail = backend_of_raw(x._raw), [dim for dim in x.dims if dim is not axis]
    raw = x.copy_transpose([axis, *tail])._raw
    frames = Dim(backend.get_shape_tuple_raw(raw)[0], name="frames")  # which has no padding that would be masked
    at = backend.from_numpy_raw(lineage.places[: frames.get_dim_value()].copy(), x.device)
    indices = tensor_of(at, align.sig([frames, *lineage.dims, lineage.final]), EMPTY)
    result = gather(tensor_of(raw, align.sig([frames, *tail]), EMPTY), indices=indices, axis=lineage.beam)
    dims = [lineage.final if dim is lineage.beam else dim for dim in tail]
    feature = lineage.final if x.feature_dim is lineage.beam else x.feature_dim
    return tensor_of(
        result.copy_transpose([frames, *dims])._raw, align.sig([axis, *dims], x.sparse_dim, feature), x.lengths
    )


def stacked(run: Run, text: str, resolve: bool = True) -> Tensor:
    """Stacks a variable of the body, or an expression, over all steps. → {axis, …}

    Values of a search are taken along its final hypotheses, if `resolve`.
    """
    names = {run.replay.name_of(value) for value in run.graph.values}
    if text in names or str(text).isidentifier():
        return run.replay.stack(text, resolve)
    expression = Expression(text)
    values = [_tensor(evaluate(expression, run[step]), text) for step in range(min(run.steps, run.size.max))]
    if not values:
        raise LoopError(
            f"{run.name}: `{text}` cannot be computed without a step", got="0 steps", expected="a variable of the body"
        )
    head = values[0]
    for step, value in enumerate(values):
        if value.dims_set != head.dims_set or run.axis in value.dims:
            raise LoopError(
                f"{run.name}: `{text}` cannot be stacked", got=f"{value.describe_dims()} at step {step}",
                expected=f"{head.describe_dims()} at all steps, without {run.axis.name}",
            )  # fmt: skip
    result = over_steps(values, run.axis, run.size)
    return (by_hypothesis(result, run.axis, run.replay.lineages) if resolve else result).with_name(text)


def stacked_variable(replay: VariableSteps, name: str, steps: int) -> Tensor:
    """A variable of plain Python after each step, stacked. → {axis, …}"""
    tensors: list[Tensor] = []
    for step in range(steps):
        value = replay.state(name, step + 1)
        if step < replay.kept_from and is_lost(value):
            raise LoopError(
                f"{name!r} cannot be stacked: its value at step {step} is no longer kept",
                expected=f"run[{replay.kept_from}] and later steps, which have all of their values",
                hint="rf.options.trace_budget",
            )
        if not isinstance(value, Tensor):
            raise LoopError(f"{name!r} cannot be stacked: it is not a tensor at step {step}", got=value)
        if tensors and value.dims != tensors[0].dims:
            raise LoopError(
                f"{name!r} cannot be stacked: its sizes differ",
                got=f"{value.describe_dims()} at step {step}",
                expected=f"{tensors[0].describe_dims()}, as at step 0",
            )
        tensors.append(value)
    if not tensors:
        raise LoopError(f"{name!r} cannot be stacked: the loop has no steps")
    return over_steps(tensors, replay.axis, Size([], len(tensors))).with_name(name)


def over_steps(values: Sequence[Tensor], axis: Dim, size: Size) -> Tensor:
    """Stacks values with the same dims, one for each step, along `axis`. → {axis, …}"""
    head = values[0]
    raws = [value.copy_transpose(head.dims)._raw for value in values]
    signature = align.sig([axis, *head.dims], head.sparse_dim, head.feature_dim)
    return tensor_of(backend_of_raw(raws[0]).stack_raw(raws), signature, head.lengths.bind({axis: size}))


def _tensor(value: object, text: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float):
        return convert_to_tensor(value)
    raise LoopError(f"`{text}` is neither a Tensor nor a number", got=type(value).__name__)
