"""Masks: which entries are frames, and which are padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backend.base.sizes import size_in
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor, tensor_of


class MaskOps:
    """Raw part: `from_numpy_raw`, `masked_fill_raw(raw, padding, value)`, `finite_raw(raw, padding)`, `device_key_raw`."""

    from_numpy_raw: Callable[[Any, Any], Any]
    masked_fill_raw: Callable[[Any, Any, Any], Any]
    finite_raw: Callable[[Any, Any], Any]
    device_key_raw: Callable[[Any], Any]

    @classmethod
    def sequence_mask(cls, dim: Dim, lengths: Lengths, device: str | None = None) -> Tensor:
        """Whether a position of `dim` lies within its sequence. → {… of the lengths, dim} bool"""
        size = lengths.size(dim)
        assert size is not None
        key = ("sequence_mask", dim.serial, device)
        raw = lengths.cached(key, lambda: cls.from_numpy_raw(_mask(size), device))
        return tensor_of(raw, align.sig((*size.dims, dim)), lengths)

    @classmethod
    def mask_for(cls, tensor: Tensor, dims: Sequence[Dim]) -> Any:
        """The raw mask of the frames of `dims`, shaped to broadcast against `tensor`; None if there is no padding."""
        return cls._kept(tensor, dims, "mask")

    @classmethod
    def padding_for(cls, tensor: Tensor, dims: Sequence[Dim]) -> Any:
        """The opposite of `mask_for`: true in padding."""
        return cls._kept(tensor, dims, "padding")

    @classmethod
    def _kept(cls, tensor: Tensor, dims: Sequence[Dim], what: str) -> Any:
        lengths = tensor.lengths
        if not lengths.sizes:
            return None
        key = (what, tensor.sig.serial, dims, cls.device_key_raw(tensor._raw))
        try:
            return lengths.cache[key]
        except KeyError:
            mask = _mask_for(tensor, dims)
            if mask is not None:
                mask = cls.from_numpy_raw(mask if what == "mask" else ~mask, key[-1])
            lengths.cache[key] = mask
            return mask

    @classmethod
    def fill_padding(cls, tensor: Tensor, value: float, dims: Sequence[Dim] | None = None) -> Any:
        """The raw tensor with `value` in the padding of `dims`, or of all its dims."""
        padding = cls._kept(tensor, tensor.dims if dims is None else dims, "padding")
        return tensor._raw if padding is None else cls.masked_fill_raw(tensor._raw, padding, value)

    @classmethod
    def finite_padding(cls, tensor: Tensor) -> Any:
        """The raw tensor with 0 for what is not finite in padding: it would get into gradients of weights, as 0 · NaN."""
        padding = cls.padding_for(tensor, tensor.dims)
        return tensor._raw if padding is None else cls.finite_raw(tensor._raw, padding)

    @classmethod
    def per_frame(cls, tensor: Tensor, dim: Dim, key: Any, make: Callable[[np.ndarray], np.ndarray]) -> Any:
        """A raw constant along `dim`, from the lengths of each sequence, shaped to broadcast against `tensor`.

        make: from lengths [… , 1] to values [… , frames]. It is called once for a batch and `key`.
        """
        key = (key, tensor.sig.serial, dim.serial, cls.device_key_raw(tensor._raw))
        found = tensor.lengths.cache.get(key)
        if found is None:
            size = size_in(tensor, dim)
            aligned = align.apply(align.move((*size.dims, dim), tensor.dims, trailing=False), make(size.values[..., None]))
            found = cls.from_numpy_raw(aligned, key[-1])
            if tensor.lengths.sizes:
                tensor.lengths.cache[key] = found
        return found


def _mask(size: Size) -> np.ndarray:
    return np.arange(size.max) < size.values[..., None]


def _mask_for(tensor: Tensor, dims: Sequence[Dim]) -> np.ndarray | None:
    mask: np.ndarray | None = None
    for dim in dims:
        if dim.dimension is not None or tensor.lengths.size(dim) is None:
            continue
        size = size_in(tensor, dim)
        if size.dims:
            own: np.ndarray = align.apply(align.move((*size.dims, dim), tensor.dims, trailing=False), _mask(size))
            mask = own if mask is None else mask & own
    return mask
