"""Several sources: combine, compare, switch and eval, entry by entry; dot, their products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, broadcast, order_now, renamed, without
from rfnb.netdict.config.compute import Computation
from rfnb.netdict.config.tf_names import Padding
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.activations import activation_of
from rfnb.netdict.options import layer, value
from rfnb.netdict.resolve import entry_of
from rfnb.netdict.versions import holds
from rfnb.ops.math import add, combine_bc, compare_bc, mul, sub, where
from rfnb.ops.matmul import matmul
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim, squeeze

KINDS = {
    **{name: name for name in "add sub mul truediv floordiv mod pow maximum minimum".split()},
    **{name: name for name in "logical_and logical_or squared_difference".split()},
    "average": "add",
}
"""The kinds of combine, and the names of the same in `rf.combine`."""
NAMED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"add": add, "sub": sub, "mul": mul}
"""Kinds that are ops of their own."""


class Evaluated(Layer, joins=False, broadcasts=True):
    """What `eval` and `combine` of the kind eval share: the computation of an expression or a function."""

    eval: object = value("source(0)")
    eval_locals: dict[str, object] | None = value(None, dict)

    def begin(self, *sources: Tensor) -> None:
        """Reads the expression; keeps the declared order of the sources."""
        padding = Padding(counts=not self.spec.batch_independent)
        self.computation = Computation(self.eval, self.spec.config, self.eval_locals, self.pool, padding)
        self.orders = [list(x.dims) for x in sources]
        self.order: list[Dim] | None = None

    def evaluated(self, *sources: Tensor) -> Tensor:
        """The value of the expression. {…}, {…} → {…}"""
        orders = [order_now(order, x) for order, x in zip(self.orders, sources, strict=True)]
        y, self.order = self.computation(sources, orders)
        y = set_sparse_dim(y, self._labels(y, sources[0]) if sources else None)
        feature = feature_of_any(y, sources)
        last_dim = self.order[-1] if self.order else None
        if feature is None and last_dim is not None and last_dim.dimension is not None and y.sparse_dim is None:
            feature = last_dim
        return set_feature_dim(y, feature)

    def _labels(self, y: Tensor, source: Tensor) -> Dim | None:
        """The labels of the first source, unless `out_type` says otherwise, or the result counts no labels."""
        described = self.spec.common.out_type
        options = described if isinstance(described, dict) else {}
        if not y.dtype.startswith(("int", "uint")) or options.get("sparse") is False:
            return None
        if options.get("sparse_dim") is not None or (options.get("sparse") and options.get("dim") is not None):
            return self.pool.feature(options.get("sparse_dim") or options["dim"])
        return source.sparse_dim

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the expression."""
        stored = getattr(self, "order", None)
        return order if stored is None or {*stored} != {*order} else stored


class Combine(Evaluated, layer_class="combine"):
    """The sources combined one after the other. {…}, {…} → {… of all}"""

    kind: str = value("add", str)
    activation: object = value(None)
    with_bias: bool = value(False, bool)
    eval_for_output_loss: bool = value(False, bool)
    b: Parameter

    def setup(self, *sources: Any, **inputs: Any) -> None:
        """b {features}, if there is a bias."""
        self.op = entry_of({**KINDS, "eval": "eval"}, self.kind, f"there is no kind {self.kind!r}")
        if self.op == "eval":
            self.begin(*sources)
        if self.with_bias and sources[0].feature_dim is not None:
            self.parameter("b", [sources[0].feature_dim], 0.0)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {… of all}"""
        if self.op == "eval":
            y = self.evaluated(*sources)
        else:
            y = reduce(lambda a, b: _combined(a, self.op, b), sources)
            if self.kind == "average":
                y = y * (1.0 / len(sources))
        if self.with_bias:
            y = combine_bc(y, "add", self.b)
        y = set_feature_dim(y, feature_of_any(y, sources))
        return self.activated(activation_of(self.activation), y)


def _combined(a: Tensor, kind: str, b: Tensor) -> Tensor:
    """a kind b, with the op of that name if one of them has all dims: loops know more of it, and it is faster."""
    if kind in NAMED and (set(b.dims) <= set(a.dims) or set(a.dims) <= set(b.dims)):
        return NAMED[kind](a, b)
    return combine_bc(a, kind, b)


class Eval(Evaluated, layer_class="eval"):
    """An expression of the sources, or a function of the config, which is interpreted: "source(0) * 2.0"."""

    activation: object = value(None)

    def setup(self, *sources: Tensor) -> None:
        """Reads the expression."""
        self.begin(*sources)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {…}"""
        return self.activated(activation_of(self.activation), self.evaluated(*sources))


