"""Vocabulary files: one label per line, possibly followed by a number, count or score; or a dict or list."""

from __future__ import annotations

import ast
import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rfnb.errors import DimError

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


def in_order(numbers: Mapping[Any, Any], what: str = "Vocab") -> LabelTable:
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
    earlier: set[Any] = set()
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
