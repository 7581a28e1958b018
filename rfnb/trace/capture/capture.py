"""Collects attention weights while a model runs, without changing it.

Attention is a softmax over a dim whose result is multiplied with something and summed over the same dim, or
`dot_attention`. If a single kernel computes all of it, queries and keys are kept, and the weights are recomputed from
them when they are read. For a loop, a replay computes the weights of all steps after the loop.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import index
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph, Node
from rfnb.core.ground.raw import BACKENDS, backend_of_raw
from rfnb.core.ground.scope import modules_described_by
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source
from rfnb.core.tensor.listener import active_listener, listening
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, ViewError
from rfnb.ops.shape import replace_dim_v2
from rfnb.trace.capture.attention_finder import (
    SAME,
    SUMS,
    AttentionFinder,
    FoundAttention,
    OpPlace,
    found_of,
    query_dims,
    variable_of,
)
from rfnb.trace.capture.generate import Decoded, GenerateWatch, Searches
from rfnb.trace.capture.steps import Joined, Labels, joined
from rfnb.trace.record.record import current_recorder
from rfnb.trace.run import session
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import by_hypothesis, over_steps

BUDGET = 2**30
"""Most bytes that the tensors of one `capture` may use; later attention is left out, and listed in `left_out`."""


class Seen(Shown):
    """Captured attention. `weights` is a Tensor {batch, heads, rows, cols} or with fewer dims; `repr` shows a view.

    name: of the module, or of the variable that the user's line assigns; with "#2" for the second `call` of that name.
    rows, cols: the dims of the two sides; rows is None for a single query. axes: all dims with their sizes. place: the
    line. bytes: the size of the tensors kept for it. labels: of `generate`, the numbers of the labels of rows and
    columns, for each sequence. note: what is not known for sure about the rows.
    """

    def __init__(self, found: FoundAttention, decoded: Decoded | None = None):
        self.name, self.call = "", 1
        self.path, self.variable = found.path, found.variable
        self.rows, self.cols, self.axes = found.rows, found.cols, found.axes
        self.source: Source | None = found.source
        self.bytes = found.bytes
        self.labels: tuple[Labels | None, Labels | None] = (None, None)
        self.tokenizer: object = None
        self.note: str | None = None
        self.step, self.decoded = found.step, decoded
        self.make = found.make

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the weights."""
        return tuple(dim for dim, _ in self.axes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, heads): all other dims except the batch count as heads."""
        sizes = dict(self.axes)
        sides = (self.rows, self.cols)
        heads = math.prod(n for dim, n in self.axes if dim not in sides and dim.kind != "batch")
        return (1 if self.rows is None else sizes[self.rows], sizes[self.cols], heads)

    @property
    def weights(self) -> Tensor:
        """The weights, without gradient; recomputed if a kernel did not return them.

        Raises ViewError if a tensor that they are computed from has been changed in place.
        """
        with listening(None):
            return self.make().with_name(self.name)

    def take(self, steps: Joined, count: int) -> None:
        """Becomes the attention of all steps. count: the size of their tensors."""
        self.axes, self.make, self.labels = steps.axes, steps.make, steps.labels
        self.rows, self.cols = self.dims[-2:]
        self.bytes, self.note, self.tokenizer = count, steps.note, steps.tokenizer
        self.step = self.decoded = None

    @property
    def place(self) -> str:
        """The line as text: "cell 4, line 2"."""
        return "" if self.source is None else self.source.place()


class Captured(Shown):
    """What `rf.capture` found, in order: `seen["decoder.att"]`, `seen[0]`, `for each in seen`; `repr` shows a table.

    A name can be that of a module, of a variable, or of both. With `*` or `?`, it selects a `Captured` of all matches.
    search: with `rf.capture(…, search=True)`, the searches of the calls of `generate`.

    >>> time, key, value = rf.Dim(4, name="time"), rf.Dim(2, name="key"), rf.Dim(1, name="value")
    >>> with rf.capture() as seen:
    ...     k, v = rf.ones([time, key]), rf.ones([time, value])
    ...     first = rf.dot_attention(rf.zeros([key]), k, v, key_dim=key, axis=time)
    ...     second = rf.dot_attention(rf.ones([key]), k, v, key_dim=key, axis=time)
    >>> len(seen), seen.names(), seen["s*"].names()
    (2, ['first', 'second'], ['second'])
    """

    def __init__(self, items: Iterable[Seen] = ()):
        self._items = list(items)
        self.left_out: list[str] = []
        self.calls = self.outside = self._bytes = 0
        self.search = Searches([])
        self._watch: GenerateWatch | None = None
        self._unseen: list[list[str]] = []  # paths of modules, for each backend

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._items)

    def names(self) -> list[str]:
        """The names of all items, in order."""
        return [item.name for item in self._items]

    def __getitem__(self, which: int | str | slice) -> Any:
        """One item; several for a slice, or a name with `*` or `?`. Raises ViewError if there is no such item."""
        if isinstance(which, slice):
            return Captured(self._items[which])
        if not isinstance(which, str):
            which = _number(which)
            if not -len(self) <= which < len(self):
                raise ViewError("capture: this index is out of range", got=which, expected=f"0 to {len(self) - 1}")
            return self._items[which]
        if "*" in which or "?" in which:
            matches = [item for item in self._items if fnmatch.fnmatchcase(item.name, which)]
            if matches:
                return Captured(matches)
        for item in self._items:
            if which and which in (item.name, item.path, item.variable, f"{item.path}.{item.variable}"):
                return item
        names = self.names()
        raise ViewError(
            f"capture: there is no attention named {which!r}",
            got=which,
            expected=", ".join(names[:12]) + (" …" if len(names) > 12 else "") or self.why_nothing(),
        )

    def why_nothing(self) -> str | None:
        """A likely reason why nothing was found; None if something was."""
        if self._items:
            return None
        if self.left_out:
            limit = "" if all(":" in reason for reason in self.left_out) else f"; the limit is {BUDGET} bytes"
            return f"all of it was left out: {', '.join(dict.fromkeys(self.left_out))}{limit}"
        if self.outside:
            return (
                "all attention was outside of calls of the model's modules: rf.capture() without a model finds that too"
            )
        if not self.calls:
            where = "inside `with rf.capture(…)`"
            return f"no attention was computed {where}: was the model called, and does it have attention?"
        return "attention is a softmax over a dim, then a weighted sum over it, or rf.dot_attention"

    # -- while capturing

    def _add(self, found: FoundAttention) -> None:
        if self._bytes + found.bytes > BUDGET:
            self.left_out.append(found.path or found.variable or "attention")
        else:
            self._bytes += found.bytes
            decoded = None if self._watch is None or found.step is None else self._watch.decoded(found.step.call)
            self._items.append(Seen(found, decoded))

    def _add_run(self, run: Run, path: str | None) -> None:
        room = BUDGET - self._bytes
        try:
            items, left_out = attention_of(run, path, room)
        except Exception as error:  # an error here must not stop the model
            items, left_out = [], [f"{run.name}: {type(error).__name__}"]
        self.left_out += left_out
        self._items += map(Seen, items)
        self._bytes += sum(item.bytes for item in items)

    def _finish(self) -> None:
        """Merges the steps of Python loops, and names all items."""
        self._items = list(joined(list(_merged(self._items))))
        for path in itertools.chain(*self._unseen):
            self.left_out.append(f"{path or 'attention'}: its softmax was not seen to weight values")
        variables: dict[str, set[str]] = {}
        for item in self._items:
            variables.setdefault(item.path, set()).add(item.variable)
        counts: dict[str, int] = {}
        for item in self._items:
            is_only = item.path and len(variables[item.path]) == 1
            parts = [item.path] if is_only else [part for part in (item.path, item.variable) if part]
            name = ".".join(parts) or "attention"
            item.call = counts[name] = counts.get(name, 0) + 1
            item.name = name if item.call == 1 else f"{name}#{item.call}"


def _number(which: Any) -> int:
    try:
        return index(which)
    except TypeError:
        raise ViewError("capture: an item is selected by a name, a number or a slice", got=repr(which)) from None


def _merged(items: list[Seen]) -> Iterator[Seen]:
    """Merges items without rows that the same line computed repeatedly: they are the steps of a Python loop."""
    groups: dict[Any, list[Seen]] = {}
    for item in items:
        key = id(item) if item.rows is not None else (item.path, item.source, item.cols, frozenset(item.dims))
        groups.setdefault(key, []).append(item)
    for group in groups.values():
        first = group[0]
        if first.rows is None:
            first.rows = Dim(len(group), name="step")
            first.axes = ((first.rows, len(group)), *first.axes)
            first.bytes = sum(item.bytes for item in group)
            first.make = _over([item.make for item in group], first.rows)
        yield first


def _over(makes: list[Callable[[], Tensor]], steps: Dim) -> Callable[[], Tensor]:
    return lambda: over_steps([make() for make in makes], steps, Size([], len(makes)))


@contextmanager
def capture(model: object = None, *, attention: bool = True, search: bool = False) -> Iterator[Captured]:
    """Collects all attention weights that are computed inside the block: of every step, head and layer.

        with rf.capture(model) as seen:
            model(batch)
        rf.show_attention(seen, layer=3, head=5)
        seen["decoder.att"].weights  # {dec_time, batch, enc_time}

    Around a loop that decodes step by step, such as `generate` of transformers, each layer has one matrix, steps ×
    source, whose rows follow the returned hypotheses: docs/views.md.

    The results and gradients of the model do not change in any bit. (Only in `torch.inference_mode` torch may round
    some products differently.) Loops are recorded for it. If a kernel does not return the weights, they
    are recomputed from queries and keys when they are read, without dropout. At most a gigabyte is kept in all; what
    exceeds it is listed in `seen.left_out`, and so are modules for attention whose weights were not found.

    >>> time, key, value = rf.Dim(4, name="time"), rf.Dim(2, name="key"), rf.Dim(1, name="value")
    >>> with rf.capture() as seen:
    ...     keys, values = rf.ones([time, key]), rf.ones([time, value])
    ...     att = rf.dot_attention(rf.zeros([key]), keys, values, key_dim=key, axis=time)
    >>> seen.names(), seen["att"].weights.raw_tensor.tolist()
    (['att'], [[0.25, 0.25, 0.25, 0.25]])

    Args:
        model: an `rf.Module` or a `torch.nn.Module`: only calls of it and of modules in it count, and they give the
            names. Without a model, all calls count, including other methods of a module.
        attention: whether attention weights are collected.
        search: whether the searches of all calls of `generate` of transformers are kept: `seen.search[0]` is the first
            one, as `rf.search.from_generate` makes it. Whoever calls `generate` gets the same result, bit for bit. The
            best candidates of each step are kept, not all scores.

    Raises ViewError if `model` is not a module, LoopError in the body of a loop.
    """
    if not attention and not search:
        raise ViewError(
            "capture: nothing is to be captured", got="attention=False", expected="attention=True or search=True"
        )
    if model is not None and (isinstance(model, type) or not hasattr(model, "named_modules")):
        raise ViewError(
            "capture: `model` is not a module",
            got=f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__,
            expected="an rf.Module, a torch.nn.Module or None",
            hint=f"with rf.capture() as seen: {getattr(model, '__name__', 'fn')}(…)" if callable(model) else None,
        )
    if current_recorder() is not None:
        raise LoopError("capture cannot be used in the body of a loop", hint="put `with rf.capture(…)` around the loop")
    captured = Captured()
    finder = AttentionFinder(model, captured._add, active_listener())
    captured._watch = watch = GenerateWatch(finder.counts_module, search=search)
    captured.search = Searches(watch.searches)
    with ExitStack() as stack:
        stack.enter_context(watch.watching())
        if not attention:
            yield captured
            return
        stack.callback(captured._finish)
        stack.enter_context(session.observing_runs(lambda run: finder.loop_done(run, captured._add_run)))
        stack.enter_context(modules_described_by(finder.facts_of))
        for backend in dict.fromkeys(BACKENDS.values()):
            captured._unseen.append(stack.enter_context(backend.watching_attention(finder.raw_attention, model)))
        stack.enter_context(listening(finder))
        try:
            yield captured
        finally:
            captured.calls, captured.outside = finder.calls, finder.outside


# -- attention in the graph of a recorded loop, with the weights of all steps from a replay


@dataclass(frozen=True)
class _InStep:
    """A value of the body that contains attention weights, their axis, and the dims of the queries."""

    number: int
    axis: Dim
    queries: list[Dim]
    place: OpPlace


def attention_of(run: Run, path: str | None, room: int) -> tuple[list[FoundAttention], list[str]]:
    """The attention in a run, with weights over all steps {axis, …}; and the names of attention that was left out.

    path: of the module that contains the loop; None if only modules called in the body count. room: the most bytes that
    the weights may use.
    """
    items: list[FoundAttention] = []
    left_out: list[str] = []
    for place in _loops_inside(run.graph.nodes, path):
        left_out.append(f"{place}, a loop inside {run.name}")
    entries = list(_in_graph(run.graph, path))
    count = min(run.steps, run.size.max)  # without include_eos, the last step has no frame
    if not entries or not count:
        return items, left_out
    last = run.replay.computed(count - 1, {entry.number for entry in entries})  # the largest step, if sizes grow
    sizes = {value.number: backend_of_raw(x._raw).nbytes_raw(x._raw) * count for value, x in last}
    for entry in entries:
        if entry.number not in sizes:
            continue
        room -= sizes[entry.number]
        if room < 0:
            left_out.append(entry.place.path or entry.place.variable or run.name)
            continue
        steps = [_at(run, step, entry.number) for step in range(count)]
        if len({x.dims for x in steps}) > 1 or run.axis in steps[0].dims:
            left_out.append(f"{entry.place.variable or run.name}: its dims differ from step to step")
            continue
        steps, cols = _as_wide(steps, entry.axis)
        weights = by_hypothesis(over_steps(steps, run.axis, run.size), run.axis, run.replay.lineages)
        dynamic = [dim for dim in entry.queries if dim.is_dynamic()]
        items.append(found_of(weights, cols, dynamic or [run.axis], entry.place))
    return items, left_out


def _as_wide(steps: list[Tensor], axis: Dim) -> tuple[list[Tensor], Dim]:
    """Pads with 0 to the largest size, if the axis grows with each step as in causal self-attention."""
    sizes = {x.size_of(axis).max for x in steps}
    if len(sizes) == 1:
        return steps, axis
    widest = Dim(max(sizes), name=axis.name)
    return [replace_dim_v2(x, in_dim=axis, out_dim=widest) for x in steps], widest


def _at(run: Run, step: int, number: int) -> Tensor:
    ((_, tensor),) = run.replay.computed(step, {number})
    return tensor


def _in_graph(graph: BodyGraph, path: str | None) -> Iterator[_InStep]:
    """Finds softmaxes in the graph, and follows their weights until they are summed over."""
    marks: dict[int, tuple[int, Node, str, bool]] = {}  # by value: softmax, its node and module, times values or not
    for node, owner in _walk(graph.nodes, path):
        dims = [set(graph.values[n].dims) for n in node.inputs]
        out = set(graph.values[node.outputs[0]].dims) if node.outputs else set()
        if node.op == "softmax" and node.outputs:
            if owner is not None:
                marks[node.outputs[0]] = node.outputs[0], node, owner, False
            continue
        at = next((i for i, n in enumerate(node.inputs) if n in marks), None)
        if at is None or not node.outputs:
            continue
        number, origin, module, with_values = marks[node.inputs[at]]
        weights = graph.values[number].dims
        reduced = [dim for dim in weights if dim in dims[at] and dim not in out]
        other_dims = set().union(*(operand_dims for i, operand_dims in enumerate(dims) if i != at))
        sums = node.op == "matmul" or (node.op in SUMS and with_values)
        if sums and len(reduced) == 1:
            of_values = other_dims if node.op == "matmul" else dims[at] - (set(weights) - {reduced[0]})
            yield _InStep(number, reduced[0], query_dims(weights, reduced[0], of_values), _place(origin, module))
            marks = {n: mark for n, mark in marks.items() if mark[0] != number}
        elif node.op in SAME and (not reduced or node.op == "squeeze"):
            values = node.op == "mul" and bool(other_dims - set(weights))
            marks[node.outputs[0]] = number, origin, module, with_values or values


def _place(node: Node, module: str) -> OpPlace:
    variable = variable_of(node.source)
    if not variable and not module:  # returned by a function: named where the body calls it
        variable = variable_of(node.at)
    return OpPlace(module, variable, node.source)


def _walk(nodes: list[Node], path: str | None) -> Iterator[tuple[Node, str | None]]:
    """All nodes except modules, each with the path of its module; without those of inner loops."""
    for node in nodes:
        if node.kind != "loop":
            if node.module is None:
                yield node, path
            yield from _walk(node.body, _inside(node, path))


def _inside(node: Node, path: str | None) -> str | None:
    return path if node.module is None else node.module.path


def _loops_inside(nodes: list[Node], path: str | None) -> Iterator[str]:
    for node in nodes:
        if node.kind != "loop":
            yield from _loops_inside(node.body, _inside(node, path))
        elif any(inner.op == "softmax" and at is not None for inner, at in _walk(node.body, path)):
            yield node.source.place() if node.source is not None else "a loop"
