"""`rec` with the name of a cell: a recurrent cell over an axis, whose parameters have the names of the checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Container, Mapping, Sequence
from copy import copy
from functools import reduce
from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, time_of, with_features, without
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.activations import activation_of, initial_values
from rfnb.netdict.layers.basic import N_OUT
from rfnb.netdict.options import FromLayer, axis, layers, value
from rfnb.netdict.resolve import entry_of, names_of_sources, required
from rfnb.nn.cells.cell import RecCell, gate_bias
from rfnb.nn.cells.lstm import BasicLSTM, LayerNormVariantsLSTM, VanillaLSTM, ZoneoutLSTM
from rfnb.nn.cells.simple import GRU, RHN, BasicRNN
from rfnb.nn.layers.norm import LayerNorm
from rfnb.ops.concat import concat, concat_features, split
from rfnb.ops.create import full
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.math import add
from rfnb.ops.random import dropout
from rfnb.ops.shape import expand_dim, replace_dim, replace_dim_v2, set_feature_dim
from rfnb.ops.slice import reverse_sequence

CELLS: dict[str, type[Cell]] = {}
"""What makes a cell, by its name in net dicts."""


class Cell:
    """A cell of `rf` whose weights are the parameters of a layer. It is not a module, as they belong to the layer."""

    parts: ClassVar[Sequence[str]] = ("h",)
    hidden: ClassVar[Sequence[str]] = ()  # parts of the state that other layers cannot take
    cls: ClassVar[type[RecCell]]
    ignored: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls, *, names: Sequence[str] = ()) -> None:
        CELLS.update(dict.fromkeys(names, cls))

    def __init__(
        self, layer: Rec, in_dim: Dim, out_dim: Dim, options: Mapping[str, object], init: Mapping[str, object]
    ):
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
        self.settings = settings
        self.cell: Any = self.cls(in_dim, out_dim, **settings)
        self.layer = [layer]
        self.visible = [part for part in self.parts if part not in self.hidden]
        self.make(layer)

    def __getstate__(self) -> dict[str, object]:
        """A copy has no weights that the last call computed."""
        cell = copy(self.cell)
        computed = [name for name, x in vars(cell).items() if isinstance(x, Tensor) and not isinstance(x, Parameter)]
        vars(cell).update(dict.fromkeys(computed))
        return {**vars(self), "cell": cell}

    def fixed(self, layer: Rec) -> dict[str, object]:
        """Options of the cell that do not depend on `unit_opts`."""
        return {}

    def make(self, layer: Rec) -> None:
        """Makes the parameters of the layer."""
        raise NotImplementedError

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives the parameters, or what was computed from them, to the cell, as its variables."""
        raise NotImplementedError

    def over(self, x: Tensor, state: Mapping[str, Tensor], axis: Dim) -> tuple[Tensor, State]:
        """Runs all steps."""
        self.fill(vars(self.layer[0]))
        first = self.complete(state, x, axis) if self.cell.recurrent_dropout else State(state)
        return self.cell(x, state=first, spatial_dim=axis)

    held = False

    def hold(self) -> None:
        """Gives the parameters to the cell, for all steps that follow."""
        self.fill(vars(self.layer[0]))
        self.held = True

    def one_step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Runs one step."""
        if not self.held:
            self.fill(vars(self.layer[0]))
        return self.cell(x, state=self.cell.state_class(state), spatial_dim=single_step_dim)

    def complete(self, state: Mapping[str, Tensor], x: Tensor, *axes: Dim) -> State:
        """A state with what the cell carries beside its parts: the dropout masks of the sequences."""
        if self.cell.recurrent_dropout:
            batch = without(x, *axes, self.in_dim)
            state = {**self.cell.default_initial_state(batch_dims=batch), **state}
        return self.cell.state_class(state)

    def parts_of(self, state: State, used: Container[str] | None = None) -> dict[str, Tensor]:
        """The last state under the names that `get_last_hidden_state` takes: "state:c" and so on, all as "state:*".

        used: the names that are taken; None: all of them.
        """
        parts: dict[str, Tensor] = {}
        for name in self.visible if used is None or used else ():
            x = state[name]
            parts[f"state:{name}"] = x if x.sig.feature_dim is not None else set_feature_dim(x, x.dims[-1])
        if len(parts) == 1:
            return {"state:*": parts.popitem()[1]}
        return {**parts, "state:*": concat_features(*parts.values())} if used is None or "state:*" in used else parts

    def rows(self, *kernels: Tensor) -> tuple[Tensor, ...]:
        """The rows of kernels for the input, side by side, and for each kernel those for h."""
        columns = [kernel.dims[1].base for kernel in kernels]
        dims = [Dim(dim.dimension, name="rows") if dim.base in columns else dim for dim in (self.in_dim, self.out_dim)]
        parts = [split(kernel, axis=kernel.dims[0], out_dims=dims) for kernel in kernels]
        x = parts[0][0] if len(parts) == 1 else _side_by_side(*(x for x, _ in parts))
        return _of(x, self.in_dim), *(_of(h, self.out_dim) for _, h in parts)


def _of(x: Tensor, dim: Dim) -> Tensor:
    """The tensor with `dim` for its rows, or with a copy of it if that is the dim of the columns."""
    rows, columns = x.dims
    dim = dim_match_priority_when_needed(dim, columns)
    return x if rows is dim else replace_dim_v2(x, in_dim=rows, out_dim=dim)


class Native(Cell, names=["lstm", "lstmp", "nativelstm2", "lstmblock", "lstmblockfused", "cudnnlstm"]):
    """W {in, 4n}, W_re {n, 4n}, b {4n}; gates j, i, f, o."""

    cls = VanillaLSTM
    parts = ("c", "h")
    ignored: ClassVar[Sequence[str]] = ("forget_bias", "rec_weight_dropout")

    def fixed(self, layer: Rec) -> dict[str, object]:
        """Options of the cell that the layer decides."""
        return {"input_projection": layer.input_projection}

    def make(self, layer: Rec) -> None:
        """Makes the parameters."""
        gates = 4 * self.out_dim
        if layer.input_projection:
            layer.parameter("W", [self.in_dim, gates], self.init["forward"])
            layer.parameter("b", [gates], self.init["bias"])
        layer.parameter("W_re", [self.out_dim, gates], self.init["recurrent"])

    def hold(self) -> None:
        """Not with dropout, which each step draws anew."""
        if not (self.layer[0].unit_opts or {}).get("rec_weight_dropout"):
            super().hold()

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives them to the cell."""
        drop = (self.layer[0].unit_opts or {}).get("rec_weight_dropout", 0.0)
        rec_weight = dropout(params["W_re"], drop) if drop else params["W_re"]
        vars(self.cell).update(ff_weight=params.get("W"), rec_weight=rec_weight, bias=params.get("b"))


