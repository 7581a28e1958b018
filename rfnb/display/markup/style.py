"""Colours and inline styles that are readable on light and dark pages, without scripts and style sheets.

Text keeps the colour of the page; less important text is more transparent; hues are mid-tones over their own tint.
Only properties that the sanitizer of JupyterLab lets through are used here.
"""

from __future__ import annotations

PALETTE = (
    "#0072b2",  # blue
    "#d55e00",  # vermilion
    "#009e73",  # green
    "#c0609a",  # purple
    "#b8860b",  # ochre
    "#3a9ad9",  # sky
    "#8a6bd1",  # violet
    "#7a8b2a",  # olive
    "#a05a3c",  # brown
    "#1a9ba5",  # teal
)
"""One hue for each dim, after Okabe and Ito, darkened or lightened until each reads on white and on near-black."""

GREY = "#808080"
ALARM = "#d6278f"
WARN = "#d07800"

NUMBERS = "font-family:monospace;font-size:12px"
BOX = (
    "font-family:sans-serif;font-size:13px;line-height:1.5;overflow-wrap:break-word;margin:2px 0 6px 0;padding-left:4px"
)
"""JupyterLab draws a bar over the left edge where there is little room."""
HEAD = "margin-bottom:3px"
QUIET = "opacity:0.65"
NAME = "font-family:monospace;font-weight:bold"
TABLE = "table-layout:auto;border-collapse:collapse;font-family:monospace;font-size:12px;line-height:1.35;margin:4px 0"
CELL = "padding:1px 6px;text-align:right;border:none;background:none"
LABEL_CELL = "padding:1px 8px 1px 0;text-align:left;border:none;background:none;opacity:0.65;white-space:nowrap"
HEADER_CELL = "padding:1px 6px;text-align:right;border:none;background:none;font-weight:normal;opacity:0.65"
LEFT_CELL = "padding:2px 12px 2px 0;text-align:left;border:none;background:none;vertical-align:top"
PLAIN_ROW = "background:none"
FOLD = "cursor:pointer"
CODE = "font-family:monospace;font-size:12px;line-height:1.45;white-space:pre"


def tint(colour: str, alpha: float) -> str:
    """The colour with transparency.

    >>> tint("#0072b2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:.3g})"


MARKED = f"background-color:{tint(ALARM, 0.18)};border-radius:2px"
"""Style of words that are wrong. Letters of one colour cannot be read on both white and black."""
BORDER = f"border:1px solid {tint(GREY, 0.35)}"
PICTURE = f"{BORDER};max-width:100%"
RAIL = f"margin-left:5px;padding-left:12px;border-left:1px solid {tint(GREY, 0.4)}"
"""A vertical line beside the content of an open fold."""


def pill(colour: str | None) -> str:
    """Style of a box around the name and size of a dim."""
    colour = colour or GREY
    look = f"background-color:{tint(colour, 0.16)};border-left:3px solid {colour};border-radius:3px"
    return f"{look};display:inline-block;padding:1px 6px;margin-right:4px;white-space:nowrap;{NUMBERS}"


def chip(colour: str) -> str:
    """Style of a box around a word that should be noticed."""
    look = f"background-color:{tint(colour, 0.14)};border:1px solid {tint(colour, 0.7)}"
    return f"{look};display:inline-block;border-radius:8px;padding:0 7px;margin-right:6px;font-size:12px"
