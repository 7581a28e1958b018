"""Complex tensors, and their real and imaginary parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError
from rfnb.ops.convert import operands

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

REAL_IMAG = Dim(2, name="real_imag")


@op(frames="any")
def make_complex(real: Tensor | float, imag: Tensor | float) -> Tensor:
    """real + i·imag. {…}, {…} → {… of both} complex

    >>> freq = rf.Dim(2, name="freq")
    >>> real, imag = rf.ones([freq]), rf.convert_to_tensor([2.0, 3.0], dims=[freq])
    >>> rf.make_complex(real, imag).raw_tensor.tolist()
    [(1+2j), (1+3j)]
    """
    real, imag = operands(real, imag)
    for name, x in ("real", real), ("imag", imag):
        if x.dtype.startswith("complex"):
            raise DtypeError(f"make_complex: `{name}` is complex already", got=x.dtype)
    return backend_of_raw(real._raw).combine(real, "complex", imag)


@op(frames="any")
def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """The real part and the imaginary part, and the dim of the two. {…} complex → {…, out_dim:2}

    >>> freq = rf.Dim(2, name="freq")
    >>> z = rf.convert_to_tensor([1 + 2j, 3 + 4j], dims=[freq])
    >>> rf.complex_as_real(z)[0].raw_tensor.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not x.dtype.startswith("complex"):
        raise DtypeError("complex_as_real: `x` is not complex", got=x.dtype, expected="complex64 or complex128")
    out_dim = REAL_IMAG if out_dim is None else _pair("complex_as_real", out_dim)
    raw = backend_of_raw(x._raw).complex_as_real_raw(x._raw)
    return x.like(raw, align.sig([*x.dims, out_dim], None, x.feature_dim)), out_dim


@op(frames="any")
def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
    """Complex numbers with the real part at 0 of `pair_dim` and the imaginary part at 1. {…, pair_dim:2} → {…} complex

    >>> pair = rf.Dim(2, name="pair")
    >>> rf.real_as_complex(rf.convert_to_tensor([1.0, 2.0], dims=[pair]), pair_dim=pair).raw_tensor.item()
    (1+2j)
    """
    backend: type[Backend] = backend_of_raw(x._raw)
    parts = (backend.gather(x, indices=i, axis=_pair("real_as_complex", pair_dim)) for i in (0, 1))
    return backend.combine(next(parts), "complex", next(parts))


def _pair(op: str, dim: Dim) -> Dim:
    if dim.dimension != 2:
        raise DimError(
            f"{op}: the dim of real and imaginary part must have size 2",
            got=align.show_dims([dim]),
            expected="a Dim of size 2",
        )
    return dim
