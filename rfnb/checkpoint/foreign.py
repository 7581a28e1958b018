"""The weights of torch, Hugging Face and Llama that the parameters of a module are made of, converted by tables.

Settings besides weights that change results, such as the eps of norms, are compared or taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch

from rfnb.checkpoint.entries import Checkpoint, Layout, StoredEntry
from rfnb.checkpoint.mapping import Owners, Target, fits
from rfnb.checkpoint.report import ValueOrigin
from rfnb.core.ground.source import public_function
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError
from rfnb.nn.attention import CrossAttention, RotaryPosCausalSelfAttention, RotaryPosSelfAttention, SelfAttentionBase
from rfnb.nn.bridge.from_torch import TorchPart
from rfnb.nn.bridge.mirror import Mirror
from rfnb.nn.cells.simple import GRU
from rfnb.nn.decoder.transformer import TransformerDecoder, TransformerDecoderLayer
from rfnb.nn.encoder.transformer import TransformerEncoderLayer
from rfnb.nn.layers.conv import Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.norm import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from rfnb.nn.layers.rec import LSTM
from rfnb.nn.layers.transformer import FeedForwardGated
from rfnb.nn.module.module import Module


class TableRow(NamedTuple):
    """One row of a table: `transform` makes the parameter `target` from the weights `sources`.

    Names are relative to a module; "{i}" in them stands for a number. Several rows with the same target are
    alternatives: the first whose sources all exist is used.
    """

    target: str
    sources: tuple[str, ...]
    transform: str = "same"


def below(prefix: str, source: str, rows: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """The rows for a submodule that is named `prefix` in rfnb and `source` in the other library."""
    return tuple(
        TableRow(f"{prefix}.{row.target}", tuple(f"{source}.{name}" for name in row.sources), row.transform)
        for row in rows
    )


BIAS = TableRow("bias", ("bias",))
LINEAR = (TableRow("weight", ("weight",), "transposed"), BIAS)
NORM = (TableRow("scale", ("weight",)), BIAS)
CONV = (TableRow("filter", ("weight",)), BIAS)
BATCH_NORM = (
    TableRow("gamma", ("weight",)),
    TableRow("beta", ("bias",)),
    TableRow("running_mean", ("running_mean",)),
    TableRow("running_variance", ("running_var",)),
)
LSTM_CELL = (  # `unfold_lstms` gives the layers of an LSTM these names. torch has two biases, which are added
    TableRow("ff_weight", ("weight_ih",)),
    TableRow("rec_weight", ("weight_hh",)),
    TableRow("bias", ("bias_ih", "bias_hh"), "sum"),
)
GRU_CELL = (  # `unfold_lstms` gives the layers of a GRU these names. For `rf.GRU` with `reset_after`
    TableRow("ff_weight", ("weight_ih",), "transposed"),
    TableRow("rec_weight", ("weight_hh",), "gates"),
    TableRow("candidate_weight", ("weight_hh",), "candidate"),
    TableRow("bias", ("bias_ih", "bias_hh"), "bias of GRU"),
    TableRow("candidate_bias", ("bias_hh",), "candidate"),
)


def _three(names: str) -> tuple[str, ...]:
    return tuple(names.format(x) for x in "qkv")


_PROJ = tuple(row for name in ("out_proj", "o_proj", "wo") for row in below("proj", name, LINEAR))
_FUSED = (
    TableRow("qkv.weight", ("in_proj_weight",), "heads"),
    TableRow("qkv.weight", _three("{}_proj_weight"), "heads"),
    TableRow("qkv.bias", ("in_proj_bias",), "heads"),
    TableRow("qkv.weight", _three("w{}.weight"), "heads"),
    TableRow("qkv.weight", ("qkv.weight",), "in one"),
    TableRow("qkv.bias", ("qkv.bias",), "in one"),
)
SELF_ATTENTION, ROTARY_SELF_ATTENTION = (
    (
        *_FUSED,
        TableRow("qkv.weight", _three("{}_proj.weight"), heads),
        TableRow("qkv.bias", _three("{}_proj.bias"), heads),
        *_PROJ,
    )
    for heads in ("heads", "heads, halves")
)
CROSS_ATTENTION = (
    TableRow("q.weight", ("in_proj_weight",), "queries"),
    TableRow("q.weight", ("q_proj_weight",), "transposed"),
    TableRow("q.bias", ("in_proj_bias",), "queries"),
    TableRow("kv.weight", ("in_proj_weight",), "keys and values"),
    TableRow("kv.weight", ("k_proj_weight", "v_proj_weight"), "heads"),
    TableRow("kv.bias", ("in_proj_bias",), "keys and values"),
    *below("q", "q_proj", LINEAR),
    TableRow("kv.weight", ("k_proj.weight", "v_proj.weight"), "heads"),
    TableRow("kv.bias", ("k_proj.bias", "v_proj.bias"), "heads"),
    TableRow("kv.weight", ("kv.weight",), "in one"),
    TableRow("kv.bias", ("kv.bias",), "in one"),
    *_PROJ,
)
FEED_FORWARD_GATED = (
    TableRow("linear_ff.weight", ("gate_proj.weight", "up_proj.weight"), "joined"),
    TableRow("linear_ff.weight", ("w1.weight", "w3.weight"), "joined"),
    *below("linear_out", "down_proj", LINEAR),
    *below("linear_out", "w2", LINEAR),
)
_TRANSFORMER_LAYER = (
    *below("self_att", "self_attn", SELF_ATTENTION),
    *below("self_att_layer_norm", "norm1", NORM),
    *below("ff.linear_ff", "linear1", LINEAR),
    *below("ff.linear_out", "linear2", LINEAR),
)
TRANSFORMER_ENCODER_LAYER = (*_TRANSFORMER_LAYER, *below("ff_layer_norm", "norm2", NORM))
TRANSFORMER_DECODER_LAYER = (
    *_TRANSFORMER_LAYER,
    *below("cross_att", "multihead_attn", CROSS_ATTENTION),
    *below("cross_att_layer_norm", "norm2", NORM),
    *below("ff_layer_norm", "norm3", NORM),
)
LLAMA = (
    TableRow("input_embedding.weight", ("model.embed_tokens.weight",)),
    *below("layers.{i}.self_att", "model.layers.{i}.self_attn", ROTARY_SELF_ATTENTION),
    *below("layers.{i}.self_att_layer_norm", "model.layers.{i}.input_layernorm", NORM),
    *below("layers.{i}.ff", "model.layers.{i}.mlp", FEED_FORWARD_GATED),
    *below("layers.{i}.ff_layer_norm", "model.layers.{i}.post_attention_layernorm", NORM),
    *below("final_layer_norm", "model.norm", NORM),
    TableRow("logits.weight", ("lm_head.weight",), "transposed"),
    TableRow("logits.weight", ("model.embed_tokens.weight",), "transposed"),  # tied there, but not here
)
LLAMA_OF_META = (
    TableRow("input_embedding.weight", ("tok_embeddings.weight",)),
    *below("layers.{i}.self_att", "layers.{i}.attention", ROTARY_SELF_ATTENTION),
    *below("layers.{i}.self_att_layer_norm", "layers.{i}.attention_norm", NORM),
    *below("layers.{i}.ff", "layers.{i}.feed_forward", FEED_FORWARD_GATED),
    *below("layers.{i}.ff_layer_norm", "layers.{i}.ffn_norm", NORM),
    *below("final_layer_norm", "norm", NORM),
    TableRow("logits.weight", ("output.weight",), "transposed"),
)


TABLES: dict[type[Module], tuple[TableRow, ...]] = {
    Linear: LINEAR,
    LayerNorm: NORM,
    RMSNorm: NORM,
    GroupNorm: NORM,
    BatchNorm: BATCH_NORM,
    **dict.fromkeys((Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d), CONV),
    LSTM: LSTM_CELL,
    GRU: GRU_CELL,
    SelfAttentionBase: SELF_ATTENTION,
    RotaryPosSelfAttention: ROTARY_SELF_ATTENTION,
    RotaryPosCausalSelfAttention: ROTARY_SELF_ATTENTION,
    CrossAttention: CROSS_ATTENTION,
    FeedForwardGated: FEED_FORWARD_GATED,
    TransformerEncoderLayer: TRANSFORMER_ENCODER_LAYER,
    TransformerDecoderLayer: TRANSFORMER_DECODER_LAYER,
    TransformerDecoder: (*LLAMA, *LLAMA_OF_META),
}
"""The table for a class and for its subclasses, unless these have their own."""


def rows_for(module: Module) -> tuple[TableRow, ...]:
    """The table of the nearest class that has one; none for a GRU with reset before the product, which torch lacks."""
    if isinstance(module, GRU) and not module.reset_after:
        return ()
    return next((TABLES[cls] for cls in type(module).__mro__ if cls in TABLES), ())


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
    entry = StoredEntry.of(key, result)
    return entry, lambda: _transformed(row, owners, sources, lambda entry: checkpoint.read(entry.key))


def _fits(row: TableRow, owners: Owners, parameter: Parameter, sources: Sequence[StoredEntry]) -> bool:
    """Whether the result of a row has the shape and the kind of values of the parameter."""
    try:
        result = _transformed(row, owners, sources, _without_values)
    except CheckpointError:
        return False
    return fits(parameter, StoredEntry.of("", result))


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


def adopted(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> dict[str, float]:
    """The eps of norms and the bases of rotary positions that differ in `source`, by name.

    pairs: from the names of parameters to those of the weights that they are made of. Raises CheckpointError if the
    angles of rotary positions do not follow from a base.
    """
    settings = {}
    bases = [_base(x, name) for name, x in source.named_buffers() if name.rpartition(".")[2] == "inv_freq"]
    for name, weight in pairs.items():
        path, part = name.rpartition(".")[0], _part(source, weight.rpartition(".")[0])
        eps = getattr(module.get_deep(path), "eps", None)
        new_eps = getattr(part, "eps", getattr(part, "variance_epsilon", None))
        if eps is not None and new_eps is not None and eps != new_eps:
            settings[f"{path}.eps".lstrip(".")] = float(new_eps)
        outer = path.rpartition(".")[0]
        ours = module.get_deep(outer)
        if isinstance(ours, RotaryPosSelfAttention | RotaryPosCausalSelfAttention) and bases and ours.base != bases[0]:
            settings[f"{outer}.base".lstrip(".")] = bases[0]
    return settings


def _base(angles: torch.Tensor, name: str) -> float:
    """The base of the angles of the first position, which are base to the power of 0, -1/count, -2/count, …"""
    angles, count = angles.detach().cpu().double(), len(angles)
    exact = float(angles[1]) ** -count if count > 1 else 10_000.0
    for base in (float(f"{exact:.4g}"), exact):
        if torch.allclose(angles, base ** (-torch.arange(count, dtype=torch.float64) / count), rtol=1e-4, atol=0):
            return base
    raise CheckpointError(f"import_weights: {name} has other angles", expected="angles that follow from a base")


def check_resets(module: Module, names: Collection[str]) -> None:
    """Raises CheckpointError if weights of torch's GRU, which resets after the product, are for one that resets before.

    names: the weights that were not used.
    """
    for path, part in module.named_modules():
        if isinstance(part, GRU) and not part.reset_after and f"{path}.weight_hh".lstrip(".") in names:
            raise CheckpointError(
                f"import_weights: {path or 'the GRU'} resets the state before the product, but torch's GRU after it",
                got="reset_after=False",
                expected="reset_after=True",
                hint="rf.GRU(…, reset_after=True)",
            )


def check_settings(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> None:
    """Raises CheckpointError if `source` computes something different from `module`."""
    for name, weight in pairs.items():
        _check_norms(_norm_first(module, name), source, weight)
        for title, ours, value in _compared(module, name, [part for _, part in _around(source, weight)][:2]):
            if ours is not None and value is not None and ours != value:
                raise CheckpointError(
                    f"import_weights: {name} has a different {title}", got=f"{value} in {weight}", expected=ours
                )


def _check_norms(here: bool | None, source: torch.nn.Module, weight: str) -> None:
    for path, part in _around(source, weight):
        norm_first = getattr(part, "norm_first", here)
        if here is not None and norm_first != here:
            raise CheckpointError(
                f"import_weights: {path or 'the layer'} has its norms {'before' if norm_first else 'after'} the parts",
                got=f"norm_first={norm_first}",
                expected=f"norm_first={here}",
            )


def _norm_first(module: Module, name: str) -> bool | None:
    """The `norm_first` of the innermost layer around a parameter; None if there is no such layer."""
    values = (getattr(module.get_deep(path), "norm_first", None) for path in _paths_above(name))
    return next((bool(value) for value in values if value is not None), None)


def _around(source: torch.nn.Module, weight: str) -> Iterator[tuple[str, object]]:
    """The modules around a weight with their names, innermost first."""
    return ((path, _part(source, path)) for path in _paths_above(weight))


def _paths_above(name: str) -> Iterator[str]:
    """The paths of the modules around a parameter, innermost first; the last is empty."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _part(source: torch.nn.Module, path: str) -> object:
    """The part of a torch module with that name; if it mirrors an rfnb module, that one."""
    part = source.get_submodule(path)
    return part.rf_module if isinstance(part, Mirror) else part


