"""Losses on torch tensors, and connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

from rfnb.errors import DimError

NO_LABEL = -(2**62)


class TorchLoss:
    """The raw part of `backend.base.loss`."""

    @staticmethod
    def cross_entropy_raw(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """-log softmax(logits)[label], over the last axis."""
        if labels.dtype is not torch.int64:
            labels = labels.long()
        is_batch = labels.dim() > 1
        rows, flat = (logits.flatten(0, -2), labels.flatten()) if is_batch else (logits, labels)
        loss = functional.cross_entropy(rows, flat, reduction="none", ignore_index=NO_LABEL)
        return loss.view_as(labels) if is_batch else loss

    @staticmethod
    def edit_distance_raw(a: torch.Tensor, a_len: torch.Tensor, b: torch.Tensor, b_len: torch.Tensor) -> torch.Tensor:
        """[…, a], […], […, b], […] → […]. Computed one row of the table at a time."""
        shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1], a_len.shape, b_len.shape)  # torch's loads its compiler
        b_len = b_len.expand(shape).unsqueeze(-1)
        columns = torch.arange(b.shape[-1] + 1, device=b.device)
        row = columns.expand(*shape, -1)
        result = row.gather(-1, b_len).squeeze(-1)
        for i in range(a.shape[-1]):
            replaced = row[..., :-1] + (a[..., i : i + 1] != b)
            best = torch.cat([row[..., :1] + 1, torch.minimum(replaced, row[..., 1:] + 1)], -1)
            row = (best - columns).cummin(-1).values + columns  # each insertion costs 1
            result = torch.where(a_len == i + 1, row.gather(-1, b_len).squeeze(-1), result)
        return result


NEVER = -1e30
"""The score of an impossible state. It is finite, so that sums of it do not give NaN gradients."""


class AlignmentStates(NamedTuple):
    """States of an alignment: blank, label 1, blank, label 2, …, blank, and their transitions. All [batch, state].

    may_stay: whether a state may take several frames. may_skip: whether the blank before it may be left out.
    """

    symbols: torch.Tensor
    may_stay: torch.Tensor
    may_skip: torch.Tensor


def _states(targets: torch.Tensor, blank: int, label_loop: bool) -> AlignmentStates:
    symbols = targets.new_full((targets.shape[0], 2 * targets.shape[1] + 1), blank)
    symbols[:, 1::2] = targets
    is_label = (torch.arange(symbols.shape[1], device=targets.device) % 2 == 1).expand_as(symbols)
    if not label_loop:
        return AlignmentStates(symbols, ~is_label, is_label)
    earlier = torch.nn.functional.pad(symbols, (2, 0), value=-1)[:, :-2]
    return AlignmentStates(symbols, torch.ones_like(is_label), is_label & (symbols != earlier))


Combine = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]]


def _sum(scores: torch.Tensor) -> tuple[torch.Tensor, None]:
    return scores.logsumexp(0), None


def _max(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    best = scores.max(0)
    return best.values, best.indices


def _forward(
    log_probs: torch.Tensor, frames: torch.Tensor, labels: torch.Tensor, states: AlignmentStates, combine: Combine
) -> tuple[torch.Tensor, list[Any]]:
    """The score of all alignments, or of the best one, [batch]; for each frame, how many states back the best path into
    each state comes from; and whether the best path ends in the last label. Graves et al. 2006, section 4.1.
    """
    emissions = log_probs.gather(2, states.symbols.expand(len(log_probs), -1, -1)).clamp(min=NEVER)
    scores = torch.full_like(states.symbols, NEVER, dtype=log_probs.dtype)
    begin = scores.new_tensor([NEVER, 0.0]).expand(len(scores), -1)  # before the first two states
    behind = begin.new_tensor([NEVER, NEVER]).expand_as(begin)
    ways: list[Any] = []
    for t, emission in enumerate(emissions):
        ahead = torch.cat([behind if t else begin, scores], 1)
        stay, skip = states.may_stay, states.may_skip
        moves = [torch.where(stay, scores, NEVER), ahead[:, 1:-1], torch.where(skip, ahead[:, :-2], NEVER)]
        entered, way = combine(torch.stack(moves))
        scores = torch.where((t < frames)[:, None], entered + emission, scores)
        ways.append(way)
    final = 2 * labels[:, None]
    ends = torch.cat([scores.gather(1, final), scores.gather(1, (final - 1).clamp(min=0))], 1)
    ends = torch.where(torch.cat([final >= 0, final > 0], 1), ends, NEVER)
    total, way = combine(ends.T)
    return torch.where(frames > 0, total, torch.where(labels > 0, NEVER, 0.0)), [*ways, way]


def ctc_loss(
    log_probs: torch.Tensor,
    frames: torch.Tensor,
    targets: torch.Tensor,
    labels: torch.Tensor,
    blank: int,
    max_approx: bool,
    label_loop: bool,
) -> torch.Tensor:
    """[time, batch, class], [batch], [batch, label], [batch] → [batch], ∞ with gradient 0 if there is no alignment."""
    if has_torch_function((log_probs, targets)):  # a single raw call for recorders of raw calls
        arguments = (log_probs, frames, targets, labels, blank, max_approx, label_loop)
        return handle_torch_function(ctc_loss, (log_probs, targets), *arguments)
    if log_probs.is_meta:
        return log_probs.sum((0, 2))
    _check_labels(targets, labels, log_probs.shape[2], blank)
    if label_loop and not max_approx and log_probs.shape[0] and targets.shape[1]:
        # torch.nn.functional.ctc_loss calls this, and then replaces ∞ by 0
        return torch._ctc_loss(log_probs, targets, frames, labels, blank, zero_infinity=True)[0]
    total, _ = _forward(log_probs, frames, labels, _states(targets, blank, label_loop), _max if max_approx else _sum)
    if not log_probs.shape[0]:
        total = total + log_probs.sum()  # 0, but with a gradient function
    return torch.where(total > NEVER / 2, -total, float("inf"))


def ctc_best_path(
    log_probs: torch.Tensor,
    frames: torch.Tensor,
    targets: torch.Tensor,
    labels: torch.Tensor,
    blank: int,
    label_loop: bool,
) -> torch.Tensor:
    """[time, batch, class], [batch], [batch, label], [batch] → symbols [time, batch]; blanks without alignment."""
    if has_torch_function((log_probs, targets)):
        arguments = (log_probs, frames, targets, labels, blank, label_loop)
        return handle_torch_function(ctc_best_path, (log_probs, targets), *arguments)
    if log_probs.is_meta:
        return targets.new_zeros(log_probs.shape[:2])
    _check_labels(targets, labels, log_probs.shape[2], blank)
    states = _states(targets, blank, label_loop)
    with torch.no_grad():
        total, ways = _forward(log_probs, frames, labels, states, _max)
    state = (2 * labels - ways.pop()).clamp(min=0)[:, None]
    path = []
    for t in reversed(range(len(log_probs))):
        valid = (t < frames)[:, None]
        path.append(torch.where(valid, states.symbols.gather(1, state), blank))
        state = torch.where(valid, (state - ways[t].gather(1, state)).clamp(min=0), state)
    symbols = torch.cat(path[::-1], 1) if path else targets.new_zeros(len(targets), 0)
    return torch.where((total > NEVER / 2)[:, None], symbols, blank).T


def _check_labels(targets: torch.Tensor, labels: torch.Tensor, classes: int, blank: int) -> None:
    """Raises DimError for a label that is blank, or out of range, where kernels would read past the end.

    Checked on the CPU only.
    """
    if targets.device.type != "cpu" or not targets.numel():
        return
    first, last = int(targets.min()), int(targets.max())
    if not 0 <= first <= last < classes:
        raise DimError("ctc: a label is not a class", got=f"{first} to {last}", expected=f"0 to {classes - 1}")
    if not first <= blank <= last:
        return
    places = ((targets == blank) & (torch.arange(targets.shape[1]) < labels[:, None])).nonzero()
    if len(places):
        raise DimError(
            "ctc: a label is the blank",
            got=f"{blank} in sequence {int(places[0, 0])}, label {int(places[0, 1])}",
            expected=f"labels other than {blank}, the `blank_index`",
        )


class TorchCtc:
    """The raw part of `CtcOps` in `backend.base.loss`."""

    ctc_loss_raw = staticmethod(ctc_loss)
    ctc_best_path_raw = staticmethod(ctc_best_path)
