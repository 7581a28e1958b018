"""Templates: tensors with dims and a dtype but without data, which can be set later."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core.dims import align
from rfnb.core.dims.binding import bind_shape, current_lengths
from rfnb.core.dims.dim import Dim, batch_dim, check_dims
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground import backends
from rfnb.core.vocab import vocab_of
from rfnb.errors import BackendError, DimError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import RawTensor, Tensor


class NoData(NamedTuple):
    """Takes the place of the raw tensor in a template, and of `raw` data whose lengths are not known yet."""

    dtype: str
    raw: RawTensor = None

    def no_backend(self) -> BackendError | DimError:
        """The error for an op on such a tensor."""
        if self.raw is None:
            return BackendError(
                "the tensor is a template, which has no data", hint="x.raw_tensor = …, or another tensor"
            )
        return DimError(
            "the lengths of the tensor are not known yet",
            got=f"data of shape {tuple(self.raw.shape)}, which may be padding in part",
            expected="lengths for each of its dims",
            hint="time.dyn_size_ext.raw_tensor = torch.tensor([…]); or rf.convert_to_tensor(…, lengths=…)",
        )


class Templates:
    """The methods of Tensor that make templates, and that fill those of lengths."""

    __slots__ = ()

    def copy_template(self: Tensor, name: str | None = None, *, dtype: str | None = None) -> Tensor:
        """A template with the dims, sparse dim and feature dim of this tensor, and with its dtype by default.

        >>> rf.ones([rf.Dim(3, name="time")]).copy_template("mask", dtype="bool")
        Tensor{'mask', [time:3], bool}
        ...
        """
        template = self.like(NoData(dtype or self.dtype))
        template.name = name or self.name
        return template

    def copy_template_new_dim_tags(
        self: Tensor, new_dim_tags: Sequence[Dim], name: str | None = None, keep_special_axes: bool = False
    ) -> Tensor:
        """A template with the dims `new_dim_tags`. The feature dim is kept if it is among them.

        keep_special_axes: if it is not, the new dim at its position becomes the feature dim.
        """
        check_dims(new_dim_tags, "copy_template_new_dim_tags")
        feature = self.feature_dim if self.feature_dim in new_dim_tags else None
        if keep_special_axes and feature is None and self.feature_dim_axis is not None:
            feature = new_dim_tags[self.feature_dim_axis]
        template = self.copy_template(name)
        template.sig = align.sig(new_dim_tags, self.sparse_dim, feature)
        template.lengths = self.lengths.join(current_lengths(new_dim_tags), self.sig, template.sig)
        return template

    def copy_template_excluding_axis(self: Tensor, exclude_axis: Dim | int, name: str | None = None) -> Tensor:
        """A template without one of the axes."""
        position = self.get_axis_from_description(exclude_axis, allow_int=True)
        return self.copy_template_new_dim_tags([dim for i, dim in enumerate(self.dims) if i != position], name)

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

    # -- lengths that come later

    def _as_lengths_of(self: Tensor, dim: Dim) -> Tensor:
        """This tensor, whose data are the lengths of `dim` from now on: setting its `raw_tensor` binds `dim`."""
        self._lengths_of = weakref.ref(dim)
        return self

    def _set_lengths_of_dim(self: Tensor) -> None:
        """Binds the dim whose lengths these are, if there is one."""
        reference = getattr(self, "_lengths_of", None)
        dim = None if reference is None else reference()
        if dim is not None and self.raw_tensor is None:
            dim.reset_raw()
        elif dim is not None:
            dim._set_lengths(self)

    def _await_lengths(self: Tensor, *, refill: bool = False) -> None:
        """Withholds the data until the lengths of all dims are set, if a dim has only a template of them.

        refill: take the next lengths also if all are known, since these may be those of the last batch.
        """
        unknown = [dim for dim in self.dims if dim.template is not None and not known_in(self.lengths, dim)]
        if unknown:
            self._hold(NoData(self.dtype, self.raw_tensor))
        for dim in self.dims if refill else unknown:
            if dim.template is not None:
                methods = [ref for ref in dim.awaiting if (method := ref()) and method.__self__ is not self]
                dim.awaiting = [*methods, weakref.WeakMethod(self._take_lengths)]

    def _take_lengths(self: Tensor) -> None:
        """Takes the current lengths of the dims. Raises DimError if withheld data does not fit them."""
        raw = self.raw_tensor
        if raw is None:
            return
        backend = backends.backend_of_raw(raw)
        try:
            lengths = bind_shape(self.name, self.dims, backend.get_shape_tuple_raw(raw))
        except DimError:
            if self._raw is not raw:
                raise
            return  # data of an earlier batch
        self.lengths = lengths
        if all(known_in(lengths, dim) for dim in self.dims):
            self._hold(raw)
            self._hold(backend.finite_padding(self))


def known_in(lengths: Lengths, dim: Dim) -> bool:
    """Whether the lengths of `dim` are known, not only its capacity."""
    size = lengths.size(dim)
    return size is not None and not size.assumed


# -- arguments of configs: `dim_tags`, or `dim`, `shape` and `sparse`


class GivenAxes(NamedTuple):
    """What the arguments say about the axes of a Tensor."""

    dims: Sequence[Dim] | None
    sparse_dim: Dim | None
    feature_dim: Dim | None


def axes_of(name: str, axes: GivenAxes, given: dict[str, Any]) -> GivenAxes:
    """The axes that arguments of configs describe. Raises DimError for an argument that does not exist.

    `dim_tags` are the dims. `dim` is the number of features, or of labels if the entries are `sparse`. `shape` has the
    axes after the batch, with None for time; by default these are time and, for what is not sparse, the features.
    `vocab` names the labels. The last static axis is the one of the features, unless the entries are labels.
    """
    unknown = given.keys() - KNOWN - IGNORED
    if unknown or (axes.dims is not None and not given.keys().isdisjoint(AXES)):
        raise unknown_argument(name, {key: given[key] for key in given if not unknown or key in unknown})
    dims, sparse_dim, feature_dim = axes
    if given.get("sparse") and sparse_dim is None:
        sparse_dim = Dim(given.get("dim"), name=f"{name}-labels", vocab=given.get("vocab"))
    if "dim_tags" in given:
        dims = tuple(given["dim_tags"])
    elif not given.keys().isdisjoint(AXES):
        inner = (None,) if sparse_dim is not None else (None, given.get("dim"))
        dims = (batch_dim, *[_axis(name, size) for size in given.get("shape", inner)])
    if sparse_dim is not None and given.get("vocab") is not None and sparse_dim.vocab is None:
        sparse_dim.vocab = vocab_of(given["vocab"])
    if feature_dim is None and sparse_dim is None and not given.keys().isdisjoint(AXES):
        feature_dim = next((dim for dim in reversed(dims or ()) if dim.dimension is not None), None)
    return GivenAxes(dims, sparse_dim, feature_dim)


def _axis(name: str, size: int | None) -> Dim:
    if size is None:
        return Dim(None, name="time", kind=Dim.Types.Spatial)
    return Dim(size, name=f"{name}-feature", kind=Dim.Types.Feature)


def unknown_argument(name: str, unknown: dict[str, object]) -> DimError:
    """The error for arguments that a Tensor does not have."""
    return DimError(
        f"Tensor {name!r}: unknown argument",
        got=", ".join(f"{key}={value!r:.40}" for key, value in unknown.items()),
        expected="dims, dtype, sparse_dim, feature_dim, feature_dim_axis, raw_tensor",
        hint=INSTEAD.get(next(iter(unknown))),
    )


AXES = {"dim_tags", "dim", "shape", "sparse"}
KNOWN = {*AXES, "vocab"}
IGNORED = {"available_for_inference", "time_dim_axis"}
"""Arguments that have no effect: which data an engine loads, and which axis `get_time_dim_tag` finds anyway."""
INSTEAD = {
    "shape": "dims=[…], a Dim for each axis",
    "dim_tags": "dims=[…]",
    "batch_dim_axis": "dims=[…] with rf.batch_dim in its place",
    "size_placeholder": "dims=[…], where the time dim holds the lengths",
    "placeholder": "raw_tensor=…",
    "sparse": "sparse_dim=Dim(…)",
    "dim": "sparse_dim=Dim(…) for labels, or the last of dims=[…]",
    "auto_create_placeholders": "rf.zeros, or data",
    "version": "version=2",
}
"""Arguments that a Tensor does not have, and what to write."""
