"""Finds the weights of other libraries that the parameters of a module are made of, and converts them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from rfnb.checkpoint.foreign.tables.by_class import rows_for
from rfnb.checkpoint.foreign.tables.row import Row
from rfnb.checkpoint.foreign.transforms import TRANSFORMS
from rfnb.checkpoint.mapping import Target
from rfnb.errors import CheckpointError
from rfnb.nn.layers.linear import Linear
from rfnb.nn.module.module import Module

State = Mapping[str, torch.Tensor]
T = TypeVar("T")


@dataclass
class Converted:
    """The new values of parameters by name, the sources of each, and the weights that were not used."""

    values: dict[str, torch.Tensor] = field(default_factory=dict)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rest: dict[str, torch.Tensor] = field(default_factory=dict)


def converted(module: Module, targets: Sequence[Target], state: State, table: Sequence[Row]) -> Converted:
    """Looks up each parameter in `table`, then in the tables of the modules that contain it, outermost first.

    In a module without a table, a parameter is made of the weight with the same name.
    """
    found = Converted()
    for name in (name for target in targets for name in target.names):
        row = next((row for row in _rows(module, name, table) if all(source in state for source in row.sources)), None)
        if row is not None:
            found.values[name] = _transformed(row, module, state)
            found.sources[name] = row.sources
    used = {source for sources in found.sources.values() for source in sources}
    taken = [state[name] for name in used]
    found.rest = {name: x for name, x in state.items() if name not in used and not any(_same(x, y) for y in taken)}
    return found


def _rows(module: Module, name: str, table: Sequence[Row]) -> Iterator[Row]:
    """The rows for a parameter, with full names."""
    yield from _matching(table, "", name)
    parts = name.split(".")
    rows: tuple[Row, ...] = ()
    for depth in range(len(parts)):
        path = ".".join(parts[:depth])
        rows = rows_for(module.get_deep(path))
        yield from _matching(rows, f"{path}." if path else "", name)
    if not rows:
        yield Row(name, (name,))


def _matching(rows: Sequence[Row], prefix: str, name: str) -> Iterator[Row]:
    for row in rows:
        pattern = re.escape(prefix + row.target).replace(r"\{i\}", r"(?P<i>\d+)")
        if found := re.fullmatch(pattern, name):
            sources = tuple(prefix + source.replace("{i}", found.groupdict().get("i", "")) for source in row.sources)
            yield Row(name, sources, row.transform)


def _transformed(row: Row, module: Module, state: State) -> torch.Tensor:
    if row.transform not in TRANSFORMS:
        names = ", ".join(map(repr, TRANSFORMS))
        raise CheckpointError(f"import_weights: there is no transform {row.transform!r}", expected=names)
    parts = [state[source] for source in row.sources]
    owner = module.get_deep(".".join(row.target.split(".")[:-2]))
    transform = "same" if row.transform == "transposed" and _is_of_embedding(module, row.target) else row.transform
    try:
        return TRANSFORMS[transform](parts, owner)
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"import_weights: the weights for {row.target} do not fit",
            got=", ".join(f"{source} {tuple(part.shape)}" for source, part in zip(row.sources, parts, strict=True)),
            expected=owner,
        ) from error


def _is_of_embedding(module: Module, name: str) -> bool:
    """Whether a Linear shares the weight of an embedding: {out_dim, in_dim}, the order of torch."""
    linear = module.get_deep(name.rpartition(".")[0])
    return isinstance(linear, Linear) and linear.weight.dims == (linear.out_dim, linear.in_dim)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both are the same weight, stored under two names."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.numel() > 0


_NAME = re.compile(r"(.*?)((?:weight|bias)_(?:ih|hh))_l(\d+)(_reverse)?")


def unfold_lstms(state: Mapping[str, T]) -> dict[str, T]:
    """Names the layers and directions of torch's LSTMs: "weight_ih_l1_reverse" → "1.backward.weight_ih".

    A single layer gets no number, and a single direction no name.
    """
    parts = {name: found for name in state if (found := _NAME.fullmatch(name))}
    several = {found[1] for found in parts.values() if found[3] != "0"}
    both = {found[1] for found in parts.values() if found[4]}

    def new_name(prefix: str, weight: str, layer: str, reverse: str | None) -> str:
        number = f"{layer}." if prefix in several else ""
        direction = ("backward." if reverse else "forward.") if prefix in both else ""
        return f"{prefix}{number}{direction}{weight}"

    return {new_name(*parts[name].groups()) if name in parts else name: value for name, value in state.items()}
