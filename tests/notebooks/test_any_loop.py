"""The notebook on plain loops: each bug is found, and the corrected loop is right."""

from __future__ import annotations

import pytest

import rfnb as rf
from tests.notebooks.cells import ran

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names():
    """The names that the cells define, the results of the cells by id, and the warnings."""
    with ran("07_any_loop.ipynb") as names:
        yield names


def test_words_are_spelled_right_alone_and_with_the_mask(names):
    backwards = [word[::-1] for word in names["fruits"]]
    assert [names["spell"]([word])[0] for word in names["fruits"]] == backwards
    assert names["spell"](names["fruits"]) != backwards == names["spell_right"](names["fruits"])


def test_attention_to_padding_is_found_at_the_first_step(names):
    run = names["run"]
    assert 0 in run.find("att[0, 4:].sum() > 0.1") and rf.runs["right"].find("att[0, 4:].sum() > 0.1") == []
    first = names["cell speller-fix"].first
    assert (first.name, first.step) == ("energy", 0)


def test_the_fork_spells_the_rest_of_the_word(names):
    fork = names["fork"]
    letters = "".join(names["LETTERS"][fork[step].prev.raw_tensor[0]] for step in range(1, fork.steps))
    assert letters.startswith("wik.") and fork.parent is names["run"]


def test_the_training_is_paused_before_the_weights_are_written(names):
    [warning] = names["warnings"]
    assert warning.startswith("training was not paused after step") and "not finite" in warning
    at = names["paused"][names["step"]]
    assert [value.name for value in at.values()] == ["x", "y", "normalized"]
    assert names["cell training-why"].tolist() == [0.0]
