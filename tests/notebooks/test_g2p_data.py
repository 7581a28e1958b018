"""The dictionary of the tour: sizes of the split, vocabularies, error rates."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import g2p_data

words = st.text("abc", max_size=6)


@pytest.fixture(scope="module")
def data() -> g2p_data.Split:
    return g2p_data.load()


@pytest.mark.slow
def test_the_split_has_the_sizes_in_the_readme(data):
    assert len(data["train"]) == 117_589
    assert len({word for word, _ in data["train"]}) == 109_917
    assert len(data["dev"]) == 2_483
    assert len(data["test"]) == 12_526


def test_no_word_is_in_two_parts(data):
    train = {word for word, _ in data["train"]}
    assert not train & data["dev"].keys()
    assert not train & data["test"].keys()
    assert not data["dev"].keys() & data["test"].keys()


def test_all_letters_and_phones_are_in_the_vocabularies(data):
    assert {letter for word, _ in data["train"] for letter in word} == set(g2p_data.LETTERS)
    assert {phone for _, phones in data["train"] for phone in phones} == set(g2p_data.PHONES)
    held_out = [*data["dev"].items(), *data["test"].items()]
    assert {letter for word, _ in held_out for letter in word} <= set(g2p_data.LETTERS)
    assert {phone for _, all_phones in held_out for phones in all_phones for phone in phones} <= set(g2p_data.PHONES)


def test_each_word_has_a_pronunciation_and_none_twice(data):
    for pronunciations in data["test"].values():
        assert pronunciations and all(pronunciations)
        assert len(set(map(tuple, pronunciations))) == len(pronunciations)


def test_a_line_with_variant_stress_and_comment():
    lines = [
        "tomato T AH0 M EY1 T OW2",
        "tomato(2) T AH0 M AA1 T OW2 # british",
        "3d TH R IY1 D",
        "tomato(3) T AH2 M EY1 T OW0",
    ]
    american, british = "T AH M EY T OW".split(), "T AH M AA T OW".split()
    assert list(g2p_data.entries("\n".join(lines))) == [("tomato", american), ("tomato", british)]


@pytest.mark.parametrize(
    ("a", "b", "distance"), [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0), ("ab", "ba", 2)]
)
def test_edit_distance_of_known_pairs(a, b, distance):
    assert g2p_data.edit_distance(a, b) == distance


@given(words, words, words)
def test_edit_distance_is_a_distance(a, b, c):
    distance = g2p_data.edit_distance
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_the_best_matching_reference_counts():
    references = {"route": [["R", "UW", "T"], ["R", "AW", "T"]]}
    assert g2p_data.error_rates({"route": ["R", "AW", "T"]}, references) == (0.0, 0.0)
    assert g2p_data.error_rates({"route": []}, references) == (100.0, 100.0)


def test_no_answers_are_no_errors():
    assert g2p_data.error_rates({}, {}) == (0.0, 0.0)
