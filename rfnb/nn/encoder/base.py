"""Bases of encoders: what code may rely on that is given some encoder."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.nn.module.module import Module

__all__ = ["IEncoder", "ISeqDownsamplingEncoder", "ISeqFramewiseEncoder"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class IEncoder(Module):
    """Base of modules whose results have the feature dim `out_dim`. Subclasses define `__call__(source) -> Tensor`.

    >>> class Scale(rf.IEncoder):
    ...     def __init__(self, out_dim):
    ...         self.out_dim = out_dim
    ...
    ...     def __call__(self, source):
    ...         return 2 * source
    >>> feat = rf.Dim(3, name="feat")
    >>> Scale(feat)(rf.ones([feat])).raw_tensor.tolist()
    [2.0, 2.0, 2.0]
    """

    out_dim: Dim


class ISeqFramewiseEncoder(Module):
    """Base of encoders with one result for each frame. Subclasses define `__call__(source, *, spatial_dim) -> Tensor`.

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> isinstance(rf.ConformerEncoderLayer(rf.Dim(8, name="model"), num_heads=2), rf.ISeqFramewiseEncoder)
    True
    """

    out_dim: Dim


class ISeqDownsamplingEncoder(Module):
    """Base of encoders that give fewer frames, by the factor `downsample_factor`.

    {…, in_spatial_dim, in_dim} → {…, frames, out_dim}. Subclasses define
    `__call__(source, *, in_spatial_dim) -> (Tensor, dim of the frames)`.

    >>> frontend = rf.ConformerConvSubsample(rf.Dim(8), out_dims=[4, 4], filter_sizes=[3, 3], strides=[3, 2])
    >>> isinstance(frontend, rf.ISeqDownsamplingEncoder), frontend.downsample_factor
    (True, 6)
    """

    out_dim: Dim
    downsample_factor: int | float
