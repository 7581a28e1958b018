"""The order of computation: what of a recurrent net is computed before, in and after its loop."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.errors import NetworkError
from rfnb.netdict.build.node import NetNode
from rfnb.netdict.layer import LayerOfNets, SteppingLayer
from rfnb.netdict.layer_call.layer_errors import named_after
from rfnb.netdict.loops.move import split, users_of
from rfnb.netdict.loops.net import RecNet


def order_of(nodes: Mapping[str, NetNode], loop: RecNet | None) -> list[NetNode | RecNet]:
    """All that is computed in the net of a loop, or outside of loops: each after what it needs.

    A loop in it stands for all that its steps compute.
    """
    nets = {node.loop for node in nodes.values() if node.loop is not None}
    inner = [rec for net in nets for rec in net.chain if rec.outer is loop]
    keys: dict[str, None] = {}
    order: list[NetNode | RecNet] = []
    for start in [path for path, node in nodes.items() if node.loop is loop] + [rec.path for rec in inner]:
        todo = [(start, False)]
        open_keys: dict[str, None] = {}
        while todo:
            path, ready = todo.pop()
            rec = _loop_with(nodes, path, loop)
            key = path if rec is None else f"{rec.path} as a loop"
            if ready:
                order.append(nodes[path] if rec is None else rec)
                keys[key] = None
                open_keys.pop(key, None)
            elif key not in keys and (rec is not None or nodes[path].loop is loop):
                if key in open_keys:
                    raise NetworkError(f"{path} needs itself", got=" → ".join([*open_keys, key]), expected="an order")
                open_keys[key] = None
                todo.append((path, True))
                todo += [(need, False) for need in needs_of(rec or nodes[path], nodes)]
    return order


def _loop_with(nodes: Mapping[str, NetNode], path: str, loop: RecNet | None) -> RecNet | None:
    """The loop, in the net of `loop`, that computes this value; None if it is computed there itself, or farther out."""
    at = nodes[path].loop if path in nodes else None
    while at is not None and at is not loop:
        if at.outer is loop:
            return at
        at = at.outer
    return None


def needs_of(item: NetNode | RecNet, nodes: Mapping[str, NetNode]) -> list[str]:
    """The paths of what a value needs in the same step, or of all that a loop needs from outside."""
    if isinstance(item, NetNode):
        return list(item.needs)
    rec = item
    members = [node for node in nodes.values() if node.loop is not None and node.loop in rec]
    names = [*rec.sources, *rec.inputs.values(), *(path for path in rec.initial.values() if path in nodes)]
    names += [need for node in members for need in node.needs]
    for net in {node.loop for node in members if node.loop is not None}:
        names += [*net.sources, *net.inputs.values()]
        names += [path for path in net.initial.values() if isinstance(path, str) and path in nodes]
    return [name for name in names if nodes[name].loop is None or nodes[name].loop not in rec]


def put_in_order(rec: RecNet, nodes: Mapping[str, NetNode]) -> None:
    """Sets what the net computes in each step."""
    items = order_of(nodes, rec)
    used_paths = _taken(rec, nodes)
    parts: dict[str, list[NetNode]] = {}
    for node in items:
        if isinstance(node, NetNode) and node.kind == "part":
            parts.setdefault(node.of, []).append(node)
    for of, part_nodes in parts.items():
        layer = nodes[of].layer
        if layer is not None:
            layer.decide(gives_parts=any(node.path in used_paths for node in part_nodes))
    items = [item for item in items if isinstance(item, RecNet) or item.kind != "part" or item.path in used_paths]
    if rec.known and any(_takes_axis(item, rec, nodes) for item in items):
        rec.make_own_axis()
    rec.before, rec.inside, rec.after = split(rec, nodes, items) if rec.moves else ([], items, [])
    for node in rec.inside:
        if (
            isinstance(node, NetNode)
            and isinstance(node.layer, SteppingLayer)
            and node.layer.needs_all_frames
            and node.state is not None
        ):
            raise named_after(node.layer, NetworkError(
                "it needs the whole sequence, but stays in the loop", got=_what_keeps(node, rec, nodes),
                expected="a layer that may leave the loop: its sources do not depend on prev:…", hint='"direction": 1',
            ))  # fmt: skip
    computed = {node.path for node in rec.inside if isinstance(node, NetNode)}
    for node in rec.after:
        needs = [*node.needs, *([node.of] if node.kind == "previous" else [])]
        of_steps = [path for path in needs if path in computed or nodes[path].loop in rec.inner(nodes)]
        rec.accumulated.update(dict.fromkeys(path for path in of_steps if _is_value(nodes[path])))


def _takes_axis(item: NetNode | RecNet, rec: RecNet, nodes: Mapping[str, NetNode]) -> bool:
    """Whether a value of a step has the axis of the loop, or takes one from outside that has it, with all frames."""
    if isinstance(item, NetNode) and item.kind == "frame":
        return False
    if isinstance(item, NetNode) and rec.axis in item.template.dims:
        return True
    sources = [nodes[path] for path in needs_of(item, nodes) if path in nodes and nodes[path].loop not in rec]
    return any(rec.axis in node.template.dims for node in sources)


def ends_of_steps(node: NetNode, rec: RecNet, nodes: Mapping[str, NetNode]) -> list[str]:
    """The values of a loop that are needed after its steps: outputs and losses, also those inside of a layer."""
    if node.layer is None:
        return []
    ends = [node.path] if node.loss or node.layer.spec.common.is_output_layer else []
    inside = node.layer.ends_inside(node) if isinstance(node.layer, LayerOfNets) else ()
    return [*ends, *(path for path in inside if nodes[path].loop in rec)]


def way_to_the_step_before(node: NetNode, nodes: Mapping[str, NetNode]) -> list[str]:
    """The shortest way from a value, by what it needs, to one of the step before; if there is none, the value alone."""
    ways, visited = [[node.path]], {node.path}
    while ways:
        way = ways.pop(0)
        if nodes[way[-1]].kind == "previous":
            return way
        for need in nodes[way[-1]].needs:
            if need in nodes and nodes[need].loop is node.loop and need not in visited:
                visited.add(need)
                ways.append([*way, need])
    return [node.path]


def _what_keeps(node: NetNode, rec: RecNet, nodes: Mapping[str, NetNode]) -> str:
    """What keeps a layer in the loop that could leave it otherwise: a path, or words."""
    way = way_to_the_step_before(node, nodes)
    if len(way) > 1:
        return " ← ".join(map(rec.name_of, way))
    if not rec.moves:
        return '"optimize_move_layers_out": False'
    readers = [
        rec.name_of(item.path)
        for path, items in users_of(nodes, rec.inside).items()
        for item in items
        if nodes[path].of == node.path and nodes[path].kind == "part" and item.path != node.path
    ]
    return f"{', '.join(dict.fromkeys(readers))} reads its state in each step" if readers else rec.name_of(node.path)


def circle_through(path: str, nodes: Mapping[str, NetNode]) -> list[str]:
    """The shortest circle of values through one, each of which needs the next one, perhaps of the step before."""
    ways, visited = [[path]], set()
    for way in ways:
        node = nodes[way[-1]]
        for need in (*node.needs, *([node.of] if node.kind == "previous" else [])):
            if need == path:
                return [*way, need]
            if need in nodes and need not in visited:
                visited.add(need)
                ways.append([*way, need])
    return [path]


def _taken(rec: RecNet, nodes: Mapping[str, NetNode]) -> set[str]:
    """The paths of all values that others take, in the loop or outside of it."""
    paths: set[str | None] = {*rec.accumulated}
    for node in nodes.values():
        paths.update((*node.needs, node.of) if node.kind != "part" else ())
        paths.update((node.target, node.inv_norm_factor))
    for net in {net for node in nodes.values() if node.loop is not None for net in node.loop.chain}:
        paths.update((*net.sources, *net.inputs.values(), *net.initial.values()))
    return {path for path in paths if isinstance(path, str)}


def _is_value(node: NetNode) -> bool:
    """Whether a value of a step is known only in the loop; frames and the numbers of steps are known outside."""
    return node.kind in ("layer", "part", "previous")


def outside_needs(node: NetNode | RecNet) -> list[str]:
    """The paths of the values from outside that a layer, or a recurrent net, takes in each call."""
    if isinstance(node, NetNode):
        return [*node.sources, *node.inputs.values()]
    members = [member for member in node.inside if isinstance(member, NetNode)]
    frames = [member.of for member in members if member.kind == "frame" and member.of]
    return [*node.sources, *node.inputs.values(), *frames]
