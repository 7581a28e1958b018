"""What was measured of the nodes of a graph, in words and tints, with a legend and a sorted table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import SUMMED, Bad, NodeMeasure, NodeMeasures, Show
from rfnb.core.graph.model_graph import ModelGraph
from rfnb.core.ground.text import count_of
from rfnb.display.graph.names import class_of, path_of
from rfnb.display.graph.schema import GraphMeasured, GraphView, NodeNumber
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.numbers import duration, percent, short, size

ROWS = 400
"""Largest number of rows of the sorted table."""
DECADES = 3.0
"""Over how many powers of ten the tint of activations and gradients fades, at least."""
MISSING = {
    "time": "part of another call",
    "memory": "takes nothing of its own",
    "activation": "no floats",
    "gradient": "no gradient",
}
"""What a node without a number is said to be."""
PLACES = {"once": "once, before the steps", "frames": "for all steps together", "after": "after the steps"}
COLUMNS = {"time": "time", "memory": "bytes", "activation": "rms", "gradient": "rms gradient"}
UNITS = {
    "memory": "bytes that results newly take in a call; a view of an operand takes none, and parameters do not count",
    "activation": "root mean square of the entries of results, without padding",
    "gradient": "root mean square of the gradients by results, without padding",
}


def number_text(show: Show, amount: float) -> str:
    """A number with its unit.

    >>> number_text("time", 0.25), number_text("memory", 2048), number_text("gradient", 0.0123)
    ('250 ms', '2 kB', '0.0123')
    """
    return duration(amount) if show == "time" else size(round(amount)) if show == "memory" else short(amount)


class GraphNumbers:
    """The numbers of the boxes of a graph. `stands`: by number of a node, all equal nodes that it stands for."""

    def __init__(self, graph: ModelGraph):
        self.graph, self.measured = graph, graph.measured
        self.stands: dict[int, list[Node]] = {}
        self.nodes = {} if self.measured is None else self.measured.nodes
        self.show: Show = "time" if self.measured is None else self.measured.show
        amounts = [measure.amount for measure in self.nodes.values() if measure.amount > 0]
        self._largest, self._smallest = max(amounts, default=0.0), min(amounts, default=0.0)

    def enter(self, nodes: Sequence[Node]) -> None:
        """The body of the first of these equal nodes is shown for all of them."""
        node = nodes[0]
        for i, child in enumerate(node.body):
            if node.kind == "section":
                twins = [twin for peer in nodes for twin in self._stands(peer.body[i])]
            else:
                parents = [twin for peer in nodes for twin in self._stands(peer)]
                twins = [peer.body[i] for peer in parents if i < len(peer.body)]
            self.stands[child.number] = twins

    def _stands(self, node: Node) -> list[Node]:
        return self.stands.get(node.number, [node])

    def of(self, nodes: Sequence[Node]) -> NodeNumber | None:
        """The number of a box for these equal nodes; None if nothing was measured."""
        if self.measured is None or nodes[0].ghost:
            return None
        measures = [measure for node in nodes for measure in self._each(node)]
        if not measures and self.graph.failure is not None:
            return None
        if not measures:
            return {"text": "–", "share": None, "tint": 0.0, "bad": "", "more": [MISSING[self.show]]}
        total = _together(measures, self.show)
        return {
            "text": total.bad or number_text(self.show, total.amount),
            "share": self._share(total.amount),
            "tint": 1.0 if total.bad else self._tint(total.amount),
            "bad": total.bad,
            "more": list(self._more(nodes[0], total)),
        }

    def _each(self, node: Node) -> Iterator[NodeMeasure]:
        for twin in self._stands(node):
            if twin.number in self.nodes:
                yield self.nodes[twin.number]
            elif twin.kind == "section":
                yield from (measure for child in twin.body for measure in self._each(child))

    def _share(self, amount: float) -> float | None:
        total = whole(self.graph) if self.show in SUMMED else 0.0
        return round(min(amount / total, 1.0), 4) if total else None

    def _tint(self, amount: float) -> float:
        if not amount or not self._largest:
            return 0.0
        if self.show in SUMMED:
            return round(min(math.sqrt(amount / self._largest), 1.0), 3)
        span = max(math.log10(self._largest / self._smallest), DECADES)
        return round(min(max(1 - math.log10(self._largest / amount) / span, 0.0), 1.0), 3)

    def _more(self, node: Node, total: NodeMeasure) -> Iterator[str]:
        show = self.show
        if show not in SUMMED and (total.most or not total.bad):
            yield f"largest {short(total.most)}"
        if total.bad and self._is_first(node):
            yield f"makes the first {total.bad}"
        if node.loop is not None:
            yield from self._loop(node, total)
        elif total.place in PLACES:
            yield PLACES[total.place]
        elif total.place == "steps" and total.calls > 1 and show in SUMMED:
            yield f"{number_text(show, total.amount / total.calls)} a step"
        if total.saved is not None and show == "time" and node.loop is None:
            yield saving(total.saved)

    def _loop(self, node: Node, total: NodeMeasure) -> Iterator[str]:
        assert node.loop is not None
        show, steps = self.show, node.loop.steps or 0
        if show in SUMMED and steps:
            inner = [measure for child in node.body for measure in self._each(child) if measure.place not in PLACES]
            amount = sum(measure.amount for measure in inner)
            yield f"{number_text(show, amount / steps)} a step"
        if total.saved is not None and show == "time":
            inner = [self.nodes[child.number] for child in _below(node) if child.number in self.nodes]
            moved = sum(measure.place in PLACES for measure in inner)
            yield f"{count_of(moved, 'op')} once, not {count_of(steps, 'time')}: {saving(total.saved)}"
        if show == "time":
            parts = sum(measure.amount for child in node.body for measure in self._each(child))
            if total.amount > parts:
                yield f"{duration(total.amount - parts)} to trace the body and between the ops"

    def _is_first(self, node: Node) -> bool:
        event = None if self.measured is None else self.measured.first_bad
        return any(twin.number == event for twin in self._stands(node))


def saving(seconds: float) -> str:
    """What computing ops outside of the steps saves."""
    return f"hoisting {'saves' if seconds > 0 else 'costs'} {duration(abs(seconds))}"


def _below(node: Node) -> Iterator[Node]:
    for child in node.body:
        if child.kind not in ("module", "side"):
            yield child
        yield from _below(child)


def _together(measures: Sequence[NodeMeasure], show: Show) -> NodeMeasure:
    """One measure for several nodes: the sum, or the largest."""
    bad: list[Bad] = [measure.bad for measure in measures if measure.bad]
    saved = [measure.saved for measure in measures if measure.saved is not None]
    amounts = [measure.amount for measure in measures]
    return NodeMeasure(
        sum(amounts) if show in SUMMED else max(amounts),
        sum(measure.calls for measure in measures),
        max(measure.most for measure in measures),
        "NaN" if "NaN" in bad else bad[0] if bad else "",
        measures[0].place,
        sum(saved) if saved else None,
    )


def whole(graph: ModelGraph) -> float:
    """The seconds or bytes of the whole call."""
    measured = graph.measured
    if measured is None:
        return 0.0
    return measured.total or sum(measured.nodes[n.number].amount for n in graph.nodes if n.number in measured.nodes)


# -- the whole


def describe(graph: ModelGraph) -> GraphMeasured | None:
    """What was measured, with a legend; None if nothing was."""
    measured = graph.measured
    if measured is None:
        return None
    nodes = {node.number: node for node in graph.graph.all_nodes()}
    return {
        "show": measured.show,
        "calls": measured.calls,
        "device": measured.device,
        "legend": list(_legend(graph, measured, nodes)),
        "alarm": _alarm(measured, nodes),
        "rows": _rows(graph, measured, nodes),
    }


def _legend(graph: ModelGraph, measured: NodeMeasures, nodes: dict[int, Node]) -> Iterator[str]:
    show = measured.show
    over = "one call" if measured.calls == 1 else f"{measured.calls} calls"
    if show == "time":
        where = "the GPU, which is waited for after each op" if measured.device != "cpu" else "the CPU"
        many = "" if measured.calls == 1 else f", median of {over}"
        yield f"time of a call, without a backward pass, on {where}: {duration(whole(graph))}{many}"
        plain = [] if measured.plain is None else [f"a call that is not measured takes {duration(measured.plain)}"]
        yield "; ".join([f"{duration(measured.overhead)} of measuring taken off", *plain])
    elif show == "memory":
        yield f"{UNITS[show]}: {size(round(whole(graph)))}"
    else:
        of = f" of {measured.loss}" if show == "gradient" else ""
        yield f"{UNITS[show].replace('gradients', f'gradients{of}')}, {over}"
    rule = "the sum of what is in it" if show in SUMMED else "the largest number in it"
    largest = max(measured.nodes.items(), key=lambda pair: pair[1].amount, default=None)
    if largest is not None:
        fades = "" if show in SUMMED else ", fading with the logarithm"
        darkest = f"{number_text(show, largest[1].amount)} ({path_of(nodes[largest[0]])}){fades}"
        yield f"darkest: {darkest}; a folded box shows {rule}"
    if graph.failure is not None:
        yield "the call failed: numbers are those of the parts before"
    yield from measured.notes


def _alarm(measured: NodeMeasures, nodes: dict[int, Node]) -> str | None:
    if measured.first_bad is None:
        return None
    node = nodes[measured.first_bad]
    bad = measured.nodes[node.number].bad if node.number in measured.nodes else "NaN"
    place = "" if node.source is None else f", {node.source.place()}: {node.source.text()}"
    of = "gradient of " if measured.show == "gradient" else ""
    return f"{bad}, first in the {of}result of {path_of(node)}{place}"


def _rows(graph: ModelGraph, measured: NodeMeasures, nodes: dict[int, Node]) -> list[list[str | float | None]]:
    """A row for each node that was measured, the largest first: path, class, number, share, largest, calls, notes."""
    numbers = GraphNumbers(graph)
    rows = []
    pairs = [
        (number, measure) for number, measure in measured.nodes.items() if nodes[number].kind not in ("side", "section")
    ]
    for number, measure in sorted(pairs, key=lambda pair: (not pair[1].bad, -pair[1].amount))[:ROWS]:
        box = numbers.of([nodes[number]])
        assert box is not None
        notes = [word for word in box["more"] if not word.startswith("largest ")]
        cls = class_of(nodes[number])
        rows.append(
            [path_of(nodes[number]), cls, box["text"], box["share"], measure.most, measure.calls, " · ".join(notes)]
        )
    return rows


def sorted_table(measured: GraphMeasured) -> page.Table:
    """A row for each node, the largest first."""
    show = measured["show"]
    summed = show in SUMMED
    rows = []
    for path, cls, text, share, largest, calls, notes in measured["rows"]:
        second = short(largest) if not summed else "" if share is None else percent(float(share))
        rows.append([path, cls, text, second, f"{calls:g}", notes])
    return page.Table(("part", "class", COLUMNS[show], "share" if summed else "largest", "calls", "notes"), rows)


def legend(view: GraphView, indent: int = 2) -> list[page.Block]:
    """The legend below the head, the alarm first."""
    measured = view.get("measured")
    if not measured:
        return []
    alarm = [page.Line(page.chip(measured["alarm"], style.ALARM), indent=indent)] if measured["alarm"] else []
    bar = "background:linear-gradient(to right,#f4f5f8,#f7b25e);padding:0 16px;margin-right:8px;border-radius:3px"
    scale = page.Span(page.web(" "), f"{bar};{style.BORDER}")
    lines = [
        page.Line(scale if i == 0 else None, page.quiet(line), indent=indent)
        for i, line in enumerate(measured["legend"])
    ]
    return [page.Group([*alarm, *lines], look="margin:2px 0 6px 0")]
