"""Functions that `rf.to_code` writes into files of plain torch, as they stand here. They need nothing of rfnb."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYOUT: dict[str, Any] = {}


def frame_mask(lengths: Tensor, frames: int) -> Tensor:
    """Which frames are not padding. [batch, frames]"""
    return torch.arange(frames, device=lengths.device) < lengths[:, None]


def take_frames(x: Tensor, index: Tensor) -> Tensor:
    """The frames of each sequence at these positions. [batch, frames, ...]"""
    return torch.take_along_dim(x, index.reshape(*index.shape, *[1] * (x.ndim - 2)), 1)


def reverse_sequence(x: Tensor, lengths: Tensor) -> Tensor:
    """The frames of each sequence from the last to the first; padding stays. [batch, frames, ...]"""
    frames, ends = torch.arange(x.shape[1], device=x.device), lengths[:, None]
    return take_frames(x, torch.where(frames < ends, ends - 1 - frames, frames))


def join_sequences(x: Tensor, lengths: Tensor, y: Tensor) -> Tensor:
    """The frames of y directly after those of each x; padding stays at the end. [batch, frames, ...]"""
    frames, ends = torch.arange(x.shape[1] + y.shape[1], device=x.device), lengths[:, None]
    after = (frames - ends + x.shape[1]).clamp(max=len(frames) - 1)
    return take_frames(torch.cat([x, y], 1), torch.where(frames < ends, frames, after))


def select_frames(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The frames of a mask, one after the other, and how many each sequence has. [batch, frames, ...]"""
    lengths = mask.sum(1)
    y = take_frames(x, (~mask).int().argsort(dim=1, stable=True)[:, : int(lengths.max())])
    padding = ~frame_mask(lengths, y.shape[1])
    return y.masked_fill(padding.reshape(*padding.shape, *[1] * (x.ndim - 2)), 0), lengths


def masked_moments(x: Tensor, mask: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean and the variance over axes of the frames of a mask, which has the axes of x, some of them of size 1."""
    count = mask.expand_as(x).sum(axes, keepdim=True).clamp(min=1)
    mean = x.masked_fill(~mask, 0).sum(axes, keepdim=True) / count
    variance = (x - mean).square().masked_fill(~mask, 0).sum(axes, keepdim=True) / count
    return mean.squeeze(axes), variance.squeeze(axes)


def same_padding(frames: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
    """The zeros before and after the frames of the longest sequence."""
    span = ((frames + stride - 1) // stride - 1) * stride + (size - 1) * dilation + 1
    total = max(span - frames, 0) if frames else 0
    return total // 2, total - total // 2


def run_lstm(lstm: nn.LSTM, x: Tensor, lengths: Tensor, state: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """The output at each frame, 0 in padding, and the state (h, c) after the last frame of each sequence."""
    lengths = lengths.clamp(min=1).cpu()
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, (h, c) = lstm(packed, state)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], h[0], c[0]


def ctc_loss(log_probs: Tensor, targets: Tensor, frames: Tensor, labels: Tensor, blank: int) -> Tensor:
    """CTC; infinite, with a gradient of 0, where the labels need more frames than there are. [frames, batch, class]"""
    loss = F.ctc_loss(log_probs, targets, frames, labels, blank, reduction="none", zero_infinity=True)
    repeated = (targets[:, 1:] == targets[:, :-1]) & frame_mask(labels - 1, targets.shape[1] - 1)
    return loss.masked_fill(frames < labels + repeated.sum(1), float("inf"))


def load_checkpoint(net: nn.Module, parameters: dict[str, Any]) -> None:
    """Sets the parameters of the net from those of a checkpoint, arrays by the names that a saved net has."""
    own = dict(net.named_parameters(remove_duplicate=False))
    values = dict(converted(name, torch.as_tensor(array)) for name, array in parameters.items())
    known = {id(own[name]) for name in values if name in own}
    trained = {name: id(parameter) for name, parameter in own.items() if parameter.requires_grad}
    missing = [name for name, number in trained.items() if number not in known]
    unexpected = [name for name in values if name not in own]
    if missing or unexpected:
        raise ValueError(f"the checkpoint does not fit: without {missing}, with unknown {unexpected}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)


def converted(name: str, values: Tensor) -> tuple[str, Tensor]:
    """The name here of a parameter of a checkpoint, and its values in the layout that it has here."""
    where, axes, gates = LAYOUT.get(name, (name, None, None))
    values = values if axes is None else values.permute(axes)
    return where, values if gates is None else torch.cat([values.chunk(len(gates))[i] for i in gates])