class NativeV1(Native, names=["nativelstm"]):
    """The same; of its state, other layers see only c."""

    hidden = ("h",)


class Vanilla(Native, names=["vanillalstm"]):
    """Computes what NativeLstm2 does."""

    ignored: ClassVar[Sequence[str]] = ()


class Basic(Cell, names=["basiclstm", "standardlstm"]):
    """kernel {in + n, 4n}, bias {4n}; gates i, j, f, o."""

    cls: ClassVar[type[RecCell]] = BasicLSTM
    parts: ClassVar[Sequence[str]] = ("c", "h")
    gates: ClassVar[int] = 4

    def scope(self, layer: Rec) -> str:
        """What stands before the names of the parameters."""
        return "basic_lstm_cell" if str(layer.unit).lower().startswith("basic") else "lstm_cell"

    def make(self, layer: Rec) -> None:
        """Makes the parameters."""
        self.names = [f"{self.scope(layer)}/{name}" for name in ("kernel", "bias")]
        columns = self.gates * self.out_dim
        layer.parameter(self.names[0], [self.in_dim + self.out_dim, columns], self.init["forward"])
        layer.parameter(self.names[1], [columns], self.init["bias"])

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives them to the cell."""
        kernel, bias = (params[name] for name in self.names)
        ff_weight, rec_weight = self.rows(kernel)
        vars(self.cell).update(ff_weight=ff_weight, rec_weight=rec_weight, bias=bias)


class Rnn(Basic, names=["basicrnn", "rnn"]):
    """kernel {in + n, n}, bias {n}."""

    cls, parts, gates = BasicRNN, ("h",), 1

    def scope(self, layer: Rec) -> str:
        """The name of the cell."""
        return "basic_rnn_cell"


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

    def make(self, layer: Rec) -> None:
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

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives them to the cell."""
        cell = self.cell
        weights = self.rows(params["W_ff_re"]) if self.joined else (params["W_ff"], params["W_re"])
        vars(cell).update(zip(("ff_weight", "rec_weight"), weights, strict=True), bias=params.get(self.bias_name))
        for name, key in self.used.items():
            vars(getattr(cell, name)).update(scale=params[f"gamma_{key}"], bias=params.get(f"beta_{key}"))


