"""Layers that change the axes, also frames of all sequences as one batch, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims.axis_names import is_marked_time
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_dim, with_padding
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, axes, axis, layer, value
from rfnb.netdict.versions import holds
from rfnb.ops.concat import concat
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor, pack_padded, pad_packed
from rfnb.ops.math import cast, combine_bc
from rfnb.ops.shape import (
    expand_dim,
    merge_dims,
    replace_dim,
    reshape,
    set_feature_dim,
    set_sparse_dim,
    split_dims,
    squeeze,
)
from rfnb.ops.slice import slice as slice_


class SplitDims(Layer, layer_class="split_dims"):
    """One axis becomes several, the first slowest; one of `dims` may be -1. {…, axis} → {…, dims…}"""

    axis: Dim = axis()
    dims: Sequence[Any] = value((), list, tuple)
    pad_to_multiples: bool | None = value(None, bool)
    pad_value: float = value(0.0, float)

    def setup(self, x: Tensor) -> None:
        """The new dims."""
        product = 1
        for size in self.dims:
            product *= (size.dimension or 1) if isinstance(size, Dim) else max(size, 1)
        total, used_dims = self.axis.dimension, [dim for dim in x.dims if dim is not self.axis]
        self.new_dims: list[Dim] = []
        for i, size in enumerate(self.dims):
            is_end = i == len(self.dims) - 1 and self.axis is x.feature_dim
            if size == -1 and total is None:
                dim = self.axis.ceildiv_right(product)
            else:
                length = total // product if size == -1 and total is not None else size
                make = self.pool.feature if is_end else self.pool.static
                if not self.new_dims and is_marked_time(self.axis):
                    make = self.pool.time
                dim = make(length, [*used_dims, *self.new_dims])
            self.new_dims.append(dim)
        self.last_is_feature = self.axis is x.feature_dim

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, dims…}"""
        return split_dims(
            x, axis=self.axis, dims=self.new_dims, pad_to_multiples=self.pad_to_multiples, pad_value=self.pad_value
        )

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The last of the new dims if the axis was the feature axis."""
        return self.new_dims[-1] if self.last_is_feature else sources[0].feature_dim

    def names_of_dims(self) -> dict[Dim, str]:
        """name_split_dimsI."""
        return {dim: f"{self.name}_split_dims{i}" for i, dim in enumerate(self.new_dims)}


class MergeDims(Layer, layer_class="merge_dims"):
    """Several axes become one, the first slowest. {…, axes…} → {…, product}"""

    ordered: tuple[Dim, ...]
    axes: tuple[Dim, ...] = axes()
    keep_order: Any = value(None)

    def setup(self, x: Tensor) -> None:
        """The order of the axes: as given since version 6, before as in the source."""
        as_given = (
            holds("merge_dims takes the order of axes", self.spec.version)
            if self.keep_order is None
            else self.keep_order
        )
        self.ordered = tuple(self.axes) if as_given else tuple(dim for dim in x.dims if dim in self.axes)
        sizes = [dim.dimension for dim in self.ordered]
        self.product: Dim | None = None
        frames = [dim for dim in self.ordered if dim.is_dynamic() and not dim.is_batch_dim()]
        self.padded = any(x.size_of(dim).dims for dim in frames if dim is not self.ordered[0])
        if self.padded and len(self.ordered) > 1:
            batch = any(dim.is_batch_dim() for dim in self.ordered)
            self.product = Dim(None, name=f"{self.name}_merge_dims", kind="batch" if batch else "spatial")
        elif None not in sizes:
            size = 1
            for length in sizes:
                size *= length or 0
            used_dims = [dim for dim in x.dims if dim not in self.ordered]
            is_feature = x.feature_dim in self.ordered
            self.product = (self.pool.feature if is_feature else self.pool.static)(size, used_dims)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…, product}"""
        if len(self.ordered) == 1:
            return x
        if self.padded:
            return merged_with_padding(x, self.ordered, self.product or self.ordered[0])
        y, self.product = merge_dims(x, dims=self.ordered, out_dim=self.product)
        return y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The product, if the feature axis is in it."""
        if sources[0].feature_dim in self.ordered:
            return self.product or self.ordered[0]
        return sources[0].feature_dim


class Squeeze(Layer, layer_class="squeeze"):
    """Without axes of size 1, with "auto" all of them. {…, axis} → {…}"""

    axis: Any = value(REQUIRED)
    enforce_batch_dim_axis: Any = value(None)
    allow_no_op: bool = value(False, bool)

    def setup(self, x: Tensor) -> None:
        """The axes that go."""
        singles = [dim for dim in x.dims if dim.dimension == 1]
        self.gone = singles if self.axis == "auto" else self.pool.find(self.axis, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…}"""
        for dim in self.gone:
            single = dim.dimension is None and (x.device == "meta" or x.size_of(dim).max == 1)
            x = gather(x, indices=0, axis=dim) if single else squeeze(x, dim)
        return x


