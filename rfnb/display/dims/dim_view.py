"""The view of a dim: its size or lengths, where it was made, and the labels of its entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.kit import options
from rfnb.display.kit.blocks import Block, Figure, Line, Page, Table, pill, quiet
from rfnb.display.kit.data import UNKNOWN, DimView, describe_dim, dim_word, origin
from rfnb.display.markup import style
from rfnb.display.tensor.entries import shown
from rfnb.display.tensor.view import bars_html

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


def describe(dim: Dim) -> Page:
    """A dim under its current lengths, with a bar for each, and the labels of its entries."""
    size, view = dim.lengths.size(dim), describe_dim(dim, dim.lengths)
    tags = [] if size is None or size.tags is None else list(size.tags[: options.TAGS])
    lengths = view["lengths"] or []
    named = ", ".join(f"{tags[i]}: {n}" if i < len(tags) else str(n) for i, n in enumerate(lengths))
    facts = [f"lengths {named}"] if view["lengths"] is not None else []
    blocks: list[Block] = [
        Line(quiet("Dim "), pill(view), look=style.HEAD),
        *(Line(fact, look=style.QUIET, indent=2) for fact in _facts(dim, view)),
    ]
    if 0 < len(lengths) <= options.BARS:
        blocks.append(Figure(bars_html(lengths, view, tags or None), [f"  {fact}" for fact in facts]))
    else:
        blocks += [Line(fact, look=style.QUIET, indent=2) for fact in facts]
    return Page("dim", dim.name, blocks, _table(view, tags), short=[Line(f"Dim{{{dim_word(view)}}}")])


def _table(dim: DimView, tags: list[str]) -> Table:
    """The length of each sequence; a single row for a static dim."""
    if dim["lengths"] is None:
        return Table(["dim", "size"], [[dim["name"], None if dim["size"] == UNKNOWN else dim["size"]]])
    rows = [[tags[i] if i < len(tags) else i, n] for i, n in enumerate(dim["lengths"])]
    return Table(["sequence", dim["name"]], rows)


def _facts(dim: Dim, view: DimView) -> Iterator[str]:
    if view["size"] == UNKNOWN:
        yield "no size yet: it comes with the data"
    if place := origin(view):
        yield place
    if (vocab := dim.vocab) is not None:
        labels = [str(vocab.decode(i)) for i in range(min(LABELS, len(vocab)))]
        tail = " …" if len(vocab) > LABELS else ""
        yield f"{count_of(len(vocab), 'label')}: {' '.join(map(shown, labels))}{tail}"


LABELS = 40
"""Labels of a vocab that are shown."""
