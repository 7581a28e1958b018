"""Users register views of their own classes."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import rfnb as rf
from rfnb.display.kit.blocks import Grid, Line, Page, Table, bold
from rfnb.display.kit.view import OWN_VIEWS, views
from rfnb.errors import ViewError


class Lexicon:
    def __init__(self, *words: str):
        self.words = words


class Half(Lexicon):
    """A subclass without a view of its own."""


def page_of(lexicon: Lexicon, first: int = 3) -> Page:
    return Page("lexicon", "words", [Line("lexicon: ", bold(", ".join(lexicon.words[:first])))])


@pytest.fixture(autouse=True)
def _only_here():
    kinds, own = dict(views().kinds), dict(OWN_VIEWS)
    yield
    for table, before in ((views().kinds, kinds), (OWN_VIEWS, own)):
        table.clear()
        table.update(before)


def test_its_objects_and_those_of_subclasses_are_shown():
    rf.register_view(Lexicon, page_of)
    for cls in (Lexicon, Half):
        view = rf.show(cls("kiwi", "<fig>"))
        assert view.text == "lexicon: kiwi, <fig>" == view.data["text"]
        assert "lexicon: <b>kiwi, &lt;fig&gt;</b>" in view.html


def test_the_class_may_be_given_by_its_name_and_registered_again():
    name = f"{__name__}.Lexicon"
    rf.register_view(name, lambda lexicon: Page("lexicon", "", [Line("before")]))
    rf.register_view(name, page_of)
    assert rf.show(Lexicon("kiwi")).text == "lexicon: kiwi"


def test_its_choices_are_arguments_of_show():
    rf.register_view(Lexicon, page_of)
    assert rf.show(Lexicon("kiwi", "fig"), first=1).text == "lexicon: kiwi"
    with pytest.raises(ViewError, match="the view of a Lexicon does not take 'last'") as caught:
        rf.show(Lexicon("kiwi"), last=1)
    assert (caught.value.got, caught.value.expected) == ("last=1", "first")


def test_what_is_no_page_is_a_note_that_says_so():
    rf.register_view(Lexicon, lambda lexicon: lexicon.words)
    assert rf.show(Lexicon("kiwi")).text == (
        "Lexicon (no view: the function gave an object of class tuple, not a Page)"
    )


def test_data_is_json_whatever_the_cells_are():
    rows = [["kiwi", np.int64(3)], ["fig", float("nan")], [None, object]]
    table = Table(["word", "count"], rows)
    rf.register_view(Lexicon, lambda lexicon: Page("lexicon", "", [Grid(rows, table.columns)], table))
    data = json.loads(json.dumps(rf.show(Lexicon("a")).data, allow_nan=False))
    assert [row["count"] for row in data["rows"]] == ["3", "nan", "<class 'object'>"]


def test_text_is_text_even_as_html_and_a_terminal_obeys_no_character():
    rf.register_view(Lexicon, page_of)
    view = rf.show(Lexicon("a\x1b[31m", "<script>"))
    assert "\x1b" not in view.text and "<script" not in view.html


@pytest.mark.parametrize("fail", [lambda lexicon: 1 / 0, lambda lexicon: Page("lexicon", "", [Grid(3)])])
def test_one_that_raises_leaves_a_note(fail, tmp_path):
    rf.register_view(Lexicon, fail)
    view = rf.show(Lexicon("kiwi"))
    assert view.text.startswith("Lexicon (no view: ") and "Error: " in view.text and "no view: " in view.html
    assert view.save(tmp_path / "x.html").is_file()


def test_the_result_of_a_notebook_cell_is_shown_by_it(monkeypatch):
    formatters = {}
    formatter = SimpleNamespace(for_type=formatters.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(mimebundle_formatter=formatter))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    rf.register_view(Lexicon, page_of)
    bundle = formatters[Lexicon](Lexicon("kiwi"))
    assert bundle["text/plain"] == "lexicon: kiwi" and "<b>kiwi</b>" in bundle["text/html"]
