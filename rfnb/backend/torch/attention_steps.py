"""Which sequence of the last step each row of a batch continues: its keys begin with those of that sequence.

A decoder that keeps its keys and values copies them from step to step, also where a beam search moves hypotheses to
other rows of the batch. So the values of the positions before a step tell what it continues, whoever wrote the loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from rfnb.backend.base.attention import RawStep

FEATURES = 8
"""So many features of the first head stand for the values of a position."""
NEAR = 1e-3
"""Values that are computed again differ by rounding only."""
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class _Call:
    """A call at a place: numbers for the values up to each position [batch, keys], and how many queries came so far."""

    sums: torch.Tensor
    sample: torch.Tensor
    position: int


class StepFinder:
    """Compares each call with the last one at its place. Of each place, the numbers of one call are kept."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Call] = {}

    def next(self, place: Hashable, call: int, rows: int, values: torch.Tensor) -> RawStep:
        """How a call with so many queries continues the last one. values: [batch, …, keys, features]"""
        sample = values.detach().flatten(1, -3)[:, 0] if values.dim() > 3 else values.detach()
        sample = sample[..., :FEATURES].contiguous()
        last, sums = self._last.get(place), _sums(sample)
        count = sums.shape[1]
        same = last is not None and last.sums.shape[1] == count
        step = RawStep(call) if last is None else _compare(last, sums, sample, rows, call)
        before = 0 if last is None or step.keys == "new" else last.position
        self._last[place] = _Call(sums, sample, before + rows if same or last is None else count)
        return step


def _compare(last: _Call, sums: torch.Tensor, sample: torch.Tensor, rows: int, call: int) -> RawStep:
    count, before = sums.shape[1], last.sums.shape[1]
    if count == before and (found := _parents(last.sums[:, -1], sums[:, -1])) is not None:
        return RawStep(call, "same", *found)
    old = count - rows
    if 0 < old <= before and (found := _parents(last.sums[:, old - 1], sums[:, old - 1])) is not None:
        return RawStep(call, "more", *found)
    old = last.position
    if count == before and 0 < old < count and (found := _parents(last.sums[:, old - 1], sums[:, old - 1])) is not None:
        return RawStep(call, "written", *found)
    if rows == count > before and _are_near(last.sample[:, -1], sample[:, before - 1]):
        return RawStep(call, "again")
    return RawStep(call)


def _parents(last: torch.Tensor, now: torch.Tensor) -> tuple[tuple[int, ...], bool] | None:
    """The place of each number in those of the last call, if all are there; and whether some are there twice."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(last.tolist()):
        places.setdefault(number, []).append(place)
    found = [places.get(number, []) for number in now.tolist()]
    if not all(found):
        return None
    parents = tuple(row if row in candidates else candidates[0] for row, candidates in enumerate(found))
    return parents, any(len(candidates) > 1 for candidates in found)


def _are_near(last: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether each row is one of the last call, but for rounding."""
    difference = (now[:, None].float() - last[None].float()).abs().amax(-1)
    return bool((difference.amin(1) <= NEAR * (1 + last.float().abs().amax())).all())


def _sums(sample: torch.Tensor) -> torch.Tensor:
    """A whole number for the values up to each position, by their bits: the same for copies. [batch, keys]"""
    bits = sample.view(BITS[sample.element_size()]).long()
    count = bits.shape[1]
    factors = torch.from_numpy(_factors(1 << (FEATURES + count).bit_length())).to(bits.device)
    return ((bits * factors[: bits.shape[2]]).sum(-1) * factors[FEATURES : FEATURES + count]).cumsum(1)


@cache
def _factors(count: int) -> np.ndarray:
    """Odd numbers; of more, the first ones are the same."""
    return np.random.default_rng(0).integers(2**62, size=count, dtype=np.int64) | 1


def sequences_of(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """Values [batch · heads, keys, features] as [batch, heads, keys, features], for weights of a shape."""
    if values.shape[-2] != shape[-1]:
        return None
    if values.dim() == 2:
        return values[None]
    batch = shape[0] if len(shape) > 2 else 1
    return values.reshape(batch, -1, *values.shape[-2:]) if values[..., 0, 0].numel() % max(1, batch) == 0 else None
