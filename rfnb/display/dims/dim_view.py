"""The view of a dim: its size or lengths, where it was made, the labels of its entries; and the JSON of dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from rfnb.core.ground.text import count_of
from rfnb.display.kit import options
from rfnb.display.kit.dims import describe_dim, dim_pill, dim_word, origin
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, quiet
from rfnb.display.markup.html import Html, el
from rfnb.display.tensor.entries import shown
from rfnb.display.tensor.view import bars_html

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


class DimPage(TypedDict):
    """A dim with the labels of its entries."""

    kind: Literal["dim"]
    dim: DimView
    tags: list[str] | None
    vocab: list[str] | None  # the first 40 labels
    vocab_size: int | None
    note: str | None  # why there is no size, then `dim.size` is 0


class DimRow(TypedDict):
    """A row of a table of dims."""

    dim: DimView
    name: str  # "time¹" if another one in the table has the same name
    known: bool  # whether it has a size now
    role: str  # "dynamic batch", "static feature"
    text: str | None  # the expression that made it
    tensors: list[str]  # the names of the first few
    tensor_count: int
    parameters: list[str]
    parameter_count: int
    modules: list[str]
    module_count: int
    same_as: list[str]  # those that were declared to have the same size
    conflicts: list[str]
    notes: list[str]  # quieter: "has the size of hidden in w"


class DimTableView(TypedDict):
    """Dims and the objects that have them, conflicts first."""

    kind: Literal["dims"]
    name: str
    rows: list[DimRow]
    note: str | None


def describe(dim: Dim) -> DimPage:
    """The JSON of a dim under its current lengths."""
    size = dim.lengths.size(dim)
    vocab = dim.vocab
    return {
        "kind": "dim",
        "dim": describe_dim(dim, dim.lengths),
        "tags": None if size is None or size.tags is None else list(size.tags[: options.TAGS]),
        "vocab": None if vocab is None else [str(vocab.decode(i)) for i in range(min(40, len(vocab)))],
        "vocab_size": None if vocab is None else len(vocab),
        "note": "no size yet: it comes with the data" if size is None else None,
    }


def to_text(page: DimPage) -> str:
    """One line, then lengths and labels."""
    return "\n".join([f"Dim {_word(page)}", *(f"  {line}" for line in [*_facts(page), *_lengths(page)])])


def to_repr(page: DimPage) -> str:
    """The dim in one line."""
    return f"Dim{{{_word(page)}}}"


def to_html(page: DimPage) -> Html:
    """The dim in the colour that it has in all views, with a bar for each length."""
    lengths = page["dim"]["lengths"] or []
    has_bars = 0 < len(lengths) <= options.BARS
    return el(
        "div",
        el("div", quiet("Dim "), dim_pill(page["dim"]), style=style.HEAD),
        [quiet(fact, tag="div") for fact in [*_facts(page), *([] if has_bars else _lengths(page))]],
        bars_html(lengths, page["dim"], page["tags"]) if has_bars else None,
        style=style.BOX,
    )


def _word(page: DimPage) -> str:
    return f"{page['dim']['name']}:?" if page["note"] else dim_word(page["dim"])


def to_table(page: DimPage) -> Table:
    """The length of each sequence; a single row for a static dim."""
    dim, tags = page["dim"], page["tags"] or []
    if dim["lengths"] is None:
        return Table(["dim", "size"], [[dim["name"], None if page["note"] else dim["size"]]])
    rows = [[tags[i] if i < len(tags) else i, n] for i, n in enumerate(dim["lengths"])]
    return Table(["sequence", dim["name"]], rows)


def _facts(page: DimPage) -> list[str]:
    dim, facts = page["dim"], []
    if page["note"]:
        facts.append(page["note"])
    if origin(dim):
        facts.append(str(origin(dim)))
    if page["vocab"] is not None:
        tail = " …" if len(page["vocab"]) < (page["vocab_size"] or 0) else ""
        facts.append(f"{count_of(page['vocab_size'] or 0, 'label')}: {' '.join(shown(v) for v in page['vocab'])}{tail}")
    return facts


def _lengths(page: DimPage) -> list[str]:
    lengths, tags = page["dim"]["lengths"], page["tags"] or []
    if lengths is None:
        return []
    named = [f"{tags[i]}: {n}" if i < len(tags) else str(n) for i, n in enumerate(lengths)]
    return ["lengths " + ", ".join(named)]
