"""Tensors without data: the same description, or nearly the same, to be filled later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import Tensor


class NoData(NamedTuple):
    """Stands where a template has no raw tensor: only the dtype is known."""

    dtype: str


class Templates:
    """The part of Tensor that makes templates of it."""

    __slots__ = ()

    def copy_template(self: Tensor, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """The same description without data."""
        template = self.like(NoData(dtype or self.dtype))
        template.name = name or self.name
        return template

    def copy_template_new_dim_tags(
        self: Tensor, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
        """Likewise, with other dims. The feature dim stays one if it is among them.

        keep_special_axes: the dim in the place of the feature dim is the feature dim.
        """
        feature = self.feature_dim if self.feature_dim in new_dim_tags else None
        if keep_special_axes and feature is None and self.feature_dim_axis is not None:
            feature = new_dim_tags[self.feature_dim_axis]
        template = self.copy_template(name)
        template.sig = align.sig(new_dim_tags, self.sparse_dim, feature)
        template.lengths = self.lengths.join(current_lengths(new_dim_tags), self.sig, template.sig)
        return template

    def copy_template_excluding_axis(self: Tensor, exclude_axis: Dim | int, name: str | None = None) -> Tensor:
        """Likewise, without an axis."""
        gone = self.get_axis_from_description(exclude_axis, allow_int=True)
        return self.copy_template_new_dim_tags([dim for i, dim in enumerate(self.dims) if i != gone], name)

    def copy_template_adding_axis(self: Tensor, dim: Dim, name: str | None = None) -> Tensor:
        """Likewise, with one more dim in front."""
        return self.copy_template_new_dim_tags([dim, *self.dims], name)

    def copy_template_replace_dim_tag(
        self: Tensor, axis: Dim | int, new_dim_tag: Dim, name: str | None = None
    ) -> Tensor:
        """Likewise, with another dim in place of one."""
        at = self.get_axis_from_description(axis, allow_int=True)
        dims = [new_dim_tag if i == at else dim for i, dim in enumerate(self.dims)]
        return self.copy_template_new_dim_tags(dims, name, keep_special_axes=at == self.feature_dim_axis)
