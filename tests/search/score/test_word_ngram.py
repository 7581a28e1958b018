"""A word n-gram over parts of words against a plain loop over the words of a text."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError
from tests.examples import examples
from tests.search.score.test_ngram import log_prob, text_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

PARTS = {
    "▁": ["</s>", "▁a", "▁ab", "b", "a", "▁", "<unk>"],
    "@@": ["</s>", "a", "a@@", "ab@@", "b", "b@@"],
    " ": ["</s>", "a", "b", " "],
    "<space>": ["a", "b", "<space>", "<eos>"],
}
WORDS = ["a", "ab", "ba", "abb", "b"]


def model_of(seed, with_unknown):
    random = np.random.RandomState(seed)
    grams = {(word,): random.uniform(-2, -0.1) for word in ["<s>", "</s>", *WORDS, *["<unk>"] * with_unknown]}
    for first in ["<s>", *WORDS, *["<unk>"] * with_unknown]:
        for second in ["</s>", *WORDS]:
            if random.rand() < 0.4:
                grams[first, second] = random.uniform(-2, -0.1)
    backoffs = {gram: random.uniform(-1, 0) for gram in grams if len(gram) == 1 and random.rand() < 0.7}
    return grams, backoffs


def words_of(labels, parts, ended):
    """The words that have ended, and whether the text has."""
    text = "".join(parts[label] for label in labels[: len(labels) - ended])
    if "a@@" in parts:
        text = "".join(
            part if part.endswith("@@") else part + " " for part in (parts[i] for i in labels[: len(labels) - ended])
        )
        whole = text.replace("@@", "")
        open_ = bool(text) and not text.endswith(" ")
    else:
        whole = re.sub("▁|<space>", " ", text)
        open_ = bool(whole) and not whole.endswith(" ")
    words = whole.split()
    return words if ended or not open_ else words[:-1]


def expected_score(labels, parts, grams, backoffs, end, unknown_score):
    ended = bool(labels) and labels[-1] == end
    found, before = 0.0, "<s>"
    words = words_of(labels, parts, ended) + ["</s>"] * ended
    for word in words:
        known = (word,) in grams and word != "<unk>"  # the label of unknown parts spells an unknown word
        name = word if known else "<unk>"
        if (name,) not in grams:
            return -math.inf
        found += log_prob(grams, backoffs, (before,), name) * math.log(10) + (0.0 if known else unknown_score)
        before = name
    return found


def begun_word(labels, parts):
    """The text of the word that has not ended; empty if there is none."""
    if "a@@" in parts:
        before = next((i for i in range(len(labels), 0, -1) if not parts[labels[i - 1]].endswith("@@")), 0)
        return "".join(parts[label].removesuffix("@@") for label in labels[before:])
    text = re.sub("▁|<space>", " ", "".join(parts[label] for label in labels))
    return text.rsplit(" ", 1)[-1]


def spelled(text, parts):
    """Whether labels can spell a text."""
    known = {part.strip("▁@ ") for part in parts if "<" not in part} - {""}
    return not text or any(text.startswith(part) and spelled(text[len(part) :], parts) for part in known)


def expected_ahead(labels, parts, grams, unknown_score):
    """The best unigram of the words that the begun word may still become."""
    begun = begun_word(labels, parts)
    if not begun:
        return 0.0
    words = [word for word in WORDS if word.startswith(begun) and spelled(word[len(begun) :], parts)]
    best = max((grams[word,] for word in words), default=-math.inf) * math.log(10)
    rest = grams[("<unk>",)] * math.log(10) + unknown_score if ("<unk>",) in grams else -math.inf
    return best if words else rest


@examples(80)
@given(
    seed=st.integers(0, 500), style=st.sampled_from(sorted(PARTS)), with_unknown=st.booleans(), data=st.data(),
    unknown_score=st.sampled_from([0.0, -1.5]), lookahead=st.booleans(),
)  # fmt: skip
def test_the_scores_of_labels_add_up_to_those_of_the_words(
    tmp_path_factory, seed, style, with_unknown, data, unknown_score, lookahead
):
    parts = PARTS[style]
    end = parts.index("</s>") if "</s>" in parts else parts.index("<eos>")
    grams, backoffs = model_of(seed, with_unknown)
    path = tmp_path_factory.mktemp("arpa") / "lm.arpa"
    path.write_text(text_of(grams, backoffs))
    inner = [i for i in range(len(parts)) if i != end]
    texts = data.draw(st.lists(st.lists(st.sampled_from(inner), min_size=4, max_size=4), min_size=1, max_size=4))
    piece, beam = rf.Dim(len(parts), name="piece", vocab=parts), rf.Dim(len(texts), name="beam")
    lm = rf.search.WordNGram(path, piece, unknown_score=unknown_score, lookahead=lookahead)
    state, sums = lm.initial_state(batch_dims=[beam]), np.zeros(len(texts))
    for step in range(5):
        column = [end if step == 0 else text[step - 1] for text in texts]
        scores, state = lm.score(rf.convert_to_tensor(np.asarray(column), dims=[beam], sparse_dim=piece), state)
        rows = scores.copy_transpose([beam, piece]).raw_tensor.numpy()
        for i, text in enumerate(texts):
            for label in range(len(parts)):
                whole = [*text[:step], label]
                wanted = expected_score(whole, parts, grams, backoffs, end, unknown_score)
                if lookahead and label != end:
                    wanted += expected_ahead(whole, parts, grams, unknown_score)
                assert not np.isnan(rows[i, label])
                assert sums[i] + rows[i, label] == pytest.approx(wanted, abs=1e-4)
        if step < 4:
            sums += [rows[i, text[step]] for i, text in enumerate(texts)]


def test_in_a_search_each_hypothesis_has_the_score_of_its_words(tmp_path):
    parts = PARTS["▁"]
    grams, backoffs = model_of(3, True)
    (tmp_path / "lm.arpa").write_text(text_of(grams, backoffs))
    piece, beam = rf.Dim(len(parts), name="piece", vocab=parts), rf.Dim(7**4, name="beam")
    scores = np.random.RandomState(1).uniform(-1, 0, len(parts)).astype("float32")
    loop = rf.Loop(max_seq_len=4)
    with loop:
        lm = rf.search.WordNGram(tmp_path / "lm.arpa", piece)
        both = {"model": rf.convert_to_tensor(scores, dims=[piece]), "lm": (lm, 0.8)}
        chosen = loop.choice(both, beam=beam, input_type="log_prob", length_normalization=False)
        loop.end(chosen.labels == 0, include_eos=True)
    for one in loop.found.tree[0].hypotheses[:200]:
        assert one.parts["lm"] == pytest.approx(
            expected_score(list(one.labels), parts, grams, backoffs, 0, 0.0), abs=1e-3
        )
    assert sum(one.complete for one in loop.found.tree[0].hypotheses) > 100


@pytest.mark.parametrize("beam_size", [1, 7**4])
def test_lookahead_keeps_the_scores_of_texts_and_helps_a_small_beam(tmp_path, beam_size):
    parts = PARTS["▁"]
    grams, backoffs = model_of(3, True)
    grams[("<unk>",)] = -9.0  # so that most ways to spell a word are bad
    (tmp_path / "lm.arpa").write_text(text_of(grams, backoffs))
    piece, beam = rf.Dim(len(parts), name="piece", vocab=parts), rf.Dim(beam_size, name="beam")
    scores = np.asarray([-4.0, -1.0, -1.1, -1.1, -1.0, -9.0, -9.0], "float32")
    found = {}
    for lookahead in (False, True):
        loop = rf.Loop(max_seq_len=4)
        with loop:
            lm = rf.search.WordNGram(tmp_path / "lm.arpa", piece, lookahead=lookahead)
            both = {"model": rf.convert_to_tensor(scores, dims=[piece]), "lm": (lm, 0.8)}
            chosen = loop.choice(both, beam=beam, input_type="log_prob", length_normalization=False)
            loop.end(chosen.labels == 0, include_eos=True)
        found[lookahead] = loop.found.tree[0]
    for tree in found.values():
        for one in [one for one in tree.hypotheses if one.complete][:200]:
            expected = expected_score(list(one.labels), parts, grams, backoffs, 0, 0.0)
            assert one.parts["lm"] == pytest.approx(expected, abs=1e-3)
            model = sum(scores[label] for label in one.labels)
            assert one.sum == pytest.approx(model + 0.8 * expected, abs=1e-3)
    if beam_size > 1:
        assert sum(one.complete for one in found[True].hypotheses) > 100
        return
    for lookahead, tree in found.items():
        begun = [begun_word(tree.labels[: step + 1, 0].tolist(), parts) for step in range(3)]
        assert all(any(word.startswith(each) for word in WORDS) for each in begun) == lookahead


def test_labels_that_do_not_show_words_are_refused(tmp_path):
    (tmp_path / "lm.arpa").write_text(text_of(*model_of(1, True)))
    with pytest.raises(DimError, match="where words begin"):
        rf.search.WordNGram(tmp_path / "lm.arpa", rf.Dim(3, name="piece", vocab=["</s>", "a", "b"]))
    with pytest.raises(DimError, match="no texts"):
        rf.search.WordNGram(tmp_path / "lm.arpa", rf.Dim(3, name="piece"))
