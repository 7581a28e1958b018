"""Folds the graph of a model into bodies of plain data: one for the whole graph, and one inside of each node.

Repetitions of neighbouring nodes become one box, and very many boxes are divided into sections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, TypeGuard, TypeVar

from rfnb.core.graph.graph import ModuleFacts, Node, Value
from rfnb.core.graph.model_graph import ModelGraph
from rfnb.display.graph import names as words
from rfnb.display.graph.measures import GraphNumbers
from rfnb.display.graph.schema import GraphBody, GraphNode


class Flow:
    """Values read and given by each node, its body included; without parameters, and without hidden constants."""

    def __init__(self, graph: ModelGraph, hide: Iterable[str]):
        kinds = {"parameters": "parameter", "constants": "constant"}
        hidden = {kinds[kind] for kind in hide if kind in kinds}
        self.hidden = {value.number for value in graph.values if value.kind in hidden}
        self.made_up = self._starts(graph) if "constants" in hide else set()
        self._counts = self._bookkeeping(graph) if "parameters" in hide else set()
        self._left_out = self.hidden | self.made_up
        self._reads: dict[int, dict[int, None]] = {}
        self._makes: dict[int, set[int]] = {}

    def _starts(self, graph: ModelGraph) -> set[int]:
        """Values computed only to start a loop from, and zeros that modules start with besides their input."""
        nodes = graph.graph.all_nodes()
        free = {node.outputs[0]: node for node in nodes if not node.inputs and len(node.outputs) == 1 and not node.body}
        zeros = {n for n, node in free.items() if node.name == "zeros"}
        starts = zeros | {state.initial for node in nodes if node.loop for state in node.loop.states}
        uses = set(_used(graph.nodes, zeros)) | {n for _, n in graph.outputs}
        return {n for n in free.keys() & starts - uses if n is not None}

    def _bookkeeping(self, graph: ModelGraph) -> set[int]:
        """Numbers of ops that only update something, such as a counter of calls: they depend on parameters and buffers
        alone, and their results are not used.
        """
        nodes = graph.graph.all_nodes()
        uses = {n for node in nodes for n in node.inputs} | {n for _, n in graph.outputs}
        of_parameters = {value.number for value in graph.values if value.kind == "parameter"}
        ops = [node for node in nodes if node.module is None and node.loop is None and not node.body and node.outputs]
        idle = [node for node in ops if uses.isdisjoint(node.outputs)]
        return {node.number for node in idle if node.inputs and of_parameters.issuperset(node.inputs)}

    def is_shown_elsewhere(self, node: Node) -> bool:
        """Whether an op is left out, because the card of a state shows it, or it involves parameters only."""
        return node.number in self._counts or (len(node.outputs) == 1 and node.outputs[0] in self.made_up)

    def reads(self, node: Node) -> dict[int, None]:
        """Numbers of values from outside, in the order in which they are read."""
        if node.number not in self._reads:
            self._look(node)
        return self._reads[node.number]

    def makes(self, node: Node) -> set[int]:
        """Numbers of values that a node computes or hands on."""
        if node.number not in self._makes:
            self._look(node)
        return self._makes[node.number]

    def _look(self, node: Node) -> None:
        reads = {number: None for number in node.inputs if number not in self._left_out}
        makes = inner_values(node)
        for child in node.body:
            reads.update((number, None) for number in self.reads(child) if number not in makes)
            makes |= self.makes(child)
        self._reads[node.number] = reads
        self._makes[node.number] = makes.union(node.outputs)


def _used(nodes: Iterable[Node], starts: set[int], told: Set[int] = frozenset()) -> Iterator[int]:
    """Values that are read, without initial values of loops, and without `starts` passed besides a module's input."""
    for node in nodes:
        passed = starts.intersection(node.inputs) if node.module is not None else set[int]()
        inner = told | passed if len(passed) < len(node.inputs) else told
        if node.loop is None:
            yield from (n for n in node.inputs if n not in inner)
        yield from _used(node.body, starts, inner)


