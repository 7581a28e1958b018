"""Labels from lists, dicts, files and tokenizers; numbers, labels and text."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, Vocab
from rfnb.errors import DimError


class HuggingFace:
    """The methods of a tokenizer of transformers that a Vocab asks."""

    labels = ["<s>", "</s>", "<unk>", "▁he", "llo", "▁you", "<mask>"]
    vocab_size = 6
    bos_token_id, eos_token_id, unk_token_id, pad_token_id = 0, 1, 2, None

    def __len__(self):
        return 7  # with what was added

    def convert_ids_to_tokens(self, number):
        return self.labels[number]

    def convert_tokens_to_ids(self, label):
        return self.labels.index(label) if label in self.labels else self.unk_token_id

    def encode(self, text, add_special_tokens=True):
        numbers = [n for word in text.split() for n in {"hello": [3, 4], "you": [5]}.get(word, [2])]
        return [0, *numbers, 1] if add_special_tokens else numbers

    def decode(self, numbers):
        return "".join(self.labels[n] for n in numbers).replace("▁", " ").strip()


class Encoding:
    def __init__(self, ids):
        self.ids = ids


class Tokenizers:
    """Likewise, of `tokenizers`."""

    labels = HuggingFace.labels[:6]

    def id_to_token(self, number):
        return self.labels[number] if number < 6 else None

    def token_to_id(self, label):
        return self.labels.index(label) if label in self.labels else None

    def get_vocab_size(self, with_added_tokens=True):
        return 6

    def encode(self, text, add_special_tokens=True):
        return Encoding(HuggingFace().encode(text, add_special_tokens))

    def decode(self, numbers):
        return HuggingFace().decode(numbers)


class Sentencepiece:
    """Likewise, of sentencepiece."""

    def id_to_piece(self, number):
        return Tokenizers.labels[number]

    def piece_to_id(self, label):
        return Tokenizers.labels.index(label) if label in Tokenizers.labels else 2

    def get_piece_size(self):
        return 6

    vocab_size = get_piece_size

    def bos_id(self):
        return 0

    def pad_id(self):
        return -1

    def encode(self, text):
        return HuggingFace().encode(text, False)

    def decode(self, numbers):
        return HuggingFace().decode(numbers)


@pytest.mark.parametrize("kind", [HuggingFace, Tokenizers, Sentencepiece])
def test_tokenizers(kind):
    vocab = Vocab(kind())
    assert vocab.encode("hello you") == [3, 4, 5]
    assert vocab.encode(["▁you", "llo", "what"]) == [5, 4, 2]
    assert vocab.decode(4) == "llo"
    assert vocab.decode([[3], [99]]) == [["▁he"], ["⟨99?⟩"]]
    assert vocab.join([0, 3, 4, 5, 1]) == "hello you"
    assert (vocab.bos_id, vocab.eos_id, vocab.unk_id, vocab.pad_id, vocab.blank_id) == (0, 1, 2, None, None)
    assert ("▁he" in vocab, "he" in vocab) == (True, False)
    assert vocab.labels[:6] == tuple(Tokenizers.labels)
    assert Dim(None, name="piece", vocab=kind()).dimension == len(vocab)


def test_the_dim_of_a_tokenizer_may_be_padded():
    assert Dim(8, name="piece", vocab=HuggingFace()).vocab.decode(7) == "⟨7?⟩"
    assert Dim(6, name="piece", vocab=HuggingFace()).dimension == 6
    with pytest.raises(DimError, match="different size"):
        Dim(5, name="piece", vocab=HuggingFace())


def test_text_of_sequences_with_a_tokenizer():
    time, piece = Dim(None, name="time"), Dim(name="piece", vocab=HuggingFace())
    x = rf.convert_to_tensor(["hello you", "you"], dims=[rf.batch_dim, time], sparse_dim=piece)
    assert x.raw_tensor.tolist() == [[3, 4, 5], [5, 0, 0]]


def test_the_size_of_a_dim_is_that_of_its_vocab():
    assert Dim(None, name="phone", vocab=["a", "b"]).dimension == 2
    assert Dim(vocab=Vocab(["a", "b"])).dimension == 2
    with pytest.raises(DimError, match="vocab of phone has a different size"):
        Dim(3, name="phone", vocab=["a", "b"])


FILES = {
    "labels": ("a\nb\n", ["a", "b"]),
    "no_newline_at_the_end": ("a\nb", ["a", "b"]),
    "from_windows": ("a\r\nb\r\n", ["a", "b"]),
    "with_a_mark": ("\ufeffa\nb\n", ["a", "b"]),
    "empty_lines_at_the_end": ("a\nb\n\n\n", ["a", "b"]),
    "odd_spaces_are_labels": (" \n\u2028\n\u00a0x\n", [" ", "\u2028", "\u00a0x"]),
    "espnet_tokens": ("<blank>\n<unk>\n▁THE\n<sos/eos>\n", ["<blank>", "<unk>", "▁THE", "<sos/eos>"]),
    "kaldi": ("<eps> 0\nSIL 1\nAA_B 2\n", ["<eps>", "SIL", "AA_B"]),
    "kaldi_unsorted": ("b 1\na 0\n", ["a", "b"]),
    "fairseq": ("the 4815\n, 3021\nand 3\n", ["<s>", "<pad>", "</s>", "<unk>", "the", ",", "and"]),
    "sentencepiece": ("<unk>\t0\n▁t\t-0\nhe\t-1\n", ["<unk>", "▁t", "he"]),
    "sentencepiece_unigram": ("<unk>\t0\n▁t\t-2.5\nhe\t-3.25\n", ["<unk>", "▁t", "he"]),
    "python_dict": ("{'<s>': 0, 'b': 2,\n 'a': 1}\n", ["<s>", "a", "b"]),
    "python_dict_of_numbers": ("{0: 'a', 1: 'b'}", ["a", "b"]),
    "json": (json.dumps({"é": 1, "a": 0}), ["a", "é"]),
    "python_list": ("['a',\n 'b']", ["a", "b"]),
    "brackets_are_labels": ("[PAD]\n[UNK]\n{\n", ["[PAD]", "[UNK]", "{"]),
    "numbers_are_labels": ("1\n2\n", ["1", "2"]),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    text, labels = FILES[name]
    (tmp_path / name).write_bytes(text.encode())
    assert list(Vocab(tmp_path / name).labels) == labels
    assert Dim(len(labels), vocab=str(tmp_path / name)).vocab.labels == tuple(labels)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a\n\nb\n", "empty line\n  got       line 2"),
        (b"a\0b", "not a text file"),
        (b"\xff\xfe\xfa", "not a text file"),
        (b"a 1\nb 2\n", r"no label has the number 0(.|\n)*<blank>"),
        (b"{'a': 0, 'b': 2}", "no label has the number 1"),
        (b"{'a': 'x'}", "'a' has no number"),
        (b"a\nb\na\n", r"'a' as number 0 and 2"),
        (b"{0: 'a', 1: 'a'}", "occurs twice"),
        (b'{"version": "1.0", "added_tokens": [], "model": {}}', r"Tokenizer\.from_file"),
    ],
)
def test_files_that_are_no_vocab(data, match, tmp_path):
    (tmp_path / "labels").write_bytes(data)
    with pytest.raises(DimError, match=match):
        Vocab(tmp_path / "labels")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DimError, match="file does not exist"):
        Vocab(tmp_path / "none.txt")
    with pytest.raises(DimError, match=r"Vocab\(list\('abc'\)\)"):
        Vocab("abc")
    with pytest.raises(DimError, match="cannot be read"):
        Vocab(tmp_path)
    (tmp_path / "m.model").write_bytes(b"\0\1")
    with pytest.raises(DimError, match="SentencePieceProcessor"):
        Vocab(tmp_path / "m.model")


@pytest.mark.parametrize("source", [{"a": 0, "b": 1}, {1: "b", 0: "a"}, ("a", "b"), np.array(["a", "b"]), iter("ab")])
def test_labels_from_python(source):
    assert Vocab(source).labels == ("a", "b")


def test_what_has_no_labels():
    with pytest.raises(DimError, match="`source` has no labels"):
        Vocab(3)
    assert Vocab(Vocab(["a"])).labels == ("a",)


@pytest.mark.parametrize(
    ("labels", "text", "numbers"),
    [
        (list("abc"), "cab", [2, 0, 1]),
        (["<unk>", *"abc"], "caX", [3, 1, 0]),
        (["a", "b", " "], "a b", [0, 2, 1]),
        (["a", "b", "<space>"], "a b", [0, 2, 1]),
        (["a", "b", "|"], "a b", [0, 2, 1]),
        (["AH", "K"], "K AH", [1, 0]),
        (["a", "k"], "k a", [1, 0]),
        (["</s>", "AH", "K"], ["K", "AH"], [2, 1]),
        (["a"], "", []),
    ],
)
def test_encode(labels, text, numbers):
    assert Vocab(labels).encode(text) == numbers


def test_an_unknown_label_is_told_with_the_nearest():
    with pytest.raises(DimError, match=r"'AE1'(.|\n)*did you mean 'AE'"):
        Vocab(["AE", "AH", "K"]).encode(["AE1"])


@pytest.mark.parametrize(
    ("labels", "numbers", "text"),
    [
        (["▁he", "llo", "▁you"], [0, 1, 2], "hello you"),
        (["he", "##llo", "you"], [0, 1, 2], "hello you"),
        (["he@@", "llo", "you"], [0, 1, 2], "hello you"),
        (["he", "llo</w>", "you</w>"], [0, 1, 2], "hello you"),
        (["he", "llo", "Ġyou"], [0, 1, 2], "hello you"),
        (list("ab "), [0, 2, 1], "a b"),
        (["a", "<space>", "b", "</s>"], [0, 1, 2, 3], "a b"),
        (["<s>", "HH", "AH"], [0, 1, 2], "HH AH"),
        (["<unk>", "HH"], [0, 1], "<unk> HH"),
    ],
)
def test_join(labels, numbers, text):
    vocab = Vocab(labels)
    assert vocab.join(numbers) == vocab.join(np.array(numbers)) == vocab.join(vocab.decode(numbers)) == text


@pytest.mark.parametrize(
    ("labels", "role", "number"),
    [
        (["<blank>", "<unk>", "a", "<sos/eos>"], "blank", 0),
        (["<blank>", "<unk>", "a", "<sos/eos>"], "unk", 1),
        (["<blank>", "<unk>", "a", "<sos/eos>"], "bos", 3),
        (["<blank>", "<unk>", "a", "<sos/eos>"], "eos", 3),
        (["[PAD]", "[CLS]", "[SEP]"], "pad", 0),
        (["[PAD]", "[CLS]", "[SEP]"], "eos", 2),
        (["a", "b"], "eos", None),
    ],
)
def test_labels_with_a_meaning(labels, role, number):
    assert getattr(Vocab(labels), f"{role}_id") == number


def test_a_vocab_is_copied_and_travels():
    vocab = Vocab(["<s>", "a"])
    assert pickle.loads(pickle.dumps(vocab)).labels == copy.deepcopy(vocab).labels == vocab.labels


def test_it_shows_its_first_labels():
    assert repr(Vocab(["a", "b"])) == "Vocab(2 labels: a b)"
    assert repr(Vocab(["a"])) == "Vocab(1 label: a)"
    assert repr(Vocab(list("abcdefg"))) == "Vocab(7 labels: a b c d e …)"


class Foreign:
    """The vocabulary of another library: labels, and the numbers of some of them."""

    labels = ["$", "a", "b", "#1"]
    num_labels = 4
    bos_label_id, eos_label_id, unknown_label_id = 0, 0, None
    user_defined_symbol_ids = {"blank": 3}


def test_any_object_with_labels_is_a_vocab():
    letter = Dim(4, name="letter", vocab=Foreign())
    vocab = letter.vocab
    assert isinstance(vocab, Vocab) and vocab.labels == ("$", "a", "b", "#1")
    assert (vocab.bos_label_id, vocab.eos_label_id, vocab.unknown_label_id) == (0, 0, None)
    assert vocab.user_defined_symbol_ids == {"blank": 3}
    x = rf.convert_to_tensor(["a b", "b"], dims=[rf.batch_dim, Dim(None, name="time")], sparse_dim=letter)
    assert x.raw_tensor.tolist() == [[1, 2], [2, 0]]
    assert Dim(None, name="letter", vocab=Foreign()).dimension == 4
    assert Dim(2, vocab=SimpleNamespace(labels=["<s>", "a"])).vocab.bos_label_id == 0
    assert Vocab(SimpleNamespace(labels=np.array(["a", "b"]))).labels == ("a", "b")
    assert Vocab(SimpleNamespace(labels=["a", "a"])).labels == ("a", "a")
    with pytest.raises(DimError, match="different size"):
        Dim(5, name="letter", vocab=Foreign())
    with pytest.raises(DimError, match="no labels"):
        Dim(5, vocab=SimpleNamespace(labels=None))


def test_other_names_of_labels_with_a_meaning():
    vocab = Vocab(["<s>", "</s>", "<unk>", "a"])
    assert (vocab.num_labels, vocab.bos_label_id, vocab.eos_label_id, vocab.unknown_label_id) == (4, 0, 1, 2)
    plain = Vocab(["a", "b"])
    assert (plain.bos_label_id, plain.eos_label_id, plain.unknown_label_id) == (None, None, None)
    assert plain.user_defined_symbol_ids == {}
    assert Vocab(HuggingFace()).num_labels == 7 and Vocab(HuggingFace()).eos_label_id == 1


def test_a_vocab_from_labels_and_the_roles_of_some():
    make, labels = Vocab.create_vocab_from_labels, ["$", "a", "b", "#1", "?"]
    vocab = make(
        labels, bos_label=0, eos_label="$", unknown_label="?", user_defined_symbols={"blank": "#1", "first": 1}
    )
    assert (vocab.num_labels, vocab.bos_label_id, vocab.eos_label_id, vocab.unknown_label_id) == (5, 0, 0, 4)
    assert (vocab.bos_id, vocab.eos_id, vocab.unk_id) == (0, 0, 4)
    assert vocab.user_defined_symbol_ids == {"blank": 3, "first": 1}
    assert vocab.encode(["a", "what"]) == [1, 4] and vocab.join([0, 1, 2]) == "a b"
    assert Dim(5, name="letter", vocab=vocab).vocab is vocab
    assert (make(["<s>", "a"]).bos_label_id, make(["a"]).user_defined_symbol_ids) == (None, {})
    for copied in (Vocab(vocab), copy.deepcopy(vocab), pickle.loads(pickle.dumps(vocab))):
        assert (copied.eos_label_id, copied.user_defined_symbol_ids) == (0, {"blank": 3, "first": 1})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eos_label": "</s>"}, r"(?s)`eos_label`.*'</s>'"),
        ({"bos_label": 7}, r"(?s)`bos_label`.*7"),
        ({"unknown_label": -1}, "`unknown_label`"),
        ({"user_defined_symbols": {"x": "zzz"}}, r"(?s)`user_defined_symbols`.*'zzz'"),
    ],
)
def test_a_role_of_a_label_that_is_not_there(options, words):
    with pytest.raises(DimError, match=words):
        Vocab.create_vocab_from_labels(["a", "b"], **options)


@pytest.mark.parametrize("numbers", [[2, 1, 0], np.array([2, 1, 0]), torch.tensor([2, 1, 0])], ids=str)
def test_labels_of_a_sequence_with_spaces_between(numbers):
    assert Vocab(["</s>", "AH", "K"]).get_seq_labels(numbers) == "K AH </s>"
    assert Vocab(["</s>", "▁a", "b"]).get_seq_labels(numbers) == "b ▁a </s>"


def test_the_text_of_a_sequence_of_a_tokenizer():
    assert Vocab(HuggingFace()).get_seq_labels([3, 4, 5]) == "hello you"


TWO_NAMES = {"<s>": 0, "</s>": 0, "<unk>": 1, "a": 2, "b@@": 3}


def two_names(kind, folder):
    contents = {
        "dict.txt": repr(TWO_NAMES).encode(),
        "vocab.json": json.dumps(TWO_NAMES).encode(),
        "vocab.gz": gzip.compress(repr(TWO_NAMES).encode()),
        "lines.txt": "".join(f"{name} {number}\n" for name, number in TWO_NAMES.items()).encode(),
    }
    if kind in contents:
        (folder / kind).write_bytes(contents[kind])
        return folder / kind
    return {"dict": TWO_NAMES, "other order": dict(reversed(TWO_NAMES.items())), "vocab": Vocab(TWO_NAMES)}[kind]


@pytest.mark.parametrize("kind", ["dict", "other order", "vocab", "dict.txt", "vocab.json", "vocab.gz", "lines.txt"])
def test_two_names_for_one_number(kind, tmp_path):
    source = two_names(kind, tmp_path)
    for vocab in (Vocab(source), Dim(4, name="piece", vocab=source).vocab, Dim(None, vocab=source).vocab):
        assert vocab.labels == ("<s>", "<unk>", "a", "b@@") and vocab.num_labels == 4
        assert vocab.encode(["<s>", "</s>", "a"]) == vocab.encode("<s> </s> a") == [0, 0, 2]
        assert "</s>" in vocab and vocab.aliases == {"</s>": 0}
        assert (vocab.bos_id, vocab.eos_id, vocab.unk_id) == (0, 0, 1)
        assert vocab.decode([0, 2]) == ["<s>", "a"] and vocab.join(["</s>", "b@@", "a"]) == "ba"


def test_two_names_survive_files_and_copies(tmp_path):
    piece = Dim(4, name="piece", vocab=TWO_NAMES)
    path = rf.save(rf.Linear(piece, piece), tmp_path / "model.safetensors", config={"piece": piece})
    for vocab in (rf.load_config(path)["piece"].vocab, pickle.loads(pickle.dumps(piece)).vocab):
        assert vocab.encode(["</s>"]) == [0] and vocab.labels == piece.vocab.labels


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"a": 0, "b": 0, "c": 2}, "no label has the number 1"),
        ({1: 0, "1": 1}, "a label occurs twice"),
        ({"a": 0, "b": 1.0}, "'b' has no number"),
    ],
)
def test_dicts_that_are_no_vocab(source, words):
    with pytest.raises(DimError, match=words):
        Vocab(source)


def test_compressed_files(tmp_path):
    for name, text in {"labels.txt.gz": "a\nb\n", "labels": "\ufeffa\nb", "list.gz": "['a', 'b']"}.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert Vocab(tmp_path / name).labels == ("a", "b")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\nb\n" * 100)[:-9])
    with pytest.raises(DimError, match="cannot be read"):
        Vocab(tmp_path / "cut.gz")


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", ["vocab.pkl", "vocab.pickle", "vocab.pkl.gz"])
def test_a_pickle_is_refused(name, protocol, tmp_path):
    data = pickle.dumps(TWO_NAMES, protocol)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(DimError, match="could run code") as error:
        Vocab(tmp_path / name)
    assert "pickle.load" in error.value.hint


def test_counts_that_repeat_are_counts(tmp_path):
    for text in ("a 3\nb 2\nc 2\nd 1\n", "a 0\nb 0\n", "a 5\nb 5\n"):
        (tmp_path / "dict.txt").write_text(text)
        assert Vocab(tmp_path / "dict.txt").labels[:4] == ("<s>", "<pad>", "</s>", "<unk>")


def test_odd_spaces_are_parts_of_labels(tmp_path):
    (tmp_path / "tokens").write_text("New\u00a0York 0\n\u3000 1\nis\t2\n  3\n", encoding="utf-8")
    vocab = Vocab(tmp_path / "tokens")
    assert vocab.labels == ("New\u00a0York", "\u3000", "is", " ")
    assert vocab.encode("New\u00a0York is \u3000") == [0, 2, 1]
    assert Vocab(["a", "b"]).encode("a\u3000b\u00a0a\n") == [0, 1, 0]
