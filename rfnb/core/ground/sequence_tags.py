"""The names of sequences, where somebody chooses one."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import DimError, RfError


def number_of(
    tag: str, tags: Sequence[str] | None, what: str, error: type[RfError] = DimError, hint: str | None = None
) -> int:
    """The number of the sequence that is called `tag`. Raises `error`, with the nearest tags, if there is none."""
    if not tags:
        raise error(
            f"{what}: no sequence with this tag",
            got=repr(tag),
            expected="a number, as the batch has no tags",
            hint=hint or "rf.convert_to_tensor(…, tags=[…]), or rf.collate(…, tag=…)",
        )
    if tag not in tags:
        known = ", ".join(map(repr, tags[:8])) + (f", … ({len(tags)})" if len(tags) > 8 else "")
        hint = did_you_mean(tag, tags, most=3)
        raise error(f"{what}: no sequence with this tag", got=repr(tag), expected=known, hint=hint)
    return list(tags).index(tag)
