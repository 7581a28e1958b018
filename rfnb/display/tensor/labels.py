"""Labels of a sparse tensor, sequence by sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from rfnb.display.kit import options
from rfnb.display.kit.data import Data, thin_mask, thinned, to_numpy
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.tensor.schema import BadView, LabelCount
from rfnb.display.tensor.stats import place_of

QUOTED = frozenset({"", " ", "\n", "\t"})


class Labels(TypedDict):
    """Labels and ids of the first sequences, and how often each label occurs in all of them."""

    labels: list[list[str]]
    label_ids: list[list[int]]
    label_counts: list[LabelCount]


def describe_labels(data: Data) -> tuple[Labels, str | None]:
    """The labels of the first sequences, and a note on what was left out."""
    sequences = data.sequence_axis()
    count = 1 if sequences is None else data.axes[sequences].size
    samples = (
        [data] if sequences is None else [data.pick(sequences, i) for i in range(min(count, options.LABEL_SEQUENCES))]
    )
    ids = [[int(number) for number in _first(sample, options.LABEL_TOKENS)] for sample in samples]
    vocab = data.sparse.vocab if data.sparse is not None else None
    counts, sampled = _counts(data, vocab)
    labels: Labels = {
        "labels": [[label_of(number, vocab) for number in row] for row in ids],
        "label_ids": ids,
        "label_counts": counts,
    }
    return labels, _left_out(len(samples), count, max((sample.entries for sample in samples), default=0), sampled)


def describe_unknown(data: Data) -> BadView | None:
    """Ids outside of the sparse dim; None if there are none."""
    size = _labels_of(data)
    if size is None or not data.entries:
        return None
    near = data.device in ("cpu", "None")  # then all are looked at where they are
    where = thinned(data.shape, options.FINITE_ENTRIES if near else options.SAMPLE_ENTRIES)
    values, mask = to_numpy(data.raw[where]), thin_mask(data.mask(), where)
    wrong = ((values < 0) | (values >= size)) & (True if mask is None else mask)
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), values.shape)
    first = [int(i) * (cut.step or 1) for i, cut in zip(at, where, strict=True)]
    place = f"{place_of(data, tuple(first))}: {int(values[at])}"
    return {"word": "unknown", "count": int(wrong.sum()), "first": place}


def tokens(data: Data, most: int = options.LABEL_TOKENS) -> list[str]:
    """The labels of one sequence, in order."""
    vocab = data.sparse.vocab if data.sparse is not None else None
    return [label_of(int(number), vocab) for number in _first(data, most)]


def label_of(number: int, vocab: object | None) -> str:
    """The label of a number; "⟨17?⟩" if it has none."""
    if vocab is None or not 0 <= number < len(vocab):  # type: ignore[arg-type]
        return f"⟨{number}?⟩"
    return str(vocab.decode(number))  # type: ignore[attr-defined]


def labels_text(labels: Sequence[Sequence[str]], tags: Sequence[str] | None) -> list[str]:
    """One line per sequence."""
    names = [f"{tag}: " for tag in tags] if tags is not None else [f"{i}: " for i in range(len(labels))]
    if len(labels) == 1 and tags is None:
        names = [""]
    return [name + line(row) for name, row in zip(names, labels, strict=False)]


def line(labels: Sequence[str]) -> str:
    """The labels of one sequence, separated by spaces; a word for an empty sequence."""
    return " ".join(shown(label) for label in labels) or "(empty)"


def shown(label: str) -> str:
    """The label; in quotes if it would be invisible."""
    return repr(label) if label in QUOTED or not label.isprintable() else label


def counts_text(counts: Sequence[LabelCount]) -> str:
    """`most frequent: a 12, b 7`"""
    return "most frequent: " + ", ".join(f"{shown(count['label'])} {count['count']:,}" for count in counts)


def labels_html(
    labels: Sequence[Sequence[str]], ids: Sequence[Sequence[int]], tags: Sequence[str] | None, unknown: bool
) -> Html:
    """One row per sequence, one box per token with its id as a tooltip; marked if it has no label."""
    heads = list(tags) if tags is not None else [str(i) for i in range(len(labels))]
    box = f"{style.BORDER};border-radius:3px;padding:0 4px"
    token = f"display:inline-block;{box};margin:1px 2px 1px 0;white-space:pre"
    wrong = token.replace(style.tint(style.GREY, 0.35), style.ALARM)

    def boxed(label: str, number: int) -> Html:
        odd = unknown and label == label_of(number, None)
        return el("span", shown(label), title=number, style=wrong if odd else token)

    cells = [list(map(boxed, *row)) or "(empty)" for row in zip(labels, ids, strict=True)]
    rows = [
        [el("td", head, style=style.LABEL_CELL), el("td", cell, style=style.LEFT_CELL)]
        for head, cell in zip(heads, cells, strict=False)
    ]
    return el("table", [el("tr", row, style=style.PLAIN_ROW) for row in rows], style=style.TABLE)


def _first(data: Data, most: int) -> np.ndarray:
    if len(data.axes) == 1:
        return to_numpy(data.raw[:most])
    values = to_numpy(data.raw)
    mask = data.mask()
    if mask is not None:
        values = values[np.broadcast_to(mask, values.shape)]
    return values.reshape(-1)[:most]


def _labels_of(data: Data) -> int | None:
    """Number of labels in the vocab."""
    if data.sparse is None:
        return None
    return len(data.sparse.vocab) if data.sparse.vocab is not None else data.sparse.dimension


def _counts(data: Data, vocab: object | None) -> tuple[list[LabelCount], str | None]:
    """The most frequent labels, and a note if not all were counted."""
    where = thinned(data.shape, options.SAMPLE_ENTRIES)
    values, mask = to_numpy(data.raw[where]), thin_mask(data.mask(), where)
    sampled = f"counted in {values.size:,} of {data.entries:,}" if values.size < data.entries else None
    values = values.reshape(-1) if mask is None else values[np.broadcast_to(mask, values.shape)]
    size = 0 if vocab is None else len(vocab)  # type: ignore[arg-type]
    in_vocab = (values >= 0) & (values < size)
    ids, counts = np.unique(values[~in_vocab], return_counts=True)  # slow, but few
    totals = np.bincount(values[in_vocab].astype(np.int64))
    ids, counts = np.append(np.nonzero(totals)[0], ids), np.append(totals[totals > 0], counts)
    order = np.lexsort((ids, -counts))[: options.LABEL_COUNTS]
    return [{"label": label_of(int(ids[i]), vocab), "id": int(ids[i]), "count": int(counts[i])} for i in order], sampled


def _left_out(shown: int, of: int, longest: int, sampled: str | None) -> str | None:
    parts = []
    if shown < of:
        parts.append(f"the first {shown} of {of} sequences")
    if longest > options.LABEL_TOKENS:
        parts.append(f"the first {options.LABEL_TOKENS} tokens of each")
    if sampled:
        parts.append(sampled)
    return "labels: " + ", ".join(parts) if parts else None
