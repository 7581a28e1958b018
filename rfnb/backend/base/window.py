"""Windows that slide over frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, fitted, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class WindowOps:
    """Raw part: `unfold_raw(raw, axis, width, stride)`; the window is the last axis."""

    unfold_raw: Callable[[Any, int, int, int], Any]

    @classmethod
    def window(
        cls: type[Backend],
        source: Tensor,
        *,
        spatial_dim: Dim,
        window_dim: Dim,
        before: int | None,
        pad_value: float,
        stride: int,
        use_mask: bool,
        out_dim: Dim,
    ) -> Tensor:
        """The frames around every `stride`-th frame. {…, spatial_dim} → {…, out_dim, window_dim}

        before: number of frames of the window before the frame; None uses only windows inside `source`.
        """
        place, size = axis_of("window", source, spatial_dim), size_in(source, spatial_dim)
        if spatial_dim in source.lengths.owners:
            raise DimError(
                f"window: the lengths of another dim depend on {spatial_dim.name}", got=source.describe_dims()
            )
        width = window_dim.dimension or 0
        frames = size.values if before is not None else np.maximum(size.values - width + 1, 0)
        counts = Size(size.dims, -(-frames // stride))
        lengths = bound(source.lengths, out_dim, counts, "window")
        raw = cls.fill_padding(source, pad_value, (spatial_dim,)) if use_mask else source._raw
        total = max(counts.max - 1, 0) * stride + width
        margin = before or 0
        raw = cls.pad_raw(raw, {place: (margin, total - margin - size.max)}, pad_value)
        raw = cls.unfold_raw(raw, place, width, stride)
        if not counts.max:
            raw = cls.slice_raw(raw, place, 0, 0, 1)
        dims = [out_dim if dim is spatial_dim else dim for dim in source.dims]
        feature = out_dim if source.feature_dim is spatial_dim else source.feature_dim
        out = align.sig([*dims, window_dim], source.sparse_dim, feature)
        return fitted(cls, tensor_of(raw, out, lengths), out_dim)
