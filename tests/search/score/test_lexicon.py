"""Texts of words of a lexicon, against all sequences of words."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples
from tests.search.score.test_ctc_prefix import outputs, random_frames
from tests.search.score.test_ngram import log_prob, random_model, text_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

WORDS = ["a", "b", "c"]
SPELLINGS = st.fixed_dictionaries(
    {word: st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=3), min_size=1, max_size=2) for word in WORDS}
)


class Model:
    """An n-gram model of words: its file, and the score of a text."""

    def __init__(self, folder, seed, order=3):
        self.grams, self.backoffs = random_model(seed, order)
        self.path, self.order = folder / "words.arpa", max(map(len, self.grams))
        self.path.write_text(text_of(self.grams, self.backoffs))

    def score(self, words):
        total, before = 0.0, ["<s>"]
        for word in [*words, "</s>"]:
            context = before[max(len(before) - self.order + 1, 0) :]
            total += log_prob(self.grams, self.backoffs, context, word) * math.log(10)
            before.append(word)
        return total


class Bigrams:
    """A scorer of words of one's own, whose state has fractions, so that equal analyses are not known."""

    def __init__(self, seed, words):
        self.words, size = words, words.get_dim_value()
        self.table = np.log(np.random.default_rng(seed).dirichlet(np.ones(size), size + 1)).astype("float32")
        before = rf.Dim(size + 1, name="before")
        self.tensor, self.before = rf.convert_to_tensor(self.table, dims=[before, words]), before

    def initial_state(self, *, batch_dims):
        return rf.State(first=rf.ones(batch_dims, dtype="bool"), sum=rf.zeros(batch_dims))

    def score(self, label, state):
        size = self.words.get_dim_value()
        before = rf.where(state.first, size, rf.set_sparse_dim(label, None))
        scores = rf.gather(self.tensor, indices=before, axis=self.before)
        new = rf.State(first=rf.zeros(state.first.dims, dtype="bool"), sum=state.sum + 1.0)
        return scores, new

    def texts(self, words):
        """The score of a text, as that of `Model`."""
        numbers = [len(self.table) - 1, *(self.words.vocab.encode([word])[0] for word in words)]
        return float(sum(self.table[a, b] for a, b in itertools.pairwise(numbers)))


def readings(labels, spellings, separator=None):
    """All texts of words that labels may be."""
    if not labels:
        return [()]
    found = []
    for word, rows in spellings.items():
        for row in {tuple(row) for row in rows}:
            rest = labels[len(row) :]
            if labels[: len(row)] == row and (separator is None or not rest):
                found += [(word, *others) for others in readings(rest, spellings, separator)]
            elif labels[: len(row)] == row and rest[0] == separator and len(rest) > 1:
                found += [(word, *others) for others in readings(rest[1:], spellings, separator)]
    return found


def best_of(labels, spellings, score, separator=None):
    """The score of the best text that labels may be."""
    return max((score(words) for words in readings(tuple(labels), spellings, separator)), default=-math.inf)


@examples(15)
@given(
    seed=st.integers(0, 1000), spellings=SPELLINGS, kind=st.sampled_from(["ngram", "no end", "own", "none"]),
    separator=st.booleans(),
)  # fmt: skip
def test_ctc_finds_all_texts_of_words_and_their_scores(tmp_path_factory, seed, spellings, kind, separator):
    """With a beam for all sequences of labels: blank 0, two labels and a separator."""
    axis, time = rf.Dim(4, name="axis"), rf.Dim(3, name="time")
    frames = random_frames(seed, 1, 3, 4)[0]
    words = rf.Dim(3 + (kind == "ngram"), name="word", vocab=["</s>", *WORDS] if kind == "ngram" else WORDS)
    model, own = Model(tmp_path_factory.mktemp("arpa"), seed), Bigrams(seed, words)
    scorer, score = {
        "ngram": (lambda: rf.search.NGram(model.path, words), model.score),
        "no end": (lambda: rf.search.NGram(model.path, words), model.score),
        "own": (lambda: own, own.texts),
        "none": (lambda: None, lambda words: 0.0),
    }[kind]
    gap = 3 if separator else None
    lexicon = rf.search.Lexicon(spellings, axis, words=words, scorer=scorer(), separator=gap, analyses=8)
    found = rf.search.ctc_beam(
        rf.convert_to_tensor(frames, dims=[time, axis]), spatial_dim=time, axis=axis, blank=0, beam=40,
        scorers={"words": (lexicon, 0.7)},
    )  # fmt: skip
    by_labels = {one.labels: one.score for one in found.tree[0].hypotheses}
    expected = {
        labels: math.log(p) + 0.7 * best_of(labels, spellings, score, gap)
        for labels, p in outputs(frames, 0).items() if readings(labels, spellings, gap)
    }  # fmt: skip
    assert by_labels == pytest.approx(expected, abs=1e-4)
    for labels in expected:
        assert score(lexicon.words_of(labels)) == pytest.approx(best_of(labels, spellings, score, gap), abs=1e-5)
    assert lexicon.words_of([3, 3]) is None


