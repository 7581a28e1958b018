"""The tree of the hypotheses of one sequence."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.search.trace import Trace


@dataclass(frozen=True, eq=False)
class Tree:
    """All hypotheses that a search kept for one sequence; a node is a (step, place in the beam).

    trace: the search. sequence: the position of the sequence in the batch.
    """

    trace: Trace
    sequence: int
