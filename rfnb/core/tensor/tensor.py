"""A Tensor: a raw tensor of some backend whose axes are Dims, with the true lengths of its batch."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.advice.similar_dims import nearest
from rfnb.core.advice.torch_equivalents import called, features_hint
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig, show_dims
from rfnb.core.dims.axis_names import AxisOrder
from rfnb.core.dims.binding import bind_shape, current_lengths
from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source
from rfnb.core.tensor.template import GivenAxes, NoData, Templates, axes_of, unknown_argument
from rfnb.core.tensor.tensor_protocols import TensorProtocols
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, DtypeError

RawTensor = Any
"""What a backend computes with: a `torch.Tensor`, an array of numpy, or a tensor of another registered type."""


class Tensor(Shown, Templates, TensorProtocols):
    """A raw tensor with dims. Usually made by `rf.convert_to_tensor` or by ops.

    Args:
        name: the name in views and messages.
        dims: one for each axis of `raw_tensor`, in its order.
        dtype: checked against `raw_tensor`; of a template, "float32" by default, or "int32" with `sparse_dim`.
        sparse_dim: the dim that the entries index: `Tensor("words", [batch_dim, time], "int64", sparse_dim=vocab)`.
        feature_dim: the axis of the features, if any; or `feature_dim_axis`, its position.
        raw_tensor: a tensor of any backend. ∞ and NaN in padding become 0, as in all data that enters.
        version: only 2 is supported, in which no axis has a role that was guessed.
        further: the arguments that configs have: `dim_tags`, or `dim`, `shape`, `sparse`; and `vocab`.

    >>> time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    >>> x = rf.convert_to_tensor(np.ones((2, 5, 3)), dims=[rf.batch_dim, time, feat], lengths=[5, 2])
    >>> y = rf.reduce_sum(x, axis=time)  # over 5 frames, and over 2
    >>> y.dims == (rf.batch_dim, feat), y.raw_tensor.tolist()
    (True, [[5.0, 5.0, 5.0], [2.0, 2.0, 2.0]])
    """

    __slots__ = ("__weakref__", "_emptied", "_lengths_of", "_name", "_raw", "_trace", "lengths", "sig")
    # _lengths_of: a weak reference to the dim whose lengths these are, if setting them binds it
    # _trace: the value in the graph of a loop's body that this tensor stands for
    # _emptied: the raw tensor whose padding is known to be 0, and its version

    _emptied: object
    _lengths_of: weakref.ref[Dim]
    _name: str | Source
    _raw: RawTensor
    sig: Sig
    lengths: Lengths

    if TYPE_CHECKING:  # `ops.math` adds them

        def __add__(self, other: object) -> Tensor: ...

        def __neg__(self) -> Tensor: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __add__
        __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __and__ = __rand__ = __or__ = __ror__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __add__
        __abs__ = __invert__ = __neg__

    def __init__(
        self,
        name: str,
        dims: Sequence[Dim] | None = None,
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        feature_dim_axis: int | None = None,
        raw_tensor: RawTensor = None,
        version: int | None = None,
        **further: object,
    ):
        if version not in (None, 2):
            raise unknown_argument(name, {"version": version})
        if not isinstance(name, str):
            raise _no_name(name)
        if further:
            axes = GivenAxes(dims, sparse_dim, feature_dim)
            dims, sparse_dim, feature_dim = axes_of(name, axes, further)
        self._name = name
        self._emptied = None
        dims = tuple(dims or ())
        check_dims(dims, f"Tensor {name!r}")
        if feature_dim_axis is not None:
            feature_dim = feature_dim or dims[feature_dim_axis]
        self.sig = align.sig(dims, sparse_dim, feature_dim)
        if raw_tensor is None:
            self._raw = NoData(dtype or ("float32" if sparse_dim is None else "int32"))
            self.lengths = current_lengths(dims)
        else:
            backend = backends.backend_of_raw(raw_tensor)
            self.lengths = bind_shape(name, dims, backend.get_shape_tuple_raw(raw_tensor))
            self._raw = raw_tensor
            self._raw = backend.finite_padding(self)
            self._await_lengths()
            if dtype is not None and self.dtype != dtype:
                raise DtypeError(f"Tensor {name!r}: the raw tensor has the wrong dtype", got=self.dtype, expected=dtype)

    # -- properties

    @property
    def name(self) -> str:
        """The name it was given, or the variable that its data was first assigned to; "tensor" if there is neither."""
        name = getattr(self, "_name", "tensor")
        if isinstance(name, Source):
            name = name.name() or "tensor"
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
        """The dims as a set."""
        return frozenset(self.sig.dims)

    @property
    def sparse_dim(self) -> Dim | None:
        """The dim that the entries index, if they are labels."""
        return self.sig.sparse_dim

    @sparse_dim.setter
    def sparse_dim(self, dim: Dim | None) -> None:
        self._describe(align.sig(self.dims, dim, self.feature_dim))

    @property
    def feature_dim(self) -> Dim | None:
        """The axis of the features, if it was given."""
        return self.sig.feature_dim

    @feature_dim.setter
    def feature_dim(self, dim: Dim | None) -> None:
        if dim is not None:
            self.axis(dim)
        self._describe(align.sig(self.dims, self.sparse_dim, dim))

    def _describe(self, signature: Sig) -> None:
        self.sig = signature

    @property
    def vocab(self) -> Vocab | None:
        """The names of the labels, if the entries are labels and have names."""
        return None if self.sparse_dim is None else self.sparse_dim.vocab

    @property
    def version(self) -> int:
        """Always 2: no axis has a role that was guessed."""
        return 2

    @property
    def control_flow_ctx(self) -> None:
        """Always None: loops here need no such context."""
        return None

    @property
    def raw_tensor(self) -> RawTensor:
        """The tensor of the backend; None in a template."""
        return self._raw.raw if isinstance(self._raw, NoData) else self._raw

    @raw_tensor.setter
    def raw_tensor(self, raw: RawTensor) -> None:
        self._emptied = None
        if raw is None:
            self._raw = NoData(self.dtype)
        else:
            backend = backends.backend_of_raw(raw)
            self.lengths = bind_shape(self.name, self.dims, backend.get_shape_tuple_raw(raw), refill=True)
            self._raw = raw
            self._raw = backend.finite_padding(self)
            self._await_lengths(refill=True)
        self._set_lengths_of_dim()

    def _hold(self, raw: RawTensor) -> None:
        """Sets the raw tensor, or what takes its place, without checks."""
        self._raw = raw

    @property
    def dtype(self) -> str:
        """The type of the entries: "float32", "int64", "bool"."""
        if isinstance(self._raw, NoData):
            return self._raw.dtype
        return backends.backend_of_raw(self._raw).get_dtype_name_raw(self._raw)

    @property
    def device(self) -> str | None:
        """The device of the data: "cpu", "cuda:0"."""
        return backends.backend_of_raw(self._raw).get_device_raw(self._raw)

    @property
    def batch_ndim(self) -> int:
        """The number of axes."""
        return len(self.sig.dims)

    def reset(self) -> None:
        """Drops the data; dims and dtype stay.

        >>> x = rf.ones([rf.Dim(3, name="feat")])
        >>> x.reset()
        >>> x.raw_tensor is None, x.describe_dims(), x.dtype
        (True, '{feat:3}', 'float32')
        """
        self.raw_tensor = None

    def size_of(self, dim: Dim) -> Size:
        """The lengths of `dim` in the batch of this tensor.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
        >>> x.size_of(time).values.tolist(), x.size_of(time).max
        ([3, 1], 3)
        """
        if not isinstance(dim, Dim):
            check_dims([dim], "size_of")
        size = self.lengths.size(dim)
        if size is None:
            raise DimError(f"{self.name}: the lengths of {dim.name} are not known", got=show_dims(self.dims))
        return size

    def axis(self, dim: Dim) -> int:
        """The position of `dim`. Raises DimError if there is no such dim.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> x = rf.ones([time, feat])
        >>> x.axis(feat), x.raw_tensor.shape[x.axis(feat)]
        (1, 3)
        """
        position = self.sig.index.get(dim)
        if position is None:
            check_dims([dim], self.name)
            raise DimError(
                f"{self.name} has no dim {dim.name}",
                got=show_dims(self.dims),
                expected=f"{dim.name} among the dims",
                hint=nearest(dim, self.dims),
                dims=[dim],
            )
        return position

    def describe_dims(self) -> str:
        """The dims with the lengths of this tensor's batch: "{batch:3, time:2–5, feat:4}".

        >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, rf.Dim(None, name="time")])
        >>> x.describe_dims()
        '{batch:2, time:1–3}'
        """
        return "{" + ", ".join(self.lengths.describe(dim) for dim in self.dims) + "}"

    # -- the same data under another description

    def like(self, raw: RawTensor, signature: Sig | None = None) -> Tensor:
        """A tensor of the same batch with other data.

        >>> x = rf.convert_to_tensor([1.0, 4.0], dims=[rf.Dim(2, name="feat")])
        >>> y = x.like(torch.sqrt(x.raw_tensor))
        >>> y.dims == x.dims, y.raw_tensor.tolist()
        (True, [1.0, 2.0])
        """
        return tensor_of(raw, signature or self.sig, self.lengths)

    def copy_transpose(self, perm: Sequence[Dim | int], *, allow_int: bool = True) -> Tensor:
        """A tensor with the same data whose axes are in the order `perm`."""
        key = ("transpose", allow_int, *perm)
        how, reference = self.sig.plans.get(key, (None, None))
        out = reference and reference()
        if out is None:
            order: Any = perm
            if allow_int and all(isinstance(axis, int) for axis in perm) and len(perm) == len(self.dims):
                order = [self.dims[axis] for axis in order]
            check_dims(order, "copy_transpose")
            if set(order) != set(self.dims):
                fault = "copy_transpose: `perm` has different dims from the tensor"
                raise DimError(fault, got=show_dims(order), expected=show_dims(self.dims))
            move, out = align.move(self.dims, order), align.sig(order, self.sparse_dim, self.feature_dim)
            how = None if move is None else move[0]  # no axis is added
            self.sig.keep(key, (how, weakref.ref(out)))
        return tensor_of(self._raw if how is None else align.permute(self._raw, how), out, self.lengths)

    def copy_compatible_to_dims_raw(
        self, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
    ) -> RawTensor:
        """The raw tensor with its axes in the order `dims`.

        A dim that the tensor lacks becomes an axis of size 1, or of its full size if `unbroadcast`.

        Raises DimError if the tensor has a dim that is not in `dims`, or lacks one and `add_dims` is False.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> x = rf.ones([feat])
        >>> x.copy_compatible_to_dims_raw([time, feat]).shape
        torch.Size([1, 3])
        >>> x.copy_compatible_to_dims_raw([feat, time], unbroadcast=True).shape
        torch.Size([3, 5])
        """
        self.check_place(dims, add_dims=add_dims)
        raw = align.apply(align.move(self.dims, dims, trailing=False), self._raw)
        if not unbroadcast:
            return raw
        shape = [(self.lengths.size(dim) or dim.size).max for dim in dims]
        return backends.backend_of_raw(raw).broadcast_raw(raw, shape)

    def check_place(self, dims: Sequence[Dim], *, add_dims: bool = True) -> None:
        """Raises DimError if the tensor has a dim not in `dims`, or if it lacks one of them and `add_dims` is False.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> rf.ones([feat]).check_place([time, feat])
        >>> rf.ones([feat]).check_place([time])
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: tensor: unexpected dim feat
        ...
        """
        check_dims(dims)
        lost = [dim for dim in self.dims if dim not in dims]
        new_dims = [] if add_dims else [dim for dim in dims if dim not in self.sig.index]
        if lost or new_dims:
            raise DimError(
                f"{self.name}: unexpected dim {lost[0].name}" if lost else f"{self.name} has no {new_dims[0].name}",
                got=show_dims(self.dims),
                expected=show_dims(dims),
                hint=nearest(lost[0], dims) if lost else "add_dims=True",
            )

    def copy(self, name: str | None = None) -> Tensor:
        """A new Tensor object with the same data, under this or another name.

        >>> x = rf.ones([rf.Dim(3, name="feat")])
        >>> y = x.copy("y")
        >>> y.name, y is x, y.raw_tensor is x.raw_tensor
        ('y', False, True)
        """
        return self.with_name(name or self.name)

    def with_name(self, name: str) -> Tensor:
        """A new Tensor object with the same data and this name.

        >>> rf.ones([rf.Dim(3, name="feat")]).with_name("bias").name
        'bias'
        """
        renamed = self.like(self._raw)
        renamed._name = name
        return renamed

    __hash__ = object.__hash__

    def has_axis(self, axis: Dim | str) -> bool:
        """Whether there is such an axis, or more than one.

        >>> rf.ones([rf.Dim(5, name="time")]).has_axis("time")
        True
        """
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

    def _suggestion(self, axis: object) -> str | None:
        """The hint of an error about an axis that does not exist, or is given as a position."""
        if isinstance(axis, str) and axis.lower() in ("f", "feature"):
            return features_hint(self)
        if isinstance(axis, int):
            valid = -len(self.dims) <= axis < len(self.dims)
            return f"{self.dims[axis].name}, instead of its position" if valid else None
        return AxisOrder(self.dims, self.feature_dim).suggestion(str(axis))

    def get_dim_tag_from_description(self, axis: Dim | str) -> Dim:
        """The Dim of an axis. Raises DimError if there is no such axis, or more than one.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> rf.ones([time, feat]).get_dim_tag_from_description("feat") == feat
        True
        """
        return self.dims[self.get_axis_from_description(axis)]

    def _find(self, axis: object) -> int | None:
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
        self.feature_dim = None if at is None else self.dims[at]

    def have_batch_axis(self) -> bool:
        """Whether there is a batch dim.

        >>> rf.ones([rf.Dim(5, name="time")]).have_batch_axis()
        False
        """
        return self.batch_dim_axis is not None

    def have_time_axis(self) -> bool:
        """Whether there is a time dim.

        >>> rf.ones([rf.Dim(3, name="feat")]).have_time_axis()
        False
        """
        return self.time_dim_axis is not None

    def have_feature_axis(self) -> bool:
        """Whether there is a feature dim.

        >>> feat = rf.Dim(3, name="feat")
        >>> rf.Tensor("x", [rf.batch_dim, feat], "float32", feature_dim=feat).have_feature_axis()
        True
        """
        return self.feature_dim_axis is not None

    def get_batch_dim_tag(self) -> Dim:
        """The batch dim. Raises DimError if there is none.

        >>> x = rf.Tensor("x", [rf.Dim(3, name="feat"), rf.batch_dim], "float32")
        >>> x.get_batch_dim_tag() == rf.batch_dim
        True
        """
        return self._dim_at(self.batch_dim_axis, "batch dim")

    def get_time_dim_tag(self) -> Dim:
        """The first time dim. Raises DimError if there is none.

        >>> time = rf.Dim(None, name="time")
        >>> rf.Tensor("x", [rf.batch_dim, time], "float32").get_time_dim_tag() == time
        True
        """
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
        """The dims without `remove`. Raises DimError if a dim to remove does not exist.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> rf.ones([time, feat]).remaining_dims(time) == [feat]
        True
        """
        removed = () if remove is None else as_dims(remove)
        positions = [self.get_axis_from_description(dim) for dim in removed]
        return [dim for i, dim in enumerate(self.dims) if i not in positions]

    def verify_out_shape(
        self, out_shape: Sequence[Dim] | set[Dim], allow_missing_implicit_dims: bool = False
    ) -> Tensor:
        """Returns this tensor if its dims are `out_shape`, in any order. Raises DimError if not.

        allow_missing_implicit_dims: `out_shape` may also contain dims that only the lengths of this tensor have.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> x = rf.ones([time, feat])
        >>> x.verify_out_shape({feat, time}) is x
        True
        >>> x.verify_out_shape({time})
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: tensor has unexpected dims
        ...
        """
        check_dims(out_shape, "verify_out_shape")
        expected = set(out_shape)
        if allow_missing_implicit_dims:
            sizes = [self.lengths.size(dim) for dim in self.dims]
            expected -= {dim for size in sizes if size for dim in size.dims} - self.dims_set
        if expected != self.dims_set:
            odd = [dim for dim in self.dims if dim not in expected]
            raise DimError(
                f"{self.name} has unexpected dims",
                got=show_dims(self.dims),
                expected=show_dims(tuple(out_shape)),
                hint=nearest(odd[0], tuple(expected)) if odd else None,
            )
        return self

    def sanity_check(self, ignore_placeholder: bool = False, assume_complete: bool = True) -> None:
        """Raises DimError or DtypeError if the feature dim, the labels or the shape of the raw tensor are inconsistent.

        ignore_placeholder: whether to skip the check of the raw tensor.

        >>> word = rf.Dim(3, name="word")
        >>> rf.Tensor("words", [rf.batch_dim], "int64", sparse_dim=word).sanity_check()
        >>> rf.Tensor("words", [rf.batch_dim], "float32", sparse_dim=word).sanity_check()
        Traceback (most recent call last):
            ...
        rfnb.errors.DtypeError: words: labels must be integers
        ...
        """
        if self.feature_dim is not None:
            self.axis(self.feature_dim)
        if self.sparse_dim is not None and not is_int_dtype(self.dtype):
            raise DtypeError(f"{self.name}: labels must be integers", got=self.dtype, expected="int32 or int64")
        if self.raw_tensor is not None and not ignore_placeholder:
            shape = backends.backend_of_raw(self._raw).get_shape_tuple_raw(self._raw)
            expected = tuple(self.size_of(dim).max for dim in self.dims)
            if tuple(shape) != expected:
                raise DimError(
                    f"{self.name}: the shape of the raw tensor does not match the dims", got=shape, expected=expected
                )

    def runtime_sanity_checks(self) -> None:
        """Does what `sanity_check` does, and raises DimError if a label in a valid frame is outside the sparse dim.

        >>> word = rf.Dim(3, name="word")
        >>> words = rf.Tensor("words", [rf.batch_dim], sparse_dim=word, raw_tensor=torch.tensor([0, 3]))
        >>> words.runtime_sanity_checks()
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: words: a label is outside word
        ...
        """
        self.sanity_check()
        backends.backend_of_raw(self._raw).runtime_sanity_checks(self)


def _no_name(name: object) -> DtypeError:
    """The error for `Tensor(data)`: the constructor takes a name first."""
    return DtypeError(
        "Tensor: the first argument is the name",
        got=f"{type(name).__name__} {name!r:.40}",
        expected='Tensor("name", [dim, …], raw_tensor=…)',
        hint=f"rf.convert_to_tensor({called(name)}, dims=[…]) makes a Tensor of data",
    )


def tensor_of(raw: RawTensor, signature: Sig, lengths: Lengths) -> Tensor:
    """Makes a Tensor without checks. All ops make their results with it."""
    tensor = object.__new__(Tensor)
    tensor._emptied = None
    tensor._raw = raw
    tensor.sig = signature
    tensor.lengths = lengths
    return tensor


def tensors_in(tree: object) -> list[Tensor]:
    """The Tensors among the leaves of a structure."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Tensor)]


def plain_tensor(value: object) -> Tensor:
    """A number, an array or a raw tensor as a Tensor."""
    raw = value
    if isinstance(value, bool | int | float | np.generic | np.ndarray):
        raw = backends.selected().from_numpy_raw(np.asarray(value), None)
    shape = backends.backend_of_raw(raw).get_shape_tuple_raw(raw)
    return tensor_of(raw, align.sig([_axis(i, int(n)) for i, n in enumerate(shape)]), EMPTY)


@lru_cache(maxsize=512)
def _axis(position: int, size: int) -> Dim:
    dim = Dim(size, name=f"axis{position}")
    dim.made = None  # by no line of the user
    return dim
