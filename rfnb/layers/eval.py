"""Several sources, entry by entry: combine, compare, switch, eval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.expression.expression import Expression
from rfnb.core.expression.reader import Names
from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.layers.activations import ACTIVATIONS, activation_of
from rfnb.network.layer import Layer
from rfnb.network.options import layer, value
from rfnb.ops import math
from rfnb.ops.create import ones_like, zeros_like
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import cast, combine_bc, compare_bc, where
from rfnb.ops.shape import set_feature_dim, set_sparse_dim

KINDS = {
    **{name: name for name in "add sub mul truediv floordiv mod pow maximum minimum".split()},
    **{name: name for name in "logical_and logical_or squared_difference".split()},
    "average": "add",
}
"""The kinds of combine, and the names of the same in `rf.combine`."""


class Combine(Layer, layer_class="combine"):
    """The sources combined one after the other. {…}, {…} → {… of all}"""

    joins = False
    kind: str = value("add", str)
    activation: Any = value(None)
    with_bias: bool = value(False, bool)
    eval: str | None = value(None, str)
    eval_locals: dict[str, Any] | None = value(None, dict)
    eval_for_output_loss: bool = value(False, bool)
    b: Parameter

    def setup(self, *sources: Tensor, **inputs: Tensor) -> None:
        """b {features}, if there is a bias."""
        if self.kind != "eval" and self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise NetworkError(f"there is no kind {self.kind!r}", expected=", ".join([*KINDS, "eval"]), hint=hint)
        if self.with_bias and sources[0].feature_dim is not None:
            self.parameter("b", [sources[0].feature_dim], 0.0)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {… of all}"""
        if self.kind == "eval":
            y = evaluated(self.eval or "source(0)", sources, self.eval_locals)
        else:
            y = reduce(lambda a, b: combine_bc(a, KINDS[self.kind], b), sources)
            if self.kind == "average":
                y = y * (1.0 / len(sources))
        if self.with_bias:
            y = combine_bc(y, "add", self.b)
        y = set_feature_dim(y, feature_of_any(y, sources))
        return activation_of(self.activation)(y)


class Eval(Layer, layer_class="eval"):
    """An expression of the sources, which is parsed and never run: "source(0) + source(1) * 2.0"."""

    joins = False
    eval: str = value("source(0)", str)
    eval_locals: dict[str, Any] | None = value(None, dict)
    activation: Any = value(None)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {…}"""
        y = evaluated(self.eval, sources, self.eval_locals)
        return activation_of(self.activation)(set_feature_dim(y, feature_of_any(y, sources)))


class Compare(Layer, layer_class="compare"):
    """Whether the sources, or a source and a number, are equal, greater and so on. {…}, {…} → {… of all} bool"""

    joins = False
    kind: str = value("equal", str)
    value: Any = value(None, int, float, bool, str)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {… of all} bool"""
        plain = [set_sparse_dim(x, None) if x.sparse_dim is not None else x for x in sources]
        parts = [*plain, *([] if self.value is None else [self.value])]
        if len(parts) < 2:
            raise NetworkError("compare needs two things to compare", expected='"value": …, or two sources')
        return compare_bc(parts[0], self.kind, parts[1])


class Switch(Layer, layer_class="switch"):
    """Entry by entry `true_from` where the condition holds, else `false_from`: layers or numbers."""

    sourceless = True
    condition: Any = layer()
    true_from: Any = layer()
    false_from: Any = layer()

    def compute(self, condition: Any = None, true_from: Any = None, false_from: Any = None) -> Tensor:
        """{…}, {…}, {…} → {… of all}"""
        a = self.true_from if true_from is None else true_from
        b = self.false_from if false_from is None else false_from
        if condition is None:
            raise NetworkError(
                "switch: the condition must be a layer", got=self.condition, expected='"condition": "layer"'
            )
        y = where(condition, a, b, allow_broadcast_all_sources=True)
        return set_feature_dim(y, feature_of_any(y, [x for x in (a, b) if isinstance(x, Tensor)]))


def feature_of_any(y: Tensor, sources: Sequence[Tensor]) -> Dim | None:
    """The feature dim of the first source that has one which is in the result."""
    return next((x.feature_dim for x in sources if x.feature_dim is not None and x.feature_dim in y.sig.index), None)


FUNCTIONS: dict[str, Any] = {
    **ACTIVATIONS,
    **{
        name: getattr(math, name)
        for name in "minimum maximum equal not_equal less less_equal greater greater_equal logical_and logical_or "
        "clip_by_value cast where add mod squared_difference".split()
    },
    "subtract": math.sub,
    "multiply": math.mul,
    "divide": math.true_divide,
    "where_bc": math.where,
    "floordiv": math.floor_divide,
    "floormod": math.mod,
    "zeros_like": zeros_like,
    "ones_like": ones_like,
    "stop_gradient": stop_gradient,
    "to_float": lambda x: cast(x, "float32"),
    "to_int32": lambda x: cast(x, "int32"),
}
"""What an expression may call, as `tf.name(…)`, `tf.math.name(…)`, `tf.nn.name(…)`."""
DTYPES = {name: name for name in "float32 float64 int32 int64 bool".split()}


def evaluated(text: str, sources: Sequence[Tensor], more: dict[str, Any] | None) -> Tensor:
    """The value of an expression of `source(i)`, the functions above, `tf.float32` and the like, and `eval_locals`."""
    written = re.sub(r"\btf\.(?:math\.|nn\.)?(?=\w+\()", "rf.", text)
    written = re.sub(r"(?<![\w.])(source|safe_log|where_bc)(?=\()", r"rf.\1", written)
    functions = {**FUNCTIONS, "source": lambda i, **_: sources[i]}
    found = Expression(written).value(Names({"tf": DTYPES, **(more or {})}, functions))
    if not isinstance(found, Tensor):
        raise NetworkError(
            "the expression gives no tensor", got=repr(found)[:40], expected="an expression of source(0)"
        )
    return found
