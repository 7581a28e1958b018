"""What a module was made with besides parameters: a number, a word, the name of a function."""

from __future__ import annotations

from typing import Any

from rfnb.core.ground.text import cut

WORDS = str | int | float | bool | None


def settings_of(module: Any) -> list[str]:
    """ "activation=silu", "heads=4"; attributes that are neither modules nor tensors, and fit in a word."""
    return [
        f"{name}={word}"
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and (word := _word(value)) is not None
    ]


def _word(value: Any) -> str | None:
    if isinstance(value, WORDS):
        return cut(str(value), 40)
    return getattr(value, "__name__", None) if callable(value) else None
