"""Refuses a search whose hypotheses have scores that are NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.errors import SearchError

if TYPE_CHECKING:
    from rfnb.loop.steps.beams import FirstNan


def check_kept(
    what: str, scores: np.ndarray, sizes: Sequence[int], names: Sequence[str], tags: Any, first_nan: FirstNan | None
) -> None:
    """Raises SearchError if the score of a hypothesis that got a place is NaN.

    Args:
        scores: of the hypotheses after each step. [steps, batch, beam]
        sizes, names: of the dims of the batch. tags: the names of the sequences, if they are known.
        first_nan: finds the op that made the NaN, if the steps are recorded.
    """
    if not np.isnan(scores).any():
        return
    step, row, place = (int(at) for at in np.argwhere(np.isnan(scores))[0])
    at = tuple(map(int, np.unravel_index(row, sizes))) if sizes else ()
    sequence = ", ".join(f"{name} {number}" for name, number in zip(names, at, strict=True)) or "the only one"
    tag = f" ({str(tags[row])!r})" if tags is not None else ""
    origin = None if first_nan is None else first_nan(step, at, place)
    record = what == "choice" and first_nan is None
    raise SearchError(
        f"{what}: the score of a hypothesis is NaN after step {step}",
        got=f"sequence: {sequence}{tag}; hypothesis {place}, by its place in the beam"
        + ("" if origin is None else f"\nfirst made by {origin}"),
        hint="rf.Loop(…, debug=True) records the steps; this error then names the op" if record else None,
    )
