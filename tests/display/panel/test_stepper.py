"""The inline stepper: a widget where it can be had, the static history where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rfnb.display.kit import page
from rfnb.display.kit.view import View
from rfnb.display.panel import stepper
from rfnb.errors import ViewError
from tests.display.standins import SumRun, numbers


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "stepper.js").write_text("export default { render() {} };")
    (tmp_path / "stepper.css").write_text(".rfnb {}")
    monkeypatch.setattr(page, "STATIC", tmp_path)
    stepper.widget_class.cache_clear()
    yield
    stepper.widget_class.cache_clear()


def a_run() -> SumRun:
    return SumRun(numbers(2, 3), [3, 1], ["a", "b"])


def test_without_the_built_files_the_history_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STATIC", tmp_path)
    stepper.widget_class.cache_clear()
    made = stepper.make(a_run(), None)
    assert isinstance(made, View)
    assert "make lab" in made.text
    assert "make lab" in made.html
    with pytest.raises(ViewError, match="not built"):
        page.asset("stepper.js")


def test_the_widget_carries_the_static_view(built):
    made = stepper.make(a_run(), batch="a")
    bundle, _ = made._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == made.model_id
    assert bundle[stepper.MIME]["model_id"] == made.model_id
    assert bundle[stepper.MIME]["session"]
    assert "sum" in bundle["text/plain"]
    assert bundle["text/html"].startswith("<div")
    assert (made.run["states"], made.first["sequence"]) == (["total", "offset"], 0)


def test_it_answers_messages(built):
    made, sent = stepper.make(a_run(), None), []
    made.send = sent.append
    made._on_message(made, {"id": 1, "command": "step", "args": {"run": 7, "step": 2, "sequence": 1}}, [])
    made._on_message(made, {"id": 2, "command": "run", "args": {"run": 8}}, [])
    assert [(reply["id"], reply["status"]) for reply in sent] == [(1, "ok"), (2, "gone")]


def test_a_run_without_steps(built):
    made = stepper.make(SumRun(numbers(2, 0), [0, 0]), None)
    assert made.first in (None, {})
