"""The cells of `rec`: their parameters with the names of the checkpoints, given to the cells of `rf`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.activations import activation_of
from rfnb.nn.cells.cell import RecCell, gate_bias
from rfnb.nn.cells.lstm import BasicLSTM, LayerNormVariantsLSTM, VanillaLSTM, ZoneoutLSTM
from rfnb.nn.cells.simple import GRU, RHN, BasicRNN
from rfnb.nn.layers.norm import LayerNorm
from rfnb.ops.concat import concat, split
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.random import dropout
from rfnb.ops.shape import replace_dim_v2

CELLS: dict[str, type[Cell]] = {}
"""What makes a cell, by its name in net dicts."""


class Cell:
    """A cell of `rf` whose weights are the parameters of a layer. It is no module, since they belong to the layer."""

    parts: ClassVar[Sequence[str]] = ("h",)
    cls: ClassVar[type[RecCell]]
    ignored: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls, *, names: Sequence[str] = ()) -> None:
        CELLS.update(dict.fromkeys(names, cls))

    def __init__(self, layer: Layer, in_dim: Dim, out_dim: Dim, options: Mapping[str, Any], init: Mapping[str, Any]):
        self.in_dim, self.out_dim, self.init = in_dim, out_dim, init
        settings = {**self.fixed(layer), **{name: value for name, value in options.items() if name not in self.ignored}}
        parameters = inspect.signature(self.cls).parameters
        for name in settings:
            if name not in parameters:
                expected = ", ".join(list(parameters)[2:]) or "none"
                raise NetworkError(
                    f"unit_opts: unknown option {name!r}", expected=expected, hint=did_you_mean(name, parameters)
                )
        if isinstance(settings.get("activation"), str):
            settings["activation"] = activation_of(settings["activation"])
        self.cell: Any = self.cls(in_dim, out_dim, **settings)
        self.layer = [layer]
        self.make(layer)

    def fixed(self, layer: Layer) -> dict[str, Any]:
        """Options of the cell that do not depend on `unit_opts`."""
        return {}

    def make(self, layer: Layer) -> None:
        """Makes the parameters of the layer."""
        raise NotImplementedError

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives the parameters to the cell."""
        raise NotImplementedError

    def over(self, x: Tensor, state: State, axis: Dim) -> tuple[Tensor, State]:
        """Runs all steps."""
        self.fill(self.layer[0].params)
        return self.cell(x, state=self.complete(state, x, axis), spatial_dim=axis)

    held = False

    def hold(self) -> None:
        """Gives the parameters to the cell, for all steps that follow."""
        self.fill(self.layer[0].params)
        self.held = True

    def one_step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Runs one step."""
        if not self.held:
            self.fill(self.layer[0].params)
        return self.cell(x, state=self.cell.state_class(state), spatial_dim=single_step_dim)

    def complete(self, state: State, x: Tensor, *axes: Dim) -> State:
        """A state with what the cell carries beside its parts: the dropout masks of the sequences."""
        batch = [dim for dim in x.dims if dim not in (*axes, self.in_dim)]
        masks = self.cell.default_initial_state(batch_dims=batch) if self.cell.recurrent_dropout else {}
        return self.cell.state_class({**masks, **state})

    def visible(self, state: State) -> dict[str, Tensor]:
        """The parts of the last state that other layers can take, in their order."""
        return {part: state[part] for part in self.parts}

    def rows(self, *kernels: Tensor) -> tuple[Tensor, ...]:
        """The rows of kernels for the input, side by side, and for each kernel those for h."""
        ins, outs = Dim(self.in_dim.dimension, name="in"), Dim(self.out_dim.dimension, name="h")
        parts = [split(kernel, axis=kernel.dims[0], out_dims=[ins, outs]) for kernel in kernels]
        x = parts[0][0] if len(parts) == 1 else _side_by_side(*(x for x, _ in parts))
        return _of(x, ins, self.in_dim), *(_of(h, outs, self.out_dim) for _, h in parts)


def _of(x: Tensor, rows: Dim, dim: Dim) -> Tensor:
    """The tensor with `dim` for its rows, or with a copy of it if that is the dim of the columns."""
    return replace_dim_v2(x, in_dim=rows, out_dim=dim_match_priority_when_needed(dim, x.dims[1]))


class Native(Cell, names=["lstm", "lstmp", "nativelstm2", "lstmblock", "lstmblockfused", "cudnnlstm"]):
    """W {in, 4n}, W_re {n, 4n}, b {4n}; gates j, i, f, o."""

    cls = VanillaLSTM
    parts = ("c", "h")
    ignored: ClassVar[Sequence[str]] = ("forget_bias", "rec_weight_dropout")

    def fixed(self, layer: Any) -> dict[str, Any]:
        """Options of the cell that the layer decides."""
        return {"input_projection": layer.input_projection}

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        gates = 4 * self.out_dim
        if layer.input_projection:
            layer.parameter("W", [self.in_dim, gates], self.init["forward"])
            layer.parameter("b", [gates], self.init["bias"])
        layer.parameter("W_re", [self.out_dim, gates], self.init["recurrent"])

    def hold(self) -> None:
        """Not with dropout, which each step draws anew."""
        options: Any = self.layer[0]
        if not (options.unit_opts or {}).get("rec_weight_dropout"):
            super().hold()

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        options: Any = self.layer[0]
        drop = (options.unit_opts or {}).get("rec_weight_dropout", 0.0)
        rec_weight = dropout(params["W_re"], drop) if drop else params["W_re"]
        vars(self.cell).update(ff_weight=params.get("W"), rec_weight=rec_weight, bias=params.get("b"))


class NativeV1(Native, names=["nativelstm"]):
    """The same; of its state, other layers see only c."""

    def visible(self, state: State) -> dict[str, Tensor]:
        """c alone."""
        return {"c": state["c"]}


class Vanilla(Native, names=["vanillalstm"]):
    """Computes what NativeLstm2 does."""

    ignored: ClassVar[Sequence[str]] = ()


class Basic(Cell, names=["basiclstm", "standardlstm"]):
    """kernel {in + n, 4n}, bias {4n}; gates i, j, f, o."""

    cls: ClassVar[type[RecCell]] = BasicLSTM
    parts = ("c", "h")

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        scope = "basic_lstm_cell" if str(layer.unit).lower().startswith("basic") else "lstm_cell"
        self.names = [f"{scope}/kernel", f"{scope}/bias"]
        gates = 4 * self.out_dim
        layer.parameter(self.names[0], [self.in_dim + self.out_dim, gates], self.init["forward"])
        layer.parameter(self.names[1], [gates], self.init["bias"])

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        kernel, bias = (params[name] for name in self.names)
        self.cell.ff_weight, self.cell.rec_weight = self.rows(kernel)
        self.cell.bias = bias


class LayerNormLstm(Cell, names=["layernormvariantslstm"]):
    """W_ff {in, 4n}, W_re {n, 4n}, or both as W_ff_re {in + n, 4n}; gamma and beta of each norm; gates i, j, f, o."""

    cls = LayerNormVariantsLSTM
    parts = ("c", "h")
    norms: ClassVar[dict[str, str]] = {
        "input_norm": "input_below",
        "state_norm": "state_below",
        "joined_norm": "lstm_in",
        **{f"{gate}_norm": f"{gate}_gate" for gate in "ijfo"},
        "cell_norm": "new_c",
        "hidden_norm": "new_h",
    }

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        gates = 4 * self.out_dim
        self.joined = bool((layer.unit_opts or {}).get("with_concat"))
        if self.joined:
            layer.parameter("W_ff_re", [self.in_dim + self.out_dim, gates], self.init["forward"])
        else:
            layer.parameter("W_ff", [self.in_dim, gates], self.init["forward"])
            layer.parameter("W_re", [self.out_dim, gates], self.init["recurrent"])
        self.bias_name = "bias_ff_re" if self.joined else "bias_ff"
        if self.cell.bias is not None:
            layer.parameter(self.bias_name, [gates], self.cell.bias.initial)
        self.used = {name: key for name, key in self.norms.items() if isinstance(getattr(self.cell, name), LayerNorm)}
        for name, key in self.used.items():
            norm = getattr(self.cell, name)
            layer.parameter(f"gamma_{key}", norm.scale.dims, norm.scale.initial)
            if norm.bias is not None:
                layer.parameter(f"beta_{key}", norm.bias.dims, norm.bias.initial)

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        cell = self.cell
        weights = self.rows(params["W_ff_re"]) if self.joined else (params["W_ff"], params["W_re"])
        cell.ff_weight, cell.rec_weight = weights
        cell.bias = params.get(self.bias_name)
        for name, key in self.used.items():
            norm = getattr(cell, name)
            norm.scale, norm.bias = params[f"gamma_{key}"], params.get(f"beta_{key}")


class Zoneout(Basic, names=["zoneoutlstm"]):
    """A standard LSTM whose state is zoned out."""

    cls = ZoneoutLSTM

    def fixed(self, layer: Any) -> dict[str, Any]:
        """Options of the cell that the layer decides."""
        return {"parts_order": "icfo", "forget_bias": 1.0, "use_zoneout_output": layer.spec.version >= 17}


class Gru(Cell, names=["gru"]):
    """Kernels of the gates {in + n, 2n} and of the candidate {in + n, n}."""

    cls = GRU

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        n, rows = self.out_dim, self.in_dim + self.out_dim
        layer.parameter("gru_cell/gates/kernel", [rows, 2 * n], self.init["forward"])
        layer.parameter("gru_cell/gates/bias", [2 * n], gate_bias(n, 1.0, 1.0))
        layer.parameter("gru_cell/candidate/kernel", [rows, n], self.init["forward"])
        layer.parameter("gru_cell/candidate/bias", [n], self.init["bias"])

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        kernels = params["gru_cell/gates/kernel"], params["gru_cell/candidate/kernel"]
        self.cell.ff_weight, self.cell.rec_weight, self.cell.candidate_weight = self.rows(*kernels)
        self.cell.bias = _side_by_side(params["gru_cell/gates/bias"], params["gru_cell/candidate/bias"])


def _side_by_side(a: Tensor, b: Tensor) -> Tensor:
    """The columns of both, or the entries of two biases."""
    return concat((a, a.dims[-1]), (b, b.dims[-1]), out_dim=a.dims[-1] + b.dims[-1])[0]


class Rnn(Cell, names=["basicrnn", "rnn"]):
    """kernel {in + n, n}, bias {n}."""

    cls = BasicRNN

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        layer.parameter("basic_rnn_cell/kernel", [self.in_dim + self.out_dim, self.out_dim], self.init["forward"])
        layer.parameter("basic_rnn_cell/bias", [self.out_dim], self.init["bias"])

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        kernel = params["basic_rnn_cell/kernel"]
        self.cell.ff_weight, self.cell.rec_weight = self.rows(kernel)
        self.cell.bias = params["basic_rnn_cell/bias"]


class Rhn(Cell, names=["rhn"]):
    """W {in, 2n}, b {2n}, and a matrix {n, 2n} for each depth."""

    cls = RHN

    def make(self, layer: Any) -> None:
        """Makes the parameters."""
        n = self.out_dim
        layer.parameter("W", [self.in_dim, 2 * n], self.init["forward"])
        layer.parameter("b", [2 * n], gate_bias(n, 0.0, (layer.unit_opts or {}).get("transform_bias", 0.0)))
        for depth in range(len(self.cell.layers)):
            layer.parameter(f"rhn_cell/depth_{depth}/W", [n, 2 * n], self.init["recurrent"])

    def fill(self, params: Mapping[str, Any]) -> None:
        """Gives them to the cell."""
        self.cell.ff_weight, self.cell.bias = params["W"], params["b"]
        for depth, part in enumerate(self.cell.layers):
            part.weight = params[f"rhn_cell/depth_{depth}/W"]


def cell_of(unit: str) -> str:
    """The name under which a unit is known. Raises NetworkError if it is not."""
    name = unit.lower().removesuffix("cell")
    if name not in CELLS:
        raise NetworkError(f"there is no unit {unit!r}", expected=", ".join(CELLS), hint=did_you_mean(name, CELLS))
    return name
