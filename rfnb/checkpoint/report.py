"""What became of the entries of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoadReport:
    """Names of parameters: loaded, not in the file, and in the file only."""

    path: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether file and module had the same parameters."""
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        rest = {"missing": self.missing, "unexpected": self.unexpected}
        lines = [f"  {what:<10} {', '.join(names)}" for what, names in rest.items() if names]
        return "\n".join([f"{len(self.loaded)} parameters loaded from {self.path}", *lines])
