"""Constructs the layers of a net dict that can be constructed, and keeps the errors of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.network.construct import Builder
from rfnb.network.outline import Entry
from rfnb.network.resolve import SUBNETS, Scope


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
    return failures


def _scope(root: Scope, wanted: Scope) -> Scope | None:
    """The same net in the builder; None if its layers are not constructed one by one."""
    names = []
    while wanted.parent is not None:
        if wanted.parent.layers[wanted.name].get("class") not in SUBNETS:
            return None
        names.append(wanted.name)
        wanted = wanted.parent
    for name in reversed(names):
        root = root.sub(name)
    return root
