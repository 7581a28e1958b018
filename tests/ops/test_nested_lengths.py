"""Lengths over an axis that has lengths itself, such as the letters of the words of sentences, follow their frames."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

LETTERS = [[2, 4, 0], [3], [1, 2]]
WORDS = [len(counts) for counts in LETTERS]


class Sentences:
    """{batch, word, letter}: 100 · sentence + 10 · word + letter."""

    def __init__(self):
        self.word, self.letter = rf.Dim(None, name="word"), rf.Dim(None, name="letter")
        counts = torch.tensor([row + [0] * (max(WORDS) - len(row)) for row in LETTERS])
        words = rf.convert_to_tensor(torch.tensor(WORDS), dims=[batch_dim])
        rf.convert_to_tensor(torch.zeros(counts.shape), dims=[batch_dim, self.word], lengths={self.word: words})
        raw = torch.arange(3)[:, None, None] * 100 + torch.arange(3)[:, None] * 10 + torch.arange(4)
        lengths = {self.word: words, self.letter: rf.convert_to_tensor(counts, dims=[batch_dim, self.word])}
        self.x = rf.convert_to_tensor(raw, dims=[batch_dim, self.word, self.letter], lengths=lengths)


def rows(x: rf.Tensor, word: rf.Dim | None) -> list[list[list[int]]]:
    """The valid entries of each sentence and word."""
    letter = next(dim for dim in x.dims if dim not in (batch_dim, word))
    order = [batch_dim, word, letter] if word else [batch_dim, letter]
    raw, size = x.copy_transpose(order).raw_tensor, x.size_of(letter)
    assert set(size.dims) <= set(order)
    if word is None:
        return [raw[i, : size.over([batch_dim])[i]].tolist() for i in range(3)]
    words = x.size_of(word)
    frames = [int(n) for n in words.over([batch_dim]).repeat(3 if not words.dims else 1)]
    counts = size.over([batch_dim, word])
    return [[raw[i, j, : counts[i, j]].tolist() for j in range(frames[i])] for i in range(3)]


ALL = [[[100 * i + 10 * j + k for k in range(n)] for j, n in enumerate(row)] for i, row in enumerate(LETTERS)]
CASES = {
    "reverse": (lambda x, word: (rf.reverse_sequence(x, axis=word), word), lambda row: row[::-1]),
    "slice": (lambda x, word: rf.slice(x, axis=word, start=-2), lambda row: row[-2:]),
    "slice back": (lambda x, word: rf.slice(x, axis=word, step=-1), lambda row: row[::-1]),
    "last": (lambda x, word: _entry(x, word, -1), lambda row: row[-1]),
    "last, clipped": (lambda x, word: _entry(x, word, -1, clip_to_valid=True), lambda row: row[-1]),
    "second, clipped": (lambda x, word: _entry(x, word, 1, clip_to_valid=True), lambda row: row[:2][-1]),
    "concat": (lambda x, word: rf.concat((x, word), (x, word)), lambda row: row + row),
    "split": (lambda x, word: _split(x, word, [rf.Dim(None), rf.Dim(1)]), lambda row: row[-1:]),
    "pad": (lambda x, word: _pad(x, word, (1, 1)), lambda row: [[], *row, []]),
    "pad by lengths": (lambda x, word: _pad(x, word, (word, 0)), lambda row: [[]] * len(row) + row),
    "replicate": (lambda x, word: _pad(x, word, (1, 1), "replicate"), lambda row: [row[0], *row, row[-1]]),
}


def _entry(x, word, index, **options):
    return rf.gather(x, indices=index, axis=word, **options), None


def _split(x, word, dims):
    return rf.split(x, axis=word, out_dims=dims)[1], dims[1]


def _pad(x, word, amounts, mode="constant"):
    y, [out] = rf.pad(x, axes=[word], padding=[amounts], mode=mode)
    return y, out


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("name", CASES)
def test_lengths_go_with_their_frames(name, order):
    s, (op, expected) = Sentences(), CASES[name]
    y, word = op(s.x.copy_transpose([s.x.dims[i] for i in order]), s.word)
    assert rows(y, word) == list(map(expected, ALL))


def by_position(i: int) -> list[list[int]]:
    """For each letter position of a sentence, the entries of all words that are so long."""
    return [[row[k] for row in ALL[i] if len(row) > k] for k in range(max(LETTERS[i]))]


@pytest.mark.parametrize(("mode", "expected"), [("sum", sum), ("max", max), ("min", min), ("mean", fmean)])
def test_letters_after_the_end_of_a_word_are_not_scattered(mode, expected):
    s, one = Sentences(), rf.Dim(1, name="one")
    at = rf.zeros([batch_dim, s.word], dtype="int64")
    y = rf.scatter(rf.cast(s.x, "float32"), indices=at, indices_dim=s.word, out_dim=one, mode=mode)
    raw = y.copy_transpose([batch_dim, s.letter, one]).raw_tensor.squeeze(2)
    for i in range(3):
        values = by_position(i)
        assert raw[i, : len(values)].tolist() == list(map(expected, values))


def test_letters_after_the_end_of_a_word_are_not_the_largest():
    s = Sentences()
    values, places, best = rf.top_k(s.x, axis=s.word, k=1)
    raw, place = (y.copy_transpose([batch_dim, s.letter, best]).raw_tensor.squeeze(2) for y in (values, places))
    for i in range(3):
        expected = list(map(max, by_position(i)))
        assert raw[i, : len(expected)].tolist() == expected
        assert (place[i, : len(expected)] * 10 + 100 * i + torch.arange(len(expected))).tolist() == expected


FEAT = rf.Dim(2, name="feat")


def _attention(x, word):
    return rf.dot_attention(x, x, x, key_dim=FEAT, axis=word)


REFUSED = {
    "sort": lambda x, word: rf.sort(x, axis=word),
    "search_sorted": lambda x, word: rf.search_sorted(x, 3, axis=word),
    "pool": lambda x, word: rf.pool1d(x, mode="max", pool_size=2, in_spatial_dim=word),
    "attention": lambda x, word: _attention(rf.expand_dim(rf.cast(x, "float32"), FEAT), word),
    "window": lambda x, word: rf.window(x, spatial_dim=word, window_dim=rf.Dim(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_results_whose_padding_no_lengths_can_say_are_refused(name):
    s = Sentences()
    with pytest.raises(DimError, match=f"{name}: the lengths of letter depend on {{word:1–3}}"):
        REFUSED[name](s.x, s.word)
    even = rf.convert_to_tensor(torch.tensor([[3, 1], [2, 4]]), dims=[batch_dim, s.word], lengths=[2, 2])
    assert rf.sort(even, axis=batch_dim)[0].raw_tensor.tolist() == [[2, 1], [3, 4]]
