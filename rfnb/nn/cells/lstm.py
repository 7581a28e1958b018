"""Long short-term memories: VanillaLSTM, BasicLSTM, ZoneoutLSTM, and LSTMs with layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import ParameterError
from rfnb.loop.pure import pure
from rfnb.nn.cells.cell import RecCell, gate_bias
from rfnb.nn.layers.linear import to_input, weight
from rfnb.nn.layers.norm import LayerNorm
from rfnb.nn.layers.rec import LstmState, lstm_over
from rfnb.ops.concat import split
from rfnb.ops.math import identity, sigmoid, tanh
from rfnb.ops.matmul import linear
from rfnb.ops.random import dropout
from rfnb.ops.rec import lstm_in_order

KERNEL_ORDER = "ifjo"
"""The order of the gates in the weights that the kernel of `rf.LSTM` takes."""


class _Lstm(RecCell):
    """Base of LSTMs, which differ in the order of the gates in their weights and in the bias of the forget gate.

        i, f, j, o = W·x + U·h + b
        c' = σ(f + forget_bias) ⊙ c + σ(i) ⊙ tanh(j)
        h' = σ(o) ⊙ tanh(c')

    A whole sequence is computed by the kernel of `rf.LSTM` if `fits_kernel` is true.
    """

    state_class = LstmState
    state_parts = ("h", "c")

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool, parts_order: str, forget_bias: float):
        super().__init__(in_dim, out_dim)
        self.gate_dim = 4 * out_dim
        self.parts_order = parts_order
        self.forget_bias = forget_bias
        self.ff_weight = weight([self.gate_dim, in_dim], input_axis=1)
        self.rec_weight = weight([self.gate_dim, out_dim], input_axis=1)
        self.bias = Parameter([self.gate_dim]) if with_bias else None

    def project(self, source: Tensor) -> Tensor:
        """W·x + b."""
        return linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=self.gate_dim)

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        out_dim = self.out_dim
        gates = x + linear(state.h, self.rec_weight, None, in_dim=out_dim, out_dim=self.gate_dim)
        parts = dict(zip(self.parts_order, split(gates, axis=self.gate_dim, out_dims=[out_dim] * 4), strict=True))
        i, f, j, o = (parts[letter] for letter in KERNEL_ORDER)
        i, f, o = sigmoid(i), sigmoid(f + self.forget_bias), sigmoid(o)
        c = f * state.c + i * tanh(j)
        h = o * tanh(c)
        return h, LstmState(h=h, c=c)

    @property
    def fits_kernel(self) -> bool:
        """Whether the kernel of `rf.LSTM` computes exactly this cell."""
        return True

    def over(self, source: Tensor, state: State, spatial_dim: Dim) -> tuple[Tensor, State]:
        """Runs all steps, in one kernel if possible."""
        if not self.fits_kernel or self.in_dim is self.gate_dim:  # then W has that dim twice, and it cannot be split
            return super().over(source, state, spatial_dim)
        order = tuple(map(self.parts_order.index, KERNEL_ORDER))
        run = partial(lstm_in_order, order=order, forget_bias=self.forget_bias)
        return lstm_over(
            source,
            state,
            ff_weight=self.ff_weight,
            rec_weight=self.rec_weight,
            bias=self.bias,
            spatial_dim=spatial_dim,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
            gate_dim=self.gate_dim,
            run=run,
        )


class VanillaLSTM(
    _Lstm, names=["LSTM", "LSTMP", "NativeLSTM", "NativeLstm2", "LSTMBlock", "LSTMBlockFused", "CudnnLSTM"]
):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), with the gates in the order j, i, f, o in the weights.

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> lstm = rf.VanillaLSTM(inp, out)
    >>> y, state = lstm(rf.zeros([time, inp]), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.c.dims == (out,)
    (True, True)

    input_projection: if False, the source is already W·x + b, and the cell has no W and b.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True, input_projection: bool = True):
        super().__init__(in_dim, out_dim, with_bias=with_bias, parts_order="jifo", forget_bias=0.0)
        self.input_projection = input_projection
        if not input_projection:
            if in_dim.dimension != self.gate_dim.dimension:
                raise ParameterError(
                    "VanillaLSTM: without an input projection, `in_dim` must have the size of all gates",
                    got=in_dim.get_dim_value(),
                    expected=self.gate_dim.get_dim_value(),
                )
            self.ff_weight = self.bias = None  # type: ignore[assignment]

    def project(self, source: Tensor) -> Tensor:
        """W·x + b, or the source itself without an input projection."""
        return super().project(source) if self.input_projection else to_input(source, self.in_dim, self.gate_dim)

    @property
    def fits_kernel(self) -> bool:
        """Whether there is an input projection, since the kernel includes it."""
        return self.input_projection


class BasicLSTM(_Lstm, names=["StandardLSTM"]):
    """Long short-term memory with a constant added to the forget gate (Jozefowicz et al. 2015).

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}. The gates in the weights are i, j, f, o.

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> lstm = rf.BasicLSTM(inp, out, forget_bias=1.0)
    >>> y, state = lstm(rf.zeros([time, inp]), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.c.dims == (out,)
    (True, True)
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True, forget_bias: float = 1.0):
        super().__init__(in_dim, out_dim, with_bias=with_bias, parts_order="ijfo", forget_bias=forget_bias)


