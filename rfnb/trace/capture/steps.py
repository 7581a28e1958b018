"""Joins the attention of decoding steps: for each layer one matrix, steps × source, whose rows follow a hypothesis.

A step is a call of the layer whose keys are those of the call before, or go on from them. In a beam search, a
hypothesis may be another row of the batch at each step: `generate` says which labels each row has, and in other loops
the keys say it (`backend.torch.attention`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.ops.convert import convert_to_tensor
from rfnb.trace.capture.generate import Decoded, Generated

if TYPE_CHECKING:
    from rfnb.trace.capture.capture import Seen

UNKNOWN = "the batch has several sequences with the same keys; each row of it is taken for one hypothesis at all steps"

OWN_KEYS = frozenset(("more", "slid", "written", "again"))
"""Kinds of keys of the labels so far: self-attention."""

Labels = list[list[int]]
"""Numbers of labels, for each sequence."""


@dataclass(frozen=True)
class _Cell:
    """A row of weights: of which step, at which place of its batch, and which of its queries."""

    step: int
    place: int
    query: int


@dataclass
class _Step:
    """Attention of one call of the model, by place. decoded: the call in `generate`."""

    decoded: Decoded | None
    items: dict[Hashable, Seen] = field(default_factory=dict)


def joined(items: list[Seen]) -> Iterator[Seen]:
    """The items in order, with those of decoding steps joined into one for each layer."""
    stands_for: dict[int, Seen | None] = {}  # by id of an item: what stands for it
    for steps in _runs(_steps(items)):
        generated = steps[0].decoded.generated if steps[0].decoded is not None else None
        for place in dict.fromkeys(place for step in steps for place in step.items):
            parts = {number: step.items[place] for number, step in enumerate(steps) if place in step.items}
            if len(parts) < 2 and len(parts) < len(steps):
                continue
            result = _of_generate(generated, steps, parts) if generated is not None else _of_loop(steps, parts)
            if result is not None:
                ids = [*map(id, parts.values())]
                stands_for |= {**dict.fromkeys(ids), ids[0]: result}
    for item in items:
        if (result := stands_for.get(id(item), item)) is not None:
            yield result


def _steps(items: list[Seen]) -> Iterator[_Step]:
    """The calls of the model: one begins where a place comes again, or `generate` calls the model again.

    What the same call computed before that place, such as a layer that the call before did not have, begins it too.
    """
    step: _Step | None = None
    for item in items:
        if item.step is None:
            continue
        place = item.path, item.source, item.variable
        if step is None or place in step.items or item.decoded is not step.decoded:
            call_items = {} if step is None or item.decoded is not step.decoded else _of_call(step, item.step.call)
            if place in call_items:  # the same call comes to a place twice
                call_items = {}
            if step is not None:
                step.items = {key: old for key, old in step.items.items() if key not in call_items}
                yield step
            step = _Step(item.decoded, call_items)
        step.items[place] = item
    if step is not None:
        yield step


def _of_call(step: _Step, call: int) -> dict[Hashable, Seen]:
    return {place: item for place, item in step.items.items() if item.step is not None and item.step.call == call}


def _runs(steps: Iterator[_Step]) -> Iterator[list[_Step]]:
    """Steps that belong together: of one call of `generate`, or each of which continues the one before."""
    run: list[_Step] = []
    for step in steps:
        if run and not _continues(run, step):
            yield run
            run = []
        run.append(step)
    if run:
        yield run


def _continues(run: list[_Step], step: _Step) -> bool:
    last_step = run[-1]
    new, old = step.decoded, last_step.decoded
    if new is not None or old is not None:
        return new is not None and old is not None and new.generated is old.generated
    shared = [item for place, item in step.items.items() if place in last_step.items]
    kinds = {item.step.keys for item in shared if item.step is not None}
    if not shared or len(shared) < len(step.items) or "new" in kinds:
        return False
    if kinds != {"same"}:
        return True
    if any(item.shape[0] > 1 for item in shared):
        return False  # the same call again
    calls = [_call(call_step) for call_step in (*run, step)]
    return calls[-1] == calls[-2] or len(set(calls[:-1])) == len(calls[:-1])


def _call(step: _Step) -> int:
    return next(item.step.call for item in step.items.values() if item.step is not None)


# -- which rows belong to a hypothesis


def _of_generate(generated: Generated, steps: list[_Step], parts: dict[int, Seen]) -> Seen | None:
    """Weights for the sequences that `generate` returned."""
    if generated.sequences is None:
        return None
    table: dict[tuple[int, int, bytes], _Cell] = {}
    for number, item in parts.items():
        decoded = steps[number].decoded
        assert decoded is not None
        labels = decoded.labels
        count, queries = labels.shape[1], item.shape[0]
        if _batch(item) != len(labels) or queries > count:
            return None
        query = count - 1 if queries == count and number else count - queries
        for row, written in enumerate(labels):
            for position in range(query, count):
                key = row * generated.count // len(labels), position, written[: position + 1].tobytes()
                table.setdefault(key, _Cell(number, row, position - count + queries))
    keys = [(item.shape[1], _labels(steps[number]).shape[1]) for number, item in parts.items()]
    kinds = {item.step.keys for item in parts.values() if item.step is not None}
    is_self = bool(kinds & OWN_KEYS) or all(size == count for size, count in keys)
    if not is_self and len({size for size, _ in keys}) > 1:
        return None  # such as labels and source in one attention
    fits = generated.source is not None and generated.source.shape[1] == keys[0][0]
    source_labels = generated.source if fits else None
    sequences = generated.sequences.astype(_labels(steps[0]).dtype)
    start, prompt = min(position for _, position, _ in table), _labels(steps[0]).shape[1]
    rows: list[list[_Cell]] = []
    cols: list[list[int]] = []
    labels_: tuple[Labels, Labels] = ([], [])
    for number, sequence in enumerate(sequences):
        source = number * generated.count // len(sequences)
        begin = max(start, _padding(generated.prompt, source))
        cells = []
        for position in range(begin, _end(sequence, prompt, generated.ends) - 1):
            cell = table.get((source, position, sequence[: position + 1].tobytes()))
            if cell is None:
                break
            cells.append(cell)
        rows.append(cells)
        stop = begin + len(cells)
        if is_self:
            cols.append([*range(begin, stop)])
            labels_[0].append(sequence[begin:stop].tolist())
            labels_[1].append(sequence[begin:stop].tolist())
        else:
            cols.append(_columns(generated, source, keys[0][0]))
            labels_[0].append(sequence[begin + 1 : stop + 1].tolist())
            labels_[1].append([] if source_labels is None else source_labels[source][cols[-1]].tolist())
    if not any(rows):
        return None
    offsets = {
        number: max(0, count - size) if is_self else 0 for number, (size, count) in zip(parts, keys, strict=True)
    }
    labels_given = (labels_[0], labels_[1] if is_self or source_labels is not None else None)
    return _join(parts, rows, cols, offsets, is_self, labels_given, generated.tokenizer, None)


def _of_loop(steps: list[_Step], parts: dict[int, Seen]) -> Seen | None:
    """Weights for the batch of the last step."""
    if len(parts) < max(len(steps), 2):
        return None
    kinds = {item.step.keys for item in parts.values() if item.step is not None}
    is_self = bool(kinds & OWN_KEYS)
    firsts = _positions(steps)
    end = len(steps) - 1
    count = firsts[end] + parts[end].shape[0]
    rows: list[list[_Cell]] = []
    for row in range(_batch(parts[end])):
        cells: list[_Cell | None] = [None] * count
        at = row
        for number in range(end, -1, -1):
            for query in range(parts[number].shape[0]):
                if cells[firsts[number] + query] is None:
                    cells[firsts[number] + query] = _Cell(number, at, query)
            at = _parents(steps[number], at)
        rows.append([cell for cell in cells if cell is not None])
    width = count if is_self else parts[end].shape[1]
    if "slid" not in kinds:
        width = min(width, parts[end].shape[1])
    cols = [[*range(width)] for _ in rows]
    ends = {number: firsts[number] + item.shape[0] if is_self else 0 for number, item in parts.items()}
    offsets = {number: max(0, ends[number] - item.shape[1]) for number, item in parts.items()}
    guess = all(_is_guess(step) for step in steps[1:]) and any(len(row) > 1 for row in rows)
    return _join(parts, rows, cols, offsets, is_self, (None, None), None, UNKNOWN if guess else None)


def _positions(steps: list[_Step]) -> list[int]:
    """The position of the first query of each step."""
    firsts, count = [], 0
    for step in steps:
        growing = [
            item for item in step.items.values() if item.step is not None and item.step.keys in ("more", "again")
        ]
        rows = next(iter(growing or step.items.values())).shape[0]
        position = growing[0].shape[1] - rows if growing else count
        firsts.append(position)
        count = position + rows
    return firsts


def _parents(step: _Step, row: int) -> int:
    """The row of the step before that a row continues, by the keys that tell hypotheses apart if there are some."""
    continued = [item.step for item in step.items.values() if item.step is not None and item.step.parents is not None]
    continued.sort(key=lambda step: step.keys == "same")
    return continued[0].parents[row] if continued and continued[0].parents is not None else row


def _is_guess(step: _Step) -> bool:
    kinds = [item.step for item in step.items.values() if item.step is not None]
    return all(kind.keys == "same" and kind.alike for kind in kinds)


def _labels(step: _Step) -> np.ndarray:
    assert step.decoded is not None
    return step.decoded.labels


def _batch(item: Seen) -> int:
    return next((size for dim, size in item.axes if dim.kind == "batch"), 1)


def _padding(mask: np.ndarray | None, source: int) -> int:
    """How many labels of the prompt are padding on the left."""
    return 0 if mask is None or not mask[source].any() else int(mask[source].argmax())


def _end(sequence: np.ndarray, prompt: int, ends: frozenset[int]) -> int:
    """The length of a sequence up to the label after the prompt that ends it."""
    return next((i + 1 for i in range(prompt, len(sequence)) if int(sequence[i]) in ends), len(sequence))


def _columns(generated: Generated, source: int, size: int) -> list[int]:
    mask = generated.mask
    return [*range(size)] if mask is None or mask.shape[1] != size else np.flatnonzero(mask[source]).tolist()


# -- the weights


def _join(
    parts: dict[int, Seen],
    rows: list[list[_Cell]],
    cols: list[list[int]],
    offsets: dict[int, int],
    is_self: bool,
    labels: tuple[Labels | None, Labels | None],
    tokenizer: object,
    note: str | None,
) -> Seen:
    """Weights over all steps. offsets: how many columns those of a step lack on the left. note: what is not known for
    sure."""
    heads = [(dim, size) for dim, size in next(iter(parts.values())).axes if dim.name == "head"]
    batch = Dim(len(rows), name="batch", kind="batch")
    steps = _dim("step", [len(cells) for cells in rows], batch)
    keys = _dim("key" if is_self else "source", [len(numbers) for numbers in cols], batch)
    sizes = tuple(max(map(len, sides)) for sides in (rows, cols))
    axes = ((batch, len(rows)), *heads, (steps, sizes[0]), (keys, sizes[1]))
    makes = {number: item.make for number, item in parts.items()}

    def make() -> Tensor:
        weights = np.zeros([len(rows), heads[0][1] if heads else 1, *sizes], np.float32)
        for number, make in makes.items():
            raw = _numpy(make().raw_tensor)
            raw = raw.reshape(-1, weights.shape[1], *raw.shape[-2:])
            for row, cells in enumerate(rows):
                at = np.array([i for i, cell in enumerate(cells) if cell.step == number], np.int64)
                columns = np.array(cols[row], np.int64) - offsets[number]
                valid = (columns >= 0) & (columns < raw.shape[-1])
                if len(at):
                    places = [(cells[i].place, cells[i].query) for i in at]
                    values = raw[[place for place, _ in places], :, [query for _, query in places]]
                    weights[row, :, at[:, None], np.flatnonzero(valid)[None]] = np.moveaxis(
                        values[:, :, columns[valid]], 1, 2
                    )
        with listening(None):
            shaped = weights if heads else weights[:, 0]
            return convert_to_tensor(shaped, dims=[dim for dim, _ in axes])

    return replace(
        next(iter(parts.values())), rows=steps, cols=keys, axes=axes, bytes=sum(item.bytes for item in parts.values()),
        make=make, step=None, decoded=None, labels=labels, tokenizer=tokenizer, note=note,
    )  # fmt: skip


def _dim(name: str, lengths: Sequence[int], batch: Dim) -> Dim:
    if len(set(lengths)) == 1:
        return Dim(lengths[0], name=name)
    with listening(None):
        return Dim(convert_to_tensor(np.array(lengths, np.int32), dims=[batch]), name=name)


def _numpy(raw: RawTensor) -> np.ndarray:
    array: np.ndarray = raw.detach().float().cpu().numpy() if hasattr(raw, "detach") else np.asarray(raw)
    return array
