"""Attention weights from arrays, Tensors and captures: which axes are layers, heads, rows and columns; and a choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import first_of
from rfnb.core.tensor.tensor import RawTensor
from rfnb.core.vocab import Vocab
from rfnb.display.kit import options
from rfnb.display.kit.blocks import Notes
from rfnb.display.kit.data import Axis, Data, read_as_called, to_numpy
from rfnb.display.tensor.view import index_of, sequence
from rfnb.errors import ViewError
from rfnb.trace.capture.capture import Captured, Seen

Side = object
"""How a side is given: a Dim, labels (one list, or one for each sequence), a sparse Tensor with a vocab, or None."""

Unit = Literal["head", "hypothesis"]
SEVERAL: dict[Unit, str] = {"head": "heads", "hypothesis": "hypotheses"}

ROLES = ("layer", "batch", "head", "row", "col")


@dataclass(frozen=True)
class Weights:
    """Weights of one sequence: [heads, rows, columns] for each layer, padding included.

    sides: for each layer the rows and columns, with their true size. layers, heads: their numbers; -1 for a mean.
    names: names of layers. unit: what is shown in the place of heads. labels: of rows and columns, where the weights
    have some.
    """

    name: str
    tag: str | None
    index: int | None
    raws: list[RawTensor]
    layers: list[int]
    heads: list[list[int]]
    names: list[str]
    sides: list[tuple[Axis, Axis]]
    unit: Unit = "head"
    labels: tuple[list[str] | None, list[str] | None] = (None, None)

    @property
    def count(self) -> int:
        """Number of heads in all layers."""
        return sum(map(len, self.heads))

    def matrix(self, layer: int, head: int) -> np.ndarray:
        """The matrix [rows, columns] of one head, by its place."""
        raw = self.raws[layer][head]
        return to_numpy(raw[tuple(slice(0, size) for size in self.full(layer))]).astype(np.float32, copy=False)

    def shape(self, layer: int = 0) -> tuple[int, int]:
        """Number of rows and columns of a layer, by its place, without padding."""
        rows, cols = self.sides[layer]
        return rows.size, cols.size

    def full(self, layer: int = 0) -> tuple[int, int]:
        """Number of rows and columns with padding."""
        rows, cols = (int(size) for size in self.raws[layer].shape[1:])
        return rows, cols

    def picked(self, places: Iterable[int]) -> Weights:
        """Only some layers, by their places."""
        indices = [*places]
        names = ("raws", "layers", "heads", "names", "sides")
        lists: Any = {name: [getattr(self, name)[i] for i in indices] for name in names}
        return replace(self, **lists)


def split(raw: RawTensor, roles: list[str], index: int | None) -> list[RawTensor]:
    """The weights of each layer, [heads, rows, columns]."""
    if index is not None:
        at = roles.index("batch")
        raw = raw[(slice(None),) * at + (index,)]
        roles = [role for role in roles if role != "batch"]
    layout = [role for role in ROLES if role in roles]
    order = [roles.index(role) for role in layout]
    raw = raw.permute(order) if hasattr(raw, "permute") else raw.transpose(order)
    if "head" not in roles:
        raw = raw[..., None, :, :]
    return [raw[layer] for layer in range(int(raw.shape[0]))] if "layer" in roles else [raw]


def choose(weights: Weights, layer: int | str | None, head: int | str | None, notes: Notes) -> Weights:
    """Only one layer, or one head of each layer; "mean" averages over them. Raises ViewError if it does not exist."""
    if head is not None:
        weights = _mean_of_heads(weights, notes) if head == "mean" else _of_head(weights, head)
    if layer is not None:
        weights = _mean_of_layers(weights, notes) if layer == "mean" else _of_layer(weights, layer)
    weights = _of_first_rows(weights, notes)
    area = max((math.prod(weights.full(i)) for i in range(len(weights.raws))), default=0)
    limit = max(1, min(options.ATTENTION_HEADS, options.FINITE_ENTRIES // max(1, area)))
    if weights.count > limit:
        largest = max(map(len, weights.heads))
        fewer, heads = max(1, limit // largest), min(largest, limit)
        notes.add(f"the first {fewer} of {len(weights.raws)} layers, {heads} of {largest} {SEVERAL[weights.unit]}")
        weights = replace(weights, heads=[numbers[:heads] for numbers in weights.heads]).picked(range(fewer))
    return weights


def _of_first_rows(weights: Weights, notes: Notes) -> Weights:
    raws, sides = [], []
    for i, (raw, (rows, cols)) in enumerate(zip(weights.raws, weights.sides, strict=True)):
        room = max(1, options.FINITE_ENTRIES // max(1, weights.full(i)[1]))
        if weights.full(i)[0] > room:
            notes.add(f"the first {room} of {weights.full(i)[0]} rows")
        raws.append(raw[:, :room])
        sides.append((replace(rows, size=min(rows.size, room)), cols))
    return replace(weights, raws=raws, sides=sides)


def _of_head(weights: Weights, head: object) -> Weights:
    most = max(weights.heads, key=len, default=[])
    at = _place(most, head, weights.unit)
    weights = weights.picked(i for i, numbers in enumerate(weights.heads) if at < len(numbers))
    raws, heads = [raw[at : at + 1] for raw in weights.raws], [[numbers[at]] for numbers in weights.heads]
    return replace(weights, raws=raws, heads=heads)


def _of_layer(weights: Weights, layer: object) -> Weights:
    at = weights.names.index(layer) if layer in weights.names else _place(weights.layers, layer, "layer")
    return replace(weights.picked([at]), name=weights.names[at] or weights.name)


def _place(numbers: list[int], number: object, unit: str) -> int:
    count = len(numbers)
    position = int(number) if isinstance(number, int | np.integer) and not isinstance(number, bool) else count
    if position not in numbers and not -count <= position < 0:
        highest = numbers[-1] if numbers else -1
        raise ViewError(f"show_attention: no such {unit}", got=repr(number), expected=f'0 to {highest}, or "mean"')
    return numbers.index(position) if position in numbers else position % count


def _mean_of_heads(weights: Weights, notes: Notes) -> Weights:
    notes.add(f"mean over {max(map(len, weights.heads))} {SEVERAL[weights.unit]}")
    raws = [to_numpy(raw).mean(axis=0, keepdims=True, dtype=np.float32) for raw in weights.raws]
    return replace(weights, raws=raws, heads=[[-1] for _ in raws])


def _mean_of_layers(weights: Weights, notes: Notes) -> Weights:
    sizes = {tuple(raw.shape) for raw in weights.raws}
    if len(sizes) > 1:
        raise ViewError(
            "show_attention: layers of different sizes have no mean",
            got=", ".join("×".join(map(str, size)) for size in sorted(sizes)),
            hint='head="mean", or the layers of one size: weights[:2]',
        )
    notes.add(f"mean over {len(weights.raws)} layers")
    mean = np.mean([to_numpy(raw) for raw in weights.raws], axis=0, dtype=np.float32)
    return replace(weights.picked([0]), raws=[mean], layers=[-1], names=[""])


PLAIN = {2: "row col", 3: "head row col", 4: "batch head row col", 5: "layer batch head row col"}
"""The axes of a plain array, by their number."""


def of_array(
    array: object, rows: Side, cols: Side, batch: int | str | None, dims: Sequence[str] | None, lengths: object
) -> Weights:
    """The weights of one sequence of an array. Raises ViewError if its axes are unknown or it has no such sequence."""
    raw = _real(array)
    named = _names(dims, len(raw.shape))
    roles = _roles(named)
    index = None
    if "batch" in roles:
        at = roles.index("batch")
        index = index_of(0 if batch is None else batch, int(raw.shape[at]), None)
    elif batch is not None:
        raise ViewError("show_attention: there is no batch axis", got=f"batch={batch!r}", expected=f"axes {named}")
    raws = split(raw, roles, index)
    places = [roles.index(role) for role in ("row", "col")]
    sizes = [int(raw.shape[place]) for place in places]
    true = _true_lengths(lengths, sizes[0], sizes[1], index)
    row_axis, col_axis = (
        Axis(side if isinstance(side, Dim) else _dim(size, named[place]), length)
        for side, place, size, length in zip((rows, cols), places, sizes, true, strict=True)
    )
    tag = None if index is None or int(raw.shape[roles.index("batch")]) == 1 else f"batch {index}"
    count, heads = len(raws), int(raws[0].shape[0]) if raws else 0
    numbers = [*range(count)], [[*range(heads)] for _ in raws], [""] * count
    return Weights("weights", tag, index, raws, *numbers, [(row_axis, col_axis)] * count)


def _dim(size: int, name: str) -> Dim:
    """A Dim for an axis of an array, without a place in the user's code."""
    dim = Dim(size, name=name)
    dim.made = None
    return dim


