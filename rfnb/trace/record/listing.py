"""Lines of text that are no code that runs, but stand for the body of a loop: those of a net dict."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Mapping, Sequence
from itertools import count
from types import CodeType

from rfnb.core.ground.source import LAYERS, LISTED, Block, Source, show_block


class Listing:
    """Some lines of a file, each of which is a place like that of an op in the user's code.

    Args:
        file: the file. first: the number of its first line here, from 1. lines: the text.
    """

    def __init__(self, file: str, first: int, lines: Sequence[str]):
        self.code = _code(file, first, lines)
        places: dict[int, Source] = {}
        for place, (line, *_) in zip(count(0, 2), self.code.co_positions(), strict=False):
            if line is not None and line >= first:
                places.setdefault(line, Source(self.code, place))
        self._places = places
        self.head = places[first]
        show_block(self.head, Block(file, None, None, first, tuple(lines)))

    def name(self, layers: Mapping[str, int]) -> None:
        """Says which layer each line describes. layers: the lines by the names of layers."""
        LAYERS[self.code] = {line: name for name, line in reversed([*layers.items()])}

    @classmethod
    def of_text(cls, what: str, lines: Sequence[str]) -> Listing:
        """Lines that are in no file. what: the name that is shown instead: "net dict, line 3"."""
        text = "\n".join(lines)
        file = f"<{what} {zlib.crc32(text.encode(errors='replace')):08x}>"  # the same text is the same place
        linecache.cache[file] = (len(text), None, [f"{line}\n" for line in lines], file)
        LISTED[file] = what
        return cls(file, 1, lines)

    def at(self, line: int) -> Source:
        """The place of a line; the first one if it is not among them."""
        return self._places.get(line, self.head)


def _code(file: str, first: int, lines: Sequence[str]) -> CodeType:
    """A code object, never run, with an instruction that covers each line."""
    names = ["_" * max(len(line.encode(errors="replace")), 1) for line in lines]
    return compile("\n" * (first - 1) + "\n".join(names), file, "exec")
