"""The LSTM over a whole sequence, and its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state, state_of_another
from rfnb.nn.layers.linear import to_input, weight
from rfnb.nn.module.module import Module
from rfnb.ops.create import zeros
from rfnb.ops.index import one_hot
from rfnb.ops.rec import lstm


class LstmState(State):
    """The state of an LSTM: the output `h` and the cell `c`, both {…, out_dim}.

    >>> out = rf.Dim(4, name="out")
    >>> state = rf.LstmState(h=rf.zeros([rf.batch_dim, out]), c=rf.zeros([rf.batch_dim, out]))
    >>> list(state), state.h is state["h"]
    (['h', 'c'], True)
    """

    def __init__(self, *_args: object, h: Tensor | None = None, c: Tensor | None = None):
        super().__init__(*_args)
        if not _args:
            self.h = h
            self.c = c


class LSTM(Module):
    """Long short-term memory (Hochreiter & Schmidhuber 1997). {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> lstm = rf.LSTM(inp, out)
    >>> state = lstm.default_initial_state(batch_dims=[])
    >>> y, state = lstm(rf.zeros([time, inp]), state=state, spatial_dim=time)
    >>> y.dims == (time, out), state.h.dims == (out,)
    (True, True)

    For a single step, as in the body of a loop: `spatial_dim=rf.single_step_dim`, and a source without that dim.
    The parts of the weights are, in this order: input gate, forget gate, cell, output gate.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True):
        check_dims([in_dim, out_dim])
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.ff_weight = weight([4 * out_dim, in_dim], input_axis=1)
        self.rec_weight = weight([4 * out_dim, out_dim], input_axis=1)
        self.bias = Parameter([4 * out_dim]) if with_bias else None

    def __call__(self, source: Tensor, *, state: State, spatial_dim: Dim) -> tuple[Tensor, LstmState]:
        """The outputs, and the state after the last valid frame of each sequence."""
        check_recurrent_state(state, f"{type(self).__name__}: `state`", ("h", "c"), self.out_dim)
        return lstm_over(
            source,
            state,
            ff_weight=self.ff_weight,
            rec_weight=self.rec_weight,
            bias=self.bias,
            spatial_dim=spatial_dim,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
            gate_dim=4 * self.out_dim,
        )

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> LstmState:
        """Zeros. → {batch_dims, out_dim} each"""
        check_dims(batch_dims, "default_initial_state: `batch_dims`")
        dims, like = [*batch_dims, self.out_dim], self.rec_weight
        h, c = (zeros(dims, dtype=like.dtype, device=like.device, feature_dim=self.out_dim) for _ in "hc")
        return LstmState(h=h, c=c)


def check_recurrent_state(
    state: Any, what: str, parts: Sequence[str], out_dim: Dim, others: Sequence[str] = ()
) -> None:
    """Raises an error if `state` does not consist of Tensors {…, out_dim} named `parts`.

    what: the argument, for the message. others: further names that may be there.
    """
    check_state(state, what, parts)
    for name, value in state.items():
        if name not in parts and name not in others:
            raise state_of_another(state, what, f"it also has {name!r}", parts)
        if not isinstance(value, Tensor):
            raise not_a_tensor(f"{what}: {name!r}", value)
        if out_dim not in value.sig.index:
            raise state_of_another(state, what, f"{name!r} is {value.describe_dims()}, without {out_dim.name}", parts)


def lstm_over(
    source: Tensor,
    state: State,
    *,
    ff_weight: Tensor,
    rec_weight: Tensor,
    bias: Tensor | None,
    spatial_dim: Dim,
    in_dim: Dim,
    out_dim: Dim,
    gate_dim: Dim,
    run: Callable[..., tuple[Tensor, tuple[Tensor, Tensor]]] = lstm,
) -> tuple[Tensor, LstmState]:
    """`rf.lstm` for modules: `in_dim` may be `out_dim`, and a source that is sparse in it is treated as one-hot."""
    source = one_hot(source) if source.sig.sparse_dim is in_dim else source
    first, second = ff_weight.sig.dims  # of any order
    weight_dim = first if second is gate_dim else second
    out, (h, c) = run(
        source if weight_dim is in_dim else to_input(source, in_dim, weight_dim),
        state_h=state["h"],
        state_c=state["c"],
        ff_weight=ff_weight,
        rec_weight=rec_weight,
        bias=bias,
        spatial_dim=spatial_dim,
        in_dim=weight_dim,
        out_dim=out_dim,
    )
    return out, LstmState({"h": h, "c": c})
