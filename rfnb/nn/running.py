"""What follows the data that was seen: running statistics."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, check_dims
from rfnb.core.parameter import Parameter
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError
from rfnb.nn.module import Module
from rfnb.ops.dims import use_mask_default
from rfnb.ops.math import mul, sub
from rfnb.ops.norm import batch_norm
from rfnb.ops.reduce import reduce_mean


class BatchNorm(Module):
    """Mean 0 and variance 1 of each feature over all frames, then gamma and beta (Ioffe & Szegedy 2015).

    {…, in_dim} → {…, in_dim}. In training, mean and variance are those of the valid frames of the batch, and the
    running ones move towards them; else the running ones are taken.

    Args:
        affine: whether there are gamma and beta.
        momentum: how far the running statistics move in a step. The running variance is without bias, as in torch.
        eps: added to the variance.
        track_running_stats: if False, there are none, and it is always the batch that counts.
        use_mask: if False, padding counts as frames.
        distributed: with the frames of all processes; not if nothing is said.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(1, name="feat")
    >>> x = rf.convert_to_tensor([[1.0], [3.0]], dims=[time, feat])
    >>> norm = rf.BatchNorm(feat, eps=0.0, momentum=0.5)
    >>> _ = rf.init_train_step_run_ctx()
    >>> norm(x).raw_tensor.tolist(), norm.running_mean.raw_tensor.tolist()
    ([[-1.0], [1.0]], [1.0])
    """

    def __init__(
        self,
        in_dim: Dim | Sequence[Dim],
        *,
        affine: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-3,
        track_running_stats: bool = True,
        use_mask: bool | None = None,
        distributed: bool | None = None,
    ):
        dims = [in_dim] if isinstance(in_dim, Dim) else in_dim
        check_dims(dims, "BatchNorm")
        self.in_dim = in_dim
        self.affine = affine
        self.momentum = momentum
        self.eps = eps
        self.use_mask = use_mask
        self.distributed = distributed
        self.running_mean = Parameter(dims, auxiliary=True) if track_running_stats else None
        self.running_variance = Parameter(dims, auxiliary=True, initial=1.0) if track_running_stats else None
        self.gamma = Parameter(dims, initial=1.0) if affine else None
        self.beta = Parameter(dims) if affine else None

    def __call__(self, source: Tensor) -> Tensor:
        """{…, in_dim} → {…, in_dim}"""
        return batch_norm(
            source,
            in_dim=self.in_dim,
            running_mean=self.running_mean,
            running_variance=self.running_variance,
            gamma=self.gamma,
            beta=self.beta,
            epsilon=self.eps,
            momentum=self.momentum,
            affine=self.affine,
            use_mask=use_mask_default(default=self.use_mask),
            distributed=batch_norm_distributed_default() if self.distributed is None else self.distributed,
            train=get_run_ctx().is_train_flag_enabled(func=BatchNorm.__call__),
        )


def batch_norm_distributed_default() -> bool:
    """Whether `rf.BatchNorm` takes the frames of all processes together if it was not told: it does not.

    >>> rf.batch_norm_distributed_default()
    False
    """
    return False


class RunningMean(Module):
    """The mean of what was seen, which newer data moves. {…, in_dim} → {in_dim}

    Args:
        alpha: how far a batch moves the mean towards its own.
        is_prob_distribution: it begins as a uniform distribution over `in_dim`, not as 0.
        update_only_in_train: only calls in training move it.

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
        dims = [in_dim] if isinstance(in_dim, Dim) else in_dim
        check_dims(dims, "RunningMean")
        self.in_dim = in_dim
        self.alpha = alpha
        self.is_prob_distribution = is_prob_distribution
        self.update_only_in_train = update_only_in_train
        self.mean = Parameter(dims, dtype, auxiliary=True)
        if is_prob_distribution:
            self.mean.initial = 1.0 / self.mean.num_elements()

    def __call__(self, x: Tensor) -> Tensor:
        """The mean, after it was moved. Raises DimError if `x` lacks a dim of it."""
        missing = [dim for dim in self.mean.dims if dim not in x.dims]
        if missing:
            raise DimError(f"RunningMean: `x` has no dim {missing[0].name}", got=x.describe_dims())
        if not self.update_only_in_train or get_run_ctx().is_train_flag_enabled(func=RunningMean.__call__):
            others = [dim for dim in x.dims if dim not in self.mean.dims]
            seen = reduce_mean(x, axis=others) if others else x
            self.mean.assign_add(mul(sub(seen, self.mean), self.alpha))
        return self.mean
