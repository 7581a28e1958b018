"""The frames of an error: which of them are the user's, which are rfnb's, and which belong to neither."""

from __future__ import annotations

import sysconfig
from types import CodeType, FrameType

from rfnb.core.ground.source import PACKAGE, Source

_PYTHON = (sysconfig.get_path("stdlib") + "/", "<frozen")

Step = tuple[FrameType, Source]
"""A frame, and where in it the error came through."""


def steps_of(error: BaseException) -> list[Step]:
    """From the outermost to where the error was raised."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append((at.tb_frame, Source(at.tb_frame.f_code, at.tb_lasti)))
        at = at.tb_next
    return found


def is_own(code: CodeType) -> bool:
    """Whether this is rfnb's own code."""
    return code.co_filename.startswith(PACKAGE)


def is_users(code: CodeType) -> bool:
    """Whether this is neither rfnb's own code, nor Python's, nor that of an installed package."""
    return not (is_own(code) or code.co_filename.startswith(_PYTHON) or "-packages/" in code.co_filename)


def innermost_call(error: BaseException) -> int | None:
    """The number of the step where the user's code called what raised the error; None if there is no such code.

    An installed package counts as the user's if nothing else does.
    """
    steps = steps_of(error)
    for whose in (is_users, lambda code: not is_own(code)):
        numbers = [number for number, (_, source) in enumerate(steps) if whose(source.code)]
        if numbers:
            return numbers[-1]
    return None
