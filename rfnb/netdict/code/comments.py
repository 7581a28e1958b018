"""Comments of a config file at the lines of its layers, as comments of the code."""

from __future__ import annotations

import functools
import io
import linecache
import tokenize
from collections.abc import Mapping

LONGEST = 100


def comments_of(described: Mapping[str, object]) -> list[str]:
    """The comments directly above the line of a layer and at its end; none if its config was not read from a file."""
    file, line = getattr(described, "file", None), getattr(described, "line", None)
    if file is None or line is None:
        return []
    known = comments_in("".join(linecache.getlines(file)))
    above = line - 1
    while known.get(above, ("", False))[1]:
        above -= 1
    return [known[number][0] for number in range(above + 1, line + 1) if number in known]


@functools.lru_cache(8)
def comments_in(text: str) -> dict[int, tuple[str, bool]]:
    """The comments of a file by line, and whether nothing else stands there. Each is one line of printable text."""
    comments = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                words = "".join(c if c.isprintable() else "?" for c in token.string.lstrip("#! "))
                if words:
                    comments[token.start[0]] = f"# {words[:LONGEST]}", not token.line[: token.start[1]].strip()
    except (tokenize.TokenError, SyntaxError):
        return {}
    return comments
