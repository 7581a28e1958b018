"""Products of two sources: dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, renamed
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import value
from rfnb.netdict.versions import holds
from rfnb.ops.matmul import matmul
from rfnb.ops.shape import expand_dim, replace_dim


class Dot(Layer, layer_class="dot", joins=False):
    """Σ a·b over the axes that are reduced: common axes first, then those of each source, the last are features."""

    reduce: Any = value(None)
    red1: Any = value(None)
    red2: Any = value(None)
    var1: Any = value(None)
    var2: Any = value(None)
    add_var2_if_empty: Any = value(None)
    use_mask: bool = value(True, bool)
    debug: bool = value(False, bool)

    def matching(self, axes: NetworkDims, source: Tensor, first: Tensor) -> Sequence[tuple[Dim, Dim]]:
        """None yet: it depends on the options."""
        return ()

    def setup(self, a: Tensor, b: Tensor) -> None:
        """Which axes of both sources."""
        strict = holds("dot needs its axes", self.spec.version)
        red1 = self.reduce if self.red1 is None else self.red1
        red2 = self.reduce if self.red2 is None else self.red2
        if (red1 is None or red2 is None) and strict:
            raise NetworkError("dot needs the axes to reduce", expected='"reduce": …, or "red1" and "red2"')
        var1, var2 = (-2 if self.var1 is None else self.var1), (-1 if self.var2 is None else self.var2)
        if strict:
            var1, var2 = self.var1, self.var2
        var1, var2 = (None if axes == "auto" else () if axes == "" else axes for axes in (var1, var2))
        red1, red2 = (-1 if red1 is None else red1), (-2 if red2 is None else red2)
        by_size = not holds("dot takes other dims as others", self.spec.version) or var1 is not None or var2 is not None
        self.same = self.pool.matching(b, a, self.spec.version) if by_size else ()
        b = renamed(b, self.same)
        reduced1, reduced2 = self.pool.find(red1, a), self.pool.find(red2, b)
        if len(reduced1) != len(reduced2):
            raise NetworkError("dot: the sources have different numbers of axes to reduce", got=f"{red1!r}, {red2!r}")
        self.renames = [(old, new) for old, new in zip(reduced2, reduced1, strict=True) if old is not new]
        reduced = set(reduced1)
        for dim in b.dims if not by_size else ():
            twin = dim in a.dims and dim not in {*reduced1, *reduced2} and dim.dimension is not None
            if (
                twin
                and self.pool.made(dim)
                and self.site is not None
                and self.site.origin_of(0, dim) != self.site.origin_of(1, dim)
            ):
                used_dims = [*a.dims, *b.dims, *(new for _, new in self.renames)]
                self.renames.append((dim, self.pool.feature(dim.get_dim_value(), used_dims)))
        b_dims = [dict(self.renames).get(dim, dim) for dim in b.dims]
        self.reduced = reduced1
        self.own1 = (
            list(self.pool.find(var1, a)) if var1 is not None else [d for d in a.dims if d not in {*b_dims, *reduced}]
        )
        own2 = self.pool.find(var2, b) if var2 is not None else [d for d in b_dims if d not in {*a.dims, *reduced}]
        self.own2 = list(own2)
        if not {*self.own1}.isdisjoint(reduced1) or not {*self.own2}.isdisjoint(reduced2):
            raise NetworkError(
                "dot: an axis is reduced, and kept as well",
                got=f"red1={red1!r}, red2={red2!r}, var1={var1!r}, var2={var2!r}",
                expected='"var1": "auto", "var2": "auto": all axes that are not reduced',
            )  # fmt: skip
        for i, dim in enumerate(self.own2):  # an axis that both keep is there twice
            if dim in self.own1:
                used_dims = [*a.dims, *b.dims]
                new = (
                    dim.copy(match_priority=1) if dim.dimension is None else self.pool.feature(dim.dimension, used_dims)
                )
                self.renames.append((dim, new))
                self.own2[i] = new
        common = [dim for dim in a.dims if dim in b_dims and dim not in {*reduced, *self.own1}]
        single = [d for d in a.dims if d not in {*common, *reduced, *self.own1}]
        single += [d for d in b_dims if d not in {*a.dims, *reduced, *self.own2, *(old for old, _ in self.renames)}]
        self.order = [*common, *single, *self.own1, *self.own2]
        add = not strict if self.add_var2_if_empty is None else self.add_var2_if_empty
        self.dummy = self.pool.feature(1, self.order) if add and not self.own2 and var2 is not None else None

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """{…, reduced}, {…, reduced} → {… of both}"""
        b = renamed(b, self.same)
        for old, new in self.renames:
            b = replace_dim(b, in_dim=old, out_dim=new)[0]
        y = matmul(a, b, reduce=self.reduced, use_mask=self.use_mask or self.spec.batch_independent)
        return y if self.dummy is None else expand_dim(y, self.dummy)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The last axis of a fixed size, or else the last of three or more."""
        order = [dim for dim in (*self.order, self.dummy) if dim is not None and not dim.is_batch_dim()]
        fixed = [dim for dim in order if dim.dimension is not None]
        return next(reversed(fixed or (order if len(out.dims) > 2 else [])), None)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The common axes, then those of each source."""
        return [*self.order, *([self.dummy] if self.dummy else [])]
