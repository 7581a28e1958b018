"""Optimizations of the raw calls of a loop step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from rfnb.backend.base.tape import Call, External, Var


class Product(NamedTuple):
    """A raw call that is x + h·W, or h·W, where W comes from outside the loop.

    place: position of W in the arguments. transposed: whether that argument is the transpose of the tensor outside.
    out_first: whether W is [out, in] outside, not [in, out].
    """

    call: Call
    x: Var | None
    h: Var
    weight: External
    place: int
    transposed: bool = False
    out_first: bool = False

    def with_weight(self, weight: External, result: int) -> Call:
        """The same call with a different weight and result."""
        args = [weight if place == self.place else arg for place, arg in enumerate(self.call.args)]
        return Call(self.call.fn, tuple(args), self.call.kwargs, result, node=self.call.node)


class FuseOps:
    """A backend may fuse calls of a step, and compute the gradients of weights at the end of a loop."""

    joins_raw: Callable[[], bool]
    joined_raw: Callable[[Sequence[Call], Sequence[Any], Sequence[Any], Collection[Var]], list[Call]]
    products_raw: Callable[[Sequence[Call], Sequence[Any], Sequence[Any]], list[Product]]
    sum_raw: Callable[[Any, Any], Any]
    constant_weight_raw: Callable[[Any, bool], Any]
    deferred_raw: Callable[[Any, Sequence[Any], Sequence[bool]], tuple[Any, list[Any]]]
    no_frames_raw: Callable[[Any, int], Any]
    stack_detached_raw: Callable[[Sequence[Any]], Any]
    grad_enabled_raw: Callable[[], bool]
