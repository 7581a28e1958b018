"""The order of computation: what of a recurrent net is computed before, in and after its loop.

A layer may be computed before the loop if all that it needs is known there, and after it if nothing in the loop needs
it. Layers without a state stay in the loop, whose own optimization computes each of their ops for all steps together
where that is possible. So only layers with a state are moved, with those on the way to them, and layers with
batch_norm: its statistics of all frames are not those of a step. If all layers may be computed before the loop, all of
them are, and there is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.build import NetNode, run_node, stepping
from rfnb.netdict.layer import ChoosingLayer, LayerOfNets
from rfnb.netdict.layer_call import named_after
from rfnb.netdict.loops.net import RecNet, along, forget_penalties
from rfnb.netdict.resolve import reached
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
    early = _reached(roots, free, lambda node: [nodes[path] for path in node.needs_ever])
    users = users_of(nodes, late)
    late_roots = [node for node in late if _wants_all_frames(node)]
    after = _reached(late_roots, late, lambda node: users.get(node.path, ())) - early
    values = [item for item in inside if isinstance(item, NetNode)]
    for moved in (early, after):
        moved |= {node for node in values if node.kind == "part" and nodes[node.of] in moved}
    before, later = [node for node in values if node in early], [node for node in values if node in after]
    let_leave((*before, *later), rec.frames)
    return before, [item for item in inside if item not in early and item not in after], later


def _reached(
    start: Iterable[NetNode], among: Iterable[NetNode], neighbours: Callable[[NetNode], Iterable[Item]]
) -> set[Item]:
    """All that can be reached from the start through neighbours, without leaving a set of nodes."""
    nodes = set[Item](among)
    inside = nodes.intersection(start)
    return reached(inside, lambda node: nodes.intersection(neighbours(node) if isinstance(node, NetNode) else ()))


def let_leave(nodes: Iterable[NetNode], frames: Dim) -> None:
    """Lets the layers that carry a state leave their loop: they are computed along an axis from now on."""
    for node in nodes:
        if node.state is not None and node.layer is not None:
            stepping(node).leave_loop(frames)
            node.left = True


def before_and_after(
    rec: RecNet, nodes: Mapping[str, NetNode], inside: Iterable[Item]
) -> tuple[list[NetNode], list[NetNode]]:
    """The values that could be computed before the loop, and those that could be computed after it."""
    stay, users = looked_into(rec, nodes, inside), users_of(nodes, inside)
    values = [item for item in inside if isinstance(item, NetNode) and item.path not in stay]
    movable = [node for node in values if _may_move(rec, node)]
    early = _grown(movable, lambda node: (nodes[path] for path in node.needs_ever if nodes[path].loop in rec))
    unmoved = {*movable}.difference(early)
    late = _grown([node for node in reversed(movable) if node in unmoved], lambda node: users.get(node.path, ()))
    return early, late


def _grown(candidates: Sequence[NetNode], requires: Callable[[NetNode], Iterable[Item]]) -> list[NetNode]:
    """The smallest part that a candidate joins as soon as all that it requires is in it."""
    grown: set[Item] = set()
    size = -1
    while len(grown) > size:
        size = len(grown)
        for node in candidates:
            if node not in grown and grown.issuperset(requires(node)):
                grown.add(node)
    return [node for node in candidates if node in grown]


def users_of(nodes: Mapping[str, NetNode], inside: Iterable[Item]) -> dict[str, list[Item]]:
    """What needs a value in the same step, or as that of the step before; by the path of the value."""
    users: dict[str, list[Item]] = {}
    for item in inside:
        if isinstance(item, RecNet):
            members = item.members(nodes)
            needs = [*item.sources, *item.inputs.values(), *(path for node in members for path in node.needs)]
        else:
            needs = [*item.needs_ever]
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
    chooses = isinstance(layer, ChoosingLayer) and rec.beam is not None
    return not layer.what_keeps and not chooses and not layer.traits.by_place


def looked_into(rec: RecNet, nodes: Mapping[str, NetNode], inside: Iterable[Item]) -> set[str]:
    """Layers whose state in a step is taken by others: over all frames, only the last state is known."""
    paths = [*users_of(nodes, inside), *rec.accumulated]
    parts = [path for path in paths if path in nodes and nodes[path].kind == "part"]
    state_parts = {path for path in parts if "/state:" in path}
    return {nodes[path].of for path in state_parts if nodes[nodes[path].of].state is not None}


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
    while ready := [node for node in todo if all(path in ordered or path not in paths for path in node.needs_ever)]:
        ordered.update({node.path: node for node in ready})
        todo = [node for node in todo if node.path not in ordered]
    return list(ordered.values())


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
    loops = nodes[path].loops if path in nodes else []
    return next((rec for rec in loops if rec.outer is loop), None)


def needs_of(item: NetNode | RecNet, nodes: Mapping[str, NetNode]) -> list[str]:
    """The paths of what a value needs in the same step, or of all that a loop needs from outside."""
    if isinstance(item, NetNode):
        return list(item.needs)
    rec = item
    members = rec.members(nodes)
    names = [*rec.sources, *rec.inputs.values(), *(path for path in rec.initial.values() if path in nodes)]
    names += [need for node in members for need in node.needs]
    for net in {node.loop for node in members if node.loop is not None}:
        names += [*net.sources, *net.inputs.values()]
        names += [path for path in net.initial.values() if isinstance(path, str) and path in nodes]
    return [name for name in names if nodes[name].loop not in rec]


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
        if isinstance(node, NetNode) and node.state is not None and stepping(node).needs_all_frames:
            raise named_after(stepping(node), NetworkError(
                "it needs the whole sequence, but stays in the loop", got=_what_keeps(node, rec, nodes),
                expected="a layer that may leave the loop: its sources do not depend on prev:…", hint='"direction": 1',
            ))  # fmt: skip
    computed = {node.path for node in rec.inside if isinstance(node, NetNode)}
    for node in rec.after:
        of_steps = [path for path in node.needs_ever if path in computed or nodes[path].loop in rec.inner(nodes)]
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


def shortest_way(start: str, needs: Callable[[str], Iterable[str]], ends: Callable[[str], bool]) -> list[str]:
    """The shortest way of at least one step from a value to one where `ends` is true; empty if there is none."""
    ways: list[list[str]] = [[start]]
    visited: set[str] = set()
    for way in ways:
        for need in needs(way[-1]):
            if ends(need):
                return [*way, need]
            if need not in visited:
                visited.add(need)
                ways.append([*way, need])
    return []


def _what_keeps(node: NetNode, rec: RecNet, nodes: Mapping[str, NetNode]) -> str:
    """What keeps a layer in the loop that could leave it otherwise: a path, or words."""
    way = shortest_way(  # to a value of the step before
        node.path,
        lambda path: [need for need in nodes[path].needs if need in nodes and nodes[need].loop is node.loop],
        lambda path: nodes[path].kind == "previous",
    )
    if way:
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
    needs = {name: [need for need in node.needs_ever if need in nodes] for name, node in nodes.items()}
    return shortest_way(path, needs.__getitem__, lambda need: need == path) or [path]


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
    for net in {net for node in nodes.values() for net in node.loops}:
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