def _real(array: object) -> RawTensor:
    raw: RawTensor = array.detach() if hasattr(array, "detach") else _array(array)
    if getattr(raw, "is_meta", False):
        raise _without_numbers(f"a tensor of shape {tuple(raw.shape)}")
    if getattr(raw, "is_sparse", False) or getattr(raw, "is_nested", False):
        raise ViewError(
            "show_attention: needs a plain tensor",
            got="a sparse one" if raw.is_sparse else "a nested one",
            hint=".to_dense()" if raw.is_sparse else ".to_padded_tensor(0)",
        )
    if raw.is_complex() if hasattr(raw, "is_complex") else raw.dtype.kind not in "biuf":
        raise ViewError("show_attention: weights must be real numbers", got=str(raw.dtype))
    return raw


def _without_numbers(what: str) -> ViewError:
    return ViewError(
        "show_attention: the weights are on the meta device, where tensors have no numbers",
        got=what,
        expected="weights of a model on another device",
        hint='load the model on device="cpu" first; rf.show(model, …) draws the graph of a model on the meta device',
    )


def _array(weights: object) -> np.ndarray:
    if weights is None:
        raise ViewError(
            "show_attention: the weights are None",
            hint='a fused kernel computes no weights; with transformers use attn_implementation="eager", '
            "with torch need_weights=True; or rf.capture(model)",
        )
    try:
        return np.asarray(weights)
    except ValueError:
        raise ViewError(
            "show_attention: this is not an array", got=f"a {type(weights).__name__} whose parts have different sizes",
            expected="an array, or a list with one for each layer", hint="weights[0], if each entry is for a step",
        ) from None  # fmt: skip


