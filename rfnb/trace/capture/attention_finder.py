"""Finds attention among the ops outside of loops: a softmax, then a weighted sum over its axis."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rfnb.backend.base.attention import RawAttention, RawStep
from rfnb.backend.base.tape import is_trial, untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import ModuleFacts
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.errors import ViewError
from rfnb.ops.attention import attention_weights
from rfnb.ops.convert import convert_to_tensor
from rfnb.trace.run.run import Run

SAME = frozenset({"dropout", "cast", "copy", "copy_masked", "copy_transpose", "where", "mul", "expand_dim"})
SAME |= {"set_sparse_dim", "squeeze"}
"""Ops whose results still are attention weights."""

SUMS = frozenset({"reduce_sum", "reduce"})
"""Ops that can compute the weighted sum, after a product of weights and values."""


@dataclass(frozen=True)
class FoundAttention:
    """Attention that was found: its place in the code, its dims, and a function that returns the weights.

    path: of the module. variable: the one that the user's line assigns. rows: the dim of the queries; None for a single
    query. cols: the dim of the keys. axes: the dims of the weights, with their sizes. bytes: the size of the
    tensors kept for it. make: returns the weights. step: how it continues the last call, where its keys were seen.
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


@dataclass(frozen=True)
class _Mark:
    """Marks the result of a softmax, or a value derived from it. weights: that result; None if it is marked itself."""

    axis: Dim
    weights: Tensor | None
    place: OpPlace
    with_values: bool = False


class AttentionFinder(Listener):
    """Finds attention in the calls of `model`, or in all calls if it is None, and passes it to `add`."""

    def __init__(self, model: object, add: Callable[[FoundAttention], None], outer: Listener | None):
        self.calls = 0
        self.outside = 0  # softmaxes and attention that do not count: no module of `model` was running
        self._names = {} if model is None else names_below(model)
        self._own = set(self._names)
        self._model, self._add, self.outer = model, add, outer
        self._inside: list[tuple[str, Source | None]] = []  # the running modules: path, and the calling line
        self._marks: dict[int, tuple[weakref.ref[Any], _Mark]] = {}  # by id of the raw tensor
        self.takes_kernels = outer is None  # an outer listener must receive the single ops

    # -- calls

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an op, and checks whether it is part of attention."""
        result = super().call(row, args, kwargs)
        if is_trial():
            return result
        self.calls += self._counts()
        with suppress(Exception):  # an error here must not stop the model
            if row.name != "softmax":
                self._follow(row.name, args, kwargs, result)
            elif self._counts():
                self._mark(result, _Mark(kwargs["axis"], None, OpPlace.of(self._inside, user_source())))
            else:
                self.outside += 1
        return result

    def call_module(
        self, module: object, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a module; attention inside gets its path."""
        if not self._inside and self._model is None:
            self._names = names_below(module, type(module).__name__)
        original = getattr(module, "_stands_for", None)
        if original is not None and (root := self._names.get(id(original()))) is not None:
            self._names |= names_below(module, root)
            self._own |= self._names.keys()
        if not self._inside and self._model is not None and id(module) not in self._own:
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
        if self._model is not None and id(module) not in self._own:
            return None
        return ModuleFacts(type(module).__name__, self.name_of(module))

    def counts_module(self, module: object) -> bool:
        """Whether calls of a module count."""
        return self._model is None or id(module) in self._own

    def loop_done(self, run: Run, take: Callable[[Run, str | None], None]) -> None:
        """Passes a finished loop to `take` with the path of the calling module; None if only modules in it count."""
        self.calls += 1
        counts = self._counts()
        take(run, self.path if counts else None)
        self.outside += not counts and any(node.op == "softmax" for node in run.graph.all_nodes())

    def raw_attention(self, found: RawAttention) -> None:
        """Adds attention that a function on raw tensors computed."""
        self.calls += 1
        self._add(_of_raw(found))

    @property
    def path(self) -> str:
        """The path of the module that is running now."""
        return self._inside[-1][0] if self._inside else ""

    def _counts(self) -> bool:
        return self._model is None or bool(self._inside)

    # -- detection

    def _mark(self, tensor: Tensor, mark: _Mark) -> None:
        key = id(tensor._raw)
        self._marks[key] = weakref.ref(tensor._raw, lambda _: self._marks.pop(key, None)), mark

    def _mark_of(self, leaf: Any) -> _Mark | None:
        entry = self._marks.get(id(leaf._raw)) if isinstance(leaf, Tensor) else None
        return entry[1] if entry is not None and entry[0]() is leaf._raw else None

    def _follow(self, op: str, args: tuple[object, ...], kwargs: dict[str, Any], result: object) -> None:
        if not self._marks:
            return
        tensors = tensors_in([args, kwargs])
        weights, mark = next(((x, mark) for x in tensors if (mark := self._mark_of(x)) is not None), (None, None))
        if weights is None or mark is None or not isinstance(result, Tensor):
            return
        softmax = mark.weights if mark.weights is not None else weights
        other_dims = {dim for x in tensors if x is not weights for dim in x.dims}
        if op == "matmul" and mark.axis in _dims(kwargs.get("reduce")):
            self._weighted(softmax, mark, other_dims)
        elif op in SUMS and mark.with_values and mark.axis in _dims(kwargs.get("axis")):
            self._weighted(softmax, mark, set(weights.dims) - (set(softmax.dims) - {mark.axis}))
        elif op in SAME and mark.axis in result.dims and self._mark_of(result) is None:
            values = op == "mul" and bool(other_dims - set(softmax.dims))
            self._mark(result, _Mark(mark.axis, softmax, mark.place, mark.with_values or values))

    def _weighted(self, weights: Tensor, mark: _Mark, of_values: set[Dim]) -> None:
        """Adds attention for a softmax, and removes its marks: each softmax counts once."""
        for key, (_, other) in list(self._marks.items()):
            if key == id(weights._raw) or (other.weights is not None and other.weights._raw is weights._raw):
                self._marks.pop(key, None)
        plain = backend_of_raw(weights._raw).stop_gradient(weights)
        queries = query_dims(weights.dims, mark.axis, of_values)
        self._add(found_of(plain, mark.axis, queries, mark.place, _kept(plain)))

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
        self._add(_found(place, rows, axis, axes, count, make))


