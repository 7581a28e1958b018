"""Expressions of the user, evaluated at one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.display.kit.degrade import reason
from rfnb.display.markup.numbers import short
from rfnb.display.run.ended_mask import live_at
from rfnb.display.schema import ValueView, WatchRow
from rfnb.display.tensor.value import describe_value, in_words

if TYPE_CHECKING:
    import numpy as np

    from rfnb.core.dims.dim import Dim
    from rfnb.trace.run.step import RunStep


def describe_watch(at: RunStep, text: str, sequences: Dim | None, sequence: int | None) -> WatchRow:
    """Its value, or in one line why it has none."""
    try:
        found = at.eval(text)
        value = _described(text, found, sequences, sequence, live_at(at.run, found, at.step))
    except Exception as error:
        return {"text": text, "value": None, "error": reason(error)}
    return {"text": text, "value": value, "error": None}


def _described(
    text: str, value: Any, sequences: Dim | None, sequence: int | None, live: np.ndarray | None
) -> ValueView:
    if isinstance(value, bool | float | str):
        return in_words(text, short(value), type(value).__name__)
    return describe_value(text, value, sequences=sequences, sequence=sequence, pictures=True, live=live)
