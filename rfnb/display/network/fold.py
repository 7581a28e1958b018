"""The picture of a net dict: boxes, lines and dims, in the JSON of graphs of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal

from rfnb.core.graph.graph import Value
from rfnb.core.ground.text import count_of, cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.graph.schema import GraphBody, GraphNode, GraphValue
from rfnb.display.graph.values import Values, signature
from rfnb.display.network.loops import LoopBox
from rfnb.display.network.parts import PLACES, NetworkBox, has_loss, parts_of
from rfnb.network.inner_net import UNIT
from rfnb.network.report.outline import Entry

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
        entries: Mapping[str, Entry],
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

    def _sign(self, entry: Entry) -> Any:
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

    def _target(self, entry: Entry | None) -> str | None:
        targets = (
            [reference.path for reference in entry.references if reference.option == "target"]
            if entry is not None
            else []
        )
        return targets[0] if targets else None

    def _port(self, body: GraphBody, ports: dict[str, str], path: str, net: str, back: bool) -> str:
        name = path.removeprefix(net) if net else path.removeprefix("data:")
        name = name.removeprefix(f"{UNIT}/")
        name = f"prev:{name}" if back else name
        if name not in ports:
            value = [self._value(path, name, ())] if path in self.templates else []
            ports[name] = self._add(body, "input", name, outputs=value)
        return ports[name]

    def _loss(self, body: GraphBody, entry: Entry) -> str:
        opts = entry.described.get("loss_opts")
        scale = entry.described.get("loss_scale", opts.get("scale", 1.0) if isinstance(opts, Mapping) else 1.0)
        notes = ["loss", *([f"× {scale:g}"] if isinstance(scale, int | float) and scale != 1.0 else [])]
        return self._add(body, "output", str(entry.described["loss"]), notes=notes)

    def _add(self, body: GraphBody, kind: Any, name: str, **given: Any) -> str:
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
        last = part
        while last.alike or last.entry is None:
            last = last.alike[-1] if last.alike else last.inner[-1]
        if last.path not in self.templates:
            return []
        reads = [path for path, _ in part.reads if path in self.templates]
        moved = bool(part.place)
        value = self._value(last.path, last.name, [signature(self._of(path, moved)) for path in reads], moved)
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

    def _value(self, path: str, name: str, taken: Sequence[Any], whole: bool = False) -> GraphValue:
        return self.values.describe(self._of(path, whole), name, taken)
