"""Gradients."""

from __future__ import annotations

from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor


@op(frames="any")
def stop_gradient(source: Tensor) -> Tensor:
    """The same numbers, as a constant."""
    return backend_of_raw(source._raw).stop_gradient(source)


@op(frames="any")
def scaled_gradient(source: Tensor, scale: float | Tensor) -> Tensor:
    """The same numbers, whose gradient is multiplied by `scale`; -1 turns it around."""
    return backend_of_raw(source._raw).scaled_gradient(source, scale)


@op(effect=True)
def set_requires_gradient(source: Tensor) -> None:
    """From now on the gradient with respect to `source` can be asked for."""
    backend_of_raw(source._raw).set_requires_gradient(source)


@op()
def gradient(y: Tensor, x: Tensor) -> Tensor:
    """The gradient of the sum of `y` with respect to `x`. → the dims of x"""
    return backend_of_raw(y._raw).gradient(y, x)
