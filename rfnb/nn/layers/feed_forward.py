"""Feed-forward parts of Transformer-like layers, which work on each frame separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.layers.dropout import WithDropout
from rfnb.nn.layers.linear import Linear
from rfnb.nn.module.build import build_part
from rfnb.nn.module.module import Module
from rfnb.ops.activation import identity, relu, silu
from rfnb.ops.concat import split

Activation = Callable[[Tensor], Tensor] | dict[str, Any] | Module
"""An activation: a function, a module, which is copied, or the result of `rf.build_dict`."""


class FeedForward(WithDropout):
    """Two linear maps with an activation in between (Vaswani et al. 2017). {…, out_dim} → {…, out_dim}

    >>> model = rf.Dim(4, name="model")
    >>> feed_forward = rf.FeedForward(model)
    >>> feed_forward.linear_ff.out_dim is 4 * model, feed_forward(rf.zeros([model])).dims == (model,)
    (True, True)

    Args:
        ff_dim: the dim between the two maps; by default four times `out_dim`.
        dropout: dropout of the result of the activation, in training.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: Probability = 0.1,
        activation: Activation = relu,
        with_bias: bool = True,
    ):
        ff_dim = 4 * out_dim if ff_dim is None else as_dim(ff_dim, "feed-forward")
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.activation = build_part(activation)
        self.linear_ff = Linear(out_dim, ff_dim, with_bias=with_bias)
        self.linear_out = Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{…, out_dim} → {…, out_dim}"""
        hidden = self.activation(self.linear_ff(inp))
        return self.linear_out(self.dropped(hidden, dim=self.ff_dim))


class FeedForwardGated(WithDropout):
    """`rf.FeedForward` in which one half gates the other (Shazeer 2020). {…, out_dim} → {…, out_dim}

    The first half of `linear_ff` goes through `activation`, the second through `gate_activation`. The defaults are
    those of Llama.

    >>> model = rf.Dim(4, name="model")
    >>> feed_forward = rf.FeedForwardGated(model, ff_dim=6)
    >>> feed_forward.linear_ff.out_dim.dimension, feed_forward(rf.zeros([model])).dims == (model,)
    (12, True)

    ff_dim: the dim of each half; by default 8/3 of `out_dim`, rounded up to a multiple of 256.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: Probability = 0.1,
        activation: Activation = silu,
        gate_activation: Activation = identity,
        with_bias: bool = False,
    ):
        ff_dim = -(out_dim.get_dim_value() * 8 // 3 // -256) * 256 if ff_dim is None else ff_dim
        ff_dim = as_dim(ff_dim, "feed-forward")
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.activation = build_part(activation)
        self.gate_activation = build_part(gate_activation)
        self.linear_ff = Linear(out_dim, 2 * ff_dim, with_bias=with_bias)
        self.linear_out = Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{…, out_dim} → {…, out_dim}"""
        halves = split(self.linear_ff(inp), axis=2 * self.ff_dim, out_dims=[self.ff_dim, self.ff_dim])
        hidden = self.activation(halves[0]) * self.gate_activation(halves[1])
        return self.linear_out(self.dropped(hidden, dim=self.ff_dim))
