"""The lecture on beam search: what it claims, and that it is quick. That it runs is also tested by `test_run_all`."""

from __future__ import annotations

import itertools
from math import prod
from time import process_time

import pytest

from tests.notebooks.cells import ran

SECONDS = 5


@pytest.fixture(scope="module")
def lecture():
    """The names that the cells define."""
    begin = process_time()
    with ran("04_beam_search.ipynb") as names:
        yield names | {"seconds": process_time() - begin}


def test_all_cells_together_take_a_few_seconds(lecture):
    assert lecture["seconds"] < SECONDS


def test_the_rows_of_the_table_are_probabilities(lecture):
    assert all(sum(row.values()) == pytest.approx(1) for row in lecture["following"].values())
    assert lecture["WORDS"][0] == "</s>" and len(lecture["WORDS"]) == 1 + 6


def test_greedy_search_misses_what_a_beam_of_two_finds(lecture):
    best = most_probable(lecture["following"])
    assert lecture["greedy"].nbest(1) != [[best]]
    assert lecture["found"].nbest(1) == [[best]] == [["a dog barks"]]
    assert lecture["lost"].verdict == "search error"


def test_the_kept_candidate_leads_to_what_greedy_search_misses(lecture):
    assert lecture["kept"].best.text == "a dog barks" != lecture["greedy_loop"].found.tree[0].best.text
    assert lecture["kept"].run.forked_at == 0


def most_probable(following) -> str:
    """Of all sentences of up to five words, by their probabilities."""
    words = [word for word in following if word != "</s>"]
    sentences = [each for length in range(6) for each in itertools.product(words, repeat=length)]

    def probability(sentence):
        return prod(following[a].get(b, 0) for a, b in itertools.pairwise(["</s>", *sentence, "</s>"]))

    return " ".join(max(sentences, key=probability))


def test_normalization_moves_a_long_sentence_up(lecture):
    plain, normalized = (lecture[name].nbest(12)[0] for name in ("complete", "normalized"))
    assert plain.index("the cat") < plain.index("a dog sleeps")
    assert normalized.index("a dog sleeps") < normalized.index("the cat")


def test_the_beam_of_torch_differs_for_the_first_sequence_only(lecture):
    one, three = lecture["one"], lecture["three"]
    assert [a == b for a, b in zip(one.nbest(1), three.nbest(1), strict=True)] == [False, True]
    assert three.tree["first"].best.score > one.tree["first"].best.score
