"""Templates: tensors with dims and a dtype but without data, which can be set later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import Tensor


class NoData(NamedTuple):
    """Takes the place of the raw tensor in a template; it holds the dtype."""

    dtype: str


class Templates:
    """The methods of Tensor that make templates."""

    __slots__ = ()

    def copy_template(self: Tensor, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """A template with the dims, sparse dim and feature dim of this tensor, and with its dtype by default."""
        template = self.like(NoData(dtype or self.dtype))
        template.name = name or self.name
        return template

    def copy_template_new_dim_tags(
        self: Tensor, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
        """A template with the dims `new_dim_tags`. The feature dim is kept if it is among them.

        keep_special_axes: if it is not, the new dim at its position becomes the feature dim.
        """
        feature = self.feature_dim if self.feature_dim in new_dim_tags else None
        if keep_special_axes and feature is None and self.feature_dim_axis is not None:
            feature = new_dim_tags[self.feature_dim_axis]
        template = self.copy_template(name)
        template.sig = align.sig(new_dim_tags, self.sparse_dim, feature)
        template.lengths = self.lengths.join(current_lengths(new_dim_tags), self.sig, template.sig)
        return template

    def copy_template_excluding_axis(self: Tensor, exclude_axis: Dim | int, name: str | None = None) -> Tensor:
        """A template without one of the axes."""
        gone = self.get_axis_from_description(exclude_axis, allow_int=True)
        return self.copy_template_new_dim_tags([dim for i, dim in enumerate(self.dims) if i != gone], name)

    def copy_template_adding_axis(self: Tensor, dim: Dim, name: str | None = None) -> Tensor:
        """A template with `dim` as an additional first axis."""
        return self.copy_template_new_dim_tags([dim, *self.dims], name)

    def copy_template_replace_dim_tag(
        self: Tensor, axis: Dim | int, new_dim_tag: Dim, name: str | None = None
    ) -> Tensor:
        """A template in which `new_dim_tag` replaces one of the axes."""
        at = self.get_axis_from_description(axis, allow_int=True)
        dims = [new_dim_tag if i == at else dim for i, dim in enumerate(self.dims)]
        return self.copy_template_new_dim_tags(dims, name, keep_special_axes=at == self.feature_dim_axis)
