"""What losses and constraints take of the layers in a loop: values of all steps."""

from __future__ import annotations

from collections.abc import Iterator

from rfnb.core.tensor.tensor import Tensor
from rfnb.network.build.node import NetNode
from rfnb.network.layer import nets_inside
from rfnb.network.rec.net import RecNet

LOGITS, BEFORE, OUTPUT = "logits", "before its activation", "output"


def of_losses(node: NetNode) -> Iterator[tuple[str, Tensor]]:
    """The names and values, in one step, of what has to leave the loop besides outputs."""
    layer = node.layer
    assert layer is not None
    if node.loss is not None and layer.last.logits is not None:
        yield LOGITS, layer.last.logits
    if layer.last.for_penalties is not None:
        yield from zip((BEFORE, OUTPUT), layer.last.for_penalties, strict=True)


def give_back(node: NetNode, name: str, x: Tensor) -> None:
    """Gives the value of all steps to the layer."""
    assert node.layer is not None
    last = node.layer.last
    if name == LOGITS:
        last.logits = x
    else:
        last.for_penalties = (x, x) if name == BEFORE or last.for_penalties is None else (last.for_penalties[0], x)


def forget_penalties(item: NetNode | RecNet) -> None:
    """Drops what one step left in layers, also in loops inside of the loop and in units, which have no constraints."""
    if isinstance(item, RecNet):
        for node in (*item.before, *item.inside, *item.after):
            forget_penalties(node)
    elif item.layer is not None:
        item.layer.last.for_penalties = None
        for net in nets_inside(item.layer):
            for node in net.every_node().values():
                forget_penalties(node)
