"""Which module defines the layers of a class. `layers.register` fills the table, so that no import points up."""

from __future__ import annotations

MODULES: dict[str, str] = {}
"""The full name of the module, by class name in net dicts."""
