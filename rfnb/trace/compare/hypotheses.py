"""The hypotheses that two searches have in common: compared are those with the same labels, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.compare.match import Sequences
from rfnb.trace.compare.part import MaskedPart

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.trace.run.run import Run


@dataclass(frozen=True)
class SameHypotheses:
    """Which hypotheses of two searches have the same labels.

    there: for each step, those before the first one included, and each place of the first run, the place in the second
    run, -1 if that has no such hypothesis. [1 + steps, sequences, beam of the first]. here: the same the other way.
    beams: how the beams of each sequence differ, with the first step at which they do.
    """

    a: Run
    b: Run
    there: np.ndarray
    here: np.ndarray
    beams: tuple[Any, ...]

    def matched(
        self, parts: tuple[MaskedPart, MaskedPart], values: Sequence[Any], steps: np.ndarray, *, is_state: bool
    ) -> tuple[MaskedPart, MaskedPart]:
        """Both parts by the hypotheses of the first run; those that only one run has do not count."""
        a, b = parts
        axes = [self._beam(run, part.dims) for run, part in zip((self.a, self.b), parts, strict=True)]
        labels = [self._beam(run, [x.sparse_dim] if isinstance(x, Tensor) else []) for run, x in self._of(values)]
        if axes[0] is not None and axes[1] is not None and axes[0][1] == axes[1][1]:
            rows = steps + 1 if is_state or axes[0][1] else steps
            b = self._moved(a, b, axes[1][0], self.there[rows])
        if labels[0] is not None and labels[1] is not None and labels[0][1] == labels[1][1]:
            b = self._renamed(b, self.here[steps + 1 if labels[0][1] else steps])
        return a, b

    def _of(self, values: Sequence[Any]) -> list[tuple[Run, Any]]:
        return list(zip((self.a, self.b), values, strict=True))

    @staticmethod
    def _beam(run: Run, dims: Sequence[Dim | None]) -> tuple[int, bool] | None:
        """The axis of the hypotheses before the choices of a step, or after them, and which of the two it is."""
        lineages = run.replay.lineages
        for axis, dim in enumerate(dims):
            if dim is not None and dim in (lineages[0].beam, lineages[-1].beam):
                return axis, dim is lineages[-1].beam
        return None

    def _moved(self, a: MaskedPart, b: MaskedPart, beam_b: int, places: np.ndarray) -> MaskedPart:
        owners = [
            part.dims.index(run.sequence_dim) if run.sequence_dim in part.dims else None
            for run, part in ((self.a, a), (self.b, b))
        ]
        if (owners[0] is None) != (owners[1] is None) or (owners[1] is None and places.shape[1] > 1):
            return b
        first = [axis for axis in (0, owners[1], beam_b) if axis is not None]
        axes = [axis for axis in range(len(b.dims)) if axis not in first]
        b = b.move([b.dims[axis] for axis in (*first, *axes)])
        places = places if owners[1] is not None else places[:, 0]
        index = places.reshape(*places.shape, *[1] * len(axes))
        moved = b.each(lambda x: np.take_along_axis(x, np.maximum(index, 0), axis=len(first) - 1), b.dims)
        return MaskedPart(moved.array, moved.frames, moved.live & (index >= 0), moved.dims)

    def _renamed(self, b: MaskedPart, places: np.ndarray) -> MaskedPart:
        """Places of the second run, which are the entries of a value, as those of the first one."""
        owner = b.dims.index(self.b.sequence_dim) if self.b.sequence_dim in b.dims else None
        if owner is None and places.shape[1] > 1:
            return b
        grid = np.ogrid[tuple(slice(size) for size in b.array.shape)]
        row = grid[owner] if owner is not None else 0
        entries = np.clip(b.array, 0, places.shape[2] - 1).astype(int)
        indices: np.ndarray = places[grid[0], row, entries]
        return MaskedPart(
            np.where(indices < 0, b.array, indices).astype(b.array.dtype), b.frames, b.live & (indices >= 0), b.dims
        )


def hypotheses_of(a: Run, b: Run, sequences: Sequences) -> SameHypotheses | None:
    """The common hypotheses of two runs; None if not both are searches, or their sequences are not those of one dim."""
    searches = a.found, b.found
    if searches[0] is None or searches[1] is None or not all(run.replay.lineages for run in (a, b)):
        return None
    for run in (a, b):
        dims = run.replay.lineages[0].dims
        if len(dims) > 1 or (dims and dims[0] is not run.sequence_dim):
            return None
    rows_a, rows_b = ([0] if rows is None else rows for rows in (sequences.a, sequences.b))
    pairs = list(zip(rows_a, rows_b, strict=True))
    places_b, places_a, beams = searches[0].same_hypotheses(searches[1], pairs)
    return SameHypotheses(a, b, places_b, places_a, beams)