def _names(dims: Sequence[str] | None, count: int) -> list[str]:
    if dims is not None:
        if len(dims) != count:
            raise ViewError("show_attention: `dims` must name each axis", got=f"{len(dims)} names for {count} axes")
        return [dim.name if isinstance(dim, Dim) else str(dim) for dim in dims]
    if count not in PLAIN:
        raise ViewError(
            "show_attention: needs two to five axes",
            got=f"{count} axes",
            expected="[layers, batch, heads, rows, columns], or the last of these; batch comes before heads",
            hint='dims=["batch", "query", "key"] says what they are',
        )
    return PLAIN[count].split()


def _roles(names: list[str]) -> list[str]:
    """The roles of axes by name; the two axes without a name with a meaning are rows and columns."""
    roles = [name.rstrip("s") if name.rstrip("s") in ROLES[:3] else name for name in names]
    sides = [i for i, role in enumerate(roles) if role not in ROLES[:3]]
    if len(sides) != 2 or len(set(names)) < len(names):
        raise ViewError(
            "show_attention: which two axes are the sides?",
            got=f"dims={names}",
            expected='"layer", "batch", "head", each at most once, and two names for rows and columns',
        )
    roles[sides[0]], roles[sides[1]] = "row", "col"
    return roles


def _true_lengths(lengths: object, rows: int, cols: int, index: int | None) -> tuple[int, int]:
    if lengths is None:
        return rows, cols
    pair = lengths if isinstance(lengths, tuple) and len(lengths) == 2 else (lengths if rows == cols else None, lengths)
    return _length(pair[0], rows, index), _length(pair[1], cols, index)


def _length(lengths: object, size: int, index: int | None) -> int:
    if lengths is None:
        return size
    values = np.asarray(to_numpy(lengths)).reshape(-1)
    at = index or 0
    if values.dtype.kind not in "iu" or at >= len(values) or not 0 <= values[at] <= size:
        raise ViewError(
            "show_attention: lengths do not fit",
            got=f"{values.tolist()[:20]}",
            expected=f"a number from 0 to {size} for each sequence; for columns, or (rows, columns)",
        )
    return int(values[at])


