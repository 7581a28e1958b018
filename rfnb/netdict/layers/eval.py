"""Several sources, entry by entry: combine, compare, switch, eval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import broadcast, order_now, renamed
from rfnb.netdict.config.compute import Computation
from rfnb.netdict.config.tf_names import Padding
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.activations import activation_of
from rfnb.netdict.options import layer, value
from rfnb.netdict.resolve import entry_of
from rfnb.ops.math import add, combine_bc, compare_bc, mul, sub, where
from rfnb.ops.shape import set_feature_dim, set_sparse_dim, squeeze

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
    eval_locals: dict[str, Any] | None = value(None, dict)

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
    before have no such axis."""
    feature: Dim | None = None
    dims: set[Dim] = set()
    for x in sources:
        dim = x.feature_dim
        if dim in y.sig.index and (
            feature is None or (dim not in dims and dim is not None and not dim.is_spatial_dim())
        ):
            feature = dim
        dims.update(x.dims)
    return feature
