"""Cases of convolution and pooling, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, HALF, OUT, VOCAB, Batch


def conv(b: Batch, filter: str = "kernel", **options: Any) -> rf.Tensor:
    sizes = {
        "filter": b.tensors[filter],
        "filter_size": [HALF],
        "in_dim": FEAT,
        "out_dim": OUT,
        "in_spatial_dims": [b.time],
    }
    return rf.conv(b.x, **{**sizes, "bias": b.bias, "padding": "valid", **options})[0]


def transposed(b: Batch, **options: Any) -> rf.Tensor:
    return rf.transposed_conv(
        b.x,
        in_dim=FEAT,
        out_dim=OUT,
        in_spatial_dims=[b.time],
        filter=b.wide,
        filter_size=[VOCAB],
        bias=b.bias,
        **options,
    )[0]


def pool(b: Batch, mode: str, **options: Any) -> rf.Tensor:
    return rf.pool(b.x, mode=mode, in_spatial_dims=[b.time], **options)[0]


CASES: dict[str, Callable[[Batch], Any]] = {
    "conv valid": lambda b: conv(b),
    "conv same": lambda b: conv(b, padding="same", dilation_rate=2),
    "conv strided": lambda b: conv(b, padding="same", strides=2, dilation_rate=3),
    "conv padded": lambda b: conv(b, padding=2, strides=3),
    "conv depthwise": lambda b: conv(b, "depth", filter_size=[OUT], out_dim=FEAT, groups=4, bias=None, padding="same"),
    "transposed_conv valid": lambda b: transposed(b, padding="valid", strides=2),
    "transposed_conv same": lambda b: transposed(b, padding="same", strides=3),
    "transposed_conv cut": lambda b: transposed(b, padding="valid", strides=7, remove_padding=1),
    "pool max": lambda b: pool(b, "max", pool_size=2),
    "pool max same": lambda b: pool(b, "max", pool_size=3, padding="same", strides=2),
    "pool avg": lambda b: pool(b, "avg", pool_size=3, padding="same", strides=2),
    "pool avg wide": lambda b: pool(b, "avg", pool_size=4, padding=2, dilation_rate=2, strides=1),
}
