"""What rfnb saved before files and views got their present names still opens: `tests/saved` holds it as it was then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.display.kit.view import maker

SAVED = Path(__file__).parent / "saved"
NOTEBOOK = json.loads((SAVED / "views.ipynb").read_text(encoding="utf-8"))
OUTPUTS = [output["data"] for cell in NOTEBOOK["cells"] for output in cell["outputs"] if "data" in output]
MIME = "application/vnd.rfnb.view+json"


def test_a_run_file_is_stepped_searched_and_compared():
    run = rf.load_run(SAVED / "sum.rfrun")
    assert run[1].after.total.raw_tensor.tolist() == [4.0, 9.0, 7.0]
    assert run.find(rf.when.over(8, "total")) == [1, 3]
    assert "sum" in repr(rf.show(run)) and "phi" in rf.show(run).html
    assert rf.compare(run, rf.load_run(SAVED / "sum.rfrun"))


def test_a_run_file_can_be_saved_again(tmp_path):
    run = rf.load_run(SAVED / "sum.rfrun")
    again = rf.load_run(run.save(tmp_path / "again.rfrun"))
    assert again.stack("total").raw_tensor.tolist() == run.stack("total").raw_tensor.tolist()


@pytest.mark.parametrize("number", range(len([output for output in OUTPUTS if MIME in output])))
def test_outputs_of_a_notebook_have_a_kind_that_is_known(number):
    view = [output[MIME] for output in OUTPUTS if MIME in output][number]
    if "kind" in view:
        assert maker(view["kind"])
