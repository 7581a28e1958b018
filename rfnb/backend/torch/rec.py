"""Recurrent layers on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import torch
from torch._C._functorch import is_batchedtensor

from rfnb.backend.torch.grad import reaching
from rfnb.backend.torch.tape import scan_raw

Raw = torch.Tensor
CLOSED = 1e4  # its sigmoid is exactly 1, that of its negative exactly 0


class TorchRec:
    """The raw part of `backend.base.rec`."""

    @staticmethod
    def gates_in_order_raw(
        ff_weight: Raw, rec_weight: Raw, bias: Raw | None, order: Sequence[int], forget_bias: float
    ) -> tuple[Raw, Raw, Raw | None]:
        """[4·out, in], [4·out, out], [4·out] → the same, with the gates in the order of torch's LSTM: i, f, g, o."""
        if bias is None and forget_bias:
            bias = rec_weight.new_zeros(len(rec_weight))
        pick = itemgetter(*order)
        if order != (0, 1, 2, 3):
            ff_weight, rec_weight = torch.cat(pick(ff_weight.chunk(4))), torch.cat(pick(rec_weight.chunk(4)))
        if bias is not None and (forget_bias or order != (0, 1, 2, 3)):
            i, f, g, o = pick(bias.chunk(4))
            bias = torch.cat([i, f + forget_bias if forget_bias else f, g, o])
        return ff_weight, rec_weight, bias

    @staticmethod
    def lstm_raw(
        inputs: Raw, h: Raw, c: Raw, ff_weight: Raw, rec_weight: Raw, bias: Raw | None,
        padding: Raw | None, last: Raw | None, empty: Raw | None,
    ) -> tuple[Raw, Raw, Raw]:  # fmt: skip
        """[time, batch…, in], [batch…, out] → [time, batch…, out], [batch…, out], [batch…, out]

        padding [time, batch…, 1] comes in as one more feature, whose weights open the forget gate and close the input
        gate: so the fused kernel keeps the cell of the last frame. last [1, batch…, 1]: where the output is final.
        """
        shape = inputs.shape[1:-1]
        if h.shape[:-1] not in (shape, ()) or c.shape[:-1] not in (shape, ()):
            shape = torch.broadcast_shapes(shape, h.shape[:-1], c.shape[:-1])  # which loads torch's compiler
        if padding is not None:
            inputs = torch.cat([inputs, padding.to(inputs.dtype).expand(*inputs.shape[:-1], 1)], -1)
            ff_weight = torch.cat([ff_weight, _keep_cell(rec_weight)], -1)
        count, size = inputs.shape[0], rec_weight.shape[-1]
        first_h, first_c = h.expand(*shape, size), c.expand(*shape, size)
        if count == 0:
            sources = [raw for raw in (inputs, ff_weight, rec_weight, bias) if raw is not None]
            results = (inputs.new_zeros((0, *shape, size)), first_h, first_c)
            output, h, c = (reaching(raw, sources) for raw in results)
            return output, h, c
        inputs = inputs.expand(count, *shape, -1)
        batched = any(map(is_batchedtensor, (inputs, first_h, first_c, ff_weight, rec_weight)))  # in torch.vmap
        run = _in_steps if batched or torch.compiler.is_compiling() else _fused
        output, _, cell = run(inputs, first_h, first_c, ff_weight, rec_weight, bias)
        output, c = output.view(count, *shape, size), cell.view(*shape, size)
        if last is None or padding is None:
            return output, output[-1], c
        h = output.gather(0, last.expand(1, *shape, size)).squeeze(0)
        output = output.masked_fill(padding, 0)  # so that padding gets no gradient
        return output, h if empty is None else torch.where(empty, first_h, h), c

    @staticmethod
    def lstm_step_raw(gates: Raw, h: Raw, c: Raw, rec_weight: Raw) -> tuple[Raw, Raw]:
        """[batch…, 4·out], [batch…, out] → the next h and c, as torch's LSTM has its gates: i, f, g, o."""
        if h.ndim > 2 and h.shape[:-1] == gates.shape[:-1] and h.dtype == gates.dtype:
            gates = torch.addmm(gates.flatten(0, -2), h.flatten(0, -2), rec_weight.t()).view(gates.shape)
        else:
            gates = gates + torch.matmul(h, rec_weight.t())
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def _keep_cell(rec_weight: Raw) -> Raw:
    """[4·out, 1]: closes the input gate, opens the forget gate."""
    size = rec_weight.shape[-1]
    column = rec_weight.new_zeros((4 * size, 1))
    column[:size] = -CLOSED
    column[size : 2 * size] = CLOSED
    return column


def _in_steps(inputs: Raw, h: Raw, c: Raw, ff_weight: Raw, rec_weight: Raw, bias: Raw | None) -> tuple[Raw, Raw, Raw]:
    """As `_fused`, step by step: where torch traces, so that the number of steps is not known, and in `torch.vmap`."""

    def step(states: list[Raw], gates: list[Raw]) -> tuple[list[Raw], list[Raw]]:
        h, c = TorchRec.lstm_step_raw(gates[0], states[0], states[1], rec_weight)
        return [h, c], [h]

    gates = torch.nn.functional.linear(inputs, ff_weight, bias)
    (h, c), (outputs,) = scan_raw(step, [h, c], [gates])
    return outputs, h, c


def _fused(inputs: Raw, h: Raw, c: Raw, ff_weight: Raw, rec_weight: Raw, bias: Raw | None) -> tuple[Raw, Raw, Raw]:
    if inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu"):  # many CPUs have no such kernel
        with torch.autocast("cpu", enabled=False):
            dtype = rec_weight.dtype
            return _fused(inputs.to(dtype), h.to(dtype), c.to(dtype), ff_weight.to(dtype), rec_weight, bias)
    size = rec_weight.shape[-1]
    states = [h.reshape(1, -1, size), c.reshape(1, -1, size)]
    inputs = inputs.reshape(inputs.shape[0], -1, inputs.shape[-1])
    weights = [ff_weight, rec_weight] if bias is None else [ff_weight, rec_weight, bias, torch.zeros_like(bias)]
    train = torch.is_grad_enabled()
    frames = inputs[:1] if inputs.is_meta else inputs  # shapes alone would take torch as long as numbers, or longer
    outputs, h, c = torch.lstm(frames, states, weights, bias is not None, 1, 0.0, train, False, False)
    return outputs.repeat(len(inputs), 1, 1) if inputs.is_meta else outputs, h, c
