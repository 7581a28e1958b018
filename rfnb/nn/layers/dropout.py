"""Dropout as a module, and the base of modules that drop their results."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.ops.random import Axis, dropout, dropout_broadcast_default


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


class _BroadcastDefault:
    """`rf.dropout_broadcast_default()` at each access; a module may set its own value instead."""

    def __get__(self, module: object, cls: type) -> bool:
        return dropout_broadcast_default()


class WithDropout(Module):
    """Base of modules that apply dropout to {…, out_dim}.

    dropout_broadcast: whether frames and sequences share it; by default `rf.dropout_broadcast_default()`.
    """

    out_dim: Dim
    dropout: float
    dropout_broadcast: Any = _BroadcastDefault()

    def dropped(self, x: Tensor, drop_prob: float | None = None, *, dim: Dim | None = None) -> Tensor:
        """Applies dropout. {…, dim} → {…, dim}

        Args:
            drop_prob: by default `self.dropout`.
            dim: the dim along which entries are always dropped independently; by default `out_dim`.
        """
        axis = self.dropout_broadcast and (dim or self.out_dim)
        return dropout(x, self.dropout if drop_prob is None else drop_prob, axis=axis)
