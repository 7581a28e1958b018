"""Warnings about runs, at a line of the user's code."""

from __future__ import annotations

import warnings

from rfnb.core.ground.source import user_frame
from rfnb.errors import LoopWarning
from rfnb.printable import terminal_text


def warn(text: str) -> None:
    """Warns at the line of the user's code that runs now."""
    frame = user_frame()
    file, line = (__file__, 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(terminal_text(text), LoopWarning, file, line)
