"""Numbers as JSON."""

from __future__ import annotations

from typing import Literal

Number = float | int | Literal["nan", "inf", "-inf"]
