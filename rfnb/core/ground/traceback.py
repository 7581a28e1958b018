"""The frames of an error: which are the user's, which are rfnb's, and which belong to neither."""

from __future__ import annotations

import sysconfig
from types import CodeType, FrameType

from rfnb.core.ground.source import PACKAGE, Source

_PYTHON = (sysconfig.get_path("stdlib") + "/", "<frozen")

Step = tuple[FrameType, Source]
"""A frame, and the place in it where the error passed."""


def steps_of(error: BaseException) -> list[Step]:
    """The frames from the outermost to the one that raised the error."""
    steps, at = [], error.__traceback__
    while at is not None:
        steps.append((at.tb_frame, Source(at.tb_frame.f_code, at.tb_lasti)))
        at = at.tb_next
    return steps


def is_own(code: CodeType) -> bool:
    """Whether this is rfnb's own code."""
    return code.co_filename.startswith(PACKAGE)


def is_users(code: CodeType) -> bool:
    """Whether this is the user's code: not rfnb's, not Python's, and not an installed package's."""
    return not (is_own(code) or code.co_filename.startswith(_PYTHON) or "-packages/" in code.co_filename)


def innermost_call(error: BaseException) -> int | None:
    """The index of the innermost step in the user's code; None if the error passed through none.

    If there is no code of the user, installed packages count as such.
    """
    steps = steps_of(error)
    for whose in (is_users, lambda code: not is_own(code)):
        numbers = [number for number, (_, source) in enumerate(steps) if whose(source.code)]
        if numbers:
            return numbers[-1]
    return None
