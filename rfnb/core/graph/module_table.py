"""The modules of a model by the object: their paths and facts. For modules of rfnb and of torch alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from rfnb.core.graph.facts import ModuleFacts
from rfnb.core.ground.text import cut

Own = Callable[[Any], Iterable[tuple[str, Any]]]
"""A module's own parameters, by name."""
Counted = Callable[[Any], tuple[int, bool]]
"""How many numbers a parameter has, and whether it is trained."""


class ModuleTable:
    """What is known of each module, and which of them were called."""

    def __init__(self, own: Own, counted: Counted):
        self._own, self._counted = own, counted
        self._facts: dict[int, ModuleFacts] = {}
        self._calls: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is given twice
        self.parameters: dict[int, str] = {}  # paths, by id
        self.used: set[int] = set()  # ids of parameters
        self.count = 0

    def add(self, root: Any, prefix: str = "") -> None:
        """A module and all below it."""
        found = [(path, module) for path, module in root.named_modules(prefix=prefix) if id(module) not in self._facts]
        counts: dict[str, list[int]] = {path: [0, 0] for path, _ in found}
        counted: set[tuple[str, int]] = set()
        for path, module in found:
            for name, parameter in self._own(module):
                self._alive.append(parameter)
                self.parameters.setdefault(id(parameter), f"{path}.{name}" if path else name)
                number, is_trained = self._counted(parameter)
                for above in _with_parents(path, prefix):
                    if above in counts and (above, id(parameter)) not in counted:
                        counted.add((above, id(parameter)))
                        counts[above][0] += number
                        counts[above][1] += number * is_trained
        for path, module in found:
            self._alive.append(module)
            count, trained = counts[path]
            self._facts[id(module)] = ModuleFacts(type(module).__name__, path, count, trained, note_of(module))
        self.count += counts[prefix][0] if prefix in counts else 0

    def knows(self, module: Any) -> bool:
        """Whether it is one of those, or was called."""
        return id(module) in self._facts

    def call(self, module: Any, inside: str = "") -> ModuleFacts:
        """A call of it. One that belongs to no module above is called after its class, below `inside`."""
        if id(module) not in self._facts:
            self.add(module, self._free_name(module, inside))
        calls = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        return replace(self._facts[id(module)], call=calls) if calls else self._facts[id(module)]

    def _free_name(self, module: Any, inside: str) -> str:
        taken = {facts.path for facts in self._facts.values()}
        stem = f"{inside}.{default_name(module)}".lstrip(".")
        return next(name for n in range(len(taken) + 1) if (name := f"{stem}_{n + 1}" if n else stem) not in taken)

    def unused(self) -> tuple[ModuleFacts, ...]:
        """Modules of which nothing was called, and no parameter read; without those inside of them."""
        alive: set[str] = set()
        for number in self._calls:
            alive.update(_with_parents(self._facts[number].path))
        for number in self.used & set(self.parameters):
            alive.update(_with_parents(self.parameters[number].rpartition(".")[0]))
        idle = {facts.path: facts for facts in self._facts.values() if facts.path not in alive}
        return tuple(f for path, f in idle.items() if path and not any(up in idle for up in _parents(path)))


def default_name(module: Any) -> str:
    """What it is called where no attribute names it: "layer_norm" for LayerNorm."""
    if hasattr(module, "get_default_name"):
        return str(module.get_default_name())
    return type(module).__name__.lower()


def note_of(module: Any) -> str:
    """Its options in one line, if it tells them."""
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
    """The path itself, and all above, up to `top`."""
    yield path
    for above in _parents(path):
        if len(above) >= len(top):
            yield above
