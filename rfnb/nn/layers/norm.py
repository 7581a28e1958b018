"""Normalization over features, over groups of them, or over frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.math import add, mul
from rfnb.ops.norm import group_norm, layer_norm, normalize, rms_norm


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
