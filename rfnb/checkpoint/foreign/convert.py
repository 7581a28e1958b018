"""Finds the weights of other libraries that the parameters of a module are made of, and converts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch

from rfnb.checkpoint.entries import Checkpoint, Layout, StoredEntry
from rfnb.checkpoint.foreign.tables import TableRow, rows_for
from rfnb.checkpoint.mapping import Owners, Target, fits
from rfnb.checkpoint.report import ValueOrigin
from rfnb.core.ground.source import public_function
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError
from rfnb.nn.bridge.from_torch import TorchPart
from rfnb.nn.layers.linear import Linear

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


def _blocks(parts: Sequence[torch.Tensor], attention: object) -> Sequence[torch.Tensor]:
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


@dataclass(frozen=True)
class Reading:
    """The entry with the name of a parameter, and the row of a table that makes the parameter of other entries.

    Args:
        own: the entry of that name, if there is one.
        row: the row, if all its sources exist.
        sources: the entries that the row needs.
        layout: the layout of the sources; None if it is not known.
        required: whether the row is used in any case.
        own_fits: whether the shape and the dtype of `own` are those of the parameter.
        row_fits: whether those of the row's result are.
        only_here: whether torch has another name for the parameter.
    """

    name: str
    own: StoredEntry | None
    row: TableRow | None = None
    sources: tuple[StoredEntry, ...] = ()
    layout: Layout | None = None
    required: bool = False
    own_fits: bool = False
    row_fits: bool = False
    only_here: bool = False

    @property
    def twofold(self) -> bool:
        """Whether the names allow both ways, and these differ."""
        if self.row is None or self.own is None or self.required or self.layout in ("rfnb", "as it is"):
            return False
        return self.sources != (self.own,) or self.row.transform != "same"

    @property
    def converts(self) -> bool | None:
        """Whether the row is used; None if names and shapes allow both ways."""
        if self.twofold:
            if self.own_fits == self.row_fits:
                return None if self.own_fits else self.layout == "torch"
            return self.row_fits
        return self.required or (self.row is not None and self.own is None and self.layout in (None, "torch"))


def converted_names(
    readings: Sequence[Reading], chosen: Callable[[str], bool], *, importing: bool, certain: bool
) -> set[str]:
    """The names of the parameters that are converted.

    Where names and shapes allow both ways, the shapes of other weights decide, then the layout that is known, then the
    names of other parameters. Raises CheckpointError if these say nothing, or contradict each other.

    importing: whether entries without a known layout are weights of torch. certain: whether all are, also against the
    shapes of others.
    """
    by_shape = {reading.row_fits for reading in readings if reading.twofold and reading.own_fits != reading.row_fits}
    by_name = {reading.own is None for reading in readings if reading.only_here or _has_name_of_torch(reading)}

    def converts(reading: Reading) -> bool:
        if reading.converts is not None:
            return reading.converts
        evidence = by_shape or by_name
        if certain or (importing and not by_shape):
            evidence = {True}
        elif reading.layout == "torch" and not by_shape:
            evidence = {True, *(by_name if by_name == {False} else ())}
        if len(evidence) != 1 and chosen(reading.name):
            raise _unclear(reading, importing)
        return evidence == {True}

    return {reading.name for reading in readings if converts(reading)}


def _has_name_of_torch(reading: Reading) -> bool:
    return reading.own is None and bool(reading.converts) and not reading.required


def _unclear(reading: Reading, importing: bool) -> CheckpointError:
    shapes = " and ".join(str(entry.shape) for entry in reading.sources)
    as_it_is = f'table=[("{reading.name}", ("{reading.name}",), "same")]' if importing else 'rf.load(…, layout="rfnb")'
    turned = '"transposed"' if importing else 'layout="torch", or rf.import_weights(…),'
    return CheckpointError(
        f"{public_function()}: the layout of {reading.name} is not known",
        got=f"shape {shapes}, which fits as it is and turned",
        expected="{in, out}, as rfnb stores it, or {out, in}, as torch does",
        hint=f"{as_it_is} takes it as it is, {turned} turns it",
    )


T = TypeVar("T")
Entries = Mapping[str, StoredEntry]
_NO_WEIGHTS = ("num_batches_tracked", "inv_freq")


@dataclass(frozen=True)
class Converted:
    """The entries of a checkpoint as the parameters need them, and the origins of those that were converted, by name.

    checkpoint: reads converted entries too. pairs: from the names of parameters to the (first) weight of each.
    """

    checkpoint: Checkpoint
    entries: Mapping[str, StoredEntry]
    origins: Mapping[str, ValueOrigin]
    pairs: Mapping[str, str]


def converted(
    checkpoint: Checkpoint,
    entries: Entries,
    wanted: Sequence[Target],
    chosen: Callable[[str], bool],
    *,
    layout: Layout | None = None,
    importing: bool = False,
    table: Sequence[TableRow] = (),
) -> Converted:
    """Converts the entries that are weights of torch.

    Each parameter is looked up in `table`, then in the tables of the modules that contain it, outermost first. Raises
    CheckpointError if a chosen parameter fits its entry both as it is and turned, and the layout is not known.

    layout: of all entries; None: what the checkpoint says. importing: whether other entries are weights of torch.
    """
    names = {name: target for target in wanted for name in target.names}
    entries = unfold_lstms(entries, keep=names)

    def layout_of(entry: StoredEntry) -> Layout | None:
        return layout or checkpoint.layout(entry) or ("torch" if importing else None)

    readings = [_reading(name, target, entries, table, layout_of) for name, target in names.items()]
    names_of_torch = converted_names(readings, chosen, importing=importing, certain=layout == "torch")
    rows = {reading: reading.row for reading in readings if reading.name in names_of_torch and reading.row is not None}
    results = {
        reading.name: _made(row, names[reading.name].owners[reading.name], reading.sources, checkpoint)
        for reading, row in rows.items()
        if chosen(reading.name)
    }
    plain = {r.name: r.own for r in readings if r.own is not None and r not in rows}
    keys = {entry.key for reading in rows for entry in reading.sources}
    idle = _NO_WEIGHTS if keys or importing else ()
    unread = {name: e for name, e in entries.items() if e.key not in keys and not name.endswith(idle)}
    values = {entry.key: value for entry, value in results.values()}

    def read(key: str) -> torch.Tensor:
        return values[key]() if key in values else checkpoint.read(key)

    return Converted(
        replace(checkpoint, read=read),
        {**unread, **plain, **{name: entry for name, (entry, _) in results.items()}},
        {r.name: _origin(r, row) for r, row in rows.items() if r.name in results},
        {**{name: name for name in plain}, **{r.name: row.sources[0] for r, row in rows.items()}},
    )


def _origin(reading: Reading, row: TableRow) -> ValueOrigin:
    """Where a converted parameter comes from; the name in the file if it is renamed to that of the parameter."""
    names = row.sources if row.sources != (reading.name,) else (reading.sources[0].key,)
    return ValueOrigin(reading.name, names, "" if row.transform == "same" else row.transform)


def _reading(
    name: str,
    target: Target,
    entries: Entries,
    table: Sequence[TableRow],
    layout_of: Callable[[StoredEntry], Layout | None],
) -> Reading:
    entry, owners = entries.get(name), target.owners[name]
    stored = None if entry is None else layout_of(entry)
    of_torch = _is_linear_of_torch(owners, name)
    if stored in ("rfnb", "as it is") and not table and not of_torch:
        return Reading(name, entry)
    rows = list(_rows(owners, name))
    by_user = _first(_matching(table, "", name), entries)
    row, required = by_user or _first(rows, entries), by_user is not None
    if by_user is None and of_torch and stored == "rfnb":
        row, required = TableRow(name, (name,), "transposed"), True
    if row is not None and row.transform == "transposed" and _is_of_embedding(owners):
        row = row._replace(transform="same")
    sources = () if row is None else tuple(entries[source] for source in row.sources)
    return Reading(
        name,
        entry,
        row,
        sources,
        layout=next((form for form in map(layout_of, sources) if form is not None), None),
        required=required,
        own_fits=entry is not None and fits(target.parameter, entry),
        row_fits=row is not None and _fits(row, owners, target.parameter, sources),
        only_here=entry is not None and not any(name in row.sources for row in rows),
    )


def _first(rows: Iterable[TableRow], entries: Entries) -> TableRow | None:
    """The first row whose sources all exist."""
    return next((row for row in rows if all(source in entries for source in row.sources)), None)


def _rows(owners: Owners, name: str) -> Iterator[TableRow]:
    """The rows of the tables for a parameter, with full names."""
    rows: tuple[TableRow, ...] = ()
    for path, module in owners:
        rows = rows_for(module)
        yield from _matching(rows, f"{path}." if path else "", name)
    if not rows:
        yield TableRow(name, (name,))


def _matching(rows: Sequence[TableRow], prefix: str, name: str) -> Iterator[TableRow]:
    inner = name.removeprefix(prefix)
    for row in rows:
        match = _pattern(row.target).fullmatch(inner) if "{i}" in row.target else None
        if match or row.target == inner:
            number = "" if match is None else match["i"]
            yield TableRow(name, tuple(prefix + source.replace("{i}", number) for source in row.sources), row.transform)


@lru_cache(maxsize=1000)
def _pattern(target: str) -> re.Pattern[str]:
    return re.compile(re.escape(target).replace(r"\{i\}", r"(?P<i>\d+)"))


def _made(
    row: TableRow, owners: Owners, sources: Sequence[StoredEntry], checkpoint: Checkpoint
) -> tuple[StoredEntry, Callable[[], torch.Tensor]]:
    """The entry of a parameter that a row makes, and a function that computes its value."""
    if row.transform == "same":
        return sources[0], lambda: checkpoint.read(sources[0].key)
    _check_order(row, owners)
    result = _transformed(row, owners, sources, _without_values)
    key = f"{' + '.join(entry.key for entry in sources)} as {row.target}"
    entry = StoredEntry(key, tuple(result.shape), str(result.dtype).removeprefix("torch."))
    return entry, lambda: _transformed(row, owners, sources, lambda entry: checkpoint.read(entry.key))


def _fits(row: TableRow, owners: Owners, parameter: Parameter, sources: Sequence[StoredEntry]) -> bool:
    """Whether the result of a row has the shape and the kind of values of the parameter."""
    try:
        result = _transformed(row, owners, sources, _without_values)
    except CheckpointError:
        return False
    return fits(parameter, StoredEntry("", tuple(result.shape), str(result.dtype).removeprefix("torch.")))


def _without_values(entry: StoredEntry) -> torch.Tensor:
    dtype = getattr(torch, entry.dtype, None)
    return torch.empty(entry.shape, dtype=dtype if isinstance(dtype, torch.dtype) else None, device="meta")


def _transformed(
    row: TableRow, owners: Owners, sources: Sequence[StoredEntry], value: Callable[[StoredEntry], torch.Tensor]
) -> torch.Tensor:
    if row.transform not in TRANSFORMS:
        names = ", ".join(map(repr, TRANSFORMS))
        raise CheckpointError(f"{public_function()}: there is no transform {row.transform!r}", expected=names)
    try:
        return TRANSFORMS[row.transform](list(map(value, sources)), _outer(owners))
    except (RuntimeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{public_function()}: the weights for {row.target} do not fit",
            got=", ".join(f"{name} {entry.shape}" for name, entry in zip(row.sources, sources, strict=True)),
            expected=_outer(owners),
        ) from error


def _outer(owners: Owners) -> Any:
    """The module around the one that a parameter belongs to."""
    return owners[max(len(owners) - 2, 0)][1]


def _check_order(row: TableRow, owners: Owners) -> None:
    """Raises CheckpointError if queries, keys and values of several heads are one weight, in an order not known."""
    if row.transform == IN_ONE and _outer(owners).num_heads.dimension > 1:
        raise CheckpointError(
            f"{public_function()}: the order of the features of {row.sources[0]} is not known",
            got=f"one weight for queries, keys and values of {_outer(owners).num_heads.dimension} heads",
            hint=f'rf.import_weights(…, table=[("{row.target}", ("{row.sources[0]}",), "heads")]) if all queries come '
            'first, "transposed" if all of the first head come first',
        )


def _is_of_embedding(owners: Owners) -> bool:
    """Whether a Linear shares the weight of an embedding: {out_dim, in_dim}, the order of torch."""
    linear = owners[-1][1]
    return isinstance(linear, Linear) and linear.weight.dims == (linear.out_dim, linear.in_dim)


def _is_linear_of_torch(owners: Owners, name: str) -> bool:
    """Whether a parameter is the weight of a Linear of torch in the module: {out, in}."""
    part = owners[-1][1]
    return isinstance(part, TorchPart) and part.kind == "Linear" and name.endswith("weight")


_NAME = re.compile(r"(.*?)((?:weight|bias)_(?:ih|hh))_l(\d+)(_reverse)?")


def unfold_lstms(state: Mapping[str, T], keep: Collection[str] = ()) -> dict[str, T]:
    """Names the layers and directions of torch's LSTMs: "weight_ih_l1_reverse" → "1.backward.weight_ih".

    A single layer gets no number, and a single direction no name. keep: names that stay.
    """
    parts = {name: match for name in state if name not in keep and (match := _NAME.fullmatch(name))}
    stacks = {match[1] for match in parts.values() if match[3] != "0"}
    bidirectional = {match[1] for match in parts.values() if match[4]}

    def new_name(prefix: str, weight: str, layer: str, reverse: str | None) -> str:
        number = f"{layer}." if prefix in stacks else ""
        direction = ("backward." if reverse else "forward.") if prefix in bidirectional else ""
        return f"{prefix}{number}{direction}{weight}"

    return {new_name(*parts[name].groups()) if name in parts else name: value for name, value in state.items()}
