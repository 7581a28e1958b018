"""Products of two sources: dot."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, renamed, without
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import value
from rfnb.netdict.versions import holds
from rfnb.ops.matmul import matmul
from rfnb.ops.shape import expand_dim, replace_dim


class Dot(Layer, layer_class="dot", joins=False):
    """Σ a·b over the axes that are reduced: common axes first, then those of each source.

    The last axis of a fixed size, or else the last of three or more, counts features.
    """

    reduce: object = value(None)
    red1: object = value(None)
    red2: object = value(None)
    var1: object = value(None)
    var2: object = value(None)
    add_var2_if_empty: object = value(None)
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
        red1, red2 = (-1 if red1 is None else red1), (-2 if red2 is None else red2)
        options, nothing = self.spec.described, ("",) if strict else ("", None)
        var1, var2 = self.var1, self.var2
        if not strict:  # the defaults are numbers, and None means no axes
            var1, var2 = options.get("var1", -2), options.get("var2", -1)
        var1, var2 = (None if axes == "auto" else () if axes in nothing else axes for axes in (var1, var2))
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
            if twin and self.pool.made(dim) and self.site.origin_of(0, dim) != self.site.origin_of(1, dim):
                used_dims = [*a.dims, *b.dims, *(new for _, new in self.renames)]
                self.renames.append((dim, self.pool.feature(dim.get_dim_value(), used_dims)))
        b_dims = [dict(self.renames).get(dim, dim) for dim in b.dims]
        self.reduced = reduced1
        own1 = self.pool.find(var1, a) if var1 is not None else without(a, *b_dims, *reduced)
        own2 = [d for d in b_dims if d not in {*a.dims, *reduced}] if var2 is None else [*self.pool.find(var2, b)]
        if not {*own1}.isdisjoint(reduced1) or not {*own2}.isdisjoint(reduced2):
            raise NetworkError(
                "dot: an axis is reduced, and kept as well",
                got=f"red1={red1!r}, red2={red2!r}, var1={var1!r}, var2={var2!r}",
                expected='"var1": "auto", "var2": "auto": all axes that are not reduced',
            )  # fmt: skip
        for i, dim in enumerate(own2):  # an axis that both keep is there twice
            if dim in own1:
                new = dim.copy(match_priority=1)
                if dim.dimension is not None:
                    new = self.pool.feature(dim.dimension, [*a.dims, *b.dims])
                self.renames.append((dim, new))
                own2[i] = new
        common = [dim for dim in without(a, *reduced, *own1) if dim in b_dims]
        single = without(a, *common, *reduced, *own1)
        single += [d for d in b_dims if d not in {*a.dims, *reduced, *own2, *(old for old, _ in self.renames)}]
        order = [*common, *single, *own1, *own2]
        add = not strict if self.add_var2_if_empty is None else self.add_var2_if_empty
        self.dummy = self.pool.feature(1, order) if add and not own2 and var2 is not None else None
        self.result_order = [*order, *([] if self.dummy is None else [self.dummy])]
        inner = [dim for dim in self.result_order if not dim.is_batch_dim()]
        fixed = [dim for dim in inner if dim.dimension is not None]
        self.result_feature = next(reversed(fixed or (inner if len(self.result_order) > 2 else [])), None)

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """{…, reduced}, {…, reduced} → {… of both}"""
        b = renamed(b, self.same)
        for old, new in self.renames:
            b = replace_dim(b, in_dim=old, out_dim=new)[0]
        y = matmul(a, b, reduce=self.reduced, use_mask=self.use_mask or self.spec.batch_independent)
        return y if self.dummy is None else expand_dim(y, self.dummy)
