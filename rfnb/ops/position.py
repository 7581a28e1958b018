"""Positions as sines and cosines (Vaswani et al. 2017), absolute and relative."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.math import join
from rfnb.backend.base.sizes import derived
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground.backends import backend_of_raw, selected
from rfnb.core.ground.defaults import get_default_device, get_default_float_dtype
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError
from rfnb.ops.concat import concat
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, combine_bc, cos, sin
from rfnb.ops.reduce import reduce_max
from rfnb.ops.shape import set_sparse_dim

Offset = int | Tensor


@guarded
def sinusoidal_encoding(indices: Tensor, *, feat_dim: Dim, base: float = 10_000.0, dtype: str | None = None) -> Tensor:
    """sin(i · w) in the first half of `feat_dim` and cos(i · w) in the second. {…} → {…, feat_dim}

    The n frequencies w go from 1 down to 1 / base: base to the power of -k / (n - 1), as in tensor2tensor.

    >>> feat = rf.Dim(4, name="feat")
    >>> rf.sinusoidal_encoding(rf.convert_to_tensor(0), feat_dim=feat).raw_tensor.tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    half = _half("sinusoidal_encoding", feat_dim)
    return _waves(indices, feat_dim, math.log(base) / max(half.get_dim_value() - 1, 1), dtype)


