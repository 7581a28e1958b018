"""Vocabularies: labels for the entries of sparse tensors, read from files or from tokenizers of other libraries."""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rfnb.core.ground.text import count_of, did_you_mean
from rfnb.errors import DimError
from rfnb.printable import encodable, printable_name

FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
"""The labels that fairseq puts before those of its dict.txt, in which each label is followed by its count."""


LARGEST = 2**30
"""Most bytes of a file, after decompression."""


class LabelTable(NamedTuple):
    """Labels in the order of their numbers, and the numbers of further names."""

    labels: list[str]
    aliases: dict[str, int]


def read_labels(path: str | Path) -> LabelTable:
    """The labels of a file, possibly compressed. Raises DimError if it is missing, empty or not a text file."""
    text = _text(Path(path))
    written = _literal(text)
    if isinstance(written, Mapping) and "model" in written and "added_tokens" in written:
        hint = f'tokenizers.Tokenizer.from_file("{path}") as `vocab`'
        raise DimError("Vocab: the file holds a tokenizer, not only its labels", got=str(path), hint=hint)
    if isinstance(written, Mapping):
        return in_order(written, f"Vocab: {path}")
    if isinstance(written, list):
        return LabelTable([str(label) for label in written], {})
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if "" in lines:
        raise DimError(f"Vocab: {path} has an empty line", got=f"line {lines.index('') + 1}", expected="a label")
    return _labels(lines, path)


def in_order(numbers: Mapping[object, object], what: str = "Vocab") -> LabelTable:
    """The labels of a dict from label to number, or from number to label. Raises DimError if a number is missing.

    Of several names of one number, the last one by alphabet is the label: "<s>", not "</s>".
    """
    if all(isinstance(key, int) for key in numbers):
        numbers = {label: number for number, label in numbers.items()} if _unique(numbers.values(), what) else {}
    by_name: dict[str, int] = {}
    for label, number in numbers.items():
        if not isinstance(number, int):
            raise DimError(f"{what}: {label!r} has no number", got=repr(number)[:60], expected="an integer")
        if by_name.setdefault(str(label), number) != number:
            raise DimError(f"{what}: a label occurs twice", got=repr(label))
    by_number = {number: name for name, number in sorted(by_name.items())}
    missing = next((n for n in range(len(by_number)) if n not in by_number), None)
    if missing is not None:
        raise DimError(
            f"{what}: no label has the number {missing}",
            got=f"numbers from {min(by_number)} to {max(by_number)}",
            expected=f"0 to {len(by_number) - 1}",
            hint='if 0 is the CTC blank: Vocab(["<blank>", *labels])' if missing == 0 else None,
        )
    aliases = {name: number for name, number in by_name.items() if by_number[number] != name}
    return LabelTable([by_number[number] for number in range(len(by_number))], aliases)


def _unique(labels: Any, what: str) -> bool:
    earlier: set[object] = set()
    for label in labels:
        if label in earlier:
            raise DimError(f"{what}: a label occurs twice", got=repr(label))
        earlier.add(label)
    return True


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        hint = f"labels in a string: Vocab(list({str(path)!r}))" if len(path.parts) == 1 and not path.suffix else None
        raise DimError("Vocab: the file does not exist", got=str(path), hint=hint) from None
    except OSError as error:
        raise DimError("Vocab: the file cannot be read", got=f"{path}: {error.strerror}") from None
    if path.name.removesuffix(".gz").endswith((".pkl", ".pickle")) or data[:1] == b"\x80":
        hint = "if you trust the file: Vocab(pickle.load(open(…, 'rb')))"
        raise DimError("Vocab: reading a pickle could run code", got=str(path), expected="a text file", hint=hint)
    try:
        text = (_decompressed(data, path) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        hint = "sentencepiece.SentencePieceProcessor(model_file=…) as `vocab`" if path.suffix == ".model" else None
        expected = "a UTF-8 file with one label per line"
        raise DimError("Vocab: the file is not a text file", got=str(path), expected=expected, hint=hint)
    if not text.strip("\r\n"):
        raise DimError("Vocab: the file is empty", got=str(path), expected="one label per line")
    return text


def _decompressed(data: bytes, path: Path) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DimError("Vocab: the file cannot be read", got=f"{path}: {error}") from None
    if len(text) > LARGEST:
        raise DimError("Vocab: the file is too large", got=str(path), expected=f"at most {LARGEST} bytes")
    return text


def _literal(text: str) -> Any:
    """The value that is written as JSON or as a Python literal; None if the text is a list of lines."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def _labels(lines: list[str], path: str | Path) -> LabelTable:
    """The labels in lines where a number (ESPnet, Kaldi), count (fairseq) or score (sentencepiece) may follow each."""
    pairs = [match.groups() for line in lines if (match := _PAIR.fullmatch(line)) and _is_number(match[2])]
    if len(pairs) < len(lines):
        return LabelTable(lines, {})
    labels, seconds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if any("." in number or number.startswith("-") for number in seconds):
        return LabelTable(labels, {})
    numbers = [int(number) for number in seconds]
    if sorted(numbers) == list(range(len(lines))) or numbers == list(range(1, len(lines) + 1)):
        return in_order(dict(zip(numbers, labels, strict=True)), f"Vocab: {path}")
    if _counts_up(numbers):
        return in_order(dict(zip(labels, numbers, strict=True)), f"Vocab: {path}")
    return LabelTable([*FAIRSEQ, *labels], {})


_PAIR = re.compile(r"(.+?)[ \t]+([^ \t]+)[ \t]*")
"""A label and a number. Other spaces belong to labels."""


def _counts_up(numbers: list[int]) -> bool:
    """Whether these are numbers of labels of which some have several names; counts of labels become smaller."""
    steps = {after - before for before, after in pairwise(numbers)}
    return numbers[0] == 0 and steps == {0, 1}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text[-1].isdigit()


_LABEL = ("convert_ids_to_tokens", "id_to_token", "id_to_piece")
_NUMBER = ("convert_tokens_to_ids", "token_to_id", "piece_to_id")
_SIZE = ("__len__", "get_vocab_size", "get_piece_size", "vocab_size", "piece_size")


def is_tokenizer(source: object) -> bool:
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


def _method(source: object, names: Sequence[str]) -> Any:
    return next((getattr(source, name) for name in names if hasattr(source, name)), None)


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

    def get_seq_labels(self, numbers: Sequence[int] | object) -> str:
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
        return str(self._join(labels))

    @cached_property
    def _join(self) -> Any:
        """How word pieces become text, by the mark that they contain; words stay apart."""
        marks = (mark for mark in _JOIN if any(x.startswith(mark) or x.endswith(mark) for x in self.labels))
        return _JOIN.get(next(marks, ""), " ".join)


_JOIN: dict[str, Any] = {
    "▁": lambda pieces: "".join(pieces).replace("▁", " ").strip(),
    "Ġ": lambda pieces: "".join(pieces).replace("Ġ", " ").strip(),
    "##": lambda pieces: " ".join(pieces).replace(" ##", ""),
    "@@": lambda pieces: (" ".join(pieces) + " ").replace("@@ ", "").strip(),
    "</w>": lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
}
"""How word pieces become text, by the mark that they contain."""


def vocab_of(source: object) -> Vocab | None:
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
