"""Collects attention weights while a model runs, without changing it.

Attention is a softmax over a dim whose result is multiplied with something and summed over the same dim, or
`dot_attention`. If a single kernel computes all of it, queries and keys are kept, and the weights are recomputed from
them when they are read. For a loop, a replay computes the weights of all steps after the loop.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from rfnb.backend.base.attention import RawAttention, RawStep
from rfnb.backend.base.tape import is_trial, untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph, ModuleFacts, Node
from rfnb.core.ground.backends import BACKENDS, backend_of_raw
from rfnb.core.ground.scope import modules_described_by, paths_below
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener, active_listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.errors import LoopError, ViewError
from rfnb.ops.attention import attention_weights
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.shape import replace_dim_v2
from rfnb.trace.capture.generate import Decoded, GenerateWatch, Searches
from rfnb.trace.capture.steps import Labels, joined
from rfnb.trace.record.record import current_recorder
from rfnb.trace.run import session
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import by_hypothesis, over_steps

SAME = frozenset({"dropout", "cast", "copy", "copy_masked", "copy_transpose", "where", "mul", "expand_dim"})
SAME |= {"set_sparse_dim", "squeeze"}
"""Ops whose results still are attention weights."""

SUMS = frozenset({"reduce_sum", "reduce"})
"""Ops that can compute the weighted sum, after a product of weights and values."""


@dataclass(eq=False, repr=False)
class Seen(Shown):
    """Captured attention. `weights` is a Tensor {batch, heads, rows, cols} or with fewer dims; `repr` shows a view.

    name: of the module, or of the variable that the user's line assigns; with "#2" for the second `call` of that name.
    rows, cols: the dims of the two sides; rows is None for a single query. axes: all dims with their sizes. place: the
    line. bytes: the size of the tensors kept for it. labels: of `generate`, the numbers of the labels of rows and
    columns, for each sequence. note: what is not known for sure about the rows.

    path: of the module. variable: the one that the user's line assigns. make: returns the weights. step: how it
    continues the last call, where its keys were seen; decoded: that call of `generate`.
    """

    path: str
    variable: str
    source: Source | None
    rows: Dim | None
    cols: Dim
    axes: tuple[tuple[Dim, int], ...]
    bytes: int
    make: Callable[[], Tensor]
    step: RawStep | None = None
    decoded: Decoded | None = None
    name: str = ""
    call: int = 1
    labels: tuple[Labels | None, Labels | None] = (None, None)
    tokenizer: object = None
    note: str | None = None

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

    @property
    def place(self) -> str:
        """The line as text: "cell 4, line 2"."""
        return "" if self.source is None else self.source.place()


@dataclass(frozen=True)
class _Weights:
    """The result of a softmax, or a value that still is attention weights.

    dims, axis: of the softmax; the axis may not be known. place: its place. softmax: its result, or the number of that;
    None if it is this value. with_values: whether they are multiplied with values.
    """

    dims: tuple[Dim, ...]
    axis: Dim | None
    place: OpPlace
    softmax: Any = None
    with_values: bool = False

    def after(self, op: str, operand: set[Dim], others: set[Dim], out: set[Dim]) -> tuple[Dim, list[Dim]] | bool | None:
        """What an op makes of the weights: their axis and the dims of the queries, if it is the weighted sum; whether
        they are multiplied with values, if they still are weights; else None. operand, others, out: the dims of the
        weights, of the other operands, and of the result.
        """
        reduced = [dim for dim in self.dims if dim in operand and dim not in out]
        axis = reduced[0] if self.axis is None and len(reduced) == 1 else self.axis
        if axis in reduced and axis is not None and (op == "matmul" or (op in SUMS and self.with_values)):
            of_values = others if op == "matmul" else operand - ({*self.dims} - {axis})
            return axis, query_dims(self.dims, axis, of_values)
        if op in SAME and (self.axis in out if self.axis is not None else not reduced or op == "squeeze"):
            return self.with_values or (op == "mul" and bool(others - {*self.dims}))
        return None


class AttentionFinder(Listener):
    """Finds attention in the calls of `model`, or in all calls if it is None, and passes it to `add`."""

    def __init__(self, model: object, add: Callable[[Seen], None], outer: Listener | None):
        self.calls = 0
        self.outside = 0  # softmaxes and attention that do not count: no module of `model` was running
        self._names = {} if model is None else paths_below(model)
        self._own = set(self._names)
        self._model, self._add, self.outer = model, add, outer
        self._inside: list[tuple[str, Source | None]] = []  # the running modules: path, and the calling line
        self._marks: dict[int, tuple[weakref.ref[object], _Weights]] = {}  # by id of the raw tensor
        self.takes_kernels = outer is None  # an outer listener must receive the single ops

    # -- calls

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, Any]) -> object:
        """Runs an op, and checks whether it is part of attention."""
        result = super().call(row, args, kwargs)
        if is_trial():
            return result
        self.calls += self._counts()
        with suppress(Exception):  # an error here must not stop the model
            if row.name != "softmax":
                self._follow(row.name, args, kwargs, result)
            elif self._counts():
                place = OpPlace.of(self._inside, user_source())
                self._mark(result, _Weights(result.dims, kwargs["axis"], place))
            else:
                self.outside += 1
        return result

    def call_module(
        self, module: object, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Runs a module; attention inside gets its path."""
        if not self._inside and self._model is None:
            self._names = paths_below(module, type(module).__name__)
        original = getattr(module, "_stands_for", None)
        if original is not None and (root := self._names.get(id(original()))) is not None:
            self._names |= paths_below(module, root)
            self._own |= self._names.keys()
        if not self._inside and not self.counts_module(module):
            return super().call_module(module, forward, args, kwargs)
        self._inside.append((self.name_of(module), user_source()))
        self.calls += 1
        try:
            return super().call_module(module, forward, args, kwargs)
        finally:
            self._inside.pop()

    def name_of(self, module: object) -> str:
        """The path of a module; the name of its class if it is not part of another module."""
        return self._names.get(id(module), f"{self.path}.{type(module).__name__}".lstrip("."))

    def facts_of(self, module: object) -> ModuleFacts | None:
        """The facts about a module for the graph of a loop; None if its calls do not count."""
        return ModuleFacts(type(module).__name__, self.name_of(module)) if self.counts_module(module) else None

    def counts_module(self, module: object) -> bool:
        """Whether calls of a module count."""
        return self._model is None or id(module) in self._own

    def loop_done(self, run: Run, take: Callable[[Run, str | None], None]) -> None:
        """Passes a finished loop to `take` with the path of the calling module; None if only modules in it count."""
        self.calls += 1
        counts = self._counts()
        take(run, self.path if counts else None)
        self.outside += not counts and any(node.op == "softmax" for node in run.graph.all_nodes())

    def raw_attention(self, attention: RawAttention) -> None:
        """Adds attention that a function on raw tensors computed."""
        self.calls += 1
        self._add(_of_raw(attention))

    @property
    def path(self) -> str:
        """The path of the module that is running now."""
        return self._inside[-1][0] if self._inside else ""

    def _counts(self) -> bool:
        return self._model is None or bool(self._inside)

    # -- detection

    def _mark(self, tensor: Tensor, mark: _Weights) -> None:
        key = id(tensor._raw)
        self._marks[key] = weakref.ref(tensor._raw, lambda _: self._marks.pop(key, None)), mark

    def _mark_of(self, tensor: Tensor) -> _Weights | None:
        entry = self._marks.get(id(tensor._raw))
        return entry[1] if entry is not None and entry[0]() is tensor._raw else None

    def _follow(self, op: str, args: tuple[object, ...], kwargs: dict[str, object], result: object) -> None:
        if not self._marks:
            return
        tensors = tensors_in([args, kwargs])
        weights, mark = next(((x, mark) for x in tensors if (mark := self._mark_of(x)) is not None), (None, None))
        if weights is None or mark is None or not isinstance(result, Tensor):
            return
        softmax = weights if mark.softmax is None else mark.softmax
        other_dims = {dim for x in tensors if x is not weights for dim in x.dims}
        step = mark.after(op, {*weights.dims}, other_dims, {*result.dims})
        if isinstance(step, tuple):
            self._weighted(softmax, mark.place, *step)
        elif step is not None and self._mark_of(result) is None:
            self._mark(result, replace(mark, softmax=softmax, with_values=step))

    def _weighted(self, weights: Tensor, place: OpPlace, axis: Dim, queries: list[Dim]) -> None:
        """Adds attention for a softmax, and removes its marks: each softmax counts once."""
        for key, (_, mark) in list(self._marks.items()):
            if key == id(weights._raw) or (mark.softmax is not None and mark.softmax._raw is weights._raw):
                self._marks.pop(key, None)
        plain = backend_of_raw(weights._raw).stop_gradient(weights)
        self._add(found_of(plain, axis, queries, place, _kept(plain)))

    def attention(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        key_dim: Dim,
        axis: Dim,
        causal: Dim | None,
        scale: float,
        bias: Tensor | None,
        result: Tensor,
    ) -> None:
        """Adds attention that a kernel computed; the weights are recomputed from queries and keys when needed."""
        if is_trial():
            return
        if not self._counts():
            self.outside += 1
            return
        query, keys = (backend_of_raw(x._raw).stop_gradient(x) for x in (query, keys))
        added = [] if bias is None else [backend_of_raw(bias._raw).stop_gradient(bias)]
        getters = [_kept(x) for x in (query, keys, *added)]

        def make() -> Tensor:
            query, keys, *added = [getter() for getter in getters]
            bias = added[0] if added else None
            with untaped():
                return attention_weights(query, keys, key_dim=key_dim, axis=axis, causal=causal, scale=scale, bias=bias)

        shared = [dim for dim in query.dims if dim is not key_dim]
        dims = (*shared, *(dim for dim in keys.dims if dim not in shared and dim not in (key_dim, axis)), axis)
        axes = tuple((dim, (query if dim in query.dims else keys).size_of(dim).max) for dim in dims)
        rows = pick_rows(query_dims(dims, axis, set(keys.dims)))
        place = OpPlace.of(self._inside, user_source())
        count = sum(backend_of_raw(x._raw).nbytes_raw(x._raw) for x in (query, keys, *added))
        self._add(Seen(*place, rows, axis, axes, count, make))


