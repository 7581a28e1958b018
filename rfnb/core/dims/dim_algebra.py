"""The operators of dims: `time + 1`, `4 * feat`, `time.ceildiv_right(2)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dims import dim_math
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


class Algebra:
    """The operators of Dim, which derive dims from dims."""

    def __add__(self: Dim, other: Dim | int) -> Dim:
        return dim_math.add(self, other)

    __radd__ = __add__

    def __sub__(self: Dim, other: Dim | int) -> Dim:
        return dim_math.add(self, other, sign=-1)

    def __rsub__(self: Dim, other: int) -> Dim:
        return dim_math.add(other, self, sign=-1)

    def __mul__(self: Dim, other: Dim | int) -> Dim:
        return dim_math.mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self: Dim, other: Dim | int) -> Dim:
        return dim_math.div(self, other)

    def __rfloordiv__(self: Dim, other: int) -> Dim:
        return dim_math.div(other, self)

    def __truediv__(self: Dim, other: Dim | int) -> Dim:
        if self.dimension is not None and isinstance(other, int) and other and self.dimension % other:
            what = f"{self.name} ({self.dimension}) is not divisible by {other}"
            raise DimError(what, hint=f"{self.name} // {other} rounds down")
        return self // other

    def __mod__(self: Dim, other: Dim | int) -> Dim:
        return dim_math.mod(self, other)

    def __neg__(self: Dim) -> Dim:
        return dim_math.mul(self, -1)

    def ceildiv_right(self: Dim, other: Dim | int) -> Dim:
        """⌈self / other⌉, where `other` is the inner, faster part."""
        return dim_math.div(self, other, rounding="ceildiv")

    def ceildiv_left(self: Dim, other: Dim | int) -> Dim:
        """⌈self / other⌉, where `other` is the outer, slower part."""
        return dim_math.div_side(self, other, "left", rounding="ceildiv")

    def div_right(self: Dim, other: Dim | int) -> Dim:
        """self / other, rounded down, where `other` is the right factor: (a * b).div_right(b) is a."""
        return dim_math.div_side(self, other, "right")

    def div_left(self: Dim, other: Dim | int) -> Dim:
        """self / other, rounded down, where `other` is the left factor: (a * b).div_left(a) is b."""
        return dim_math.div_side(self, other, "left")

    def sub_right(self: Dim, other: Dim | int) -> Dim:
        """self - other, taken from the right end: (a + b).sub_right(b) is a."""
        return dim_math.sub_side(self, other, "right")

    def sub_left(self: Dim, other: Dim | int) -> Dim:
        """self - other, taken from the left end: (a + b).sub_left(a) is b."""
        return dim_math.sub_side(self, other, "left")
