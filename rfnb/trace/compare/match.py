"""Matches the values, sequences and dims of two runs, and takes the part of a value that is compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.run.axis_names import is_unnamed
from rfnb.trace.run.entries import frames, going_on
from rfnb.trace.run.find import sequence_number

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


def match_values(a: Sequence[tuple[str, str]], b: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Pairs of positions of matching values, in the order of `a`. Each value is (its name, the code that computed it).

    Values of one name are matched by their code first, and the remaining ones by their order.

    >>> match_values([("x", "f(1)"), ("y", "g(2)")], [("z", "h(0)"), ("x", "f(7)")])
    [(0, 1)]
    """
    pairs: list[tuple[int, int]] = []
    for name in dict.fromkeys(name for name, _ in a):
        at_a, at_b = ([i for i, (label, _) in enumerate(side) if label == name] for side in (a, b))
        matcher = SequenceMatcher(None, [a[i][1] for i in at_a], [b[i][1] for i in at_b], autojunk=False)
        matches = [(at_a[m.a + k], at_b[m.b + k]) for m in matcher.get_matching_blocks() for k in range(m.size)]
        unmatched = (sorted({*side} - {pair[at] for pair in matches}) for at, side in enumerate((at_a, at_b)))
        pairs += [*matches, *zip(*unmatched, strict=False)]
    return sorted(pairs)


class Sequences(NamedTuple):
    """The sequences that two runs have in common. a, b: their numbers in each run; None in a run without sequences."""

    a: list[int] | None
    b: list[int] | None
    names: list[str]
    notes: list[str]


def match_sequences(a: Run, b: Run, sequence: int | str | None) -> Sequences:
    """Matches sequences by tag, if both runs have tags, else by number. A run of one sequence matches `sequence`.

    Raises LoopError if the sequences cannot be matched.
    """
    if sequence is not None:
        return Sequences(_chosen(a, b, sequence), _chosen(b, a, sequence), [repr(sequence)], [])
    if a.tags and b.tags:
        return _by_tags(a, b, a.tags, b.tags)
    if a.batch != b.batch:
        raise LoopError(
            f"compare: the sequences of {a.name} and {b.name} cannot be matched",
            got=f"{a.batch or 1} and {b.batch or 1} sequences, without tags in both",
            hint="compare(a, b, sequence=0), or give the data tags: rf.convert_to_tensor(…, tags=[…])",
        )
    if a.batch is None:
        return Sequences(None, None, [], [])
    numbers, tags = list(range(a.batch)), a.tags or b.tags
    return Sequences(numbers, numbers, [repr(tag) for tag in tags or numbers], [])


def _chosen(run: Run, other: Run, sequence: int | str) -> list[int] | None:
    if run.batch is None:
        return None
    is_it = run.batch == 1 and (other.batch or 0) > 1
    return [0] if is_it else [sequence_number(run, sequence)]


def _by_tags(a: Run, b: Run, tags_a: Sequence[str], tags_b: Sequence[str]) -> Sequences:
    common = [tag for tag in tags_a if tag in tags_b]
    if not common:
        raise LoopError(
            f"compare: {a.name} and {b.name} have no sequence in common",
            got=f"{_some(tags_a)} and {_some(tags_b)}",
            hint="compare(a, b, sequence=…) if one of the runs has a single sequence",
        )
    extra = {"first": set(tags_a) - {*common}, "second": set(tags_b) - {*common}}
    notes = [f"only in the {side}: {_some(sorted(tags))}" for side, tags in extra.items() if tags]
    return Sequences([list(tags_a).index(t) for t in common], [list(tags_b).index(t) for t in common],
                     [repr(tag) for tag in common], notes)  # fmt: skip


def _some(tags: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, tags[:most])) + (", …" if len(tags) > most else "")


def match_dims(a: Sequence[Dim], b: Sequence[Dim]) -> dict[Dim, Dim]:
    """Maps dims of `a` to dims of `b`: the same Dim, else the same name, else the only one left of the same kind; those
    of axes without names, as in plain Python code, by order.
    """
    mapping = {dim: dim for dim in a if dim in b}
    for test in (_same_name, _same_kind):
        for dim in a:
            candidates = [partner for partner in b if partner not in mapping.values() and test(dim, partner)]
            rivals = [partner for partner in a if partner not in mapping and test(partner, dim)]
            if dim not in mapping and len(candidates) == len(rivals) == 1:
                mapping[dim] = candidates[0]
    unmatched = [dim for dim in a if dim not in mapping], [dim for dim in b if dim not in mapping.values()]
    if len(unmatched[0]) == len(unmatched[1]) and any(all(map(is_unnamed, dims)) for dims in unmatched):
        mapping |= zip(*unmatched, strict=True)
    return mapping


def _same_name(a: Dim, b: Dim) -> bool:
    return a.name == b.name


def _same_kind(a: Dim, b: Dim) -> bool:
    return a.kind is not None and a.kind == b.kind


