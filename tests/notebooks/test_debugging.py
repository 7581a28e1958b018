"""The notebook on debugging: each bug is found, and the corrected code is right. `test_run_all` runs it in a kernel."""

from __future__ import annotations

import pytest

import rfnb as rf
from tests.notebooks.cells import ran

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    """The names that the cells define, the results of the cells by id, and the warnings."""
    with ran("06_debugging.ipynb") as names:
        yield names


def test_pauses_are_skipped_with_a_warning_each(found):
    skipped = [words for words in found["warnings"] if "was not paused" in words]
    assert len(skipped) == 2 and "prev repeats" in skipped[0] and "loss is not finite" in skipped[1]
    assert not rf.pauses


def test_the_decoder_is_held_where_it_repeats_itself(found):
    right = found["right"]
    assert [right.stack("best").labels()[step][0] for step in range(8)] == "HH AH M IH NG B ER D".split()
    assert found["cell repeats-run"].step == 3
    assert found["cell repeats-over"] == [1, 2, 3]
    assert right.find(rf.when.over(1.0, "context")) == []
    assert (found["cell repeats-compare"].first.name, found["cell repeats-compare"].first.step) == ("context", 1)


def test_the_training_is_held_at_the_batch_with_silence(found):
    at = found["cell nan-run"]
    assert not at["loss"].raw_tensor.isfinite()
    assert found["cell nan-why"].tolist() == [0.0]
    assert 0 < found["cell nan-fix"] < float("inf")
    others = [i for i in range(8) if i != found["bad"]]
    assert at["normalized"].raw_tensor[others].isfinite().all()


def test_the_softmax_over_padding_is_found(found):
    assert found["cell padding-compare"].first.name == "x_t" and found["cell padding-compare"].first.step == 0
    report = found["cell padding-check"]
    assert not report and report.first.event.op == "softmax"
    assert found["cell padding-fix"]


def test_the_product_leaves_the_steps(found):
    slow, fast = ([(row.node.op, row.place) for row in found[name].rows] for name in ("cell slow", "cell slow-fix"))
    assert {place for _, place in slow} == {"steps"} and ("concat", "steps") in slow
    assert ("matmul", "once") in fast and "concat" not in dict(fast)
    assert found["difference"] < 1e-5
