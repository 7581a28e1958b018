"""The number of examples that hypothesis tries: what a test names in `make test`, a fifth of that in `make quick`, ten
times that in `make test-all`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

PROFILE = os.environ.get("RFNB_PROFILE", "ci")
FACTOR = {"quick": 0.2, "ci": 1.0, "nightly": 10.0}[PROFILE]


def examples(count: int, **options: Any) -> settings:
    """Settings for about `count` examples: `@examples(40)` before `@given(…)`."""
    return settings(max_examples=max(2, round(count * FACTOR)), **options)
