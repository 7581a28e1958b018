"""Losses and error measures."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.convert import tensor
from rfnb.ops.index import one_hot
from rfnb.ops.math import add, mul, sub


@op(frames="any")
def cross_entropy(*, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str) -> Tensor:
    """-Σ target · log estimated over `axis`. {…, axis}, {…} sparse in axis or {…, axis} → {…}

    estimated_type: "logits", "log-probs" or "probs".
    """
    return backend_of_raw(estimated._raw).cross_entropy(
        estimated=estimated, target=target, axis=axis, estimated_type=estimated_type
    )


def label_smoothing(prob: Tensor, smoothing: Tensor | float, *, axis: Dim | None = None) -> Tensor:
    """Targets that keep `smoothing` of their weight for the other classes. {…, axis} or {…} sparse → {…, axis}"""
    axis = axis or prob.feature_dim or prob.sparse_dim
    if axis is None or axis.dimension is None:
        raise DimError(
            "label_smoothing: which dim are the classes?", got=prob.describe_dims(), hint="label_smoothing(…, axis=dim)"
        )
    if prob.sparse_dim is axis:
        prob = one_hot(prob)
    others = mul(tensor(smoothing), 1.0 / (axis.dimension - 1))
    return add(mul(prob, sub(1.0 - smoothing, others)), others)  # type: ignore[operator]


@op()
def edit_distance(a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *, dtype: str = "int32") -> Tensor:
    """The fewest insertions, deletions and substitutions from `a` to `b`.

    {…, a_spatial_dim}, {…, b_spatial_dim} → {…}
    """
    return backend_of_raw(a._raw).edit_distance(a, a_spatial_dim, b, b_spatial_dim, dtype=dtype)
