"""Gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.tensor import Tensor


class GradOps:
    """Raw part: `stop_gradient_raw`, `scaled_gradient_raw`, `gradient_raw`, `set_requires_gradient_raw`, `copy_raw`."""

    stop_gradient_raw: Callable[[Any], Any]
    scaled_gradient_raw: Callable[[Any, Any], Any]
    gradient_raw: Callable[[Any, Any], Any]
    set_requires_gradient_raw: Callable[[Any], None]
    copy_raw: Callable[[Any], Any]
    copy_to_device_raw: Callable[[Any, str | None], Any]

    @classmethod
    def stop_gradient(cls, tensor: Tensor) -> Tensor:
        """The same numbers, as a constant."""
        return tensor.like(cls.stop_gradient_raw(tensor._raw))

    @classmethod
    def scaled_gradient(cls, tensor: Tensor, scale: float | Tensor) -> Tensor:
        """The same numbers, whose gradient is multiplied by `scale`."""
        factor = scale.copy_compatible_to_dims_raw(tensor.dims) if isinstance(scale, Tensor) else scale
        return tensor.like(cls.scaled_gradient_raw(tensor._raw, factor))

    @classmethod
    def gradient(cls, y: Tensor, x: Tensor) -> Tensor:
        """d Σy / dx. → the dims of x"""
        return x.like(cls.gradient_raw(y._raw, x._raw))

    @classmethod
    def set_requires_gradient(cls, tensor: Tensor) -> None:
        """From now on gradients for it can be asked for."""
        cls.set_requires_gradient_raw(tensor._raw)

    @classmethod
    def copy(cls, tensor: Tensor) -> Tensor:
        """The same numbers in memory of their own."""
        return tensor.like(cls.copy_raw(tensor._raw))

    @classmethod
    def copy_to_device(cls, tensor: Tensor, device: str | None) -> Tensor:
        """The same numbers on `device`."""
        raw = cls.copy_to_device_raw(tensor._raw, device)
        return tensor if raw is tensor._raw else tensor.like(raw)