class Compare(Layer, layer_class="compare", joins=False, broadcasts=True):
    """Whether the sources, or a source and a number, are equal, greater and so on. {…}, {…} → {… of all} bool"""

    kind: str = value("equal", str)
    value: Any = value(None, int, float, bool, str)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {… of all} bool"""
        plain = [set_sparse_dim(x, None) if x.sparse_dim is not None else x for x in sources]
        parts = [*plain, *([] if self.value is None else [self.value])]
        if len(parts) < 2:
            raise NetworkError("compare needs two things to compare", expected='"value": …, or two sources')
        y = compare_bc(parts[0], self.kind, parts[1])
        return set_feature_dim(y, feature_of_any(y, sources))


class Switch(Layer, layer_class="switch", sourceless=True, joins=False):
    """Entry by entry `true_from` where the condition holds, else `false_from`: layers or numbers."""

    condition: object = layer()
    true_from: object = layer()
    false_from: object = layer()

    def setup(self, **inputs: Tensor) -> None:
        """Which dims of the others are those of the first one."""
        pairs = list(inputs.items())
        self.renames = {name: self.matching(self.pool, x, pairs[0][1]) for name, x in pairs[1:]}
        matched = [renamed(x, self.renames.get(name, ())) for name, x in pairs]
        self.check_broadcast([(x.dims, x.feature_dim) for x in matched])

    def compute(self, **inputs: Tensor) -> Tensor:
        """{…}, {…}, {…} → {… of all}"""
        inputs = {name: renamed(x, self.renames.get(name, ())) for name, x in inputs.items()}
        if "condition" not in inputs:
            fault, expected = "switch: the condition must be a layer", '"condition": "layer"'
            raise NetworkError(fault, got=self.condition, expected=expected)
        condition, a, b = _without_ones(*self.inputs_of(inputs).values())
        y = where(condition, a, b, allow_broadcast_all_sources=True)
        return set_feature_dim(y, feature_of_any(y, [x for x in (a, b) if isinstance(x, Tensor)]))


def _without_ones(*given: object) -> list[Any]:
    """The tensors without axes of size 1 that stand for an axis of another one; numbers as they are."""
    tensors = [x for x in given if isinstance(x, Tensor)]
    singles = iter(broadcast([(x.dims, x.feature_dim) for x in tensors]))
    return [reduce(squeeze, next(singles), x) if isinstance(x, Tensor) else x for x in given]


def feature_of_any(y: Tensor, sources: Sequence[Tensor]) -> Dim | None:
    """The feature dim of the first source that has one which is in the result, or that of a later one, if the sources
    before have no such axis. Sources with more axes come first."""
    feature: Dim | None = None
    dims: set[Dim] = set()
    for x in sorted(sources, key=lambda x: -len(x.dims)):
        dim = x.feature_dim
        if dim in y.sig.index and (
            feature is None or (dim not in dims and dim is not None and not dim.is_spatial_dim())
        ):
            feature = dim
        dims.update(x.dims)
    return feature


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
        options, empty = self.spec.described, ("",) if strict else ("", None)
        var1, var2 = self.var1, self.var2
        if not strict:  # the defaults are numbers, and None means no axes
            var1, var2 = options.get("var1", -2), options.get("var2", -1)
        var1, var2 = (None if axes == "auto" else () if axes in empty else axes for axes in (var1, var2))
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
