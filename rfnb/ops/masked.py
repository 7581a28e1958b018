"""Selecting the entries where a mask is true, and putting them back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.op_call import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError


@op()
def masked_select(
    tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """The entries where `mask` is true, one after the other, and their new dim. {…, dims…}, {dims…} → {…, out_dim}

    Padding is dropped. The last of `dims` varies fastest. Other dims of the mask are batch dims: the entries that are
    left of each sequence form a sequence.

    >>> time = rf.Dim(4, name="time")
    >>> x = rf.range_over_dim(time)
    >>> rf.masked_select(x, mask=x > 1, dims=[time])[0].raw_tensor.tolist()
    [2, 3]
    """
    return backend_of_raw(tensor._raw).masked_select(tensor, mask=mask, dims=tuple(dims), out_dim=out_dim)


@op(frames="any")
def masked_scatter(
    source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
) -> Tensor:
    """The entries of `source` in order where `mask` is true, else `backup` or 0: the inverse of `masked_select`.

    {…, in_dim}, {dims…} → {…, dims…}

    >>> time, some = rf.Dim(4, name="time"), rf.Dim(2, name="some")
    >>> mask = rf.range_over_dim(time) > 1
    >>> rf.masked_scatter(rf.range_over_dim(some) + 7, mask=mask, dims=[time], in_dim=some).raw_tensor.tolist()
    [0, 0, 7, 8]
    """
    return backend_of_raw(source._raw).masked_scatter(source, backup, mask=mask, dims=tuple(dims), in_dim=in_dim)


@op()
def pack_padded(
    source: Tensor, *, dims: Sequence[Dim], enforce_sorted: bool = False, out_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """The frames of all sequences, one after the other, without padding, and their new dim. {…, dims…} → {…, out_dim}

    The last of `dims` varies fastest. If their lengths depend on a dim that is not among them, it is a batch dim: the
    frames of each of its sequences form a sequence.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
    >>> rf.pack_padded(x, dims=[rf.batch_dim, time])[0].raw_tensor.tolist()
    [1, 2, 3, 4]

    Args:
        enforce_sorted: raise DimError if a sequence is longer than the one before it.
    """
    dims = tuple(dims)
    if enforce_sorted:
        for dim in dims:
            size = source.size_of(dim)
            if size.dims and (np.diff(size.values, axis=0) > 0).any():
                raise DimError(
                    "pack_padded: the sequences are not sorted by length, longest first", got=size, expected=dim
                )
    return backend_of_raw(source._raw).pack_padded(source, dims=dims, out_dim=out_dim)


@op(frames="any")
def pad_packed(source: Tensor, *, in_dim: Dim, dims: Sequence[Dim]) -> Tensor:
    """The inverse of `pack_padded`, with 0 in padding. {…, in_dim} → {…, dims…}

    Raises DimError if a sequence of `in_dim` has not the number of frames of `dims`.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
    >>> packed, frames = rf.pack_padded(x, dims=[rf.batch_dim, time])
    >>> rf.pad_packed(packed, in_dim=frames, dims=[rf.batch_dim, time]).raw_tensor.tolist()
    [[1, 2], [3, 0]]
    """
    return backend_of_raw(source._raw).pad_packed(source, in_dim=in_dim, dims=tuple(dims))


@guarded
def is_packed(source: Tensor) -> bool:
    """False: tensors are always padded here. The frames that `pack_padded` gives have an ordinary dim.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
    >>> rf.is_packed(x), rf.is_packed(rf.pack_padded(x, dims=[rf.batch_dim, time])[0])
    (False, False)
    """
    return False


@guarded
def unpack(source: Tensor) -> Tensor:
    """The tensor itself, since tensors are always padded here.

    >>> x = rf.ones([rf.Dim(2, name="time")])
    >>> rf.unpack(x) is x
    True
    """
    return source
