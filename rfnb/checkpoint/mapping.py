"""Which parameter of a module belongs to which entry of a checkpoint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rfnb.core.parameter import Parameter

_SHOWN = 12


class Stored(NamedTuple):
    """An entry of a checkpoint, not read yet."""

    shape: tuple[int, ...]
    dtype: str
    dims: str | None  # as they were when it was saved: "in:3, out:4"

    def __str__(self) -> str:
        return f"{{{self.dims}}}" if self.dims is not None else f"shape {self.shape}"


@dataclass(frozen=True)
class Match:
    """What fits, and what does not, by name."""

    fitting: dict[str, Parameter]
    missing: dict[str, Parameter]
    unexpected: dict[str, Stored]
    misshaped: dict[str, tuple[Parameter, Stored]]

    def complaints(self, *, strict: bool) -> list[str]:
        """A line for each entry that keeps the checkpoint from being loaded."""
        lines = [f"{name}: {described(p)} in the module, {s} in the file" for name, (p, s) in self.misshaped.items()]
        if strict:
            lines += [
                f"missing {name} {described(p)}{_near(name, self.unexpected)}" for name, p in self.missing.items()
            ]
            lines += [f"unexpected {name} {s}{_near(name, self.missing)}" for name, s in self.unexpected.items()]
        return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"… and {len(lines) - _SHOWN} more"]


def match(parameters: Mapping[str, Parameter], stored: Mapping[str, Stored]) -> Match:
    """Compares names and shapes."""
    both = [name for name in parameters if name in stored]
    wrong = {name for name in both if not _fits(parameters[name], stored[name])}
    return Match(
        fitting={name: parameters[name] for name in both if name not in wrong},
        missing={n: p for n, p in parameters.items() if n not in stored and not p.non_critical_for_restore},
        unexpected={name: entry for name, entry in stored.items() if name not in parameters},
        misshaped={name: (parameters[name], stored[name]) for name in both if name in wrong},
    )


def dims_of(parameter: Parameter) -> str:
    """ "in:3, out:4" """
    return ", ".join(f"{dim.name}:{dim.dimension}" for dim in parameter.dims)


def described(parameter: Parameter) -> str:
    """ "{in:3, out:4}" """
    return f"{{{dims_of(parameter)}}}"


def _fits(parameter: Parameter, stored: Stored) -> bool:
    shape = tuple(dim.dimension for dim in parameter.dims)
    return shape == stored.shape and _kind(parameter.dtype) == _kind(stored.dtype)


def _kind(dtype: str) -> str:
    """Floats of any size are of one kind, and so are integers."""
    return next((kind for kind in ("float", "uint", "int", "complex") if kind in dtype), dtype)


def _near(name: str, others: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, list(others), n=1, cutoff=0.5)
    return f" (is it {nearest[0]}?)" if nearest else ""
