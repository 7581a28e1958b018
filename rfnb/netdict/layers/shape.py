"""Layers that change the axes, also frames of all sequences as one batch, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims.axis_names import is_marked_time
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import ragged, time_of, with_dim, with_padding, without
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.basic import Copy
from rfnb.netdict.options import REQUIRED, axes, axis, layer, value
from rfnb.netdict.resolve import required
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
        product = math.prod((size.dimension or 1) if isinstance(size, Dim) else max(size, 1) for size in self.dims)
        total, is_feature = self.axis.dimension, self.axis is x.feature_dim
        self.new_dims: list[Dim] = []
        for i, size in enumerate(self.dims, start=1):
            used_dims = [*without(x, self.axis), *self.new_dims]
            if size == -1 and total is None:
                dim = self.axis.ceildiv_right(product)
            else:
                length = total // product if size == -1 and total is not None else size
                dim = self.pool.axis(length, used_dims, feature=is_feature and i == len(self.dims))
                if not self.new_dims and is_marked_time(self.axis):
                    dim = self.pool.time(length, used_dims)
            self.new_dims.append(dim)
        self.result_feature = self.new_dims[-1] if is_feature else x.feature_dim

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, dims…}"""
        return split_dims(
            x, axis=self.axis, dims=self.new_dims, pad_to_multiples=self.pad_to_multiples, pad_value=self.pad_value
        )

    def names_of_dims(self) -> dict[Dim, str]:
        """name_split_dimsI."""
        return {dim: f"{self.name}_split_dims{i}" for i, dim in enumerate(self.new_dims)}


class MergeDims(Layer, layer_class="merge_dims"):
    """Several axes become one, the first slowest. {…, axes…} → {…, product}"""

    ordered: tuple[Dim, ...]
    axes: tuple[Dim, ...] = axes()
    keep_order: object = value(None)

    def setup(self, x: Tensor) -> None:
        """The order of the axes: as given since version 6, before as in the source."""
        as_given = self.keep_order
        if as_given is None:
            as_given = holds("merge_dims takes the order of axes", self.spec.version)
        self.ordered = tuple(self.axes) if as_given else tuple(dim for dim in x.dims if dim in self.axes)
        sizes = [dim.dimension for dim in self.ordered]
        self.product: Dim | None = None
        self.padded = any(x.size_of(dim).dims for dim in ragged(self.ordered) if dim is not self.ordered[0])
        if self.padded and len(self.ordered) > 1:
            batch = any(dim.is_batch_dim() for dim in self.ordered)
            self.product = Dim(None, name=f"{self.name}_merge_dims", kind="batch" if batch else "spatial")
        elif None not in sizes:
            size, is_feature = math.prod(length or 0 for length in sizes), x.feature_dim in self.ordered
            self.product = self.pool.axis(size, without(x, *self.ordered), feature=is_feature)

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


class Squeeze(Layer, layer_class="squeeze", without_effect="enforce_batch_dim_axis"):
    """Without axes of size 1, with "auto" all of them. {…, axis} → {…}"""

    axis: object = value(REQUIRED)
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
    """With another axis: "F" is a new feature axis, "spatial" and "T" stand after the spatial axes.

    The first one of these is the time axis.
    """

    axis: object = value("F", str, int)
    dim: int | Dim = value(1, int, Dim)

    def setup(self, x: Tensor) -> None:
        """The new dim."""
        is_feature = isinstance(self.axis, str) and self.axis.lower() in ("f", "feature")
        make = self.pool.feature if is_feature else self.pool.time if time_of(x) is None else self.pool.static
        self.new_dim = make(self.dim, x.dims)
        self.result_feature = self.new_dim if is_feature else x.feature_dim

    def compute(self, x: Tensor) -> Tensor:
        """{…} → {…, dim}"""
        return expand_dim(x, self.new_dim)


class ReinterpretData(Layer, layer_class="reinterpret_data"):
    """The same entries with other axes or labels. {…} → {…}"""

    size_base: object = layer()
    batch_dim_base: object = layer()
    set_axes: dict[str, object] | None = value(None, dict)
    set_dim_tags: dict[object, Dim] | None = value(None, dict)
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
            pairs = zip(ragged(x.dims), ragged(size_base.dims), strict=False)
            self.replaced = [(a, b) for a, b in pairs if a is not b]
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
        if len(set(self.switched)) != 2 or (
            x.feature_dim in self.switched and any(dim.dimension is None for dim in self.switched)
        ):
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

    in_dims: Sequence[object] = value((), list, tuple)
    out_dims: Sequence[int | Dim] = value((), list, tuple)

    def setup(self, x: Tensor) -> None:
        """The old and the new dims."""
        self.old = [self.pool.one(described, x) for described in self.in_dims]
        self.new = self.pool.shape(self.out_dims, without(x, *self.old), feature=x.feature_dim in self.old)
        self.result_feature = x.feature_dim
        if x.feature_dim in self.old:
            self.result_feature = self.new[-1] if self.new and self.new[-1].dimension is not None else None

    def compute(self, x: Tensor) -> Tensor:
        """{…, in_dims…} → {…, out_dims…}"""
        return reshape(x, self.old, self.new)


