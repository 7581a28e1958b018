"""Reductions and softmax over dims, without padding.

In a softmax, padding gets probability 0, and a softmax over nothing is 0. Over `batch`, frames past the end of a
shorter sequence are padding as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rfnb.backend.base.require import FULL_LENGTH, axis_of, require_owner_dims
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import BackendError, DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


ARG_MODES = ("argmax", "argmin")
INFINITE = ("max", "min", "logsumexp")
"""Modes whose result over nothing is infinite."""
EXACT = {"float16": "float32"}
"""The dtype that sums and counts are computed in: they soon exceed the largest number of float16, 65504."""
MODES = ("sum", "mean", "max", "min", "logsumexp", "any", "all", *ARG_MODES)


class ReduceOps:
    """Raw part: `reduce_raw(raw, mode, axes, padding)`, `reduce_function(mode)`, which reduces without padding,
    and `all_reduce_raw`, the sum over processes.
    """

    reduce_raw: Callable[[RawTensor, str, RawTensor, RawTensor], RawTensor]
    reduce_function: Callable[[str], Callable[[RawTensor, RawTensor], object]]
    all_reduce_raw: Callable[[RawTensor], RawTensor]

    @classmethod
    def reduce(
        cls: type[Backend], source: Tensor, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True
    ) -> Tensor:
        """`mode` over `axis`: "sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax".

        {…, axis} → {…}; argmin and argmax give positions, sparse in `axis`.
        """
        try:
            plan = source.sig.plans.get((mode, axis, cls))
        except TypeError:  # a list of dims
            axis = tuple(axis)  # type: ignore[arg-type]
            plan = source.sig.plans.get((mode, axis, cls))
        axes, out, dynamic, function, owners = plan or _plan(cls, source, mode, axis)
        lengths = source.lengths
        if owners and not owners[0].isdisjoint(lengths.owners):
            dynamic += owners[1]
        if dynamic and use_mask and lengths.ragged:
            padding = cls.padding_for(source, dynamic)
            if padding is not None:
                if mode == "mean":
                    exact = EXACT.get(source.dtype)
                    raw = cls.cast_raw(source._raw, exact) if exact else source._raw
                    total = cls.reduce_raw(raw, "sum", axes, padding)
                    raw = cls.combine_raw(total, "truediv", cls.count_for(source, dynamic, axes))
                    raw = cls.cast_raw(raw, source.dtype) if exact else raw
                else:
                    raw = cls.reduce_raw(source._raw, mode, axes, padding)
                over_nothing = mode in INFINITE and cls.has_empty_rows(source, dynamic, axes)
                return tensor_of(raw, out, lengths.infinite() if over_nothing else lengths)
            require_owner_dims(f"reduce_{mode}", source, dynamic, FULL_LENGTH)
        return tensor_of(function(source._raw, axes), out, lengths)

    @classmethod
    def reduce_everywhere(
        cls: type[Backend], source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True
    ) -> Tensor:
        """The "sum" or "mean" over `axis` of all processes together. {…, axis} → {…}"""
        if mode not in ("sum", "mean"):
            raise BackendError(f"reduce_{mode}: `distributed` works for sums and means only", got=mode)
        total = cls.reduce(source, mode="sum", axis=axis, use_mask=use_mask)
        raw = cls.all_reduce_raw(total._raw)
        if mode == "mean":
            count = cls.count_everywhere(source, axis, use_mask=use_mask)
            raw = cls.combine_raw(raw, "truediv", cls.clip_raw(count, 1, None))
        return total.like(raw)

    @classmethod
    def count_everywhere(
        cls: type[Backend], source: Tensor, axis: Dim | Sequence[Dim], *, use_mask: bool = True
    ) -> object:
        """The number of entries reduced in all processes together, as a raw tensor in the shape of the result."""
        counts = source.like(cls.full_raw(cls.get_shape_tuple_raw(source._raw), 1, "int64", source.device))
        return cls.all_reduce_raw(cls.reduce(counts, mode="sum", axis=axis, use_mask=use_mask)._raw)

    @classmethod
    def count(cls: type[Backend], source: Tensor, axis: Dim | Sequence[Dim], *, use_mask: bool = True) -> RawTensor:
        """The number of entries reduced, at least 1: an int, or a raw tensor in the shape of the result."""
        axes, _, dynamic, _, owners = _plan(cls, source, "sum", axis)
        if owners and not owners[0].isdisjoint(source.lengths.owners):
            dynamic += owners[1]
        if dynamic and use_mask and cls.padding_for(source, dynamic) is not None:
            return cls.count_for(source, dynamic, axes)
        shape = cls.get_shape_tuple_raw(source._raw)
        return max(math.prod(shape[i] for i in ((axes,) if isinstance(axes, int) else axes)), 1)


Others = tuple[frozenset[Dim], tuple[Dim, ...]]
Plan = tuple[int | tuple[int, ...], Sig, tuple[Dim, ...], Callable[..., RawTensor], Others | None]


def _plan(backend: type[Backend], source: Tensor, mode: str, axis: Dim | Sequence[Dim]) -> Plan:
    """The axes, the signature of the result, the reduced dims that may have padding, and the function without padding.

    If dims that stay may have padding: also the reduced dims, and the dims that stay, whose lengths may depend on them.
    """
    key = dims = (axis,) if axis is None or isinstance(axis, Dim | int | str) else tuple(axis)
    if mode in ARG_MODES and len(dims) != 1:
        raise DimError(f"reduce_{mode}: this mode needs a single axis", got=align.show_dims(dims), expected="one Dim",
                       hint="rf.merge_dims first, for one position in all dims together")  # fmt: skip
    dims = source.sig.resolve_all(dims)
    axes = tuple(axis_of(f"reduce_{mode}", source, dim) for dim in dims)
    out = align.without(source.sig, dims)
    if mode not in ("max", "min"):  # a sum of labels is not a label
        out = align.sig(out.dims, dims[0] if mode in ARG_MODES else None, out.feature_dim)
    dynamic = tuple(dim for dim in dims if dim.dimension is None)
    stay = tuple(dim for dim in source.sig.frames if dim not in dims)
    owners = (frozenset(dims), stay) if stay else None
    function = backend.reduce_function(mode) if dims else lambda raw, _: raw
    plan = (axes[0] if len(axes) == 1 else axes, out, dynamic, function, owners)
    source.sig.keep((mode, axis if isinstance(axis, Dim) else key, backend), plan)
    return plan


class SoftmaxOps:
    """Raw part: `softmax_raw(raw, axis, padding, some_empty)`, `log_softmax_raw` and `log_probs_raw(raw, axis)`."""

    softmax_raw: Callable[[RawTensor, int, RawTensor, bool], RawTensor]
    log_softmax_raw: Callable[[RawTensor, int, RawTensor, bool], RawTensor]
    log_probs_raw: Callable[[RawTensor, int], RawTensor]

    @classmethod
    def softmax(cls: type[Backend], tensor: Tensor, axis: Dim, use_mask: bool = True) -> Tensor:
        """exp(x) / Σ exp(x) over `axis`. {…, axis} → the same"""
        signature, lengths = tensor.sig, tensor.lengths
        if signature.priority_copies:
            axis = signature.resolve(axis)
        place = signature.index.get(axis)
        if place is None:
            place = axis_of("softmax", tensor, axis)
        padding, empty, dims = _padding(cls, tensor, axis, place) if use_mask and lengths.ragged else NOTHING
        if padding is None:
            return tensor_of(cls.softmax_raw(tensor._raw, place, None, False), signature, lengths)
        result = tensor_of(cls.softmax_raw(tensor._raw, place, padding, empty), signature, lengths)
        return cls.note_empty_padding(result, dims)

    @classmethod
    def log_softmax(cls: type[Backend], tensor: Tensor, axis: Dim, use_mask: bool = True) -> Tensor:
        """log softmax over `axis`; -inf in padding. {…, axis} → the same"""
        if tensor.sig.priority_copies:
            axis = tensor.sig.resolve(axis)
        place = axis_of("log_softmax", tensor, axis)
        padding, empty, _ = _padding(cls, tensor, axis, place) if use_mask and tensor.lengths.ragged else NOTHING
        lengths = tensor.lengths if padding is None else tensor.lengths.infinite()
        return tensor_of(cls.log_softmax_raw(tensor._raw, place, padding, empty), tensor.sig, lengths)

    @classmethod
    def log_probs(cls: type[Backend], tensor: Tensor, *, axis: Dim) -> Tensor:
        """log softmax over `axis` of fixed size, but -∞ for all entries where all are -∞. {…, axis} → the same"""
        return tensor_of(cls.log_probs_raw(tensor._raw, axis_of("choice", tensor, axis)), tensor.sig, tensor.lengths)


Padding = tuple[RawTensor, bool, tuple[Dim, ...]]
NOTHING: Padding = (None, False, ())


def _padding(backend: type[Backend], tensor: Tensor, axis: Dim, place: int) -> Padding:
    """The mask of padding, whether a row consists of padding only, and the dims of the padding."""
    lengths = tensor.lengths
    dims: tuple[Dim, ...] = (axis,)
    if axis in lengths.owners:
        dims += tuple(dim for dim in tensor.sig.frames if dim is not axis)
    elif axis.dimension is not None:
        return NOTHING
    padding = backend.padding_for(tensor, dims)
    if padding is None:
        require_owner_dims("softmax", tensor, dims, FULL_LENGTH)
        return NOTHING
    return padding, backend.has_empty_rows(tensor, dims, place), dims
