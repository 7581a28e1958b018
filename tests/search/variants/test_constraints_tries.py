"""Words in a trie against a set of words."""

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.test_choice import Net
from tests.search.variants.test_constraints import END, check, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


@examples(40)
@given(
    words=st.lists(st.lists(st.sampled_from([0, 2, 3, 4]), max_size=4).map(tuple), max_size=6),
    beam=st.integers(1, 6), limit=st.integers(0, 6), seed=st.integers(0, 1000),
)  # fmt: skip
def test_agrees_with_a_search_over_dicts(words, beam, limit, seed):
    net = Net(5, 2, seed)
    found = search(net, beam, limit, {"words": rf.search.trie(words, labels=net.label, end=END)}).found
    beginnings = {(*word, END)[:n] for word in words for n in range(len(word) + 2)}
    check(found, net, 2, beam, limit, lambda _, before, new: (*before, new) in beginnings)
    if limit > 4:
        assert {one.labels for tree in found.tree for one in tree.hypotheses} <= set(words)


def test_a_beam_of_all_words_finds_each_once():
    net = Net(5, 1, 3)
    words = ["", "c", "cd", "ce", "ddd", "cd"]
    found = search(net, 5, 6, {"words": rf.search.trie(words, labels=net.label, end="b")}, debug=True).found
    assert sorted(found.nbest(9)[0]) == sorted(set(words))


def test_replay_agrees():
    net = Net(5, 2, 3)
    run = search(net, 3, 6, {"words": rf.search.trie(["cd", "dec"], labels=net.label, end="b")}, debug=True).run
    assert [run[step].check for step in range(run.steps)] == ["replay agrees"] * run.steps


def test_without_an_end_words_are_followed_to_their_last_label():
    label = rf.Dim(4, name="label")
    trie = rf.search.trie([[2, 3], [2]], labels=label, end=None)
    state, seen = trie.initial_state(batch_dims=[]), []
    for last in [0, 2, 3]:
        scores, state = trie.score(rf.convert_to_tensor(last, sparse_dim=label), state)
        seen.append(rf.is_neg_infinite(scores).raw_tensor.logical_not().nonzero()[:, 0].tolist())
    assert seen == [[2], [3], []]


def test_labels_that_do_not_exist():
    label = rf.Dim(4, name="label")
    with pytest.raises(ParameterError, match="no such label"):
        rf.search.trie([[1, 4]], labels=label, end=0)
    with pytest.raises(ParameterError, match="no vocabulary"):
        rf.search.trie(["ab"], labels=label, end=0)
