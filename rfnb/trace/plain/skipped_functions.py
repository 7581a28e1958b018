"""Functions that ran a loop while loops of other files were recorded, and that may be recorded as well."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from types import CodeType, ModuleType

from rfnb.trace.plain.syntax import may_loop, outline

MOST = 20
"""Largest number of functions that are listed."""

LISTED: dict[str, str] = {}
"""The files of all functions that were listed, by "module:function"."""

ADDED: set[str] = set()
"""The files whose loops are recorded along with those of any function that is named."""


class OtherFunctions:
    """Functions that are called while the loops of some files are recorded.

    Args:
        files: those that are recorded.
    """

    def __init__(self, files: frozenset[str]):
        self._files = files
        self._called: dict[CodeType, None] = {}

    def add(self, code: CodeType) -> bool:
        """Notes a function that is called, unless its file was added by the user; returns whether it was noted."""
        if code.co_filename in ADDED:
            return False
        self._called[code] = None
        return True

    def with_loops(self) -> list[str]:
        """Those of the same packages that have a loop, as "module:function": near modules first, in order of calls."""
        called, self._called = self._called, {}
        modules = _modules(len(sys.modules)) if self._files else {}
        named = [modules[file].split(".") for file in self._files if file in modules]
        shared: dict[CodeType, int] = {}
        for code in called:
            if may_loop(code) and "<" not in code.co_qualname:
                parts = modules.get(code.co_filename, "").split(".")
                shared[code] = max((_shared(parts, other) for other in named), default=0)
        files: dict[str, str] = {}
        for code in sorted(filter(shared.get, shared), key=lambda code: -shared[code]):
            if len(files) < MOST and outline(code) is not None:  # a comprehension jumps back too
                files[f"{modules[code.co_filename]}:{code.co_qualname}"] = code.co_filename
        LISTED.update(files)
        return [*files]


def add_file_of(function: str) -> None:
    """From now on, the loops in the file of a function that was listed are recorded as well."""
    ADDED.add(LISTED[function])


def is_added(function: str) -> bool:
    """Whether the loops in the file of a function that was listed are recorded as well."""
    return LISTED[function] in ADDED


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    """How many parts two names of modules have in common, from the first on."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))])


@lru_cache(maxsize=1)
def _modules(count: int) -> Mapping[str, str]:
    """The names of modules by their files, as long as so many are imported."""
    return {file: name for name, module in [*sys.modules.items()] if (file := _file_of(module)) is not None}


def _file_of(module: object) -> str | None:
    return vars(module).get("__file__") if isinstance(module, ModuleType) else None
