"""Dropout as a module."""

from __future__ import annotations

from rfnb.core.tensor.argument_kinds import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.ops.random import Axis, dropout


class Dropout(Module):
    """In training, sets each entry to 0 with probability `drop_prob` and scales up the others. {…} → {…}

    axis: dims along which entries are dropped independently; by default all dims.
    on_forward: whether to drop entries also outside of training.

    >>> feat = rf.Dim(3, name="feat")
    >>> rf.Dropout(0.5)(rf.ones([feat])).raw_tensor.tolist()  # not in training
    [1.0, 1.0, 1.0]
    """

    def __init__(self, drop_prob: Probability, *, axis: Axis = None, on_forward: bool = False):
        self.drop_prob = drop_prob
        self.axis = axis
        self.on_forward = on_forward

    def __call__(self, source: Tensor) -> Tensor:
        """Calls `rf.dropout`. {…} → {…}"""
        return dropout(source, self.drop_prob, axis=self.axis, on_forward=self.on_forward)