def _compared(
    module: Module, name: str, theirs: Sequence[object]
) -> Iterator[tuple[str, int | str | None, int | str | None]]:
    """Settings of the module around a weight: title, value here, value there; None where the value is unknown."""
    ours = module.get_deep(".".join(name.split(".")[:-2]))
    heads = getattr(ours, "num_heads", None)
    if heads is not None:
        configs = [getattr(owner, "config", None) for owner in theirs]
        numbers = _value_of_first(theirs, "num_heads"), _value_of_first(configs, "num_attention_heads")
        counts = (getattr(number, "dimension", number) for number in numbers)
        yield "number of heads", heads.dimension, next((n for n in counts if isinstance(n, int)), None)
    if hasattr(ours, "activation"):
        function = _value_of_first(theirs, "activation") or _value_of_first(theirs, "act_fn")
        yield "activation", function_name(ours.activation), function_name(function)


def _value_of_first(owners: Sequence[object], attribute: str) -> object:
    return next((getattr(owner, attribute) for owner in owners if hasattr(owner, attribute)), None)


def function_name(function: object) -> str | None:
    """The name of an activation: "relu" for torch.nn.ReLU() and functions of that name; None if it has no name."""
    name = getattr(function, "__name__", type(function).__name__).lower().removesuffix("activation")
    return None if function is None or "lambda" in name else name


