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
    def layer_norm(  # type: ignore[misc]
        cls: type[Backend],
        source: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        *,
        in_dim: Dim | Sequence[Dim],
        eps: float,
    ) -> Tensor:
        """Mean 0 and variance 1 over `in_dim`, then `scale` and `bias`. {…, in_dim} → the same"""
        key = (
            "layer_norm",
            in_dim if isinstance(in_dim, Dim) else tuple(in_dim),
            scale is not None and scale.sig.serial,
            bias is not None and bias.sig.serial,
        )
        plan = source.sig.plans.get(key)
        if not plan:
            plan = source.sig.keep(key, _plan(source, key[1] if isinstance(key[1], tuple) else (key[1],), scale, bias))
        there, back, sizes, moves = plan
        raw = source._raw if scale is None else cls.fill_for_gradient(source, scale)
        raw = raw if there is None else cls.move_raw(raw, there)
        if moves is None:  # the weights differ between frames
            plain = tensor_of(
                align.apply(back, cls.layer_norm_raw(raw, sizes, None, None, eps)), source.sig, source.lengths
            )
            for kind, x in ("mul", scale), ("add", bias):
                plain = plain if x is None else cls.combine(plain, kind, x, allow_broadcast_all_sources=True)
            return plain
        raw_scale = None if scale is None else cls.move_raw(scale._raw, moves[0])
        raw_bias = None if bias is None else cls.move_raw(bias._raw, moves[1])
        raw = cls.layer_norm_raw(raw, sizes, raw_scale, raw_bias, eps)
        result = tensor_of(raw if back is None else cls.move_raw(raw, back), source.sig, source.lengths)
        return cls.cut_gradient(result, scale, bias) if result.sig.frames else result


Plan = tuple[align.Move, align.Move, list[int], list[align.Move] | None]


def _plan(source: Tensor, dims: Sequence[Dim], scale: Tensor | None, bias: Tensor | None) -> Plan:
    """To the end and back, the sizes, and how to bring the weights into the order of `dims`."""
    for dim in dims:
        axis_of("layer_norm", source, dim)
    sizes = [dim.dimension for dim in dims if dim.dimension is not None]
    if len(sizes) < len(dims):
        raise DimError("layer_norm: `in_dim` needs a fixed size", got=align.show_dims(dims), expected="Dim(number)")
    order = [*(dim for dim in source.dims if dim not in dims), *dims]
    own = [dims if x is None else x.dims for x in (scale, bias)]
    moves = [align.move(x, dims) for x in own] if all(set(x) == set(dims) for x in own) else None
    return align.move(source.dims, order), align.move(order, source.dims), sizes, moves
