"""Constraints on the output of a layer: what the options `darc1` and `spatial_smoothing` add to the objective."""

from __future__ import annotations

import math

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import abs as abs_, mod, square
from rfnb.ops.reduce import reduce_max, reduce_sum
from rfnb.ops.shape import split_dims


def darc1(x: Tensor, feature: Dim) -> Tensor:
    """The largest sum of |x| over all frames, of all features (Kawaguchi et al. 2017). {…, feature} → {}

    >>> from rfnb.network.layer_call.penalties import darc1
    >>> time, two = rf.Dim(3, name="time"), rf.Dim(2, name="two")
    >>> darc1(rf.convert_to_tensor([[1.0, -2.0], [0.5, 1.0], [0.0, 1.0]], dims=[time, two]), two).item()
    4.0
    """
    return reduce_max(reduce_sum(abs_(x), axis=[dim for dim in x.dims if dim is not feature]), axis=feature)


def spatial_smoothing(x: Tensor, feature: Dim) -> Tensor:
    """The squared differences of each feature from the mean of its eight neighbours. {…, feature} → {}

    The features stand in a grid that is as square as possible, with at least as many rows as columns, and whose borders
    meet (Wu et al. 2016, "Stimulated deep neural network for speech recognition").
    """
    size = feature.get_dim_value()
    columns = next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)
    grid = [Dim(size // columns, name="rows"), Dim(columns, name="columns")]
    x = split_dims(x, axis=feature, dims=grid)
    box = x
    for dim in grid:
        places = range_over_dim(dim, device=x.device) + dim.get_dim_value()
        before, after = (gather(box, indices=mod(places + by, dim.get_dim_value()), axis=dim) for by in (-1, 1))
        box = before + box + after
    energy = square(x - (box - x) * (1 / 8))
    return reduce_sum(energy, axis=list(energy.dims))
