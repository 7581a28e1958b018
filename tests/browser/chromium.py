"""The system's browser, and how it is started."""

from __future__ import annotations

import shutil

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb"]


def find_browser() -> str | None:
    """Its program; None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)