class ExpandDims(Layer, layer_class="expand_dims"):
    """With another axis: "F" is a new feature axis, "spatial" and "T" stand behind the spatial axes."""

    axis: Any = value("F", str, int)
    dim: int | Dim = value(1, int, Dim)

    def setup(self, x: Tensor) -> None:
        """The new dim."""
        self.as_feature = isinstance(self.axis, str) and self.axis.lower() in ("f", "feature")
        make = self.pool.feature if self.as_feature else self.pool.static
        self.new_dim = make(self.dim, x.dims)

    def compute(self, x: Tensor) -> Tensor:
        """{…} → {…, dim}"""
        return expand_dim(x, self.new_dim)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The new dim, if it is a feature axis."""
        return self.new_dim if self.as_feature else sources[0].feature_dim


class ReinterpretData(Layer, layer_class="reinterpret_data"):
    """The same entries with other axes or labels. {…} → {…}"""

    size_base: Any = layer()
    batch_dim_base: Any = layer()
    set_axes: dict[str, Any] | None = value(None, dict)
    set_dim_tags: dict[Any, Dim] | None = value(None, dict)
    set_sparse: bool | None = value(None, bool)
    set_sparse_dim: int | Dim | None = value(None, int, Dim)
    increase_sparse_dim: int | None = value(None, int)
    enforce_batch_major: bool = value(False, bool)
    enforce_time_major: bool = value(False, bool)
    switch_axes: Any = value(None)

    def setup(self, x: Tensor, size_base: Tensor | None = None, **inputs: Tensor) -> None:
        """The dims that are replaced."""
        self.replaced: list[tuple[Dim, Dim]] = []
        self.unheeded = False  # whether "T" stays another axis than the one that `set_axes` names
        self._switch(x)
        if size_base is not None:
            sources, targets = ([d for d in t.dims if d.is_dynamic() and not d.is_batch_dim()] for t in (x, size_base))
            self.replaced = [(a, b) for a, b in zip(sources, targets, strict=False) if a is not b]
        for key, dim in (self.set_dim_tags or {}).items():
            self.replaced.append((self.pool.one(key, x), dim))
        sparse = x.sparse_dim
        if self.set_sparse is False:
            sparse = None
        if self.set_sparse_dim is not None:
            sparse = self.pool.feature(self.set_sparse_dim)
        elif self.set_sparse and sparse is None:
            raise NetworkError("set_sparse needs set_sparse_dim", expected='"set_sparse_dim": …')
        if self.increase_sparse_dim and sparse is not None and sparse.dimension is not None:
            sparse = self.pool.feature(sparse.dimension + self.increase_sparse_dim)
        self.label_dim = sparse
        self.feature_axis = x.feature_dim
        if x.feature_dim in self.switched:
            self.feature_axis = next(dim for dim in self.switched if dim is not x.feature_dim)
        for key, described in (self.set_axes or {}).items():
            if key.lower() in ("t", "time") and described is not None:
                self._set_time(self.pool.one(described, x), x)
            if key.lower() in ("f", "feature"):
                self.feature_axis = None if described is None else self.pool.one(described, x)

    def _set_time(self, dim: Dim, x: Tensor) -> None:
        """Makes an axis of a fixed size the axis of frames, unless there is another one."""
        if dim is time_of(x):
            return
        if time_of(x) is not None or dim.dimension is None or dim is x.feature_dim:
            self.unheeded = True
            return
        self.replaced.append((dim, self.pool.time(dim.dimension, x.dims)))

    def _switch(self, x: Tensor) -> None:
        """Finds the two axes that change their meanings."""
        self.switched: tuple[Dim, ...] = ()
        if self.switch_axes is None:
            return
        places = self.switch_axes if isinstance(self.switch_axes, list | tuple) else list(self.switch_axes)
        self.switched = tuple(self.pool.one(place, x) for place in places)
        if len(set(self.switched)) != 2 or (x.feature_dim in self.switched and None in sizes_of(self.switched)):
            fault = "switch_axes: these axes cannot take the place of each other"
            expected = "two axes; features have a fixed size"
            raise NetworkError(fault, got=f"{self.switch_axes!r} of {x.describe_dims()}", expected=expected)
        self.as_batch, self.as_frames = (
            Dim(None, name=f"{self.name}_{kind}", kind=kind) for kind in ("batch", "spatial")
        )

    def _with_batch_switched(self, x: Tensor) -> Tensor:
        """The batch as an axis of frames, and the other axis as the batch, in which padding counts as frames."""
        batch, partner = sorted(self.switched, key=lambda dim: not dim.is_batch_dim())
        padded = partner
        if partner.dimension is None:
            x, padded = with_padding(x, partner)
        for old, new in ((batch, self.as_frames), (padded, self.as_batch)):
            x = replace_dim(x, in_dim=old, out_dim=new)[0]
        return x

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the source, whose axes are others."""
        a, b = self.switched or (None, None)
        if a is None or any(dim.is_batch_dim() for dim in self.switched):
            return order
        return [{a: b, b: a}.get(dim, dim) or dim for dim in order]

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → {…}"""
        if any(dim.is_batch_dim() for dim in self.switched):
            x = self._with_batch_switched(x)
        for old, new in self.replaced:
            x = with_dim(x, old, new)
        return set_sparse_dim(x, self.label_dim)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or the one that `set_axes` names."""
        return dict(self.replaced).get(self.feature_axis, self.feature_axis)  # type: ignore[arg-type]


