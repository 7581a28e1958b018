"""Reductions over dims, which leave padding out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

ARG_MODES = ("argmax", "argmin")


class ReduceOps:
    """Raw part: `reduce_raw(raw, mode, axes, padding)`."""

    reduce_raw: Callable[[Any, str, tuple[int, ...], Any], Any]

    @classmethod
    def reduce(cls: type[Backend], source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """`mode` over `axis`: "sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax".

        {…, axis} → {…}; argmin and argmax give positions, sparse in `axis`.
        """
        dims = (axis,) if isinstance(axis, Dim) else tuple(axis)
        arg = mode in ARG_MODES
        key = ("reduce", arg, *[dim.serial for dim in dims])
        found = source.sig.plans.get(key)
        out = found and found[1]()
        if not out:
            if arg and len(dims) != 1:
                raise DimError(f"reduce_{mode}: needs one axis", got=align.show_dims(dims), expected="one Dim")
            axes = tuple(source.axis(dim) for dim in dims)
            out = align.without(source.sig, dims)
            out = align.sig(out.dims, dims[0], out.feature_dim) if arg else out
            found = source.sig.keep(key, (axes, weakref.ref(out)))
        padding = cls.padding_for(source, dims) if use_mask else None
        return tensor_of(cls.reduce_raw(source._raw, mode, found[0], padding), out, source.lengths)
