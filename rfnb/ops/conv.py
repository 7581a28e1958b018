"""Convolution: filters that slide over dims."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backend.base.slide import Padding, PerAxis
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.slide import masked


@op(frames="any")
def conv(
    source: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Sequence[Dim],
    padding: Padding,
    strides: PerAxis | None = None,
    dilation_rate: PerAxis | None = None,
    groups: int | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """Convolution: at each position the sum of the neighbouring frames times `filter`; and the new dims.

    {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim/groups, out_dim}, {out_dim} → {…, out_dim, out_spatial_dims…}

    >>> sizes = {"time": 5, "feat": 1, "out": 1, "width": 3}
    >>> time, feat, out, width = (rf.Dim(size, name=name) for name, size in sizes.items())
    >>> x, ones = rf.expand_dim(rf.range_over_dim(time, dtype="float32"), feat), rf.ones([width, feat, out])
    >>> options = {"in_dim": feat, "out_dim": out, "in_spatial_dims": [time], "filter": ones, "filter_size": [width]}
    >>> y, [positions] = rf.conv(x, **options, padding="valid")
    >>> rf.squeeze(y, axis=out).raw_tensor.tolist(), positions is time - 2
    ([3.0, 6.0, 9.0], True)

    One to three spatial dims. The result of a sequence does not depend on its padding.

    Args:
        padding: "valid": only where the filter fits; "same": as many positions as frames (divided by the stride),
            with zeros at both ends; a number: that many zeros at each end. One for all dims, or a list, which may have
            pairs (zeros before, zeros after).
        groups: number of independent parts of `in_dim` and `out_dim`; the size of `in_dim` means depthwise.
        filter: if `in_dim` is `out_dim`, its input dim is `in_dim.copy(match_priority=1)`.
        use_mask: if False, padding counts as frames.
    """

    def run(source: Tensor, out_spatial_dims: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
        return backend_of_raw(source._raw).conv(
            source,
            in_dim=in_dim,
            out_dim=out_dim,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            filter=filter,
            filter_size=filter_size,
            padding=padding,
            strides=strides,
            dilation_rate=dilation_rate,
            groups=groups,
            bias=bias,
        )

    return masked(run, source, in_spatial_dims, out_spatial_dims, use_mask)


@op(frames="any")
def transposed_conv(
    source: Tensor,
    *,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    filter: Tensor,
    filter_size: Sequence[Dim],
    padding: Padding,
    remove_padding: PerAxis = 0,
    output_padding: int | Sequence[int | None] | None = None,
    strides: PerAxis | None = None,
    bias: Tensor | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """Each frame times `filter`, laid `strides` apart and summed where they overlap; and the new dims.

    {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim, out_dim}, {out_dim} → {…, out_dim, out_spatial_dims…}

    >>> sizes = {"time": 2, "feat": 1, "out": 1, "width": 2}
    >>> time, feat, out, width = (rf.Dim(size, name=name) for name, size in sizes.items())
    >>> x, ones = rf.ones([time, feat]), rf.ones([width, feat, out])
    >>> options = {"in_dim": feat, "out_dim": out, "in_spatial_dims": [time], "filter": ones, "filter_size": [width]}
    >>> y, [frames] = rf.transposed_conv(x, **options, padding="valid", strides=1)
    >>> rf.squeeze(y, axis=out).raw_tensor.tolist(), frames is time + 1
    ([1.0, 2.0, 1.0], True)

    Args:
        padding: "valid": all frames that the filter reaches, `strides` for each at least; "same": `strides` for each.
        remove_padding: number of frames cut off at both ends.
        output_padding: how many more frames the end has than the last frame reaches ("valid"), or reaches without
            half of the filter ("same").
        strides: by default the size of the filter.
    """

    def run(source: Tensor, out_spatial_dims: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
        return backend_of_raw(source._raw).transposed_conv(
            source,
            in_dim=in_dim,
            out_dim=out_dim,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            filter=filter,
            filter_size=filter_size,
            padding=padding,
            remove_padding=remove_padding,
            output_padding=output_padding,
            strides=strides,
            bias=bias,
        )

    return masked(run, source, in_spatial_dims, out_spatial_dims, use_mask)
