"""What `rf.show` gives, and how it is saved."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rfnb as rf
from rfnb.core.ground import show as core_show
from rfnb.display.kit import page
from rfnb.display.kit.blocks import Figure, Page, note_page
from rfnb.display.kit.page import MIME
from rfnb.display.kit.view import View, class_name, views, write_atomically
from rfnb.display.markup.html import el
from rfnb.display.show import show
from rfnb.errors import ViewError
from tests.display.standins import Raw, batch_dim, batch_of, numbers


class Thing(core_show.Shown):
    """Nobody can show it."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(views().kinds, class_name(Raw), "tensor")


def test_always_text_and_html(table):
    view = show(Raw((batch_dim,), numbers(3)))
    made = view._repr_mimebundle_()
    assert set(made) == {"text/plain", "text/html", MIME}
    assert made["text/plain"] == repr(view)
    assert type(made["text/html"]) is str
    assert made[MIME] == {"kind": "tensor"}


def test_what_cannot_be_shown_says_so(table):
    with pytest.raises(ViewError, match="no such view") as caught:
        show(3)
    assert "Raw" in str(caught.value)


def test_a_view_that_breaks_is_a_note_and_no_exception(monkeypatch):
    monkeypatch.setitem(views().kinds, class_name(Thing), "tensor")
    thing = Thing()
    assert "Thing (no view: AttributeError" in repr(thing) or "Tensor" in repr(thing)
    assert "text/html" in thing._repr_mimebundle_()
    monkeypatch.setitem(views().kinds, class_name(Thing), "gone")
    assert "no view: views of kind 'gone' are not registered" in repr(thing)
    assert "no view" in View({"kind": "tensor"}).text
    assert "no view" in View({"kind": "?"}).html


def test_each_kind_has_one_function_in_a_folder_where_marks_are_looked_for():
    places = [(module, function) for module, function in views().makers.values()]
    for module, function in places:
        assert callable(getattr(importlib.import_module(module), function))
    files = [file.read_text(encoding="utf-8") for file in Path(rf.__file__).parent.rglob("*.py")]
    assert len(places) == sum(len(re.findall(r"^@page\.shows\(", text, re.MULTILINE)) for text in files)


@pytest.mark.parametrize("name", sorted(views().kinds))
def test_the_classes_that_have_views_exist(name):
    module, _, cls = name.rpartition(".")
    assert class_name(getattr(importlib.import_module(module), cls)) == name


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "views.js").write_text("export default { text: '</script><!--' };")
    (folder / "views.css").write_text(".rfnb {}")
    monkeypatch.setattr(page, "STATIC", folder)
    page.widget_class.cache_clear()
    yield
    page.widget_class.cache_clear()


class Enhanced:
    """A module of a view that scripts can enhance."""

    @staticmethod
    def to_page(data: Any) -> Page:
        return Page("enhanced", data["name"], [Figure(el("p", data["name"]))])

    @staticmethod
    def to_scripts(data: Any) -> dict[str, Any]:
        return {"words": data["name"]}


@pytest.fixture
def enhanced(monkeypatch: pytest.MonkeyPatch) -> View:
    """A view with something for scripts, and a hostile name."""
    monkeypatch.setitem(views().makers, "enhanced", ("rfnb.display.enhanced", "describe"))
    monkeypatch.setitem(sys.modules, "rfnb.display.enhanced", Enhanced)  # type: ignore[misc]
    return View({"kind": "enhanced", "name": "</script><b>"})


def test_a_saved_page_is_whole_and_needs_nothing_else(table, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(page, "STATIC", tmp_path)
    view = show(batch_of(numbers(4, 300), [batch_dim, batch_dim + 1]))
    path = view.save(tmp_path / "x.html")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert view.html in text
    assert "http:" not in text and "https:" not in text
    assert "<script" not in text
    assert "default-src &#x27;none&#x27;" in text
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


def test_a_saved_page_carries_scripts_that_cannot_end_their_element(built, enhanced, tmp_path: Path):
    text = enhanced.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2
    assert "<!--" not in text
    [data] = re.findall(r'<script type="application/json" id="rfnb-scripts">(.*?)</script>', text)
    assert json.loads(data) == {"kind": "enhanced", "words": "</script><b>"}
    assert '<div id="rfnb-view"><div style=' in text and "<p>&lt;/script&gt;&lt;b&gt;</p></div></div>" in text
    assert ".rfnb {}" in text


def test_pills_of_dims_are_worth_scripts_and_a_note_is_not(built, table, tmp_path: Path):
    pills = show(Raw((batch_dim,), numbers(3))).save(tmp_path / "pills.html").read_text(encoding="utf-8")
    note = View(note_page("x", "y")).save(tmp_path / "note.html").read_text(encoding="utf-8")
    assert ("rfnb-scripts" in pills, "rfnb-scripts" in note) == (True, False)


def test_a_page_that_would_be_too_large_goes_without_scripts_and_says_so(built, enhanced, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(page, "LIMIT", 600)
    text = enhanced.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "without scripts, which would make this page larger than 600 B" in text
    assert "&lt;/script&gt;" in text


def test_scripts_that_cannot_be_made_leave_the_view(enhanced, monkeypatch):
    monkeypatch.setattr(Enhanced, "to_scripts", lambda data: 1 / 0)
    assert enhanced._repr_mimebundle_()[MIME] == {"kind": "enhanced"}


def test_a_widget_has_html_and_scripts_and_shows_the_same_without(built, enhanced):
    made = enhanced.widget()
    bundle, _ = made._repr_mimebundle_()
    assert (made.html, made.scripts) == (enhanced.html, enhanced.scripts)
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == made.model_id
    assert bundle["text/html"] == enhanced.html
    assert bundle["text/plain"] == enhanced.text
    assert bundle[MIME] == enhanced.scripts


def test_a_widget_that_cannot_be_had_says_how(enhanced, monkeypatch, tmp_path: Path):
    page.widget_class.cache_clear()
    monkeypatch.setattr(page, "STATIC", tmp_path)
    with pytest.raises(ViewError, match="not built"):
        enhanced.widget()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ViewError, match="anywidget is not installed"):
        enhanced.widget()


def test_saving_is_all_or_nothing(tmp_path: Path):
    path = tmp_path / "x.html"
    write_atomically(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


def test_only_attention_has_a_figure(table):
    with pytest.raises(ViewError, match="figure"):
        show(Raw((batch_dim,), numbers(3))).figure()


@pytest.mark.slow
def test_importing_rfnb_pulls_in_no_view(python):
    code = (
        "import sys, rfnb\n"
        "heavy = ('tensor.view', 'run.view', 'schema', 'panel', 'run', 'graph', 'attention')\n"
        "print([m for m in heavy if f'rfnb.display.{m}' in sys.modules])"
    )
    made = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert made.stdout.strip() == "[]"
