"""Long short-term memories: VanillaLSTM, BasicLSTM, ZoneoutLSTM."""

from __future__ import annotations

from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.argument_kinds import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.state import State
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.cells.cell import RecCell
from rfnb.nn.layers.rec import LstmState, lstm_over
from rfnb.nn.layers.weights import to_input, weight
from rfnb.ops.activation import sigmoid, tanh
from rfnb.ops.concat import concat, split
from rfnb.ops.create import zeros
from rfnb.ops.matmul import linear
from rfnb.ops.random import dropout

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
        self.gates = {letter: Dim(out_dim.get_dim_value(), name=letter) for letter in KERNEL_ORDER}
        self.parts_order = parts_order
        self.forget_bias = forget_bias
        self.ff_weight = weight([self.gate_dim, in_dim], input_axis=1)
        self.rec_weight = weight([self.gate_dim, out_dim], input_axis=1)
        self.bias = Parameter([self.gate_dim]) if with_bias else None

    def project(self, source: Tensor) -> Tensor:
        """W·x + b."""
        return linear(source, self.ff_weight, self.bias, in_dim=self.in_dim, out_dim=self.gate_dim)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        out_dim = self.out_dim
        gates = x + linear(state.h, self.rec_weight, None, in_dim=out_dim, out_dim=self.gate_dim)
        i, f, j, o = self._parts(gates, [out_dim] * 4)
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
        bias: Tensor | None = self.bias
        if bias is None and self.forget_bias:
            bias = zeros([self.gate_dim], dtype=self.rec_weight.dtype, device=self.rec_weight.device)
        return lstm_over(
            source,
            state,
            ff_weight=self._in_kernel_order(self.ff_weight),
            rec_weight=self._in_kernel_order(self.rec_weight),
            bias=None if bias is None else self._in_kernel_order(bias, self.forget_bias),
            spatial_dim=spatial_dim,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
        )

    def _parts(self, x: Tensor, dims: list[Dim]) -> list[Tensor]:
        """The parts i, f, j, o of `x`, in this order."""
        parts = dict(zip(self.parts_order, split(x, axis=self.gate_dim, out_dims=dims), strict=True))
        return [parts[letter] for letter in KERNEL_ORDER]

    def _in_kernel_order(self, x: Tensor, forget_bias: float = 0.0) -> Tensor:
        if self.parts_order == KERNEL_ORDER and not forget_bias:
            return x
        i, f, j, o = self._parts(x, [self.gates[letter] for letter in self.parts_order])
        f = f + forget_bias if forget_bias else f
        return concat(*zip([i, f, j, o], self.gates.values(), strict=True), out_dim=self.gate_dim)[0]


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
