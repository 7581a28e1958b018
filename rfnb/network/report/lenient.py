"""Constructs the layers of a net dict that can be constructed, and keeps the errors of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.network.builder import Builder
from rfnb.network.inner_net import InnerScope
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
    ends = [path for path, entry in entries.items() if entry.used and not entry.scope.path]
    _leave_out(builder, [path for path in builder.loops.nets if path not in builder.nodes])
    try:
        builder.construct({}, [] if missing else ends)
    except Exception as error:
        failures.setdefault(getattr(error, "at_layer", ""), error)
        _leave_out(builder, list(builder.loops.nets))
    return failures


def _leave_out(builder: Builder, loops: list[str]) -> None:
    """Removes loops that are not complete, and all that needs a value of theirs."""
    nodes, nets = builder.nodes, builder.loops.nets
    dropped = {net for path in loops if path in nets for net in nets.values() if nets[path] in net.chain}
    for path in [path for path, node in nodes.items() if node.loop in dropped]:
        del nodes[path]
    for net in dropped:
        nets.pop(net.path, None)
        nodes.pop(net.path, None)
    while orphans := [path for path, node in nodes.items() if any(need not in nodes for need in node.needs)]:
        for path in orphans:
            del nodes[path]


def _scope(root: Scope, wanted: Scope) -> Scope | None:
    """The same net in the builder; None in recurrent nets and units, whose layers are constructed together."""
    if wanted.in_loop is not None or isinstance(wanted, InnerScope):
        return None
    if wanted.parent is None:
        return root
    parent = _scope(root, wanted.parent)
    return None if parent is None else parent.sub(wanted.name)
