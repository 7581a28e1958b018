"""Normalization of each feature over a batch, with running statistics."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.ops.dims import use_mask_default
from rfnb.ops.norm import batch_norm


class BatchNorm(Module):
    """Normalizes each feature to mean 0 and variance 1 over all frames, then applies gamma and beta.

    {…, in_dim} → {…, in_dim} (Ioffe & Szegedy 2015). In training, mean and variance are those of the valid frames of
    the batch, and the running statistics move towards them; otherwise the running statistics are used.

    Args:
        affine: whether there are gamma and beta.
        momentum: how far the running statistics move in a step. The running variance is unbiased, as in torch.
        eps: added to the variance.
        track_running_stats: if False, there are no running statistics, and those of the batch are always used.
        use_mask: if False, padding counts as frames.
        distributed: whether to use the frames of all processes; by default not.

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
        dims = as_dims(in_dim)
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


def conv_norm_use_mask_default() -> bool | None:
    """The default of `use_mask` for the norm in convolutions: None, so `rf.BatchNorm` decides, which ignores padding.

    >>> rf.conv_norm_use_mask_default() is None
    True
    """
    return None


def batch_norm_distributed_default() -> bool:
    """The default of `distributed` in `rf.BatchNorm`: False, so only the frames of this process are used.

    >>> rf.batch_norm_distributed_default()
    False
    """
    return False
