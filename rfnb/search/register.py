"""Registers the search with loops, without importing it before it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rfnb.loop.choice import choose


@choose.register
def _choose(body: Any, scores: Any, **options: Any) -> Any:
    return import_module("rfnb.search.choice").choose(body, scores, **options)
