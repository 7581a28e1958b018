"""The search errors of the model of `notebooks/g2p.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

import g2p
import g2p_beams
import g2p_data

CHECKPOINT = Path(__file__).parents[2] / "notebooks" / "data" / "g2p_large.safetensors"
WORDS = ["islet", "laugh", "pajama", "i", "knickerbocker"]


@pytest.fixture(scope="module")
def model() -> g2p.Model:
    """The model of the checkpoint."""
    return g2p.load(CHECKPOINT)[0]


@pytest.fixture(scope="module")
def references() -> g2p_beams.References:
    """All pronunciations of a few words, which the model has not seen."""
    dev = g2p_data.load()["dev"]
    return {word: dev.get(word, [["AY"]]) for word in WORDS}


def test_the_score_of_an_output_is_that_of_the_search(model):
    for tree in model.search(WORDS, beam_size=3).tree:
        texts = [each.text for each in tree.hypotheses if each.complete]
        scores = model.scores_of([(tree.name, text.split()) for text in texts])
        assert scores == pytest.approx([each.score for each in tree.hypotheses if each.complete], abs=1e-4)


@pytest.mark.slow
def test_each_pronunciation_has_its_score(model, references):
    scores = g2p_beams.reference_scores(model, references)
    assert [len(scores[word]) for word in WORDS] == [len(references[word]) for word in WORDS]
    assert len(references["pajama"]) == 2
    [expected] = model.scores_of([("pajama", references["pajama"][1])])
    assert scores["pajama"][1] == pytest.approx(expected, abs=1e-5)


def test_greedy_search_misses_a_word_that_a_beam_finds(model, references):
    found = g2p_beams.searches(model, WORDS, beams=(1, 4))
    report = g2p_beams.report(model, found, references)
    assert report["beam 1"]["islet"].verdict == "search error"
    assert report["beam 4"]["islet"].verdict == "correct"
    head, greedy, wide = g2p_beams.table(found, references, report).splitlines()
    wrong = [row for row in report["beam 1"].rows if row.verdict != "correct"]
    assert int(greedy.split()[4]) == len(wrong) > len(report["beam 4"].rows) - report["beam 4"].classes["correct"]
    assert head.split()[1:4] == ["PER", "WER", "wrong"] and wide.startswith("beam 4")
