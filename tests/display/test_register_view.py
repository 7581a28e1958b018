"""Users register views of their own classes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import rfnb as rf
from rfnb.core.ground.show import KINDS
from rfnb.display.kit.view import OWN_VIEWS
from rfnb.errors import ViewError


class Lexicon:
    def __init__(self, *words: str):
        self.words = words


class Half(Lexicon):
    """A subclass without a view of its own."""


def describe(lexicon: Lexicon, first: int = 3) -> dict[str, object]:
    return {"name": "words", "words": list(lexicon.words[:first])}


def to_text(view) -> str:
    return "lexicon: " + ", ".join(view["words"])


def to_html(view) -> str:
    return rf.el("ul", [rf.el("li", word) for word in view["words"]])


@pytest.fixture(autouse=True)
def _only_here():
    kinds, own = dict(KINDS), dict(OWN_VIEWS)
    yield
    for table, before in ((KINDS, kinds), (OWN_VIEWS, own)):
        table.clear()
        table.update(before)


def test_its_objects_and_those_of_subclasses_are_shown():
    rf.register_view(Lexicon, describe=describe, to_text=to_text, to_html=to_html)
    for cls in (Lexicon, Half):
        view = rf.show(cls("kiwi", "<fig>"))
        assert view.text == "lexicon: kiwi, <fig>"
        assert view.html == "<ul><li>kiwi</li><li>&lt;fig&gt;</li></ul>"
        assert view.data["words"] == ["kiwi", "<fig>"]


def test_the_class_may_be_given_by_its_name_and_registered_again():
    name = f"{__name__}.Lexicon"
    rf.register_view(name, describe=describe, to_text=lambda view: "before")
    rf.register_view(name, describe=describe, to_text=to_text)
    assert rf.show(Lexicon("kiwi")).text == "lexicon: kiwi"


def test_its_choices_are_arguments_of_show():
    rf.register_view(Lexicon, describe=describe, to_text=to_text)
    assert rf.show(Lexicon("kiwi", "fig"), first=1).text == "lexicon: kiwi"
    with pytest.raises(ViewError, match="the view of a Lexicon does not take 'last'") as caught:
        rf.show(Lexicon("kiwi"), last=1)
    assert (caught.value.got, caught.value.expected) == ("last=1", "first")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["kiwi"], "`describe` gave an object of class list, not a dict"),
        ({"words": [object()]}, "`describe` gave an object of class object at ['words'][0], which is not JSON"),
        ({"n": np.int64(3)}, "`describe` gave an object of class int64 at ['n'], which is not JSON"),
        ({"mean": float("nan")}, "`describe` gave nan at ['mean'], which is not JSON"),
        ({"by": {1: "a"}}, "`describe` gave the key 1 at ['by'], which is not JSON"),
    ],
)
def test_what_is_not_json_is_a_note_that_says_where(given, words):
    rf.register_view(Lexicon, describe=lambda lexicon: given, to_text=str)
    assert words in rf.show(Lexicon("kiwi")).text


def test_a_plain_string_is_text_even_as_html():
    rf.register_view(Lexicon, describe=describe, to_text=to_text, to_html=lambda view: "<script>")
    assert rf.show(Lexicon("a")).html == "<pre>&lt;script&gt;</pre>"
    rf.register_view(Lexicon, describe=describe, to_text=to_text)
    assert rf.show(Lexicon("<b>")).html == "<pre>lexicon: &lt;b&gt;</pre>"


def test_a_terminal_obeys_no_character_of_it():
    rf.register_view(Lexicon, describe=describe, to_text=to_text)
    assert "\x1b" not in rf.show(Lexicon("a\x1b[31m")).text


@pytest.mark.parametrize("part", ["describe", "to_text", "to_html"])
def test_one_that_raises_leaves_a_note(part, tmp_path):
    def fail(*args: object, **choice: object) -> object:
        raise RuntimeError("no words")

    rf.register_view(Lexicon, **{"describe": describe, "to_text": to_text, "to_html": to_html, part: fail})
    view = rf.show(Lexicon("kiwi"))
    shown = view.html if part == "to_html" else view.text
    assert "no view: RuntimeError: no words" in shown
    assert view.save(tmp_path / "x.html").is_file()


def test_the_result_of_a_notebook_cell_is_shown_by_it(monkeypatch):
    formatters = {}
    formatter = SimpleNamespace(for_type=formatters.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(mimebundle_formatter=formatter))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    rf.register_view(Lexicon, describe=describe, to_text=to_text, to_html=to_html)
    bundle = formatters[Lexicon](Lexicon("kiwi"))
    assert bundle["text/plain"] == "lexicon: kiwi" and bundle["text/html"] == "<ul><li>kiwi</li></ul>"
