"""Joins samples of a data set into a batch: the `collate_fn` of torch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.ground import backends
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.errors import DimError, DtypeError, ParameterError
from rfnb.ops.convert import refuse_masked

Sample = Mapping[str, Any]
"""One sequence: arrays, lists, strings and numbers by name."""


@guarded
def collate(
    spec: Mapping[str, Sequence[Dim] | Tensor],
    *,
    tag: str | None = None,
    sparse: Mapping[str, Dim] | None = None,
    device: str | None = None,
) -> Collate:
    """A function that joins samples into one padded batch: the `collate_fn` of torch's DataLoader.

    >>> letter = rf.Dim(3, name="letter", vocab=["a", "b", "c"])
    >>> spell = rf.Dim(None, name="spell")
    >>> join = rf.collate({"letters": [rf.batch_dim, spell]}, sparse={"letters": letter}, tag="word")
    >>> batch = join([{"word": "ab", "letters": "ab"}, {"word": "cab", "letters": "cab"}])
    >>> batch.tags, batch["letters"].raw_tensor.tolist()
    (['ab', 'cab'], [[0, 1, 0], [2, 0, 1]])

    Args:
        spec: the dims of each entry, batch dim first; or a Tensor without data, which gives the
            dtype and the sparse dim as well: `rf.Tensor("letters", [batch_dim, spell], "int64", sparse_dim=letter)`.
            Other entries of a sample are ignored.
        tag: the entry that holds the name of a sequence.
        sparse: the sparse dims of entries. Strings are encoded with their vocab.

    All tensors of a batch share the lengths of that batch; tensors of an earlier batch keep theirs.
    The function may run in the workers of the DataLoader. `join.pad` and `join.bind` are its two halves:
    numpy arrays, which any queue can carry, and the tensors made of them.
    """
    if not isinstance(spec, Mapping):
        raise ParameterError(
            "collate: `spec` is not a dict",
            got=type(spec).__name__,
            expected="the dims of each entry of a sample",
            hint='rf.collate({"x": [rf.batch_dim, time, feat]})(samples), where a sample is a dict {"x": …}',
        )
    templates = {name: _template(name, entry, (sparse or {}).get(name)) for name, entry in spec.items()}
    for name in set(sparse or {}) - set(templates):
        raise DimError(f"collate: `sparse` has {name!r}, which `spec` lacks", expected=", ".join(templates))
    batch_dims = {template.dims[0]: name for name, template in templates.items()}
    if len(batch_dims) > 1:
        got = ", ".join(f"{dim.name} in {name!r}" for dim, name in batch_dims.items())
        hint = '{"x": [rf.batch_dim, time, …], …}'
        raise DimError("collate: all entries need the same batch dim first", got=got, hint=hint)
    return Collate(templates, tag, device)


class BatchEntry(NamedTuple):
    """Description of one entry of the batch."""

    dims: tuple[Dim, ...]
    dtype: str | None
    sparse_dim: Dim | None
    feature_dim: Dim | None


@dataclass(frozen=True)
class Padded:
    """A batch without dims: it can be sent from one process to another."""

    arrays: dict[str, np.ndarray]
    shapes: dict[str, np.ndarray]  # sizes of the axes, for each sequence
    tags: list[str] | None


@dataclass(frozen=True)
class Collate:
    """Joins samples into a TensorDict. Made by `rf.collate`."""

    entries: dict[str, BatchEntry]
    tag: str | None = None
    device: str | None = None

    def __call__(self, samples: Sequence[Sample]) -> TensorDict:
        """The batch. Raises DimError if samples do not fit the spec."""
        return self.bind(self.pad(samples))

    def pad(self, samples: Sequence[Sample]) -> Padded:
        """Joins samples into padded numpy arrays, without dims."""
        arrays, shapes = {}, {}
        tags = None if self.tag is None else [str(_get(sample, self.tag)) for sample in samples]
        for name, entry in self.entries.items():
            rows = []
            for number, sample in enumerate(samples):
                label = tags[number] if tags else f"number {number}"
                rows.append(_row(name, _get(sample, name), entry, label))
            rank = len(entry.dims) - 1
            shapes[name] = np.array([row.shape for row in rows], dtype=np.int64).reshape(len(rows), rank)
            arrays[name] = _padded(rows, shapes[name])
        return Padded(arrays, shapes, tags)

    def bind(self, padded: Padded) -> TensorDict:
        """Makes tensors of padded arrays, and binds the dims to this batch."""
        sizes = self._sizes(padded)
        lengths = EMPTY.bind({dim: size for dim, size in sizes.items() if dim.is_dynamic()})
        for dim in sizes:
            if dim.is_dynamic():
                dim.bound = lengths
        backend = backends.selected()
        batch = TensorDict()
        for name, entry in self.entries.items():
            raw = backend.convert_raw(padded.arrays[name], entry.dtype, self.device)
            _check_derived(name, entry, lengths, padded.shapes[name])
            batch[name] = tensor_of(raw, align.sig(entry.dims, entry.sparse_dim, entry.feature_dim), lengths)
            batch[name].name = name
        return batch

    def _sizes(self, padded: Padded) -> dict[Dim, Size]:
        sizes: dict[Dim, Size] = {}
        sources: dict[Dim, str] = {}
        for name, entry in self.entries.items():
            shapes, batch_dim = padded.shapes[name], entry.dims[0]
            if batch_dim.is_dynamic():
                sizes.setdefault(batch_dim, Size([], len(shapes), tags=padded.tags))
            elif batch_dim.dimension != len(shapes):
                raise DimError(
                    f"collate: {batch_dim.name} has a different size", got=len(shapes), expected=batch_dim.dimension
                )
            for dim, values in zip(entry.dims[1:], shapes.T, strict=True):
                if dim.is_static() or dim.expr is not None:
                    continue
                size = Size([batch_dim], values)
                if not sizes.setdefault(dim, size).agrees(size):
                    raise DimError(
                        f"collate: {name!r} and {sources[dim]!r} differ in the length of {dim.name}",
                        got=f"{size} and {sizes[dim]}",
                        hint=f"give {name!r} a separate Dim",
                    )
                sources.setdefault(dim, name)
        return sizes


def _template(name: str, entry: Sequence[Dim] | Tensor, sparse_dim: Dim | None) -> BatchEntry:
    if isinstance(entry, Tensor):
        sparse_dim, dims, dtype = sparse_dim or entry.sparse_dim, entry.dims, entry.dtype
        feature_dim = entry.feature_dim
    else:
        check_dims(entry, f"collate: {name!r}")
        dims, dtype, feature_dim = tuple(entry), None, None
    if not dims:
        raise DimError(f"collate: {name!r} has no dims", expected="[batch_dim, …]")
    return BatchEntry(dims, dtype, sparse_dim, feature_dim)


def _get(sample: Sample, name: str) -> object:
    try:
        return sample[name]
    except KeyError:
        raise DimError(f"collate: a sample has no {name!r}", got=", ".join(map(str, sample))) from None
    except (TypeError, IndexError):
        raise DtypeError(
            "collate: a sample is not a dict",
            got=type(sample).__name__,
            expected=f"{{{name!r}: …}}",
            hint="dict(zip(names, sample)) names the parts of a tuple",
        ) from None


def _array(name: str, value: object, entry: BatchEntry) -> np.ndarray:
    """One value of one sequence as an array; labels are encoded as integers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if not isinstance(value, np.ndarray) and _has_labels(value):
        value = _encode(name, value, entry)
    array = np.asarray(value)
    if array.shape == (0,):  # an empty list has neither a dtype nor further axes
        array = _empty(array, entry)
    if array.dtype.kind in "OUS":
        raise DtypeError(f"collate: {name!r} is not made of numbers", got=repr(value)[:60])
    return array.astype(np.float32) if array.dtype == np.float64 and entry.dtype is None else array


