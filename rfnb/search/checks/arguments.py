"""Refuses arguments of a search that do not fit together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, LoopError, ParameterError

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body


def check_numbers(what: str, **numbers: Any) -> None:
    """Raises ParameterError for scales and exponents that are not finite numbers."""
    for name, number in numbers.items():
        if not isinstance(number, int | float | np.number) or not math.isfinite(number):
            raise ParameterError(f"{what}: `{name}` is not a finite number", got=repr(number), expected="such as 1.0")


def check_count(what: str, name: str, count: Any, least: int) -> None:
    """Raises ParameterError for a count that is not an integer, or too small."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
        raise ParameterError(f"{what}: `{name}` is a count", got=repr(count), expected=f"an integer, {least} or more")


def check_offset(what: str, offset: float) -> None:
    """Raises ParameterError for an offset of length normalization that is not a number, or negative."""
    check_numbers(what, length_normalization_offset=offset)
    if not 0 <= offset < math.inf:
        raise ParameterError(f"{what}: `length_normalization_offset` is negative", got=offset, hint="5.0")


def check_step(scores: Tensor, base: Tensor, axis: Dim, beam: Dim, out_beam: Dim) -> None:
    """Raises DimError for dims of `beam_step` that do not fit."""
    if len({axis, beam, out_beam}) < 3:
        raise DimError(
            "beam_step: `axis`, `beam` and `out_beam` are three dims",
            got=", ".join(dim.describe() for dim in (axis, beam, out_beam)),
            expected="those of the labels, of the hypotheses before the step, and of those after it",
        )
    if not out_beam.dimension:
        raise DimError("beam_step: `out_beam` has no fixed size", got=out_beam, hint='rf.Dim(4, name="after")')
    score_dims = [dim for dim in scores.dims if dim is not axis]
    for name, x, required in (("scores", scores, [axis]), ("base", base, [beam, *score_dims])):
        lacking = next((dim for dim in required if dim not in x.dims_set), None)
        if lacking is not None:
            raise DimError(
                f"beam_step: `{name}` lacks the dim {lacking.name}",
                got=x.describe_dims(),
                expected=", ".join(dict.fromkeys(dim.name for dim in required)),
                hint=f"rf.expand_dim({name}, {lacking.name}) if it is the same for all of its entries",
                dims=[lacking],
            )


def check_beam(body: Body, beam: Any, *, needs_state: bool = True) -> None:
    """Raises DimError if the beam is not a Dim of fixed size, or no state has it; LoopError in a nested loop."""
    name, hypotheses = body.loop.name, body.hypotheses
    if body.outer is not None:
        raise LoopError(
            f"{name}: choice in a loop inside of another, where the result of the search differs at each step",
            got=f"{name} in {body.outer.name}",
            hint=f"make the steps of {body.outer.name} a batch dim; or rf.search.beam_step with states of your own",
        )
    if not isinstance(beam, Dim) or not beam.dimension:
        raise DimError(
            f"{name}: choice: `beam` is the dim of the hypotheses, of fixed size",
            got="nothing" if beam is None else repr(beam),
            expected="a Dim that the states have",
            hint='before the loop: beam = rf.Dim(4, name="beam"); loop.state.prev = rf.zeros([…, beam], …)',
        )
    states = [(state, x) for state, x in body.loop.state._leaves() if isinstance(x, Tensor)]
    if hypotheses is None and needs_state and not any(beam in x.dims for _, x in states):
        namesake = next((dim for _, x in states for dim in x.dims if dim.name == beam.name), None)
        if namesake is not None:
            raise DimError(
                f"{name}: choice: `beam` is another Dim than that of the states, of the same name",
                got=beam.describe(),
                expected=namesake.describe(),
                hint=f"make it once, before the loop: {beam.name} = rf.Dim({namesake.dimension}, name={beam.name!r})",
            )
        raise DimError(
            f"{name}: choice: no state has the dim {beam.name}",
            got=", ".join(f"{state} {x.describe_dims()}" for state, x in states) or "no states",
            hint=f"before the loop: loop.state.prev = rf.zeros([…, {beam.name}], …): states of each hypothesis have it",
        )
    if hypotheses is not None and beam is not hypotheses.beam:
        raise DimError(
            f"{name}: a second choice has another beam",
            got=beam.describe(),
            expected=hypotheses.beam.describe(),
            hint="the same beam, with beam_size=… for another number of hypotheses in between",
        )


def check_scores(body: Body, scores: Tensor, axis: Dim, beam: Dim, *, by_frame: bool = False) -> None:
    """Raises DimError for scores of other hypotheses than those that the choice extends, or of none.

    Over frames, such as those of CTC, scores may be the same for all hypotheses.
    """
    name, hypotheses = body.loop.name, body.hypotheses
    newest = beam if hypotheses is None else hypotheses.newest
    older = [] if hypotheses is None else [hypotheses.beam, *(choice.after for choice in hypotheses.choices[:-1])]
    if hypotheses is not None and any(dim in scores.dims for dim in older if dim is not newest):
        raise DimError(
            f"{name}: choice: the scores are of hypotheses before the last choice",
            got=scores.describe_dims(),
            expected=f"the {beam.name} after it",
            hint="chosen = loop.choice(…); loop.choice(chosen.follow(scores), …), or scores from what was chosen",
        )
    if newest not in scores.dims and not (by_frame or body.unstacked):
        raise DimError(
            f"{name}: choice: the scores lack the dim {beam.name}, so that they are the same for all hypotheses",
            got=scores.describe_dims(),
            expected=f"{beam.name} too, from states that have it",
            hint=f"loop.choice(rf.expand_dim(scores, {beam.name}), …) if this is intended",
        )
    if axis in (newest, beam) or axis.is_batch_dim():
        raise DimError(
            f"{name}: choice: the dim of the labels cannot be that of the {'batch' if axis.is_batch_dim() else 'beam'}",
            got=f"axis={axis.name}, scores {scores.describe_dims()}",
            hint="loop.choice(scores, axis=label_dim, …)",
        )