class Reshape(Layer, layer_class="reshape"):
    """Some axes become others, the first ones slowest. {…, in_dims…} → {…, out_dims…}"""

    in_dims: Any = value((), list, tuple)
    out_dims: Any = value((), list, tuple)

    def setup(self, x: Tensor) -> None:
        """The old and the new dims."""
        self.old = [self.pool.one(described, x) for described in self.in_dims]
        self.new: list[Dim] = []
        self.made_feature = x.feature_dim in self.old
        for i, size in enumerate(self.out_dims):
            is_feature = self.made_feature and i == len(self.out_dims) - 1
            make = self.pool.feature if is_feature else self.pool.static
            self.new.append(make(size, [*(dim for dim in x.dims if dim not in self.old), *self.new]))

    def compute(self, x: Tensor) -> Tensor:
        """{…, in_dims…} → {…, out_dims…}"""
        return reshape(x, self.old, self.new)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or the last new dim in its place."""
        if not self.made_feature:
            return sources[0].feature_dim
        return self.new[-1] if self.new and self.new[-1].dimension is not None else None


class Transpose(Layer, layer_class="transpose"):
    """Another declared order of the axes: a list of all, or {the place of this one: this one}. {…} → the same"""

    perm: Any = value(None, dict, list, tuple)

    def setup(self, x: Tensor) -> None:
        """The new order."""
        perm = self.perm or list(x.dims)
        if isinstance(perm, Mapping):
            moved = {self.pool.one(place, x): self.pool.one(dim, x) for place, dim in perm.items()}
            self.new_order = [moved.get(dim, dim) for dim in x.dims]
        else:
            self.new_order = [self.pool.one(dim, x) for dim in perm]
        if {*self.new_order} != {*x.dims}:
            fault = "transpose: perm does not have each axis once"
            raise NetworkError(fault, got=repr(self.perm), expected=x.describe_dims())

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        return x

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The order is that of `perm`."""
        return self.new_order


class Tile(Layer, layer_class="tile"):
    """The source several times, one behind the other, along axes. {…, axis} → {…, axis · number}

    In time, each of them begins behind the longest sequence of the one before.
    """

    multiples: dict[Any, int] = value(None, dict)
    out_dims: Any = value(None)

    def setup(self, x: Tensor) -> None:
        """The new dims."""
        self.times: list[tuple[Dim, int, Dim]] = []
        for described, number in (self.multiples or {}).items():
            dim = self.pool.one(described, x)
            longer = dim * number if dim.dimension is None else self.pool.instead(dim, dim.dimension * number, x)
            self.times.append((dim, number, longer))

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis · number}"""
        feature = x.feature_dim
        for old, number, new in self.times:
            if old.dimension is None and not self.spec.batch_independent:
                x, joined = concat(*[(x, old)] * number, handle_dynamic_dims=False)
                x = slice_(x, axis=joined, end=get_size_tensor(old, device=x.device) * number, out_dim=new)[0]
            else:
                x = concat(*[(x, old)] * number, out_dim=new)[0]
            feature = new if feature is old else feature
        return set_feature_dim(x, feature)


class Length(Layer, layer_class="length"):
    """The lengths of an axis. {…} → {batch}"""

    axis: Dim = axis("T")
    dtype: str = value("int32", str)
    sparse: bool = value(False, bool)
    add_time_axis: bool = value(False, bool)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {batch}, or {batch, 1}"""
        lengths = cast(get_size_tensor(self.axis, device=x.device), self.dtype)
        return expand_dim(lengths, self.pool.static(1)) if self.add_time_axis else lengths

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """There is none."""
        return None


