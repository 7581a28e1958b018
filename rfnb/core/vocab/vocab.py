"""Vocabularies: labels for the entries of sparse tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.ground.text import count_of
from rfnb.core.vocab.tokenizer import Tokenizer, is_tokenizer
from rfnb.core.vocab.vocab_file import in_order, read_labels
from rfnb.errors import DimError
from rfnb.printable import encodable, printable_name

SPECIAL = {
    "bos": ("<s>", "<bos>", "<sos>", "[BOS]", "<sos/eos>", "<s/>", "<|startoftext|>", "[CLS]"),
    "eos": ("</s>", "<eos>", "[EOS]", "<sos/eos>", "<|endoftext|>", "[SEP]"),
    "unk": ("<unk>", "[UNK]", "<UNK>", "[unk]", "UNK"),
    "blank": ("<blank>", "<blk>", "[BLANK]", "<ctc_blank>", "<b>"),
    "pad": ("<pad>", "[PAD]", "<PAD>"),
}
"""Usual names of labels with a special role, by role."""

ROLES = {"bos": "bos_label_id", "eos": "eos_label_id", "unk": "unknown_label_id"}
"""The attributes of vocabularies of other libraries with the numbers of such labels, by role."""

SPACES = ("<space>", "▁", "|")
"""Usual labels for a space, where labels are letters."""


class Vocab:
    """A vocabulary: labels by number, and numbers by label.

    >>> phones = rf.Vocab(["</s>", "AH", "K"])
    >>> phones.encode("K AH"), phones.decode(2), phones.decode([2, 1]), phones.eos_id
    ([2, 1], 'K', ['K', 'AH'], 0)
    >>> rf.Vocab(["<unk>", "▁hel", "lo", "▁world"]).join([1, 2, 3])
    'hello world'

    Args:
        source: labels in order; a dict from label to number or from number to label; a file with one label per line
            (also those of ESPnet, Kaldi, fairseq and sentencepiece, where a number, count or score follows), or with a
            dict or list, possibly compressed by gzip; a tokenizer of Hugging Face, `tokenizers` or sentencepiece, or
            anything with `decode`; or any object with `labels`, of which `bos_label_id`, `eos_label_id` and the like
            are read too.

    Attributes:
        aliases: further names of labels, as in `{"<s>": 0, "</s>": 0, …}`, with their numbers.

    Raises DimError if a label occurs twice, or a number has no label.
    """

    def __init__(self, source: Iterable[str] | Mapping[Any, Any] | str | Path | Any):
        self._tokenizer: Tokenizer | None = None
        self._roles: dict[str, int | None] = {}  # those that were given; others are found by the usual names
        self.user_defined_symbol_ids: dict[str, int] = {}
        self.aliases: dict[str, int] = {}
        if isinstance(source, Vocab):
            self._tokenizer, self._roles, self.aliases = source._tokenizer, source._roles, source.aliases
            self.user_defined_symbol_ids = source.user_defined_symbol_ids
            source = () if source._tokenizer else source.labels
        elif isinstance(source, str | Path):
            source, self.aliases = read_labels(source)
        elif is_tokenizer(source):
            self._tokenizer, source = Tokenizer(source), ()
        elif isinstance(source, Mapping):
            source, self.aliases = in_order(source)
        elif getattr(source, "labels", None) is not None:
            self._take(source)
            return
        elif not isinstance(source, Iterable):
            raise DimError(
                "Vocab: `source` has no labels", got=type(source).__name__, expected="labels, a file, or a tokenizer"
            )
        if self._tokenizer is None:
            self.labels = tuple(str(label) for label in source)
            self._numbers = {**self.aliases, **_numbered(self.labels)}

    def _take(self, source: Any) -> None:
        """Takes the labels of an object, which may repeat, and their roles."""
        self.labels = tuple(str(label) for label in source.labels)
        self._numbers = _first_numbers(self.labels)
        self._roles = {role: getattr(source, name) for role, name in ROLES.items() if hasattr(source, name)}
        self.user_defined_symbol_ids = dict(getattr(source, "user_defined_symbol_ids", None) or {})

    @classmethod
    def create_vocab_from_labels(
        cls,
        labels: Sequence[str],
        *,
        bos_label: str | int | None = None,
        eos_label: str | int | None = None,
        unknown_label: str | int | None = None,
        user_defined_symbols: Mapping[str, str | int] | None = None,
    ) -> Vocab:
        """A vocabulary of labels in order, in which only those have a role that are given, by label or number.

        user_defined_symbols: further labels with a role, by any name; see `user_defined_symbol_ids`.

        >>> vocab = rf.Vocab.create_vocab_from_labels(["$", "a", "b"], bos_label=0, eos_label="$")
        >>> vocab.num_labels, vocab.bos_label_id, vocab.eos_label_id, vocab.unknown_label_id
        (3, 0, 0, None)

        Raises DimError if there is no such label.
        """
        vocab = cls.of_labels(labels)
        roles = {
            "bos": ("bos_label", bos_label),
            "eos": ("eos_label", eos_label),
            "unk": ("unknown_label", unknown_label),
        }
        vocab._roles = {role: vocab._number_of(name, label) for role, (name, label) in roles.items()}
        symbols = {
            name: vocab._number_of("user_defined_symbols", x) for name, x in (user_defined_symbols or {}).items()
        }
        vocab.user_defined_symbol_ids = {name: number for name, number in symbols.items() if number is not None}
        return vocab

    def _number_of(self, argument: str, label: str | int | None) -> int | None:
        number = self._numbers.get(label) if isinstance(label, str) else label
        if label is not None and (number is None or not 0 <= number < len(self)):
            raise DimError(
                f"Vocab: `{argument}` is not a label",
                got=repr(label),
                expected=_some(self.labels),
                hint=did_you_mean(label, self.labels, most=3),
            )
        return number

    @classmethod
    def of_labels(cls, labels: Sequence[str], aliases: Mapping[str, int] = {}) -> Vocab:
        """A vocabulary of labels in order, which may repeat, as some tokenizers do; then `encode` gives the first.

        aliases: further names of labels, with their numbers.

        >>> vocab = rf.Vocab.of_labels(["a", "b", "a"])
        >>> vocab.decode([0, 1, 2]), vocab.encode(["a", "b"])
        (['a', 'b', 'a'], [0, 1])
        """
        vocab = cls(())
        vocab.labels = tuple(str(label) for label in labels)
        vocab.aliases = dict(aliases)
        vocab._numbers = {**vocab.aliases, **_first_numbers(vocab.labels)}
        return vocab

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels, in the order of their numbers.

        >>> rf.Vocab({"K": 1, "AH": 0}).labels
        ('AH', 'K')
        """
        return tuple(self.decode(number) for number in range(len(self)))

    def __repr__(self) -> str:
        labels = [self.decode(number) for number in range(min(len(self), 5))]
        return encodable(
            printable_name(f"Vocab({count_of(len(self), 'label')}: {' '.join(labels)}{' …' * (len(self) > 5)})")
        )

    @property
    def num_labels(self) -> int:
        """The number of labels."""
        return len(self)

    def __len__(self) -> int:
        return len(self.labels) if self._tokenizer is None else len(self._tokenizer)

    def __contains__(self, label: str) -> bool:
        return self._number(label) is not None

    def fits(self, size: int) -> bool:
        """Whether a Dim may have this size: the number of labels, or for a tokenizer also more, as models pad theirs.

        >>> rf.Vocab(["</s>", "AH", "K"]).fits(3), rf.Vocab(["</s>", "AH", "K"]).fits(4)
        (True, False)
        """
        if self._tokenizer is not None:
            return size >= self._tokenizer.size_of_model
        return size == len(self.labels)

    # -- labels and numbers

    def decode(self, numbers: Any) -> Any:
        """The label of a number ("⟨17?⟩" if there is none); a list of labels for a sequence of numbers.

        >>> phones = rf.Vocab(["</s>", "AH", "K"])
        >>> phones.decode(1), phones.decode(torch.tensor([[2, 1], [1, 0]])), phones.decode(17)
        ('AH', [['K', 'AH'], ['AH', '</s>']], '⟨17?⟩')
        """
        if hasattr(numbers, "tolist"):
            numbers = numbers.tolist()
        if isinstance(numbers, list | tuple):
            return [self.decode(number) for number in numbers]
        if not 0 <= numbers < len(self):
            return f"⟨{numbers}?⟩"
        return self.labels[numbers] if self._tokenizer is None else self._tokenizer.label(numbers)

    def encode(self, labels: Iterable[str]) -> list[int]:
        """The numbers of labels. A string is split first: by the tokenizer, into letters, or at spaces.

        >>> rf.Vocab(["</s>", "AH", "K"]).encode("K AH"), rf.Vocab(list("abc")).encode("cab")
        ([2, 1], [2, 0, 1])
        >>> rf.Vocab(["<unk>", "the", "cat"]).encode(["the", "dog"])
        [1, 0]

        Raises DimError if a label is unknown and the vocabulary has no label such as "<unk>".
        """
        if isinstance(labels, str):
            if self._tokenizer is not None:
                return self._tokenizer.encode(labels)
            labels = self._cut(labels)
        return [self._known(label) for label in labels]

    def join(self, labels: Iterable[str | int]) -> str:
        """The text of labels or of their numbers. Word pieces are joined; special labels such as "<s>" are left out.

        >>> rf.Vocab(["</s>", "▁hel", "lo", "▁world"]).join([1, 2, 3, 0])
        'hello world'
        >>> rf.Vocab(["</s>", "AH", "K"]).join(["K", "AH"])
        'K AH'
        """
        numbers = [label if isinstance(label, int) else self._known(label) for label in _listed(labels)]
        left_out = {self.bos_id, self.eos_id, self.blank_id, self.pad_id}
        numbers = [number for number in numbers if number not in left_out]
        if self._tokenizer is not None:
            return self._tokenizer.decode(numbers)
        return self._joined([self.decode(number) for number in numbers])

    def get_seq_labels(self, numbers: Sequence[int] | Any) -> str:
        """All labels of a sequence of numbers, separated by spaces; of a tokenizer its text. `join` gives plain text.

        >>> rf.Vocab(["</s>", "▁hel", "lo"]).get_seq_labels([1, 2, 0])
        '▁hel lo </s>'
        """
        numbers = _listed(numbers)
        return " ".join(self.decode(numbers)) if self._tokenizer is None else self._tokenizer.decode(numbers)

    def _known(self, label: str) -> int:
        number = self._number(label)
        number = self.unk_id if number is None else number
        if number is None:
            raise DimError(
                "Vocab.encode: unknown label",
                got=repr(label),
                expected=_some(self.labels),
                hint=did_you_mean(label, self.labels, most=3),
            )
        return number

    def _number(self, label: str) -> int | None:
        return self._numbers.get(label) if self._tokenizer is None else self._tokenizer.number(label)

    # -- labels with a meaning

    @cached_property
    def bos_id(self) -> int | None:
        """The number of the label that begins a sequence: "<s>", "<sos/eos>", …; None if there is none.

        >>> rf.Vocab(["<s>", "</s>", "a"]).bos_id, rf.Vocab(["</s>", "a"]).bos_id
        (0, None)
        """
        return self._special("bos")

    @cached_property
    def eos_id(self) -> int | None:
        """The number of the label that ends a sequence: "</s>", "<sos/eos>", …; None if there is none.

        >>> rf.Vocab(["<s>", "</s>", "a"]).eos_id, rf.Vocab(["a", "b"]).eos_id
        (1, None)
        """
        return self._special("eos")

    @cached_property
    def unk_id(self) -> int | None:
        """The number of the label for unknown labels: "<unk>", …; None if there is none.

        >>> rf.Vocab(["</s>", "<unk>", "a"]).unk_id
        1
        """
        return self._special("unk")

    @cached_property
    def blank_id(self) -> int | None:
        """The number of the CTC blank: "<blank>", …; None if there is none.

        >>> rf.Vocab(["<blank>", "AH", "K"]).blank_id
        0
        """
        return self._special("blank")

    @cached_property
    def pad_id(self) -> int | None:
        """The number of the label for padding: "<pad>", …; None if there is none.

        >>> rf.Vocab(["<pad>", "</s>", "a"]).pad_id
        0
        """
        return self._special("pad")

    @property
    def bos_label_id(self) -> int | None:
        """Another name of `bos_id`."""
        return self.bos_id

    @property
    def eos_label_id(self) -> int | None:
        """Another name of `eos_id`."""
        return self.eos_id

    @property
    def unknown_label_id(self) -> int | None:
        """Another name of `unk_id`."""
        return self.unk_id

    def _special(self, role: str) -> int | None:
        if role in self._roles:
            return self._roles[role]
        if self._tokenizer is not None:
            return self._tokenizer.special(role, SPECIAL[role])
        return next((self._numbers[label] for label in SPECIAL[role] if label in self._numbers), None)

    # -- text

    @cached_property
    def _by_letter(self) -> bool:
        """Whether each label is one letter, except for special labels such as "<unk>"."""
        plain = [label for label in self.labels if not _in_brackets(label)]
        return bool(plain) and all(len(label) == 1 for label in plain)

    @cached_property
    def _space(self) -> str | None:
        return next((space for space in (" ", *SPACES) if space in self._numbers), None)

    @cached_property
    def _spaces(self) -> re.Pattern[str]:
        """What separates labels in a text: all spaces but those in labels, such as U+00A0."""
        letters = {letter for label in self.labels for letter in label if letter.isspace()} - {" "}
        return re.compile(rf"[^\S{''.join(letters)}]+")

    def _cut(self, text: str) -> list[str]:
        words = [word for word in self._spaces.split(text) if word]
        if not self._by_letter or (self._space is None and len(words) > 1):
            return words
        return [self._space if letter == " " and self._space else letter for letter in text]

    def _joined(self, labels: list[str]) -> str:
        if self._by_letter:
            return "".join(" " if label == self._space else label for label in labels)
        for mark, join in _JOIN.items():
            if any(label.startswith(mark) or label.endswith(mark) for label in self.labels):
                return join(labels)
        return " ".join(labels)


