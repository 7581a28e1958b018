"""Reductions and softmax over dims, without padding."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Protocol

from rfnb.backend.base.reduce import EXACT, MODES
from rfnb.core.advice.torch_equivalents import features_hint
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import FloatTensor, OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError

Axes = Dim | Sequence[Dim]
Mode = Annotated[str, OneOf(*MODES)]


@op(frames="any")
def reduce(source: Tensor, *, mode: Mode, axis: Axes, use_mask: bool = True, distributed: bool = False) -> Tensor:
    """`mode` over `axis`, over the valid frames only. {…, axis} → {…}

    mode: "sum", "mean", "max", "min", "logsumexp", "any", "all", "argmax", "argmin".
    distributed: whether to reduce over all processes of torch.distributed together; for "sum" and "mean".

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 5.0], [3.0]], dims=[rf.batch_dim, time])
    >>> rf.reduce(x, mode="mean", axis=time).raw_tensor.tolist()
    [3.0, 3.0]
    """
    backend = backend_of_raw(source._raw)
    if distributed:
        return backend.reduce_everywhere(source, mode=mode, axis=axis, use_mask=use_mask)
    return backend.reduce(source, mode=mode, axis=axis, use_mask=use_mask)


@op(frames="any")
def reduce_sum(source: Tensor, *, axis: Axes, use_mask: bool = True, distributed: bool = False) -> Tensor:
    """The sum over `axis`, over the valid frames only. {…, axis} → {…}

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 5.0], [3.0]], dims=[rf.batch_dim, time])
    >>> rf.reduce_sum(x, axis=time).raw_tensor.tolist()
    [6.0, 3.0]
    """
    backend = backend_of_raw(source._raw)
    if distributed:
        return backend.reduce_everywhere(source, mode="sum", axis=axis, use_mask=use_mask)
    return backend.reduce(source, "sum", axis, use_mask)


class Reduction(Protocol):
    """An op over `axis`."""

    def __call__(self, source: Tensor, *, axis: Axes, use_mask: bool = True) -> Tensor:
        """Computes it."""


def _reduction(mode: str, doc: str, example: str) -> Reduction:
    """Makes the op for `mode`. example: "numbers of two sequences → numbers"."""
    x, result = example.split(" → ")

    def reduction(source: Tensor, *, axis: Axes, use_mask: bool = True) -> Tensor:
        return backend_of_raw(source._raw).reduce(source, mode, axis, use_mask)

    reduction.__name__ = reduction.__qualname__ = f"reduce_{mode}"
    reduction.__doc__ = f"""{doc} over `axis`, over the valid frames only. {{…, axis}} → {{…}}

>>> time = rf.Dim(None, name="time")
>>> x = rf.convert_to_tensor({x}, dims=[rf.batch_dim, time])
>>> rf.reduce_{mode}(x, axis=time).raw_tensor.tolist()
{result}
"""
    return op(frames="any")(reduction)


reduce_mean = _reduction("mean", "The mean (0 over nothing)", "[[1.0, 5.0], [3.0]] → [3.0, 3.0]")
reduce_max = _reduction("max", "The maximum", "[[1.0, 5.0], [-3.0]] → [5.0, -3.0]")
reduce_min = _reduction("min", "The minimum", "[[1.0, 5.0], [3.0]] → [1.0, 3.0]")
reduce_logsumexp = _reduction("logsumexp", "log Σ exp(x)", "[[0.0, 0.0], [1.0]] → [0.693..., 1.0]")
reduce_any = _reduction("any", "Whether any entry is true,", "[[True, False], [False]] → [True, False]")
reduce_all = _reduction("all", "Whether all entries are true,", "[[True, False], [True]] → [False, True]")
reduce_argmax = _reduction("argmax", "The position of the largest entry", "[[1.0, 5.0], [-3.0]] → [1, 0]")
reduce_argmin = _reduction("argmin", "The position of the smallest entry", "[[5.0, 1.0], [3.0]] → [1, 0]")


@op(frames="any")
def reduce_logmeanexp(source: Tensor, *, axis: Axes, use_mask: bool = True) -> Tensor:
    """log mean exp(x) over `axis`, over the valid frames only. {…, axis} → {…}

    >>> feat = rf.Dim(3, name="feat")
    >>> rf.reduce_logmeanexp(rf.ones([feat]), axis=feat).raw_tensor.item()
    1.0
    """
    backend = backend_of_raw(source._raw)
    total = backend.reduce(source, mode="logsumexp", axis=axis, use_mask=use_mask)
    count = backend.count(source, axis, use_mask=use_mask)
    if isinstance(count, int):
        log_count = math.log(count)
    else:
        count = backend.cast_raw(count, EXACT.get(total.dtype, total.dtype))
        log_count = backend.cast_raw(backend.activation_raw(count, "log"), total.dtype)
    return total.like(backend.combine_raw(total._raw, "sub", log_count))


@op(frames="any")
def reduce_out(source: Tensor, *, mode: Mode, num_pieces: int, out_dim: Dim | None = None) -> Tensor:
    """`mode` over groups of `num_pieces` neighbouring features: "max" is maxout (Goodfellow et al. 2013).

    {…, feature_dim} → {…, feature_dim // num_pieces}

    >>> feat = rf.Dim(4, name="feat")
    >>> x = rf.convert_to_tensor([1.0, 2.0, 4.0, 3.0], dims=[feat], feature_dim=feat)
    >>> rf.reduce_out(x, mode="max", num_pieces=2).raw_tensor.tolist()
    [2.0, 4.0]
    """
    feature = source.feature_dim
    if feature is None or feature.dimension is None or feature.dimension % num_pieces:
        got = "no feature dim" if feature is None else align.show_dims([feature])
        raise DimError(
            "reduce_out: the features do not split into equal pieces",
            got=got,
            expected=f"a multiple of {num_pieces} features",
            hint=features_hint(source) if feature is None else None,
        )
    backend = backend_of_raw(source._raw)
    out_dim = feature // num_pieces if out_dim is None else out_dim
    pieces = _pieces(num_pieces)
    result = backend.reduce(backend.split_dims(source, axis=feature, dims=[out_dim, pieces]), mode=mode, axis=pieces)
    return result.like(result._raw, align.sig(result.dims, result.sparse_dim, out_dim))


@functools.cache
def _pieces(number: int) -> Dim:
    return Dim(number, name="pieces")


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
