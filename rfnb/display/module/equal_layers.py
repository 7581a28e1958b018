"""Groups neighbouring layers of equal form into one card that lists their differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from posixpath import commonpath
from typing import Any

from rfnb.display.kit.dims import dims_text
from rfnb.display.module.schema import ModuleNode, ParamRow

LINES = 4
"""Largest number of differences listed."""


def grouped(nodes: Sequence[ModuleNode], rows: Sequence[ParamRow]) -> list[ModuleNode]:
    """The nodes, with neighbours of equal form, and equal names except for a number, joined."""
    return [_merged(list(group), rows) for _, group in groupby(nodes, lambda node: _key(node, rows))]


def _key(node: ModuleNode, rows: Sequence[ParamRow]) -> Any:
    return re.sub(r"\d+", "#", node["name"]), _form(node, rows)


def _form(node: ModuleNode, rows: Sequence[ParamRow]) -> Any:
    """The form of a layer: classes, options and dims, but not dtypes, devices or what is trained."""
    params = [[_shape(rows[i]) for i in indices] for indices in node["params"]]
    children = [(child["name"], _form(child, rows)) for child in node["children"]]
    return node["cls"], node["note"], node["repeat"], node["shared"], params, children


def _shape(row: ParamRow) -> Any:
    name = row["path"].rpartition(".")[2]
    return name, dims_text(row["dims"]), row["shape"], row["buffer"], row["shared"]


def _merged(group: list[ModuleNode], rows: Sequence[ParamRow]) -> ModuleNode:
    first = group[0]
    if len(group) == 1:
        return first
    return {
        **_together(group),
        "name": f"{first['name']}–{group[-1]['name']}",
        "repeat": len(group),
        "count": sum(node["count"] for node in group),
        "frozen": sum(node["frozen"] for node in group),
        "differs": _differences(group, rows),
    }


def _together(group: Sequence[ModuleNode]) -> ModuleNode:
    """The tree of the first layer with the parameters of all. Differences mention parameters not trained in some."""
    columns = zip(*(node["params"] for node in group), strict=True)
    children = zip(*(node["children"] for node in group), strict=True)
    return {
        **group[0],
        "params": [[i for indices in column for i in indices] for column in columns],
        "frozen": min(node["frozen"] for node in group),
        "children": [_together(twins) for twins in children],
    }


def _differences(group: Sequence[ModuleNode], rows: Sequence[ParamRow]) -> list[str]:
    """ "0, 1: not trained", "3: float16 in up.weight, up.bias", "4: up.activation=silu" """
    layers = [[rows[i] for i in _numbers(node)] for node in group]
    usual = [[_most(values) for values in zip(*map(_facts, twins), strict=True)] for twins in zip(*layers, strict=True)]
    odd: dict[str, list[str]] = {}
    for node, layer, settings in zip(group, layers, _unusual(group), strict=True):
        words = ", ".join(filter(None, [_odd(layer, usual), *settings]))
        if words:
            odd.setdefault(words, []).append(node["name"])
    lines = [f"{_names(names)}: {words}" for words, names in odd.items()]
    return lines[:LINES] + ([f"{len(lines) - LINES} more that differ"] if len(lines) > LINES else [])


def _facts(row: ParamRow) -> tuple[str, str, str]:
    return row["dtype"], row["device"], "trained" if row["trainable"] else "not trained"


def _most(values: Sequence[str]) -> str:
    return Counter(values).most_common(1)[0][0]


def _odd(rows: Sequence[ParamRow], usual: Sequence[Sequence[str]]) -> str:
    """Unusual properties of a layer's parameters; parameters are named unless all have the property."""
    oddities: dict[str, list[str]] = {}
    for row, typical in zip(rows, usual, strict=True):
        for fact, expected in zip(_facts(row), typical, strict=True):
            if fact != expected:
                oddities.setdefault(fact, []).append(row["path"])
    top = len(commonpath([row["path"].replace(".", "/") for row in rows])) + 1 if oddities and len(rows) > 1 else 0
    return ", ".join(fact if len(paths) == len(rows) else _named(fact, paths, top) for fact, paths in oddities.items())


def _named(fact: str, paths: Sequence[str], top: int) -> str:
    tail = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
    return f"{fact} in {', '.join(path[top:] for path in paths[:2])}{tail}"


def _unusual(group: Sequence[ModuleNode]) -> list[list[str]]:
    """Unusual settings of each layer, without settings that differ in all of many layers and only number them."""
    settings = [list(_settings(node)) for node in group]
    common = Counter(setting for layer in settings for setting in layer)
    values = Counter(setting.partition("=")[0] for setting in common)
    numbers = {name for name, count in values.items() if count == len(group) > 2}
    return [
        [setting for setting in layer if 2 * common[setting] <= len(group) and setting.partition("=")[0] not in numbers]
        for layer in settings
    ]


def _settings(node: ModuleNode, path: str = "") -> Iterator[str]:
    """ "activation=silu", "up.bias=True" """
    yield from (path + setting for setting in node["settings"])
    for child in node["children"]:
        yield from _settings(child, f"{path}{child['name']}.")


def _numbers(node: ModuleNode) -> Iterator[int]:
    for indices in node["params"]:
        yield from indices
    for child in node["children"]:
        yield from _numbers(child)


def _names(names: list[str]) -> str:
    start = ", ".join(names[:4])
    return start if len(names) <= 4 else f"{start} … {names[-1]} ({len(names)} of them)"