_AS_LLAMA = ("llama", "mistral")


def from_config(config: Mapping[str, Any], names: Iterable[str], module: Module) -> dict[str, float]:
    """The eps of norms and the bases of rotary positions that differ in the config, by the name of the attribute here.

    names: of the imported parameters. Raises CheckpointError if the model there computes something different.
    """
    settings: dict[str, float] = {}
    for path, ours in _owners(names, module).items():
        eps = config.get("rms_norm_eps", config.get("layer_norm_eps"))
        if eps is not None and getattr(ours, "eps", eps) != eps:
            settings[f"{path}.eps".lstrip(".")] = float(eps)
        if isinstance(ours, RotaryPosSelfAttention | RotaryPosCausalSelfAttention):
            _check("model", config.get("model_type"), _AS_LLAMA)
            base = _configured_base(config)
            if ours.base != base:
                settings[f"{path}.base".lstrip(".")] = base
        if hasattr(ours, "num_heads"):
            _check("number of heads", config.get("num_attention_heads"), (ours.num_heads.dimension,))
        if hasattr(ours, "activation"):
            _check("activation", config.get("hidden_act"), (function_name(ours.activation),))
    return settings


def _owners(names: Iterable[str], module: Module) -> dict[str, object]:
    """The modules that own the parameters, and the modules around these, by name."""
    paths = [name.rpartition(".")[0] for name in names]
    return {path: module.get_deep(path) for part in paths for path in (part, part.rpartition(".")[0])}


def _check(what: str, there: object, here: tuple[object, ...]) -> None:
    if there is not None and None not in here and there not in here:
        raise CheckpointError(
            f"import_weights: the config has a different {what}", got=there, expected=" or ".join(map(str, here))
        )


def _configured_base(config: Mapping[str, Any]) -> float:
    options = config.get("rope_parameters") or config.get("rope_scaling") or {}
    _check("kind of rotary positions", options.get("rope_type", options.get("type")), ("default",))
    return float(options.get("rope_theta", config.get("rope_theta", 10_000.0)))
