"""Names, classes and other words for the nodes of a graph, and names and dims of its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node, SideFacts, Value
from rfnb.core.ground.text import count_of
from rfnb.display.graph.schema import GraphValue
from rfnb.display.kit.data import UNKNOWN, Axis, DimView, describe_axes


def joined(first: str, last: str, count: int = 0) -> str:
    """One name for `count` nodes, made from the names of the first and the last.

    >>> joined("layers.0", "layers.11"), joined("conv", "norm"), joined("conv", "norm", 2)
    ('layers.0–11', 'conv–norm', 'conv, norm')
    """
    stem, _, tail = last.rpartition(".")
    if first == last:
        return first
    if count == 2 and not tail.isdigit():
        return f"{first}, {last}"
    return f"{first}–{tail if stem and first.startswith(f'{stem}.') else last}"


def kind_of(node: Node) -> Any:
    """The kind of a node's box in a view; inputs and states of a loop look like ops."""
    return "op" if node.kind in ("input", "state") else node.kind


def opens(node: Node, is_shown_elsewhere: Callable[[Node], bool]) -> bool:
    """Whether a node has a body to show; ops inside of an op, and nodes shown elsewhere, do not count."""
    body = [child for child in node.body if not is_shown_elsewhere(child)]
    if not body:
        return False
    if kind_of(node) == "op":
        return any(child.kind in ("module", "loop", "cond") or opens(child, is_shown_elsewhere) for child in body)
    return node.module is None or len(body) > 1 or kind_of(body[0]) != "op"


def first_name(node: Node) -> str:
    """The name of a node; for a group, that of its first module."""
    return first_name(_named(node)[0]) if node.kind == "section" else _own_name(node)


def last_name(node: Node) -> str:
    """The name of a node; for a group, that of its last module."""
    return last_name(_named(node)[-1]) if node.kind == "section" else _own_name(node)


def _own_name(node: Node) -> str:
    if isinstance(node.facts, SideFacts):
        return "if true" if node.facts.when else "if false"
    return node.name or node.op


def _named(node: Node) -> list[Node]:
    """The modules of a group; all of its nodes, if there is no module."""
    return [child for child in node.body if child.kind in ("module", "section")] or node.body


def giver_name(node: Node) -> str:
    """The name of a node; for a group, that of the node that gives its results."""
    return giver_name(node.body[-1]) if node.kind == "section" else node.name or node.op


def class_of(node: Node) -> str:
    """The class of a module, the classes in a section, or the op."""
    if node.kind == "section":
        classes = list(dict.fromkeys(map(class_of, node.body)))
        return ", ".join(classes[:3]) + (" …" if len(classes) > 3 else "")
    if node.module is None:
        return "" if node.kind == "side" else node.op
    is_plain = node.module.cls == "Functional" and len(node.body) == 1
    return node.body[0].op if is_plain else node.module.cls


def path_of(node: Node) -> str:
    """The path of a module; for other nodes, the path of the module around and their name."""
    if node.kind == "section":
        return f"{path_of(node.body[0])}…"
    return node.module.path if node.module else ".".join(filter(None, [node.path, node.name or node.op]))


def parameters_of(node: Node) -> int:
    """The number of parameters of a node; a module counts at its first call only."""
    if node.kind == "section":
        return sum(map(parameters_of, node.body))
    return node.module.count if node.module is not None and not node.module.call else 0


def steps(node: Node) -> Iterator[str]:
    """`200 steps, 87–200 by sequence`"""
    loop = node.loop
    if loop is None or loop.size is None:
        return
    words = count_of(loop.size.max, "step")
    yield f"{words}, {loop.size.span()} by sequence" if loop.size.ragged else words


def inputs_below(node: Node) -> Iterator[int]:
    """Values read by a node and all nodes inside."""
    yield from node.inputs
    for child in node.body:
        yield from inputs_below(child)


def within(path: str, home: str) -> bool:
    """Whether a path is that of a module or of something inside."""
    return not home or path == home or path.startswith(f"{home}.")


class Values:
    """Describes values and collects their dims."""

    def __init__(self) -> None:
        self.dims: list[DimView] = []
        self._places: dict[object, int] = {}

    def describe(self, value: Value, name: str, taken: Sequence[object] = ()) -> GraphValue:
        """The JSON of a value. taken: signatures of the values that its node reads."""
        return {
            "value": value.number,
            "name": name,
            "dims": self._dims_of(value),
            "shape": None if value.shape is None else list(value.shape),
            "changed": signature(value) not in taken,
        }

    def _dims_of(self, value: Value) -> list[int]:
        sizes = value.sizes or (None,) * len(value.dims)
        key = tuple(
            (dim.serial, size and (size.max, size.values.tobytes()))
            for dim, size in zip(value.dims, sizes, strict=True)
        )
        missing = [k for k in key if k not in self._places]
        if missing:
            axes = [_axis(dim, size) for dim, size in zip(value.dims, sizes, strict=True)]
            for k, view in zip(key, describe_axes(axes), strict=True):
                if k not in self._places:
                    self._places[k] = len(self.dims)
                    self.dims.append(view | {"lengths": None})
        return [self._places[k] for k in key]


def _axis(dim: Dim, size: Size | None) -> Axis:
    if size is None:
        return Axis(dim, UNKNOWN if dim.dimension is None else dim.dimension)
    return Axis(dim, size.max, size.dims, size.values if size.values.ndim else None)


def name_of(value: Value) -> str:
    """The user's name of a value, else the name of its op."""
    if value.name or value.node is None:
        return value.name or value.path or value.kind
    return value.node.name or value.node.op


def signature(value: Value) -> object:
    """A key that is equal for values with the same dims, in any order."""
    return value.shape if value.shape is not None else frozenset(dim.serial for dim in value.dims)


def maker_of(value: Value) -> str:
    """The op that gives a value, or the number that it is."""
    return (value.node.name or value.node.op) if value.node else value.name
