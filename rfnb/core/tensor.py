"""A Tensor: a raw tensor of some backend whose axes are Dims, with the true lengths of its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rfnb.core import align, raw as _raw_registry
from rfnb.core.align import Sig, nearest, show_dims
from rfnb.core.dim import Dim, _to_size, check_dims, current_lengths, describe_dim
from rfnb.core.lengths import Lengths, Size
from rfnb.core.show import Shown
from rfnb.core.source import Source
from rfnb.errors import DimError, DtypeError

new = object.__new__


class NoData(NamedTuple):
    """Stands where a template has no raw tensor: only the dtype is known."""

    dtype: str


class Tensor(Shown):
    """A raw tensor with dims. Mostly made by `rf.convert_to_tensor` and by ops.

    Args:
        name: shown in views.
        dims: one for each axis of `raw_tensor`, in its order.
        dtype: checked against `raw_tensor`; needed without one (a template).
        sparse_dim: what the entries count: `Tensor("words", [batch_dim, time], "int64", sparse_dim=vocab)`.
        feature_dim: the axis that features lie along, if any.
        raw_tensor: of any backend.
    """

    __slots__ = ("__weakref__", "_name", "_raw", "_trace", "lengths", "sig")  # _trace is for `trace.traced` alone

    _name: str | Source
    _raw: Any
    sig: Sig
    lengths: Lengths

    def __init__(
        self,
        name: str,
        dims: Sequence[Dim] | None = None,
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        raw_tensor: Any = None,
    ):
        self._name = name
        dims = tuple(dims or ())
        self.sig = align.sig(dims, sparse_dim, feature_dim)
        if raw_tensor is None:
            self._raw = NoData(dtype or "float32")
            self.lengths = current_lengths(dims)
        else:
            backend = _raw_registry.backend_of_raw(raw_tensor)
            self.lengths = bind_shape(name, dims, backend.get_shape_tuple_raw(raw_tensor))
            self._raw = raw_tensor
            if dtype is not None and self.dtype != dtype:
                raise DtypeError(f"Tensor {name!r}: the raw tensor has another dtype", got=self.dtype, expected=dtype)

    # -- what it is

    @property
    def name(self) -> str:
        """What it was called, or what the line that made it from data calls it; else "tensor"."""
        name = getattr(self, "_name", "tensor")
        if isinstance(name, Source):
            names = name.targets()
            name = names[0] if len(names) == 1 else "tensor"
        return name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The axes, in the order of the raw tensor."""
        return self.sig.dims

    @property
    def dims_set(self) -> frozenset[Dim]:
        """The dims without their order."""
        return frozenset(self.sig.dims)

    @property
    def sparse_dim(self) -> Dim | None:
        """What integer entries count, if they are labels."""
        return self.sig.sparse_dim

    @property
    def feature_dim(self) -> Dim | None:
        """The axis that features lie along, if it was named."""
        return self.sig.feature_dim

    @property
    def raw_tensor(self) -> Any:
        """The tensor of the backend; None in a template."""
        return None if isinstance(self._raw, NoData) else self._raw

    @raw_tensor.setter
    def raw_tensor(self, raw: Any) -> None:
        shape = _raw_registry.backend_of_raw(raw).get_shape_tuple_raw(raw)
        self.lengths = bind_shape(self.name, self.dims, shape)
        self._raw = raw

    @property
    def dtype(self) -> str:
        """The type of the entries: "float32", "int64", "bool"."""
        if isinstance(self._raw, NoData):
            return self._raw.dtype
        return _raw_registry.backend_of_raw(self._raw).get_dtype_name_raw(self._raw)

    @property
    def device(self) -> str | None:
        """Where the data is: "cpu", "cuda:0"."""
        return _raw_registry.backend_of_raw(self._raw).get_device_raw(self._raw)

    @property
    def batch_ndim(self) -> int:
        """The number of axes."""
        return len(self.sig.dims)

    def size_of(self, dim: Dim) -> Size:
        """The lengths of `dim` in the batch of this tensor."""
        size = self.lengths.size(dim)
        if size is None:
            raise DimError(f"{self.name}: nothing is known of {dim.name}", got=show_dims(self.dims))
        return size

    def axis(self, dim: Dim) -> int:
        """The position of `dim`. Raises DimError if there is no such dim."""
        found = self.sig.index.get(dim)
        if found is None:
            check_dims([dim], self.name)
            raise DimError(
                f"{self.name} has no dim {dim.name}",
                got=show_dims(self.dims),
                expected=f"{dim.name} among the dims",
                hint=nearest(dim, self.dims),
            )
        return found

    def describe_dims(self) -> str:
        """ "{batch:3, time:2–5, feat:4}", with the lengths of this tensor's batch."""
        return "{" + ", ".join(describe_dim(dim, self.lengths) for dim in self.dims) + "}"

    # -- the same data under another description

    def like(self, raw: Any, signature: Sig | None = None) -> Tensor:
        """A tensor of the same batch with other data."""
        return tensor_of(raw, signature or self.sig, self.lengths)

    def copy_transpose(self, perm: Sequence[Dim]) -> Tensor:
        """The same tensor with its axes in the order `perm`."""
        if set(perm) != set(self.dims):
            raise DimError("copy_transpose: other dims", got=show_dims(perm), expected=show_dims(self.dims))
        how = align.move(self.dims, perm)
        return self.like(align.apply(how, self._raw), align.sig(perm, self.sparse_dim, self.feature_dim))

    def copy_compatible_to_dims_raw(self, dims: Sequence[Dim]) -> Any:
        """The raw tensor with its axes in the order `dims`, of size 1 where it has no such dim."""
        missing = [dim for dim in self.dims if dim not in dims]
        if missing:
            raise DimError(
                f"{self.name}: {missing[0].name} has no place", got=show_dims(self.dims), expected=show_dims(dims)
            )
        return align.apply(align.move(self.dims, dims, trailing=False), self._raw)

    def copy_template(self, name: str | None = None) -> Tensor:
        """The same description without data."""
        template = tensor_of(NoData(self.dtype), self.sig, self.lengths)
        template._name = name or self.name
        return template

    def with_name(self, name: str) -> Tensor:
        """The same tensor under another name."""
        same = self.like(self._raw)
        same._name = name
        return same

    def verify_out_shape(self, out_shape: Sequence[Dim] | set[Dim]) -> Tensor:
        """Itself, if its dims are `out_shape`, in any order. Raises DimError if not."""
        if set(out_shape) != set(self.dims):
            raise DimError(
                f"{self.name} has other dims", got=show_dims(self.dims), expected=show_dims(tuple(out_shape))
            )
        return self

    # -- as a number, where it is one

    def _scalar(self, what: str) -> Any:
        raw = self._raw
        if self.dims:
            raise DimError(
                f"{what} of a tensor with dims",
                got=self.describe_dims(),
                expected="a scalar",
                hint=f"reduce it first: rf.reduce_any, rf.reduce_sum, … (axis={self.dims[0].name})",
            )
        return raw

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def item(self) -> Any:
        """The number of a scalar, as a Python number."""
        return self._scalar("item").item()

    def numpy(self) -> Any:
        """A copy of the numbers as a numpy array, axes in the order of `dims`."""
        return _raw_registry.backend_of_raw(self._raw).to_numpy_raw(self._raw)

    def __getattr__(self, name: str) -> Any:
        way = _WAYS.get(name)
        hint = f": {way}" if way is not None else ""
        raise AttributeError(f"a Tensor of rfnb has no {name!r}{hint}", name=name, obj=self)

    def __len__(self) -> int:
        raise self._refuse("len", f"{self.dims[0].name}.get_dim_value()" if self.dims else "x.dims")

    def __iter__(self) -> Any:
        axis = self.dims[0].name if self.dims else "time"
        raise self._refuse(
            "iteration", f"a loop: rf.Loop(axis={axis}) with loop.unstack(x); or rf.unstack(x, axis={axis})"
        )

    def __getitem__(self, key: Any) -> Any:
        axis = self.dims[0].name if self.dims else "time"
        raise self._refuse("indexing", f"rf.gather(x, indices={key!r}, axis={axis}), or rf.slice(x, axis={axis}, …)")

    def _refuse(self, what: str, instead: str) -> DimError:
        return DimError(f"{what} needs a dim", got=self.describe_dims(), expected="the name of an axis", hint=instead)

    __hash__ = object.__hash__


