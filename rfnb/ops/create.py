"""New tensors: constants and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import (
    get_default_array_index_dtype,
    get_default_device,
    get_default_float_dtype,
    get_default_int_dtype,
)
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def full(
    *,
    dims: Sequence[Dim],
    fill_value: object,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """A tensor filled with `fill_value`: a number, or a Tensor with some of `dims`. → {dims}

    >>> rf.full(dims=[rf.Dim(2)], fill_value=7).raw_tensor.tolist()
    [7, 7]
    """
    dtype, device = dtype or _dtype_of(fill_value), device or get_default_device()
    return backends.selected().full(**locals())


fill = full


@guarded
def constant(
    fill_value: object,
    *,
    dims: Sequence[Dim],
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """Another name for `rf.full`. → {dims}

    >>> rf.constant(7, dims=[rf.Dim(2)]).raw_tensor.tolist()
    [7, 7]
    """
    return full(**locals())


def _dtype_of(value: object) -> str:
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, Integral):
        return get_default_int_dtype()
    return get_default_float_dtype() if isinstance(value, Real) else "complex64"


@guarded
def zeros(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """A tensor of zeros. → {dims}

    >>> rf.zeros([rf.Dim(2)]).raw_tensor.tolist()
    [0.0, 0.0]
    """
    dtype = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    return full(fill_value=0, **locals())


@guarded
def ones(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """A tensor of ones. → {dims}

    >>> rf.ones([rf.Dim(2)], dtype="int32").raw_tensor.tolist()
    [1, 1]
    """
    dtype = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    return full(fill_value=1, **locals())


@op(frames="any")
def zeros_like(other: Tensor) -> Tensor:
    """Zeros with the dims, dtype and device of `other`. {…} → the same

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(3, name="feat")
    >>> x = rf.random_normal([time, feat])
    >>> rf.zeros_like(x).raw_tensor.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _full_like(other, 0)


@op(frames="any")
def ones_like(other: Tensor) -> Tensor:
    """Ones with the dims, dtype and device of `other`. {…} → the same

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(3, name="feat")
    >>> x = rf.random_normal([time, feat])
    >>> rf.ones_like(x).raw_tensor.tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return _full_like(other, 1)


def _full_like(other: Tensor, value: object) -> Tensor:
    backend = backends.backend_of_raw(other._raw)
    shape = backend.get_shape_tuple_raw(other._raw)
    return other.like(backend.full_raw(shape, value, other.dtype, other.device))


@op(frames="any")
def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
    """0, 1, … size-1 along `dim`. → {dim}, sparse in it

    >>> rf.range_over_dim(rf.Dim(3, name="time")).raw_tensor.tolist()
    [0, 1, 2]
    """
    dtype = dtype or get_default_array_index_dtype()
    return backends.selected().range_over_dim(dim, dtype=dtype, device=device or get_default_device())
