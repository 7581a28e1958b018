"""Entries at indices: out of a tensor, and into one."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.create import get_default_float_dtype


@op(frames="any")
def gather(source: Tensor, *, indices: Tensor | int, axis: Dim | None = None, clip_to_valid: bool = False) -> Tensor:
    """Entries of `source` at `indices` along `axis`. {…, axis}, {…} → {… of both}

    Dims which both have are batch dims. A negative number counts from the end of each sequence.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> rf.gather(rf.zeros([time, feat]), indices=2, axis=time).dims == (feat,)
    True

    Args:
        axis: what the indices count; their `sparse_dim` if not given.
        clip_to_valid: indices before the first or behind the last frame of a sequence give that frame.
    """
    if axis is None:
        axis = indices.sparse_dim if isinstance(indices, Tensor) else None
        if axis is None:
            raise DimError(
                "gather: no `axis`, and the indices do not tell", got=_told(indices), hint="gather(…, axis=dim)"
            )
    return backend_of_raw(source._raw).gather(source, indices=indices, axis=axis, clip_to_valid=clip_to_valid)


def _told(indices: Tensor | int) -> str:
    return f"{indices.describe_dims()} without sparse_dim" if isinstance(indices, Tensor) else str(indices)


@op(frames="any")
def one_hot(source: Tensor) -> Tensor:
    """1 at the label, 0 elsewhere. {…} sparse → {…, sparse_dim} float"""
    return backend_of_raw(source._raw).one_hot(source, dtype=get_default_float_dtype())


@op(frames="any")
def scatter(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    mode: str = "sum",
    fill_value: float | None = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    use_mask: bool | None = None,
) -> Tensor:
    """Puts the entries of `source` at `indices` along `out_dim`. {…, indices_dim}, {…, indices_dim} → {…, out_dim}

    Dims which both have, besides `indices_dim`, are batch dims. Padding goes nowhere.

    Args:
        mode: what becomes of entries at one place: "sum", "max" or "min".
        fill_value: where there is none; 0 if not given.
        out_dim: what the indices count; their `sparse_dim` if not given.
    """
    if out_dim is None:
        out_dim = indices.sparse_dim
        if out_dim is None:
            raise DimError("scatter: no `out_dim`, and the indices do not tell", got=_told(indices))
    return backend_of_raw(source._raw).scatter(
        source,
        indices=indices,
        indices_dim=indices_dim,
        out_dim=out_dim,
        mode=mode,
        fill_value=fill_value,
        use_mask=use_mask is not False,
    )