def results(node: Node) -> set[int | None]:
    """Values that a body passes outside or to its next step."""
    if node.loop is None:
        return set(node.outputs)
    states = {state.after for state in node.loop.states}
    return states | {inner for inner, _ in (*node.loop.stacked, *node.loop.lasts)} | {node.loop.end}


def inner_values(node: Node) -> set[int]:
    """Values passed to the steps of a loop."""
    if node.loop is None:
        return set()
    states = {state.before for state in node.loop.states if state.before is not None}
    return states | {frame for _, frame in node.loop.unstacked}


PERIOD = 8
"""Longest sequence of different boxes that counts as the unit of a repetition."""
TIMES = 3
"""Fewest repetitions that become one box; two suffice for a single module."""
SIDE_BY_SIDE = 6
"""Fewest repetitions if one does not read what the one before gives."""
BOXES = 60
"""Number of boxes above which a body is divided into sections."""


class EqualLayers:
    """Groups repeated nodes, or sections of many nodes, under new nodes with negative numbers."""

    def __init__(self, graph: ModelGraph, flow: Flow, failed: Collection[int]):
        self.graph, self.flow, self.failed = graph, flow, failed
        self._count = 0

    def groups(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The groups of a body; each becomes one box."""
        groups = self._repeated(nodes)
        if len(groups) <= BOXES:
            return groups
        size = math.isqrt(len(groups) - 1) + 1
        parts = [groups[i : i + size] for i in range(0, len(groups), size)]
        return [[self._section([node for group in part for node in group])] for part in parts]

    def _repeated(self, nodes: Sequence[Node]) -> list[list[Node]]:
        keys = [self._key(node) for node in nodes]
        groups: list[list[Node]] = []
        start = 0
        while start < len(nodes):
            period, times = longest_repetition(keys, start, PERIOD, fewest)
            if times < SIDE_BY_SIDE and not self._follow(nodes[start : start + period * times], period):
                period, times = 1, 1  # query, key and value are three boxes
            end = start + period * times
            if period == 1:
                groups.append(list(nodes[start:end]))
            else:
                groups.append([self._section(nodes[i : i + period]) for i in range(start, end, period)])
            start = end
        return groups

    def _follow(self, nodes: Sequence[Node], period: int) -> bool:
        """Whether each repetition reads values of the one before."""
        makes = [self.flow.makes(node) for node in nodes]
        reads = [self.flow.reads(node) for node in nodes]
        units = [slice(i, i + period) for i in range(0, len(nodes), period)]
        return all(set().union(*makes[a]) & set().union(*reads[b]) for a, b in pairwise(units))

    def _key(self, node: Node) -> object:
        """A key that is equal for equal nodes: modules of one parent, or ops, which have a string."""
        if node.number in self.failed or node.ghost:
            return "alone", node.number
        if form := self.graph.form_of(node):
            return form, node.module.path.rpartition(".")[0] if node.module else node.path
        return " ".join([node.op, *(self.graph.values[number].describe_dims() for number in node.outputs)])

    def _section(self, nodes: Sequence[Node]) -> Node:
        self._count += 1
        return Node(-self._count, "", (), nodes[-1].outputs, nodes[0].path, body=list(nodes), kind="section")


def fewest(unit: Sequence[object]) -> float:
    """How often a sequence of boxes must be repeated to become one box; ops alone, whose keys are strings, never do."""
    return math.inf if all(isinstance(key, str) for key in unit) else 2 if len(unit) == 1 else TIMES


K = TypeVar("K")


def longest_repetition(
    keys: Sequence[K], start: int, most: int, fewest: Callable[[Sequence[K]], float]
) -> tuple[int, int]:
    """Period and count of the longest repetition from `start` on; (1, 1) if nothing is repeated.

    Args:
        most: the longest period.
        fewest: from the keys of a unit, how often it must be repeated.
    """
    best = (1, 1)
    for period in range(1, min(most, (len(keys) - start) // 2) + 1):
        end = start + period
        while end < len(keys) and keys[end] == keys[end - period]:
            end += 1
        times = (end - start) // period
        if period * times > best[0] * best[1] and 1 < times >= fewest(keys[start : start + period]):
            best = period, times
    return best


OUTPUTS = 6
"""Largest number of outputs shown of a node."""
PLACES = {"input": 0, "frame": 1, "state": 2, "output": 4}


@dataclass
class _Body:
    """A body under construction. holder: the node that gives each value. wanted: values that are read."""

    data: GraphBody = field(default_factory=lambda: GraphBody(nodes=[], edges=[]))
    holder: dict[int, str] = field(default_factory=dict)
    around: Node | None = None
    wanted: set[int | None] = field(default_factory=set)


class GraphFolder:
    """Makes the bodies; equal nodes share one."""

    def __init__(self, graph: ModelGraph, hide: Iterable[str]):
        self.graph, self.flow = graph, Flow(graph, hide)
        self.described, self.numbers = words.Values(), GraphNumbers(graph)
        self.bodies: dict[str, GraphBody] = {}
        self.failed = around_failure(graph)  # numbers of the node that failed, and of those around it
        self.runs = EqualLayers(graph, self.flow, self.failed)
        self.ids: dict[int, str] = {}  # by number
        self.twins: dict[str, str] = {}  # by the path of a module, that of the one whose body is shown for both
        self._shared: dict[int, str] = {}  # by what is the same
        self._shown: dict[int, str] = {}  # paths, likewise
        self._called: dict[int, str] = {}  # by value, the last box that gave it: of those seen so far, the outermost
        self._count = 0

    # -- bodies

    def root(self) -> str:
        """Makes the body of the whole graph; returns its id."""
        body = _Body()
        for number in self.graph.inputs:
            body.holder[number] = self._port(body, "input", self.graph.values[number])
        self._fill(body, self.graph.nodes)
        for name, number in self.graph.outputs:
            self._give(body, number, self._port(body, "output", self.graph.values[number], name))
        return self._keep(body)

    def _inside(self, nodes: Sequence[Node]) -> str | None:
        """The id of the body of a node, or of several equal nodes."""
        node = nodes[0]
        if not words.opens(node, self.flow.is_shown_elsewhere):
            return None
        self.numbers.enter(nodes)
        form = 0 if self._fails(node) or self.graph.measured is not None else self.graph.form_of(node)
        for twin in nodes:
            self._twin(form, twin)
        if form in self._shared:
            return self._shared[form]
        body = _Body(around=node)
        if node.loop is not None:
            self._steps(body, node)
        else:
            self._fill(body, node.body)
            self._results(body, node)
        key = self._keep(body)
        if form:
            self._shared[form] = key
        return key

    def _twin(self, same: int, node: Node) -> None:
        if same and node.module is not None:
            path = self._shown.setdefault(same, node.module.path)
            if path != node.module.path:
                self.twins[node.module.path] = path

    def _keep(self, body: _Body) -> str:
        key = f"b{len(self.bodies)}"
        body.data["nodes"].sort(key=lambda node: PLACES.get(node["kind"], 3))  # what was found on the way, to its place
        self.bodies[key] = body.data
        return key

    def _fill(self, body: _Body, nodes: Sequence[Node]) -> None:
        owner = body.around
        body.wanted = {number for node in nodes for number in self.flow.reads(node)}
        body.wanted |= {n for _, n in self.graph.outputs} if owner is None else results(owner)
        for group in self.runs.groups([node for node in nodes if not self.flow.is_shown_elsewhere(node)]):
            self._add(body, group)
        self._ghosts(body)

    def _results(self, body: _Body, node: Node) -> None:
        if node.kind == "cond":
            for number in node.outputs:
                port = self._port(body, "output", self.graph.values[number])
                for side in node.body:
                    self._edge(body, self.ids[side.number], port, -1 if side.ghost else number)
            return
        for number in dict.fromkeys(node.outputs):
            self._give(body, number, self._port(body, "output", self.graph.values[number]))

    def _steps(self, body: _Body, node: Node) -> None:
        """A step of a loop: its inputs, its ops, its outputs."""
        loop, values = node.loop, self.graph.values
        assert loop is not None
        states, frames = {}, {frame for _, frame in loop.unstacked}
        for source, frame in loop.unstacked:
            body.holder[frame] = self._port(body, "frame", values[frame], self._name(values[source]))
        for state in loop.states:
            if state.before is None:
                continue
            states[state.name] = port = self._port(body, "state", values[state.before], state.name)
            if state.initial in self.flow.made_up or self._is_number(state.initial):
                body.data["nodes"][-1]["notes"] = [f"from {words.maker_of(values[state.initial])}"]
            elif state.initial is not None and state.initial not in self.flow.hidden:
                self._edge(body, self._held(body, state.initial), port, state.initial)
            body.holder[state.before] = port
        self._fill(body, [child for child in node.body if not set(child.outputs) & frames])
        for state in loop.states:
            if state.after is not None and state.name in states:
                self._edge(body, self._held(body, state.after), states[state.name], state.after, back=True)
        for word, pairs in (("stacked", loop.stacked), ("last", loop.lasts)):
            for inner, outer in pairs:
                port = self._port(body, "output", values[outer])
                body.data["nodes"][-1]["notes"] = [word]
                self._give(body, inner, port)
        if loop.end is not None:
            port = self._port(body, "output", values[loop.end], "end")
            body.data["nodes"][-1]["notes"] = ["ends the sequence"]
            self._give(body, loop.end, port)

    # -- nodes

    def _add(self, body: _Body, nodes: Sequence[Node]) -> None:
        """Adds one box for equal nodes."""
        last, key = nodes[-1], self._id()
        reads: dict[int, None] = {}
        products: set[int] = set()
        for node in nodes:
            reads.update((number, None) for number in self.flow.reads(node) if number not in products)
            products |= self.flow.makes(node)
            self.ids[node.number] = key
        sources = [(self._held(body, number), number) for number in reads]
        body.data["nodes"].append(self._node(key, nodes, reads, body.wanted))
        for source, number in sources:
            self._edge(body, source, key, number)
        body.holder |= dict.fromkeys(products - set(reads) | set(last.outputs), key)
        if words.kind_of(last) not in ("loop", "side"):
            self._called |= dict.fromkeys(set(last.outputs) - set(reads), words.giver_name(last))

    def _node(self, key: str, nodes: Sequence[Node], reads: Iterable[int], wanted: Set[int | None]) -> GraphNode:
        node, last = nodes[0], nodes[-1]
        inputs = [words.signature(self.graph.values[number]) for number in reads]
        facts = node.module
        number = self.numbers.of(nodes)  # before the nodes inside stand for others too
        body = self._inside(nodes)
        outs = list(dict.fromkeys(last.outputs))
        outs = [number for number in outs if number in wanted] or outs  # of a failed call, nobody has read it yet
        outputs = [self.graph.values[number] for number in outs[:OUTPUTS]]
        box: GraphNode = {
            "id": key,
            "kind": words.kind_of(node),
            "name": words.joined(words.first_name(node), words.last_name(last), len(nodes)),
            "cls": words.class_of(node),
            "path": words.path_of(node),
            "outputs": [self.described.describe(value, self._name(value), inputs) for value in outputs],
            "params": sum(map(words.parameters_of, nodes)),
            "times": len(nodes),
            "options": facts.note if facts else "",
            "notes": list(self._notes(nodes)),
            "status": "failed" if self._fails(node) else "ghost" if node.ghost else "done",
            "body": body,
        }
        return box if number is None else {**box, "number": number}

    def _fails(self, node: Node) -> bool:
        return node.number in self.failed or (node.kind == "section" and any(map(self._fails, node.body)))

    def _notes(self, nodes: Sequence[Node]) -> Iterator[str]:
        node = nodes[0]
        if node.loop is not None:
            yield from words.steps(node)
        if node.module is not None and node.module.call:
            yield "called again: the same weights" if node.module.count else "called again"
        elif words.parameters_of(node) and len(nodes) > 1 and len({words.path_of(twin) for twin in nodes}) == 1:
            yield "the same weights each time"
        if node.ghost:
            yield "not taken"
        yield from self._borrowed(node)

    def _borrowed(self, node: Node) -> Iterator[str]:
        """A note on parameters of other modules."""
        home = node.module.path if node.module else node.path
        paths = [self.graph.values[n].path for n in dict.fromkeys(words.inputs_below(node))]
        foreign = [path for path in paths if path and (not words.within(path, home) if home else "." in path)]
        if foreign and (node.module is not None or not node.body):
            yield f"uses {', '.join(foreign[:2])}{' …' if len(foreign) > 2 else ''}"

    def _ghosts(self, body: _Body) -> None:
        """Adds the modules that a failed call did not reach, after the node that failed."""
        owner = body.around
        home = owner.module.path if owner is not None and owner.module else ""
        previous = next((n["id"] for n in reversed(body.data["nodes"]) if n["status"] == "failed"), None)
        for group in ghosts_in(self.graph, owner, self.failed):
            key = self._id()
            body.data["nodes"].append(ghost(key, group, home))
            if previous is not None:
                body.data["edges"].append({"source": previous, "target": key, "value": -1, "back": False})
            previous = key

    # -- ports and edges

    def _id(self) -> str:
        self._count += 1
        return f"n{self._count - 1}"

    def _port(self, body: _Body, kind: Any, value: Value, name: str = "") -> str:
        key = self._id()
        body.data["nodes"].append({
            "id": key, "kind": kind, "name": name or self._name(value), "cls": "", "path": "",
            "outputs": [self.described.describe(value, self._name(value))], "params": 0, "times": 1, "options": "",
            "notes": [], "status": "done", "body": None,
        })  # fmt: skip
        return key

    def _name(self, value: Value) -> str:
        """The user's name of a value, else the name of its box."""
        return value.name or self._called.get(value.number) or words.name_of(value)

    def _is_number(self, number: int | None) -> TypeGuard[int]:
        """Whether a value is a number, which is written rather than drawn."""
        if number is None or number not in self.flow.hidden:
            return False
        value = self.graph.values[number]
        return value.kind == "constant" and bool(value.name)

    def _held(self, body: _Body, number: int) -> str:
        """The node that gives a value; values from outside of the body come from an input port."""
        if number not in body.holder:
            body.holder[number] = self._port(body, "input", self.graph.values[number])
        return body.holder[number]

    def _give(self, body: _Body, number: int, port: str) -> None:
        self._edge(body, self._held(body, number), port, number)

    def _edge(self, body: _Body, source: str, target: str, number: int, *, back: bool = False) -> None:
        body.data["edges"].append({"source": source, "target": target, "value": number, "back": back})


def around_failure(graph: ModelGraph) -> set[int]:
    """Numbers of the node that failed and of the nodes around it."""
    failure = graph.failure
    if failure is None or failure.node is None:
        return set()
    way: list[Node] = []
    for depth, node in graph.walk():
        way[depth:] = [node]
        if node.number == failure.node:
            return {ancestor.number for ancestor in way}
    return set()


def ghosts_in(graph: ModelGraph, around: Node | None, failed: Collection[int]) -> list[list[ModuleFacts]]:
    """Unreached modules of a node's body (None: of the whole graph), with equal ones in groups."""
    if graph.failure is None or (around is not None and (around.number not in failed or around.module is None)):
        return []
    home = around.module.path if around is not None and around.module else ""
    failing = {node.module.path for node in graph.graph.all_nodes() if node.module and node.number in failed}
    homes = [max((path for path in failing if words.within(m.path, path)), key=len, default="") for m in graph.unused]
    modules = [module for module, its in zip(graph.unused, homes, strict=True) if its == home]
    return [list(alike) for _, alike in groupby(modules, _form)]


def _form(module: ModuleFacts) -> tuple[str, int, str]:
    return module.cls, module.count, module.path.rpartition(".")[0]


def ghost(key: str, several: Sequence[ModuleFacts], home: str) -> GraphNode:
    """The box of a group of unreached modules."""
    node = several[0]
    names = [m.path.removeprefix(f"{home}.") for m in several]
    return {
        "id": key, "kind": "module", "name": words.joined(names[0], names[-1]), "cls": node.cls, "path": node.path,
        "outputs": [], "params": sum(m.count for m in several), "times": len(several), "options": node.note,
        "notes": ["not reached"], "status": "ghost", "body": None,
    }  # fmt: skip
