"""What the three printers make of the JSON of a view; they raise what a `View` would tell in a note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.display.kit import blocks
from rfnb.display.kit.blocks import Page, Table
from rfnb.display.kit.view import module_of
from rfnb.display.markup.html import Html


def page_of(view: Mapping[str, Any]) -> Page:
    page: Page = module_of(view["kind"])[0].to_page(view)
    return page


def to_text(view: Mapping[str, Any]) -> str:
    return blocks.to_text(page_of(view))


def to_repr(view: Mapping[str, Any]) -> str:
    return blocks.to_repr(page_of(view))


def to_html(view: Mapping[str, Any]) -> Html:
    return blocks.to_html(page_of(view))


def to_table(view: Mapping[str, Any]) -> Table:
    table = page_of(view).table
    assert table is not None
    return table
