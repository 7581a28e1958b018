"""Layers that contain layers: subnetwork, cond."""

from __future__ import annotations

from typing import Any

from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, Embedded, embedded, layer, value
from rfnb.nn.module.container import ModuleList
from rfnb.ops.control import cond


class Subnetwork(Layer, layer_class="subnetwork"):
    """A net in a net: its layers are the submodules, and its output is that of its layer "output"."""

    joins = False
    subnetwork: Any = value(None)
    concat_sources: bool = value(True, bool)
    load_on_init: Any = value(None)
    rename: Any = value(None)

    def compute(self, output: Tensor) -> Tensor:
        """{…} → the same"""
        return output


class Cond(Layer, layer_class="cond"):
    """One of two layers; the other one is not computed. The parameters of both are those of this layer. {…} → {…}"""

    sourceless = True
    joins = False
    condition: Any = layer(REQUIRED)
    true_layer: Any = embedded()
    false_layer: Any = embedded()

    def setup(self, *sources: Tensor, **inputs: Tensor) -> None:
        """The layers inside are parts of this one."""
        self.inner = ModuleList(
            given.layer for given in (self.true_layer, self.false_layer) if isinstance(given, Embedded)
        )

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters of the layers inside."""
        return {name: each for inner in self.inner for name, each in inner.params.items()}  # type: ignore[attr-defined]

    def compute(self, *sources: Tensor, condition: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → {…}"""
        if condition.device == "meta":
            return self._branch("true_layer", inputs)
        return cond(condition, lambda: self._branch("true_layer", inputs), lambda: self._branch("false_layer", inputs))

    def _branch(self, name: str, inputs: dict[str, Tensor]) -> Tensor:
        given = getattr(self, name)
        return given.output(inputs) if isinstance(given, Embedded) else inputs[name]
