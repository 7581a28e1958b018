"""Softmax over a dim; padding gets probability 0."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import FloatTensor
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def softmax(a: FloatTensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """exp(a) / Σ exp(a) over `axis`; 0 in padding, and over a sequence of length 0. {…, axis} → the same

    >>> feat = rf.Dim(4, name="feat")
    >>> rf.softmax(rf.zeros([feat]), axis=feat).raw_tensor.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return backend_of_raw(a._raw).softmax(a, axis, use_mask)


@op(frames="any")
def log_softmax(a: FloatTensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """log softmax over `axis`; -inf in padding. {…, axis} → the same

    >>> feat = rf.Dim(4, name="feat")
    >>> rf.exp(rf.log_softmax(rf.zeros([feat]), axis=feat)).raw_tensor.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return backend_of_raw(a._raw).log_softmax(a, axis, use_mask)
