"""Several labels that end hypotheses, in `rf.search.decode` and in loops."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError, SearchError
from tests.examples import examples
from tests.search.test_beam_endings import SIZES, same, truth
from tests.search.test_choice import Net, truth as competing
from tests.search.test_decoding import step_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def decoded(net, beam, limit, ends, **options):
    step, state = step_of(net)
    return rf.search.decode(step, state, beam=beam, start=0, end=list(ends), limit=limit, include_eos=True, **options)


def in_loop(net, batch, places, limit, ends, **options):
    """The same in a loop. ends: also an option of the choice if it needs them."""
    beam = rf.Dim(places, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search")
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        chosen = loop.choice(logits, beam=beam, axis=net.label, input_type="logits", **options)
        loop.state.prev = chosen.labels
        over = chosen.labels == ends[0]
        for end in ends[1:]:
            over = rf.logical_or(over, chosen.labels == end)
        loop.end(over, include_eos=True)
    return loop.found


@examples(40)
@given(**SIZES | {"labels": st.integers(3, 5)}, ends=st.sampled_from([(1, 2), (2, 0), (0, 1, 2)]))
def test_apart_they_are_a_search_with_a_list_of_ended_ones(
    labels, batch, living, limit, patience, exponent, seed, ends
):
    net, room = Net(labels, batch, seed), int(np.ceil(living * (patience or 1.0)))
    given = {"ended": "apart", "patience": patience}
    found = decoded(net, living, limit, ends, **given, length_normalization_exponent=exponent)
    places = living + max(living, room)
    given |= {"living": living, "end": list(ends), "length_normalization": exponent != 0}
    loop = in_loop(net, batch, places, limit, ends, **given)
    for sequence, (tree, other) in enumerate(zip(found.tree, loop.tree, strict=True)):
        kept = places - living if patience is None else None
        options = {"patience": patience, "exponent": exponent, "room": kept, "ends": ends}
        expected = truth(net, sequence, living, limit, **options)
        same(tree, expected)
        same(other, expected)
        assert tree.end_labels == other.end_labels == set(ends)


@examples(20)
@given(seed=st.integers(0, 1000), beam=st.integers(1, 5), exponent=st.sampled_from([0.0, 1.0]))
def test_competing_they_are_a_search_over_dicts(seed, beam, exponent):
    net, ends = Net(5, 2, seed), (1, 3)
    found = decoded(net, beam, 6, ends, length_normalization_exponent=exponent)
    options = {"length_normalization": exponent != 0}
    loop = in_loop(net, 2, beam, 6, ends, **options)
    for sequence, trees in enumerate(zip(found.tree, loop.tree, strict=True)):
        expected = competing(net, sequence, beam, 6, end=ends, exponent=exponent)
        for tree in trees:
            same(tree, [(labels, score) for labels, score, _ in expected])
            assert [one.complete for one in tree.hypotheses] == [ended for _, _, ended in expected]


def test_the_lengths_before_any_of_them():
    net = Net(5, 2, 3)
    parts = {"constraints": [rf.search.lengths(end=["b", "d"], minimum=2, maximum=3)]}
    found = decoded(net, 4, 6, (1, 3), labels=net.label, **parts)
    assert all(one.complete and 3 <= len(one.labels) <= 4 for tree in found.tree for one in tree.hypotheses)
    assert all(not {1, 3} & {*one.labels[:-1]} for tree in found.tree for one in tree.hypotheses)


def test_the_trees_and_files_know_them(tmp_path):
    found = decoded(Net(5, 2, 3), 4, 6, (1, 3), labels=list("abcde"))
    tree = found.tree[0]
    loaded = rf.search.load(found.save(tmp_path / "ends.rfbeam")).tree[0]
    for other in (loaded, rf.search.Tree.from_json(tree.to_json())):
        assert other.end_labels == tree.end_labels == {1, 3}
        assert [one.text for one in other.hypotheses] == [one.text for one in tree.hypotheses]


def test_texts_of_labels_and_labels_that_do_not_exist():
    net = Net(5, 2, 3)
    assert decoded(net, 4, 6, "bd", labels=net.label).nbest(4) == decoded(net, 4, 6, (1, 3), labels=net.label).nbest(4)
    with pytest.raises(SearchError, match="end=9, scores of 5 labels"):
        decoded(net, 4, 6, (1, 9))
    with pytest.raises(ParameterError, match="`end`"):
        decoded(net, 4, 6, (1, -1))
