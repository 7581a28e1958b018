"""What a backend may know of the raw calls of a step, to make it quicker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from rfnb.backend.base.tape import Call, External, Var


class Product(NamedTuple):
    """A raw call that is x + h·W, or h·W, with W from outside of the loop.

    place: which of its arguments W is. transposed: that argument is the transpose of what is outside.
    out_first: outside W is [out, in], not [in, out].
    """

    call: Call
    x: Var | None
    h: Var
    weight: External
    place: int
    transposed: bool = False
    out_first: bool = False

    def with_weight(self, weight: External, result: int) -> Call:
        """The call with another weight and result."""
        args = [weight if place == self.place else arg for place, arg in enumerate(self.call.args)]
        return Call(self.call.fn, tuple(args), self.call.kwargs, result, node=self.call.node)


class FuseOps:
    """A backend may join calls of a step, and leave the gradients of weights to the end of a loop."""

    joined_raw: Callable[[Sequence[Call], Sequence[Any], Sequence[Any], Collection[Var]], list[Call]]
    products_raw: Callable[[Sequence[Call], Sequence[Any], Sequence[Any]], list[Product]]
    sum_raw: Callable[[Any, Any], Any]
    constant_weight_raw: Callable[[Any, bool], Any]
    deferred_raw: Callable[[Any, Sequence[Any], Sequence[bool]], tuple[Any, list[Any]]]
    no_frames_raw: Callable[[Any, int], Any]
    stack_detached_raw: Callable[[Sequence[Any]], Any]
    grad_enabled_raw: Callable[[], bool]
