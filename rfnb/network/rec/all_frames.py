"""The unit of a layer that has left its loop: over all frames together, which are those that a mask has taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.build.node import NetNode, run_node
from rfnb.network.rec.losses import forget_penalties
from rfnb.network.rec.net import RecNet
from rfnb.network.rec.values import along
from rfnb.ops.shape import set_feature_dim
from rfnb.ops.slice import shift_right

if TYPE_CHECKING:
    from rfnb.network.inner_net import InnerNet


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
            node.layer.leave_loop(frames)
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
