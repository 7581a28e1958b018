"""Recurrent layers in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import ragged, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, frame_numbers
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

State = tuple[Tensor, Tensor]


class RecOps:
    """Raw part: `lstm_raw` over time, `lstm_step_raw` for one step."""

    lstm_raw: Callable[..., tuple[Any, Any, Any]]
    lstm_step_raw: Callable[[Any, Any, Any, Any], tuple[Any, Any]]

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
    ) -> tuple[Tensor, State]:
        """An LSTM over `spatial_dim`; the states are those at the end of each sequence.

        {…, spatial_dim, in_dim}, {…, out_dim} → {…, spatial_dim, out_dim}, ({…, out_dim}, {…, out_dim})
        """
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
        gates = _gates(ff_weight, in_dim)
        batch = _batch([source, state_h, state_c], (spatial_dim, in_dim, out_dim))
        source = cls.finite_operand(source)
        lengths = join(source, state_h, state_c)
        inputs = align.apply(align.move(source.dims, [spatial_dim, *batch, in_dim], trailing=False), source._raw)
        h, c = (_placed(x, [*batch, out_dim]) for x in (state_h, state_c))
        weights = (
            _placed(ff_weight, [gates, in_dim]),
            _placed(rec_weight, [gates, out_dim]),
            None if bias is None else bias._raw,
        )
        ends = _ends(cls, source, spatial_dim, batch, lengths)
        output, h, c = cls.lstm_raw(inputs, h, c, *weights, *ends)
        final = align.sig([*batch, out_dim], None, out_dim)
        out = align.sig([spatial_dim, *batch, out_dim], None, out_dim)
        return tensor_of(output, out, lengths), (tensor_of(h, final, lengths), tensor_of(c, final, lengths))

    @classmethod
    def lstm_step(
        cls: type[Backend],
        gates: Tensor,
        *,
        state_h: Tensor,
        state_c: Tensor,
        rec_weight: Tensor,
        gate_dim: Dim,
        out_dim: Dim,
    ) -> State:
        """One step, from the contribution of the input to the gates.

        {…, gate_dim}, {…, out_dim} → ({…, out_dim}, {…, out_dim})
        """
        batch = _batch([gates, state_h, state_c], (gate_dim, out_dim))
        lengths = join(gates, state_h, state_c)
        h, c = (_placed(x, [*batch, out_dim]) for x in (state_h, state_c))
        h, c = cls.lstm_step_raw(_placed(gates, [*batch, gate_dim]), h, c, _placed(rec_weight, [gate_dim, out_dim]))
        final = align.sig([*batch, out_dim], None, out_dim)
        return tensor_of(h, final, lengths), tensor_of(c, final, lengths)


def _batch(tensors: Sequence[Tensor], inner: Sequence[Dim]) -> list[Dim]:
    """All dims but the inner ones, in the order of the first tensor."""
    batch: list[Dim] = []
    for x in tensors:
        batch += [dim for dim in x.dims if dim not in inner and dim not in batch]
    return batch


def _placed(x: Tensor, order: Sequence[Dim]) -> Any:
    return align.apply(align.move(x.dims, order, trailing=False), x._raw)


def _gates(ff_weight: Tensor, in_dim: Dim) -> Dim:
    axis_of("lstm", ff_weight, in_dim, "ff_weight")
    gates = [dim for dim in ff_weight.dims if dim is not in_dim]
    if len(gates) != 1:
        raise DimError("lstm: `ff_weight` has different dims", got=ff_weight.describe_dims(), expected="{4*out, in}")
    return gates[0]


def _ends(
    backend: type[Backend], source: Tensor, spatial_dim: Dim, batch: Sequence[Dim], lengths: Lengths
) -> tuple[Any, ...]:
    """With padding: its mask [time, batch…], and for each sequence the last frame and whether it is empty."""
    if not ragged(source, spatial_dim):
        return (None, None, None)
    size = size_in(source, spatial_dim)
    device = backend.device_key_raw(source._raw)
    key = ("lstm", spatial_dim.serial, source.sig.serial, tuple(dim.serial for dim in batch), device)

    def make() -> tuple[Any, ...]:
        n = size.over(batch)
        padding = frame_numbers(size.max)[:, *[None] * n.ndim] >= n
        empty = (n == 0)[..., None]
        raws = (padding[..., None], np.maximum(n - 1, 0)[None, ..., None], empty if empty.any() else None)
        return tuple(raw if raw is None else backend.from_numpy_raw(raw, device) for raw in raws)

    return lengths.cached(key, make)
