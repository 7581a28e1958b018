"""The two ways to read a parameter from a checkpoint, as it is or converted from weights of torch, and which is right.

The weight of a Linear is {in, out} in rfnb and {out, in} in torch. If it is square, its shape does not say which one
was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rfnb.checkpoint.foreign.tables.row import TableRow
from rfnb.checkpoint.stored import Layout, StoredEntry
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError


@dataclass(frozen=True)
class Reading:
    """The entry with the name of a parameter, and the row of a table that makes the parameter of other entries.

    Args:
        own: the entry of that name, if there is one.
        row: the row, if all its sources exist.
        sources: the entries that the row needs.
        layout: the layout of the sources; None if it is not known.
        required: whether the row is used in any case.
        own_fits: whether the shape and the dtype of `own` are those of the parameter.
        row_fits: whether those of the row's result are.
        only_here: whether torch has another name for the parameter.
    """

    name: str
    own: StoredEntry | None
    row: TableRow | None = None
    sources: tuple[StoredEntry, ...] = ()
    layout: Layout | None = None
    required: bool = False
    own_fits: bool = False
    row_fits: bool = False
    only_here: bool = False

    @property
    def twofold(self) -> bool:
        """Whether the names allow both ways, and these differ."""
        if self.row is None or self.own is None or self.required or self.layout in ("rfnb", "as it is"):
            return False
        return self.sources != (self.own,) or self.row.transform != "same"

    @property
    def converts(self) -> bool | None:
        """Whether the row is used; None if names and shapes allow both ways."""
        if self.twofold:
            if self.own_fits == self.row_fits:
                return None if self.own_fits else self.layout == "torch"
            return self.row_fits
        return self.required or (self.row is not None and self.own is None and self.layout in (None, "torch"))


def converted_names(
    readings: Sequence[Reading], chosen: Callable[[str], bool], *, importing: bool, certain: bool
) -> set[str]:
    """The names of the parameters that are converted.

    Where names and shapes allow both ways, the shapes of other weights decide, then the layout that is known, then the
    names of other parameters. Raises CheckpointError if these say nothing, or contradict each other.

    importing: whether entries without a known layout are weights of torch. certain: whether all are, also against the
    shapes of others.
    """
    by_shape = {reading.row_fits for reading in readings if reading.twofold and reading.own_fits != reading.row_fits}
    by_name = {reading.own is None for reading in readings if reading.only_here or _has_name_of_torch(reading)}

    def converts(reading: Reading) -> bool:
        if reading.converts is not None:
            return reading.converts
        evidence = by_shape or by_name
        if certain or (importing and not by_shape):
            evidence = {True}
        elif reading.layout == "torch" and not by_shape:
            evidence = {True, *(by_name if by_name == {False} else ())}
        if len(evidence) != 1 and chosen(reading.name):
            raise _unclear(reading, importing)
        return evidence == {True}

    return {reading.name for reading in readings if converts(reading)}


def _has_name_of_torch(reading: Reading) -> bool:
    return reading.own is None and bool(reading.converts) and not reading.required


def _unclear(reading: Reading, importing: bool) -> CheckpointError:
    shapes = " and ".join(str(entry.shape) for entry in reading.sources)
    as_it_is = f'table=[("{reading.name}", ("{reading.name}",), "same")]' if importing else 'rf.load(…, layout="rfnb")'
    turned = '"transposed"' if importing else 'layout="torch", or rf.import_weights(…),'
    return CheckpointError(
        f"{public_function()}: the layout of {reading.name} is not known",
        got=f"shape {shapes}, which fits as it is and turned",
        expected="{in, out}, as rfnb stores it, or {out, in}, as torch does",
        hint=f"{as_it_is} takes it as it is, {turned} turns it",
    )
