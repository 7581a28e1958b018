"""A choice without search: the labels are those of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.ops.index import gather
from rfnb.ops.math import cast, less, where
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_argmax
from rfnb.search.sources import InputType, gumbel, log_scores

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body


def target_labels(
    body: Body,
    sources: Sequence[Tensor],
    axes: Sequence[Dim],
    targets: Sequence[Any],
    input_type: InputType,
    scheduled_sampling: bool | float,
) -> list[Tensor]:
    """The labels of the target; with `scheduled_sampling`, samples in their place, with this probability."""
    for item in targets:
        if not isinstance(item, Tensor):
            raise LoopError(
                f"{body.loop.name}: choice without search needs a target",
                got=item,
                hint="loop.choice(scores, target=loop.unstack(labels), search=False)",
            )
    if not scheduled_sampling:
        return list(targets)
    share = 1.0 if scheduled_sampling is True else float(scheduled_sampling)
    labels = []
    for scores, axis, target in zip(sources, axes, targets, strict=True):
        noisy = log_scores(scores, axis, input_type) + gumbel(scores)
        sampled = cast(reduce_argmax(noisy, axis=axis), target.dtype)
        labels.append(where(less(random_uniform(target.dims, device=target.device), share), sampled, target))
    return labels


def target_scores(scores: Tensor, axis: Dim, input_type: InputType, target: Tensor) -> Tensor:
    """The scores of the labels of the target. {…, axis}, {…} → {…}"""
    return gather(log_scores(scores, axis, input_type), indices=target, axis=axis)
