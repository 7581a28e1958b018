"""Cells whose state is one tensor: BasicRNN, GRU, RHN."""

from __future__ import annotations

from collections.abc import Callable

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.loop.pure import pure
from rfnb.nn.cells.cell import RecCell, gate_bias
from rfnb.nn.layers.linear import Linear, weight
from rfnb.nn.module.container import ModuleList
from rfnb.nn.module.module import layer_numbers
from rfnb.ops.concat import split
from rfnb.ops.math import sigmoid, tanh
from rfnb.ops.matmul import linear


class BasicRNN(RecCell):
    """A simple recurrent cell (Elman 1990): h' = tanh(W·x + U·h + b).

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> rnn = rf.BasicRNN(inp, out)
    >>> y, state = rnn(rf.zeros([time, inp]), state=rnn.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.h.dims == (out,)
    (True, True)
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True, activation: Callable[[Tensor], Tensor] = tanh
    ):
        super().__init__(in_dim, out_dim)
        self.activation = activation
        self.ff_weight = weight([in_dim, out_dim], input_axis=0)
        self.rec_weight = weight([out_dim, out_dim], input_axis=0)
        self.bias = Parameter([out_dim]) if with_bias else None

    def project(self, source: Tensor) -> Tensor:
        """W·x + b."""
        return linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=self.out_dim)

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        h = self.activation(x + linear(state.h, self.rec_weight, None, in_dim=self.out_dim, out_dim=self.out_dim))
        return h, State(h=h)


class GRU(RecCell):
    """Gated recurrent unit (Cho et al. 2014). {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

        r, u = σ(W·x + U·h + b)
        c = tanh(W·x + U·(r ⊙ h) + b)
        h' = u ⊙ h + (1 − u) ⊙ c

    The reset gate is applied to h before the product, as in the paper. With `reset_after`, as in torch.nn.GRU,

        c = tanh(W·x + b + r ⊙ (U·h + b'))

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> gru = rf.GRU(inp, out)
    >>> y, state = gru(rf.zeros([time, inp]), state=gru.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.h.dims == (out,)
    (True, True)

    The parts of `ff_weight` and `bias` are r, u, c; those of `rec_weight` r, u. The bias of the gates is initially 1.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True, reset_after: bool = False):
        super().__init__(in_dim, out_dim)
        self.reset_after = reset_after
        self.ff_weight = weight([in_dim, 3 * out_dim], input_axis=0)
        self.rec_weight = weight([out_dim, 2 * out_dim], input_axis=0)
        self.candidate_weight = weight([out_dim, out_dim], input_axis=0)
        self.bias = Parameter([3 * out_dim], initial=gate_bias(out_dim, 1.0, 1.0, 0.0)) if with_bias else None
        self.candidate_bias = Parameter([out_dim], initial=0.0) if with_bias and reset_after else None

    def project(self, source: Tensor) -> Tensor:
        """W·x + b, for the gates and the candidate."""
        return linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=3 * self.out_dim)

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        out_dim, h = self.out_dim, state.h
        x_gates, x_candidate = split(x, axis=3 * out_dim, out_dims=[2 * out_dim, out_dim])
        gates = x_gates + linear(h, self.rec_weight, None, in_dim=out_dim, out_dim=2 * out_dim)
        r, u = split(sigmoid(gates), axis=2 * out_dim, out_dims=[out_dim, out_dim])
        h_candidate = self._candidate(h) * r if self.reset_after else self._candidate(r * h)
        c = tanh(x_candidate + h_candidate)
        h = u * h + (1 - u) * c
        return h, State(h=h)

    def _candidate(self, h: Tensor) -> Tensor:
        """U·h for the candidate, plus its bias if there is one."""
        return linear(h, self.candidate_weight, self.candidate_bias, in_dim=self.out_dim, out_dim=self.out_dim)


class RHN(RecCell):
    """Recurrent highway network (Zilly et al. 2017). {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

        for i in 0 … depth − 1:
            v = U_i·h, and W·x + b if i = 0
            h = h + σ(v_t) ⊙ (tanh(v_h) − h)

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> rhn = rf.RHN(inp, out, depth=2)
    >>> y, state = rhn(rf.zeros([time, inp]), state=rhn.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.h.dims == (out,)
    (True, True)

    The parts of the weights are v_h, v_t.

    Args:
        dropout: dropout of the input of U, in training. The same entries are dropped in all steps and depths;
            `default_initial_state` draws them.
        transform_bias: initial bias of the gate v_t; with a negative one, more of h passes unchanged.
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, depth: int = 5, dropout: Probability = 0.0, transform_bias: float = 0.0
    ):
        super().__init__(in_dim, out_dim)
        self.depth = depth
        self.recurrent_dropout = dropout
        self.ff_weight = weight([in_dim, 2 * out_dim], input_axis=0)
        self.bias = Parameter([2 * out_dim], initial=gate_bias(out_dim, 0.0, transform_bias))
        self.layers = ModuleList(
            Linear(out_dim, 2 * out_dim, with_bias=False) for _ in layer_numbers(type(self), depth, "depth")
        )

    def project(self, source: Tensor) -> Tensor:
        """W·x + b."""
        return linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=2 * self.out_dim)

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The h of the last depth, which is also the output, and the new state."""
        h = state.h
        for i, layer in enumerate(self.layers):
            v = layer(self.dropped(h, state))
            v_h, v_t = split(v if i else x + v, axis=2 * self.out_dim, out_dims=[self.out_dim, self.out_dim])
            h = h + sigmoid(v_t) * (tanh(v_h) - h)
        return h, State({**state, "h": h})
