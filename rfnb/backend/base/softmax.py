"""Softmax over a dim. Padding gets probability 0, and a softmax over nothing is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SoftmaxOps:
    """Raw part: `softmax_raw(raw, axis, padding, some_empty)` and `log_softmax_raw`."""

    softmax_raw: Callable[[Any, int, Any, bool], Any]
    log_softmax_raw: Callable[[Any, int, Any, bool], Any]

    @classmethod
    def softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """exp(x) / Σ exp(x) over `axis`. {…, axis} → the same"""
        padding = cls.padding_for(tensor, (axis,)) if use_mask else None
        empty = padding is not None and some_empty(tensor, axis)
        return tensor.like(cls.softmax_raw(tensor._raw, tensor.axis(axis), padding, empty))

    @classmethod
    def log_softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """log softmax over `axis`; -inf in padding. {…, axis} → the same"""
        padding = cls.padding_for(tensor, (axis,)) if use_mask else None
        empty = padding is not None and some_empty(tensor, axis)
        return tensor.like(cls.log_softmax_raw(tensor._raw, tensor.axis(axis), padding, empty))


def some_empty(tensor: Tensor, axis: Dim) -> bool:
    """Whether a sequence has no frames."""
    return bool((tensor.size_of(axis).values == 0).any())
