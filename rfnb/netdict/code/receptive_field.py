"""How many frames of the data a frame of a layer depends on, by the filters and strides of the layers before it."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.netdict.axes import time_of
from rfnb.netdict.build import NetNode
from rfnb.netdict.network import Network

ALL = frozenset(
    "rec rnn_cell self_attention generic_attention dot_attention concat_attention gauss_window_attention twod_lstm "
    "cumsum reduce masked_computation relative_positional_encoding softmax_over_spatial".split()
)
"""Classes that may take all frames."""


@dataclass(frozen=True)
class ReceptiveField:
    """frames: so many frames of the data, or None for all. step: from one frame to the next, in frames of the data.

    >>> from rfnb.netdict.code.receptive_field import ReceptiveField
    >>> print(ReceptiveField(7, 2.0)), print(ReceptiveField(None, 1.0))
    7 frames, one for 2 frames
    all frames, one for 1 frame
    (None, None)
    """

    frames: int | None = 1
    step: float = 1.0

    def __str__(self) -> str:
        frames = "all frames" if self.frames is None else f"{self.frames} frame{'s' * (self.frames != 1)}"
        return f"{frames}, one for {self.step:g} frame{'s' * (self.step != 1)}"


def receptive_field(net: Network, path: str) -> ReceptiveField:
    """That of a layer. Raises LayerNotFound."""
    net.get_layer(path)
    fields: dict[str, ReceptiveField] = {}
    for name, node in net._nodes.items():
        sources = [fields[need] for need in node.needs if need in fields]
        frames = [field.frames for field in sources]
        known = [count for count in frames if count is not None]
        widest = None if None in frames else max(known, default=1)
        fields[name] = _through(node, ReceptiveField(widest, max((field.step for field in sources), default=1.0)), net)
    return fields[path]


def _through(node: NetNode, field: ReceptiveField, net: Network) -> ReceptiveField:
    """The field of a layer, from that of its source."""
    layer = node.layer
    kind = (layer.layer_class or "").partition(":")[0] if layer is not None else ""
    if kind == "reduce" or kind == "softmax_over_spatial":
        source = net._nodes[node.sources[0]].template if node.sources else None
        frames = None if source is None else time_of(source)
        over = frames is not None and (frames not in node.template.dims or kind == "softmax_over_spatial")
        return ReceptiveField(None, field.step) if over else field
    if kind in ALL or (layer is not None and layer.traits.recurrent):
        return ReceptiveField(None, field.step)
    size, dilation, stride = 1, 1, 1.0
    given = layer.spec.described if layer is not None else {}
    if kind in ("conv", "pool"):
        size = _first(given.get("filter_size", given.get("pool_size", 1)))
        dilation = _first(given.get("dilation_rate", 1))
        stride = _first(given.get("strides", size if kind == "pool" else 1))
    elif kind == "transposed_conv":
        size, stride = (
            _first(given.get("filter_size", 1)),
            1 / _first(given.get("strides", given.get("filter_size", 1))),
        )
        return ReceptiveField(field.frames, field.step * stride)
    elif kind == "window":
        size, stride = given.get("window_size", 1), given.get("stride", 1)
    elif kind == "resize":
        factor = given.get("factor", 1)
        stride = 1 / factor if isinstance(factor, int | float) and factor else 1
    if field.frames is None:
        return ReceptiveField(None, field.step * stride)
    return ReceptiveField(field.frames + round((size - 1) * dilation * field.step), field.step * stride)


def _first(given: object) -> int:
    """The number along time, which is the first axis of filters."""
    value = given[0] if isinstance(given, list | tuple) and given else given
    return value if isinstance(value, int) else 1
