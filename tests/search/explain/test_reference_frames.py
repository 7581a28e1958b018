"""Where a reference was lost in a search over frames, against the prefixes of all places."""

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.test_frames_ctc import frames_of


def search(lengths, beam, seed=0, labels=3):
    _, log_probs, time, axis = frames_of(lengths, labels, seed)
    return rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=beam, labels=list("-abc")[:labels])


@examples(40)
@given(
    length=st.integers(0, 6), beam=st.integers(1, 4), seed=st.integers(0, 99),
    reference=st.lists(st.integers(1, 2), max_size=4).map(tuple),
)  # fmt: skip
def test_a_reference_is_followed_as_long_as_it_can_come(length, beam, seed, reference):
    tree = search([length], beam, seed).tree[0]
    found, last = tree.where(reference), tree.steps - 1
    fall = None
    for step in range(tree.steps):
        prefixes = {node.place: tree.prefix(step, node.place) for node in tree.nodes(step)}
        fits = [place for place, labels in prefixes.items() if labels == reference[: len(labels)]]
        if step == last:
            fits = [place for place in fits if prefixes[place] == reference]
        if not fits:
            fall = step
            break
        assert found.nodes[step].place == min(fits, key=lambda place, step=step: tree.node(step, place).rank)
    assert (found.fall.step if found.fall else None) == fall
    in_beam = [each for each in tree.hypotheses if each.labels == reference]
    assert found.found == (in_beam[0] if in_beam else None)
    if length:
        assert bool(in_beam) == (fall is None)


def test_why_and_compare_are_about_labels_without_blanks():
    narrow, wide = search([6], 2, 3), search([6], 60, 3)
    tree = wide.tree[0]
    for number, each in enumerate(tree.hypotheses[:3]):
        assert tree.why(number).labels == each.labels and tree.why(each.text).final == each
    assert rf.compare(wide, search([6], 60, 3)).agree
    difference = rf.compare(narrow, wide)
    texts = [prefix.text for prefix in (*difference.first.only_a, *difference.first.only_b)]
    assert texts and not any("-" in text for text in texts)


def test_a_lost_reference_is_blamed_on_search_only_with_its_score():
    narrow, wide = search([6], 2, 3), search([6], 60, 3)
    better = [each for each in wide.tree[0].hypotheses if each.score > narrow.tree[0].best.score + 1e-3]
    lost = [each for each in better if narrow.tree[0].where(each.labels).found is None]
    assert lost
    for each in lost:
        assert narrow.tree[0].where(each.labels, forced=each.score).verdict == "search error"
        assert narrow.tree[0].where(each.labels).verdict == "undecided"


def test_merged_scores_cannot_be_weighed_again():
    with pytest.raises(rf.errors.SearchError, match="merged"):
        search([3], 2).rerank(length_normalization_exponent=1.0)
