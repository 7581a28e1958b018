"""Softmax over a dim. Padding gets probability 0, and a softmax over nothing is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SoftmaxOps:
    """Raw part: `softmax_raw(raw, axis, padding, some_empty)` and `log_softmax_raw`."""

    softmax_raw: Callable[[Any, int, Any, bool], Any]
    log_softmax_raw: Callable[[Any, int, Any, bool], Any]

    @classmethod
    def softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """exp(x) / Σ exp(x) over `axis`. {…, axis} → the same"""
        place = tensor.sig.index.get(axis)
        if place is None:
            place = axis_of("softmax", tensor, axis)
        padding, empty = _padding(cls, tensor, axis) if axis.dimension is None and use_mask else (None, False)
        return tensor_of(cls.softmax_raw(tensor._raw, place, padding, empty), tensor.sig, tensor.lengths)

    @classmethod
    def log_softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """log softmax over `axis`; -inf in padding. {…, axis} → the same"""
        place = axis_of("log_softmax", tensor, axis)
        padding, empty = _padding(cls, tensor, axis) if axis.dimension is None and use_mask else (None, False)
        return tensor_of(cls.log_softmax_raw(tensor._raw, place, padding, empty), tensor.sig, tensor.lengths)


def _padding(backend: Any, tensor: Tensor, axis: Dim) -> tuple[Any, bool]:
    """Where padding is, and whether a sequence has no frames."""
    padding = backend.padding_for(tensor, (axis,))
    if padding is None:
        return None, False
    empty = tensor.lengths.cache.get(("empty", axis.serial))
    if empty is None:
        empty = tensor.lengths.keep(("empty", axis.serial), bool((tensor.size_of(axis).values == 0).any()))
    return padding, empty
