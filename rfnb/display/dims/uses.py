"""Finds which objects have which dims, in models, tensors, batches, runs, graphs and containers of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Graph
from rfnb.core.ground.nested import form_of, named_parts
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.nn.module.module import Module

MOST = 20_000
"""Largest number of objects searched."""
DEPTH = 6


@dataclass
class DimUse:
    """A dim and the names of the objects that have it. sizes: its sizes in some of them, each once."""

    dim: Dim
    tensors: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    sizes: list[tuple[str, Size]] = field(default_factory=list)


class Uses:
    """All dims of some objects, by serial. together: the dims of each tensor, by its name."""

    def __init__(self, objects: Iterable[tuple[str, Any]]):
        self.by_serial: dict[int, DimUse] = {}
        self.together: dict[str, tuple[Dim, ...]] = {}
        self.left_out = False
        self._seen: set[int] = set()
        for name, value in objects:
            self._add(name, value, DEPTH)

    def _add(self, name: str, held: Any, depth: int) -> None:
        if id(held) in self._seen:
            return
        if depth == 0 or len(self._seen) >= MOST:
            self.left_out = True
            return
        if isinstance(held, Dim):
            self._use(held)
        elif isinstance(held, Tensor):
            self._seen.add(id(held))
            self._tensor(name, held)
        elif isinstance(held, Module):
            self._module(name, held)
        elif isinstance(held, Graph):
            for value in held.values:
                self._dims(value.name, value.dims, value.sparse_dim, "tensors")
        else:
            self._parts(name, held, depth)

    def _parts(self, name: str, held: Any, depth: int) -> None:
        if isinstance(held, TensorDict):
            held = held.data
        if isinstance(held, Mapping | list | tuple | set | frozenset):
            self._seen.add(id(held))
            pairs = held.items() if isinstance(held, Mapping) else enumerate(held)
            for key, part in pairs:
                self._add(f"{name}[{key!r:.40}]", part, depth - 1)
            return
        if form_of(type(held)) is not None:  # a dataclass or a namespace
            self._seen.add(id(held))
            for key, part in named_parts(held) or ():
                self._add(f"{name}.{key}", part, depth - 1)
            return
        graph = getattr(held, "graph", None)
        if isinstance(graph, Graph):  # a run, or the graph of a model
            self._add(name, graph, depth)
            if isinstance(getattr(held, "axis", None), Dim):
                self._use(held.axis)

    def _use(self, dim: Dim) -> DimUse:
        return self.by_serial.setdefault(dim.serial, DimUse(dim))

    def _tensor(self, name: str, tensor: Tensor) -> None:
        kind = "parameters" if isinstance(tensor, Parameter) else "tensors"
        self._dims(name, tensor.dims, tensor.sparse_dim, kind)
        for dim in tensor.dims:
            size, sizes = tensor.lengths.size(dim), self._use(dim).sizes
            if size is not None and not any(size.agrees(earlier) for _, earlier in sizes):
                sizes.append((name, size))

    def _dims(self, name: str, dims: tuple[Dim, ...], sparse: Dim | None, kind: str) -> None:
        for dim in dict.fromkeys([*dims, *([sparse] if sparse is not None else [])]):
            getattr(self._use(dim), kind).append(name)
        self.together.setdefault(name, dims)

    def _module(self, name: str, module: Module) -> None:
        for path, part in module.named_modules():
            if id(part) in self._seen:
                continue
            self._seen.add(id(part))
            place = f"{name}.{path}" if path else name
            for value in vars(part).values():
                if isinstance(value, Dim) and place not in self._use(value).modules:
                    self._use(value).modules.append(place)
            for key, parameter in part.named_parameters(recurse=False):
                self._add(f"{place}.{key}", parameter, DEPTH)
