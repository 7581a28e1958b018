"""Ops along sequences: reversed, summed up, and with repeated frames."""

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


@op()
def repeat(
    values: Tensor, *, in_spatial_dim: Dim, repeats: Tensor | int, out_spatial_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """Each frame as often as `repeats` says, and the new dim.

    {…, in_spatial_dim}, {…, in_spatial_dim} → {…, out_spatial_dim}

    >>> letters = rf.Dim(3, name="letters")
    >>> durations = rf.convert_to_tensor([2, 0, 1], dims=[letters])
    >>> frames, _ = rf.repeat(rf.range_over_dim(letters), in_spatial_dim=letters, repeats=durations)
    >>> frames.raw_tensor.tolist()
    [0, 0, 2]

    With an int, all frames are repeated equally often, and the new dim is `in_spatial_dim` times the int. The values
    of a Tensor are read, since the size of the result depends on them.
    """
    if out_spatial_dim is None:
        out_spatial_dim = (
            Dim(None, name=f"{in_spatial_dim.name}_repeated")
            if isinstance(repeats, Tensor)
            else in_spatial_dim * repeats
        )
    return backend_of_raw(values._raw).repeat(
        values, in_spatial_dim=in_spatial_dim, repeats=repeats, out_spatial_dim=out_spatial_dim
    ), out_spatial_dim
