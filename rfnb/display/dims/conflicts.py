"""Probable mistakes with dims: equal names, one Dim under different lengths, and sizes that agree by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.display.dims.uses import DimUse, Uses

MOST = 3
"""Largest number of dims and tensors named in a sentence."""


def lengths_of(use: DimUse) -> Lengths:
    """The current lengths of a dim; after a reset, those of a tensor that has it."""
    if not use.sizes or use.dim.lengths.size(use.dim) is not None:
        return use.dim.lengths
    return EMPTY.bind({use.dim: use.sizes[-1][1]})


def size_of(use: DimUse) -> Size | None:
    """The size of a dim under lengths; None if unknown."""
    return lengths_of(use).size(use.dim)


def by_name(found: Sequence[DimUse]) -> dict[str, list[DimUse]]:
    """The dims by name."""
    groups: dict[str, list[DimUse]] = {}
    for use in found:
        groups.setdefault(use.dim.name, []).append(use)
    return groups


def namesakes(use: DimUse, group: Sequence[DimUse], names: Mapping[int, str]) -> list[str]:
    """A sentence about other dims of the same name, if there are some."""
    twins = [twin for twin in group if twin is not use]
    if not twins:
        return []
    words = ", ".join(names[twin.dim.serial] for twin in twins[:MOST]) + (", …" if len(twins) > MOST else "")
    own_size = size_of(use)
    differ = any(own_size and (size := size_of(twin)) and not own_size.agrees(size) for twin in twins)
    return [f"same name as {words}, not the same Dim{', and not the same size' if differ else ''}"]


def rebound(use: DimUse) -> list[str]:
    """A sentence about tensors that were made under other lengths than the current ones."""
    current = size_of(use)
    old = [(name, size) for name, size in use.sizes if current is not None and not size.agrees(current)]
    return [
        f"other {'lengths' if size.dims else 'size'} in {name}: {_span(size)}{size.place()}"
        for name, size in old[:MOST]
    ]


def _span(size: Size) -> str:
    if not size.values.ndim or not size.ragged:
        return str(size.max)
    return f"{int(size.values.min())}–{size.max} Σ{int(size.values.sum())}"


def by_chance(uses: Uses, names: Mapping[int, str]) -> dict[int, list[str]]:
    """Notes, by serial, on dims of equal size that occur in one tensor without being related."""
    pairs: dict[int, dict[int, str]] = {}
    for tensor, dims in uses.together.items():
        for a, b in combinations(dims[:8], 2):
            if _sizes_alike(uses.by_serial[a.serial], uses.by_serial[b.serial]):
                pairs.setdefault(a.serial, {}).setdefault(b.serial, tensor)
                pairs.setdefault(b.serial, {}).setdefault(a.serial, tensor)
    return {
        serial: [f"has the size of {names[peer]} in {tensor}" for peer, tensor in list(peers.items())[:MOST]]
        for serial, peers in pairs.items()
    }


def _sizes_alike(a: DimUse, b: DimUse) -> bool:
    size_a, size_b = size_of(a), size_of(b)
    if size_a is None or size_b is None or size_a.max != size_b.max or size_a.max < 2:
        return False
    return a.dim.base is not b.dim.base and not set(a.dim.roots) & set(b.dim.roots)