class OpPlace(NamedTuple):
    """The place of an op: the path of its module, the variable that its line assigns, and the line."""

    path: str
    variable: str
    source: Source | None

    @staticmethod
    def of(inside: list[tuple[str, Source | None]], source: Source | None) -> OpPlace:
        """The place of a line inside modules. A line that calls a module names its result, not the values inside it."""
        path, caller = inside[-1] if inside else ("", None)
        return OpPlace(path, "" if source is None or source == caller else variable_of(source), source)


def variable_of(source: Source | None) -> str:
    """The name of the value in the user's line; "" if the line does not name exactly one."""
    return ((source.name() if source is not None else None) or "").removeprefix("self.")


def query_dims(dims: Iterable[Dim], axis: Dim, of_values: set[Dim]) -> list[Dim]:
    """The dims of the queries: those of the weights that the values do not have, without batch dims."""
    return [dim for dim in dims if dim is not axis and dim not in of_values and dim.kind != "batch"]


def pick_rows(dims: list[Dim]) -> Dim | None:
    """The dim for the rows: the last dynamic one, else the last one; None if there are none."""
    return next((dim for dim in reversed(dims) if dim.is_dynamic()), dims[-1] if dims else None)


def found_of(
    weights: Tensor, axis: Dim, queries: list[Dim], place: OpPlace, make: Callable[[], Tensor] | None = None
) -> Seen:
    """Attention whose weights have been computed."""
    axes = tuple((dim, weights.size_of(dim).max) for dim in weights.dims)
    count = backend_of_raw(weights._raw).nbytes_raw(weights._raw)
    return Seen(*place, pick_rows(queries), axis, axes, count, make or (lambda: weights))


