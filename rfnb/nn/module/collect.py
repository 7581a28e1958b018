"""Outputs of inner layers, of which only some are kept."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any


class CollectOutputsDict(dict[str, Any]):
    """A dict for `collected_outputs` that keeps only the entries whose key matches a pattern, such as "1" or "*.5".

    >>> model, time = rf.Dim(4, name="model"), rf.Dim(3, name="time")
    >>> layers = rf.Sequential(*(rf.Linear(model, model) for _ in range(4)))
    >>> collected = rf.CollectOutputsDict(allowed_key_patterns=["0", "[23]"])
    >>> _ = layers(rf.zeros([time, model]), collected_outputs=collected)
    >>> list(collected), collected.is_key_allowed("1")
    (['0', '2', '3'], False)

    allowed_key_patterns: as in file names, with `*`, `?` and `[…]`; None: all keys.
    """

    def __init__(self, *args: Any, allowed_key_patterns: Sequence[str] | None = None, **kwargs: Any):
        super().__init__()
        self.allowed_key_patterns = allowed_key_patterns
        self.update(*args, **kwargs)

    def is_key_allowed(self, key: str) -> bool:
        """Whether an entry with this key is kept."""
        patterns = self.allowed_key_patterns
        return patterns is None or any(fnmatchcase(key, pattern) for pattern in patterns)

    def __setitem__(self, key: str, value: Any) -> None:
        if self.is_key_allowed(key):
            super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets each entry whose key matches."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Sets an entry that is not there, if its key matches, and returns the value or `default`."""
        if key not in self:
            self[key] = default
        return self.get(key, default)
