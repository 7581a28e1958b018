"""Finding an axis of a tensor by its Dim, by a name, or by its kind: batch, time or feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.advice.features import features_hint
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.axis_names import AxisOrder
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.align import Sig


class Axes:
    """The methods of Tensor that find axes."""

    __slots__ = ()

    if TYPE_CHECKING:
        sig: Sig
        feature_dim: Dim | None
        sparse_dim: Dim | None

        @property
        def name(self) -> str:
            """The name of the tensor."""

        @property
        def dims(self) -> tuple[Dim, ...]:
            """The axes, in the order of the raw tensor."""

    def axis(self, dim: Dim) -> int:
        """The position of `dim`. Raises DimError if there is no such dim."""
        raise NotImplementedError

    def has_axis(self, axis: Dim | str) -> bool:
        """Whether there is such an axis, or more than one."""
        try:
            return self._find(axis) is not None
        except DimError:  # more than one
            return True

    def get_axis_from_description(self, axis: Dim | str | int, allow_int: bool = False) -> int:
        """The position of an axis: a Dim, its name, "B" (batch), "T" (time), "F" (features), or as in `axis_names`.

        >>> time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
        >>> x = rf.Tensor("x", [rf.batch_dim, time, feat], "float32", feature_dim=feat)
        >>> [x.get_axis_from_description(axis) for axis in (time, "feat", "B", "T", "F")]
        [1, 2, 0, 1, 2]

        A position is accepted only with `allow_int`. Raises DimError if there is no such axis, or more than one.
        """
        if isinstance(axis, int) and allow_int and -len(self.dims) <= axis < len(self.dims):
            return axis % len(self.dims)
        position = self._find(axis) if isinstance(axis, str) else None
        if isinstance(axis, Dim):
            return self.axis(self.sig.resolve(axis))
        if position is None:
            raise DimError(
                f"{self.name} has no axis {axis!r}",
                got=show_dims(self.dims),
                expected='one of its dims, a name, "B", "T" or "F"' + (", or a position" if allow_int else ""),
                hint=self._suggestion(axis),
            )
        return position

    def _suggestion(self, axis: Any) -> str | None:
        """The hint of an error about an axis that does not exist, or is given as a position."""
        if isinstance(axis, str) and axis.lower() in ("f", "feature"):
            return features_hint(self)
        if isinstance(axis, int):
            valid = -len(self.dims) <= axis < len(self.dims)
            return f"{self.dims[axis].name}, instead of its position" if valid else None
        return AxisOrder(self.dims, self.feature_dim).suggestion(str(axis))

    def get_dim_tag_from_description(self, axis: Dim | str) -> Dim:
        """The Dim of an axis. Raises DimError if there is no such axis, or more than one."""
        return self.dims[self.get_axis_from_description(axis)]

    def _find(self, axis: Any) -> int | None:
        if isinstance(axis, Dim):
            return self.sig.index.get(self.sig.resolve(axis))
        positions = self._named(str(axis))
        if len(positions) > 1 and str(axis).lower() == "spatial":
            return self.time_dim_axis  # a single axis is expected
        if len(positions) > 1:
            raise DimError(
                f"{self.name} has more than one axis {axis!r}", got=show_dims(self.dims), hint="give the Dim"
            )
        return positions[0] if positions else None

    def _named(self, name: str) -> tuple[int, ...]:
        """The positions of the axes with this name; none, if it is not a name of axes."""
        positions = tuple(i for i, dim in enumerate(self.dims) if name in (dim.name, str(dim.dimension)))
        try:
            return positions or AxisOrder(self.dims, self.feature_dim).find(name)
        except DimError:
            return ()

    # -- by kind

    @property
    def batch_dim_axis(self) -> int | None:
        """The position of the batch dim; None if there is none."""
        return next((i for i, dim in enumerate(self.dims) if dim.is_batch_dim()), None)

    @property
    def time_dim_axis(self) -> int | None:
        """The position of the first time dim: a dim of kind "spatial", or one without a fixed size."""
        return next(iter(AxisOrder(self.dims, self.feature_dim).time()), None)

    @property
    def feature_dim_axis(self) -> int | None:
        """The position of the feature dim; None if there is none."""
        return None if self.feature_dim is None else self.sig.index.get(self.feature_dim)

    @feature_dim_axis.setter
    def feature_dim_axis(self, axis: int | None) -> None:
        at = None if axis is None else self.get_axis_from_description(axis, allow_int=True)
        self.feature_dim = None if at is None else self.dims[at]  # type: ignore[misc]

    def have_batch_axis(self) -> bool:
        """Whether there is a batch dim."""
        return self.batch_dim_axis is not None

    def have_time_axis(self) -> bool:
        """Whether there is a time dim."""
        return self.time_dim_axis is not None

    def have_feature_axis(self) -> bool:
        """Whether there is a feature dim."""
        return self.feature_dim_axis is not None

    def get_batch_dim_tag(self) -> Dim:
        """The batch dim. Raises DimError if there is none."""
        return self._dim_at(self.batch_dim_axis, "batch dim")

    def get_time_dim_tag(self) -> Dim:
        """The first time dim. Raises DimError if there is none."""
        return self._dim_at(self.time_dim_axis, "time dim")

    def _dim_at(self, axis: int | None, what: str) -> Dim:
        if axis is None:
            raise DimError(f"{self.name} has no {what}", got=show_dims(self.dims))
        return self.dims[axis]

    @property
    def feature_dim_or_sparse_dim(self) -> Dim | None:
        """The feature dim, or the sparse dim if there is no feature dim."""
        return self.feature_dim or self.sparse_dim

    def remaining_dims(self, remove: Dim | Sequence[Dim] | None = None) -> list[Dim]:
        """The dims without `remove`. Raises DimError if a dim to remove does not exist."""
        removed = () if remove is None else as_dims(remove)
        positions = [self.get_axis_from_description(dim) for dim in removed]
        return [dim for i, dim in enumerate(self.dims) if i not in positions]