def names_below(model: Any, root: str = "") -> dict[int, str]:
    """The paths of the modules in a model, such as "encoder.layers.0", by id; `root` is the prefix."""
    return {id(module): ".".join(filter(None, (root, name))) for name, module in model.named_modules()}


@dataclass(frozen=True)
class OpPlace:
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
) -> FoundAttention:
    """A `FoundAttention` for weights that have been computed."""
    axes = tuple((dim, weights.size_of(dim).max) for dim in weights.dims)
    count = backend_of_raw(weights._raw).nbytes_raw(weights._raw)
    return _found(place, pick_rows(queries), axis, axes, count, make or (lambda: weights))


def _found(
    place: OpPlace,
    rows: Dim | None,
    cols: Dim,
    axes: tuple[tuple[Dim, int], ...],
    count: int,
    make: Callable[[], Tensor],
) -> FoundAttention:
    return FoundAttention(place.path, place.variable, place.source, rows, cols, axes, count, make)


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


def _of_raw(found: RawAttention) -> FoundAttention:
    source = None if found.place is None else Source(*found.place)
    names = ["batch", *["head"][: len(found.shape) - 3], "query", "key"][-len(found.shape) :]
    dims = [
        Dim(n, name=name, kind="batch" if name == "batch" else None) for n, name in zip(found.shape, names, strict=True)
    ]
    place = OpPlace(found.path, "" if found.path else variable_of(source), source)
    axes = tuple(zip(dims, found.shape, strict=True))

    def make() -> Tensor:
        with listening(None):
            return convert_to_tensor(found.make(), dims=dims)

    return replace(_found(place, dims[-2], dims[-1], axes, found.bytes, make), step=found.step)


def _dims(given: Any) -> list[Dim]:
    return [given] if isinstance(given, Dim) else list(given or ())
