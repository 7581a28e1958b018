"""How many files a call goes through: the length of a reader's walk."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1] / "rfnb"


def files_visited(call: Callable[[], Any]) -> set[str]:
    """The files of rfnb in which a function runs during `call`; the bodies of modules and classes do not count."""
    seen = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = {Path(code.co_filename) for code in seen if code.co_flags & inspect.CO_OPTIMIZED}
    return {file.relative_to(ROOT).as_posix() for file in files if file.is_relative_to(ROOT)}
