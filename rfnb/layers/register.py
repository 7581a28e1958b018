"""Which file has which classes of layers, so that a net imports only those that it has."""

from __future__ import annotations

from rfnb.network.resolve import MODULES

CLASSES = {
    "basic": "linear hidden forward softmax copy dropout identity activation cast",
    "conv": "conv transposed_conv pool",
    "create": "constant variable",
    "eval": "combine eval compare switch",
    "matmul": "dot",
    "norm": "layer_norm norm batch_norm gating",
    "range": "range range_in_axis seq_len_mask",
    "rec": "rec",
    "reduce": "reduce reduce_out math_norm cumsum elemwise_prod weighted_sum",
    "shape": "split_dims merge_dims squeeze expand_dims swap_axes reinterpret_data length",
    "slice": "slice slice_nd gather gather_nd scatter_nd",
    "softmax": "softmax_over_spatial",
    "time": "window prefix_in_time postfix_in_time pad repeat",
    "concat": "split stack top_k",
    "wrap": "subnetwork",
}
"""The names of the classes in net dicts, by file."""

for _file, _names in CLASSES.items():
    MODULES.update(dict.fromkeys(_names.split(), f"rfnb.layers.{_file}"))
