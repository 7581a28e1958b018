"""Padding is finite: what ops compute there never leaves the finite numbers, nor do its slopes.

Then a gradient of 0 that comes back from padding stays 0, whatever it is multiplied with, and no op needs to fill
padding for the sake of gradients. Data is made finite when it enters. An op that is not defined everywhere, or grows
without bound, gets a harmless argument in entries whose results do not count: in padding, in empty sequences, and in
sequences that a loop has ended. Arguments that are safe stay as they are, and so do all arguments of valid frames.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rfnb.backend.base.mask import frames_of
from rfnb.backend.base.math import Domain
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.scope import within
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Bounds(NamedTuple):
    """small: numbers from which on powers such as x⁻² are finite. large: numbers up to which exp(x) can be squared and
    summed, as for a variance."""

    small: float
    large: float


BOUNDS = {"float16": Bounds(2.0**-6, 4.0), "float64": Bounds(2.0**-400, 340.0)}
FLOAT32 = Bounds(2.0**-50, 40.0)
"""For all other dtypes. Numbers within the bounds are never changed."""


class EndedSequences(Protocol):
    """Knows the sequences that a loop has ended."""

    def __call__(self, backend: type[Backend], signature: Sig, device: object) -> RawTensor:
        """The raw mask of entries that have ended, shaped to broadcast against tensors with that signature; None if
        there are no such entries."""

    def guard(self, backend: type[Backend], x: Tensor, raw: RawTensor, domain: Domain, *, finite: bool) -> RawTensor:
        """The raw argument `raw` of an op, made harmless in sequences that end by a condition, which is known later.

        x: the tensor of which it is the argument. finite: whether all its numbers are finite.
        """


_ended: ContextVar[EndedSequences | None] = ContextVar("rfnb_ended", default=None)


def ended_by(ended: EndedSequences) -> AbstractContextManager[None]:
    """Inside, sequences may have ended, as `ended` knows."""
    return within(_ended, ended)


class FiniteOps:
    """Raw part: `finite_raw(raw, padding)`, `holds_finite_raw(raw)`."""

    finite_raw: Callable[[RawTensor, RawTensor], RawTensor]
    holds_finite_raw: Callable[[RawTensor], bool]

    @classmethod
    def finite_padding(cls: type[Backend], tensor: Tensor) -> RawTensor:
        """The raw tensor with 0 in place of ∞ and NaN in padding."""
        if not tensor.lengths.ragged or cls.holds_finite_raw(tensor._raw):
            return tensor._raw  # without a mask
        padding = cls.padding_for(tensor, tensor.dims)
        return tensor._raw if padding is None else cls.finite_raw(tensor._raw, padding)

    @classmethod
    def finite_operand(cls: type[Backend], tensor: Tensor) -> Tensor:
        """An operand of a product: the tensor itself, or, if its padding may be infinite, a finite copy of it.

        Padding may be infinite after ops such as `where(mask, x, -inf)`, and after writes into the raw tensor.
        """
        lengths = tensor.lengths
        if not lengths.ragged or (lengths.finite and not (tensor.sig.frames and cls.version_raw(tensor._raw))):
            return tensor
        ignored = cls.ignored_for(tensor, lengths)
        raw = tensor._raw if ignored is None else cls.finite_raw(tensor._raw, ignored)
        return tensor_of(raw, tensor.sig, lengths.made_finite())

    @classmethod
    def safe_argument(cls: type[Backend], x: Tensor, domain: Domain, lengths: Lengths | None = None) -> object:
        """The raw tensor, with harmless numbers where the result does not count and `x` is outside of the domain.

        lengths: those of the result.
        """
        lengths = x.lengths if lengths is None else lengths
        guard, raw = _ended.get(), x._raw
        if guard is None and not lengths.ragged:
            return raw
        finite = x.lengths.finite and not cls.version_raw(raw)
        ignored = cls.ignored_for(x, lengths)
        if ignored is not None:
            raw = cls.harmless_raw(raw, ignored, domain, x.dtype, finite=finite)
        return raw if guard is None else guard.guard(cls, x, raw, domain, finite=finite)

    @classmethod
    def harmless_raw(
        cls: type[Backend], raw: RawTensor, ignored: object, domain: Domain, dtype: str, *, finite: bool = False
    ) -> RawTensor:
        """`raw` with harmless numbers where `ignored` is true and it is outside of the domain. finite: whether all its
        numbers are."""
        bounds = BOUNDS.get(dtype, FLOAT32)
        if dtype.startswith("complex"):
            return cls.masked_fill_raw(raw, ignored, 1) if domain == "nonzero" else raw
        if domain != "not large" and not finite:
            raw = cls.finite_raw(raw, ignored)
        if domain in ("nonzero", "positive", "not small"):
            size = cls.activation_raw(raw, "abs") if domain == "nonzero" else raw
            least = bounds.small**0.4 if domain == "not small" else bounds.small  # x⁻³ can be squared as well
            small = cls.compare_raw(size, "less", least)
            return cls.masked_fill_raw(raw, cls.combine_raw(small, "logical_and", ignored), 1)
        low = bounds.small**0.25 - 1 if domain == "above -1" else None
        return cls.where_raw(ignored, cls.clip_raw(raw, low, bounds.large if low is None else None), raw)

    @classmethod
    def ignored_for(cls: type[Backend], x: Tensor, lengths: Lengths) -> object:
        """The raw mask of entries of `x` that no result with these lengths counts; None if there are none."""
        device = cls.device_key_raw(x._raw)
        key = ("ignored", x.sig.serial, device)
        ignored = lengths.cache.get(key, lengths)
        if ignored is lengths:
            mask = _ignored(x, lengths)
            ignored = lengths.keep(key, None if mask is None else cls.from_numpy_raw(mask, device))
        guard = _ended.get()
        if guard is None:
            return ignored
        over = guard(cls, x.sig, device)
        return ignored if over is None else over if ignored is None else cls.combine_raw(ignored, "logical_or", over)


def _ignored(x: Tensor, lengths: Lengths) -> np.ndarray | None:
    """The mask of padding, and of empty sequences, shaped to broadcast against `x`."""
    frames = frames_of(tensor_of(x._raw, x.sig, lengths), x.dims)
    mask: np.ndarray | None = None if frames is None else ~frames
    for size in lengths.sizes.values():
        if not size.traced and size.dims and size.some_empty() and set(size.dims) <= set(x.dims):
            empty: np.ndarray = align.apply(align.move(size.dims, x.dims, trailing=False), size.values == 0)
            mask = empty if mask is None else mask | empty
    return mask
