"""The order of computation: what of a recurrent net is computed before, in and after its loop.

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
from rfnb.errors import NetworkError
from rfnb.netdict.build import NetNode, run_node, stepping
from rfnb.netdict.layer import LayerOfNets, SteppingLayer
from rfnb.netdict.layer_call import named_after
from rfnb.netdict.loops.net import RecNet, along, forget_penalties
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
    used_paths = _taken(nodes) | {*rec.accumulated}
    decide_parts(items, nodes, used_paths)
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


def decide_parts(
    items: Iterable[NetNode | RecNet], nodes: Mapping[str, NetNode], used_paths: set[str] | None = None
) -> None:
    """Tells layers which of their further outputs are used. used_paths: default: outside of loops, where users may take
    what costs nothing, the parts of states."""
    if used_paths is None:
        used_paths = _taken(nodes) | {path for path in nodes if not path.endswith("/state:*")}
    parts: dict[str, set[str]] = {}
    for node in items:
        if isinstance(node, NetNode) and node.kind == "part":
            names = parts.setdefault(node.of, set())
            if node.path in used_paths:
                names.add(node.path[len(node.of) + 1 :])
    for of, used in parts.items():
        layer = nodes[of].layer
        if layer is not None:
            layer.decide(used_parts=frozenset(used))


def _taken(nodes: Mapping[str, NetNode]) -> set[str]:
    """The paths of all values that others take, in loops or outside of them."""
    paths: set[str | None] = set()
    for node in nodes.values():
        paths.update((*node.needs, node.of) if node.kind != "part" else ())
        paths.update((node.target, node.inv_norm_factor, *node.loss_inputs.values()))
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
