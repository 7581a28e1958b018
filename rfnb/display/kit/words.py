"""Words with a look: what stands in the lines and cells of a page, as text and as HTML.

>>> plain([name("fruit"), quiet(" of 2 words")]), markup(bold("1 < 2"))
('fruit of 2 words', '<b>1 &lt; 2</b>')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rfnb.display.kit.dims import dim_pill, dim_word, dims_html, dims_text
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el, join
from rfnb.display.markup.numbers import short
from rfnb.printable import bounded


@dataclass(frozen=True)
class Span:
    """Words with a look of their own in HTML.

    Args:
        words: what HTML shows.
        look: a CSS style.
        text: what a terminal shows in their place.
        title: what is shown on hover.
        tag: the element.
    """

    words: Words
    look: str = ""
    text: str | None = None
    title: str | None = None
    tag: str = "span"


Words = str | int | float | None | Span | Sequence["Words"]
"""Text, numbers, spans, and lists of these; None is nothing."""


def quiet(*words: Words) -> Span:
    """Words in a quieter colour.

    >>> plain(quiet("figs"))
    'figs'
    """
    return Span(words, style.QUIET)


def name(*words: Words) -> Span:
    """The name of what is shown.

    >>> plain(name("figs"))
    'figs'
    """
    return Span(words, style.NAME)


def bold(*words: Words) -> Span:
    """Bold words.

    >>> plain(bold("figs"))
    'figs'
    """
    return Span(words, tag="b")


def mono(*words: Words) -> Span:
    """Words in the font of code.

    >>> plain(mono("figs"))
    'figs'
    """
    return Span(words, style.NUMBERS)


def chip(words: Words, colour: str, text: str | None = None) -> Span:
    """A word that should be noticed.

    >>> plain(chip("NaN", style.ALARM, text="[NaN]"))
    '[NaN]'
    """
    return Span([words, web(" ")], style.chip(colour), text)


def web(*words: Words) -> Span:
    """Words that only HTML has.

    >>> plain(web("click here"))
    ''
    """
    return Span(words, text="")


def pill(dim: DimView) -> Span:
    """A dim with its size, in its colour."""
    dim = bounded_in(dim)
    return Span(dim_pill(dim), text=dim_word(dim))


def pills(dims: Iterable[DimView]) -> Span:
    """The dims of a tensor."""
    dims = [bounded_in(dim) for dim in dims]
    return Span(dims_html(dims), text=dims_text(dims))


def plain(words: Words) -> str:
    """The words as text."""
    if isinstance(words, Span):
        return plain(words.words) if words.text is None else bounded(words.text)
    if isinstance(words, list | tuple):
        return "".join(map(plain, words))
    return "" if words is None else short(words) if isinstance(words, int | float) else bounded(str(words))


def markup(words: Words) -> Html:
    """The words as HTML."""
    if isinstance(words, Span):
        inside, look = markup(words.words), words.look or None
        is_plain = words.tag == "span" and not look and not words.title
        return inside if is_plain else el(words.tag, inside, style=look, title=words.title)
    if isinstance(words, list | tuple):
        return join([markup(word) for word in words])
    return words if isinstance(words, Html) else join(plain(words))