class SwapAxes(Layer, layer_class="swap_axes"):
    """Two axes change their places in the declared order. {…, axis1, axis2} → the same"""

    axis1: Dim = axis()
    axis2: Dim = axis()

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        return x

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """One in the place of the other."""
        return [self._place_of(dim) for dim in order]

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The axis that stands where the features of the source stood; frames are not features."""
        dim = sources[0].feature_dim
        new = None if dim is None else self._place_of(dim)
        keeps = new is None or new.dimension is None or new.is_batch_dim() or is_marked_time(new)
        return dim if keeps else new

    def _place_of(self, dim: Dim) -> Dim:
        return {self.axis1: self.axis2, self.axis2: self.axis1}.get(dim, dim)


def sizes_of(dims: Sequence[Dim]) -> list[int | None]:
    """The fixed sizes of dims; None where the size comes with the data."""
    return [dim.dimension for dim in dims]


class FlattenBatch(Layer, layer_class="flatten_batch"):
    """The frames of all sequences, one behind the other, without padding. {batch, axis, …} → {frames, …}"""

    axis: Dim = axis("T")
    batch_major: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:
        """The dim of all frames, which is a batch."""
        batch = batch_of(x)
        self.merged = (batch, self.axis) if self.batch_major else (self.axis, batch)
        self.frames = Dim(None, name="frames", kind="batch")
        self.pool.made_of[self.frames] = self.merged

    def compute(self, x: Tensor) -> Tensor:
        """{batch, axis, …} → {frames, …}"""
        return pack_padded(x, dims=self.merged, out_dim=self.frames)[0]


class UnflattenBatch(Layer, layer_class="unflatten_batch"):
    """The sequences of which `flatten_batch` made one batch. {frames, …} → {batch, axis, …}"""

    def setup(self, x: Tensor) -> None:
        """The dims of the sequences."""
        self.frames = batch_of(x)
        self.dims = self.pool.made_of.get(self.frames)
        if self.dims is None:
            fault = "unflatten_batch: no layer flatten_batch made this batch"
            raise NetworkError(fault, got=x.describe_dims(), hint='"from": a layer that comes of flatten_batch')

    def compute(self, x: Tensor) -> Tensor:
        """{frames, …} → {batch, axis, …}"""
        assert self.dims is not None
        return pad_packed(x, in_dim=self.frames, dims=self.dims)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axes of the sequences in the place of the frames."""
        assert self.dims is not None
        return [new for dim in sources[0].dims for new in (self.dims if dim is self.frames else (dim,))]


class SplitBatchTime(Layer, layer_class="split_batch_time"):
    """Back to the batch and the frames of `base`, which `merge_dims` merged. {product, …} → {batch, time, …}"""

    base: Any = layer(REQUIRED)

    def setup(self, x: Tensor, base: Tensor) -> None:
        """The dims of the base."""
        self.product, self.batch, frames = batch_of(x), batch_of(base), time_of(base)
        if frames is None:
            raise NetworkError("split_batch_time: the base has no time axis", got=base.describe_dims())
        self.frames = frames

    def compute(self, x: Tensor, base: Tensor) -> Tensor:
        """{product, …} → {batch, time, …}"""
        starts = range_over_dim(self.batch, device=x.device) * base.size_of(self.frames).max
        places = combine_bc(starts, "add", range_over_dim(self.frames, device=x.device))
        return gather(x, indices=places, axis=self.product)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The batch and the frames in the place of both."""
        return [new for d in sources[0].dims for new in ((self.batch, self.frames) if d is self.product else (d,))]


def batch_of(x: Tensor) -> Dim:
    """The batch dim. Raises NetworkError if there is none."""
    batch = next((dim for dim in x.dims if dim.is_batch_dim()), None)
    if batch is None:
        raise NetworkError("the layer needs a batch", got=x.describe_dims())
    return batch


def merged_with_padding(x: Tensor, dims: Sequence[Dim], out_dim: Dim) -> Tensor:
    """The dims as one, in which padding counts as frames. {…, dims…} → {…, out_dim}"""
    padded = list(dims)
    for i, dim in enumerate(dims):
        if dim.is_dynamic() and not dim.is_batch_dim():
            x, padded[i] = with_padding(x, dim)
    return merge_dims(x, dims=padded, out_dim=out_dim)[0]


def with_lengths(x: Tensor, whole: Dim, lengths: Tensor, out_dim: Dim) -> Tensor:
    """The first frames of an axis that has padding as frames; what follows a length stays. {…, whole} → {…, out_dim}

    lengths: {batch}, or {}.
    """
    _, out_dim = slice_(range_over_dim(whole, device=x.device), axis=whole, end=lengths, out_dim=out_dim)
    x, cut = slice_(x, axis=whole, end=out_dim.size.max)
    return replace_dim(x, in_dim=cut, out_dim=out_dim)[0]
