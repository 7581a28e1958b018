"""The order of computation: what of a recurrent net is computed before, in and after its loop."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.errors import NetworkError
from rfnb.network.build.node import Node
from rfnb.network.rec.net import RecNet


def order_of(nodes: Mapping[str, Node], loop: RecNet | None) -> list[Node | RecNet]:
    """All that is computed in the net of a loop, or outside of loops: each after what it needs.

    A loop in it stands for all that its steps compute.
    """
    nets = {node.loop for node in nodes.values() if node.loop is not None}
    inner = [rec for net in nets for rec in net.chain if rec.outer is loop]
    done: dict[str, None] = {}
    found: list[Node | RecNet] = []
    for start in [path for path, node in nodes.items() if node.loop is loop] + [rec.path for rec in inner]:
        todo = [(start, False)]
        begun: dict[str, None] = {}
        while todo:
            path, ready = todo.pop()
            rec = _loop_with(nodes, path, loop)
            key = path if rec is None else f"{rec.path} as a loop"
            if ready:
                found.append(nodes[path] if rec is None else rec)
                done[key] = None
                begun.pop(key, None)
            elif key not in done and (rec is not None or nodes[path].loop is loop):
                if key in begun:
                    raise NetworkError(f"{path} needs itself", got=" → ".join([*begun, key]), expected="an order")
                begun[key] = None
                todo.append((path, True))
                todo += [(need, False) for need in _needs(nodes, path, rec)]
    return found


def _loop_with(nodes: Mapping[str, Node], path: str, loop: RecNet | None) -> RecNet | None:
    """The loop, in the net of `loop`, that computes this value; None if it is computed there itself, or farther out."""
    at = nodes[path].loop if path in nodes else None
    while at is not None and at is not loop:
        if at.outer is loop:
            return at
        at = at.outer
    return None


def _needs(nodes: Mapping[str, Node], path: str, rec: RecNet | None) -> list[str]:
    if rec is None:
        return list(nodes[path].needs)
    inside = [node for node in nodes.values() if node.loop is not None and node.loop in rec]
    names = [*rec.sources, *rec.inputs.values(), *(path for path in rec.initial.values() if path in nodes)]
    names += [need for node in inside for need in node.needs]
    for net in {node.loop for node in inside if node.loop is not None}:
        names += [*net.sources, *net.inputs.values()]
        names += [path for path in net.initial.values() if isinstance(path, str) and path in nodes]
    return [name for name in names if nodes[name].loop is None or nodes[name].loop not in rec]


def put_in_order(rec: RecNet, nodes: Mapping[str, Node]) -> None:
    """Sets what the net computes in each step."""
    rec.before, rec.after = [], []
    rec.inside = order_of(nodes, rec)  # type: ignore[assignment]


def outside_needs(node: Node | RecNet) -> list[str]:
    """The paths of the values from outside that a layer, or a recurrent net, takes in each call."""
    if isinstance(node, Node):
        return [*node.sources, *node.inputs.values()]
    inside = [each for each in node.inside if isinstance(each, Node)]
    frames = [each.of for each in inside if each.kind == "frame" and each.of]
    return [*node.sources, *node.inputs.values(), *frames]
