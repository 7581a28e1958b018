"""What models import besides the frontend: the log, curves over steps, callbacks of a forward pass, and more.

With some names that are not public there, but that models import all the same.
"""

from __future__ import annotations

import getpass
import math
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground import backends
from rfnb.core.run_ctx import BehaviorVersion
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.module.build import class_of_name as _get_cls
from rfnb.nn.module.module import NotSpecified
from rfnb.ops.concat import split
from rfnb.ops.position import turn_pairs

__all__ = [
    "BehaviorVersion", "ForwardCallbackIface", "NotSpecified", "PiecewiseLinear", "RawTensorTypes", "_apply_rope",
    "_get_cls", "ceil_div", "get_login_username", "global_backend", "log", "prod",
]  # fmt: skip

RawTensorTypes = int | float | complex | np.number | np.ndarray | bool | str
"""What `rf.convert_to_tensor` accepts besides tensors, for annotations."""


class _Log:
    """Streams by verbosity, for `print("…", file=log.v3)`. All of them are the current `sys.stdout`."""

    @property
    def v1(self) -> Any:
        """The stream."""
        return sys.stdout

    v2 = v3 = v4 = v5 = error = v1


log = _Log()


class ForwardCallbackIface:
    """What a forward pass calls: `init` before the first sequence, `process_seq` for each, `finish` after the last.

    rfnb has no engine. Your loop over the batches calls these.
    """

    def init(self, *, model: object) -> None:
        """Before the first sequence."""

    def process_seq(self, *, seq_tag: str, outputs: object) -> None:
        """For each sequence: the name of it, and a `TensorDict` of its outputs, which have no batch."""

    def finish(self) -> None:
        """After the last sequence."""


class PiecewiseLinear:
    """A curve of numbers, such as a learning rate over steps: linear between points, constant outside of them.

    >>> from rfnb.as_returnn.outside_frontend import PiecewiseLinear
    >>> rate = PiecewiseLinear({0: 0.0, 10: 1.0, 30: 0.0}, kw_name="step", ignore_other_kwargs=True)
    >>> [rate(step=step, epoch=1) for step in (-5, 5, 20, 99)]
    [0.0, 0.5, 0.5, 0.0]

    Args:
        kw_name: the name of its argument; by default it is positional.
        ignore_other_kwargs: whether it may be called with further arguments, which do not matter.
    """

    def __init__(self, values: Mapping[float, float], *, kw_name: str | None = None, ignore_other_kwargs: bool = False):
        if not values:
            raise ParameterError("PiecewiseLinear: `values` has no points", expected="{x: value, …}")
        self.points = dict(sorted(values.items()))
        self.kw_name, self.ignore_other_kwargs = kw_name, ignore_other_kwargs

    def __call__(self, *args: float, **kwargs: Any) -> float:
        """The value at the argument."""
        if self.kw_name is not None and not args:
            args = (kwargs.pop(self.kw_name),) if self.kw_name in kwargs else ()
        if len(args) != 1 or (kwargs and not self.ignore_other_kwargs):
            wanted = "one number" if self.kw_name is None else f"{self.kw_name}=…"
            raise TypeError(f"PiecewiseLinear: expected {wanted}, got {(*args, *kwargs)}")
        xs, (x,) = [*self.points], args
        right = bisect_right(xs, x)
        if right in (0, len(xs)):
            return self.points[xs[max(0, right - 1)]]
        a, b = xs[right - 1], xs[right]
        return self.points[a] + (self.points[b] - self.points[a]) * (x - a) / (b - a)

    def __repr__(self) -> str:
        return f"PiecewiseLinear({self.points})"


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉."""
    return -(-a // b)


def get_login_username() -> str:
    """The name of the user; its number if it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


class _SelectedBackend:
    """Has the attributes of the backend that makes new tensors, whichever is selected."""

    def __getattr__(self, name: str) -> Any:
        return getattr(backends.selected(), name)


global_backend = _SelectedBackend()


def _apply_rope(x: Tensor, pos_enc: Tensor, feat_dim: Dim) -> Tensor:
    """Pairs of neighbours in `feat_dim` turned by angles. {…, feat_dim} → {…, feat_dim}

    pos_enc: the sines, then the cosines of the angles, as of `rf.sinusoidal_positional_encoding`. {…, feat_dim}
    """
    half = feat_dim // 2
    sines, cosines = split(pos_enc, axis=feat_dim, out_dims=[half, half])
    return turn_pairs(x, cosines, sines, feat_dim=feat_dim)


def prod(numbers: Iterable[object]) -> Any:
    """The product of numbers or Dims; 1 if there are none."""
    return math.prod(numbers)
