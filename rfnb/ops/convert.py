"""Tensors from numbers, arrays, lists and strings, and copies of them on other devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.index import NEGATIVE_LABEL, check_range
from rfnb.core.dims import align
from rfnb.core.dims.align import EMPTY_SIG
from rfnb.core.dims.binding import bind_shape, current_lengths
from rfnb.core.dims.dim import Dim, batch_dim, check_dims
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import (
    get_default_device,
    get_default_float_dtype,
    has_fractions,
    is_float_dtype,
    is_int_dtype,
)
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.source import Source, public_function, user_source
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import guarded, op, op_of_backend
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError, RfError

Lengths = Tensor | Sequence[int] | np.ndarray


def tensor(value: object, like: Tensor | None = None) -> Tensor:
    """`value` if it is a Tensor, else a scalar Tensor with the dtype of `like`."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, bool | int | float | complex | np.generic) and not hasattr(value, "dtype"):
        raise not_a_tensor(f"{public_function()}: an operand", value)
    if like is not None and isinstance(value, np.generic):
        value = value.item()  # as the Python number
    backend = backends.selected() if like is None else backends.backend_of_raw(like._raw)
    dtype = None if like is None else _scalar_dtype(value, like.dtype)
    device = None if like is None else like.device
    raw = backend.convert_raw(value, dtype, device)
    if backend.get_ndim_raw(raw):
        raise not_a_tensor(f"{public_function()}: an operand", value)
    return tensor_of(raw, EMPTY_SIG, EMPTY)


_RANGES = {"uint8": range(2**8), "int8": range(-(2**7), 2**7), "int16": range(-(2**15), 2**15)}
"""The numbers that small types hold; others are beside a tensor of them what they are, as in torch."""


