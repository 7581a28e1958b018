"""A vocabulary: what the entries of a sparse tensor are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rfnb.errors import DimError


class Vocab:
    """Labels by number, and numbers by label.

    >>> phones = Vocab(["</s>", "AH", "K"])
    >>> phones.encode(["K", "AH"]), phones.decode(2)
    ([2, 1], 'K')
    """

    def __init__(self, labels: Iterable[str]):
        self.labels = tuple(labels)
        self._numbers = {label: number for number, label in enumerate(self.labels)}

    def __len__(self) -> int:
        return len(self.labels)

    def decode(self, number: int) -> str:
        """The label of `number`; "⟨17?⟩" for a number that has none."""
        return self.labels[number] if 0 <= number < len(self.labels) else f"⟨{number}?⟩"

    def encode(self, labels: Iterable[str]) -> list[int]:
        """The numbers of `labels`; a string is read letter by letter."""
        try:
            return [self._numbers[label] for label in labels]
        except KeyError as error:
            raise DimError(
                "Vocab.encode: unknown label", got=repr(error.args[0]), expected=_some(self.labels)
            ) from None


class _DecoderVocab(Vocab):
    """Labels asked from an object with `decode`, such as a tokenizer, when somebody looks."""

    def __init__(self, decoder: Any):
        super().__init__(())
        self._decoder = decoder

    def __len__(self) -> int:
        size = getattr(self._decoder, "vocab_size", None)
        return int(size if size is not None else len(self._decoder))

    def decode(self, number: int) -> str:
        return str(self._decoder.decode([number]))

    def encode(self, labels: Iterable[str]) -> list[int]:
        return list(self._decoder.encode(labels))


def vocab_of(source: Vocab | Sequence[str] | str | Path | object | None) -> Vocab | None:
    """A Vocab from a list of labels, a file with a label per line, or an object with `decode`."""
    if source is None or isinstance(source, Vocab):
        return source
    if isinstance(source, str | Path):
        return Vocab(Path(source).read_text(encoding="utf-8").splitlines())
    if hasattr(source, "decode"):
        return _DecoderVocab(source)
    if isinstance(source, Iterable):
        return Vocab(source)
    raise DimError("Dim: `vocab` has no labels", got=type(source).__name__, expected="labels, a file, or .decode")


def _some(labels: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return shown + (f", … ({len(labels)})" if len(labels) > 8 else "")
