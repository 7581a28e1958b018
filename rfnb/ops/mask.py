"""Masks: which entries are frames and which are padding; selecting entries where a mask is true, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, as_dims, check_fixed
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import get_default_array_index_dtype, get_default_device
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import OPS, guarded, method_of, op, op_of_backend
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError


@op()
def sequence_mask(dims: Dim | Sequence[Dim], *, device: str | None = None) -> Tensor:
    """Whether a position is a valid frame in each of `dims`. → {dims} bool

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
    >>> rf.sequence_mask(time).raw_tensor.tolist()
    [[True, True], [True, False]]
    """
    dims = as_dims(dims)
    mask = None
    for dim in dims:
        if dim.is_dynamic() and dim.size.dims:
            factor = get_mask(dim, device=device)
            mask = factor if mask is None else OPS["logical_and"].fn(mask, factor)
    if mask is None:
        raise DimError("sequence_mask: no dim has lengths", got=align.show_dims(dims))
    order = [dim for dim in dims if dim in mask.dims_set]
    return mask.copy_transpose([*order, *(dim for dim in mask.dims if dim not in order)])


@method_of(Dim)
@op(frames="any")
def get_mask(self: Dim, *, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
    """Whether a position is within its sequence, in the current batch. → {… of the lengths, self} bool

    >>> rf.Dim([3, 1], name="time").get_mask().raw_tensor.tolist()
    [[True, True, True], [True, False, False]]
    """
    device = device or get_default_device()
    mask = _of_this_step(self, backends.selected().sequence_mask(self, current_lengths([self]), device))
    return mask if dim_order is None else mask.copy_transpose([dim for dim in dim_order if dim in mask.dims_set])


def lengths_tensor(dim: Dim, device: str | None = None) -> Tensor:
    """The lengths in the current batch. → {batch} int"""
    lengths = current_lengths([dim])
    size = dim.size
    return tensor_of(_raw(dim, lengths, "size", size.values, device), align.sig(size.dims), lengths)


def _raw(dim: Dim, lengths: Lengths, what: str, values: object, device: str | None) -> RawTensor:
    """Lengths of `dim` as a raw tensor, with the dtype of the tensors that they follow from, by default int64."""
    dtypes = {
        (size.dtype if root.template is None else root.template.dtype) or get_default_array_index_dtype()
        for root in dim.roots.values()
        if (size := lengths.size(root)) is not None
    }
    dtype, backend = dtypes.pop() if len(dtypes) == 1 else get_default_array_index_dtype(), backends.selected()

    def make() -> RawTensor:
        return backend.cast_raw(backend.from_numpy_raw(values, device), dtype)

    return lengths.cached((what, dim.serial, device, backend, dtype), make)


@method_of(Dim)
@op(frames="any")
def get_size_tensor(self: Dim, *, device: str | None = None) -> Tensor:
    """The lengths as a Tensor. → {batch}, or {} if all have the same length

    The dtype is that of the tensors that the lengths follow from, and int64 if they were given as numbers.

    >>> size = rf.Dim([3, 1], name="time").get_size_tensor()
    >>> size.dims == (rf.batch_dim,), size.raw_tensor.tolist()
    (True, [3, 1])
    """
    return _of_this_step(self, lengths_tensor(self, device))


@method_of(Dim)
def get_dyn_size_ext_for_device(self: Dim, device: str | None) -> Tensor:
    """The lengths as a Tensor on `device`. → {batch}

    >>> size = rf.Dim([3, 1], name="time").get_dyn_size_ext_for_device("cpu")
    >>> size.device, size.raw_tensor.tolist()
    ('cpu', [3, 1])
    """
    return get_size_tensor(self, device=device)


@method_of(Dim)
def get_dim_value_tensor(self: Dim) -> Tensor | int:
    """The size of the padded axis: an int for a static dim, else a Tensor. → {}

    >>> rf.Dim([3, 1], name="time").get_dim_value_tensor().item(), rf.Dim(4, name="feat").get_dim_value_tensor()
    (3, 4)
    """
    return self.get_dim_value() if self.is_static() else longest(self)


@op()
def longest(dim: Dim) -> Tensor:
    """The size of the padded axis. → {}"""
    lengths = current_lengths([dim])
    check_fixed(dim)
    raw = _raw(dim, lengths, "longest", np.asarray(dim.size.max), None)
    return _of_this_step(dim, tensor_of(raw, align.sig(()), lengths))


def _of_this_step(dim: Dim, constant: Tensor) -> Tensor:
    """The value cached for a batch; in a loop that grows `dim` a new value, since it differs at every step."""
    grows = any(root.changes_in for root in dim.roots.values())
    return constant.like(backends.selected().copy_raw(constant._raw)) if grows else constant


def _dyn_size_ext(self: Dim) -> Tensor | None:
    """The lengths as a Tensor; None for a static dim. Before there is data, a template, or None if there is none.

    Setting it, or its `raw_tensor`, begins a new batch.
    """
    if self.is_static():
        return None
    if not self.is_defined():
        return None if self.template is None else self.template.copy_template()._as_lengths_of(self)
    lengths = get_size_tensor(self)
    if self.expr is not None or active_listener() is not None:
        return lengths
    return lengths._as_lengths_of(self)


def _set_dyn_size_ext(self: Dim, lengths: Tensor | None) -> None:
    if self.is_static() or self.expr is not None:
        raise DimError(
            f"dyn_size_ext: the size of {self.name} does not depend on data",
            got=self.describe(),
            expected='a separate dim without a fixed size: Dim(None, name="…")',
        )
    if lengths is None:
        self.reset_raw()
    else:
        self._set_lengths(lengths)


def _dyn_size(self: Dim) -> RawTensor:
    """The lengths as a raw tensor; None for a static dim, and before there is data."""
    if self.is_static() or not self.is_defined():
        return None
    self.get_dim_value()
    return lengths_tensor(self).raw_tensor


Dim.dyn_size_ext = property(_dyn_size_ext, _set_dyn_size_ext)
Dim.dyn_size = property(_dyn_size, _set_dyn_size_ext)


masked_select = op_of_backend(Backend.masked_select, __name__)


masked_scatter = op_of_backend(Backend.masked_scatter, __name__, frames="any")


pack_padded = op_of_backend(Backend.pack_padded, __name__)


pad_packed = op_of_backend(Backend.pad_packed, __name__, frames="any")


@guarded
def is_packed(source: Tensor) -> bool:
    """False: tensors are always padded here. The frames that `pack_padded` gives have an ordinary dim.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
    >>> rf.is_packed(x), rf.is_packed(rf.pack_padded(x, dims=[rf.batch_dim, time])[0])
    (False, False)
    """
    return False


@guarded
def unpack(source: Tensor) -> Tensor:
    """The tensor itself, since tensors are always padded here.

    >>> x = rf.ones([rf.Dim(2, name="time")])
    >>> rf.unpack(x) is x
    True
    """
    return source