def _scalar_dtype(value: object, dtype: str) -> str | None:
    """The dtype of a number next to a tensor: that of the tensor, unless the number would lose precision."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if dtype == "bool" or value not in _RANGES.get(dtype, (value,)) else dtype
    if isinstance(value, complex) and not dtype.startswith("complex"):
        return "complex128" if dtype == "float64" else "complex64"
    return dtype if has_fractions(dtype) else None


def operands(a: object, b: object) -> tuple[Tensor, Tensor]:
    """Both operands as Tensors."""
    if isinstance(a, Tensor):
        return a, tensor(b, a)
    return tensor(a, b if isinstance(b, Tensor) else None), tensor(b)


@guarded
def convert_to_tensor(
    value: object,
    *,
    dims: Sequence[Dim] | None = None,
    dtype: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    shape: Sequence[Dim] | None = None,
    device: str | None = None,
    keep_scalar_on_cpu: bool = False,
    name: str | None = None,
    lengths: Lengths | Mapping[Dim, Lengths] | None = None,
    tags: Sequence[str] | None = None,
) -> Tensor:
    """A Tensor from data.

    Args:
        value: a number, a raw tensor or array with an axis for each of `dims`, or a list of sequences of
            different length (arrays, lists, or strings that the vocab of `sparse_dim` knows), which are padded.
        shape: another name for `dims`.
        keep_scalar_on_cpu: keep a number on the CPU, whatever the default device.
        lengths: how long each sequence is, for the axis whose length differs between sequences: one number
            for each entry of `rf.batch_dim`, or of the first dim if that is not among them, or {dim: numbers} for
            several such axes. Without it, a dim that has lengths keeps those of the last batch; otherwise all sequences
            have the size of the axis.
        tags: names of the sequences, shown and accepted where a sequence is chosen. Results computed from this tensor
            have them too, as do tensors with its dims until the next batch. Data with other lengths or tags is
            another batch: give each tensor of a batch the same tags. A tensor whose batch dim is the result of an
            op (a slice, a concatenation, another Dim) has no tags.

    >>> time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    >>> letter = rf.Dim(4, name="letter", vocab=list("acht"))
    >>> letters = rf.convert_to_tensor(["cat", "hat", "at"], dims=[rf.batch_dim, time], sparse_dim=letter)
    >>> x = rf.convert_to_tensor(np.zeros((3, 7, 3)), dims=[rf.batch_dim, time, feat], lengths=[7, 4, 5])

    Raises DimError if the data does not fit the dims.
    """
    dims = shape if dims is None else dims
    if lengths is None and tags is None and dtype is None and device is None and dims:
        known = _of_known_shape(value, dims, sparse_dim, feature_dim)
        if known is not None:
            known._name = name or user_source(3) or "tensor"
            return known
    if isinstance(value, Tensor):
        return value if dims is None else value.copy_transpose(dims)
    check_dims(dims or (), "convert_to_tensor")
    dims = tuple(dims or ())
    if keep_scalar_on_cpu and not dims:
        device = "cpu"
    refuse_masked("convert_to_tensor", value)
    if isinstance(value, list | tuple) and dims and _unequal(value, dims):
        value, lengths = _pad(value, dims, sparse_dim, lengths)
    backend = backends.backend_of_data(value)
    raw = _raw_of(backend, value, dtype, device)
    sizes = backend.get_shape_tuple_raw(raw)
    if len(sizes) != len(dims):
        raise DimError(
            f"convert_to_tensor: the data has {len(sizes)} {'axis' if len(sizes) == 1 else 'axes'}",
            got=f"shape {sizes}",
            expected=f"one axis for each of {align.show_dims(dims)}",
            hint="give one Dim for each axis: dims=[batch_dim, time, …]" if len(sizes) > len(dims) else None,
        )
    made = user_source(3)
    if lengths is not None or tags is not None:
        raw = _bind(backend, raw, sizes, dims, lengths, tags, made)
        sizes = backend.get_shape_tuple_raw(raw)
    bound = bind_shape(name or "convert_to_tensor", dims, sizes)
    result = tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), bound)
    result._name = name or made or "tensor"
    if bound.ragged:
        result._raw = backend.finite_padding(result)
    if sparse_dim is not None:
        _check_labels(backend, result, value, sparse_dim)
    if [dim for dim in dims if dim.template is not None]:
        result._await_lengths()
    else:
        bound.keep(("shape", result.sig.serial), sizes)
    return result


def _of_known_shape(value: Any, dims: Sequence[Dim], sparse_dim: Dim | None, feature_dim: Dim | None) -> Tensor | None:
    """A raw tensor with the shape that another one with these dims and lengths had; None if it is not one."""
    backend = backends.BACKENDS.get(type(value))
    if backend is None or not backend.is_ready_raw(value):
        return None
    try:
        signature = align.sig(dims, sparse_dim, feature_dim)
        lengths = current_lengths(dims)
    except (AttributeError, TypeError, DimError):
        return None  # which is explained when the data is looked at
    if lengths.cache.get(("shape", signature.serial)) != value.shape:
        return None
    result = tensor_of(value, signature, lengths)
    if sparse_dim is not None and not is_int_dtype(result.dtype):
        return None
    if lengths.ragged:
        result._raw = backend.finite_padding(result)
    return result


def refuse_masked(what: str, value: Any) -> None:
    """Raises DtypeError for an array of numpy with masked entries, alone or in a list of arrays."""
    is_list = isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], np.ndarray)
    count = sum(np.ma.count_masked(x) for x in (value if is_list else (value,)) if isinstance(x, np.ma.MaskedArray))
    if count:
        raise DtypeError(
            f"{what}: a masked array has entries without a number",
            got=f"{count} masked entries",
            hint="array.filled(0), with lengths=… where what is masked is padding",
        )


def _raw_of(backend: type[Backend], value: object, dtype: str | None, device: str | None) -> RawTensor:
    """The raw tensor of data. Raises DtypeError if it is not made of numbers, DimError if its lists are not even."""
    try:
        raw = backend.convert_raw(value, dtype, device)
    except (TypeError, ValueError, RuntimeError) as failure:
        parts = leaves(value)
        if isinstance(failure, RfError) or type(failure) not in (TypeError, ValueError, RuntimeError):
            raise
        if not isinstance(value, list | tuple) or not all(map(_is_number, parts)):
            odd = next((part for part in parts if not _is_number(part)), value)
            raise _not_numbers(odd) from failure
        raise DimError(
            "convert_to_tensor: lists of one axis have different lengths",
            got=f"{value!r:.60}",
            expected="lists of one length",
            hint="sequences of different lengths need a dim without a size: "
            'dims=[rf.batch_dim, rf.Dim(None, name="time"), …]',
        ) from failure
    if dtype is None and isinstance(value, float | list | tuple) and is_float_dtype(backend.get_dtype_name_raw(raw)):
        return backend.cast_raw(raw, get_default_float_dtype())
    return raw


def _is_number(part: object) -> bool:
    return isinstance(part, bool | int | float | complex | np.generic) or getattr(part, "shape", None) == ()


def _not_numbers(value: object) -> DtypeError:
    """The error for data that is not made of numbers."""
    hint = "strings need a `sparse_dim` with a vocab that knows them" if isinstance(value, str) else None
    if hasattr(value, "shape"):
        hint = "torch.stack or np.stack joins arrays of one size; those of different length need a dim without one"
    return DtypeError(
        "convert_to_tensor: the data is not made of numbers",
        got=f"{type(value).__name__} {value!r:.40}",
        expected="a number, an array, or lists of numbers",
        hint=hint,
    )


def _check_labels(backend: type[Backend], labels: Tensor, value: object, sparse_dim: Dim) -> None:
    """Raises DtypeError if labels are not integers, and DimError if a label in a valid frame is outside the dim.

    Only data on the host is read: data on a device would have to be copied back.
    """
    if not is_int_dtype(labels.dtype):
        raise DtypeError("convert_to_tensor: labels must be integers", got=labels.dtype, expected="int32 or int64")
    size = sparse_dim.dimension
    parts = value if isinstance(value, list | tuple) else [value]
    if size is None or any(hasattr(part, "detach") for part in parts):
        return
    numbers = np.asarray(value)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < size:
        shape = (size,)
        check_range(backend, "convert_to_tensor", labels, (sparse_dim,), shape, noun="a label", hint=NEGATIVE_LABEL)


def _unequal(value: Sequence[object], dims: Sequence[Dim]) -> bool:
    """Whether `value` is a list of sequences of different lengths."""
    if len(dims) < 2 or dims[1] is batch_dim or dims[1].dimension is not None:
        return False
    if hasattr(value, "batch_sizes"):  # a tuple whose parts could be taken for sequences
        raise DtypeError(
            "convert_to_tensor: a packed sequence is not a list of sequences",
            got=type(value).__name__,
            hint="torch.nn.utils.rnn.unpack_sequence(packed)",
        )
    if any(isinstance(entry, str) for entry in value):
        return True
    return all(hasattr(entry, "__len__") for entry in value)


def _pad(value: Sequence[Any], dims: Sequence[Dim], sparse_dim: Dim | None, lengths: Any) -> tuple[np.ndarray, Any]:
    vocab = sparse_dim.vocab if sparse_dim is not None else None
    rows = []
    for entry in value:
        if vocab is None and isinstance(entry, str):
            raise _not_numbers(entry)
        if vocab is not None and (isinstance(entry, str) or (len(entry) and isinstance(entry[0], str))):
            entry = vocab.encode(entry)
        rows.append(_row(entry, sparse_dim))
    shapes = {row.shape[1:] for row in rows if len(row)} or {tuple(d.dimension or 0 for d in dims[2:])}
    if len(shapes) > 1:
        raise DimError("convert_to_tensor: the sequences differ in more than one axis", got=[r.shape for r in rows])
    sizes = [len(row) for row in rows]
    kinds = [row.dtype for row in rows if len(row)] or [np.dtype(np.int64 if sparse_dim is not None else np.float32)]
    padded = np.zeros((len(rows), max(sizes, default=0), *shapes.pop()), dtype=np.result_type(*kinds))
    for out, row in zip(padded, rows, strict=True):
        out[: len(row)] = row if len(row) else 0
    if padded.dtype == np.float64:
        padded = padded.astype(np.float32)
    return padded, sizes if lengths is None else lengths


def _row(entry: Any, sparse_dim: Dim | None) -> np.ndarray:
    """A sequence as an array. Raises DimError for frames of different lengths, DtypeError if they are not numbers."""
    try:
        row = np.asarray(entry, dtype=np.int64 if len(entry) == 0 and sparse_dim is not None else None)
    except ValueError:
        raise DimError(
            "convert_to_tensor: the sequences differ in more than one axis",
            got=f"{entry!r:.60}",
            expected="frames of one length",
        ) from None
    if row.dtype.kind not in "biufc":
        raise _not_numbers(next((part for part in leaves(entry) if not _is_number(part)), entry))
    return row


def _bind(
    backend: type[Backend],
    raw: Any,
    shape: tuple[int, ...],
    dims: Sequence[Dim],
    lengths: object,
    tags: Sequence[str] | None,
    made: Source | None,
) -> object:
    """Binds the dims to this batch. Returns `raw` without frames that are padding in all sequences."""
    by_dim = lengths if isinstance(lengths, Mapping) else None
    have_dims = by_dim is not None and all(isinstance(values, Tensor) for values in by_dim.values())
    batch = dims[0] if batch_dim not in dims or (have_dims and tags is None) else batch_dim
    count = shape[dims.index(batch)]
    if batch.dimension is None and batch.expr is None:
        if tags is not None and len(tags) != count:
            raise DimError("convert_to_tensor: each sequence needs a tag", got=f"{len(tags)} tags", expected=count)
        if tags is not None and len(set(tags)) < len(tags):
            twice = next(tag for tag in tags if list(tags).count(tag) > 1)
            raise DimError("convert_to_tensor: a tag occurs twice", got=repr(twice), expected="distinct tags")
        size = batch.lengths.size(batch)  # kept if it is the same: inputs of one batch that share it are joined quickly
        if tags is not None or size is None or not size.is_number(count):
            size = Size([], count, tags=tags, made=made)
        batch.bind(size)
    elif tags is not None:
        raise DimError(
            f"convert_to_tensor: tags name the sequences of a batch, but {batch.name} has a fixed size",
            got=align.show_dims(dims),
            expected="a dim whose size comes with the data: rf.batch_dim",
        )
    if by_dim is None:
        by_dim = {} if lengths is None else {_dim_for_lengths(dims, batch): lengths}
    for dim, values in by_dim.items():
        size = _size(batch, values, made)
        axis = dims.index(dim)
        if size.min < 0 or size.max > shape[axis]:
            raise DimError(
                f"convert_to_tensor: lengths of {dim.name} do not fit the data",
                got=size,
                expected=f"numbers from 0 to {shape[axis]}",
            )
        if size.dims == (batch,) and size.values.shape != (count,):
            raise DimError(
                "convert_to_tensor: each sequence needs a length",
                got=f"lengths of shape {size.values.shape}",
                expected=f"({count},), as {batch.name} has in the data",
            )
        longest = dim.bind(size).sizes[dim.serial].max
        if longest < shape[axis]:
            raw = raw[(slice(None),) * axis + (slice(0, longest),)]
        elif longest > shape[axis]:
            raw = backend.pad_raw(raw, {axis: (0, longest - shape[axis])}, 0)
    return raw


def _dim_for_lengths(dims: Sequence[Dim], batch: Dim) -> Dim:
    free = [dim for dim in dims if dim is not batch and dim.dimension is None and dim.expr is None]
    if not free:
        raise DimError(
            "convert_to_tensor: no dim can take the lengths",
            got=align.show_dims(dims),
            expected=f"a dim without a fixed size, other than {batch.name}",
            hint='Dim(None, name="time")',
        )
    return free[0]


def _size(batch: Dim, values: Any, made: Source | None) -> Size:
    if type(values) is list and {*map(type, values)} <= {int}:
        return Size([batch], values, made=made)
    dtype = str(getattr(values, "dtype", "")).rpartition(".")[2]  # "torch.int32"
    if isinstance(values, Tensor):
        raw = backends.backend_of_raw(values._raw).to_numpy_raw(values._raw)
        return Size(values.dims, raw, dtype=dtype, made=made)
    if getattr(values, "is_meta", False):
        values = backends.backend_of_raw(values).to_numpy_raw(values)  # raises, with the reason
    elif hasattr(values, "detach"):
        values = values.tolist()  # not .numpy(), which torch.func does not allow
    array = np.asarray(values)
    if array.dtype.kind == "f" and array.size:
        raise DimError("convert_to_tensor: lengths must be integers", got=array.tolist(), expected="integers")
    return Size([batch] if array.ndim else [], array, dtype=dtype, made=made)


@op(frames="any")
def copy_to_device(x: Tensor, device: str | None = None) -> Tensor:
    """The same values on `device`, such as "cpu" or "cuda"; by default on the default device. {…} → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> rf.copy_to_device(x, "cpu").device
    'cpu'
    """
    return backend_of_raw(x._raw).copy_to_device(x, device or get_default_device())


copy = op_of_backend(Backend.copy, __name__, frames="any")