_JOIN: dict[str, Any] = {
    "▁": lambda pieces: "".join(pieces).replace("▁", " ").strip(),
    "Ġ": lambda pieces: "".join(pieces).replace("Ġ", " ").strip(),
    "##": lambda pieces: " ".join(pieces).replace(" ##", ""),
    "@@": lambda pieces: (" ".join(pieces) + " ").replace("@@ ", "").strip(),
    "</w>": lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
}
"""How word pieces become text, by the mark that they contain."""


def vocab_of(source: Any) -> Vocab | None:
    """A Vocab from anything that `Vocab` accepts; a Vocab or None is returned unchanged."""
    return source if source is None or isinstance(source, Vocab) else Vocab(source)


def _first_numbers(labels: Sequence[str]) -> dict[str, int]:
    return {label: number for number, label in reversed(list(enumerate(labels)))}


def _numbered(labels: Sequence[str]) -> dict[str, int]:
    numbers = {label: number for number, label in enumerate(labels)}
    if len(numbers) < len(labels):
        twice = next(label for number, label in enumerate(labels) if numbers[label] != number)
        raise DimError(
            "Vocab: a label occurs twice",
            got=f"{twice!r} as number {labels.index(twice)} and {numbers[twice]}",
            expected="distinct labels",
        )
    return numbers


def _listed(labels: Any) -> list[Any]:
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)


def _in_brackets(label: str) -> bool:
    return len(label) > 2 and (label[0], label[-1]) in (("<", ">"), ("[", "]"))


def _some(labels: Sequence[str]) -> str:
    text = ", ".join(repr(label) for label in labels[:8])
    return text + (f", … ({len(labels)})" if len(labels) > 8 else "")
