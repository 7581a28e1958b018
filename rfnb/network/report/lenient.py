"""Constructs the layers of a net dict that can be constructed, and keeps the errors of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.network.builder import Builder
from rfnb.network.report.outline import Entry
from rfnb.network.resolve import Scope


def construct_what_can(
    builder: Builder, net_dict: Mapping[str, Any], entries: Mapping[str, Entry]
) -> dict[str, Exception]:
    """Constructs each used layer whose sources are there. The errors of the others, by path.

    A layer that needs one with an error has none of its own.
    """
    failures: dict[str, Exception] = {}
    try:
        builder.construct(net_dict, ())
    except Exception as error:
        failures[getattr(error, "at_layer", "")] = error
    missing = set(failures)
    for path, entry in entries.items():
        scope = _scope(builder.scope, entry.scope)
        if not entry.used or scope is None or path in missing:
            continue
        if not missing.isdisjoint(entry.needs):
            missing.add(path)
            continue
        try:
            builder.layer(scope, entry.name)
        except Exception as error:
            missing.add(path)
            failures.setdefault(getattr(error, "at_layer", path), error)
    if not missing:
        try:
            builder.construct({}, [path for path, entry in entries.items() if entry.used and not entry.scope.path])
        except Exception as error:
            failures[getattr(error, "at_layer", "")] = error
    return failures


def _scope(root: Scope, wanted: Scope) -> Scope | None:
    """The same net in the builder; None in a recurrent net, whose layers are constructed together."""
    if wanted.in_loop is not None:
        return None
    if wanted.parent is None:
        return root
    above = _scope(root, wanted.parent)
    return None if above is None else above.sub(wanted.name)
