"""Noise on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError


def dropout(
    source: Tensor, drop_prob: float, *, axis: Dim | Sequence[Dim] | None = None, on_forward: bool = False
) -> Tensor:
    """In training, each entry is 0 with probability `drop_prob`; the others are scaled up. {…} → the same

    Args:
        axis: dims along which entries are dropped each on their own; all dims if not given.
        on_forward: also when there is no training.
    """
    if not 0.0 <= drop_prob <= 1.0:
        raise DimError("dropout: `drop_prob` is no probability", got=drop_prob, expected="0 to 1")
    if drop_prob == 0 or not (on_forward or get_run_ctx().is_train_flag_enabled(func=dropout)):
        return source
    return _dropout(source, drop_prob, axis=axis)


@op(random=True, name="dropout")
def _dropout(source: Tensor, drop_prob: float, *, axis: Dim | Sequence[Dim] | None) -> Tensor:
    dims = source.dims if axis is None else (axis,) if isinstance(axis, Dim) else tuple(axis)
    return backend_of_raw(source._raw).dropout(source, drop_prob, dims)
