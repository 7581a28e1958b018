"""Modules in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from rfnb.core.tensor import Tensor
from rfnb.nn.module import Functional, Module

Part = Module | Callable[..., Any]


class ModuleList(Module):
    """A list of modules; functions among them become modules. Their names are "0", "1", …, or the keys of a dict.

    >>> dims = [rf.Dim(n, name=f"hidden{n}") for n in (3, 4, 5)]
    >>> layers = rf.ModuleList(rf.Linear(a, b) for a, b in zip(dims, dims[1:]))
    >>> [name for name, _ in layers.named_parameters()]
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    def __init__(self, *modules: Part | Iterable[Part] | Mapping[str, Part]):
        only = modules[0] if len(modules) == 1 else modules
        if isinstance(only, Mapping):
            self._add(only.items())
        else:
            parts = only if isinstance(only, Iterable) else modules
            self._add(parts.items() if isinstance(parts, ModuleList) else enumerate(parts))

    def _add(self, parts: Iterable[tuple[Any, Any]]) -> None:
        for name, part in parts:
            setattr(self, str(name), part if isinstance(part, Module) else Functional(part))

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules; a module that occurs twice is here twice."""
        return [(name, part) for name, part in vars(self).items() if isinstance(part, Module)]

    def append(self, module: Part) -> None:
        """Adds a module behind the others."""
        self._add([(len(self), module)])

    def extend(self, modules: Iterable[Part]) -> None:
        """Adds modules behind the others."""
        self._add(enumerate(modules, len(self)))

    def __len__(self) -> int:
        return len(list(self.items()))

    def __iter__(self) -> Iterator[Module]:
        return iter([part for _, part in self.items()])

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    @overload
    def __getitem__(self, index: int | str) -> Module: ...
    def __getitem__(self, index: int | str | slice) -> Module | ModuleList:
        if isinstance(index, str):
            return dict(self.items())[index]
        return type(self)(list(self)[index]) if isinstance(index, slice) else list(self)[index]

    def __setitem__(self, index: int, module: Part) -> None:
        name = [name for name, _ in self.items()][index]
        self._add([(name, module)])


class Sequential(ModuleList):
    """Modules one after the other: each gets what the one before gave.

    >>> hidden, out = rf.Dim(3, name="hidden"), rf.Dim(2, name="out")
    >>> rf.Sequential(rf.Linear(hidden, out), rf.relu)(rf.zeros([hidden])).dims == (out,)
    True
    """

    def __call__(self, inp: Tensor, *, collected_outputs: dict[str, Tensor] | None = None, **kwargs: Any) -> Tensor:
        """What the last one gives; `collected_outputs` takes what each gave. `kwargs` go to all."""
        for name, part in self.items():
            inp = part(inp, **kwargs)
            if collected_outputs is not None:
                collected_outputs[name] = inp
        return inp


def sequential(source: Tensor, *modules: Part) -> Tensor:
    """`rf.Sequential(*modules)(source)`"""
    for module in modules:
        source = module(source)
    return source
