"""And, or, for conditions that are Tensors or plain bools."""

from __future__ import annotations

from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.math import logical_and, logical_or

Condition = Tensor | bool


def opt_logical_and(a: Condition, b: Condition) -> Condition:
    """a and b, where each may be a Tensor or a bool; an op is only applied if both are Tensors.

    >>> time = rf.Dim(3, name="time")
    >>> early = rf.range_over_dim(time) < 2
    >>> rf.opt_logical_and(early, True) is early, rf.opt_logical_and(early, False)
    (True, False)
    """
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return logical_and(a, b)


def opt_logical_or(a: Condition, b: Condition) -> Condition:
    """a or b, where each may be a Tensor or a bool; an op is only applied if both are Tensors.

    >>> time = rf.Dim(3, name="time")
    >>> early = rf.range_over_dim(time) < 2
    >>> rf.opt_logical_or(early, False) is early, rf.opt_logical_or(early, True)
    (True, True)
    """
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return logical_or(a, b)
