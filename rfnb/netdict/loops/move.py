"""Which layers leave a loop: those that have a form for all frames together, and what these need, or what needs them.

A layer may be computed before the loop if all that it needs is known there, and after it if nothing in the loop needs
it. Layers without a state stay in the loop, whose own optimization computes each of their ops for all steps together
where that is possible. So only layers with a state are moved, with those on the way to them, and layers with
batch_norm: its statistics of all frames are not those of a step. If all layers may be computed before the loop, all of
them are, and there is no loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.build.node import NetNode, run_node, stepping
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.values import along, forget_penalties
from rfnb.ops.shape import set_feature_dim
from rfnb.ops.slice import shift_right

if TYPE_CHECKING:
    from rfnb.netdict.inner_net import InnerNet

Item = NetNode | RecNet


def split(
    rec: RecNet, nodes: Mapping[str, NetNode], inside: list[Item]
) -> tuple[list[NetNode], list[Item], list[NetNode]]:
    """What is computed before the loop, in each step, and after it. inside: all, each after what it needs."""
    free, late = before_and_after(rec, nodes, inside)
    roots = [node for node in free if _wants_all_frames(node) or node.kind == "previous"]
    if len(free) == len(inside):
        roots = free  # nothing is left for the loop
    early = {node.path for node in _closure(roots, nodes, {node.path for node in free})}
    late_roots = [node for node in late if _wants_all_frames(node)]
    after = _with_users(late_roots, nodes, {node.path for node in late})
    for node in inside:
        if isinstance(node, NetNode) and node.kind == "part":
            for moved in (early, after):
                if node.of in moved:
                    moved.add(node.path)
    parts: tuple[list[NetNode], list[Item], list[NetNode]] = ([], [], [])
    for item in inside:
        if isinstance(item, NetNode) and item.path in early:
            parts[0].append(item)
        elif isinstance(item, NetNode) and item.path in after:
            parts[2].append(item)
        else:
            parts[1].append(item)
    for node in (*parts[0], *parts[2]):
        if node.state is not None and node.layer is not None:
            stepping(node).leave_loop(rec.frames)
            node.left = True
    return parts


def before_and_after(
    rec: RecNet, nodes: Mapping[str, NetNode], inside: Iterable[Item]
) -> tuple[list[NetNode], list[NetNode]]:
    """The values that could be computed before the loop, and those that could be computed after it."""
    stay = looked_into(rec, nodes, inside)
    candidates = [item for item in inside if isinstance(item, NetNode) and item.path not in stay]
    early: dict[str, NetNode] = {}
    changed = True
    while changed:
        changed = False
        for node in candidates:
            needs = [*node.needs, *([node.of] if node.kind == "previous" else [])]
            ready = all(nodes[path].loop not in rec or path in early for path in needs)
            if node.path not in early and _may_move(rec, node) and ready:
                early[node.path] = node
                changed = True
    users = users_of(nodes, inside)
    late: dict[str, NetNode] = {}
    changed = True
    while changed:
        changed = False
        for node in reversed(candidates):
            unused = all(isinstance(user, NetNode) and user.path in late for user in users.get(node.path, ()))
            if node.path not in late and node.path not in early and _may_move(rec, node) and unused:
                late[node.path] = node
                changed = True
    return list(early.values()), list(late.values())


def users_of(nodes: Mapping[str, NetNode], inside: Iterable[Item]) -> dict[str, list[Item]]:
    """What needs a value in the same step, or as that of the step before; by the path of the value."""
    users: dict[str, list[Item]] = {}
    for item in inside:
        if isinstance(item, RecNet):
            loops = [node for node in nodes.values() if node.loop is not None and node.loop in item]
            needs = [*item.sources, *item.inputs.values(), *(path for node in loops for path in node.needs)]
        else:
            needs = [*item.needs, *([item.of] if item.kind == "previous" else [])]
        for path in needs:
            users.setdefault(path, []).append(item)
    return users


def _wants_all_frames(node: NetNode) -> bool:
    """Whether a layer is computed for all frames together if that is possible: one with a state, or with statistics."""
    return node.state is not None or (node.layer is not None and node.layer.spec.normalized is not None)


def _may_move(rec: RecNet, node: NetNode) -> bool:
    if not rec.known or node.path == rec.end:
        return False
    layer = node.layer
    if layer is None:
        return True
    chooses = layer.traits.in_search and rec.beam is not None
    return not layer.what_keeps and not chooses and not layer.traits.by_place


def looked_into(rec: RecNet, nodes: Mapping[str, NetNode], inside: Iterable[Item]) -> set[str]:
    """Layers whose state in a step is taken by others: over all frames, only the last state is known."""
    paths = [*users_of(nodes, inside), *rec.accumulated]
    parts = [path for path in paths if path in nodes and nodes[path].kind == "part"]
    state_parts = {path for path in parts if "/state:" in path}
    return {nodes[path].of for path in state_parts if nodes[nodes[path].of].state is not None}


def _closure(wanted: Iterable[NetNode], nodes: Mapping[str, NetNode], among: set[str]) -> list[NetNode]:
    """The wanted ones and all that they need."""
    closure: dict[str, NetNode] = {}
    todo = list(wanted)
    while todo:
        node = todo.pop()
        if node.path in closure or node.path not in among:
            continue
        closure[node.path] = node
        todo += [nodes[path] for path in (*node.needs, *([node.of] if node.kind == "previous" else []))]
    return list(closure.values())


def _with_users(wanted: Iterable[NetNode], nodes: Mapping[str, NetNode], among: set[str]) -> set[str]:
    """The paths of the wanted ones and of all that need them."""
    users: dict[str, list[NetNode]] = {}
    for path in among:
        for need in (*nodes[path].needs, *([nodes[path].of] if nodes[path].kind == "previous" else [])):
            users.setdefault(need, []).append(nodes[path])
    paths: set[str] = set()
    todo = list(wanted)
    while todo:
        node = todo.pop()
        if node.path in among and node.path not in paths:
            paths.add(node.path)
            todo += users.get(node.path, [])
    return paths


def what_keeps(net: InnerNet) -> str:
    """What keeps the unit in the steps of a loop, whatever it needs; "" if nothing does."""
    for node in net.order:
        if isinstance(node, RecNet):
            return "has a loop in its unit, which runs in each step"
        layer = node.layer
        if layer is not None and layer.what_keeps:
            return f"has a unit with {net.called(node.path) or layer.layer_class}, which {layer.what_keeps}"
    ordered = over_frames(net)
    previous = [node for node in net.order if isinstance(node, NetNode) and node.kind == "previous"]
    late = [net.called(node.of) for node in previous if node not in ordered]
    return f"has a unit that needs {late[0] or 'its own output'} of the frame before" if late else ""


def over_frames(net: InnerNet) -> list[NetNode]:
    """The nodes of a unit, each after those that it needs, in the frame before too; without those of a circle."""
    todo = [node for node in net.order if isinstance(node, NetNode)]
    paths, ordered = {node.path for node in todo}, {}
    while ready := [node for node in todo if all(path in ordered or path not in paths for path in _needs(node))]:
        ordered.update({node.path: node for node in ready})
        todo = [node for node in todo if node.path not in ordered]
    return list(ordered.values())


def _needs(node: NetNode) -> list[str]:
    return [*node.needs, *([node.of] if node.kind == "previous" else [])]


def leave_loop(net: InnerNet, frames: Dim) -> None:
    """The layers of the unit that carry a state are computed along an axis from now on."""
    for node in net.nodes.values():
        if node.state is not None and node.layer is not None:
            stepping(node).leave_loop(frames)
            node.left = True


def run_over_frames(
    net: InnerNet, given: Mapping[str, Tensor], known: Mapping[str, Tensor | None], frames: Dim
) -> dict[str, Tensor]:
    """The values of all nodes, by path, for all frames. given: all from outside; known: those before the loop."""
    values = {path: given[key] for key, path in net.inputs.items()}
    for node in over_frames(net):
        if node.kind == "previous":
            x = along(values[node.of], frames)
            y = shift_right(x, axis=frames, pad_value=net.first_output(known, net.nodes[node.of], node.first))
            values[node.path] = set_feature_dim(y, node.template.feature_dim)
        elif node.layer is not None:
            if node.state is not None:
                values.update({path: along(values[path], frames) for path in node.sources})
            run_node(node, values)
            forget_penalties(node)
    return values