_WAYS = {
    "shape": "x.dims, or tuple(x.raw_tensor.shape)",
    "ndim": "len(x.dims)",
    "backward": "loss.raw_tensor.backward()",
    "grad": "x.raw_tensor.grad",
    "detach": "rf.stop_gradient(x)",
    "to": "rf.copy_to_device(x, device), or rf.cast(x, dtype)",
    "view": "rf.split_dims, rf.merge_dims",
    "reshape": "rf.split_dims, rf.merge_dims",
    "transpose": "not needed: ops find axes by their Dims; x.copy_transpose([…]) for the raw order",
    "permute": "not needed: ops find axes by their Dims; x.copy_transpose([…]) for the raw order",
    "T": "not needed: ops find axes by their Dims; x.copy_transpose([…]) for the raw order",
    "unsqueeze": "not needed: ops broadcast by Dims; rf.expand_dim(x, dim)",
    "sum": "rf.reduce_sum(x, axis=…)",
    "mean": "rf.reduce_mean(x, axis=…)",
    "max": "rf.reduce_max(x, axis=…)",
    "min": "rf.reduce_min(x, axis=…)",
    "argmax": "rf.reduce_argmax(x, axis=…)",
}
"""What users of torch type by habit, and the way here."""


def tensor_of(raw: Any, signature: Sig, lengths: Lengths) -> Tensor:
    """The quick way to make a Tensor: nothing is checked."""
    tensor = new(Tensor)
    tensor._raw = raw
    tensor.sig = signature
    tensor.lengths = lengths
    return tensor