def _kept(tensor: Tensor) -> Callable[[], Tensor]:
    """A function that returns the tensor, or raises ViewError if it has been changed in place since now."""
    version_of = backend_of_raw(tensor._raw).version_raw
    version = version_of(tensor._raw)

    def give() -> Tensor:
        if version_of(tensor._raw) != version:
            raise ViewError(
                "capture: a tensor that the weights are computed from has been changed in place",
                got=tensor.describe_dims(),
                hint="read the weights before the next call of the model",
            )
        return tensor

    return give


def _of_raw(raw: RawAttention) -> Seen:
    source = None if raw.place is None else Source(*raw.place)
    names = ["batch", *["head"][: len(raw.shape) - 3], "query", "key"][-len(raw.shape) :]
    dims = [
        Dim(n, name=name, kind="batch" if name == "batch" else None) for n, name in zip(raw.shape, names, strict=True)
    ]
    place = OpPlace(raw.path, "" if raw.path else variable_of(source), source)
    axes = tuple(zip(dims, raw.shape, strict=True))

    def make() -> Tensor:
        with listening(None):
            return convert_to_tensor(raw.make(), dims=dims)

    return Seen(*place, dims[-2], dims[-1], axes, raw.bytes, make, raw.step)


BUDGET = 2**30
"""Most bytes that the tensors of one `capture` may use; later attention is left out, and listed in `left_out`."""


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

    def left_out_text(self) -> str | None:
        """What was left out, if anything was."""
        return f"left out: {', '.join(dict.fromkeys(self.left_out))}" if self.left_out else None

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

    def _add(self, attention: Seen) -> None:
        if self._bytes + attention.bytes > BUDGET:
            self.left_out.append(attention.path or attention.variable or "attention")
        else:
            self._bytes += attention.bytes
            if self._watch is not None and attention.step is not None:
                attention.decoded = self._watch.decoded(attention.step.call)
            self._items.append(attention)

    def _add_run(self, run: Run, path: str | None) -> None:
        room = BUDGET - self._bytes
        try:
            items, left_out = attention_of(run, path, room)
        except Exception as error:  # an error here must not stop the model
            items, left_out = [], [f"{run.name}: {type(error).__name__}"]
        self.left_out += left_out
        self._items += items
        self._bytes += sum(item.bytes for item in items)

    def _finish(self) -> None:
        """Merges the steps of Python loops, and names all items."""
        self._items = list(joined(list(_merged(self._items))))
        paths = itertools.chain(*self._unseen)
        self.left_out += [f"{path or 'attention'}: its softmax was not seen to weight values" for path in paths]
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


