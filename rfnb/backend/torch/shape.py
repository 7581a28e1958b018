"""The axes of torch tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn import functional

from rfnb.core.dims import align


class TorchShape:
    """The raw part of `backend.base.shape`, `concat` and `slice`."""

    @staticmethod
    def reshape_raw(raw_tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """The same entries in another shape."""
        return raw_tensor.reshape(list(shape))

    @staticmethod
    def squeeze_raw(raw_tensor: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        """The tensor without these axes of size 1."""
        return raw_tensor.squeeze(tuple(axes))

    @staticmethod
    def transpose_raw(raw_tensor: torch.Tensor, perm: Sequence[int]) -> torch.Tensor:
        """The tensor with permuted axes."""
        return raw_tensor.permute(tuple(perm))

    @staticmethod
    def expand_dims_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """The tensor with a new axis of size 1."""
        return raw_tensor.unsqueeze(axis)

    @staticmethod
    def expand_raw(raw_tensor: torch.Tensor, axis: int, dim: int) -> torch.Tensor:
        """The tensor with `axis` of size 1 repeated to size `dim`, without a copy."""
        shape = [-1] * raw_tensor.dim()
        shape[axis] = dim
        return raw_tensor.expand(shape)

    @staticmethod
    def move_raw(raw: torch.Tensor, how: align.Move) -> torch.Tensor:
        """The tensor moved into place by a plan of `core.dims.align.move`."""
        if how is None:
            return raw
        perm, index = how
        if perm is not None:
            raw = raw.permute(*perm)
        if index is None:
            return raw
        if index.count(None) == 1:
            return raw.unsqueeze(index.index(None))
        return raw[index]

    @staticmethod
    def merge_axes_raw(raw: torch.Tensor, axis: int, count: int) -> torch.Tensor:
        """The tensor with `count` axes from `axis` on merged."""
        return raw.flatten(axis, axis + count - 1)

    @staticmethod
    def split_axis_raw(raw: torch.Tensor, axis: int, sizes: Sequence[int]) -> torch.Tensor:
        """The tensor with one axis split into several."""
        return raw.unflatten(axis, list(sizes))

    concat_raw = staticmethod(torch.cat)
    stack_raw = staticmethod(torch.stack)
    unstack_raw = staticmethod(torch.unbind)
    split_raw = staticmethod(torch.split_with_sizes)
    flip_raw = staticmethod(torch.flip)
    cumsum_raw = staticmethod(torch.cumsum)
    unfold_raw = staticmethod(torch.Tensor.unfold)

    @staticmethod
    def broadcast_raw(raw: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """Expanded to `shape`, which may have more axes in front, without a copy."""
        return raw.expand(list(shape))

    @staticmethod
    def slice_raw(raw: torch.Tensor, axis: int, start: int, end: int, step: int) -> torch.Tensor:
        """Every `step`-th entry from `start` up to `end`; backwards if `step` is negative."""
        if step == 1:
            return raw.narrow(axis, start, end - start if end > start else 0)
        if step < 0:
            return raw.index_select(axis, torch.arange(start, min(end, start), step, device=raw.device))
        return raw[(slice(None),) * axis + (slice(start, end, step),)]

    @staticmethod
    def pad_raw(raw: torch.Tensor, padding: Mapping[int, tuple[int, int]], value: float) -> torch.Tensor:
        """The tensor with `value` added before and after the axes in `padding`; negative numbers cut off."""
        amounts: list[int] = []
        for axis in reversed(range(min(padding), raw.dim())):
            amounts += padding.get(axis, (0, 0))
        return functional.pad(raw, amounts, value=value)
