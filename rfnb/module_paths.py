"""Modules that have names of `rf` but no file: `from rfnb.encoder.conformer import ConformerEncoder`.

Nearly all names stand directly in `rf`; models written for RETURNN's frontend import some of them from modules. A
module here looks a name up when it is asked for it, so that registering it imports nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType

from rfnb.core.ground.text import INSTEAD, Missing, no_name
from rfnb.public_names import FOLDERS

ROOT = __name__.partition(".")[0]
ALL = {name: name for name in FOLDERS}
"""All public names of `rf`."""

PATHS = """
    attention decoder decoder.transformer encoder encoder.base encoder.conformer encoder.e_branchformer
    encoder.transformer module run_ctx state tensor_array
""".split()
"""The modules without a file below `rf` itself."""


class NamesOnly(ModuleType):
    """A module without a file, which gives names of another one, and the modules below itself.

    Args:
        names: the names that it gives, each with the name that this has there.
        home: the name of the other module.
    """

    def __init__(self, name: str, names: Mapping[str, str], home: str = ROOT):
        super().__init__(name, f"Gives names of {home} to models that import them from {name}.")
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []
        self._names, self._home = names, home

    def __getattr__(self, name: str) -> object:
        if name == "__all__":  # of `from returnn.frontend import *`
            return dir(self)
        found = self._find(name) if name[0] != "_" else None
        if found is None:
            raise self._missing(name)
        setattr(self, name, found)  # the next time, Python finds it itself
        return found

    def _find(self, name: str) -> object | None:
        if name in self._names:
            return getattr(sys.modules[self._home], self._names[name])
        return sys.modules.get(f"{self.__name__}.{name}")

    def _missing(self, name: str) -> AttributeError:
        if self._names is ALL and name in INSTEAD:
            return no_name(sys.modules[ROOT], name)
        return Missing(f"module {self.__name__!r} has no name or module {name!r} in {ROOT}", name, self)

    def __dir__(self) -> list[str]:
        below = (module.rpartition(".") for module in sys.modules)
        return [*self._names, *(name for parent, _, name in below if parent == self.__name__ and name[0] != "_")]


class FrontendModule(NamesOnly):
    """A module that gives all public names of `rf`, and those of the namespace of `rf` with the same path.

    path: below `prefix`, such as "encoder.conformer"; "" for the module `prefix` itself.
    """

    def __init__(self, prefix: str, path: str):
        super().__init__(".".join(filter(None, [prefix, path])), ALL)
        self._below = path.split(".") if path else []

    def _find(self, name: str) -> object | None:
        found = super()._find(name)
        if found is None and self._below and isinstance(namespace := self._namespace(), ModuleType):
            found = vars(namespace).get(name)
        return found

    def _namespace(self) -> object:
        place: object = sys.modules[ROOT]
        for part in self._below:
            place = getattr(place, part, None)
        return place


def register(modules: Iterable[ModuleType]) -> None:
    """Makes modules importable by their names."""
    sys.modules.update({module.__name__: module for module in modules})


def register_paths() -> None:
    """Makes the modules below `rf` importable."""
    register(FrontendModule(ROOT, path) for path in PATHS)
