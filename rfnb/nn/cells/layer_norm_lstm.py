"""LSTMs with layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.argument_kinds import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.state import State
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.cells.cell import RecCell, gate_bias
from rfnb.nn.layers.norm import LayerNorm
from rfnb.nn.layers.rec import LstmState
from rfnb.nn.layers.weights import weight
from rfnb.ops.activation import identity, sigmoid, tanh
from rfnb.ops.concat import split
from rfnb.ops.matmul import linear
from rfnb.ops.random import dropout as drop

EPSILON = 1e-12
"""Added to the variance in the norms."""


class LayerNormVariantsLSTM(RecCell):
    """Long short-term memory with several variants of layer normalization, and recurrent dropout.

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

        i, j, f, o = joined_norm(input_norm(W·x + b) + state_norm(U·h)), each under its gate_norm
        c' = cell_norm(σ(f) ⊙ c + σ(i) ⊙ dropout(tanh(j)))
        h' = hidden_norm(σ(o) ⊙ tanh(c'))

    By default this is the LSTM of Ba et al. (2016); with `global_norm=False, per_gate_norm=True,
    cell_norm_in_output=False` that of Chen et al. (2018). Recurrent dropout follows Semeniuta et al. (2016).

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> lstm = rf.LayerNormVariantsLSTM(inp, out)
    >>> y, state = lstm(rf.zeros([time, inp]), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.c.dims == (out,)
    (True, True)

    Raises ParameterError if the norms exclude each other.

    Args:
        norm_gain, norm_shift: initial values of the scale and bias of the norms.
        forget_bias: initial value of the bias of the forget gate, where it has one.
        dropout: dropout of tanh(j), in training.
        dropout_h: dropout of the recurrent h, in training. The same entries are dropped in all steps;
            `default_initial_state` draws them.
        with_concat: accepted without effect; other implementations choose the layout of their weights by it.
        global_norm: whether W·x and U·h are normalized separately.
        global_norm_joined: whether the sum of W·x and U·h is normalized.
        per_gate_norm: whether i, j, f and o are normalized separately.
        cell_norm: whether the cell is normalized; the normalized cell is then the state.
        cell_norm_in_output: whether the output is computed from the normalized cell.
        hidden_norm: whether the output is normalized.
    """

    state_class = LstmState
    state_parts = ("h", "c")

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        *,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        forget_bias: float = 0.0,
        activation: Callable[[Tensor], Tensor] = tanh,
        dropout: Probability = 0.0,
        dropout_h: Probability = 0.0,
        with_concat: bool = False,
        global_norm: bool = True,
        global_norm_joined: bool = False,
        per_gate_norm: bool = False,
        cell_norm: bool = True,
        cell_norm_in_output: bool = True,
        hidden_norm: bool = False,
    ):
        if global_norm + global_norm_joined + per_gate_norm > 1 or (with_concat and global_norm):
            raise ParameterError(
                "LayerNormVariantsLSTM: these options exclude each other",
                got=", ".join(name for name, value in list(locals().items()) if value is True),
                expected="one of global_norm (without with_concat), global_norm_joined, per_gate_norm",
            )
        super().__init__(in_dim, out_dim)
        self.activation = activation
        self.dropout = dropout
        self.recurrent_dropout = dropout_h
        self.cell_norm_in_output = cell_norm_in_output
        gates = 4 * out_dim
        self.ff_weight = weight([in_dim, gates], input_axis=0)
        self.rec_weight = weight([out_dim, gates], input_axis=0)
        forget = gate_bias(out_dim, 0.0, 0.0, forget_bias, 0.0)
        has_bias = not (global_norm or global_norm_joined or per_gate_norm)
        self.bias = Parameter([gates], initial=forget) if has_bias else None

        def norm(dim: Dim, *, shift: Any = norm_shift, with_bias: bool = True) -> LayerNorm:
            layer = LayerNorm(dim, eps=EPSILON, with_bias=with_bias)
            layer.scale.initial = norm_gain
            if layer.bias is not None:
                layer.bias.initial = shift
            return layer

        self.input_norm = norm(gates, shift=norm_shift + forget) if global_norm else identity
        self.state_norm = norm(gates, with_bias=False) if global_norm else identity
        self.joined_norm = norm(gates, shift=norm_shift + forget) if global_norm_joined else identity
        self.i_norm = norm(out_dim) if per_gate_norm else identity
        self.j_norm = norm(out_dim) if per_gate_norm else identity
        self.f_norm = norm(out_dim, shift=norm_shift + forget_bias) if per_gate_norm else identity
        self.o_norm = norm(out_dim) if per_gate_norm else identity
        self.cell_norm = norm(out_dim) if cell_norm else identity
        self.hidden_norm = norm(out_dim) if hidden_norm else identity

    def project(self, source: Tensor) -> Tensor:
        """W·x + b, normalized."""
        x = linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=4 * self.out_dim)
        return self.input_norm(x)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        out_dim, act = self.out_dim, self.activation
        r = linear(self.dropped(state.h, state), self.rec_weight, None, in_dim=out_dim, out_dim=4 * out_dim)
        gates = x + self.state_norm(r)
        i, j, f, o = split(self.joined_norm(gates), axis=4 * out_dim, out_dims=[out_dim] * 4)
        i, j, f, o = self.i_norm(i), self.j_norm(j), self.f_norm(f), self.o_norm(o)
        c = sigmoid(f) * state.c + sigmoid(i) * drop(act(j), self.dropout)
        normalized = self.cell_norm(c)
        h = sigmoid(o) * act(normalized if self.cell_norm_in_output else c)
        h = self.hidden_norm(h)
        return h, LstmState({**state, "h": h, "c": normalized})
