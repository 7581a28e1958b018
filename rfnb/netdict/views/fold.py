"""The picture of a net dict: boxes, lines, dims and loops, in the JSON of graphs of model calls.

A box is a layer, a layer with a net inside, a repeated block, or a section.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import wrap
from typing import Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.ground.text import count_of, cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.graph.fold import longest_repetition
from rfnb.display.graph.names import Values, signature
from rfnb.display.graph.schema import GraphBody, GraphNode, GraphValue
from rfnb.netdict.inner_net import UNIT
from rfnb.netdict.layer import Layer
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.network import Network
from rfnb.netdict.report.outline import OutlineEntry

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
    entry: OutlineEntry | None = None
    inner: list[NetworkBox] = field(default_factory=list)
    alike: list[NetworkBox] = field(default_factory=list)
    hidden: list[OutlineEntry] = field(default_factory=list)
    place: str = ""
    beside: str = ""

    @cached_property
    def entries(self) -> list[OutlineEntry]:
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


def has_loss(entry: OutlineEntry) -> bool:
    """Whether the layer has a loss."""
    return isinstance(entry.described.get("loss"), str)


def parts_of(
    entries: Mapping[str, OutlineEntry], signs: Mapping[str, object], loops: Mapping[str, Mapping[str, str]]
) -> list[NetworkBox]:
    """The boxes of a net.

    signs: by path, what layers must have in common to be repeated: dims, for example. loops: by the path of a loop, the
    place of each layer that is written in it, "" for those in its steps. Those that have left it stand beside its box.
    """
    by_scope: dict[str, list[OutlineEntry]] = {}
    for entry in entries.values():
        by_scope.setdefault(entry.scope.path, []).append(entry)
    return _arranged(_level(by_scope, "", signs, loops), signs)


def _arranged(parts: list[NetworkBox], signs: Mapping[str, object]) -> list[NetworkBox]:
    return sections(folded(parts, signs))


def _level(
    below: Mapping[str, list[OutlineEntry]], path: str, signs: Mapping[str, Any], loops: Mapping[str, Mapping[str, str]]
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


def _place(part: NetworkBox, places: Mapping[str, str], loops: Mapping[str, object]) -> None:
    """Sets the place of a box in a loop, and those of the boxes in it; a loop of its own stays."""
    common = {places[path] for path in part.makes if path in places}
    if not part.beside and part.makes.isdisjoint(loops) and len(common) == 1:
        part.place = common.pop()
    for inner in (*part.inner, *part.alike):
        _place(inner, places, loops)


def folded(parts: Sequence[NetworkBox], signs: Mapping[str, object]) -> list[NetworkBox]:
    """The parts, with repetitions as one."""
    place = {path: i for i, part in enumerate(parts) for path in part.makes}
    keys = [(_key(part, i, place, signs), bool(part.inner)) for i, part in enumerate(parts)]
    boxes: list[NetworkBox] = []
    start = 0
    while start < len(parts):
        period, times = longest_repetition(keys, start, PERIOD, _fewest)
        if times > 1:
            start, times = _named(parts, boxes, keys, start, period, times)
            blocks = [list(parts[i : i + period]) for i in range(start, start + period * times, period)]
            first, *twins = [block[0] if period == 1 else _block(block) for block in blocks]
            boxes.append(replace(first, alike=twins))
        else:
            boxes.append(parts[start])
        start += period * times
    return boxes


def _key(part: NetworkBox, i: int, place: Mapping[str, int], signs: Mapping[str, object]) -> object:
    """Equal for parts of equal form, which read what is as far before them, or the same."""
    reads = tuple(
        (i - place[path] if path in place and abs(i - place[path]) <= PERIOD else path, back)
        for path, back in part.reads
    )
    return part.place, reads, tuple((entry.path.removeprefix(part.path), signs[entry.path]) for entry in part.entries)


def _fewest(unit: Sequence[tuple[object, bool]]) -> int:
    """How often a sequence of boxes must be repeated to become one; twice if it is long, or a box has a net inside."""
    return 2 if len(unit) > 2 or any(inner for _, inner in unit) else 3


def _named(
    parts: Sequence[NetworkBox], made: list[NetworkBox], keys: Sequence[object], start: int, period: int, times: int
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


@dataclass
class LoopBox:
    """A loop: what is said of its steps, and where its layers are.

    places: by path, "before the loop", "after the loop", or "" in its steps. whole: by path, the dims of a layer that
    is computed for all frames together. runs: whether steps are left. sources: the paths of `data:source`.
    """

    words: list[str]
    places: dict[str, str]
    whole: dict[str, tuple[Dim, ...]]
    runs: bool
    sources: tuple[str, ...]

    def steps_of(self, path: str, entries: Mapping[str, OutlineEntry]) -> list[OutlineEntry]:
        """The layers of the loop with this path that are computed in its steps."""
        return [entry for key, entry in entries.items() if key.startswith(f"{path}/") and not self.places.get(key, "")]


def loops_of(net: Network) -> dict[str, LoopBox]:
    """The loops that were constructed, by path."""
    layers = net.layers
    nets = next((layer.spec.nets for layer in layers.values()), {})
    recs = {path: rec for path, rec in nets.items() if path in layers and (rec.inside or rec.before)}
    templates = net.templates() if recs else {}
    return {path: _loop(net, rec, templates) for path, rec in recs.items()}


def as_computed(
    entries: Mapping[str, OutlineEntry], layers: Mapping[str, Layer], loops: Mapping[str, LoopBox]
) -> dict[str, OutlineEntry]:
    """The layers with what they read.

    A choice that does not search reads its target, and no scores. A loop reads its sources for layers in its steps.
    """
    result = {}
    for path, entry in entries.items():
        layer = layers.get(path)
        if layer is not None and not layer.takes_sources:
            references = [reference for reference in entry.references if reference.option != "from"]
            references += [
                replace(reference, option="from")
                for reference in references
                if reference.option == "target" and layer.takes_target
            ]
            entry = replace(entry, references=references)
        if path in loops and not any(
            reference.path == f"{path}/data"
            for step in loops[path].steps_of(path, entries)
            for reference in step.references
        ):
            entry = replace(entry, references=[other for other in entry.references if other.option != "from"])
        result[path] = entry
    return result


def _loop(net: Network, rec: RecNet, templates: Mapping[str, Tensor]) -> LoopBox:
    rows = net.explain(rec.path).rows
    places = {f"{rec.path}/{row.name}": row.place if row.place != "each step" else "" for row in rows}
    runs = bool(rec.inside)
    stacked = {path: tuple(rec.stacked_dims(templates[path])) for path, place in places.items() if place}
    words = list(_words(rec)) if runs else ["no loop: all frames at once"]
    return LoopBox(words, places, stacked, runs, rec.sources)


def _words(rec: RecNet) -> Iterator[str]:
    layer = rec.layer
    if rec.known:
        yield f"a step for each frame of {rec.axis.name}"
    else:
        via = rec.inputs.get("max_seq_len_via")
        limit = f"as many steps as {via} says" if via else f"{layer.max_seq_len} steps"
        yield f"until {rec.name_of(rec.end or 'end')}, at most {limit}"
    if rec.beam is not None:
        yield f"beam {rec.beam.dimension}"


Status = tuple[Literal["constructed", "stops", "waits", "unused"], str]
"""What became of a layer, and why."""
WIDE = 48
"""The most characters of a line of a reason."""


class NetFolder:
    """Makes the bodies of the picture.

    templates: by path, of layers and data. status: by path. params: by path, the number of values of a layer's own
    parameters. loops: by path.
    """

    def __init__(
        self,
        entries: Mapping[str, OutlineEntry],
        templates: Mapping[str, Tensor],
        status: Mapping[str, Status],
        params: Mapping[str, int],
        loops: Mapping[str, LoopBox],
    ):
        self.templates, self.status, self.params, self.loops = templates, status, params, loops
        self._data = {f"{path}/data": loop.sources for path, loop in loops.items()}
        self.values = Values()
        self.numbers = {path: i for i, path in enumerate([*templates, *(p for p in entries if p not in templates)])}
        self.bodies: dict[str, GraphBody] = {}
        self._given: dict[tuple[str, bool], Value] = {}
        self._count = 0
        signs = {path: self._sign(entry) for path, entry in entries.items()}
        places = {path: loop.places for path, loop in loops.items() if loop.runs}
        self.root = self._body(parts_of(entries, signs, places), "")

    def _sign(self, entry: OutlineEntry) -> object:
        """What layers of repeated blocks have in common."""
        named = {reference.option for reference in entry.references} | {"from", "subnetwork"}
        options = tuple((name, repr(value)) for name, value in entry.described.items() if name not in named)
        template = self.templates.get(entry.path)
        dims = None if template is None else tuple((dim.name, dim.dimension) for dim in template.dims)
        return options if entry.ends is None else entry.cls, dims, self.status[entry.path]

    # -- bodies

    def _body(self, parts: Sequence[NetworkBox], net: str) -> str:
        """The id of a new body. net: the path of the net that the parts are in, "encoder/"; "" for the whole."""
        body = GraphBody(nodes=[], edges=[])
        holder = {path: f"n{self._count + i}" for i, part in enumerate(parts) for path in part.makes}
        keys = [f"n{self._count + i}" for i in range(len(parts))]
        self._count += len(parts)
        ports: dict[str, str] = {}
        lines: dict[tuple[str, str, int, bool], None] = {}
        for key, part in zip(keys, parts, strict=True):
            body["nodes"].append(self._node(key, part))
            loss = None
            if part.entry is not None and has_loss(part.entry) and part.entry.used:
                loss = self._loss(body, part.entry)
                lines[key, loss, self.numbers[part.path], False] = None
            target = None if loss is None else self._target(part.entry)
            for path, back in self._reads(part, net):
                source = holder.get(path) or self._port(body, ports, path, net, back)
                goal = loss if path == target and loss is not None else key
                back = back and path in holder and net.startswith(self._around(path))
                if source != goal:
                    lines[source, goal, self.numbers.setdefault(path, len(self.numbers)), back] = None
        order = {"input": 0, "output": 2}
        body["nodes"].sort(key=lambda node: order.get(node["kind"], 1))
        body["edges"] = [{"source": a, "target": b, "value": n, "back": back} for a, b, n, back in lines]
        key = f"b{len(self.bodies)}"
        self.bodies[key] = body
        return key

    def _reads(self, part: NetworkBox, net: str) -> Iterator[tuple[str, bool]]:
        reads = [*part.reads]
        for twin in part.alike:
            reads += [read for read in twin.reads if read[0] not in part.makes and read not in part.reads]
        for path, back in reads:
            external = path in self._data and not net.startswith(path.removesuffix("data"))
            yield from [(source, False) for source in self._data[path]] if external else [(path, back)]

    def _around(self, path: str) -> str:
        """The net of the innermost loop that a layer is written in: "output/"."""
        return max((f"{loop}/" for loop in self.loops if path.startswith(f"{loop}/")), key=len, default="")

    def _target(self, entry: OutlineEntry | None) -> str | None:
        references = () if entry is None else entry.references
        return next((reference.path for reference in references if reference.option == "target"), None)

    def _port(self, body: GraphBody, ports: dict[str, str], path: str, net: str, back: bool) -> str:
        name = path.removeprefix(net) if net else path.removeprefix("data:")
        name = name.removeprefix(f"{UNIT}/")
        name = f"prev:{name}" if back else name
        if name not in ports:
            value = [self._value(path, name, ())] if path in self.templates else []
            ports[name] = self._add(body, "input", name, outputs=value)
        return ports[name]

    def _loss(self, body: GraphBody, entry: OutlineEntry) -> str:
        opts = entry.described.get("loss_opts")
        scale = entry.described.get("loss_scale", opts.get("scale", 1.0) if isinstance(opts, Mapping) else 1.0)
        notes = ["loss", *([f"× {scale:g}"] if isinstance(scale, int | float) and scale != 1.0 else [])]
        return self._add(body, "output", str(entry.described["loss"]), notes=notes)

    def _add(self, body: GraphBody, kind: Any, name: str, **given: object) -> str:
        key = f"p{self._count}"
        self._count += 1
        node: GraphNode = {
            "id": key, "kind": kind, "name": name, "cls": "", "path": "", "outputs": [], "params": 0, "times": 1,
            "options": "", "notes": [], "status": "done", "body": None,
        }  # fmt: skip
        body["nodes"].append(node | given)  # type: ignore[arg-type]
        return key

    # -- boxes

    def _node(self, key: str, part: NetworkBox) -> GraphNode:
        entry, times = part.entry, 1 + len(part.alike)
        net = part.entries[0].scope.path if entry is None else f"{entry.path}/"
        body = self._body(part.inner, net) if part.inner else None
        stops = [path for path in part.makes if self.status[path][0] == "stops"]
        state, reason = ("constructed", "") if entry is None else self.status[entry.path]
        notes = list(self._notes(part, state, reason, len(stops)))
        loop = self.loops.get(part.path) if entry is not None else None
        name = f"{part.beside.rpartition('/')[2]}/{part.name}" if part.beside else part.name
        ghost = state in ("waits", "unused") and not stops
        node: GraphNode = {
            "id": key,
            "kind": "section" if entry is None else "module" if loop is None or not loop.runs else "loop",
            "name": name if times == 1 else f"{name} – {part.alike[-1].name}",
            "cls": self._cls(part),
            "path": part.path,
            "outputs": self._outputs(part),
            "params": sum(self.params.get(path, 0) for path in part.makes),
            "times": times,
            "options": "",
            "notes": notes,
            "status": "failed" if stops else "ghost" if ghost else "done",
            "body": body,
        }
        if part.place:
            node["place"] = "before" if part.place == PLACES[0] else "after"
        return node

    def _cls(self, part: NetworkBox) -> str:
        if part.entry is None:
            return count_of(len(part.inner), "layer")
        unit = part.entry.described.get("unit")
        return f"{part.entry.cls} {unit}" if isinstance(unit, str) else part.entry.cls

    def _notes(self, part: NetworkBox, state: str, reason: str, stops: int) -> Iterator[str]:
        if state == "stops":
            yield from wrap(reason, WIDE, max_lines=3, placeholder=" …")
        elif stops:
            yield f"{count_of(stops, 'layer')} inside {'stops' if stops == 1 else 'stop'}"
        elif state == "waits":
            yield f"waits for {cut(reason, WIDE)}"
        elif state == "unused":
            yield "unused"
        entry = part.entry
        if part.place:
            yield part.place
        if entry is not None:
            yield from self.loops[entry.path].words if entry.path in self.loops else ()
            if entry.described.get("is_output_layer") and entry.name != "output":
                yield "output"
            yield from (
                f"↻ {reference.written}"
                for reference in entry.references
                if reference.back and reference.path == entry.path
            )

    def _outputs(self, part: NetworkBox) -> list[GraphValue]:
        """The dims of a layer where they change; those of the last layer of a section."""
        box = part
        while box.alike or box.entry is None:
            box = box.alike[-1] if box.alike else box.inner[-1]
        if box.path not in self.templates:
            return []
        reads = [path for path, _ in part.reads if path in self.templates]
        moved = bool(part.place)
        value = self._value(box.path, box.name, [signature(self._of(path, moved)) for path in reads], moved)
        return [value] if value["changed"] else []

    def _of(self, path: str, whole: bool = False) -> Value:
        """The value of a layer. whole: of one that has left its loop, that of all frames."""
        dims = next((loop.whole[path] for loop in self.loops.values() if whole and path in loop.whole), None)
        key = path, dims is not None
        if key not in self._given:
            template = self.templates[path]
            self._given[key] = Value(
                self.numbers[path], path, template.dims if dims is None else dims, template.sparse_dim
            )
        return self._given[key]

    def _value(self, path: str, name: str, taken: Sequence[object], whole: bool = False) -> GraphValue:
        return self.values.describe(self._of(path, whole), name, taken)
