"""Text with names in it, as terminals, files and front ends can take it: visible, and of bounded length.

Names may come from a file, a net dict or a data set, so they can contain anything.
"""

from __future__ import annotations

import codecs
import re
import sys
import unicodedata

WIDEST, LONGEST = 1000, 20_000
"""Most characters of a line, and of a text."""

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Invisible characters, except tabs and line ends."""


LOOKALIKES = {
    **dict(
        zip("→←↔×·•–—−‖…⋯≈", ("->", "<-", "<->", "x", ".", "*", "-", "-", "-", "||", "...", "...", "~"), strict=True)
    ),
    **dict(
        zip("≠≤≥∞√∅ΔΣΦμµσ", ("!=", "<=", ">=", "inf", "sqrt", "0", "d", "sum", "phi", "mu", "u", "sigma"), strict=True)
    ),
    **dict(zip("⟨⟩⌊⌋⌈⌉▁▂▃▄▅▆▇█▒▣✂✗↻⋎‡", "<>[][]_.:-=+*###%x@v+", strict=True)),
    **{chr(0x2400 + code): f"^{chr(64 + code)}" for code in range(0x20)},
    "␡": "^?",
}
"""What stands for characters in texts of rfnb where these cannot be written."""


def terminal_text(text: str) -> str:
    """The text as it is printed: `printable`, in characters of the standard output."""
    return encodable(printable(text))


def encodable(text: str) -> str:
    """The text in characters that the standard output has, with similar ones for others.

    Output that is not UTF-8, as in files and pipes on Windows, raises an error for most characters.

    >>> encodable("a → b")
    'a → b'
    """
    encoding = getattr(sys.stdout, "encoding", None)
    if text.isascii() or not isinstance(encoding, str):
        return text
    try:
        if codecs.lookup(encoding).name.startswith("utf"):
            return text
        return text.translate({ord(sign): _similar(sign) for sign in set(text) if not _is_in(sign, encoding)})
    except LookupError:
        return text


def printable(text: str) -> str:
    """The text with visible characters only. Long lines, and long texts, lose their middle.

    >>> printable("a\\x1b[31mb\\u202e\\ud800"), len(printable("w" * 10**6))
    ('a␛[31mb��', 1000)
    """
    return visible(bounded(text))


def printable_name(name: str) -> str:
    """The name as one printable line.

    >>> printable_name("time\\nx")
    'time␤x'
    """
    return printable(name.replace("\n", "␤"))


def error_text(error: BaseException) -> str:
    """The class of an error, and its message if there is one.

    >>> error_text(ValueError("no")), error_text(ValueError())
    ('ValueError: no', 'ValueError')
    """
    return f"{type(error).__name__}: {error_message(error)}".removesuffix(": ")


def error_message(error: BaseException) -> str:
    """The message of an error, also of one whose `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


def bounded(text: str) -> str:
    """The text without the middle of long lines, and of a long text."""
    if len(text) <= WIDEST:
        return text
    return "\n".join(_without_middle(line, WIDEST) for line in _without_middle(text, LONGEST).split("\n"))


def visible(text: str) -> str:
    """The text with a visible sign for each invisible character.

    Control characters could colour a terminal or break the XML of a drawing, direction marks could reorder the text
    after a name, and halves of surrogate pairs cannot be written to a file or sent to a front end.

    >>> visible("a\\x1b[31mb\\u202e\\ud800")
    'a␛[31mb��'
    """
    return text if text.isprintable() else UNSEEN.sub(_sign, text)


def _is_in(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _similar(sign: str) -> str:
    """ASCII that looks like a character, such as a letter without its accent."""
    parts = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return LOOKALIKES.get(sign) or parts or "?"


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"