def of_tensor(tensor: Any, rows: Side, cols: Side, batch: int | str | None, notes: Notes) -> Weights:
    """The weights of one sequence of a Tensor. Raises ViewError if it lacks two sides, or has no such sequence."""
    data = read_as_called(tensor)
    if data.device == "meta":
        raise _without_numbers(tensor.describe_dims())
    for note in data.notes:
        notes.add(note)
    side_dims = [_dim_of(side, data) for side in (rows, cols)]
    at, index = data.sequence_axis(), None
    if at is not None and data.axes[at].dim in side_dims:
        at = None
    if at is None and batch is not None:
        sequence(data, batch)  # says what is wrong
    part, tag = data, None
    if at is not None:
        axis = data.axes[at]
        index = index_of(0 if batch is None else batch, axis.size, axis.tags)
        tag = axis.tags[index] if axis.tags is not None else f"{axis.dim.name} {index}"
        part = data.pick(at, index)
    roles, extra = _roles_of(part, side_dims)
    raw = data.raw if at is None else data.raw[(slice(None),) * at + (index,)]
    if extra:
        notes.add(f"mean over {', '.join(part.axes[i].dim.name for i in extra)}")
        raw = to_numpy(raw).mean(axis=tuple(extra))
    raws = split(raw, roles, None)
    sides = [axis for axis, i in zip(part.axes, range(len(part.axes)), strict=True) if i not in extra]
    row_axis, col_axis = (sides[roles.index(role)] for role in ("row", "col"))
    count, heads = len(raws), int(raws[0].shape[0]) if raws else 0
    beams = [role for role, axis in zip(roles, sides, strict=True) if is_beam(axis.dim)]
    unit: Unit = "hypothesis" if "head" in beams else "head"
    names = [f"hypothesis {i}" if "layer" in beams else "" for i in range(count)]
    numbers = [*range(count)], [[*range(heads)] for _ in raws], names
    return Weights(data.name, tag, index, raws, *numbers, [(row_axis, col_axis)] * count, unit)


def _dim_of(side: Side, data: Data) -> Dim | None:
    """The dim that a side stands for; a tensor of labels stands for the one dim that both tensors have."""
    if isinstance(side, Dim):
        if data.position(side) is None:
            raise ViewError(f"show_attention: {data.name} has no dim {side.name}", got=[a.dim.name for a in data.axes])
        return side
    if hasattr(side, "raw_tensor"):
        count = data.sequence_axis()
        dims = [d for d in getattr(side, "dims", ()) if data.position(d) is not None and data.position(d) != count]
        return dims[0] if dims else None
    return None


def _roles_of(data: Data, asked: list[Dim | None]) -> tuple[list[str], list[int]]:
    """The roles of the axes, and the axes to average over.

    The sides are the named dims, else axes with lengths, else the last axes. Of the others one is heads, or two are
    layers and heads, in this order unless their names say otherwise.
    """
    positions = [data.position(dim) if dim is not None else None for dim in asked]
    if positions[0] is not None and positions[0] == positions[1]:
        raise ViewError("show_attention: rows and columns are the same axis", got=data.axes[positions[0]].dim.name)
    free = [i for i in range(len(data.axes)) if i not in positions]
    free.sort(
        key=lambda i: (_is_named(data, i, "head") or _is_named(data, i, "layer"), data.axes[i].dim.is_static(), -i)
    )
    count = positions.count(None)
    if len(free) < count:
        raise ViewError(
            "show_attention: needs two axes besides the one that counts sequences", got=[a.dim.name for a in data.axes]
        )
    picks = iter(sorted(free[:count]))
    row, col = (i if i is not None else next(picks) for i in positions)
    outer = [i for i in range(len(data.axes)) if i not in (row, col)]
    layer = next((i for i in outer if _is_named(data, i, "layer")), outer[0] if len(outer) == 2 else None)
    if len(outer) == 2 and layer == outer[0] and _is_named(data, outer[0], "head"):
        layer = outer[1]
    head = next((i for i in outer if i != layer), None)
    extra = [i for i in outer if i not in (layer, head)]
    roles = {row: "row", col: "col", layer: "layer", head: "head"}
    return [roles[i] for i in range(len(data.axes)) if i not in extra], extra


def _is_named(data: Data, axis: int, word: str) -> bool:
    return word in data.axes[axis].dim.name.lower()


