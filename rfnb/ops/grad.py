"""Gradients of ops, and how to stop, scale and recompute them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from rfnb.backend.base.backend import Backend
from rfnb.core.dims.dim import Dim
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.nested import map_leaves
from rfnb.core.ground.scope import within
from rfnb.core.tensor.op import OpRow, op, op_of_backend
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def stop_gradient(source: Tensor) -> Tensor:
    """The same values as a constant, without a gradient.

    {…} → the same

    >>> x = rf.convert_to_tensor([3.0, 4.0], dims=[rf.Dim(2, name="feat")])
    >>> rf.set_requires_gradient(x)
    >>> rf.gradient(x * rf.stop_gradient(x), x).raw_tensor.tolist()  # not twice as much: one factor is a constant
    [3.0, 4.0]
    """
    return backend_of_raw(source._raw).stop_gradient(source)


@op(frames="any")
def scaled_gradient(source: Tensor, scale: float | Tensor) -> Tensor:
    """The same values, with the gradient multiplied by `scale`; -1 reverses it.

    {…} → the same

    >>> x = rf.convert_to_tensor([3.0, 4.0], dims=[rf.Dim(2, name="feat")])
    >>> rf.set_requires_gradient(x)
    >>> rf.gradient(rf.scaled_gradient(x, -1), x).raw_tensor.tolist()
    [-1.0, -1.0]
    """
    return backend_of_raw(source._raw).scaled_gradient(source, scale)


@op(frames="any")
def scaled_gradient_ext(
    source: Tensor,
    *,
    scale: float | Tensor,
    shift: float | Tensor | None = None,
    scale_shift_by_sum_over_axis: Dim | None = None,
    clip_max_axis: Dim | None = None,
) -> Tensor:
    """The same values, with the gradient g replaced by scale · g + shift. {…} → the same

    Padding is not affected.

    >>> x = rf.convert_to_tensor([3.0, 4.0], dims=[rf.Dim(2, name="feat")])
    >>> rf.set_requires_gradient(x)
    >>> rf.gradient(rf.scaled_gradient_ext(x, scale=2, shift=0.5), x).raw_tensor.tolist()
    [2.5, 2.5]

    Args:
        scale, shift: numbers, or Tensors with some of the dims.
        scale_shift_by_sum_over_axis: the shift is multiplied by Σ |g| over this dim.
        clip_max_axis: the result is at most as large as the largest |g| over this dim.
    """
    return backend_of_raw(source._raw).scaled_gradient_ext(
        source,
        scale=scale,
        shift=shift,
        scale_shift_by_sum_over_axis=scale_shift_by_sum_over_axis,
        clip_max_axis=clip_max_axis,
    )


makes_constants: ContextVar[bool] = ContextVar("rfnb_makes_constants", default=False)
"""Whether the results of ops of a loop body become constants: inside `stop_gradient_scope`."""


@contextmanager
def stop_gradient_scope() -> Iterator[None]:
    """Makes constants of what is computed inside the block; in the body of a loop, of the results of ops.

    >>> x = rf.ones([])
    >>> rf.set_requires_gradient(x)
    >>> with rf.stop_gradient_scope():
    ...     y = 3.0 * x
    >>> rf.gradient(x * y, x).item()
    3.0
    """
    with within(makes_constants, True), backends.selected().no_gradients():
        yield


def as_constants(row: OpRow) -> OpRow:
    """Wraps an op of a loop body, so that its results are constants."""

    def constants(*args: object, **kwargs: object) -> Any:
        return map_leaves(_constant, row.fn(*args, **kwargs))

    return replace(row, fn=constants)


def _constant(x: object) -> object:
    return backend_of_raw(x._raw).stop_gradient(x) if isinstance(x, Tensor) else x


def gradient_checkpoint_scope() -> AbstractContextManager[None]:
    """Values computed inside that are only needed for gradients are recomputed instead of kept in memory.

    They are computed again from the inputs of the block during the backward pass; values and gradients stay the same.
    Results that are still referenced, random numbers, and tensors changed in place are kept. In the body of a loop,
    everything is kept.

    >>> x = rf.ones([])
    >>> rf.set_requires_gradient(x)
    >>> with rf.gradient_checkpoint_scope():
    ...     y = rf.square(rf.exp(x))
    >>> round(rf.gradient(y, x).item(), 3)  # 2 · e²
    14.778
    """
    return backends.selected().gradient_checkpoint_scope()


@op(effect=True)
def set_requires_gradient(source: Tensor) -> None:
    """Records gradients with respect to `source` from now on.

    >>> x = rf.convert_to_tensor([3.0, 4.0], dims=[rf.Dim(2, name="feat")])
    >>> rf.set_requires_gradient(x)
    >>> x.requires_grad
    True
    """
    backend_of_raw(source._raw).set_requires_gradient(source)


gradient = op_of_backend(Backend.gradient, __name__)
