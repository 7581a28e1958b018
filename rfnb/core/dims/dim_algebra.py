"""Dims that are made from dims: the operators `time + 1`, `4 * feat`, `time.ceildiv_right(2)`, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dims import dim_alias, dim_math
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


class Algebra:
    """The part of Dim that makes dims from dims."""

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
            fault = f"{self.name} ({self.dimension}) is not divisible by {other}"
            raise DimError(fault, hint=f"{self.name} // {other} rounds down")
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

    # -- dims of the same size

    def copy(
        self: Dim,
        same_as_self: bool = True,
        description: str | None = None,
        kind: str | None = None,
        match_priority: int | None = None,
    ) -> Dim:
        """This dim with another `match_priority`; or, with `same_as_self=False`, another Dim of the same size.

        >>> feat = rf.Dim(4, name="feat")
        >>> feat.copy(match_priority=1), feat.copy() is feat, feat.copy(same_as_self=False) is feat
        (Dim{feat(1):4}, True, False)

        A square matrix has both: {feat(1), feat}. There, `axis=feat` refers to the first of them. A dim has
        one name and one kind, so `description` and `kind` apply only with `same_as_self=False`.
        """
        if same_as_self:
            priority = self.match_priority if match_priority is None else match_priority
            return self.base if priority == 0 else dim_math.with_priority(self.base, priority)
        new = type(self)(
            self.dimension,
            name=description or self.name,
            kind=kind or self.kind,
            vocab=self.vocab,
            capacity=self.capacity,
            bounded_by=self.bounded_by,
            dyn_size_ext=None if self.template is None else self.template.copy_template(),
        )
        if self.is_dynamic() and self.is_defined():
            new.bind(self.size)
        return new

    def copy_from(self: Dim, other: Dim) -> None:
        """Gives this dim the size, the vocab and the kind of `other`. It must not have a size yet.

        >>> word = rf.Dim(None, name="word", vocab=["the", "cat", "sat"])
        >>> out = rf.Dim(None, name="out")
        >>> out.copy_from(word)
        >>> out, out.vocab.decode(1)
        (Dim{out:3}, 'cat')
        """
        self.declare_same_as(other)
        self.vocab, self.kind = self.vocab or other.vocab, self.kind or other.kind

    def declare_same_as(self: Dim, other: Dim) -> None:
        """Declares that both dims always have the same size: that of the one that has, or first gets, a size.

        The other must not have a size yet, and must not occur in a tensor with data. They stay two dims: an axis
        of one is not an axis of the other. Raises DimError if both are in use.

        >>> time, frames = rf.Dim([5, 2], name="time"), rf.Dim(None, name="frames")
        >>> frames.declare_same_as(time)
        >>> frames, frames == time
        (Dim{frames:2–5}, False)
        """
        dim_alias.declare(self, other)