def _empty(array: np.ndarray, entry: BatchEntry) -> np.ndarray:
    dtype = np.int64 if entry.sparse_dim is not None and array.dtype == np.float64 else array.dtype
    return np.zeros((0, *(dim.dimension or 0 for dim in entry.dims[2:])), dtype)


def _has_labels(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, Iterable) and any(isinstance(part, str) for part in value)


def _encode(name: str, value: Any, entry: BatchEntry) -> object:
    vocab = entry.sparse_dim.vocab if entry.sparse_dim is not None else None
    if vocab is None:
        raise DtypeError(
            f"collate: {name!r} has text labels, but no vocab to read them with",
            got=repr(value)[:60],
            hint=f'rf.collate(…, sparse={{"{name}": Dim(…, vocab=…)}})',
        )
    return vocab.encode([value])[0] if len(entry.dims) == 1 else vocab.encode(value)


def _row(name: str, value: object, entry: BatchEntry, which: str) -> np.ndarray:
    """One value of one sequence as an array, checked against `entry`."""
    refuse_masked(f"collate: {name!r} of sequence {which}", value)
    try:
        row = _array(name, value, entry)
    except DimError as error:  # a label that the vocab lacks
        error.what = f"collate: {name!r} of sequence {which}: {error.what}"
        raise
    _check(name, row, entry, which)
    return row