def _number(which: SupportsIndex) -> int:
    try:
        return index(which)
    except TypeError:
        raise ViewError("capture: an item is selected by a name, a number or a slice", got=repr(which)) from None


def _merged(items: list[Seen]) -> Iterator[Seen]:
    """Merges items without rows that the same line computed repeatedly: they are the steps of a Python loop."""
    groups: dict[Hashable, list[Seen]] = {}
    for item in items:
        key = id(item) if item.rows is not None else (item.path, item.source, item.cols, frozenset(item.dims))
        groups.setdefault(key, []).append(item)
    for group in groups.values():
        head = group[0]
        if head.rows is None:
            head.rows = Dim(len(group), name="step")
            head.axes = ((head.rows, len(group)), *head.axes)
            head.bytes = sum(item.bytes for item in group)
            head.make = _over([item.make for item in group], head.rows)
        yield head


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


def attention_of(run: Run, path: str | None, room: int) -> tuple[list[Seen], list[str]]:
    """The attention in a run, with weights over all steps {axis, …}; and the names of attention that was left out.

    path: of the module that contains the loop; None if only modules called in the body count. room: the most bytes that
    the weights may use.
    """
    items: list[Seen] = []
    left_out = [f"{place}, a loop inside {run.name}" for place in _loops_inside(run.graph.nodes, path)]
    entries = list(_in_graph(run.graph, path))
    count = min(run.steps, run.size.max)  # without include_eos, the last step has no frame
    if not entries or not count:
        return items, left_out
    largest = run.replay.computed(count - 1, {entry.number for entry in entries})  # the largest step, if sizes grow
    sizes = {value.number: backend_of_raw(x._raw).nbytes_raw(x._raw) * count for value, x in largest}
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
    marks: dict[int, _Weights] = {}  # by value
    for node, owner in _walk(graph.nodes, path):
        dims = [set(graph.values[n].dims) for n in node.inputs]
        if node.op == "softmax" and node.outputs:
            if owner is not None:
                number = node.outputs[0]
                marks[number] = _Weights(graph.values[number].dims, None, _place(node, owner), number)
            continue
        at = next((i for i, n in enumerate(node.inputs) if n in marks), None)
        if at is None or not node.outputs:
            continue
        mark = marks[node.inputs[at]]
        other_dims = set().union(*(operand_dims for i, operand_dims in enumerate(dims) if i != at))
        step = mark.after(node.op, dims[at], other_dims, {*graph.values[node.outputs[0]].dims})
        if isinstance(step, tuple):
            yield _InStep(mark.softmax, *step, mark.place)
            marks = {n: weights for n, weights in marks.items() if weights.softmax != mark.softmax}
        elif step is not None:
            marks[node.outputs[0]] = replace(mark, with_values=step)


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
