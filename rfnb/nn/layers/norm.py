"""Normalization over features, over groups of them, over frames or over batches, and a running mean of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.dims import use_mask_default
from rfnb.ops.math import add, mul, sub
from rfnb.ops.norm import batch_norm, group_norm, layer_norm, normalize, rms_norm
from rfnb.ops.random import in_training
from rfnb.ops.reduce import reduce_mean


class LayerNorm(Module):
    """Normalizes to mean 0 and variance 1 over `in_dim`, then applies scale and bias. {…, in_dim} → {…, in_dim}

    Layer normalization as of Ba et al. (2016).

    eps: added to the variance.

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.LayerNorm(feat, eps=0.0)(rf.convert_to_tensor([1.0, 3.0], dims=[feat])).raw_tensor.tolist()
    [-1.0, 1.0]
    """

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = True):
        self.in_dim = in_dim
        self.eps = eps
        self.scale, self.bias = _scale("LayerNorm", in_dim), _bias(in_dim, with_bias)

    def __call__(self, x: Tensor) -> Tensor:
        """{…, in_dim} → {…, in_dim}"""
        return layer_norm(x, self.scale, self.bias, in_dim=self.in_dim, eps=self.eps)


class RMSNorm(Module):
    """Normalizes to mean square 1 over `in_dim`, then applies scale and bias. {…, in_dim} → {…, in_dim}

    Root mean square normalization as of Zhang & Sennrich (2019).

    eps: added to the mean square.

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.RMSNorm(feat, eps=0.0)(rf.convert_to_tensor([5.0, -5.0], dims=[feat])).raw_tensor.tolist()
    [1.0, -1.0]
    """

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = False):
        self.in_dim = in_dim
        self.eps = eps
        self.scale, self.bias = _scale("RMSNorm", in_dim), _bias(in_dim, with_bias)

    def __call__(self, x: Tensor) -> Tensor:
        """{…, in_dim} → {…, in_dim}"""
        return rms_norm(x, self.scale, self.bias, in_dim=self.in_dim, eps=self.eps)


class GroupNorm(Module):
    """Normalizes to mean 0 and variance 1 over groups of adjacent features, then applies scale and bias.

    {…, in_dim} → {…, in_dim} (Wu & He 2018). Each frame is normalized separately; `GroupNormSpatial` normalizes the
    frames of a sequence together.

    >>> feat = rf.Dim(4, name="feat")
    >>> x = rf.convert_to_tensor([1.0, 3.0, 20.0, 10.0], dims=[feat])
    >>> rf.GroupNorm(feat, num_groups=2, eps=0.0)(x).raw_tensor.tolist()
    [-1.0, 1.0, 1.0, -1.0]

    Raises ParameterError if the groups do not divide `in_dim` evenly.
    """

    def __init__(self, in_dim: Dim, *, num_groups: int | Dim, eps: float = 1e-6):
        self.in_dim = in_dim
        self.num_groups = num_groups
        self.eps = eps
        self.scale, self.bias = _scale(type(self).__name__, in_dim), _bias(in_dim)
        number = num_groups.get_dim_value() if isinstance(num_groups, Dim) else num_groups
        if number < 1 or in_dim.get_dim_value() % number:
            raise ParameterError(
                f"{type(self).__name__}: `num_groups` must divide {in_dim.name} evenly",
                got=f"{number} groups of {in_dim.describe()}",
            )

    def __call__(self, x: Tensor) -> Tensor:
        """{…, in_dim} → {…, in_dim}"""
        return self._over((), x)

    def _over(self, axis: Dim | Sequence[Dim], x: Tensor) -> Tensor:
        of_groups: Any = {"in_dim": self.in_dim, "num_groups": self.num_groups, "eps": self.eps}
        return group_norm(x, self.scale, self.bias, axis=axis, **of_groups)


class GroupNormSpatial(GroupNorm):
    """`GroupNorm` with mean and variance also over the valid frames of a sequence, as in torch.

    {…, spatial_dim, in_dim} → {…, spatial_dim, in_dim}

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor([[1.0, 1.0], [3.0, 3.0]], dims=[time, feat])
    >>> rf.GroupNormSpatial(feat, num_groups=1, eps=0.0)(x, spatial_dim=time).raw_tensor.tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    def __call__(self, x: Tensor, *, spatial_dim: Dim | Sequence[Dim]) -> Tensor:  # type: ignore[override]
        """{…, spatial_dim, in_dim} → {…, spatial_dim, in_dim}"""
        return self._over(spatial_dim, x)


class Normalize(Module):
    """Normalizes to mean 0 and variance 1 over the valid frames of given axes, then applies scale and bias.

    {…, axis} → {…, axis}. Padding is 0 before the bias.

    Args:
        param_dims: the dims of scale and bias.
        epsilon: added to the variance.
        scale, bias: whether there is a scale, and a bias.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(1, name="feat")
    >>> x = rf.convert_to_tensor([[1.0], [3.0]], dims=[time, feat])
    >>> rf.Normalize(param_dims=feat, epsilon=0.0)(x, axis=time).raw_tensor.tolist()
    [[-1.0], [1.0]]
    """

    def __init__(
        self, *, param_dims: Dim | Sequence[Dim], epsilon: float = 1e-6, scale: bool = True, bias: bool = True
    ):
        self.epsilon = epsilon
        self.scale = _scale("Normalize", param_dims) if scale else None
        self.bias = _bias(param_dims, bias)

    def __call__(self, a: Tensor, *, axis: Dim | Sequence[Dim]) -> Tensor:
        """{…, axis} → {…, axis}"""
        result = normalize(a, axis=axis, epsilon=self.epsilon)
        result = result if self.scale is None else mul(result, self.scale)
        return result if self.bias is None else add(result, self.bias)


def _scale(name: str, dims: Dim | Sequence[Dim]) -> Parameter:
    dims = as_dims(dims)
    check_dims(dims, name)
    return Parameter(dims, initial=1.0)


def _bias(dims: Dim | Sequence[Dim], wanted: bool = True) -> Parameter | None:
    return Parameter(as_dims(dims)) if wanted else None


@guarded
def make_norm(norm: Choice, out_dim: Dim | Sequence[Dim]) -> Any:
    """A norm of the features `out_dim`, from a class, `rf.build_dict(…)`, a module, which is copied, or a function.

    >>> rf.make_norm(rf.build_dict(rf.LayerNorm, eps=1e-5), rf.Dim(3, name="feat")).eps
    1e-05
    """
    return build_part(norm, out_dim)


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
            train=self.running_mean is None or in_training(source, func=BatchNorm.__call__),
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
