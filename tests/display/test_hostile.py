"""No name, label, tag, source line or error text gets out of its place, in any view, in any form."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from rfnb.display.kit.view import View, views as known_views
from rfnb.display.markup.html import VOID
from rfnb.errors import ViewError
from tests.display.hostile import PAYLOADS, attentions, disarmed, harmless, hostile, views

NAMES = sorted(PAYLOADS)
KINDS = set(known_views().makers)
ELEMENTS = frozenset(
    "div span b i p pre code a details summary table caption thead tbody colgroup col tr th td img br hr".split()
)
"""What a view may be made of; what JupyterLab would take away in an untrusted notebook is not among them."""
SVG_ELEMENTS = frozenset(
    [
        *"svg g path rect circle ellipse line polyline polygon text tspan title desc".split(),
        *"defs marker pattern clipPath use image style".split(),
    ]
)
STYLES = {
    "@media (prefers-color-scheme:dark){image{filter:invert(1) hue-rotate(180deg)}}",
    "@media (prefers-color-scheme:dark){[fill='#666666']{fill:#a0a0a0}}",
}
"""What drawings have as a style sheet: no word of a user."""
ADDRESS = re.compile(r"data:image/(png|svg\+xml);base64,[A-Za-z0-9+/=]+|#[-\w]*")
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a terminal would obey, and halves of pairs, which no file can hold."""

Shape = list[tuple[str, ...]]


class Reader(HTMLParser):
    """The elements of a page in order, each with the names of its attributes; fails where they are not nested."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: Shape = []
        self.open: list[str] = []
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        for name, value in attrs:
            self.check(name, value or "")
        self.shape.append((tag, *(name for name, _ in attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.shape.append((f"/{tag}",))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    handle_decl = unknown_decl = handle_pi = handle_comment

    def check(self, name: str, value: str) -> None:
        """Nothing that runs or fetches; pictures are kept."""
        assert not name.startswith("on"), name
        if name in ("src", "href"):
            assert ADDRESS.fullmatch(value), value[:80]
            self.images.append(value)
        if name == "style":
            assert not re.search(r"url\(|expression|import|javascript|@|\\", value), value


def read(html: str) -> Reader:
    """All of it."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def svgs(reader: Reader) -> list[ElementTree.Element]:
    """The drawings in a page, parsed as XML."""
    drawn = [image.partition(",")[2] for image in reader.images if image.startswith("data:image/svg")]
    return [ElementTree.fromstring(base64.b64decode(code)) for code in drawn]


def svg_shape(root: ElementTree.Element) -> Shape:
    """The elements of a drawing; fails on what runs or fetches."""
    found = []
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        assert tag in SVG_ELEMENTS, tag
        assert tag != "style" or element.text in STYLES, element.text
        for name, value in element.attrib.items():
            assert not name.startswith("on"), name
            if name.endswith(("href", "src")):
                assert ADDRESS.fullmatch(value), value[:80]
        found.append((tag, *sorted(element.attrib)))
    return found


@pytest.fixture(scope="module")
def made(payload: str) -> dict[str, View]:
    """All views with these names."""
    return views(hostile(PAYLOADS[payload]))


@pytest.fixture(scope="module")
def plain(payload: str) -> dict[str, View]:
    """All views with names that are as long, and harmless."""
    return views(disarmed(PAYLOADS[payload]))


def test_every_kind_of_view_is_tried():
    assert {view.data["kind"] for view in views(harmless).values()} >= KINDS - {"note"}


@pytest.mark.parametrize("payload", NAMES, scope="module")
class TestNothingGetsOut:
    def test_html_and_its_drawings_have_the_same_elements(self, plain, made):
        for name, view in made.items():
            found, expected = read(view.html), read(plain[name].html)
            assert found.shape == expected.shape, name
            assert [svg_shape(svg) for svg in svgs(found)] == [svg_shape(svg) for svg in svgs(expected)], name

    def test_text_has_the_same_lines_and_nothing_that_a_terminal_obeys(self, plain, made):
        for name, view in made.items():
            assert not UNSEEN.search(view.text), (name, ascii(view.text))
            assert len(view.text.splitlines()) == len(plain[name].text.splitlines()), (name, ascii(view.text))

    def test_the_bundle_can_be_sent(self, made):
        for name, view in made.items():
            for part in (view.data, view._repr_mimebundle_()):
                text = json.dumps(part, ensure_ascii=False, allow_nan=False)
                if part is not view.data:
                    assert text.encode(), name
            assert "no view" not in view.text + view.html, name

    def test_tables(self, plain, made):
        for name, view in made.items():
            try:
                table, expected = view.table(), plain[name].table()
            except ViewError:
                continue
            assert (
                read(table._repr_mimebundle_()["text/html"]).shape
                == read(expected._repr_mimebundle_()["text/html"]).shape
            ), name
            assert len(repr(table).splitlines()) == len(repr(expected).splitlines()), name
            assert not UNSEEN.search(repr(table)), name

    def test_pages(self, made, tmp_path):
        for name, view in made.items():
            page = view.save(tmp_path / "x.html").read_text(encoding="utf-8")
            assert page.count("<title>") == page.count("</title>") == 1, name
            data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
            assert all(json.loads(part) for part in data), name
            assert page.lower().count("<script") == page.lower().count("</script>"), name

    def test_dot(self, plain, made):
        for name in ("graph", "graph, failed"):
            dot, expected = (each[name].to_dot().source for each in (made, plain))
            assert len(unquoted(dot)) == len(unquoted(expected)), name


@pytest.mark.filterwarnings("ignore:Glyph", "ignore:.*collapsed")
@pytest.mark.parametrize("payload", ["maths", "lines", "surrogates"])
def test_figures(payload):
    for view in attentions(hostile(PAYLOADS[payload])).values():
        if view.data["kind"] == "attention":
            view.figure().savefig(io.BytesIO(), format="svg")


def unquoted(dot: str) -> str:
    """What of a DOT source is no quoted string."""
    return re.sub(r'"(\\.|[^"\\])*"', '""', dot, flags=re.DOTALL)