@examples(20)
@given(seed=st.integers(0, 1000), spellings=SPELLINGS, known=st.booleans())
def test_joint_decoding_is_brute_force_over_all_words(tmp_path_factory, seed, spellings, known):
    """CTC, a decoder and an n-gram model of words: each text, as the labels that spell it, with the sum of scores."""
    labels, time, limit = rf.Dim(4, name="label"), rf.Dim(5, name="time"), 4
    frames = random_frames(seed, 1, 5, 4)[0]
    table = np.log(np.random.default_rng(seed).dirichlet(np.ones(4), size=4)).astype("float32")
    words = rf.Dim(3 + known, name="word", vocab=[*WORDS, *["</s>"] * known])
    model = Model(tmp_path_factory.mktemp("arpa"), seed, 2)
    lexicon = rf.search.Lexicon(
        spellings, labels, words=words, scorer=rf.search.NGram(model.path, words), end=3, analyses=16
    )
    by_frame = rf.convert_to_tensor(frames, dims=[time, labels])
    ctc = rf.search.CTCPrefix(by_frame, axis=time, classes=labels, blank=0, end=3)
    scales = {"model": 0.5, "ctc": (ctc, 0.3), "words": (lexicon, 0.4)}
    rows = torch.tensor(table)
    found = rf.search.decode(
        lambda prev, state: (rows[prev], state), batch=1, beam=64, start=3, end=3, limit=limit, labels=labels,
        input_type="log_prob", scorers=scales, length_normalization_exponent=0.0,
    )  # fmt: skip
    by_ctc, expected = outputs(frames, 0), {}
    for count in range(limit):
        for spelled in itertools.product([1, 2], repeat=count):
            score = best_of(spelled, spellings, model.score)
            if score > -math.inf and spelled in by_ctc:
                total = 0.5 * sum(table[a, b] for a, b in itertools.pairwise([3, *spelled, 3]))
                expected[spelled] = total + 0.3 * math.log(by_ctc[spelled]) + 0.4 * score
    got = {one.labels: one.score for one in found.tree[0].hypotheses if one.complete}
    assert got == pytest.approx(expected, abs=1e-4)


def test_in_a_loop_as_in_decode(tmp_path):
    model, batch, before = Model(tmp_path, 5), 3, rf.Dim(4, name="before")
    labels, words = rf.Dim(4, name="label"), rf.Dim(3, name="word", vocab=WORDS)
    spellings = {"a": [[1], [1, 2]], "b": [[2, 1], [2]], "c": [1, 1, 2]}
    table = np.log(np.random.default_rng(3).dirichlet(np.ones(4), size=(batch, 4))).astype("float32")

    def lexicon():
        return rf.search.Lexicon(spellings, labels, words=words, scorer=rf.search.NGram(model.path, words), end=3)

    rows = torch.tensor(table)
    found = rf.search.decode(
        lambda prev, at: (rows[at, prev], at), torch.arange(batch), beam=3, start=3, end=3, limit=6, labels=labels,
        input_type="log_prob", scorers={"model": 1.0, "words": (lexicon(), 0.5)},
    )  # fmt: skip
    own, beam = rf.convert_to_tensor(table, dims=[rf.batch_dim, before, labels]), rf.Dim(3, name="beam")
    loop = rf.Loop(max_seq_len=6, debug=True)
    loop.state.prev = rf.full(dims=[rf.batch_dim, beam], fill_value=3, dtype="int64", sparse_dim=labels)
    with loop:
        scores = {"model": rf.gather(own, indices=loop.state.prev, axis=before), "words": (lexicon(), 0.5)}
        chosen = loop.choice(scores, beam=beam, axis=labels, input_type="log_prob", start=3)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 3, include_eos=False)
    assert loop.found.nbest(3) == found.nbest(3)
    for one, other in zip(found.tree, loop.found.tree, strict=True):
        assert [x.parts for x in one.hypotheses] == [pytest.approx(x.parts, abs=1e-5) for x in other.hypotheses]


def test_few_analyses_of_equal_words_are_as_good_as_many():
    """Analyses to which the same may come are kept once, so that four are enough for n-grams of any text."""
    label = rf.Dim(3, name="label", vocab=["-", "x", "y"])
    lexicon = rf.search.Lexicon({"x": "x", "xx": "xx", "y": "y"}, label, analyses=3)
    beam = rf.Dim(1, name="beam")
    state, total = lexicon.initial_state(batch_dims=[beam]), 0.0
    for last, following in zip([0, *[1] * 12], [*[1] * 12, 2], strict=True):
        scores, state = lexicon.score(rf.convert_to_tensor([last], dims=[beam], sparse_dim=label), state)
        total += float(scores.raw_tensor[0, following])
    assert total == 0.0
    assert lexicon.words_of("xy") == ["x", "y"]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda label: rf.search.Lexicon({"a": ""}, label), ParameterError, "has no labels"),
        (lambda label: rf.search.Lexicon({"a": "z"}, label), DimError, "z"),
        (lambda label: rf.search.Lexicon(["x"], label, separator="x"), ParameterError, "the separator"),
        (lambda label: rf.search.Lexicon(["x"], label, analyses=0), ParameterError, "analyses"),
        (lambda label: rf.search.Lexicon(["x"], label, scorer=3), ParameterError, "scorer"),
        (lambda label: rf.search.Lexicon(["x"], label, words=rf.Dim(1, name="w", vocab=["y"])), DimError, "'x'"),
    ],
)
def test_wrong_arguments(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(rf.Dim(3, name="label", vocab=["-", "x", "y"]))
