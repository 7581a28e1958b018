"""The logarithm of probabilities, from what went into the softmax or sigmoid that they are of."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.math import safe_log as clipped_log

_made_of: dict[int, tuple[weakref.ref[Tensor], Callable[[Tensor], Tensor], Tensor]] = {}


def keep_log(y: Tensor, log: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Keeps `log(x)` as the logarithm of `y`, as long as `y` is there; returns `y`."""
    key = id(y)
    _made_of[key] = weakref.ref(y, lambda _: _made_of.pop(key, None)), log, x
    return y


def safe_log(x: Tensor, eps: float = 1e-20) -> Tensor:
    """log(max(x, eps)); of what a layer's softmax or sigmoid gave, the exact logarithm. {…} → the same

    >>> from rfnb.netdict.layer_call.exact_log import keep_log, safe_log
    >>> two = rf.Dim(2, name="two")
    >>> x = rf.convert_to_tensor([0.0, 200.0], dims=[two])
    >>> p = keep_log(rf.softmax(x, axis=two), lambda x: rf.log_softmax(x, axis=two), x)
    >>> safe_log(p).raw_tensor.tolist(), safe_log(x * 0.0).raw_tensor.round().tolist()
    ([-200.0, 0.0], [-46.0, -46.0])
    """
    origin = _made_of.get(id(x))
    if origin is not None and origin[0]() is x:
        return origin[1](origin[2])
    return clipped_log(x, eps=eps)
