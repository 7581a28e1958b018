"""Piecewise linear functions, also of the training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx_step
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.module.module import Module
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.index import gather, search_sorted
from rfnb.ops.math import cast, clip_by_value, equal, lerp, maximum, minimum, sub, true_divide, where

Points = Mapping[float, float] | Sequence[tuple[float, float]]


class PiecewiseLinear(Module):
    """Linear interpolation between points; constant before the first and after the last. {…} → {…}

    points: {x: value} in any order.

    >>> warmup = rf.PiecewiseLinear({0: 1.0, 10: 3.0, 20: 2.0})
    >>> step = rf.Dim(5, name="step")
    >>> warmup(rf.convert_to_tensor([-5, 5, 10, 15, 99], dims=[step])).raw_tensor.tolist(), warmup(5).item()
    ([1.0, 2.0, 3.0, 2.5, 2.0], 2.0)

    Raises ParameterError if there are no points, or two for the same x.
    """

    def __init__(self, points: Points):
        pairs = sorted(points.items() if isinstance(points, Mapping) else points)
        if not pairs or len({x for x, _ in pairs}) < len(pairs):
            raise ParameterError(f"{type(self).__name__}: `points` must have exactly one value for each x", got=pairs)
        self.points_dim = Dim(len(pairs), name="points")
        keys, values = np.array(pairs, dtype="float32").T
        self._keys = Parameter([self.points_dim], "float32", auxiliary=True, initial=keys)
        self._values = Parameter([self.points_dim], "float32", auxiliary=True, initial=values)

    def __call__(self, x: Tensor | float) -> Tensor:
        """The interpolated values at `x`. {…} → {…}"""
        x = cast(x, "float32") if isinstance(x, Tensor) else convert_to_tensor(float(x), dtype="float32")
        after = search_sorted(self._keys, axis=self.points_dim, values=x)
        right, left = minimum(after, self.points_dim.get_dim_value() - 1), maximum(sub(after, 1), 0)
        at_left, at_right = self._gather(self._keys, left), self._gather(self._keys, right)
        width = where(equal(left, right), 1.0, sub(at_right, at_left))
        part = clip_by_value(true_divide(sub(x, at_left), width), 0.0, 1.0)
        return lerp(self._gather(self._values, left), self._gather(self._values, right), part)

    def _gather(self, values: Tensor, indices: Tensor) -> Tensor:
        return gather(values, indices=indices, axis=self.points_dim)


class PiecewiseLinearStepwiseScheduler(PiecewiseLinear):
    """`rf.PiecewiseLinear` at the current training step, whatever it is called with. → {}

    >>> scale = rf.PiecewiseLinearStepwiseScheduler({0: 0.0, 1000: 1.0})
    >>> _ = rf.init_train_step_run_ctx(step=250)
    >>> scale().item()
    0.25
    """

    def __call__(self, *_args: object, **_kwargs: object) -> Tensor:
        """The value at the current training step. → {}"""
        return super().__call__(get_run_ctx_step())