class Zoneout(Basic, names=["zoneoutlstm"]):
    """A standard LSTM whose state is zoned out."""

    cls = ZoneoutLSTM

    def fixed(self, layer: Rec) -> dict[str, object]:
        """Options of the cell that the layer decides."""
        return {"parts_order": "icfo", "forget_bias": 1.0, "use_zoneout_output": layer.spec.version >= 17}


class Gru(Cell, names=["gru"]):
    """Kernels of the gates {in + n, 2n} and of the candidate {in + n, n}."""

    cls = GRU

    def make(self, layer: Rec) -> None:
        """Makes the parameters."""
        n, rows = self.out_dim, self.in_dim + self.out_dim
        layer.parameter("gru_cell/gates/kernel", [rows, 2 * n], self.init["forward"])
        layer.parameter("gru_cell/gates/bias", [2 * n], gate_bias(n, 1.0, 1.0))
        layer.parameter("gru_cell/candidate/kernel", [rows, n], self.init["forward"])
        layer.parameter("gru_cell/candidate/bias", [n], self.init["bias"])

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives them to the cell."""
        kernels = params["gru_cell/gates/kernel"], params["gru_cell/candidate/kernel"]
        names = ("ff_weight", "rec_weight", "candidate_weight")
        bias = _side_by_side(params["gru_cell/gates/bias"], params["gru_cell/candidate/bias"])
        vars(self.cell).update(zip(names, self.rows(*kernels), strict=True), bias=bias)


def _side_by_side(a: Tensor, b: Tensor) -> Tensor:
    """The columns of both, or the entries of two biases."""
    return concat((a, a.dims[-1]), (b, b.dims[-1]), out_dim=a.dims[-1] + b.dims[-1])[0]


class Rhn(Cell, names=["rhn"]):
    """W {in, 2n}, b {2n}, and a matrix {n, 2n} for each depth."""

    cls = RHN

    def make(self, layer: Rec) -> None:
        """Makes the parameters."""
        n = self.out_dim
        layer.parameter("W", [self.in_dim, 2 * n], self.init["forward"])
        layer.parameter("b", [2 * n], gate_bias(n, 0.0, (layer.unit_opts or {}).get("transform_bias", 0.0)))
        for depth in range(len(self.cell.layers)):
            layer.parameter(f"rhn_cell/depth_{depth}/W", [n, 2 * n], self.init["recurrent"])

    def fill(self, params: Mapping[str, Tensor]) -> None:
        """Gives them to the cell."""
        vars(self.cell).update(ff_weight=params["W"], bias=params["b"])
        for depth, part in enumerate(self.cell.layers):
            vars(part).update(weight=params[f"rhn_cell/depth_{depth}/W"])


CONSTANT = {None: 0.0, "zeros": 0.0, 0: 0.0, "ones": 1.0, 1: 1.0}
"""Initial states by name."""
VARIABLE = "var"


class Rec(
    SteppingLayer, layer_class="rec", cell_scope="rec/", state_has_output=True,
    without_effect="max_seq_len back_prop optimize_move_layers_out unroll cheating include_eos",
):  # fmt: skip
    """A recurrent cell over an axis; −1 runs from the end of each sequence. {…, axis, in} → {…, axis, n_out}"""

    unit: Any = value("lstm", str, dict)
    unit_opts: dict[str, Any] | None = value(None, dict)
    direction: int | None = value(None, int)
    input_projection: bool = value(True, bool)
    initial_state: object = layers(None, ("zeros", "ones", "var"), part="state:*")
    axis: Dim = axis("T")
    forward_weights_init: object = value("glorot_uniform")
    recurrent_weights_init: object = value("glorot_uniform")
    bias_init: object = value(0.0)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """The parameters of the cell, with the names and shapes of the checkpoints."""
        if not isinstance(self.unit, str):
            raise NetworkError("the unit is not the name of a cell", got=repr(self.unit)[:40], expected='"nativelstm2"')
        fault = "rec needs features and the number of its outputs"
        self.in_dim = required(x.sparse_dim or x.feature_dim, fault, expected=N_OUT)
        required(self.out_dim, fault, expected=N_OUT)
        self.kind = self.unit_name()
        weights = {"forward": self.forward_weights_init, "recurrent": self.recurrent_weights_init}
        init = {name: initial_values(setting) for name, setting in {**weights, "bias": self.bias_init}.items()}
        self.cell = CELLS[self.kind](self, self.in_dim, self.out_dim, dict(self.unit_opts or {}), init)
        self.initial = self._initial()
        for part, initial in self.initial.items():
            if initial == VARIABLE:
                self.parameter(f"initial_{part if len(self.cell.parts) > 1 else 'var'}", [self.out_dim], 0.0)
            elif isinstance(initial, FromLayer):
                if len(self.cell.parts) > 1 and not isinstance(self.initial_state, Mapping | list):
                    fault, expected = "initial_state: the cell has several states", ", ".join(self.cell.parts)
                    raise NetworkError(fault, got="one layer", expected=f"a layer for each of {expected}")
            elif initial not in CONSTANT:
                raise NetworkError(f"initial_state: {initial!r} is not known", expected="zeros, ones, var, or a layer")

    def axis_in_loop(self, given: object, axes: NetworkDims, source: Tensor | None, *, numbers: bool) -> object:
        """None also where it computes one step outside of a loop, as the source has no frames."""
        frames = None if source is None else time_of(source)
        if self.loop is None and source is not None and (given is single_step_dim or (given == "T" and not frames)):
            return None
        return super().axis_in_loop(given, axes, source, numbers=numbers)

    @property
    def needs_all_frames(self) -> bool:
        """Whether it begins at the end."""
        return self.direction == -1

    def unit_name(self) -> str:
        """The name of the cell. Raises NetworkError if there is none."""
        name: str = self.unit.lower().removesuffix("cell")
        entry_of(CELLS, name, f"there is no unit {self.unit!r}")
        return name

    def _initial(self) -> dict[str, Any]:
        """What is given for each part of the state."""
        state, parts = self.initial_state, self.cell.parts
        if isinstance(state, Mapping):
            if set(state) != set(parts):
                raise NetworkError("initial_state has other parts than the cell", got=list(state), expected=list(parts))
            return dict(state)
        if isinstance(state, list | tuple):
            return dict(zip(["c", "h"], state, strict=True)) if len(parts) > 1 else {parts[0]: state[0]}
        return dict.fromkeys(parts, state)

    def first_state(self, x: Tensor, **inputs: Tensor) -> State:
        """The state before the first step. x: {…, in}"""
        return self.cell.complete(self._state(without(x, self.in_dim), x, inputs), x)

    def step(self, state: State, x: Tensor, **inputs: Tensor) -> tuple[Tensor, State]:
        """{…, in} → {…, out}"""
        y, new = self.cell.one_step(x, state)
        self.last.parts = self.cell.parts_of(new, self.spec.used_parts)
        return set_feature_dim(y, self.out_dim), new

    def begin_steps(self) -> None:
        """The weights, outside of the steps: their gradients are then those of all steps together."""
        self.cell.hold()

    def end_steps(self) -> None:
        """Each call takes the weights again."""
        self.cell.held = False

    def output_of(self, state: State) -> Tensor:
        """h, or the only part of the state."""
        return set_feature_dim(state["h"] if "h" in state else next(iter(state.values())), self.out_dim)

    def parts_of(self, state: State) -> dict[str, Tensor]:
        """The parts of a state that other layers can take."""
        return self.cell.parts_of(state)

    def _state(self, batch: Sequence[Dim], x: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        constants: dict[float, Tensor] = {}
        for part, initial in self.initial.items():
            if initial == VARIABLE:
                start: Tensor = self.params[f"initial_{part if len(self.cell.parts) > 1 else 'var'}"]
                start = reduce(expand_dim, batch, start)
            elif isinstance(initial, FromLayer):
                start = self._from_layer(inputs[initial.key])
            else:
                fill = CONSTANT[initial]
                if fill not in constants:
                    dtype = "float32" if x.sig.sparse_dim is not None else x.dtype
                    constants[fill] = full(dims=[*batch, self.out_dim], fill_value=fill, dtype=dtype)
                start = constants[fill]
            tensors[part] = start
        return tensors

    def _from_layer(self, x: Tensor) -> Tensor:
        """The state or the output of a layer, with the features of the state."""
        if time_of(x) is not None:
            raise NetworkError(
                "initial_state: the layer gives a sequence, and has no state",
                got=x.describe_dims(),
                expected="a recurrent layer, or one frame for each sequence",
                hint='"class": "gather" or "reduce" before it',
            )
        feature = x.feature_dim if x.feature_dim is not None else x.dims[-1]
        return x if feature is self.out_dim else replace_dim(x, in_dim=feature, out_dim=self.out_dim)[0]

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…, axis, in} → {…, axis, out}"""
        if self.axis is None:  # one step, from the first state
            return self.step(self.first_state(x, **inputs), x, **inputs)[0]
        if self.direction == -1:
            x = reverse_sequence(x, axis=self.axis)
        batch = [dim for dim in x.sig.dims if dim is not self.axis and dim is not self.in_dim]
        y, state = self.cell.over(x, self._state(batch, x, inputs), self.axis)
        self.last.parts = self.cell.parts_of(state, self.spec.used_parts)
        if self.direction == -1:
            y = reverse_sequence(y, axis=self.axis)
        if "lstm" not in self.kind or "norm" in self.kind:  # the kernels of others give 0 after the end
            y = y.copy_masked(0.0)
        return y if y.sig.feature_dim is self.out_dim else set_feature_dim(y, self.out_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axis of the loop stands before other axes."""
        if self.axis is None:
            return order
        batch = [dim for dim in order if dim.is_batch_dim()]
        return [*batch, self.axis, *(dim for dim in order if dim not in (*batch, self.axis))]


class RnnCell(Rec, layer_class="rnn_cell"):
    """A recurrent cell, one step of it in a loop; over a sequence, all steps. {…, in} → {…, n_out}"""

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """The parameters. Before the first step, the output is that of the initial state."""
        if self.stepwise and not self.spec.by_mask and self.spec.common.initial_output not in (None, "zeros", 0):
            fault, got = "rnn_cell has no initial_output", f'"initial_output": {self.spec.common.initial_output!r}'
            expected = '"initial_state": …, whose h is the output before the first step'
            raise NetworkError(fault, got=got, expected=expected)
        super().setup(x, **inputs)

    def unit_name(self) -> str:
        """The cells of one step, whose forget gates have a bias of 1, stand for those of CUDA kernels."""
        name = super().unit_name()
        if name in ("lstm", "lstmp", "nativelstm", "nativelstm2"):
            fault = f"rnn_cell has no unit {self.unit!r}"
            raise NetworkError(fault, expected="LSTMBlock, BasicLSTM, StandardLSTM, GRU", hint='"class": "rec"')
        return "standardlstm" if name in ("lstmblock", "lstmblockfused", "cudnnlstm") else name


class GetLastHiddenState(Layer, layer_class="get_last_hidden_state", joins=False):
    """The last state of recurrent layers, joined in the features or added. {…, axis, n} → {…, n'}"""

    key: str | None = value(None, str)
    combine: str = value("concat", str)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The states of the sources instead of their outputs."""
        key = described.get("key") or "*"
        key = "*" if key == "flat" else key
        return {**described, "from": [f"{name}/state:{key}" for name in names_of_sources(described, None)]}

    def compute(self, *states: Tensor) -> Tensor:
        """{…, n}, {…, n} → {…, n'}"""
        if self.combine == "add":
            y = reduce(add, (with_features(x, states[0].feature_dim) for x in states))
        elif self.combine == "concat":
            y = states[0] if len(states) == 1 else concat_features(*states)
        else:
            raise NetworkError("get_last_hidden_state: unknown `combine`", got=self.combine, expected="concat, add")
        return with_features(y, self.out_dim)
