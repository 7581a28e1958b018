"""Entries of a sparse tensor by the names they have in the vocab, sequence by sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.display import options, style
from rfnb.display.data import Data, to_numpy
from rfnb.display.html import Html, el

QUOTED = frozenset({"", " ", "\n", "\t"})


def describe_labels(data: Data) -> tuple[list[list[str]], list[str] | None, str | None]:
    """Labels of the first sequences, the tags of these, and what was left out."""
    sequences = data.sequence_axis()
    if sequences is None:
        return [tokens(data)], None, _left_out(1, 1, data.entries)
    count = data.axes[sequences].size
    shown = [data.pick(sequences, i) for i in range(min(count, options.LABEL_SEQUENCES))]
    tags = data.axes[sequences].tags
    longest = max((one.entries for one in shown), default=0)
    return (
        [tokens(one) for one in shown],
        None if tags is None else list(tags[: len(shown)]),
        _left_out(len(shown), count, longest),
    )


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
    """A line a sequence."""
    names = [f"{tag}: " for tag in tags] if tags is not None else [f"{i}: " for i in range(len(labels))]
    if len(labels) == 1 and tags is None:
        names = [""]
    return [name + line(row) for name, row in zip(names, labels, strict=False)]


def line(labels: Sequence[str]) -> str:
    """The labels of one sequence with spaces between them; an empty sequence says so."""
    return " ".join(shown(label) for label in labels) or "(empty)"


def shown(label: str) -> str:
    """The label; quoted if it would not be seen."""
    return repr(label) if label in QUOTED or not label.isprintable() else label


def labels_html(labels: Sequence[Sequence[str]], tags: Sequence[str] | None) -> Html:
    """A row a sequence, a box a token."""
    heads = list(tags) if tags is not None else [str(i) for i in range(len(labels))]
    box = f"border:1px solid {style.tint(style.GREY, 0.35)};border-radius:3px;padding:0 4px"
    token = f"display:inline-block;{box};margin:1px 2px 1px 0;white-space:pre"
    wrong = token.replace(style.tint(style.GREY, 0.35), style.ALARM)
    return el(
        "table",
        [
            el(
                "tr",
                el("td", head, style=style.LABEL_CELL),
                el(
                    "td",
                    [el("span", shown(t), style=wrong if t.startswith("⟨") else token) for t in row] or "(empty)",
                    style=style.LEFT_CELL,
                ),
                style=style.PLAIN_ROW,
            )
            for head, row in zip(heads, labels, strict=False)
        ],
        style=style.TABLE,
    )


def _first(data: Data, most: int) -> np.ndarray:
    if len(data.axes) == 1:
        return to_numpy(data.raw[:most])
    values = to_numpy(data.raw)
    mask = data.mask()
    if mask is not None:
        values = values[np.broadcast_to(mask, values.shape)]
    return values.reshape(-1)[:most]


def _left_out(shown: int, of: int, longest: int) -> str | None:
    parts = []
    if shown < of:
        parts.append(f"the first {shown} of {of} sequences")
    if longest > options.LABEL_TOKENS:
        parts.append(f"the first {options.LABEL_TOKENS} tokens of each")
    return "labels: " + ", ".join(parts) if parts else None
