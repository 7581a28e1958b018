"""Recurrent layers in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.math import join
from rfnb.backend.base.rec import outer_dims
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.ops.matmul import linear

State = tuple[Tensor, Tensor]


@guarded
def lstm(
    source: Tensor,
    *,
    state_h: Tensor,
    state_c: Tensor,
    ff_weight: Tensor,
    rec_weight: Tensor,
    bias: Tensor | None,
    spatial_dim: Dim,
    in_dim: Dim,
    out_dim: Dim,
) -> tuple[Tensor, State]:
    """An LSTM over `spatial_dim`, and its state at the end of each sequence.

    {…, spatial_dim, in_dim}, states {…, out_dim} → {…, spatial_dim, out_dim}, ({…, out_dim}, {…, out_dim})

    ff_weight {4*out, in}, rec_weight {4*out, out}, bias {4*out}: input gate, forget gate, cell, output gate.
    With `spatial_dim=rf.single_step_dim` it computes one step, from a source without that dim.

    >>> time, feat, out = rf.Dim(5, name="time"), rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> gates, old = 4 * out, out.copy(match_priority=1)
    >>> weights = {"ff_weight": rf.ones([gates, feat]), "rec_weight": rf.ones([gates, old]), "bias": None}
    >>> state = {"state_h": rf.zeros([out]), "state_c": rf.zeros([out])}
    >>> y, (h, c) = rf.lstm(rf.ones([time, feat]), **state, **weights, spatial_dim=time, in_dim=feat, out_dim=out)
    >>> y.dims == (time, out), h.dims == (out,)
    (True, True)
    """
    if spatial_dim is single_step_dim:
        [gate_dim] = [dim for dim in ff_weight.dims if dim is not in_dim]
        gates = linear(source, ff_weight, bias, in_dim=in_dim, out_dim=gate_dim)
        state = {"state_h": state_h, "state_c": state_c}
        h, c = _lstm_step(gates, **state, rec_weight=rec_weight, gate_dim=gate_dim, out_dim=out_dim)
        return h, (h, c)
    return lstm_in_order(**locals())


@op(name="lstm")
def lstm_in_order(source: Tensor, **options: object) -> tuple[Tensor, State]:
    """`lstm` over a sequence, with weights whose gates have another order; options: see `RecOps.lstm`."""
    return backend_of_raw(source._raw).lstm(source, **options)


@op(name="lstm_step")
def _lstm_step(
    gates: Tensor, *, state_h: Tensor, state_c: Tensor, rec_weight: Tensor, gate_dim: Dim, out_dim: Dim
) -> State:
    """One step, from what the input adds to the gates. {…, gate_dim}, {…, out_dim} twice → {…, out_dim} twice"""
    backend: type[Backend] = backend_of_raw(gates._raw)
    batch = outer_dims([gates, state_h, state_c], (gate_dim, out_dim))
    lengths = join(gates, state_h, state_c)
    h, c = (_placed(x, [*batch, out_dim]) for x in (state_h, state_c))
    h, c = backend.lstm_step_raw(_placed(gates, [*batch, gate_dim]), h, c, _placed(rec_weight, [gate_dim, out_dim]))
    final = align.sig([*batch, out_dim], None, out_dim)
    return tensor_of(h, final, lengths), tensor_of(c, final, lengths)


def _placed(x: Tensor, order: Sequence[Dim]) -> RawTensor:
    return align.apply(align.move(x.dims, order, trailing=False), x._raw)
