"""Ops along sequences that need their true lengths."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def reverse_sequence(tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
    """Each sequence in reverse order; padding stays at the end. {…, axis} → the same

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2, 3], [4, 5]], dims=[rf.batch_dim, time])
    >>> rf.reverse_sequence(x, axis=time).raw_tensor.tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    return backend_of_raw(tensor._raw).reverse_sequence(tensor, axis=axis, handle_dynamic_dims=handle_dynamic_dims)


@op(frames="any")
def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
    """The cumulative sum over the frames. {…, spatial_dim} → the same

    Truth values and integers of fewer than 32 bits are summed as int64, so that they do not wrap around; other types
    stay the same.

    >>> time = rf.Dim(4, name="time")
    >>> rf.cumsum(rf.ones([time]), spatial_dim=time).raw_tensor.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return backend_of_raw(source._raw).cumsum(source, spatial_dim=spatial_dim)
