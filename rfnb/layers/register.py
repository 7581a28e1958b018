"""Which file has which classes of layers, so that a net imports only those that it has."""

from __future__ import annotations

from rfnb.network.names import MODULES

CLASSES = {
    "basic": "linear hidden forward softmax copy dropout identity activation cast",
    "conv": "conv pool",
    "create": "constant",
    "eval": "combine eval compare switch",
    "matmul": "dot",
    "norm": "layer_norm norm gating",
    "rec": "rec",
    "reduce": "reduce reduce_out math_norm cumsum elemwise_prod",
    "shape": "split_dims merge_dims squeeze expand_dims reinterpret_data length",
    "slice": "slice gather gather_nd",
    "softmax": "softmax_over_spatial",
    "wrap": "subnetwork",
}
"""The names of the classes in net dicts, by file."""

for _file, _names in CLASSES.items():
    MODULES.update(dict.fromkeys(_names.split(), f"rfnb.layers.{_file}"))
