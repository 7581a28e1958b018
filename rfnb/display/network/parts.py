"""What is one box of the picture of a net: a layer, a layer with a net inside, a repeated block, a section."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rfnb.network.inner_net import UNIT
from rfnb.network.report.outline import Entry

PLACES = "before the loop", "after the loop"
PERIOD = 64
"""The most layers of a block that is repeated."""
BOXES = 60
"""Number of boxes above which they are divided into sections."""
MARKS = "_-./"
"""What stands between the words of a name."""
Read = tuple[str, bool]
"""The path of a layer or of data, and whether its last step is meant."""


@dataclass(eq=False)
class NetworkBox:
    """A box. entry: its layer; None for blocks and sections. inner: the boxes inside. alike: its repetitions.

    hidden: layers that have no box of their own: a subnetwork that is the only layer in another one.
    place: "before the loop" or "after the loop" if it has left the steps. beside: the path of the loop that it stands
    beside, although it is written in it.
    """

    name: str
    path: str
    entry: Entry | None = None
    inner: list[NetworkBox] = field(default_factory=list)
    alike: list[NetworkBox] = field(default_factory=list)
    hidden: list[Entry] = field(default_factory=list)
    place: str = ""
    beside: str = ""

    @cached_property
    def entries(self) -> list[Entry]:
        """All layers that it stands for."""
        owner = [] if self.entry is None else [self.entry]
        return [*owner, *self.hidden, *(entry for part in (*self.inner, *self.alike) for entry in part.entries)]

    @cached_property
    def makes(self) -> set[str]:
        """The paths of its layers."""
        return {entry.path for entry in self.entries}

    @cached_property
    def reads(self) -> dict[Read, None]:
        """What it reads from outside, the targets of its losses included."""
        reads: dict[Read, None] = {}
        for entry in self.entries:
            for reference in entry.references:
                if reference.path is not None and (reference.option != "target" or has_loss(entry)):
                    reads[reference.path, reference.back] = None
        inputs = {f"{entry.path}/data" for entry in self.entries if entry.ends is not None}
        return {read: None for read in reads if read[0] not in self.makes and read[0] not in inputs}


def has_loss(entry: Entry) -> bool:
    """Whether the layer has a loss."""
    return isinstance(entry.described.get("loss"), str)


def parts_of(
    entries: Mapping[str, Entry], signs: Mapping[str, Any], loops: Mapping[str, Mapping[str, str]]
) -> list[NetworkBox]:
    """The boxes of a net.

    signs: by path, what layers must have in common to be repeated: dims, for example. loops: by the path of a loop, the
    place of each layer that is written in it, "" for those in its steps. Those that have left it stand beside its box.
    """
    by_scope: dict[str, list[Entry]] = {}
    for entry in entries.values():
        by_scope.setdefault(entry.scope.path, []).append(entry)
    return _arranged(_level(by_scope, "", signs, loops), signs)


def _arranged(parts: list[NetworkBox], signs: Mapping[str, Any]) -> list[NetworkBox]:
    return sections(folded(parts, signs))


def _level(
    below: Mapping[str, list[Entry]], path: str, signs: Mapping[str, Any], loops: Mapping[str, Mapping[str, str]]
) -> list[NetworkBox]:
    """The boxes of a level, each one for itself."""
    parts = []
    for entry in below.get(path, ()):
        inner = [] if entry.ends is None else _level(below, f"{entry.path}/", signs, loops)
        stay = inner
        if entry.path in loops:
            for part in inner:
                _place(part, loops[entry.path], loops)
                part.beside = part.beside or (entry.path if part.place else "")
            stay = [part for part in inner if part.beside != entry.path]
        early, late = ([part for part in inner if part.beside == entry.path and part.place == at] for at in PLACES)
        box = NetworkBox(entry.name, entry.path, entry, _arranged(stay, signs))
        if len(inner) == 1 and inner[0].inner and inner[0].name == UNIT and inner[0].entry is not None:
            box.inner, box.hidden = inner[0].inner, [inner[0].entry, *inner[0].hidden]
        parts += [*early, box, *late]
    return parts


def _place(part: NetworkBox, places: Mapping[str, str], loops: Mapping[str, Any]) -> None:
    """Sets the place of a box in a loop, and those of the boxes in it; a loop of its own stays."""
    common = {places[path] for path in part.makes if path in places}
    if not part.beside and part.makes.isdisjoint(loops) and len(common) == 1:
        part.place = common.pop()
    for inner in (*part.inner, *part.alike):
        _place(inner, places, loops)


def folded(parts: Sequence[NetworkBox], signs: Mapping[str, Any]) -> list[NetworkBox]:
    """The parts, with repetitions as one."""
    place = {path: i for i, part in enumerate(parts) for path in part.makes}
    keys = [_key(part, i, place, signs) for i, part in enumerate(parts)]
    boxes: list[NetworkBox] = []
    start = 0
    while start < len(parts):
        period, times = _longest(keys, start, [bool(part.inner) for part in parts])
        if times > 1:
            start, times = _named(parts, boxes, keys, start, period, times)
            blocks = [list(parts[i : i + period]) for i in range(start, start + period * times, period)]
            first, *twins = [block[0] if period == 1 else _block(block) for block in blocks]
            boxes.append(replace(first, alike=twins))
        else:
            boxes.append(parts[start])
        start += period * times
    return boxes


def _key(part: NetworkBox, i: int, place: Mapping[str, int], signs: Mapping[str, Any]) -> Any:
    """Equal for parts of equal form, which read what is as far before them, or the same."""
    reads = tuple(
        (i - place[path] if path in place and abs(i - place[path]) <= PERIOD else path, back)
        for path, back in part.reads
    )
    return part.place, reads, tuple((entry.path.removeprefix(part.path), signs[entry.path]) for entry in part.entries)


def _longest(keys: Sequence[Any], start: int, large: Sequence[bool]) -> tuple[int, int]:
    """Period and count of the longest repetition from `start` on; (1, 1) if nothing is repeated.

    large: which of the parts have a net inside: two of these are enough.
    """
    best = (1, 1)
    for period in range(1, min(PERIOD, (len(keys) - start) // 2) + 1):
        if keys[start] != keys[start + period]:
            continue
        end = start + period
        while end < len(keys) and keys[end] == keys[end - period]:
            end += 1
        times = (end - start) // period
        enough = 2 if period > 2 or any(large[start : start + period]) else 3
        if times >= enough and period * times > best[0] * best[1]:
            best = period, times
    return best


def _named(
    parts: Sequence[NetworkBox], made: list[NetworkBox], keys: Sequence[Any], start: int, period: int, times: int
) -> tuple[int, int]:
    """Where the blocks begin so that the names in each have the same start, and how many there are then."""
    if period == 1:
        return start, times
    end = start + period * times
    while end < len(keys) and keys[end] == keys[end - period]:
        end += 1
    for shift in range(period):
        count = (end - start - shift) // period
        if count < max(times - 1, 2):
            break
        if stem([part.name for part in parts[start + shift : start + shift + period]]):
            made.extend(parts[start : start + shift])
            return start + shift, count
    return start, times


def stem(names: Sequence[str]) -> str:
    """What the names begin with, without a cut word.

    >>> stem(["enc_01_ff", "enc_01_drop"]), stem(["conv1", "pool1"])
    ('enc_01', '')
    """
    first, last = min(names), max(names)  # what these two share, all share
    length = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    common = first[:length]
    if any(name[length : length + 1].isalnum() for name in names) and common[-1:].isalnum():
        common = common[: max(common.rfind(mark) for mark in MARKS) + 1]
    return common.rstrip(MARKS)


def _block(parts: list[NetworkBox]) -> NetworkBox:
    """Several boxes as one, under what their names have in common, or the first and the last name."""
    names = [part.name for part in parts]
    name = (len(parts) > 1 and stem(names)) or f"{names[0]} … {names[-1]}"
    places = {part.place for part in parts}
    return NetworkBox(name, f"{parts[0].path}…", None, parts, place=places.pop() if len(places) == 1 else "")


def sections(parts: list[NetworkBox]) -> list[NetworkBox]:
    """Many boxes divided into sections."""
    if len(parts) <= BOXES:
        return parts
    size = math.isqrt(len(parts) - 1) + 1
    return [_block(parts[i : i + size]) for i in range(0, len(parts), size)]
