"""A run as one page: complete without scripts, harmless whatever is in it, within its bytes."""

from __future__ import annotations

import json
import re

import pytest

from rfnb.display.kit import page as pages
from rfnb.display.markup.html import visible
from rfnb.display.run import page as run_page
from tests.display.standins import SumRun, numbers

HOSTILE = "</script><script>alert(1)</script><!--\u2028"


@pytest.fixture(autouse=True)
def built(tmp_path, monkeypatch):
    (tmp_path / "page.js").write_text("console.log('</script><!--')")
    (tmp_path / "stepper.css").write_text(".rfnb {}")
    monkeypatch.setattr(pages, "STATIC", tmp_path)


def page_of(tmp_path, run, limit=None):
    return run_page.save_page(run, tmp_path / "x.html", limit).read_text(encoding="utf-8")


def recording(page):
    [text] = re.findall(r'<script type="application/json" id="rfnb-recording">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_all_steps_are_in_it_together_and_by_sequence(tmp_path):
    steps = recording(page_of(tmp_path, SumRun(numbers(2, 3), [3, 1], ["a", "b"])))["steps"]
    assert [(s["step"], s["sequence"]) for s in steps] == [(i, s) for s in (None, 0, 1) for i in range(3)]


def test_what_does_not_fit_is_left_out_and_said(tmp_path):
    run = SumRun(numbers(2, 40), [40, 1])
    whole = recording(page_of(tmp_path, run))["steps"]
    page = page_of(tmp_path, run, 20_000)
    steps = recording(page)["steps"]
    assert 1 < len(steps) < 40 < len(whole)
    assert sum(map(run_page.cost, steps)) <= 20_000
    assert f"{len(steps)} of 40 steps are on this page" in page
    assert "rfnb-recording" not in page_of(tmp_path, run, 0)


def test_nothing_in_it_ends_its_element(tmp_path):
    run = SumRun(numbers(2, 3), [3, 1], [HOSTILE, "b"])
    run.name = run.place = HOSTILE
    page = page_of(tmp_path, run)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page.replace("<!doctype", "")
    assert "\u2028" not in page.split("rfnb-recording")[1]
    assert recording(page)["run"]["name"] == visible(HOSTILE)
    assert "default-src &#x27;none&#x27;" in page


def test_without_the_built_script_it_is_the_history(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "STATIC", tmp_path / "nothing")
    page = page_of(tmp_path, SumRun(numbers(2, 3), [3, 1]))
    assert "<script" not in page
    assert "with loop:" in page


def test_a_run_without_steps(tmp_path):
    assert "<html" in page_of(tmp_path, SumRun(numbers(2, 0), [0, 0]))
