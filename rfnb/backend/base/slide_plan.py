"""Plans of sliding windows: how axes move there and back, and the sizes of new dims."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.sizes import bound, fitted
from rfnb.backend.base.slide import Spread, Window
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SlidePlan(NamedTuple):
    """The part of a sliding op that depends only on the dims and the options.

    slides: over each of the spatial dims. there: from the dims of the source to [rest…, each…, in, spatial…], of which
    the first ones are `rest`. back: from those of the result to `out`, which has the spatial dims at `places`.
    named: which of these have a dim that the user gave, and no formula. filter: to [each…, out, in, spatial…], or
    [each…, in, out, spatial…]; `each` are the axes of a filter each entry of which is a filter of its own: they become
    groups. bias_inside: the kernel can take it.
    """

    slides: tuple[Any, ...]
    there: align.Move
    rest: int
    back: align.Move
    out: weakref.ref[align.Sig]
    places: tuple[int, ...]
    named: tuple[int, ...]
    filter: align.Move = None
    each: tuple[int, ...] = ()
    bias_inside: bool = False


def plan_of(
    op: str,
    source: Tensor,
    slides: tuple[Window | Spread, ...],
    rest: Sequence[Dim],
    spatial: Sequence[Dim],
    given: Sequence[Dim] | None,
    each: Sequence[Dim] = (),
    features: tuple[Dim, Dim] | None = None,
) -> tuple[SlidePlan, align.Sig]:
    """The plan for a result with the axes in the place of those of the source, and its signature.

    each: axes of a filter that are groups. features: input and output dim of a filter."""
    formulas: list[Dim] = [slide.count(dim) for slide, dim in zip(slides, spatial, strict=True)]
    out_spatial = formulas if given is None else list(given)
    if len(out_spatial) != len(formulas):
        raise DimError(
            f"{op}: the number of output dims differs",
            got=align.show_dims(out_spatial),
            expected=align.show_dims(formulas),
        )
    olds, news = list(spatial), list(out_spatial)
    sparse_dim, feature_dim = source.sparse_dim, _swap(source.feature_dim, olds, news)
    if features is not None:
        olds, news = [features[0], *olds], [features[1], *news]
        sparse_dim, feature_dim = None, features[1]
    new = [dim for dim in each if dim not in source.sig.index]
    out = align.sig([*new, *(_swap(dim, olds, news) for dim in source.dims)], sparse_dim, feature_dim)
    plan = SlidePlan(
        slides,
        there=align.move(source.dims, [*rest, *each, *olds], trailing=False),
        rest=len(rest),
        back=align.move([*rest, *each, *news], out.dims),
        out=weakref.ref(out),
        places=tuple(out.index[dim] for dim in out_spatial),
        named=tuple(i for i, dim in enumerate(out_spatial) if dim is not formulas[i]),
    )
    return plan, out


def bind(op: str, plan: SlidePlan, out: align.Sig, lengths: Lengths, spatial: Sequence[Dim]) -> Lengths:
    """The lengths of the result, with the sizes of dims that have no formula."""
    for i in plan.named:
        size = lengths[spatial[i]]
        lengths = bound(lengths, out.dims[plan.places[i]], Size(size.dims, plan.slides[i].count(size.values)), op)
    return lengths


def fit(backend: type[Backend], plan: SlidePlan, result: Tensor) -> Tensor:
    """The result, whose dims without a formula may have a capacity."""
    for i in plan.named:
        result = fitted(backend, result, result.dims[plan.places[i]])
    return result


def one_axis(backend: type[Backend], raw: Any, count: int) -> tuple[Any, tuple[int, ...] | None]:
    """The tensor with the first `count` axes merged, and their sizes; None if there was one axis."""
    if count == 1:
        return raw, None
    shape = backend.get_shape_tuple_raw(raw)[:count]
    return backend.merge_axes_raw(raw, 0, count) if count else raw[None], shape


def several_axes(backend: type[Backend], raw: Any, shape: tuple[int, ...] | None) -> Any:
    """The tensor with the first axis split again: the inverse of `one_axis`."""
    if shape is None:
        return raw
    return backend.split_axis_raw(raw, 0, shape) if shape else raw[0]


def _swap(dim: Any, olds: Sequence[Dim], news: Sequence[Dim]) -> Any:
    return news[olds.index(dim)] if dim in olds else dim


def fixed(option: Any) -> Any:
    """The option in a form that can be part of a key."""
    return tuple(map(fixed, option)) if isinstance(option, list) else option


def serials_of(dims: Sequence[Dim]) -> list[int | None]:
    """The serials of `dims` for a key; None for anything else, which raises an error when the plan is made."""
    return [getattr(dim, "serial", None) for dim in dims]
