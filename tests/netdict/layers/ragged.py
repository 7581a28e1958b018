"""Nets on sequences of different lengths, also of none and one frame, for comparisons with plain loops."""

from typing import Any

import numpy as np
from hypothesis import HealthCheck, strategies as st

import rfnb as rf
from tests.examples import examples

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=4).filter(any)
FEW = examples(25, suppress_health_check=list(HealthCheck))


def drawn(lengths: list[int], features: int = 3, seed: int = 0) -> np.ndarray:
    """Random frames; those behind the end of a sequence are 0."""
    x = np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), features)).astype("float32")
    for row, length in zip(x, lengths, strict=True):
        row[length:] = 0
    return x


def outputs(net_dict: dict[str, Any], x: np.ndarray, lengths: list[int], name: str = "output") -> list[np.ndarray]:
    """The valid frames of each sequence of a layer's output: its batch dim first, then the frames."""
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": x.shape[-1]}}))
    net.construct_from_dict(net_dict)
    return parts_of(net, net.forward({"data": (x, lengths)})[name], name)


def parts_of(net: rf.Network, out: rf.Tensor, name: str = "output") -> list[np.ndarray]:
    """The valid frames of each sequence of an output: its batch dim first, then the frames."""
    dims = net.template(name).dims
    array = out.copy_transpose(dims).raw_tensor.detach().numpy()
    size = out.size_of(dims[1])
    sizes = np.full(len(array), size.max) if size.min == size.max else size.values
    return [row[:size] for row, size in zip(array, sizes, strict=True)]