def bind_shape(name: str, dims: Sequence[Dim], shape: Sequence[int]) -> Lengths:
    """The lengths of a tensor made from outside, whose raw tensor has `shape`; binds dims that have no size yet.

    Raises DimError if the shape does not fit the dims.
    """
    if len(dims) != len(shape):
        raise DimError(
            f"{name}: the raw tensor has {len(shape)} axes, but {len(dims)} dims were given",
            got=f"shape {tuple(shape)}",
            expected=show_dims(dims),
        )
    for dim, length in zip(dims, shape, strict=True):
        size = current_lengths([dim]).size(dim)
        if size is not None and size.max == length and (not size.dims or _fits(size, dims, shape)):
            continue
        if dim.is_static() or dim.expr is not None or (size is not None and size.dims):
            raise DimError(
                f"{name}: the raw tensor does not fit {dim.name}",
                got=f"{length} in shape {tuple(shape)}",
                expected=f"{dim.name}:{'?' if size is None else size}",
                hint=None
                if dim.is_static()
                else "for a new batch, give its lengths: rf.convert_to_tensor(…, lengths=…)",
            )
        dim.bind(Size([], length))
    return current_lengths(dims)


def _fits(size: Size, dims: Sequence[Dim], shape: Sequence[int]) -> bool:
    expected = tuple(
        shape[dims.index(dim)] if dim in dims else n for dim, n in zip(size.dims, size.values.shape, strict=True)
    )
    return size.values.shape == expected


def _size_of_tensor(lengths: Any) -> Size | None:
    if not isinstance(lengths, Tensor):
        return None
    backend = _raw_registry.backend_of_raw(lengths._raw)
    return Size(lengths.dims, backend.to_numpy_raw(lengths._raw))


_to_size.append(_size_of_tensor)
EMPTY_SIG = align.sig(())
