"""Texts as word pieces, against all sequences of pieces."""

import itertools

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.search.explain.reference import spelled
from tests.examples import examples

MADE = {
    "▁": ["▁a", "▁b", "▁", "a", "b", "ab", "▁ab", "ba"],
    "Ġ": ["a", "b", "Ġ", "Ġa", "Ġb", "ab", "Ġab", "ba"],
    "##": ["a", "b", "##a", "##b", "ab", "##ab", "ba", "##ba"],
    "@@": ["a", "b", "a@@", "b@@", "ab", "ab@@", "ba", "ba@@"],
    "</w>": ["a", "b", "a</w>", "b</w>", "ab", "ab</w>", "ba</w>", "ba"],
}


@examples(60)
@given(
    mark=st.sampled_from(sorted(MADE)), which=st.sets(st.integers(0, 7), min_size=2),
    text=st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=2).map(" ".join),
)  # fmt: skip
def test_pieces_are_found_where_some_join_to_the_text(mark, which, text):
    labels = ["</s>", *(MADE[mark][i] for i in sorted(which))]
    vocab = rf.Vocab(labels)
    found = spelled(text, vocab)
    pieces = any(mark in label for label in labels) and any(len(label) > 1 for label in labels[1:])
    rows = (row for count in range(1, 7) for row in itertools.product(range(1, len(labels)), repeat=count))
    exists = pieces and any(vocab.join(row) == text for row in rows)
    assert (found is not None) == exists or len(found or ()) > 6
    if found is not None:
        assert vocab.join(found) == text


def test_as_few_pieces_as_there_can_be():
    vocab = rf.Vocab(["</s>", "▁a", "a", "aa", "▁aa", "▁"])
    assert spelled("aaaa a", vocab) == (4, 3, 1)
    assert spelled("aa a", rf.Vocab(["</s>", "aa", "Ġa", "Ġaa"])) == (1, 2)  # as GPT-2 begins a text


@pytest.mark.parametrize("labels", [["</s>", "K", "AE"], list("abc "), ["</s>", "▁", "a", "b"]])
def test_labels_that_are_no_pieces(labels):
    assert spelled("a b", rf.Vocab(labels)) is None
