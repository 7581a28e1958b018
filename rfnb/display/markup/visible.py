"""Characters that are obeyed instead of seen, made visible: a name is shown, it does nothing.

Control characters would colour a terminal or break the XML of a drawing, directions turn around the text behind a
name, and halves of surrogate pairs cannot be written to a file or sent to a front end.
"""

from __future__ import annotations

import re
from typing import Any

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""All but the tabulator and the end of a line."""


def visible(text: str) -> str:
    """The text with a sign for each such character.

    >>> visible("a\\x1b[31mb\\u202e\\ud800")
    'a␛[31mb��'
    """
    return text if text.isprintable() else UNSEEN.sub(_sign, text)


def visible_in(data: Any) -> Any:
    """Plain data with all of its strings visible."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible_in(key): visible_in(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [visible_in(entry) for entry in data]
    return data


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"
