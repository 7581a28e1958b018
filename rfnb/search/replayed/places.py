"""Which place of the beam a pruned candidate takes that is kept after all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """Which candidates the places of a beam are for.

    living: the first so many are for hypotheses that go on, the others for those that end by the label `end`; None if
    all compete. groups: the number of groups, each with its own part of the beam. of_parent: each hypothesis has its
    own, for its extensions. gold: the last one is that of the target. threshold: the worst ones may lose theirs.
    """

    living: int | None = None
    end: int | None = None
    groups: int = 1
    of_parent: bool = False
    gold: bool = False
    threshold: bool = False

    def last(self, size: int, step: int, label: int, parent: int, *, copy: bool) -> int:
        """The last place that a candidate may take. size: of the beam. copy: whether its parent had ended."""
        if self.living is not None and label != self.end and not copy:
            return self.living - 1
        if self.groups > 1:
            width = size // self.groups
            return parent // width * width + width - 1
        if self.of_parent and step:
            return parent
        return max(size - 2, 0) if self.gold else size - 1
