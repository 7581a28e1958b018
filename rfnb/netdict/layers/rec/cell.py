"""`rec` with the name of a cell: a recurrent cell over an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.initializers import initial_values
from rfnb.netdict.layers.rec.units import CELLS, cell_of
from rfnb.netdict.options import FromLayer, axis, layers, value
from rfnb.netdict.resolve import names_of_sources
from rfnb.ops.concat import concat_features
from rfnb.ops.create import full, zeros
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.index import gather
from rfnb.ops.math import add
from rfnb.ops.sequence import reverse_sequence
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim

CONSTANT = {None: 0.0, "zeros": 0.0, 0: 0.0, "ones": 1.0, 1: 1.0}
"""Initial states by name."""
VARIABLE = "var"


class Rec(SteppingLayer, layer_class="rec", cell_scope="rec/", state_has_output=True):
    """A recurrent cell over an axis; −1 runs from the end of each sequence. {…, axis, in} → {…, axis, n_out}"""

    unit: Any = value("lstm", str, dict)
    unit_opts: dict[str, Any] | None = value(None, dict)
    direction: int | None = value(None, int)
    input_projection: bool = value(True, bool)
    initial_state: Any = layers(None, ("zeros", "ones", "var"))
    axis: Dim = axis("T")
    forward_weights_init: Any = value("glorot_uniform")
    recurrent_weights_init: Any = value("glorot_uniform")
    bias_init: Any = value(0.0)
    max_seq_len: Any = value(None)
    back_prop: Any = value(None)
    optimize_move_layers_out: Any = value(None)
    unroll: Any = value(None)
    cheating: Any = value(None)
    include_eos: Any = value(None)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:  # type: ignore[override]
        """The parameters of the cell, with the names and shapes of the checkpoints."""
        if not isinstance(self.unit, str):
            raise NetworkError("the unit is not the name of a cell", got=repr(self.unit)[:40], expected='"nativelstm2"')
        in_dim = x.sparse_dim or x.feature_dim
        if in_dim is None or self.out_dim is None:
            raise NetworkError("rec needs features and the number of its outputs", expected='"n_out": …')
        self.in_dim = in_dim
        self.kind = self.unit_name()
        init = {
            "forward": initial_values(self.forward_weights_init),
            "recurrent": initial_values(self.recurrent_weights_init),
            "bias": initial_values(self.bias_init),
        }
        options = dict(self.unit_opts or {})
        self.cell = CELLS[self.kind](self, in_dim, self.out_dim, options, init)
        for part, initial in self._initial().items():
            if initial == VARIABLE:
                self.parameter(f"initial_{part if len(self.cell.parts) > 1 else 'var'}", [self.out_dim], 0.0)
            elif isinstance(initial, FromLayer):
                if len(self.cell.parts) > 1 and not isinstance(self.initial_state, Mapping | list):
                    fault = "initial_state: the cell has several states"
                    raise NetworkError(
                        fault, got="one layer", expected=f"a layer for each of {', '.join(self.cell.parts)}"
                    )
            elif initial not in CONSTANT:
                raise NetworkError(f"initial_state: {initial!r} is not known", expected="zeros, ones, var, or a layer")

    @property
    def needs_all_frames(self) -> bool:
        """Whether it begins at the end."""
        return self.direction == -1

    def unit_name(self) -> str:
        """The name of the cell. Raises NetworkError if there is none."""
        return cell_of(self.unit)

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
        return self.cell.complete(self._state(x, inputs), x)

    def step(self, state: State, x: Tensor, **inputs: Tensor) -> tuple[Tensor, State]:
        """{…, in} → {…, out}"""
        y, new = self.cell.one_step(x, state)
        if self.spec.gives_parts:
            self.last.parts = state_parts(self.cell.visible(new))
        return set_feature_dim(y, self.out_dim), new

    def begin_steps(self) -> None:
        """The weights, outside of the steps: their gradients are then those of all steps together."""
        self.cell.hold()

    def begun_tensors(self) -> list[Tensor]:
        """The weights that are parts of parameters."""
        values = vars(self.cell.cell).values() if self.cell.held else ()
        return [x for x in values if isinstance(x, Tensor) and not isinstance(x, Parameter)]

    def end_steps(self) -> None:
        """Each call takes the weights again."""
        self.cell.held = False

    def output_of(self, state: State) -> Tensor:
        """h, or the only part of the state."""
        return set_feature_dim(state["h"] if "h" in state else next(iter(state.values())), self.out_dim)

    def parts_of(self, state: State) -> dict[str, Tensor]:
        """The parts of a state that other layers can take."""
        return state_parts(self.cell.visible(state))

    def _state(self, x: Tensor, inputs: Mapping[str, Tensor]) -> State:
        assert self.out_dim is not None
        batch = [dim for dim in x.dims if dim not in (self.axis, self.in_dim)]
        tensors, dtype = {}, "float32" if x.sparse_dim is not None else x.dtype
        for part, initial in self._initial().items():
            if initial == VARIABLE:
                start: Tensor = self.params[f"initial_{part if len(self.cell.parts) > 1 else 'var'}"]
                for dim in batch:
                    start = expand_dim(start, dim)
            elif isinstance(initial, FromLayer):
                start = self._last(inputs[initial.key])
            else:
                fill = CONSTANT[initial]
                dims = [*batch, self.out_dim]
                start = full(dims=dims, fill_value=fill, dtype=dtype) if fill else zeros(dims, dtype=dtype)
            tensors[part] = start
        return State(tensors)

    def _last(self, x: Tensor) -> Tensor:
        """The last frame of a sequence, or the output itself if it is no sequence; with the features of the state."""
        frames = time_of(x)
        if frames is not None:
            x = gather(x, indices=last_frame_position_of_dim(frames), axis=frames)
        feature = x.feature_dim if x.feature_dim is not None else x.dims[-1]
        return x if feature is self.out_dim else replace_dim(x, in_dim=feature, out_dim=self.out_dim)[0]

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…, axis, in} → {…, axis, out}"""
        if self.direction == -1:
            x = reverse_sequence(x, axis=self.axis)
        y, state = self.cell.over(x, self._state(x, inputs), self.axis)
        if self.spec.gives_parts:
            self.last.parts = state_parts(self.cell.visible(state))
        if self.direction == -1:
            y = reverse_sequence(y, axis=self.axis)
        if "lstm" not in self.kind or "norm" in self.kind:  # the kernels of others give 0 after the end
            y = y.copy_masked(0.0)
        return set_feature_dim(y, self.out_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axis of the loop stands before other axes."""
        if self.stepwise:
            return order
        batch = [dim for dim in order if dim.is_batch_dim()]
        return [*batch, self.axis, *(dim for dim in order if dim not in (*batch, self.axis))]


def state_parts(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The last state under the names that `get_last_hidden_state` takes: "state:c" and so on, all as "state:*"."""
    parts = [set_feature_dim(x, x.feature_dim or x.dims[-1]) for x in state.values()]
    joined = parts[0] if len(parts) == 1 else concat_features(*parts)
    named = {} if len(parts) == 1 else dict(zip(state, parts, strict=True))
    return {f"state:{name}": x for name, x in {**named, "*": joined}.items()}


class RnnCell(Rec, layer_class="rnn_cell"):
    """A recurrent cell, one step of it in a loop; over a sequence, all steps. {…, in} → {…, n_out}"""

    def setup(self, x: Tensor, **inputs: Tensor) -> None:  # type: ignore[override]
        """The parameters. Before the first step, the output is that of the initial state."""
        if self.stepwise and not self.spec.by_mask and self.spec.common.initial_output not in (None, "zeros", 0):
            fault, got = "rnn_cell has no initial_output", f'"initial_output": {self.spec.common.initial_output!r}'
            raise NetworkError(
                fault, got=got, expected='"initial_state": …, whose h is the output before the first step'
            )
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
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """The states of the sources instead of their outputs."""
        key = described.get("key") or "*"
        key = "*" if key == "flat" else key
        return {**described, "from": [f"{name}/state:{key}" for name in names_of_sources(described, None)]}

    def compute(self, *states: Tensor) -> Tensor:
        """{…, n}, {…, n} → {…, n'}"""
        if self.combine == "add":
            feature = states[0].feature_dim
            y = reduce(add, (x if x.feature_dim is feature else _in(x, feature) for x in states))
        elif self.combine == "concat":
            y = states[0] if len(states) == 1 else concat_features(*states)
        else:
            raise NetworkError(
                "get_last_hidden_state: there is no such combine", got=self.combine, expected="concat, add"
            )
        if self.out_dim is None or self.out_dim is y.feature_dim:
            return y
        return set_feature_dim(_in(y, self.out_dim), self.out_dim)


def _in(x: Tensor, feature: Dim | None) -> Tensor:
    """With another dim for the features."""
    assert x.feature_dim is not None
    assert feature is not None
    return replace_dim(x, in_dim=x.feature_dim, out_dim=feature)[0]
