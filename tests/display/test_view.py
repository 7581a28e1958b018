"""What `rf.show` gives, and how it is saved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rfnb.core import show as core_show
from rfnb.display import bundle
from rfnb.display.show import show
from rfnb.display.view import View, write_atomically
from rfnb.errors import ViewError
from tests.display.standins import Raw, batch_dim, batch_of, numbers


class Thing(core_show.Shown):
    """Nobody can show it."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "DESCRIBE", {})
    monkeypatch.setattr(core_show, "SHOW", {})
    bundle.register(Raw, "rfnb.display.views.tensor")


def test_always_text_and_html(table):
    view = show(Raw((batch_dim,), numbers(3)))
    made = view._repr_mimebundle_()
    assert set(made) == {"text/plain", "text/html"}
    assert made["text/plain"] == repr(view)
    assert type(made["text/html"]) is str


def test_what_cannot_be_shown_says_so(table):
    with pytest.raises(ViewError, match="no such view") as caught:
        show(3)
    assert "Raw" in str(caught.value)


def test_a_view_that_breaks_is_a_note_and_no_exception(table):
    bundle.register(Thing, "rfnb.display.views.tensor")
    thing = Thing()
    assert "Thing (no view: AttributeError" in repr(thing) or "Tensor" in repr(thing)
    assert "text/html" in thing._repr_mimebundle_()
    bundle.register(Thing, "rfnb.display.views.gone")
    assert "no view: ModuleNotFoundError" in repr(thing)
    assert "no view" in View({"kind": "tensor"}).text
    assert "no view" in View({"kind": "?"}).html


def test_a_saved_page_is_whole_and_needs_nothing_else(table, tmp_path: Path):
    view = show(batch_of(numbers(4, 300), [batch_dim, batch_dim + 1]))
    path = view.save(tmp_path / "x.html")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert view.html in text
    assert "http" not in text
    assert "<script" not in text
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


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


def test_displaying_pulls_in_no_front_end():
    code = (
        "import sys, rfnb.display.register, rfnb.display.commands, rfnb.display.comm, rfnb.display.widgets.stepper\n"
        "print([m for m in ('IPython', 'matplotlib', 'anywidget', 'ipywidgets', 'graphviz') if m in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert made.stdout.strip() == "[]"
