"""Layers that contain layers: subnetwork, cond, and `rec` with a net dict as its unit, one step of a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.builder import Builder
from rfnb.netdict.inner_net import InnerBuilder, InnerNet
from rfnb.netdict.layer import Layer, LayerOfNets
from rfnb.netdict.layers.basic import Copy
from rfnb.netdict.loops.search import SearchChoices
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.resolve import Scope, names_of_sources
from rfnb.nn.module.module import Module
from rfnb.ops.concat import concat
from rfnb.ops.control import cond
from rfnb.ops.create import zeros
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast
from rfnb.ops.shape import set_feature_dim, set_sparse_dim

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
        cls, builder: Builder, scope: Scope, path: str, described: Mapping[str, object]
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
            template, _ = (self._side(side, inputs) for side in SIDES)
            return template
        return cond(condition, *(partial(self._side, side, inputs) for side in SIDES))

    def _side(self, side: str, inputs: dict[str, Tensor]) -> Tensor:
        inner = self.inner.nets.get(side)
        if inner is None:
            return inputs[side]
        values = {name.removeprefix(f"{side} "): x for name, x in inputs.items() if name.startswith(f"{side} ")}
        return inner.run(values)[0][inner.output.path]


class RecSubnet(
    Layer, layer_class="rec:unit", recurrent=True, sourceless=True, can_leave=False, without_effect="unroll back_prop"
):
    """A net that is one step of a loop. Its output is that of its layer "output", for all steps."""

    unit: object = value(None, dict)
    axis: object = value(None)
    max_seq_len: int | str | None = value(None, int, str)
    max_seq_len_via: object = layer()
    include_eos: bool = value(False, bool)
    cheating: object = value(None)
    optimize_move_layers_out: bool | None = value(None, bool)
    direction: int | None = value(None, int)
    initial_state: object = value(None)

    def setup(self, *sources: Any, **inputs: Any) -> None:
        """Raises NetworkError for options that only cells have."""
        if self.direction == -1:
            fault, got = "a loop of layers begins with the first frame", '"direction": -1'
            raise NetworkError(fault, got=got, expected='"direction": 1', hint="direction is for the units of cells")
        if self.initial_state not in (None, "zeros", 0):
            fault, got = "a net as the unit has no initial_state", f'"initial_state": {self.initial_state!r}'
            raise NetworkError(fault, got=got, expected='"initial_output": … of the layers that are needed as prev:…')

    def __call__(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """The output of all steps, once the loop has run."""
        return sources[0]

    def compute(self, output: Tensor) -> Tensor:
        """{axis, …} → the same"""
        return output

    def get_search_choices(self) -> SearchChoices | None:
        """The result of the last search in the loop: `beam_dim`, `beam_scores`, `src_beams`, `found`; None without."""
        rec = self.spec.nets.get(self.name)
        return None if rec is None else rec.choices

    def extra_repr(self) -> str:
        """The class in the net dict and the name."""
        return f"rec {self.name}"

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the output, where the axis of the loop stands first."""
        return list(sources[0].dims)


class GetRecAccumulated(Copy, layer_class="get_rec_accumulated"):
    """The output of a layer in a loop, for all steps. → {axis, …}"""

    sub_layer: str | None = value(None, str)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The layer in the loop is the source."""
        names = names_of_sources(described, None)
        if len(names) != 1 or not described.get("sub_layer"):
            raise NetworkError("get_rec_accumulated needs a rec layer and one of its layers", expected='"sub_layer": …')
        return {**described, "from": f"{names[0]}/{described['sub_layer']}"}


class RecLastOutput(Layer, layer_class="rec_last_output", sourceless=True):
    """The output of a layer in a loop, of the last step of each sequence. {axis, …} → {…}"""

    rec_layer: str | None = value(None, str)
    sub_layer_name: str | None = value(None, str)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The layer in the loop is the source."""
        rec, name = described.get("rec_layer"), described.get("sub_layer_name")
        if not rec or not name:
            fault = "rec_last_output needs a rec layer and the name of one of its layers"
            raise NetworkError(fault, expected='"rec_layer": …, "sub_layer_name": …')
        return {**described, "from": f"{rec}/{name}"}

    def compute(self, x: Tensor) -> Tensor:
        """{axis, …} → {…}; 0 for a sequence without frames"""
        axis, head = x.dims[0], Dim(1, name="before")
        initial = zeros([head, *x.dims[1:]], dtype=x.dtype, sparse_dim=x.sparse_dim)
        y, joined = concat((initial, head), (x, axis))
        lengths = cast(get_size_tensor(axis, device=x.device), "int32")
        return set_feature_dim(gather(y, indices=set_sparse_dim(lengths, joined), axis=joined), x.feature_dim)


class RecUnstack(Copy, layer_class="rec_unstack", without_effect="axis declare_rec_time"):
    """The frame of a sequence that belongs to the step of the loop. {axis, …} → {…}"""

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The source is taken frame by frame."""
        return {**described, "from": [f"frame:{name}" for name in names_of_sources(described, None)]}
