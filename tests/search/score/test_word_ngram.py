"""A word n-gram over parts of words against a plain loop over the words of a text."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rfnb as rf
from rfnb.errors import DimError
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


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 500), style=st.sampled_from(sorted(PARTS)), with_unknown=st.booleans(), data=st.data(),
    unknown_score=st.sampled_from([0.0, -1.5]),
)  # fmt: skip
def test_the_scores_of_labels_add_up_to_those_of_the_words(
    tmp_path_factory, seed, style, with_unknown, data, unknown_score
):
    parts = PARTS[style]
    end = parts.index("</s>") if "</s>" in parts else parts.index("<eos>")
    grams, backoffs = model_of(seed, with_unknown)
    path = tmp_path_factory.mktemp("arpa") / "lm.arpa"
    path.write_text(text_of(grams, backoffs))
    inner = [i for i in range(len(parts)) if i != end]
    texts = data.draw(st.lists(st.lists(st.sampled_from(inner), min_size=4, max_size=4), min_size=1, max_size=4))
    piece, beam = rf.Dim(len(parts), name="piece", vocab=parts), rf.Dim(len(texts), name="beam")
    lm = rf.search.WordNGram(path, piece, unknown_score=unknown_score)
    state, sums = lm.initial_state(batch_dims=[beam]), np.zeros(len(texts))
    for step in range(5):
        column = [end if step == 0 else text[step - 1] for text in texts]
        scores, state = lm.score(rf.convert_to_tensor(np.asarray(column), dims=[beam], sparse_dim=piece), state)
        rows = scores.copy_transpose([beam, piece]).raw_tensor.numpy()
        for i, text in enumerate(texts):
            for label in range(len(parts)):
                whole = [*text[:step], label]
                wanted = expected_score(whole, parts, grams, backoffs, end, unknown_score)
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


def test_labels_that_do_not_show_words_are_refused(tmp_path):
    (tmp_path / "lm.arpa").write_text(text_of(*model_of(1, True)))
    with pytest.raises(DimError, match="where words begin"):
        rf.search.WordNGram(tmp_path / "lm.arpa", rf.Dim(3, name="piece", vocab=["</s>", "a", "b"]))
    with pytest.raises(DimError, match="no texts"):
        rf.search.WordNGram(tmp_path / "lm.arpa", rf.Dim(3, name="piece"))
