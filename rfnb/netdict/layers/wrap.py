"""Layers that contain layers: subnetwork, cond."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.inner_net import InnerBuilder, InnerNet
from rfnb.netdict.layer import Layer, LayerOfNets
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.nn.module.module import Module
from rfnb.ops.control import cond

SIDES = ("true_layer", "false_layer")


class Subnetwork(Layer, layer_class="subnetwork", joins=False, without_effect="load_on_init rename"):
    """A net in a net: its layers are the submodules, and its output is that of its layer "output"."""

    subnetwork: object = value(None)
    concat_sources: bool = value(True, bool)

    def compute(self, output: Tensor) -> Tensor:
        """{…} → the same"""
        return output


class Branches(Module):
    """The nets of a `cond`, those of its sides that are described by a dict."""

    def __init__(self, nets: Mapping[str, InnerNet]):
        for name, net in nets.items():
            setattr(self, name, net)

    @property
    def nets(self) -> dict[str, InnerNet]:
        """By the options that hold them."""
        return {name: net for name, net in vars(self).items() if isinstance(net, InnerNet)}


class Cond(LayerOfNets, layer_class="cond", sourceless=True, joins=False, can_leave=False, units=SIDES):
    """One of two layers; the other one is not computed. The parameters of both are those of this layer. {…} → {…}

    Each of them is described by a dict, also one of the class subnetwork, or is the name of another layer.
    """

    condition: object = layer(REQUIRED)
    true_layer: object = layer(REQUIRED)
    false_layer: object = layer(REQUIRED)
    inner: Branches

    @classmethod
    def net_inside(
        cls, builder: Any, scope: Any, path: str, described: Mapping[str, object]
    ) -> tuple[Branches, dict[str, str]]:
        """The sides that are described by a dict. Raises NetworkError if one carries a state from step to step."""
        nets, inputs = {}, {}
        for side in SIDES:
            if not isinstance(described.get(side, ""), str):
                unit = {**described, "from": "data"}
                inner = nets[side] = InnerBuilder(builder, scope, path, unit, lambda x: x, side).net_of_one_call()
                inputs.update({f"{side} {key}": source for key, source in inner.inputs.items()})
                if inner.carrying:
                    fault = f"{side} carries a state from step to step, which cond cannot"
                    hint = "masked_computation, or the layer outside of the cond"
                    raise NetworkError(fault, got=", ".join(inner.carrying), hint=hint)
        return Branches(nets), inputs

    @property
    def nets_inside(self) -> list[InnerNet]:
        """The net of each side that is described by a dict."""
        return list(self.inner.nets.values())

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters of the layers inside."""
        return {name: parameter for inner in self.inner.nets.values() for name, parameter in inner.params.items()}

    def compute(self, *sources: Tensor, condition: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → {…}"""
        if condition.device == "meta":
            first, _ = (self._side(side, inputs) for side in SIDES)
            return first
        return cond(condition, *(partial(self._side, side, inputs) for side in SIDES))

    def _side(self, side: str, inputs: dict[str, Tensor]) -> Tensor:
        inner = self.inner.nets.get(side)
        if inner is None:
            return inputs[side]
        values = {name.removeprefix(f"{side} "): x for name, x in inputs.items() if name.startswith(f"{side} ")}
        return inner.run(values)[0][inner.output.path]
