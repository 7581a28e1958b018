"""The choice of a search, which `rfnb.search` registers for loops."""

from __future__ import annotations

from typing import Any

from rfnb.core.ground.hook import Hook

choose: Hook[..., Any] = Hook("loop.choice.choose", by="search.register")
"""Adds a choice to the body of a loop."""
