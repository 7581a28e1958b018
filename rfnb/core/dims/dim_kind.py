"""What a dim counts: sequences, frames or features."""

from __future__ import annotations

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import ParameterError

KINDS = ("batch", "spatial", "feature")
BATCH = ("batch", "b")
FEATURE = ("feature", "features", "feat", "channel", "channels", "f", "c")


def kind_of_name(name: str | None) -> str | None:
    """What an axis counts that has no more than a name: `"batch"`, `"feature"`, or None."""
    word = (name or "").lower()
    return "batch" if word in BATCH else "feature" if word in FEATURE else None


def check_words(name: object, description: object, kind: object) -> None:
    """Raises ParameterError for names that are not strings, and for a kind that does not exist."""
    for word in (name, description, kind):
        if word is not None and not isinstance(word, str):
            raise ParameterError(
                "Dim: the name or the kind is not a string", got=type(word).__name__, expected='rf.Dim(4, name="feat")'
            )
    if kind is not None and kind not in KINDS:
        raise ParameterError(
            "Dim: unknown `kind`",
            got=repr(kind),
            expected=f"None or {' or '.join(map(repr, KINDS))}",
            hint=did_you_mean(str(kind), KINDS),
        )


class Kinds:
    """The part of Dim that says what it counts."""

    kind: str | None

    class Types:
        """The kinds of dims: what a dim counts."""

        Unspecified = None
        Batch = "batch"
        Spatial = "spatial"
        Time = "spatial"
        Feature = "feature"

    def is_batch_dim(self) -> bool:
        """Whether this dim counts sequences.

        >>> rf.batch_dim.is_batch_dim(), rf.Dim(None, name="time").is_batch_dim()
        (True, False)
        """
        return self.kind == "batch"

    def is_spatial_dim(self) -> bool:
        """Whether this dim counts frames or other positions.

        >>> rf.Dim(None, name="time", kind=rf.Dim.Types.Spatial).is_spatial_dim(), rf.batch_dim.is_spatial_dim()
        (True, False)
        """
        return self.kind == "spatial"

    def is_feature_dim(self) -> bool:
        """Whether this dim counts features.

        >>> rf.Dim(3, name="feat", kind=rf.Dim.Types.Feature).is_feature_dim(), rf.Dim(3, name="feat").is_feature_dim()
        (True, False)
        """
        return self.kind == "feature"
