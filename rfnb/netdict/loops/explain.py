"""Explains where the layers of a recurrent net are computed: before its loop, in each step, or after it, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.show import Shown
from rfnb.netdict.build import NetNode
from rfnb.netdict.layer import ChoosingLayer, Layer
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.order import looked_into, needs_of, shortest_way, users_of
from rfnb.netdict.resolve import Scope
from rfnb.nn.module.module import Module
from rfnb.trace.graph.model_graph import model_graph

LayerPlace = Literal["before the loop", "each step", "after the loop"]
BEFORE: LayerPlace = "before the loop"
AFTER: LayerPlace = "after the loop"
Nodes = Mapping[str, NetNode]


class ExplainedLayer(NamedTuple):
    """A layer of a recurrent net: where it is computed, and what keeps it in the steps.

    Attributes:
        line: of the config, if the net dict is from one.
        step: its dims in a step, "{batch, feature}". whole: its dims outside of the loop, with the axis.
        path: names of layers and values, each of which needs the next one: ("s", "prev:att", "att", "s").
        why: the reason in words, for a layer without such a path, or for the last one in it.
        seconds: of a call, in all steps together; None if it was not measured.
    """

    name: str
    layer_class: str
    line: int | None
    place: LayerPlace
    step: str
    whole: str
    path: tuple[str, ...] = ()
    why: str = ""
    seconds: float | None = None


class NetExplanation(Shown):
    """Where the layers of a recurrent layer are computed. rows: its layers, each after those that it needs.

    name: the path of the recurrent layer. axis: the name of the axis of its loop.
    seconds: those of all layers together; None if they were not measured.
    """

    def __init__(self, name: str, axis: str, rows: list[ExplainedLayer]):
        self.name, self.axis, self.rows = name, axis, rows
        times = [row.seconds for row in rows if row.seconds is not None]
        self.seconds = sum(times) if times else None

    def timed(self, net: Module, layers: Mapping[str, Layer], batch: object) -> NetExplanation:
        """Adds the times of the layers: the medians of several calls with a batch, without a backward pass.

        layers: those of the network, by path.
        """
        graph = model_graph(net, batch, show="time")
        if graph.failure is not None:
            net(batch)  # raises the error
        measures = {} if graph.measured is None else graph.measured.nodes
        paths = {id(layer): path for path, layer in layers.items()}
        path_of = {name: paths.get(id(module)) for name, module in net.named_modules()}
        times: dict[str, float] = {}
        for _, node in graph.walk():
            layer = None if node.module is None else path_of.get(node.module.path)
            if layer is not None:
                amount = measures[node.number].amount if node.number in measures else 0.0
                times[layer] = times.get(layer, 0.0) + amount
        rows = [row._replace(seconds=times.get(f"{self.name}/{row.name}")) for row in self.rows]
        return NetExplanation(self.name, self.axis, rows)

    def __getitem__(self, name: str) -> ExplainedLayer:
        rows = [row for row in self.rows if row.name == name]
        if not rows:
            raise KeyError(name)
        return rows[0]


def explanation_of(rec: RecNet, nodes: Nodes, *, trains: bool) -> NetExplanation:
    """Where the layers of a recurrent net are computed. trains: whether dropout draws random numbers."""
    places = _Places(rec, nodes, trains)
    rows = []
    for node in (*rec.before, *rec.inside, *rec.after):
        if isinstance(node, RecNet) or node.layer is None:
            continue
        place = places.of(node.path)
        path, why = places.kept_by(node.path) if place == "each step" else ((), "")
        name = rec.name_of(node.path)
        described = name, node.layer.layer_class or "", line_of(rec.scope, name)
        dims = _dims(node.template.dims), _dims(rec.stacked_dims(node.template))
        rows.append(ExplainedLayer(*described, place, *dims, tuple(map(rec.name_of, path)), why))
    return NetExplanation(rec.path, rec.axis.name or "steps", rows)


class _Places:
    """The place of each layer, and the reasons. A loop inside counts as one layer."""

    def __init__(self, rec: RecNet, nodes: Nodes, trains: bool):
        self.rec, self.nodes, self.trains = rec, nodes, trains
        self.users = users_of(nodes, rec.inside)
        self.inner = {item.path: item for item in rec.inside if isinstance(item, RecNet)}
        paths = list(dict.fromkeys(item.path for item in rec.inside))
        self.needs = {path: [need for need in self._needs(path) if need in paths and need != path] for path in paths}
        self.needed_by: dict[str, list[str]] = {path: [] for path in paths}
        for path, needs in self.needs.items():
            for need in needs:
                self.needed_by[need].append(path)
        self.looked_into = looked_into(rec, nodes, rec.inside)
        reasons = {path: self._own_reason(path) for path in paths}
        self.reasons = {path: reason for path, reason in reasons.items() if reason}
        free = {path for path in paths if path not in self.reasons and nodes[path].kind != "previous"}
        stateless = {path for path in free if nodes[path].state is None}
        before = _closed(stateless, self.needs)
        after = _closed(stateless - before, self.needed_by)
        self.places: dict[str, LayerPlace] = dict.fromkeys([*before, *(node.path for node in rec.before)], BEFORE)
        self.places |= dict.fromkeys([*after, *(node.path for node in rec.after)], AFTER)

    def of(self, path: str) -> LayerPlace:
        """The place of a layer: where the network has moved it, or where the loop moves its ops."""
        return self.places.get(path, "each step")

    def kept_by(self, path: str) -> tuple[tuple[str, ...], str]:
        """What keeps a layer in the steps: a path, and words."""
        circle = self._circle(path)
        if circle:
            return tuple(circle), ""
        if path in self.reasons:
            return (), self.reasons[path]
        down = shortest_way(path, self.needs.__getitem__, self._stays)
        up = shortest_way(path, self.needed_by.__getitem__, self._stays)
        words = f"{self.rec.name_of(up[-1])} needs it" if up else ""
        if down and down[-1] in self.reasons:
            words = f"{self.rec.name_of(down[-1])} {self.reasons[down[-1]]}" + (f"; {words}" if words else "")
        return tuple(down), words

    def _stays(self, path: str) -> bool:
        """Whether a value stays in the steps for a reason of its own."""
        return path in self.reasons or bool(self._circle(path))

    def _needs(self, path: str) -> list[str]:
        """What a value needs, in the same step or of the step before; an inner loop stands for its values."""
        node = self.nodes[path]
        inner = needs_of(self.inner[path], self.nodes) if path in self.inner else ()
        return [self._at(need) for need in (*node.needs_ever, *inner)]

    def _at(self, path: str) -> str:
        loop = self.nodes[path].loop
        return next((name for name, inner in self.inner.items() if loop in inner), path)

    def _own_reason(self, path: str) -> str:
        """What keeps a value in the steps whatever it needs, and whatever needs it; "" if nothing does."""
        rec, node = self.rec, self.nodes[path]
        layer = node.layer
        if layer is None:
            return ""
        reasons = {
            "optimize_move_layers_out is False": rec.layer.optimize_move_layers_out is False,
            "has a loop of its own, which runs in each step": path in self.inner,
            "ends the sequences": path == rec.end,
            "chooses the hypotheses": rec.beam is not None and isinstance(layer, ChoosingLayer),
            "belongs to places of the beam": rec.beam is not None and layer.traits.by_place,
        }
        if reason := next((words for words, holds in reasons.items() if holds), ""):
            return reason
        if node.state is not None:
            return self._reason_of_state(node, layer)
        if layer.spec.common.dropout and (self.trains or layer.spec.common.dropout_on_forward):
            return "draws random numbers for dropout"
        return ""

    def _reason_of_state(self, node: NetNode, layer: Layer) -> str:
        """What keeps a layer that carries a state of its own."""
        if node.path in self.looked_into:
            parts = [user for path, users in self.users.items() if self.nodes[path].of == node.path for user in users]
            names = [self.rec.name_of(user.path) for user in parts if self.nodes[user.path].kind != "part"]
            return f"carries a state, and {', '.join(dict.fromkeys(names)) or 'a layer outside'} reads it in each step"
        if layer.what_keeps:
            return f"carries a state, and {layer.what_keeps}"
        if not self.rec.known:
            return "carries a state, and the number of steps is known only at the end"
        return "" if self.rec.moves else "carries a state, and optimize_move_layers_out is False"

    def _circle(self, path: str) -> list[str]:
        """The shortest circle through a value; empty if there is none."""
        return shortest_way(path, self.needs.__getitem__, lambda need: need == path)


def _closed(among: set[str], edges: Mapping[str, list[str]]) -> set[str]:
    """The largest part whose edges all stay in it."""
    while out := {path for path in among if not among.issuperset(edges[path])}:
        among = among - out
    return among


def _dims(dims: Sequence[Dim]) -> str:
    """The names of the dims, and the sizes that are fixed."""
    fixed = [not (dim.is_dynamic() or dim.is_batch_dim() or dim.name == "beam") for dim in dims]
    return "{" + ", ".join(d.describe() if static else str(d.name) for d, static in zip(dims, fixed, strict=True)) + "}"


def line_of(scope: Scope, name: str) -> int | None:
    """The line of the config where a layer begins; None if the net dict has no lines."""
    where, key = scope.find(name)
    return getattr(where.layers.get(key), "line", None)
