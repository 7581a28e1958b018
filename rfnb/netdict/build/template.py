"""Templates: what a layer computes on the meta device, without numbers, for small made-up lengths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from rfnb.core.ground.default import set_default_device_ctx
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.extern_data import DataKey

BATCH, FRAMES = 3, 23
"""The made-up sizes: large enough for the filters of most nets, and no usual size of features."""


def template_of(data: DataKey) -> Tensor:
    """The template of a data key, with made-up lengths."""
    shape, lengths = [], {}
    for axis, dim in enumerate(data.dims):
        if dim.is_batch_dim():
            shape.append(BATCH)
        elif dim.dimension is None:
            shape.append(FRAMES)
            if any(d.is_batch_dim() for d in data.dims):
                lengths[axis] = made_up()
        else:
            shape.append(dim.dimension)
    return without_numbers(data.tensor((np.zeros(shape, data.dtype), lengths or None)))


def made_up() -> list[int]:
    """The lengths of the sequences of a template."""
    return [FRAMES - i for i in range(BATCH)]


def without_numbers(x: Tensor) -> Tensor:
    """The tensor on the meta device."""
    return x.like(backend_of_raw(x._raw).without_numbers_raw(x._raw))


@contextmanager
def on_meta(*parameters: Parameter) -> Iterator[None]:
    """Computes without numbers inside the block, with these parameters too; nobody who watches ops sees it."""
    raws = [parameter._raw for parameter in parameters]
    try:
        for parameter in parameters:
            parameter._raw = backend_of_raw(parameter._raw).without_numbers_raw(parameter._raw)
        with listening(None), set_default_device_ctx("meta"):
            yield
    finally:
        for parameter, raw in zip(parameters, raws, strict=True):
            parameter._raw = raw