def _check(name: str, row: np.ndarray, entry: BatchEntry, which: str) -> None:
    dims = entry.dims[1:]
    fits = row.ndim == len(dims) and all(d.dimension in (None, n) for d, n in zip(dims, row.shape, strict=True))
    if not fits:
        raise DimError(
            f"collate: {name!r} of sequence {which} does not fit",
            got=f"shape {row.shape}",
            expected=f"{{{', '.join(_shown(dim) for dim in dims)}}}",
        )
    labels = entry.sparse_dim
    if labels is None or not row.size:
        return
    if row.dtype.kind == "f" and entry.dtype is None:
        raise DtypeError(f"collate: {name!r} of sequence {which}: labels must be integers", got=row.dtype)
    if labels.dimension is not None and not 0 <= row.min() <= row.max() < labels.dimension:
        place = tuple(np.argwhere((row < 0) | (row >= labels.dimension))[0].tolist())
        at = ", ".join(f"{dim.name} {i}" for dim, i in zip(dims, place, strict=True))
        raise DimError(
            f"collate: {name!r} of sequence {which}: {row[place]} is not a label of {labels.name}",
            got=f"{row[place]}" + (f" at {at}" if at else ""),
            expected=f"0 to {labels.dimension - 1}",
        )


def _shown(dim: Dim) -> str:
    """The dim of a sample: with its size if it is the same for all, without the lengths of the last batch."""
    return dim.name if dim.dimension is None else f"{dim.name}:{dim.dimension}"


def _padded(rows: Sequence[np.ndarray], shapes: np.ndarray) -> np.ndarray:
    dtypes = [row.dtype for row in rows if row.size] or [row.dtype for row in rows] or [np.dtype(np.float32)]
    dtype = np.result_type(*dtypes)
    if dtype == np.float64 and dtype not in dtypes:  # the numpy result of integers and floats
        dtype = np.dtype(np.float32)
    padded = np.zeros((len(rows), *shapes.max(axis=0, initial=0)), dtype)
    for number, row in enumerate(rows):
        place: tuple[Any, ...] = (number, *map(slice, row.shape))
        padded[place] = row
    return padded


def _check_derived(name: str, entry: BatchEntry, lengths: Lengths, shapes: np.ndarray) -> None:
    """Raises DimError if a dim that is an expression, such as `time + 1`, has other lengths than the expression."""
    for dim, values in zip(entry.dims[1:], shapes.T, strict=True):
        if dim.expr is None or dim.is_static():
            continue
        size = lengths.size(dim)
        if size is None or (size.values != values).any():
            raise DimError(
                f"collate: {name!r} does not fit {dim.name}", got=values.tolist(), expected=size or "a known size"
            )
