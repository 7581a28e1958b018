"""Checks of the arguments of ops, with messages that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.core.advice.similar_dims import nearest
from rfnb.core.advice.torch_equivalents import called, equivalent_error
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


def axis_of(op: str, x: Tensor, dim: Dim, name: str = "source") -> int:
    """The position of `dim` in `x`. Raises DimError in the name of `op` if there is none."""
    if isinstance(dim, list | tuple):
        raise DimError(
            f"{op}: one Dim is needed, not several", got=align.show_dims(dim), expected="one Dim", hint="rf.merge_dims"
        )
    place = x.sig.index.get(dim)
    if place is None:
        meant = _meant(dim, x.dims)
        if meant is not None:
            raise equivalent_error(f"{op}: {dim!r} is not a Dim", f"axis={called(meant)}", x)
        check_dims([dim], op)
        raise DimError(
            f"{op}: `{name}` has no dim {dim.name}",
            got=x.describe_dims(),
            expected=f"a dim of `{name}`",
            hint=nearest(dim, x.dims),
            dims=[dim],
        )
    return place


def require_owner_dims(op: str, x: Tensor, dims: tuple[Dim, ...], way_out: str = "") -> None:
    """Raises DimError if the lengths of one of `dims` depend on dims that `x` lacks: it has no end of each sequence.

    way_out: what else to write.
    """
    lengths = x.lengths
    key = ("owner_dims", x.sig.serial, x.sig.serials[dims])
    if not lengths.ragged or key in lengths.cache:
        return
    for dim in dims:
        size = lengths.size(dim)
        if size is not None and size.ragged and x.sig.index.keys().isdisjoint(size.dims):
            raise DimError(
                f"{op}: the lengths of {dim.name} depend on {size.dims[0].name}, which the tensor lacks",
                got=x.describe_dims(),
                expected=f"{size.dims[0].name} among the dims",
                hint=f"rf.expand_dim({called(x)}, {called(size.dims[0])}){way_out}",
            )
    lengths.keep(key, True)


FULL_LENGTH = "; or use_mask=False, which uses the full length"


def _meant(dim: object, dims: Sequence[Dim]) -> Dim | None:
    """The dim of `dims` with this position or name."""
    if isinstance(dim, int):
        return dims[dim] if -len(dims) <= dim < len(dims) else None
    return next((candidate for candidate in dims if candidate.name == dim), None)


def explain_dtypes(backend: type[Backend], op: str, error: Exception, **tensors: Tensor) -> Exception:
    """A DtypeError if a kernel raised `error` because the dtypes of `tensors` differ, else `error` itself.

    Only a plain RuntimeError can be about dtypes: a lack of memory, and the errors of rfnb, have their own classes.
    """
    equal = len({x.dtype for x in tensors.values()}) == 1
    if equal or type(error) is not RuntimeError or backend.mixes_dtypes():
        return error
    first, second = list(tensors)[:2]
    return DtypeError(
        f"{op}: the dtypes differ",
        got=", ".join(f"`{name}` {x.dtype}" for name, x in tensors.items()),
        expected="one dtype",
        hint=f"rf.cast({first}, {tensors[second].dtype!r})",
    )


def require_ints(op: str, x: Tensor, name: str) -> None:
    """Raises DtypeError if `x` does not have an integer dtype."""
    if not is_int_dtype(x.dtype):
        raise DtypeError(f"{op}: `{name}` must be integers", got=x.dtype, expected="int32 or int64")


def require_distinct(op: str, name: str, dims: Sequence[Dim]) -> None:
    """Raises DimError if a dim occurs twice in `dims`."""
    twice = next((dim for dim in dims if list(dims).count(dim) > 1), None)
    if twice is not None:
        fault = f"{op}: `{name}` has the dim {twice.name} twice"
        raise DimError(fault, got=align.show_dims(dims), expected="each dim once", dims=[twice])


def require_same_dims(op: str, x: Tensor, dims: Sequence[Dim], name: str) -> None:
    """Raises DimError if `x` has other dims than `dims`, in any order."""
    if set(x.dims) != set(dims):
        odd = [dim for dim in x.dims if dim not in dims]
        raise DimError(
            f"{op}: `{name}` has different dims",
            got=x.describe_dims(),
            expected=align.show_dims(dims),
            hint=nearest(odd[0], dims) if odd else None,
            dims=odd,
        )