class Transpose(Copy, layer_class="transpose"):
    """Another declared order of the axes: a list of all, or {the place of this one: this one}. {…} → the same"""

    perm: Any = value(None, dict, list, tuple)

    def setup(self, x: Tensor) -> None:
        """The new order."""
        perm = self.perm or list(x.dims)
        if isinstance(perm, Mapping):
            moved = {self.pool.one(place, x): self.pool.one(dim, x) for place, dim in perm.items()}
            self.result_order = [moved.get(dim, dim) for dim in x.dims]
        else:
            self.result_order = [self.pool.one(dim, x) for dim in perm]
        if {*self.result_order} != {*x.dims}:
            fault = "transpose: perm does not have each axis once"
            raise NetworkError(fault, got=repr(self.perm), expected=x.describe_dims())


class Tile(Layer, layer_class="tile", without_effect="out_dims"):
    """The source several times, one after the other, along axes. {…, axis} → {…, axis · number}

    In time, each of them begins after the longest sequence of the one before.
    """

    multiples: dict[object, int] = value(None, dict)

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
    result_feature = None

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {batch}, or {batch, 1}"""
        lengths = cast(get_size_tensor(self.axis, device=x.device), self.dtype)
        return expand_dim(lengths, self.pool.time(1)) if self.add_time_axis else lengths


class SwapAxes(Copy, layer_class="swap_axes"):
    """Two axes change their places in the declared order. {…, axis1, axis2} → the same"""

    axis1: Dim = axis()
    axis2: Dim = axis()

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


class FlattenBatch(Layer, layer_class="flatten_batch"):
    """The frames of all sequences, one after the other, without padding. {batch, axis, …} → {frames, …}"""

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
        if self.frames not in self.pool.made_of:
            fault = "unflatten_batch: no layer flatten_batch made this batch"
            raise NetworkError(fault, got=x.describe_dims(), hint='"from": a layer that comes of flatten_batch')
        self.dims = self.pool.made_of[self.frames]
        self.result_order = with_dims(x, {self.frames: self.dims})

    def compute(self, x: Tensor) -> Tensor:
        """{frames, …} → {batch, axis, …}"""
        return pad_packed(x, in_dim=self.frames, dims=self.dims)


class SplitBatchTime(Layer, layer_class="split_batch_time"):
    """Back to the batch and the frames of `base`, which `merge_dims` merged. {product, …} → {batch, time, …}"""

    base: object = layer(REQUIRED)

    def setup(self, x: Tensor, base: Tensor) -> None:
        """The dims of the base."""
        self.product, self.batch = batch_of(x), batch_of(base)
        self.frames = required(time_of(base), "split_batch_time: the base has no time axis", base.describe_dims())
        self.result_order = with_dims(x, {self.product: (self.batch, self.frames)})

    def compute(self, x: Tensor, base: Tensor) -> Tensor:
        """{product, …} → {batch, time, …}"""
        starts = range_over_dim(self.batch, device=x.device) * base.size_of(self.frames).max
        places = combine_bc(starts, "add", range_over_dim(self.frames, device=x.device))
        return gather(x, indices=places, axis=self.product)


def batch_of(x: Tensor) -> Dim:
    """The batch dim. Raises NetworkError if there is none."""
    return required(next((dim for dim in x.dims if dim.is_batch_dim()), None), "it needs a batch", x.describe_dims())


def with_dims(x: Tensor, replaced: Mapping[Dim, Sequence[Dim]]) -> list[Dim]:
    """The dims of a tensor, some replaced by others."""
    return [new for dim in x.dims for new in replaced.get(dim, (dim,))]


def merged_with_padding(x: Tensor, dims: Sequence[Dim], out_dim: Dim) -> Tensor:
    """The dims as one, in which padding counts as frames. {…, dims…} → {…, out_dim}"""
    padded = list(dims)
    for dim in ragged(dims):
        x, padded[padded.index(dim)] = with_padding(x, dim)
    return merge_dims(x, dims=padded, out_dim=out_dim)[0]


def with_lengths(x: Tensor, whole: Dim, lengths: Tensor, out_dim: Dim) -> Tensor:
    """The first frames of an axis that has padding as frames; what follows a length stays. {…, whole} → {…, out_dim}

    lengths: {batch}, or {}.
    """
    _, out_dim = slice_(range_over_dim(whole, device=x.device), axis=whole, end=lengths, out_dim=out_dim)
    x, cut = slice_(x, axis=whole, end=out_dim.size.max)
    return replace_dim(x, in_dim=cut, out_dim=out_dim)[0]
