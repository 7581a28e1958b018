"""The report of what was loaded from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rfnb.core.ground.show import Shown


class ValueOrigin(NamedTuple):
    """Where the value of a parameter came from. conversion: empty if it was taken as it is. before, after: norms."""

    name: str
    sources: tuple[str, ...]
    conversion: str = ""
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True, repr=False)
class LoadReport(Shown):
    """The names of the parameters that were loaded, missing in the file, unexpected in the file, or skipped by choice.

    renamed: from the name in the module to that in the file, where they differ.
    settings: other values that were set, such as the eps of norms whose weights were imported.
    training: the plain values that were saved beside the parameters: `report.training["step"]`.
    apart: entries of optimizers, steps, and kinds of values that are not read.
    origins: of each parameter that was converted, and of all of a network, the entries it came from and the conversion;
        for a network also its norm before and after.
    notes: what a conversion changes in results, and the option for it.

    >>> dims = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> report = rf.load(rf.save(rf.Linear(*dims), folder / "linear.safetensors"), rf.Linear(*dims))
    >>> report.loaded, report.complete, report.missing
    (('weight', 'bias'), True, ())
    """

    path: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    origins: tuple[ValueOrigin, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the file and the module have the same parameters, and all were loaded."""
        return not self.missing and not self.unexpected and not self.skipped

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """The groups of names that views list beside the number of loaded parameters: a title, and the names."""
        yield "missing", list(self.missing)
        yield "unexpected", list(self.unexpected)
        yield "skipped", list(self.skipped)
        yield "note", list(self.notes)
        converted = {origin.name: origin for origin in self.origins if origin.conversion}
        yield "converted", [f"{', '.join(o.sources)} → {o.name}: {o.conversion}" for o in converted.values()]
        yield "renamed", [f"{key} → {name}" for name, key in self.renamed.items() if name not in converted]
        yield "set", list(self.settings)
        yield "training", list(self.training)
        yield "apart", list(self.apart)
