"""Recurrent layers in one kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import ragged, require_no_inner_dims, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, frame_numbers
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

State = tuple[Tensor, Tensor]


class LstmPlan(NamedTuple):
    """Moves of the source, the states and the weights, and the signatures of the output and the states."""

    moves: Sequence[align.Move]
    out: weakref.ref[align.Sig]
    final: weakref.ref[align.Sig]


class RecOps:
    """Raw part: `gates_in_order_raw` for weights, `lstm_raw` over time, `lstm_step_raw` for one step."""

    gates_in_order_raw: Callable[..., tuple[RawTensor, RawTensor, RawTensor]]
    lstm_raw: Callable[..., tuple[RawTensor, RawTensor, RawTensor]]
    lstm_step_raw: Callable[[RawTensor, RawTensor, RawTensor, RawTensor], tuple[RawTensor, RawTensor]]

    @classmethod
    def lstm(
        cls: type[Backend],
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
        order: Sequence[int] = (0, 1, 2, 3),
        forget_bias: float = 0.0,
    ) -> tuple[Tensor, State]:
        """An LSTM over `spatial_dim`; the states are those at the end of each sequence.

        {…, spatial_dim, in_dim}, {…, out_dim} → {…, spatial_dim, out_dim}, ({…, out_dim}, {…, out_dim})

        Args:
            order: where the weights have the input gate, the forget gate, the cell and the output gate.
            forget_bias: is added to the bias of the forget gate.
        """
        operands = source, state_h, state_c, ff_weight, rec_weight
        key = ("lstm", state_h.sig.serial, state_c.sig.serial, ff_weight.sig.serial, rec_weight.sig.serial,
               spatial_dim.serial, in_dim.serial, out_dim.serial)  # fmt: skip
        plan = source.sig.plans.get(key)
        out, final = (None, None) if plan is None else (plan.out(), plan.final())
        if plan is None or out is None or final is None:
            out, final, plan = _plan(*operands, spatial_dim, in_dim, out_dim)
            source.sig.keep(key, plan)
        if spatial_dim in source.lengths.owners:
            require_no_inner_dims("lstm", source, [spatial_dim])
        source, lengths, raws = cls.finite_operand(source), source.lengths, []
        for x, how in zip((source, *operands[1:]), plan.moves, strict=True):
            raws.append(x._raw if how is None else cls.move_raw(x._raw, how))
            if x.lengths is not EMPTY and x.lengths is not lengths:
                lengths = lengths.join(x.lengths, source.sig, x.sig)
        inputs, h, c, *weights = raws
        in_order = cls.gates_in_order_raw(*weights, None if bias is None else bias._raw, order, forget_bias)
        output, h, c = cls.lstm_raw(inputs, h, c, *in_order, *_ends(cls, source, spatial_dim, final, lengths))
        return tensor_of(output, out, lengths), (tensor_of(h, final, lengths), tensor_of(c, final, lengths))


def outer_dims(tensors: Sequence[Tensor], inner: Sequence[Dim]) -> list[Dim]:
    """All dims but the inner ones, in the order of the first tensor."""
    batch: list[Dim] = []
    for x in tensors:
        batch += [dim for dim in x.dims if dim not in inner and dim not in batch]
    return batch


def _plan(
    source: Tensor, state_h: Tensor, state_c: Tensor, ff_weight: Tensor, rec_weight: Tensor,
    spatial_dim: Dim, in_dim: Dim, out_dim: Dim,
) -> tuple[align.Sig, align.Sig, LstmPlan]:  # fmt: skip
    axis_of("lstm", source, spatial_dim)
    axis_of("lstm", source, in_dim)
    for name, state in (("state_h", state_h), ("state_c", state_c)):
        if spatial_dim in state.sig.index:
            raise DimError(
                f"lstm: `{name}` has {spatial_dim.name}, over which the sequence runs",
                got=state.describe_dims(),
                expected=f"a state without {spatial_dim.name}",
                dims=[spatial_dim],
            )
    axis_of("lstm", ff_weight, in_dim, "ff_weight")
    gates = [dim for dim in ff_weight.dims if dim is not in_dim]
    if len(gates) != 1:
        raise DimError("lstm: `ff_weight` has different dims", got=ff_weight.describe_dims(), expected="{4*out, in}")
    batch = outer_dims([source, state_h, state_c], (spatial_dim, in_dim, out_dim))
    final = align.sig([*batch, out_dim], None, out_dim)
    out = align.sig([spatial_dim, *batch, out_dim], None, out_dim)
    orders = [spatial_dim, *batch, in_dim], final.dims, final.dims, [*gates, in_dim], [*gates, out_dim]
    operands = source, state_h, state_c, ff_weight, rec_weight
    moves = [align.move(x.dims, order, trailing=False) for x, order in zip(operands, orders, strict=True)]
    return out, final, LstmPlan(moves, weakref.ref(out), weakref.ref(final))


def _ends(
    backend: type[Backend], source: Tensor, spatial_dim: Dim, final: align.Sig, lengths: Lengths
) -> tuple[RawTensor, ...]:
    """With padding: its mask [time, batch…], and for each sequence the last frame and whether it is empty."""
    if not lengths.ragged:
        return (None, None, None)
    device = backend.device_key_raw(source._raw)

    def make() -> tuple[RawTensor, ...]:
        if not ragged(source, spatial_dim):
            return (None, None, None)
        size = size_in(source, spatial_dim)
        n = size.over(final.dims[:-1])
        padding = frame_numbers(size.max)[:, *[None] * n.ndim] >= n
        empty = (n == 0)[..., None]
        raws = (padding[..., None], np.maximum(n - 1, 0)[None, ..., None], empty if empty.any() else None)
        return tuple(raw if raw is None else backend.from_numpy_raw(raw, device) for raw in raws)

    return lengths.cached(("lstm", spatial_dim.serial, source.sig.serial, final.serial, device), make)
