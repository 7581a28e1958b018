"""`rec` with a net dict as its unit: a net that is one step of a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.layer import Layer
from rfnb.network.options import layer, value
from rfnb.network.resolve import names_of_sources


class RecSubnet(Layer, layer_class="rec subnet"):
    """A net that is one step of a loop. Its output is that of its layer "output", for all steps."""

    recurrent = True
    sourceless = True
    unit: Any = value(None, dict)
    axis: Any = value(None)
    max_seq_len: Any = value(None, int, str)
    max_seq_len_via: Any = layer()
    include_eos: bool = value(False, bool)
    cheating: Any = value(None)
    optimize_move_layers_out: bool | None = value(None, bool)
    unroll: Any = value(None)
    back_prop: Any = value(None)
    direction: int | None = value(None, int)
    initial_state: Any = value(None)

    def compute(self, output: Tensor) -> Tensor:
        """{axis, …} → the same"""
        return output

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the output, where the axis of the loop stands first."""
        return list(sources[0].dims)


class GetRecAccumulated(Layer, layer_class="get_rec_accumulated"):
    """The output of a layer in a loop, for all steps. → {axis, …}"""

    sub_layer: str | None = value(None, str)

    @classmethod
    def names_of_sources(cls, described: Mapping[str, Any], default: str | None) -> list[str]:
        """The layer in the loop."""
        names = names_of_sources(described, default)
        if len(names) != 1 or not described.get("sub_layer"):
            raise NetworkError("get_rec_accumulated needs a rec layer and one of its layers", expected='"sub_layer": …')
        return [f"{names[0]}/{described['sub_layer']}"]

    def compute(self, x: Tensor) -> Tensor:
        """{axis, …} → the same"""
        return x