def read_weights(
    source: object,
    *,
    rows: Side,
    cols: Side,
    batch: int | str | None,
    dims: Sequence[str] | None,
    lengths: object,
    tokenizer: object,
    notes: Notes,
) -> Weights:
    """The weights of a sequence. Raises ViewError if two sides cannot be found, or the sequence does not exist."""
    if isinstance(source, Captured):
        source = _of_one_kind(source, notes)
    if isinstance(source, list | tuple) and not source:
        raise ViewError("show_attention: there are no weights", got="an empty list")
    is_layered = isinstance(source, list | tuple) and any(layer is None or _is_array(layer) for layer in source)
    layers = [*source] if isinstance(source, list | tuple) and is_layered else [source]
    empty = [str(i) for i, layer in enumerate(layers) if layer is None]
    if empty and len(empty) < len(layers):
        notes.add(f"without weights: layer {', '.join(empty)}")
    numbers = [i for i, layer in enumerate(layers) if layer is not None] or [0]
    parts = [_one(layers[i], rows, cols, batch, dims, lengths, tokenizer, notes) for i in numbers]
    shape: tuple[int, ...] = () if hasattr(source, "raw_tensor") else getattr(source, "shape", ())
    if len(shape) == 4 and shape[0] > 1 and dims is None and batch is None:
        notes.add('the first axis was taken for sequences; dims=["layer", "head", "row", "col"] if it is layers')
    if not any(part.raws for part in parts):
        raise ViewError("show_attention: no weights are given", got="no layers")
    if len(parts) == 1:
        return parts[0]
    names = [name for part in parts for name in part.names]
    is_one_each = all(len(part.raws) == 1 for part in parts)
    return replace(
        parts[0],
        name=_common(names) or ("attention" if any(names) else parts[0].name),
        raws=[raw for part in parts for raw in part.raws],
        layers=numbers if is_one_each else [*range(len(names))],
        heads=[heads for part in parts for heads in part.heads],
        names=names,
        sides=[sides for part in parts for sides in part.sides],
    )


def _one(
    source: object, rows: Side, cols: Side, batch: int | str | None, dims: Sequence[str] | None, lengths: object,
    tokenizer: object, notes: Notes,
) -> Weights:  # fmt: skip
    if isinstance(source, Seen):
        rows, cols = (rows if isinstance(rows, Dim) else source.rows), source.cols
        weights = of_tensor(source.weights, rows, cols, batch, notes)
        notes.add(source.note)
        labels = [_words(side, weights.index or 0, tokenizer or source.tokenizer) for side in source.labels]
        return replace(
            weights, name=source.name, names=[source.name] * len(weights.names), labels=(labels[0], labels[1])
        )
    if hasattr(source, "raw_tensor"):
        if dims is not None or lengths is not None:
            raise ViewError("show_attention: a Tensor has its own dims and lengths", got="dims= or lengths=")
        return of_tensor(source, rows, cols, batch, notes)
    return of_array(source, rows, cols, batch, dims, lengths)


def _words(side: list[list[int]] | None, index: int, tokenizer: object) -> list[str] | None:
    """The labels of a sequence by their numbers."""
    if side is None:
        return None
    vocab = None if tokenizer is None else tokenizer if isinstance(tokenizer, Vocab) else Vocab(tokenizer)
    return [str(number) if vocab is None else str(vocab.decode(number)) for number in side[index]]


# -- several
def _is_array(value: object) -> bool:
    return hasattr(value, "raw_tensor") or isinstance(value, Seen) or len(getattr(value, "shape", ())) >= 2


def _of_one_kind(captured: Captured, notes: Notes) -> list[Seen]:
    """The weights of the first call that attend to the source of a decoder, or else the most frequent ones.

    Names of the others go into the notes.
    """
    groups: dict[tuple[object, tuple[str, str]], list[Seen]] = {}
    first, last = (pick((entry.call for entry in captured), default=1) for pick in (min, max))
    for entry in captured:
        if entry.call == first:
            sides = ("" if entry.rows is None else entry.rows.name, entry.cols.name)
            shape = () if sides[0] == "step" else entry.shape[:2]
            groups.setdefault((shape, sides), []).append(entry)
    if not groups:
        raise ViewError("show_attention: no attention was seen", hint=captured.why_nothing())
    largest = max(groups.items(), key=lambda item: (item[0][1] == ("step", "source"), len(item[1])))[1]
    rarer = [group for group in groups.values() if group is not largest]
    names = [entry.name for group in rarer for entry in group]
    if last > first:
        notes.add(f"of several calls the first; rf.show_attention(seen['*#{last}'])")
    if names:
        notes.add(f"of other dims or sizes: {first_of(names, 3)}; rf.show_attention(seen[{names[0]!r}])")
    notes.add(captured.left_out_text())
    return largest


def _common(names: list[str]) -> str:
    """The common start of all names: "encoder.layers"."""
    first, last = min(names), max(names)
    stop = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:stop].rstrip("._#0123456789 ")
