"""`rf.load_run("x.rfrun")` reads a run from a file, which is untrusted: it is only data, and all of it is checked.

Files of earlier formats are converted first. In format 1, internal values of a loop were named `#ended`, `#lengths`,
`#last0` or `#before0`, and the first two were listed as values of the body of an outer loop. Since format 2, such
values have no name and are not listed. Before format 4, runs of plain Python had their states as those of other loops,
and the texts of a step apart from its values. What was before the first step was in the file only for states.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from rfnb.core.graph.graph import BodyGraph, Node, NodeKind
from rfnb.core.ground.source import Block, value_name
from rfnb.core.tensor.op import OPS, guarded
from rfnb.errors import RunFileError
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.file.dims import DimReader
from rfnb.trace.run.file.fields import MOST, chosen, conform, count, get, within
from rfnb.trace.run.file.save import FORMAT, KEY
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.file.store import Reader, loaded, read_found
from rfnb.trace.run.file.stored import Assigned, StoredReplay, StoredState, StoredVariables, read_variables
from rfnb.trace.run.run import OneStep, Run
from rfnb.trace.run.stacked import Lineage
from rfnb.trace.run.variables import ABSENT

RESERVED = re.compile(r"#(ended|lengths|(last|before)\d+)")


def update(data: object, form: int) -> None:
    """Converts the JSON of a file of format `form` to the current format, in place."""
    if form < 2:
        for run in get(data, "runs", list):
            _without_reserved_names(run)
    for run in get(data, "runs", list) if form < 4 else ():
        if run.get("variables") is not None:
            _with_one_list_of_rows(run, get(run, "variables", dict))


def _without_reserved_names(run: dict[str, object]) -> None:
    run["values"] = [value for value in get(run, "values", list) if not RESERVED.fullmatch(get(value, "name", str))]
    for value in get(get(run, "graph", dict), "values", list):
        if RESERVED.fullmatch(get(value, "name", str)):
            value["name"] = ""


def _with_one_list_of_rows(run: Any, variables: Any) -> None:
    """Texts become rows among the values of their steps; states are what variables were before the first step."""
    order: dict[int, list[int]] = {}
    for number, series in enumerate(get(run, "values", list)):
        for step in range(get(run, "steps", int)) if series.get("steps") is None else series["steps"]:
            order.setdefault(step, []).append(number)
    table = [*variables.get("rows", ())]
    for step, texts in get(variables, "texts", list):
        for text in texts:
            if isinstance(text, list):
                table.append(text)
            order.setdefault(step, []).append(-len(table) if isinstance(text, list) else -1 - text)
    run["orders"], run["order"] = [*order.values()], [[step, at] for at, step in enumerate(order)]
    codes, tensors = get(variables, "values", dict), list[object]()
    kinds = {series["name"]: series["op"] for series in run["values"]}
    initial: dict[str, object] = {name: {"lost": ABSENT} for name in variables["initial"]}
    for state in run["states"]:
        for series in filter(None, (state.get("series"), *state.get("more", ()))):
            steps = range(run["steps"] + 1) if series.get("steps") is None else series["steps"]
            if 0 in steps:
                tensors.append({**series, "count": len(steps)})
                initial[state["name"]] = {"tensor": [-len(tensors), steps.index(0), kinds.get(state["name"], "")]}
    for name, code in initial.items():
        codes[name] = [[-1, code], *codes.get(name, ())]
    run["states"] = [{"name": state["name"], "sizes": [], "empty": [], "series": None} for state in run["states"]]
    run["variables"] = {
        "values": codes, "rows": table, "grown": [], "lists": variables.get("lists", []), "kept": tensors,
        "forgotten": variables.get("forgotten", 0), "kept_from": variables.get("kept_from", 0),
    }  # fmt: skip


@guarded
def load_run(path: str | os.PathLike[str]) -> Run:
    """Loads the run in a file of `run.save("x.rfrun")`, with its states and values, without model, code or data.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 2.0, 3.0]], dims=[rf.batch_dim, time])
    >>> loop = rf.Loop(axis=time, name="sum", debug=True)
    >>> loop.state.s = rf.zeros([rf.batch_dim])
    >>> with loop:
    ...     loop.state.s = loop.state.s + loop.unstack(x)
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = rf.load_run(loop.run.save(pathlib.Path(folder) / "sum.rfrun"))
    >>> again.name, again[1].after.s.raw_tensor.tolist()
    ('sum', [3.0])

    A loaded run is used like any other. Values that would have to be computed raise RunFileError; `loaded.rerun(fn)`
    computes them with the model. Dims that exist in this process are reused; others are created.

    Raises RunFileError if the file does not exist, or does not contain a readable run.
    """
    return loaded(path, "load_run", 'a complete file of run.save("x.rfrun")', _read)


def _read(path: Path) -> Run:
    file = Reader(path, KEY, "the file contains tensors, but no run", FORMAT)
    update(file.data, file.format)
    versions = get(file.data, "versions", {"rfnb": str, "torch": str, "python": str})
    runs = [_run(entry, file, versions) for entry in get(file.data, "runs", list)]
    if not 0 < len(runs) <= 1000:
        raise RunFileError("the file does not contain a run")
    for entry, run, parent in zip(file.data["runs"], runs, [*runs[1:], None], strict=True):
        run.parent, run.forked_at = parent, get(entry, "forked_at", int | None)
        if entry.get("training") is not None:
            run.training = OneStep(count(entry, "training", 2**62), run)
    return runs[0]


def _run(data: Any, file: Reader, versions: dict[str, str]) -> Run:
    failed: Failure | None = get(data, "failed", Failure | None)
    words = get(data, "words", list[str])
    checks = [chosen(words, int(number), "checks") for [number] in file.numbers(data["checks"], 1).tolist()]
    steps = len(checks) - (failed is not None)  # a number in the JSON could be arbitrarily large
    size = file.size_or_none(get(data, "size", int))
    counts, sequences = (file.size_or_none(data.get(name)) for name in ("begun", "sequences"))
    fits = steps == get(data, "steps", int) and (failed is None or failed.step == steps)
    if not fits or size is None or size.max > steps or (counts is not None and counts.max > len(checks)):
        raise RunFileError("the number of steps in the file does not fit the rest")
    within(0 if sequences is None else sequences.max, MOST, "sequences")
    graph, axis = read_graph(get(data, "graph", dict), file), file.dim(data["axis"])
    file.bind(axis, size)
    series = [Series.read(entry, file, steps) for entry in get(data, "values", list)]
    fields, table = {}, list[Assigned]()
    replay: type[StoredReplay] = StoredReplay
    if data.get("variables") is not None:
        fields, replay = read_variables(get(data, "variables", dict), file, len(checks)), StoredVariables
        table = fields.pop("table")
    stored = replay(
        axis=axis,
        size=size,
        steps=steps,
        seed=get(data, "seed", int),
        every=max(count(data, "every"), 1),
        states=[_state(entry, file, steps) for entry in get(data, "states", list)],
        series=series,
        checks=checks,
        graph=graph,
        versions=versions,
        flags=get(data, "flags", list[str]),
        sequences=(file.dim_or_none(data.get("sequence_dim")), sequences),
        note=get(data, "note", str | None),
        begun=counts or size,
        why=get(data, "ends", list[str]) if data.get("ends") is not None else None,
        lineages=[_lineage(entry, file, steps) for entry in data.get("lineages") or ()],
        searched=_found(data.get("found"), file),
        order=_order(data, series, table, len(checks)),
        **fields,
    )
    return Run(
        name=get(data, "name", str),
        place=get(data, "place", str),
        source=get(data, "source", Block),
        replay=stored,
        steps=steps,
        axis=axis,
        size=size,
        graph=graph,
        failed=failed,
    )


def _order(data: Any, series: list[Series], table: list[Assigned], steps: int) -> dict[int, list[Assigned]]:
    """The rows of steps that are not the values of the series in their order."""
    orders: list[list[Assigned]] = [
        [chosen(series, number, "orders") if number >= 0 else chosen(table, -1 - number, "rows") for number in order]
        for order in data.get("orders", ())
    ]
    order = {within(step, steps, "step"): chosen(orders, at, "orders") for step, at in data.get("order", ())}
    counts = Counter(step for entry in series for step in entry.steps)
    for step, rows in order.items():
        is_there = all(step in getattr(row, "steps", getattr(row, "lengths", (step,))) for row in rows)
        if not is_there or len({id(row) for row in rows if isinstance(row, Series)}) != counts[step]:
            raise RunFileError("the order of the values in the file does not fit the rest")
    return order


def _lineage(data: Mapping[str, object], file: Reader, steps: int) -> Lineage:
    """Where final hypotheses are at each step; all places must be in the beam."""
    beam, final = file.dim(data["beam"]), file.dim(data["final"])
    places = file.array(get(data, "places", str))
    lineage = Lineage(beam, final, tuple(file.dim(number) for number in get(data, "dims", list)), places)
    fits = places.dtype.kind == "i" and places.ndim == 2 + len(lineage.dims) and len(places) == steps
    fits = fits and places.shape[-1] == final.dimension and beam.dimension is not None
    if not fits or (places.size and not 0 <= int(places.min()) <= int(places.max()) < (beam.dimension or 0)):
        raise RunFileError("the places of hypotheses in the file do not fit the rest")
    return lineage


def _found(data: object, file: Reader) -> object:
    if data is None:
        return None
    arrays = {name: file.array(key) for name, key in get(data, "arrays", dict).items()}
    return read_found(get(data, "facts", dict), arrays)


def _state(data: Mapping[str, Any], file: Reader, steps: int) -> StoredState:
    parts = [part for part in (data.get("series"), *data.get("more", ())) if part is not None]
    series = [Series.read(part, file, steps + 1) for part in parts]
    sizes = dict(get(data, "sizes", list[tuple[int, int]]))
    return StoredState(get(data, "name", str), series, sizes, set(get(data, "empty", list[int])))


# -- the graph of a body


class StoredPlace(NamedTuple):
    """A place in the code that was run, as text, with the interface of `Source`."""

    file: str
    line: int
    shown: str
    expression: str
    assigned: tuple[str, ...]
    code: None = None
    cell: None = None

    def place(self) -> str:
        """The place as text: "cell 4, line 2" or "model.py:31"."""
        return self.shown

    def text(self) -> str:
        """The expression in the code, shortened."""
        return self.expression

    def names(self) -> tuple[str, ...]:
        """The names of the values computed here."""
        return self.assigned


def read_graph(data: object, dims: DimReader) -> BodyGraph:
    """The graph from JSON. Raises RunFileError if it is not consistent."""
    places = [_place(entry) for entry in get(data, "places", list)]

    def place(number: int | None) -> Any:
        return None if number is None else chosen(places, number, "places")

    def node(entry: Mapping[str, object]) -> Node:
        inputs, outputs = get(entry, "inputs", tuple[int, ...]), get(entry, "outputs", tuple[int, ...])
        source, at = place(get(entry, "source", int | None)), place(get(entry, "at", int | None))
        body = [node(inner) for inner in get(entry, "body", list)]
        return Node(get(entry, "number", int), get(entry, "op", str), inputs, outputs, get(entry, "path", str),
                    source, at, body, kind=_kind(entry))  # fmt: skip

    graph = BodyGraph([node(entry) for entry in get(data, "nodes", list)])
    nodes = graph.all_nodes()
    for entry in get(data, "values", list):
        axes = tuple(dims.dim(number) for number in get(entry, "dims", list))
        value = graph.add_value(get(entry, "name", str), axes, dims.dim_or_none(entry["sparse"]))
        index = get(entry, "node", int | None)
        value.node, value.output = None if index is None else chosen(nodes, index, "nodes"), get(entry, "output", int)
    graph.body_values = count(data, "body_values", len(graph.values))
    if not all(0 <= n < len(graph.values) for node in _own_nodes(graph.nodes) for n in (*node.inputs, *node.outputs)):
        raise RunFileError("the graph in the file refers to missing values")
    return graph


def _own_nodes(nodes: list[Node]) -> Iterator[Node]:
    """The nodes whose values belong to this graph; loops inside the body have their own graphs."""
    for node in nodes:
        yield node
        yield from _own_nodes([] if node.kind == "loop" else node.body)


def _kind(entry: Mapping[str, object]) -> NodeKind:
    """The kind of a node; kinds that this version does not know become "op"."""
    kind = get(entry, "kind", str) if "kind" in entry else _kind_by_op(entry)
    return next((option for option in get_args(NodeKind) if option == kind), "op")


def _kind_by_op(entry: Mapping[str, object]) -> str:
    """Infers the kind of a node, for files of rfnb 0.1.0 and earlier, which do not contain it."""
    op = get(entry, "op", str)
    return KIND_BY_OP.get(op) or ("module" if entry["body"] and op not in OPS else "op")


KIND_BY_OP: dict[str, NodeKind] = {
    "Loop": "loop", "cond": "cond", "true_fn": "side", "false_fn": "side",
    "state": "state", "unstack": "input", "iter_idx": "input",
}  # fmt: skip


def _place(data: Iterable[object]) -> StoredPlace:
    place: StoredPlace = conform([*data, None, None], StoredPlace, "places")
    return place._replace(assigned=tuple(map(value_name, place.assigned)))
