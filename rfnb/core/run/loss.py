"""Losses that a model marks, and what each adds to the total."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from rfnb.core.tensor.op import OPS, door
from rfnb.core.tensor.tensor import Tensor


@dataclass
class Loss:
    """A loss that a model marked, and how it enters the total.

    Args:
        loss: {…}, for example one value for each sequence or frame.
        scale: the weight of this loss in the total.
        as_error: whether it is only reported, and does not enter the total.
        use_normalized_loss: whether the mean enters the total instead of the sum.
        use_flatten_frames: accepted for compatibility; the sum is the same either way, since padding never counts.
        custom_inv_norm_factor: the divisor of the mean, summed over its dims, instead of the number of valid entries.

    >>> time = rf.Dim(None, name="time")
    >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
    >>> loss = rf.Loss(frames, "ce", scale=0.5, use_normalized_loss=True)  # 99 is padding
    >>> loss.get_summed_loss().item(), loss.get_mean_loss().item(), loss.get_scaled_reduced_loss().item()
    (9.0, 3.0, 1.5)
    """

    loss: Tensor
    name: str
    scale: float = 1.0
    as_error: bool = False
    use_normalized_loss: bool = False
    use_flatten_frames: bool = True
    custom_inv_norm_factor: Tensor | None = None

    def get_summed_loss(self) -> Tensor:
        """The sum over all valid entries. → {}

        >>> time = rf.Dim(None, name="time")
        >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
        >>> rf.Loss(frames, "ce").get_summed_loss().item()  # 99 is padding
        9.0
        """
        return _all(self.loss, "sum")

    def get_mean_loss(self) -> Tensor:
        """The sum divided by the norm factor: the mean over all valid entries, unless there is a custom factor. → {}

        >>> time = rf.Dim(None, name="time")
        >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
        >>> by_sequence = rf.Loss(frames, "ce", custom_inv_norm_factor=rf.ones([rf.batch_dim]))
        >>> rf.Loss(frames, "ce").get_mean_loss().item(), by_sequence.get_mean_loss().item()  # 99 is padding
        (3.0, 4.5)
        """
        if self.custom_inv_norm_factor is None:
            return _all(self.loss, "mean")
        return operator.truediv(self.get_summed_loss(), _op("cast", self.get_inv_norm_factor(), self.loss.dtype))

    def get_inv_norm_factor(self) -> Tensor:
        """The divisor of the mean: the custom factor, or the number of valid entries. → {}

        >>> rf.Loss(rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")]), "ce").get_inv_norm_factor().item()
        5
        """
        if self.custom_inv_norm_factor is not None:
            return _all(self.custom_inv_norm_factor, "sum")
        return _all(_op("ones_like", _op("cast", self.loss, "int64")), "sum")

    def get_scaled_reduced_loss(self) -> Tensor:
        """The value that enters the total: the sum or mean, times the scale. → {}

        >>> frames = rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")])
        >>> rf.Loss(frames, "ce", scale=0.1).get_scaled_reduced_loss().item()
        0.5
        """
        loss = self.get_mean_loss() if self.use_normalized_loss else self.get_summed_loss()
        return loss if self.scale == 1 else operator.mul(loss, self.scale)


def _all(x: Tensor, mode: str) -> Tensor:
    return _op("reduce", x, mode=mode, axis=x.dims) if x.dims else x


def _op(name: str, *args: Any, **kwargs: Any) -> Tensor:
    result: Tensor = door(OPS[name], args, kwargs)
    return result
