"""Checks at the border of an op, in the words of the call."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core import align
from rfnb.core.accident import nearest
from rfnb.core.dim import Dim, check_dims
from rfnb.core.tensor import Tensor
from rfnb.core.ways import called, refusal
from rfnb.errors import DimError


def axis_of(op: str, x: Tensor, dim: Dim, name: str = "source") -> int:
    """The position of `dim` in `x`. Raises DimError in the name of `op` if there is none."""
    found = x.sig.index.get(dim)
    if found is None:
        if isinstance(dim, int) and -len(x.dims) <= dim < len(x.dims):
            raise refusal(f"{op}: {dim} is no Dim", f"axis={called(x.dims[dim])}", x)
        check_dims([dim], op)
        raise DimError(
            f"{op}: `{name}` has no dim {dim.name}",
            got=x.describe_dims(),
            expected=f"a dim of `{name}`",
            hint=nearest(dim, x.dims),
        )
    return found


def same_dims(op: str, x: Tensor, dims: Sequence[Dim], name: str) -> None:
    """Raises DimError if `x` has other dims than `dims`, in any order."""
    if set(x.dims) != set(dims):
        odd = [dim for dim in x.dims if dim not in dims]
        raise DimError(
            f"{op}: `{name}` has other dims",
            got=x.describe_dims(),
            expected=align.show_dims(dims),
            hint=nearest(odd[0], dims) if odd else None,
        )
