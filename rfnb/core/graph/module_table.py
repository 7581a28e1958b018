"""The modules of a model with their paths and facts, for modules of rfnb and of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rfnb.core.graph.facts import ModuleFacts
from rfnb.core.ground.text import cut

Own = Callable[[Any], Iterable[tuple[str, Any]]]
"""A function that returns a module's own parameters with their names."""
Counted = Callable[[Any], tuple[int, bool]]
"""A function that returns the number of values in a parameter, and whether it is trained."""
NamedModules = Callable[[Any, str], Iterable[tuple[str, Any]]]
"""A function that returns a module and those in it with their paths, below a prefix."""


class ModuleTable:
    """The path and facts of each module, and which modules were called."""

    def __init__(self, own: Own, counted: Counted, named_modules: NamedModules | None = None):
        self._own, self._counted = own, counted
        self._named_modules = named_modules or (lambda root, prefix: root.named_modules(prefix=prefix))
        self._facts: dict[int, ModuleFacts] = {}
        self._calls: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is reused
        self.parameters: dict[int, str] = {}  # paths, by id
        self.used: set[int] = set()  # ids of parameters that were read
        self.count = 0

    def add(self, root: Any, prefix: str = "") -> None:
        """Adds a module and all modules inside it."""
        named = self._named_modules(root, prefix)
        new = [(path, module) for path, module in named if id(module) not in self._facts]
        counts: dict[str, list[int]] = {path: [0, 0] for path, _ in new}
        counted: set[tuple[str, int]] = set()
        for path, module in new:
            for name, parameter in self._own(module):
                self._alive.append(parameter)
                self.parameters.setdefault(id(parameter), f"{path}.{name}" if path else name)
                number, is_trained = self._counted(parameter)
                for parent in _with_parents(path, prefix):
                    if parent in counts and (parent, id(parameter)) not in counted:
                        counted.add((parent, id(parameter)))
                        counts[parent][0] += number
                        counts[parent][1] += number * is_trained
        for path, module in new:
            self._alive.append(module)
            count, trained = counts[path]
            self._facts[id(module)] = ModuleFacts(type(module).__name__, path, count, trained, note_of(module))
        self.count += counts[prefix][0] if prefix in counts else 0

    def knows(self, module: Any) -> bool:
        """Whether a module was added."""
        return id(module) in self._facts

    def call(self, module: Any, inside: str = "") -> ModuleFacts:
        """Counts a call of a module and returns its facts. A new module is added below `inside`."""
        if id(module) not in self._facts:
            self.add(module, self._free_name(module, inside))
        calls = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        return replace(self._facts[id(module)], call=calls) if calls else self._facts[id(module)]

    def _free_name(self, module: Any, inside: str) -> str:
        paths = {facts.path for facts in self._facts.values()}
        stem = f"{inside}.{default_name(module)}".lstrip(".")
        return next(name for n in range(len(paths) + 1) if (name := f"{stem}_{n + 1}" if n else stem) not in paths)

    def unused(self) -> tuple[ModuleFacts, ...]:
        """The modules that were neither called nor had a parameter read, without the modules inside them."""
        alive: set[str] = set()
        for number in self._calls:
            alive.update(_with_parents(self._facts[number].path))
        for number in self.used & set(self.parameters):
            alive.update(_with_parents(self.parameters[number].rpartition(".")[0]))
        idle = {facts.path: facts for facts in self._facts.values() if facts.path not in alive}
        return tuple(f for path, f in idle.items() if path and not any(up in idle for up in _parents(path)))


def is_module(thing: Any) -> bool:
    """Whether an object is a module of rfnb or torch, not a class of modules."""
    return hasattr(thing, "named_modules") and not isinstance(thing, type)


def default_name(module: Any) -> str:
    """The name of a module that no attribute names: "layer_norm" for LayerNorm."""
    if hasattr(module, "get_default_name"):
        return str(module.get_default_name())
    return type(module).__name__.lower()


def note_of(module: Any) -> str:
    """The options of a module in one line; "" if it has no `extra_repr`."""
    try:
        words = " ".join(str(module.extra_repr()).split())
    except Exception:
        return ""
    return cut(words, 120)


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path


def _with_parents(path: str, top: str = "") -> Iterator[str]:
    """The path itself and all paths above it, up to `top`."""
    yield path
    for parent in _parents(path):
        if len(parent) >= len(top):
            yield parent
