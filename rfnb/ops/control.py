"""What a loop body may not do directly: functions that need raw tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.backend.base.math import join
from rfnb.backend.base.tape import opaque
from rfnb.core import align, raw as raw_registry
from rfnb.core.dim import Dim, current_lengths
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError


@op()
def raw_call(fn: Callable[..., Any], *tensors: Tensor, out_dims: Sequence[Dim]) -> Tensor:
    """fn(*raw tensors) as one op. → {out_dims}

    In a loop it is called at every step, and once before on step 0 to see what it gives. It may look at values and
    print, but must not write into its arguments.

    >>> beam = rf.Dim(3, name="beam")
    >>> rf.raw_call(lambda x: x.argsort(-1), rf.range_over_dim(beam), out_dims=[beam]).raw_tensor.tolist()
    [0, 1, 2]
    """
    backend = raw_registry.backend_of_raw(tensors[0]._raw) if tensors else raw_registry.selected()
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise DimError(f"raw_call: argument {position} is no Tensor", got=type(tensor).__name__)
    raw = opaque(_Fresh(fn, backend), *[tensor._raw for tensor in tensors])
    if len(raw.shape) != len(out_dims):
        raise DimError(
            "raw_call: fn gave another number of axes", got=tuple(raw.shape), expected=align.show_dims(out_dims)
        )
    lengths = join(*tensors) if tensors else current_lengths(out_dims)
    return tensor_of(raw, align.sig(out_dims), lengths)


class _Fresh:
    """Calls a function. What it gives is never the object that it got: a tape would take that for the same value."""

    def __init__(self, fn: Callable[..., Any], backend: Any):
        self._fn, self._backend = fn, backend

    def __call__(self, *raws: Any) -> Any:
        result = self._fn(*raws)
        return self._backend.identity_raw(result) if any(result is raw for raw in raws) else result
