"""Selection of layers and heads, or their mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.display.attention.weights import SEVERAL, Weights
from rfnb.display.kit import options
from rfnb.display.kit.data import to_numpy
from rfnb.display.kit.degrade import Notes
from rfnb.errors import ViewError


def choose(weights: Weights, layer: int | str | None, head: int | str | None, notes: Notes) -> Weights:
    """Only one layer, or one head of each layer; "mean" averages over them. Raises ViewError if it does not exist."""
    if head is not None:
        weights = _mean_of_heads(weights, notes) if head == "mean" else _of_head(weights, head)
    if layer is not None:
        weights = _mean_of_layers(weights, notes) if layer == "mean" else _of_layer(weights, layer)
    weights = _of_first_rows(weights, options.FINITE_ENTRIES // max(1, weights.full[1]), notes)
    limit = max(1, min(options.ATTENTION_HEADS, options.FINITE_ENTRIES // max(1, weights.full[0] * weights.full[1])))
    if len(weights.raws) * len(weights.heads) > limit:
        fewer = max(1, limit // max(1, len(weights.heads)))
        heads = weights.heads[:limit]
        notes.add(
            f"the first {fewer} of {len(weights.raws)} layers, {len(heads)} of {len(weights.heads)} "
            f"{SEVERAL[weights.unit]}"
        )
        weights = replace(
            weights, raws=weights.raws[:fewer], layers=weights.layers[:fewer], names=weights.names[:fewer], heads=heads
        )
    return weights


def _of_first_rows(weights: Weights, most: int, notes: Notes) -> Weights:
    if weights.full[0] <= max(1, most):
        return weights
    notes.add(f"the first {most} of {weights.full[0]} rows")
    rows = replace(weights.rows, size=min(weights.rows.size, most))
    return replace(weights, raws=[raw[:, :most] for raw in weights.raws], rows=rows)


def _of_head(weights: Weights, head: Any) -> Weights:
    at = _place(weights.heads, head, weights.unit)
    return replace(weights, raws=[raw[at : at + 1] for raw in weights.raws], heads=[weights.heads[at]])


def _of_layer(weights: Weights, layer: Any) -> Weights:
    at = weights.names.index(layer) if layer in weights.names else _place(weights.layers, layer, "layer")
    return replace(
        weights, raws=[weights.raws[at]], layers=[weights.layers[at]], names=[weights.names[at]],
        name=weights.names[at] or weights.name,
    )  # fmt: skip


def _place(numbers: list[int], asked: Any, what: str) -> int:
    count = len(numbers)
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer) or not -count <= asked < count:
        raise ViewError(f"show_attention: no such {what}", got=repr(asked), expected=f'0 to {count - 1}, or "mean"')
    return int(asked) % count


def _mean_of_heads(weights: Weights, notes: Notes) -> Weights:
    notes.add(f"mean over {len(weights.heads)} {SEVERAL[weights.unit]}")
    raws = [to_numpy(raw).mean(axis=0, keepdims=True, dtype=np.float32) for raw in weights.raws]
    return replace(weights, raws=raws, heads=[-1])


def _mean_of_layers(weights: Weights, notes: Notes) -> Weights:
    notes.add(f"mean over {len(weights.raws)} layers")
    mean = np.mean([to_numpy(raw) for raw in weights.raws], axis=0, dtype=np.float32)
    return replace(weights, raws=[mean], layers=[-1], names=[""])
