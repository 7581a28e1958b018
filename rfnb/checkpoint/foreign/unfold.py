"""The layers and directions of torch's LSTM, each under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

_NAME = re.compile(r"(.*?)((?:weight|bias)_(?:ih|hh))_l(\d+)(_reverse)?")


def unfolded(state: Mapping[str, T]) -> dict[str, T]:
    """ "weight_ih_l1_reverse" → "1.backward.weight_ih". One layer has no number, and one direction is not named."""
    parts = {name: found for name in state if (found := _NAME.fullmatch(name))}
    several = {found[1] for found in parts.values() if found[3] != "0"}
    both = {found[1] for found in parts.values() if found[4]}

    def new_name(prefix: str, weight: str, layer: str, reverse: str | None) -> str:
        number = f"{layer}." if prefix in several else ""
        direction = ("backward." if reverse else "forward.") if prefix in both else ""
        return f"{prefix}{number}{direction}{weight}"

    return {new_name(*parts[name].groups()) if name in parts else name: value for name, value in state.items()}
