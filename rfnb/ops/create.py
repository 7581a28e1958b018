"""New tensors: filled, counted, random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core import raw as raw_registry
from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor

_defaults = {"float": "float32", "int": "int64", "device": None}


def get_default_float_dtype() -> str:
    """The type of new float tensors."""
    return str(_defaults["float"])


def get_default_int_dtype() -> str:
    """The type of new integer tensors."""
    return str(_defaults["int"])


def get_default_array_index_dtype() -> str:
    """The type of new indices."""
    return "int64"


def get_default_device() -> str | None:
    """Where new tensors are made; None: where the backend makes them."""
    return _defaults["device"]


def set_default_device(device: str | None) -> None:
    """New tensors are made there from now on."""
    _defaults["device"] = device


def set_default_float_dtype(dtype: str) -> None:
    """New float tensors have this type from now on."""
    _defaults["float"] = dtype


@op(frames="any")
def full(
    *,
    dims: Sequence[Dim],
    fill_value: Any,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """`fill_value` everywhere. → {dims}"""
    if dtype is None:
        kinds = {bool: "bool", int: get_default_int_dtype()}
        dtype = kinds.get(type(fill_value), get_default_float_dtype())
    return raw_registry.selected().full(
        dims,
        fill_value,
        dtype=dtype,
        device=device or get_default_device(),
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
    )


def zeros(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """0 everywhere. → {dims}"""
    dtype = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    return full(dims=dims, fill_value=0, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


def ones(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """1 everywhere. → {dims}"""
    dtype = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    return full(dims=dims, fill_value=1, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


@op(frames="any")
def zeros_like(other: Tensor) -> Tensor:
    """0 everywhere, described like `other`."""
    return _full_like(other, 0)


@op(frames="any")
def ones_like(other: Tensor) -> Tensor:
    """1 everywhere, described like `other`."""
    return _full_like(other, 1)


def _full_like(other: Tensor, value: Any) -> Tensor:
    backend = raw_registry.backend_of_raw(other._raw)
    shape = backend.get_shape_tuple_raw(other._raw)
    return other.like(backend.full_raw(shape, value, other.dtype, other.device))


@op(frames="any")
def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
    """0, 1, … size-1 along `dim`. → {dim}, sparse in it"""
    dtype = dtype or get_default_array_index_dtype()
    return raw_registry.selected().range_over_dim(dim, dtype=dtype, device=device or get_default_device())


@op(random=True)
def random(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    distribution: str,
    mean: float | None = None,
    stddev: float | None = None,
    minval: float | None = None,
    maxval: float | None = None,
    seed: int | None = None,
) -> Tensor:
    """Random numbers. → {dims}

    distribution: "uniform" in [minval, maxval), "normal" (mean, stddev), "truncated_normal" (cut at minval and
        maxval, two stddev around the mean if not given), "bernoulli" (1 with probability mean).
    seed: draw from a generator of its own; else from the global one (`rf.set_random_seed`), or, in a loop,
        from the stream of this op.
    """
    dtype = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    return raw_registry.selected().random(
        dims=dims,
        dtype=dtype,
        device=device or get_default_device(),
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
        distribution=distribution,
        seed=seed,
        mean=mean,
        stddev=stddev,
        minval=minval,
        maxval=maxval,
    )


def random_uniform(dims: Sequence[Dim], *, minval: float = 0.0, maxval: float = 1.0, **options: Any) -> Tensor:
    """Uniform in [minval, maxval). → {dims}"""
    return random(dims, distribution="uniform", minval=minval, maxval=maxval, **options)


def random_normal(dims: Sequence[Dim], *, mean: float = 0.0, stddev: float = 1.0, **options: Any) -> Tensor:
    """Normally distributed. → {dims}"""
    return random(dims, distribution="normal", mean=mean, stddev=stddev, **options)


def random_truncated_normal(
    dims: Sequence[Dim],
    *,
    mean: float = 0.0,
    stddev: float = 1.0,
    minval: float | None = None,
    maxval: float | None = None,
    **options: Any,
) -> Tensor:
    """Normally distributed, cut at minval and maxval (two stddev around the mean). → {dims}"""
    return random(
        dims, distribution="truncated_normal", mean=mean, stddev=stddev, minval=minval, maxval=maxval, **options
    )


def set_random_seed(seed: int) -> None:
    """Seeds the global generator."""
    raw_registry.selected().set_random_seed(seed)


def get_random_state() -> dict[str, bytes]:
    """The state of the global generator."""
    return raw_registry.selected().get_random_state()


def set_random_state(state: dict[str, bytes]) -> None:
    """Back to a state from `get_random_state`."""
    raw_registry.selected().set_random_state(state)
