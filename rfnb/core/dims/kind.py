"""The kinds of dims: what a dim counts."""

from __future__ import annotations

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import ParameterError


class Types:
    """The kinds of dims: what a dim counts."""

    Unspecified = None
    Batch = "batch"
    Spatial = "spatial"
    Time = "spatial"
    Feature = "feature"


KINDS = ("batch", "spatial", "feature")


def check_kind(kind: str | None) -> None:
    """Raises ParameterError for a kind that does not exist."""
    if kind is not None and kind not in KINDS:
        raise ParameterError(
            "Dim: unknown `kind`",
            got=repr(kind),
            expected=f"None or {' or '.join(map(repr, KINDS))}",
            hint=did_you_mean(kind, KINDS),
        )
