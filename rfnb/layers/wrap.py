"""Layers that contain layers: subnetwork."""

from __future__ import annotations

from typing import Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.options import value


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
