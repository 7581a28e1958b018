"""A running mean of the data."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.nn.module.module import Module
from rfnb.ops.math import mul, sub
from rfnb.ops.reduce import reduce_mean


class RunningMean(Module):
    """An exponential moving average of the data. {…, in_dim} → {in_dim}

    Args:
        alpha: how far a batch moves the mean towards its own mean.
        is_prob_distribution: whether the mean starts as a uniform distribution over `in_dim` instead of 0.
        update_only_in_train: whether only calls in training change the mean.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(1, name="feat")
    >>> mean = rf.RunningMean(feat, alpha=0.5, update_only_in_train=False)
    >>> mean(rf.convert_to_tensor([[1.0], [3.0]], dims=[time, feat])).raw_tensor.tolist()
    [1.0]
    """

    def __init__(
        self,
        in_dim: Dim | Sequence[Dim],
        *,
        alpha: float,
        dtype: str | None = None,
        is_prob_distribution: bool | None = None,
        update_only_in_train: bool = True,
    ):
        dims = as_dims(in_dim)
        check_dims(dims, "RunningMean")
        self.in_dim = in_dim
        self.alpha = alpha
        self.is_prob_distribution = is_prob_distribution
        self.update_only_in_train = update_only_in_train
        self.mean = Parameter(dims, dtype, auxiliary=True)
        if is_prob_distribution:
            self.mean.initial = 1.0 / self.mean.num_elements()

    def __call__(self, x: Tensor) -> Tensor:
        """The updated mean. {…, in_dim} → {in_dim}. Raises DimError if `x` lacks one of its dims."""
        missing = [dim for dim in self.mean.dims if dim not in x.dims]
        if missing:
            raise DimError(f"RunningMean: `x` has no dim {missing[0].name}", got=x.describe_dims())
        if not self.update_only_in_train or get_run_ctx().is_train_flag_enabled(func=RunningMean.__call__):
            axes = [dim for dim in x.dims if dim not in self.mean.dims]
            new = reduce_mean(x, axis=axes) if axes else x
            self.mean.assign_add(mul(sub(new, self.mean), self.alpha))
        return self.mean
