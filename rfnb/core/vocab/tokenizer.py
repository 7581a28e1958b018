"""One interface to tokenizers of other libraries: labels by number, numbers by label, text to numbers and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.errors import DimError

_LABEL = ("convert_ids_to_tokens", "id_to_token", "id_to_piece")
_NUMBER = ("convert_tokens_to_ids", "token_to_id", "piece_to_id")
_SIZE = ("__len__", "get_vocab_size", "get_piece_size", "vocab_size", "piece_size")


def is_tokenizer(source: Any) -> bool:
    """Whether this is a tokenizer: of Hugging Face, `tokenizers`, sentencepiece, or anything with `decode`."""
    return not isinstance(source, str | bytes) and any(hasattr(source, name) for name in (*_LABEL, "decode"))


class Tokenizer:
    """A tokenizer, whose methods are found by the names that the known libraries use."""

    def __init__(self, source: Any):
        self.source = source
        self._label = _method(source, _LABEL)
        self._number = _method(source, _NUMBER)

    def __len__(self) -> int:
        for name in _SIZE:
            size = getattr(self.source, name, None)
            if size is not None:
                return int(size() if callable(size) else size)
        raise DimError("Vocab: the size of the tokenizer is unknown", expected=f"a tokenizer with {' or '.join(_SIZE)}")

    @property
    def size_of_model(self) -> int:
        """The size without tokens that were added later, which the embedding of a model may lack."""
        size = getattr(self.source, "vocab_size", None)
        return len(self) if size is None or callable(size) else int(size)

    def label(self, number: int) -> str:
        """The label of a number."""
        label = self._label(number) if self._label is not None else self.source.decode([number])
        return f"⟨{number}?⟩" if label is None else str(label)

    def number(self, label: str) -> int | None:
        """The number of a label; None if the label is unknown."""
        number = self._number(label) if self._number is not None else None
        return None if number is None or self.label(number) != label else int(number)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without special tokens for its beginning or end."""
        try:
            numbers = self.source.encode(text, add_special_tokens=False)
        except TypeError:  # sentencepiece adds none and has no such option
            numbers = self.source.encode(text)
        return [int(n) for n in getattr(numbers, "ids", numbers)]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of a sequence of numbers."""
        return str(self.source.decode(list(numbers)))

    def special(self, role: str, names: Sequence[str]) -> int | None:
        """The number of "bos", "eos", … as the tokenizer declares it, or else of the first of `names` that it has."""
        declared = getattr(self.source, f"{role}_token_id", getattr(self.source, f"{role}_id", None))
        declared = declared() if callable(declared) else declared
        if declared is not None and declared >= 0:
            return int(declared)
        return next((number for name in names if (number := self.number(name)) is not None), None)


def _method(source: Any, names: Sequence[str]) -> Any:
    return next((getattr(source, name) for name in names if hasattr(source, name)), None)