class ZoneoutLSTM(_Lstm):
    """Long short-term memory whose units randomly keep their old value (Krueger et al. 2017).

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}. In training each unit of c and h takes either its old or its
    new value; otherwise the mean of both: c' = (1 − z) · c_new + z · c, and the same for h'.

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> lstm = rf.ZoneoutLSTM(inp, out, zoneout_factor_cell=0.15, zoneout_factor_output=0.05)
    >>> y, state = lstm(rf.zeros([time, inp]), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.c.dims == (out,)
    (True, True)

    Raises ParameterError if `parts_order` or a zoneout factor is not valid.

    Args:
        zoneout_factor_cell, zoneout_factor_output: the probability that a unit of c or h keeps its old value.
        use_zoneout_output: whether the output is h', as in the paper; otherwise it is h before the zoneout.
        forget_bias: a constant added to the forget gate.
        parts_order: the order of the parts of the weights: i, f, o for the gates, and c (or j, or g).
    """

    unit_options: ClassVar[dict[str, Any]] = {"parts_order": "icfo", "forget_bias": 1.0}

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        *,
        with_bias: bool = True,
        zoneout_factor_cell: Probability = 0.0,
        zoneout_factor_output: Probability = 0.0,
        use_zoneout_output: bool = True,
        forget_bias: float = 0.0,
        parts_order: str = "ifco",
    ):
        order = parts_order.replace("c", "j").replace("g", "j")
        if sorted(order) != sorted(KERNEL_ORDER):
            fault = "ZoneoutLSTM: `parts_order` is not an order of the gates"
            raise ParameterError(fault, got=repr(parts_order), expected="the letters of 'ifco' in any order")
        super().__init__(in_dim, out_dim, with_bias=with_bias, parts_order=order, forget_bias=forget_bias)
        self.zoneout_factor_cell = zoneout_factor_cell
        self.zoneout_factor_output = zoneout_factor_output
        self.use_zoneout_output = use_zoneout_output

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The output, which is h' or h before the zoneout, and the new state."""
        out, new = super().step(x, state)
        c = zoneout(state.c, new.c, self.zoneout_factor_cell)
        h = zoneout(state.h, new.h, self.zoneout_factor_output)
        return h if self.use_zoneout_output else out, LstmState(h=h, c=c)

    @property
    def fits_kernel(self) -> bool:
        """Whether there is no zoneout."""
        return self.zoneout_factor_cell == self.zoneout_factor_output == 0


def zoneout(old: Tensor, new: Tensor, factor: float) -> Tensor:
    """In training, each unit is the old one with probability `factor`, else the new one; otherwise their mean."""
    return old + (1 - factor) * dropout(new - old, factor)


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

        def norm(dim: Dim, *, shift: object = norm_shift, with_bias: bool = True) -> LayerNorm:
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

    @pure
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        out_dim, act = self.out_dim, self.activation
        r = linear(self.dropped(state.h, state), self.rec_weight, None, in_dim=out_dim, out_dim=4 * out_dim)
        gates = x + self.state_norm(r)
        i, j, f, o = split(self.joined_norm(gates), axis=4 * out_dim, out_dims=[out_dim] * 4)
        i, j, f, o = self.i_norm(i), self.j_norm(j), self.f_norm(f), self.o_norm(o)
        c = sigmoid(f) * state.c + sigmoid(i) * dropout(act(j), self.dropout)
        normalized = self.cell_norm(c)
        h = sigmoid(o) * act(normalized if self.cell_norm_in_output else c)
        h = self.hidden_norm(h)
        return h, LstmState({**state, "h": h, "c": normalized})
