"""The notebook on `generate`: its two mistakes are there, and are explained as its words say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.cells import FOLDER, ran

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names():
    """The names that the cells define, and the results of the cells by id."""
    pytest.importorskip("transformers")
    with ran("08_generate.ipynb") as names:
        yield names


def test_the_search_error_is_one_and_the_kept_word_wins(names):
    where, kept = names["found"].tree[0].where("here comes the dog"), names["found"].tree[0].keep(0, "here")
    assert (where.verdict, where.fall.step, where.fall.rank) == ("search error", 0, 4)
    scores = dict(where.label_scores)
    assert scores["here"] == pytest.approx(-1.7, abs=0.1) and min(scores["comes"], scores["dog"]) > -0.01
    assert names["found"].tree[0].best.text != "here comes the dog" == kept.best.text
    assert kept.best.score == pytest.approx(where.score, abs=1e-4)
    assert names["cell search-wider"] == "here comes the dog"


def test_the_model_error_is_one_and_the_kept_word_goes_astray(names):
    where = names["cell model-where"]
    assert (where.verdict, where.fall.step) == ("model error", 4)
    scores = dict(where.label_scores)
    assert scores["cat"] < -4.6 and scores["today"] < scores["cat"] and scores["sees"] > -0.1
    grown = {each.text for each in names["kept"].hypotheses} - {each.text for each in where.tree.hypotheses}
    assert grown and all(text.startswith("the dog sees the cat sees") for text in grown)


def test_the_wrong_word_looks_at_no_object(names):
    wrong, right = (names[name].weights.raw_tensor[0, 0] for name in ("wrong", "right"))  # words written × words read
    assert right[4, 4:6].sum() > 0.9 and wrong[4, 4:6].sum() < 0.4 and wrong[1, 5] > 0.7


def test_the_weights_are_small():
    files = [*Path(FOLDER, "data", "translate").iterdir()]
    assert sum(file.stat().st_size for file in files) < 250_000
