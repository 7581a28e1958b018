"""What a net consists of once it is constructed: a node for each layer, each data key, and each value of a loop."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer, SteppingLayer, nets_inside
from rfnb.netdict.losses import LayerLoss

if TYPE_CHECKING:
    from rfnb.netdict.loops.net import RecNet

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
        return self.layer is not None and self.layer.spec.changes is not None

    @property
    def needs(self) -> tuple[str, ...]:
        """The paths of all values that its own is computed from, in the same step."""
        owner = (self.of,) if self.kind in ("part", "frame") and self.of else ()
        return (*self.sources, *self.inputs.values(), *owner)


def stepping(node: NetNode) -> SteppingLayer:
    """The layer of a node that has a state."""
    assert isinstance(node.layer, SteppingLayer)
    return node.layer


def run_node(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Computes the output of a layer outside of loops, and its further outputs."""
    layer, value = node.layer, values.__getitem__
    assert layer is not None
    inputs = dict(zip(node.inputs, map(value, node.inputs.values()), strict=True))
    values[node.path] = layer(*map(value, node.sources), **inputs)
    if layer.last.parts:
        take_parts(node, values)


def take_parts(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Moves the further outputs of a layer to the values."""
    assert node.layer is not None
    if node.layer.last.parts:
        values.update({f"{node.path}/{part}": x for part, x in node.layer.last.parts.items()})
        node.layer.last.parts = {}


def every_node(nodes: Mapping[str, NetNode]) -> dict[str, NetNode]:
    """The nodes by path, with those of nets inside of layers: units of masked_computation, sides of cond."""
    every = dict(nodes)
    for node in nodes.values():
        for net in nets_inside(node.layer):
            every.update(net.every_node())
    return every


def origin_of(nodes: Mapping[str, NetNode], path: str, dim: Dim) -> str:
    """The path of the layer that made a dim of a value, or of the data that has it."""
    visited: set[str] = set()
    while path not in visited:
        visited.add(path)
        node = nodes[path]
        frames = node.loop.sources if node.kind == "frame" and node.loop is not None else ()
        sources = [name for name in (node.of, *node.needs, *frames) if name in nodes]
        path = next((name for name in sources if dim in nodes[name].template.dims), path)
    return path


def value_of(path: str, nodes: Mapping[str, NetNode]) -> Tensor:
    """The output of a layer, computed from constants and parameters. Raises NetworkError if it needs anything else."""
    values: dict[str, Tensor] = {}
    todo = [path]
    while todo:
        at = todo[-1]
        node = nodes[at]
        if node.kind != "layer" or node.layer is None or node.loop is not None:
            got = f"{at!r}, which is known in a batch only"
            raise NetworkError(
                "a layer without data is needed here", got=got, expected='for example "class": "constant"'
            )
        missing = list(dict.fromkeys(need for need in (*node.sources, *node.inputs.values()) if need not in values))
        if missing:
            todo += missing
            continue
        inputs = {name: values[source] for name, source in node.inputs.items()}
        values[todo.pop()] = node.layer(*(values[source] for source in node.sources), **inputs)
    return values[path]
