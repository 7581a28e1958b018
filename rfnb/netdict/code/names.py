"""Names, numbers and texts as they stand in code: of a stranger's config, only names and literals get in."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Iterable, Iterator

import numpy as np

RESERVED = frozenset(
    {"rf", "self", "batch_dim", "single_step_dim", "x", "y", "z", "loop", "outputs", "losses", *dir(builtins)}
)
"""Names that no layer gets."""


def identifier(name: str, default: str = "value") -> str:
    """A Python name like this one.

    >>> from rfnb.netdict.code.names import identifier
    >>> identifier("fwd.1"), identifier("0"), identifier("class"), identifier("a\\n b")
    ('fwd_1', 'value_0', 'class_', 'a_b')
    """
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or default
    text = f"{default}_{text}" if text[0].isdigit() else text
    return f"{text}_" if keyword.iskeyword(text) or text in RESERVED else text


def class_name(name: str) -> str:
    """A name for a class: "layer_norm" gives "LayerNorm".

    >>> from rfnb.netdict.code.names import class_name
    >>> class_name("layer_norm"), class_name("rec:unit")
    ('LayerNorm', 'RecUnit')
    """
    return identifier("".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name)), "Layer")


class Names:
    """Gives each thing a name of its own in a piece of code."""

    def __init__(self, used: Iterable[str] = ()):
        self.used = set(used)

    def new(self, name: str) -> str:
        """The name, with a number if it is used already."""
        number, candidate = 1, name
        while candidate in self.used:
            number += 1
            candidate = f"{name}{'_' if name[-1].isdigit() else ''}{number}"
        self.used.add(candidate)
        return candidate


def attribute(owner: str, name: str) -> str:
    """An attribute as it is read: `self.W`, `self.layers[0]`, or with getattr if its name is no Python name."""
    if name.isdecimal() and name.isascii() and ".cell." in f"{owner}.":
        return f"{owner}[{name}]"
    plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return f"{owner}.{name}" if plain else f"getattr({owner}, {name!a})"


def assignment(owner: str, name: str, value: str) -> str:
    """A line that sets an attribute."""
    read = attribute(owner, name)
    return f"{read} = {value}" if not read.startswith("getattr(") else f"setattr({owner}, {name!a}, {value})"


def literal(value: object) -> str | None:
    """A plain value as code; None if it is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is str and not {'"', "'"} & set(value):
        return f'"{ascii(value)[1:-1]}"'
    return ascii(value) if value is None or type(value) in (bool, int, float, str, complex) else None


def remark(text: str) -> str:
    """A text for a comment or a docstring: one line of ASCII without quotes or backslashes."""
    return re.sub(r"[\\\"\x00-\x1f]", "?", text.encode("ascii", "replace").decode())[:100]


WIDTH = 110
"""Most characters of a line, if it can be broken."""


def wrapped(line: str) -> list[str]:
    """A line that is too long is broken between the arguments of its outermost call.

    >>> from rfnb.netdict.code.names import wrapped
    >>> wrapped("x = f(" + "a" * 60 + ", " + "b" * 60 + ")")[0]
    'x = f('
    """
    stripped = line.lstrip()
    if stripped.startswith("#"):
        return [line]
    indent = line[: len(line) - len(stripped)]
    opened = _last_group(line) if len(line) > WIDTH and line[-1:] in ")]}" else None
    if opened is None:
        return [line]
    rows, row, parts = [line[: opened + 1]], "", _arguments(line[opened + 1 : -1])
    for part in parts:
        if row and len(indent) + 4 + len(row) + len(part) + 2 > WIDTH:
            rows.append(f"{indent}    {row}")
            row = ""
        row += f"{' ' * bool(row)}{part},"
    if len(parts) == 1 and line[-2] != "," and not re.match(r"[\w)\]]", line[opened - 1]):
        row = row[:-1]  # the brackets are those of an expression, which a comma would make a tuple
    return [*rows, f"{indent}    {row}", f"{indent}{line[-1]}"]


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside of strings, with their places."""
    quote, skip = "", False
    for i, c in enumerate(text):
        if quote:
            skip, closed = c == "\\" and not skip, c == quote and not skip
            quote = "" if closed else quote
        elif c in "\"'":
            quote = c
        else:
            yield i, c


def _last_group(text: str) -> int | None:
    """Where the bracket opens that closes at the end of the text."""
    stack: list[int] = []
    opened = None
    for i, c in _tokens(text):
        if c in "([{":
            stack.append(i)
        elif c in ")]}":
            opened = stack.pop()
    return opened


def _arguments(text: str) -> list[str]:
    depth, start, parts = 0, 0, []
    for i, c in _tokens(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]
