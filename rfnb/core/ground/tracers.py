"""Models of other kinds: who makes the graph of a call of one, and who puts it back. Backends register here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.core.graph.model_graph import ModelGraph

TRACERS: dict[type, Callable[..., ModelGraph]] = {}
"""By the type of a model, or of what it is given: who makes the graph of a call of it."""

KEEPERS: dict[type, Callable[[Any, ExitStack], None]] = {}
"""By the type of modules of another kind, which a model may hold: what puts them back as they were when the stack ends;
backends register here."""
