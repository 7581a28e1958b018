"""Windows that slide over frames."""

from __future__ import annotations

from typing import Annotated

from rfnb.backend.base.sizes import derived
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError


@op(frames="any")
def window(
    source: Tensor,
    *,
    spatial_dim: Dim,
    window_dim: Dim,
    window_right: int | None = None,
    window_left: int | None = None,
    padding: Annotated[str, OneOf("same", "valid")] = "same",
    pad_value: float | None = None,
    stride: int = 1,
    use_mask: bool | None = None,
) -> tuple[Tensor, Dim]:
    """The frames around each frame, and the dim of the frames. {…, spatial_dim} → {…, out_dim, window_dim}

    >>> time, three = rf.Dim(4, name="time"), rf.Dim(3, name="three")
    >>> rf.window(rf.range_over_dim(time), spatial_dim=time, window_dim=three, pad_value=9)[0].raw_tensor.tolist()
    [[9, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 9]]

    Args:
        window_left, window_right: number of frames before and after, which sum to the window size minus 1; by
            default half each.
        padding: "same": a window for each frame, with `pad_value` (by default 0) outside the sequence; "valid":
            only windows inside the sequence.
        stride: distance between windows, in frames.
        use_mask: if False, a window includes the padding after its sequence.
    """
    width = window_dim.dimension
    if not width or stride < 1:
        raise DimError(
            "window: `window_dim` and `stride` must be positive numbers of frames",
            got=f"{window_dim.describe()}, stride {stride}",
            expected="1 or more",
        )
    before = _before(width, window_left, window_right) if padding == "same" else None
    spatial_dim = source.sig.resolve(spatial_dim)
    frames = 0 if padding == "same" else width - 1
    key = ("window_dim", spatial_dim.serial, frames, stride)
    out_dim = derived(source.sig, key, lambda: (spatial_dim - frames).ceildiv_right(stride))
    return backend_of_raw(source._raw).window(
        source,
        spatial_dim=spatial_dim,
        window_dim=window_dim,
        before=before,
        pad_value=pad_value or 0,
        stride=stride,
        use_mask=use_mask is not False,
        out_dim=out_dim,
    ), out_dim


def _before(width: int, left: int | None, right: int | None) -> int:
    if left is None:
        left = (width - 1) // 2 if right is None else width - 1 - right
    if not 0 <= left < width or (right is not None and left + 1 + right != width):
        raise DimError(
            "window: `window_left` and `window_right` do not sum to the window size minus 1",
            got=f"window_left={left}, window_right={right}",
            expected=f"{width - 1} in total",
        )
    return left
