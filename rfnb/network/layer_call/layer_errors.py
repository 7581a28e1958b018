"""Errors say at which layer they arose, and at which line of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rfnb.errors import RfError

if TYPE_CHECKING:
    from rfnb.network.layer import Layer


def name_layer(error: RfError, path: str, described: Mapping[str, Any]) -> None:
    """Lets an error say at which layer it arose, and at which line of the config; the innermost one, if several."""
    if not getattr(error, "at_layer", None):
        _name(error, path, described["class"], getattr(described, "line", None))


def named_after(layer: Layer, error: RfError) -> RfError:
    """The error, which says at which layer it arose, as by `name_layer`."""
    if not getattr(error, "at_layer", None):
        _name(error, layer.name, (layer.layer_class or "").partition(":")[0], layer.line)
    return error


def _name(error: RfError, path: str, layer_class: str, line: int | None) -> None:
    where = f"layer {path!r} ({layer_class})" + (f", line {line}" if line else "")
    error.what = f"{where}: {error.what}"
    error.at_layer = path  # type: ignore[attr-defined]
