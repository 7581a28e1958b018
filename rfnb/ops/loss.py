"""Losses and error measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rfnb.backend.base.loss import LOG_PROBS
from rfnb.core.advice.features import likely_features
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.op_call import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.convert import convert_to_tensor, tensor
from rfnb.ops.grad import scaled_gradient_ext
from rfnb.ops.index import one_hot
from rfnb.ops.math import add, mul, neg, sub, where


@op(frames="any")
def cross_entropy(
    *, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: Annotated[str, OneOf(*LOG_PROBS)]
) -> Tensor:
    """-Σ target · log estimated over `axis`. {…, axis}, {…} sparse in axis or {…, axis} → {…}

    >>> vocab = rf.Dim(4, name="vocab")
    >>> label = rf.convert_to_tensor(3, dims=[], sparse_dim=vocab)
    >>> loss = rf.cross_entropy(estimated=rf.zeros([vocab]), target=label, axis=vocab, estimated_type="logits")
    >>> round(rf.exp(loss).item(), 4)
    4.0

    Args:
        target: labels, or probabilities.
        estimated_type: "logits", "log-probs" or "probs".
    """
    return backend_of_raw(estimated._raw).cross_entropy(
        estimated=estimated, target=target, axis=axis, estimated_type=estimated_type
    )


@guarded
def label_smoothing(prob: Tensor, smoothing: Tensor | float, *, axis: Dim | None = None) -> Tensor:
    """Targets that give `smoothing` of their weight to the other classes. {…, axis} or {…} sparse → {…, axis}

    >>> word = rf.Dim(3, name="word")
    >>> rf.label_smoothing(rf.convert_to_tensor(1, sparse_dim=word), 0.5).raw_tensor.tolist()
    [0.25, 0.5, 0.25]

    smoothing: 0 to 1. Raises DimError for other numbers; the entries of a Tensor are not checked.
    """
    _check_smoothing("label_smoothing", smoothing)
    axis = axis or prob.feature_dim or prob.sparse_dim
    if axis is None or axis.dimension is None:
        raise DimError(
            "label_smoothing: it is not clear which dim holds the classes",
            got=prob.describe_dims(),
            hint="label_smoothing(…, axis=dim)",
        )
    if prob.sparse_dim is axis:
        prob = one_hot(prob)
    share = mul(tensor(smoothing), 1.0 / (axis.dimension - 1))
    return add(mul(prob, sub(1.0 - smoothing, share)), share)


@guarded
def label_smoothed_log_prob_gradient(
    log_prob: Tensor,
    smoothing: Tensor | float,
    *,
    axis: Dim | None = None,
    exclude_labels: Sequence[int] | None = None,
) -> Tensor:
    """The same log probabilities, with a gradient smoothed as by `label_smoothing`. {…, axis} → the same

    For losses such as cross entropy or CTC, whose gradient in each frame is minus the probabilities of the labels.

    >>> word = rf.Dim(3, name="word")
    >>> x = rf.zeros([word])
    >>> rf.set_requires_gradient(x)
    >>> smooth = rf.label_smoothed_log_prob_gradient(x, 0.5, axis=word)
    >>> rf.gradient(-rf.gather(smooth, indices=1, axis=word), x).raw_tensor.tolist()
    [-0.25, -0.5, -0.25]

    Args:
        axis: the dim of the labels; by default the feature dim.
        exclude_labels: labels, such as blank, that the smoothing leaves out.
    """
    _check_smoothing("label_smoothed_log_prob_gradient", smoothing)
    axis = axis or log_prob.feature_dim
    excluded = set(exclude_labels or ())
    if axis is None or axis.dimension is None or axis.dimension - len(excluded) < 2:
        raise DimError(
            "label_smoothed_log_prob_gradient: needs a fixed dim with at least two labels",
            got=log_prob.describe_dims() if axis is None else axis.describe(),
            hint=f"rf.label_smoothed_log_prob_gradient(…, axis={likely_features(log_prob) or 'dim'})",
        )
    share = mul(tensor(smoothing), 1.0 / (axis.dimension - len(excluded) - 1))
    scale, shift = sub(1.0, add(tensor(smoothing), share)), neg(share)
    if excluded:
        labels = [label not in excluded for label in range(axis.dimension)]
        included = convert_to_tensor(labels, dims=[axis], device=log_prob.device)
        scale, shift = (
            where(included, value, default, allow_broadcast_all_sources=True)
            for value, default in ((scale, 1.0), (shift, 0.0))
        )
    return scaled_gradient_ext(log_prob, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis)


def _check_smoothing(op: str, smoothing: Tensor | float) -> None:
    """Raises DimError for a number that is not a probability. A Tensor is not read."""
    if not isinstance(smoothing, Tensor) and not 0.0 <= smoothing <= 1.0:
        raise DimError(f"{op}: `smoothing` must be a probability", got=smoothing, expected="0 to 1")


@op(frames="any")
def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *, dtype: str = "int32") -> Tensor:
    """The fewest insertions, deletions and substitutions from `a` to `b`.

    {…, a_spatial_dim}, {…, b_spatial_dim} → {…}

    >>> old, new = rf.Dim(3, name="old"), rf.Dim(4, name="new")
    >>> a, b = rf.convert_to_tensor([1, 2, 3], dims=[old]), rf.convert_to_tensor([1, 5, 3, 4], dims=[new])
    >>> rf.edit_distance(a, old, b, new).item()  # 5 for 2, and a 4
    2
    """
    return backend_of_raw(a._raw).edit_distance(a, a_spatial_dim, b, b_spatial_dim, dtype=dtype)