@guarded
def sinusoidal_positional_encoding(
    *,
    spatial_dim: Dim,
    feat_dim: Dim,
    offset: Offset | None = None,
    base: float = 10_000.0,
    dtype: str | None = None,
    device: str | None = None,
) -> Tensor:
    """`sinusoidal_encoding` of the positions offset, offset + 1, … → {spatial_dim, feat_dim}, and the dims of `offset`

    With `single_step_dim`, of the position `offset` alone. → {feat_dim}

    >>> time, feat = rf.Dim(3, name="time"), rf.Dim(4, name="feat")
    >>> rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat).raw_tensor[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    offset = 0 if offset is None else offset

    def make() -> Tensor:
        positions = _from(offset, spatial_dim, device)
        return sinusoidal_encoding(positions, feat_dim=feat_dim, base=base, dtype=dtype)

    if spatial_dim is single_step_dim or type(offset) is not int:
        return make()
    return _of_batch(("sines", offset, base, dtype, device), [spatial_dim], [spatial_dim, feat_dim], make)


@guarded
def relative_positional_encoding(
    *,
    query_spatial_dim: Dim,
    key_value_spatial_dim: Dim,
    feat_dim: Dim,
    query_offset: Offset = 0,
    dtype: str | None = None,
    device: str | None = None,
) -> tuple[Tensor, Dim]:
    """Distances from queries to keys as sines and cosines (Dai et al. 2019), and the dim of the distances.

    → {query + key_value - 1, feat_dim}. Entry i is for the distance i - (longest query - 1) - `query_offset`: the first
    is that of the last query to the first key. The frequencies are 10000 to the power of -2k / feat_dim.

    >>> time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    >>> rf.relative_positional_encoding(query_spatial_dim=time, key_value_spatial_dim=time, feat_dim=feat)[1]
    Dim{2*time-1:5}
    """
    _half("relative_positional_encoding", feat_dim)
    axes: dict[str, Dim] = {"query_spatial_dim": query_spatial_dim, "key_value_spatial_dim": key_value_spatial_dim}
    step = 2 * math.log(10_000.0) / max(feat_dim.get_dim_value(), 1)

    def make() -> Tensor:
        distances, _ = relative_positions(**axes, query_offset=query_offset, device=device)
        return _waves(distances, feat_dim, step, dtype)

    out_dim = _distances(query_spatial_dim, key_value_spatial_dim)
    if query_spatial_dim is single_step_dim or type(query_offset) is not int:
        return make(), out_dim
    key = ("relative", query_spatial_dim.serial, query_offset, dtype, device)
    return _of_batch(key, [query_spatial_dim, key_value_spatial_dim], [out_dim, feat_dim], make), out_dim


def relative_positions(
    *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: Offset = 0, device: str | None = None
) -> tuple[Tensor, Dim]:
    """Distances from queries to keys, beginning with the last query and the first key, and the dim of these distances.

    → {query + key_value - 1}, and the dims of `query_offset`

    >>> two, three = rf.Dim(2, name="two"), rf.Dim(3, name="three")
    >>> from rfnb.ops.position import relative_positions
    >>> relative_positions(query_spatial_dim=two, key_value_spatial_dim=three)[0].raw_tensor.tolist()
    [-1, 0, 1, 2]
    """
    out_dim = _distances(query_spatial_dim, key_value_spatial_dim)
    distances = frame_numbers(out_dim, device)
    if query_spatial_dim is not single_step_dim:
        queries = frame_numbers(query_spatial_dim, device)
        distances = distances - reduce_max(queries, axis=query_spatial_dim, use_mask=False)
    return combine_bc(distances, "sub", query_offset), out_dim


def rotary_encoding(
    x: Tensor, *, spatial_dim: Dim, feat_dim: Dim, offset: Offset = 0, base: float = 10_000.0
) -> Tensor:
    """`x` where each pair of neighbours in `feat_dim` is turned by an angle for its position (Su et al. 2021).

    {…, spatial_dim, feat_dim} → the same. Products of two such vectors depend only on their distance. Pair
    k is turned by the position times 10000 to the power of -2k / feat_dim. With `single_step_dim`, the position is
    `offset`.

    >>> from rfnb.ops.position import rotary_encoding
    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(2, name="feat")
    >>> turned = rotary_encoding(rf.ones([time, feat]), spatial_dim=time, feat_dim=feat)
    >>> [[round(value, 2) for value in row] for row in turned.raw_tensor.tolist()]
    [[1.0, 1.0], [-0.3, 1.38]]
    """
    half = _half("rotary_encoding", feat_dim)
    step = 2 * math.log(base) / max(feat_dim.get_dim_value(), 1)
    angles = _angles(_from(offset, spatial_dim, x.device), half, step, "float32")
    return turn_pairs(x, cos(angles), sin(angles), feat_dim=feat_dim)


@op(frames="any")
def turn_pairs(x: Tensor, cosines: Tensor, sines: Tensor, *, feat_dim: Dim) -> Tensor:
    """Pairs of neighbours in `feat_dim` turned by angles. {…, feat_dim}, {…, feat_dim // 2} twice → {…, feat_dim}"""
    backend: type[Backend] = backend_of_raw(x._raw)
    half = feat_dim // 2
    extra = [dim for dim in cosines.dims if dim is not half and dim not in x.sig.index]
    order = [*extra, *(dim for dim in x.dims if dim is not feat_dim)]
    raw = align.apply(align.move(x.dims, [*order, feat_dim]), x._raw)
    turns = [align.apply(align.move(y.dims, [*order, half]), y._raw) for y in (cosines, sines)]
    turned = backend.turn_pairs_raw(raw, *turns)
    return tensor_of(turned, align.sig([*order, feat_dim], None, x.feature_dim), join(x, cosines))


def _of_batch(key: tuple[object, ...], of: Sequence[Dim], dims: Sequence[Dim], make: Callable[[], Tensor]) -> Tensor:
    """The result of `make` for the current lengths of `of`, computed once per batch. → {dims}

    While a listener is active, it is made anew, so that the listener sees it.
    """
    lengths = current_lengths(of)
    if active_listener() is not None or not lengths.sizes or any(size.traced for size in lengths.sizes.values()):
        return make()
    backend = selected()

    def raw() -> RawTensor:
        with backend.outside_modes():
            return make()._raw

    defaults = get_default_float_dtype(), get_default_device(), backend
    key = (*key, *[dim.serial for dim in dims], *defaults)
    return tensor_of(
        lengths.cached(key, raw), align.sig(dims, None, dims[-1]), current_lengths(dims)
    )  # no reference cycle


def _distances(query: Dim, key_value: Dim) -> Dim:
    """The dim of all distances. It has no padding, since sequences of different length share it."""
    if query is single_step_dim:
        return key_value
    lengths = current_lengths([query, key_value])
    sizes = [lengths.size(dim) for dim in (query, key_value)]
    defined = [size for size in sizes if size is not None]
    if not any(size.ragged for size in defined):
        key = ("distances", key_value.serial)
        return derived(align.sig([query]), key, lambda: query + key_value - 1)

    def make() -> Dim:
        dim = Dim(None, name=(query + key_value - 1).name)
        dim.bind(Size((), max(sum(size.max for size in defined) - 1, 0)))
        return dim

    distances: Dim = lengths.cached(("distances", query.serial, key_value.serial), make)
    return distances


def frame_numbers(dim: Dim, device: str | None = None) -> Tensor:
    """0, 1, … as plain integers, without a sparse dim. → {dim}"""
    return set_sparse_dim(range_over_dim(dim, device=device), None)


def number_of_frames(dim: Dim) -> Offset:
    """The lengths of `dim`: the position at which later frames begin. → an int, or {batch}"""
    return get_size_tensor(dim) if dim.dimension is None else dim.dimension


def _from(offset: Offset, dim: Dim, device: str | None) -> Tensor:
    """The positions offset, offset + 1, … → {dim}, or {} for a single step"""
    if dim is single_step_dim:
        return convert_to_tensor(offset, device=device)
    positions = frame_numbers(dim, device)
    return positions if type(offset) is int and offset == 0 else combine_bc(positions, "add", offset)


def _half(what: str, feat_dim: Dim) -> Dim:
    if feat_dim.dimension is None or feat_dim.dimension % 2:
        raise DimError(
            f"{what}: `feat_dim` must split into sines and cosines",
            got=align.show_dims([feat_dim]),
            expected="an even `feat_dim`",
        )
    return derived(align.sig([feat_dim]), "half", lambda: feat_dim // 2)


def _waves(indices: Tensor, feat_dim: Dim, step: float, dtype: str | None) -> Tensor:
    """Sines, then cosines, of `indices` times frequencies whose logarithm decreases by `step`. {…} → {…, feat_dim}"""
    half, dtype = _half("sines", feat_dim), dtype or get_default_float_dtype()
    angles = _angles(indices, half, step, dtype)
    result, _ = concat((sin(angles), half), (cos(angles), half), out_dim=feat_dim)
    return cast(result, dtype)


def _angles(indices: Tensor, half: Dim, step: float, dtype: str) -> Tensor:
    frequencies = _frequencies(half.get_dim_value(), step, "float64" if dtype == "float64" else "float32")
    waves = tensor_of(selected().from_numpy_raw(frequencies, indices.device), align.sig([half], None, half), EMPTY)
    return combine_bc(cast(indices, waves.dtype), "mul", waves)


@functools.lru_cache(64)
def _frequencies(count: int, step: float, dtype: str) -> np.ndarray:
    frequencies: np.ndarray = np.exp(-step * np.arange(count)).astype(dtype)
    return frequencies