Select = Mapping[str, int]


@dataclass(frozen=True)
class MaskedPart:
    """The numbers of a value with masks. frames: not padding. live: of sequences that take the step. dims: the axes."""

    array: np.ndarray
    frames: np.ndarray
    live: np.ndarray
    dims: tuple[Dim, ...]

    def each(self, change: Callable[[np.ndarray], np.ndarray], dims: Sequence[Dim]) -> MaskedPart:
        """Applies `change` to all three arrays; `dims` are the new axes."""
        return MaskedPart(change(self.array), change(self.frames), change(self.live), tuple(dims))

    def take(self, axis: int, positions: Sequence[int]) -> MaskedPart:
        """Selects positions of an axis."""
        return self.each(lambda array: array.take(positions, axis), self.dims)

    def squeeze(self, axis: int) -> MaskedPart:
        """Removes an axis of size 1."""
        return self.each(lambda array: array.squeeze(axis), [*self.dims[:axis], *self.dims[axis + 1 :]])

    def move(self, dims: Sequence[Dim]) -> MaskedPart:
        """Reorders the axes to `dims`."""
        order = [self.dims.index(dim) for dim in dims]
        return self.each(lambda array: array.transpose(order), dims)

    def pad(self, axis: int, size: int) -> MaskedPart:
        """Pads an axis to `size` with entries that are not frames."""
        padding = [(0, size - self.array.shape[axis] if i == axis else 0) for i in range(self.array.ndim)]
        longer = self.each(lambda array: np.pad(array, padding), self.dims)
        return replace(longer, live=np.pad(self.live, padding, mode="edge")) if self.live.size else longer


STEPS = Dim(None, name="step")
"""The first axis of every part: several steps are compared together."""


def part_of(
    value: Tensor | int,
    arrays: Sequence[np.ndarray],
    run: Run,
    steps: np.ndarray,
    sequences: Sequence[int] | None,
    select: Select,
) -> MaskedPart:
    """The part of a value that is compared at some steps of a run; step -1 stands for the states at the start.

    value: has the dims and lengths, which are the same at all these steps. arrays: the numbers at each step.
    """
    array = np.stack(arrays)
    live = going_on(value, run.size, steps.reshape(-1, *[1] * (array.ndim - 1)))
    real, live = (np.broadcast_to(mask, array.shape) for mask in (frames(value), live))
    part = MaskedPart(array, real, live, (STEPS, *(value.dims if isinstance(value, Tensor) else ())))
    for axis in reversed(range(1, len(part.dims))):
        if part.dims[axis].name in select:
            part = _selected(part, axis, select[part.dims[axis].name]).squeeze(axis)
    if sequences is not None and run.sequence_dim in part.dims:
        part = part.take(part.dims.index(run.sequence_dim), sequences)
    return part


def _selected(part: MaskedPart, axis: int, position: int) -> MaskedPart:
    size, name = part.array.shape[axis], part.dims[axis].name
    if not -size <= position < size:
        raise LoopError(f"compare: there is no {name} {position}", expected=f"0 … {size - 1}")
    return part.take(axis, [position % size])


def fitted(a: MaskedPart, b: MaskedPart, owners: tuple[Dim | None, Dim | None]) -> tuple[MaskedPart, MaskedPart] | str:
    """Both parts with the same axes in the same order, padded to the same sizes; else the reason why they do not fit.

    owners: the dims of the sequences in both runs, which match each other.
    """
    pairs = match_dims(a.dims, b.dims)
    if owners[0] in a.dims and owners[1] in b.dims:
        pairs = {x: y for x, y in pairs.items() if x is not owners[0] and y is not owners[1]}
        pairs |= {owners[0]: owners[1]}
    a, b = _squeezed(a, pairs.keys()), _squeezed(b, pairs.values())
    axes = [[dim.name for dim in a.dims if dim not in pairs], [dim.name for dim in b.dims if dim not in pairs.values()]]
    if axes[0] or axes[1]:
        sides = zip(("first", "second"), axes, strict=True)
        return " and ".join(f"the {side} also has {', '.join(names)}" for side, names in sides if names)
    b = b.move([pairs[dim] for dim in a.dims])
    for axis, (x, y) in enumerate(zip(a.dims, b.dims, strict=True)):
        sizes = a.array.shape[axis], b.array.shape[axis]
        if sizes[0] == sizes[1]:
            continue
        if x.dimension is not None and y.dimension is not None:
            return f"{x.name} has size {sizes[0]} and {sizes[1]}"
        a, b = a.pad(axis, max(sizes)), b.pad(axis, max(sizes))
    return a, b


def _squeezed(part: MaskedPart, matched: Collection[Dim]) -> MaskedPart:
    for axis in reversed(range(len(part.dims))):
        if part.dims[axis] not in matched and part.array.shape[axis] == 1:
            part = part.squeeze(axis)
    return part
