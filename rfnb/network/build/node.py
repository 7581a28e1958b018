"""What a net consists of once it is constructed: a node for each layer, each data key, and each value of a loop."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.network.layer import Layer
from rfnb.network.losses import LayerLoss

if TYPE_CHECKING:
    from rfnb.network.rec.net import RecNet

Kind = Literal["layer", "part", "data", "frame", "previous", "step"]


@dataclass(eq=False)
class NetNode:
    """A constructed layer, or another value, and where it takes its inputs from.

    Attributes:
        template: its value without numbers; of a value in a loop, that of one step.
        sources, inputs: paths of nodes; inputs by the names of options.
        prepared: templates of what the layer gets from its sources, once somebody asked for its first state.
        unused: sources in the net dict that the value does not depend on: the scores of a choice without a search.
        kind: "part" is a further output of a layer. In a loop: "frame" is the frame of the step, "previous" the value
            of a layer in the step before, "step" the number of the step.
        of: the path of that layer, or of what the frame is of.
        loop: the recurrent net whose step has the value; None outside of loops.
        state: what the layer carries from step to step, as a template; None if it carries nothing. left: whether the
            layer has left its loop, so that it carries it along the frames.
        first: of a value of the step before in a net inside of a layer, what is given for the first step.
        guessed: whether the template is a guess, as the layer is not constructed yet.
    """

    path: str
    layer: Layer | None
    template: Tensor
    sources: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    loss: LayerLoss | None = None
    inv_norm_factor: str | None = None
    kind: Kind = "layer"
    of: str = ""
    loop: RecNet | None = None
    state: State | None = None
    left: bool = False
    guessed: bool = False
    first: Any = None
    unused: tuple[str, ...] = ()
    prepared: tuple[Tensor, ...] | None = None

    @property
    def changes_params(self) -> bool:
        """Whether the layer has other parameters in each call: with noise, for example."""
        return self.layer is not None and bool(self.layer.changes)

    @property
    def needs(self) -> tuple[str, ...]:
        """The paths of all values that its own is computed from, in the same step."""
        owner = (self.of,) if self.kind in ("part", "frame") and self.of else ()
        return (*self.sources, *self.inputs.values(), *owner)


def run_node(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Computes the output of a layer outside of loops, and its further outputs."""
    layer, value = node.layer, values.__getitem__
    assert layer is not None
    inputs = dict(zip(node.inputs, map(value, node.inputs.values()), strict=True))
    values[node.path] = layer(*map(value, node.sources), **inputs)
    if layer.parts:
        take_parts(node, values)


def take_parts(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Moves the further outputs of a layer to the values."""
    assert node.layer is not None
    if node.layer.parts:
        values.update({f"{node.path}/{part}": x for part, x in node.layer.parts.items()})
        node.layer.parts = {}


def every_node(nodes: Mapping[str, NetNode]) -> dict[str, NetNode]:
    """The nodes by path, with those of nets inside of layers: units of masked_computation, sides of cond."""
    every = dict(nodes)
    for node in nodes.values():
        for net in node.layer.nets_inside if node.layer is not None else ():
            every.update(net.every_node())
    return every
