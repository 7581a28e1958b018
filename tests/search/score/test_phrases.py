"""Boosted phrases against counting their occurrences in the text."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples

END = 0
words = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@examples(80)
@given(
    phrases=st.dictionaries(words.map(tuple), st.sampled_from([0.5, 1.0, 2.0, -1.0]), max_size=6),
    texts=st.lists(st.lists(st.integers(1, 3), min_size=7, max_size=7), min_size=1, max_size=3),
)
def test_the_reward_of_a_text_counts_the_occurrences_of_phrases(phrases, texts):
    letter, beam = rf.Dim(4, name="letter"), rf.Dim(len(texts), name="beam")
    scorer = rf.search.Phrases(phrases, letter)
    state, total = scorer.initial_state(batch_dims=[beam]), np.zeros(len(texts))
    for step in range(8):
        before = [2 if step == 0 else text[step - 1] for text in texts]
        scores, state = scorer.score(rf.convert_to_tensor(before, dims=[beam], sparse_dim=letter), state)
        now = [END if step == 7 else text[step] for text in texts]
        total += scores.copy_transpose([beam, letter]).raw_tensor.numpy()[range(len(texts)), now]
    for text, reward in zip(texts, total, strict=True):
        expected = 0.0
        for phrase, boost in phrases.items():
            count = sum(tuple(text[i : i + len(phrase)]) == phrase for i in range(len(text)))
            expected += count * boost * len(phrase)
        assert reward == pytest.approx(expected, abs=1e-4)


def test_the_beginning_of_a_phrase_is_rewarded_and_taken_back():
    letter, beam = rf.Dim(4, name="letter", vocab=["</s>", "a", "b", "c"]), rf.Dim(1, name="beam")
    scorer = rf.search.Phrases(["a b c"], letter, boost=0.5)
    state, found = scorer.initial_state(batch_dims=[beam]), []
    for before, now in [(0, 1), (1, 2), (2, 2)]:
        scores, state = scorer.score(rf.convert_to_tensor([before], dims=[beam], sparse_dim=letter), state)
        found.append(scores.raw_tensor[0, now].item())
    assert found == [0.5, 0.5, -1.0]


def test_phrases_that_are_none_are_refused():
    letter = rf.Dim(3, name="letter", vocab=["</s>", "a", "b"])
    with pytest.raises(ParameterError, match="empty"):
        rf.search.Phrases([""], letter)
    with pytest.raises(ParameterError, match="does not exist"):
        rf.search.Phrases([[3]], letter)
    with pytest.raises(DimError):
        rf.search.Phrases(["a z"], letter)
    with pytest.raises(ParameterError, match="no texts"):
        rf.search.Phrases(["a"], rf.Dim(3, name="letter"))
