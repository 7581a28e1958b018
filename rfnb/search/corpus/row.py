"""What a report says of one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rfnb.search.corpus.edit_distance import edit_distances, repetitions
from rfnb.search.explain.reference import Reference, references_of
from rfnb.search.explain.where import Where, content
from rfnb.search.tree import Tree


@dataclass(frozen=True, eq=False)
class Row:
    """One sequence of a report.

    Args:
        where: where the reference is in the beam, and the verdict.
        reference: the reference that the output is nearest to, if there are several.
        output: the text of the best hypothesis; None if no hypothesis is left.
        errors: how many labels of the output are wrong. oracle_errors: of the hypothesis that is nearest to a
            reference; oracle_rank: its rank.
        left: how many hypotheses were left. distinct: how many texts they have; white space does not count.
        repetitions: how often three labels in a row occur again in the output.
    """

    where: Where
    reference: Reference
    output: str | None
    errors: int
    oracle_errors: int
    oracle_rank: int | None
    left: int
    distinct: int
    repetitions: int

    @property
    def name(self) -> str:
        """The name of the sequence."""
        return self.where.tree.name

    @property
    def verdict(self) -> str:
        """The class of the output: "correct", "search error", …"""
        return self.where.verdict

    @property
    def length(self) -> int:
        """The number of labels of the reference."""
        return len(self.reference.labels)

    @property
    def needed(self) -> int | None:
        """The size of the beam that would have kept the reference where it fell out, if it was recorded."""
        fall = self.where.fall
        return fall.rank if fall is not None and fall.candidate is not None else None

    def table_row(self) -> dict[str, Any]:
        """The row as plain values."""
        fall = self.where.fall
        names = "name verdict output errors length oracle_errors oracle_rank left distinct repetitions".split()
        row = {name: getattr(self, name) for name in names}
        row["reference"] = self.reference.text
        row["fell out at"], row["beam needed"] = fall.step if fall else None, self.needed
        row["score"] = self.where.output.score if self.where.output else None
        return row | {"reference score": self.where.score}


def row_of(tree: Tree, given: Any, forced: Any) -> Row:
    """The row of a sequence. given: its references; forced: their scores, or None."""
    references = references_of(given, tree)
    hypotheses = [content(item, tree) for item in tree.hypotheses]
    by_reference = [edit_distances(item.labels, hypotheses or [()]) for item in references]
    nearest = min(range(len(references)), key=lambda i: by_reference[i][0])
    best = [min(distances) for distances in zip(*by_reference, strict=True)]
    oracle = min(range(len(best)), key=lambda i: best[i])
    return Row(
        where=tree.where(given, forced),
        reference=references[nearest],
        output=tree.best.text if tree.best else None,
        errors=best[0],
        oracle_errors=best[oracle],
        oracle_rank=oracle + 1 if hypotheses else None,
        left=len(hypotheses),
        distinct=len({" ".join(item.text.split()) for item in tree.hypotheses}),
        repetitions=repetitions(hypotheses[0]) if hypotheses else 0,
    )
