"""Transforms of weights: from the sources of a table's row to its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

IN_ONE = "in one"
"""Queries, keys and values in one weight, head by head as in rfnb, or, which is not known, in three blocks."""
Transform = Callable[[Sequence[torch.Tensor], Any], torch.Tensor]


def _turned(weight: torch.Tensor) -> torch.Tensor:
    """{out, in} → {in, out}; a bias is left unchanged."""
    return weight.T if weight.ndim == 2 else weight


def _heads(parts: Sequence[torch.Tensor], attention: Any, *, halves: bool = False) -> torch.Tensor:
    """Blocks of queries, keys, values → head by head. Keys and values with fewer heads are repeated."""
    heads = attention.num_heads.dimension
    totals = {2: (attention.key_dim_total, attention.value_dim_total)}
    sizes = [dim.dimension for dim in totals.get(len(parts), (attention.key_dim_total, *totals[2]))]
    split = [_of_heads(part, heads, size // heads) for part, size in zip(parts, sizes, strict=True)]
    if halves:
        split[:2] = [_neighbours(part) for part in split[:2]]
    return _turned(torch.cat(split, dim=1).flatten(0, 1))


def _of_heads(part: torch.Tensor, heads: int, per_head: int) -> torch.Tensor:
    """{heads · per_head, …} → {heads, per_head, …}"""
    weight = part.unflatten(0, (-1, per_head))
    return weight.repeat_interleave(heads // len(weight), dim=0) if len(weight) < heads else weight


def _neighbours(part: torch.Tensor) -> torch.Tensor:
    """Pairs of feature i and i + half → pairs of adjacent features, which rotary positions rotate in rfnb."""
    return part.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def _of_three(fused: torch.Tensor, attention: Any) -> Sequence[torch.Tensor]:
    key, value = attention.key_dim_total.dimension, attention.value_dim_total.dimension
    return fused.split([key, key, value])


def _blocks(parts: Sequence[torch.Tensor], attention: Any) -> Sequence[torch.Tensor]:
    return _of_three(parts[0], attention) if len(parts) == 1 else parts


def _gates(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The blocks of reset gate and update gate, without that of the candidate, of a GRU."""
    return torch.cat(parts[0].chunk(3)[:2])


def _bias_of_gru(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of both biases, except the candidate's recurrent bias, which is separate: the reset gate scales it."""
    of_input, of_state = parts
    return of_input + torch.cat([_gates([of_state]), torch.zeros_like(of_state.chunk(3)[2])])


TRANSFORMS: dict[str, Transform] = {
    "same": lambda parts, _: parts[0],
    "transposed": lambda parts, _: _turned(parts[0]),
    "sum": lambda parts, _: torch.stack(list(parts)).sum(0),
    "joined": lambda parts, _: _turned(torch.cat(list(parts))),
    IN_ONE: lambda parts, _: _turned(parts[0]),
    "heads": lambda parts, attention: _heads(_blocks(parts, attention), attention),
    "heads, halves": lambda parts, attention: _heads(_blocks(parts, attention), attention, halves=True),
    "gates": lambda parts, _: _turned(_gates(parts)),
    "candidate": lambda parts, _: _turned(parts[0].chunk(3)[2]),
    "bias of GRU": lambda parts, _: _bias_of_gru(parts),
    "queries": lambda parts, attention: _turned(_of_three(parts[0], attention)[0]),
    "keys and values": lambda parts, attention: _heads(_of_three(parts[0], attention)[1:], attention),
}
"""Functions of the sources and of the module around the target's module, by the names that tables use."""
