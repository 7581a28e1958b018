"""Normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class NormOps:
    """Raw part: `layer_norm_raw(raw, sizes, scale, bias, eps)` over the last axes."""

    layer_norm_raw: Callable[[Any, Sequence[int], Any, Any, float], Any]

    @classmethod
    def layer_norm(
        cls: type[Backend],  # type: ignore[misc]
        source: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        *,
        in_dim: Dim | Sequence[Dim],
        eps: float,
    ) -> Tensor:
        """Mean 0 and variance 1 over `in_dim`, then `scale` and `bias`. {…, in_dim} → the same"""
        dims = (in_dim,) if isinstance(in_dim, Dim) else tuple(in_dim)
        key = ("layer_norm", *[dim.serial for dim in dims])
        plan = source.sig.plans.get(key)
        if not plan:
            plan = source.sig.keep(key, _plan(source, dims))
        there, back, sizes = plan
        later = any(x is not None and len(x.dims) > len(dims) for x in (scale, bias))  # they differ between frames
        weights = [None if x is None or later else align.apply(align.move(x.dims, dims), x._raw) for x in (scale, bias)]
        source_raw = source._raw if scale is None else cls.fill_for_gradient(source, scale)
        raw = cls.layer_norm_raw(align.apply(there, source_raw), sizes, *weights, eps)
        result = tensor_of(align.apply(back, raw), source.sig, source.lengths)
        for kind, x in (("mul", scale), ("add", bias)) if later else ():
            result = result if x is None else cls.combine(result, kind, x, allow_broadcast_all_sources=True)
        return result


def _plan(source: Tensor, dims: Sequence[Dim]) -> tuple[align.Move, align.Move, list[int]]:
    for dim in dims:
        axis_of("layer_norm", source, dim)
    sizes = [dim.dimension for dim in dims if dim.dimension is not None]
    if len(sizes) < len(dims):
        raise DimError("layer_norm: `in_dim` needs a fixed size", got=align.show_dims(dims), expected="Dim(number)")
    order = [*(dim for dim in source.dims if dim not in dims), *dims]
    return align.move(source.dims, order), align.move(order, source.dims), sizes
