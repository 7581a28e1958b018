"""What a loop body may not do directly: functions that need raw tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.backend.base.math import join
from rfnb.backend.base.tape import opaque
from rfnb.core import align
from rfnb.core.dim import Dim, current_lengths
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError


@op()
def raw_call(fn: Callable[..., Any], *tensors: Tensor, out_dims: Sequence[Dim]) -> Tensor:
    """fn(*raw tensors) as one op. In a loop it is called at every step, whatever it does. → {out_dims}

    >>> beam = rf.Dim(3, name="beam")
    >>> rf.raw_call(lambda x: x.argsort(-1), rf.range_over_dim(beam), out_dims=[beam]).raw_tensor.tolist()
    [0, 1, 2]
    """
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise DimError(f"raw_call: argument {position} is no Tensor", got=type(tensor).__name__)
    raw = opaque(fn, *[tensor._raw for tensor in tensors])
    if len(raw.shape) != len(out_dims):
        raise DimError(
            "raw_call: fn gave another number of axes", got=tuple(raw.shape), expected=align.show_dims(out_dims)
        )
    lengths = join(*tensors) if tensors else current_lengths(out_dims)
    return tensor_of(raw, align.sig(out_dims), lengths)
