"""The data of a network: for each key its dims and dtype, and how a batch becomes Tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from rfnb.core.dims.align import show_dims
from rfnb.core.dims.axis_names import AxisOrder, is_marked_time, mark_time
from rfnb.core.dims.binding import bind_again
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import OneOf, Positive
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.core.vocab import Vocab
from rfnb.errors import DataNotFound, DimError, NetworkError
from rfnb.netdict.axes import NetworkDims, ragged
from rfnb.netdict.options import REQUIRED, Option, checked
from rfnb.netdict.resolve import entry_of
from rfnb.ops.collate import BatchEntry, Collate
from rfnb.ops.convert import convert_to_tensor

DTYPES = (
    "float32 float64 float16 bfloat16 int32 int64 int16 int8 uint8 uint16 uint32 uint64 bool complex64 "
    "complex128 string"
).split()
KINDS: dict[str, tuple[object, ...]] = {
    "dim": (Positive,), "sparse": (bool,), "shape": (list, tuple), "dtype": (Annotated[str, OneOf(*DTYPES)],),
    "dim_tags": (list, tuple), "time_dim_axis": (int,), "batch_dim_axis": (int,), "feature_dim_axis": (int,),
    "available_for_inference": (bool,), "same_dim_tags_as": (str, dict), "sparse_dim": (Dim,), "vocab": (),
    "name": (str,), "feature_dim": (Dim,), "batch": (), "undefined": (bool,),
}  # fmt: skip
"""By option of a data key: what it may be, beside None."""


@dataclass(frozen=True)
class DataKey:
    """What a data key holds: its axes in the declared order, and of what type its entries are."""

    name: str
    dims: tuple[Dim, ...]
    dtype: str
    sparse_dim: Dim | None
    feature_dim: Dim | None
    available_for_inference: bool

    @property
    def dim(self) -> int | None:
        """The number of labels, or of features."""
        counted = self.sparse_dim or self.feature_dim
        return None if counted is None else counted.dimension

    def with_dims(self, new: Callable[[Dim], Dim]) -> DataKey:
        """The same with other dims: each that of the function."""
        feature = None if self.feature_dim is None else new(self.feature_dim)
        return replace(self, dims=tuple(map(new, self.dims)), feature_dim=feature)

    def tensor(self, value: Any) -> Tensor:
        """A Tensor of given data: an array, or a pair of an array and lengths, which are one list, or {axis: list}."""
        array, lengths = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        if isinstance(array, Tensor):
            names = {dim.name for dim in array.dims if dim not in self.dims}
            if any(dim.name in names for dim in self.dims if dim not in array.dims):
                raise NetworkError(
                    f"{self.name}: the batch has dims of the same names, but not those of this network",
                    got=array.describe_dims(),
                    hint="net.extern_data.collate makes batches of a network; several can have one rf.ExternData",
                )
            return array
        at = next((i for i, dim in enumerate(self.dims) if dim.is_batch_dim()), None)
        if at and np.ndim(array) == len(self.dims):
            return self._with_batch_at(at, array, lengths)
        dynamic = [self.dims.index(dim) for dim in ragged(self.dims)]
        if lengths is not None and not isinstance(lengths, Mapping):
            lengths = dict.fromkeys(dynamic[:1], lengths)
        shape = tuple(np.shape(array)) if not hasattr(array, "shape") else tuple(array.shape)
        sizes: dict[Dim, Any] = {}
        for axis in dynamic if len(shape) == len(self.dims) else ():
            full = np.full(shape[0], shape[axis], "int32") if at is not None else shape[axis]
            sizes[self.dims[axis]] = _numbers((lengths or {}).get(axis, full))
        return convert_to_tensor(
            array,
            dims=self.dims,
            dtype=self.dtype,
            sparse_dim=self.sparse_dim,
            feature_dim=self.feature_dim,
            lengths=sizes or None,
            name=self.name,
        )

    def _with_batch_at(self, at: int, array: Any, lengths: object) -> Tensor:
        """A Tensor of data whose batch axis is not the first one."""
        order = [at, *(i for i in range(len(self.dims)) if i != at)]
        if isinstance(lengths, Mapping):
            lengths = {order.index(axis): sizes for axis, sizes in lengths.items()}
        array = array.permute(order) if hasattr(array, "permute") else np.transpose(array, order)
        batch_major = replace(self, dims=tuple(self.dims[i] for i in order))
        return batch_major.tensor((array, lengths)).copy_transpose(self.dims)


class ExternData:
    """The data keys of a network: `ExternData({"data": {"dim": 40}, "classes": {"dim": 100, "sparse": True}})`.

    Args:
        data: by key, a dict of `dim`, `sparse`, `shape` (without batch), `dtype`, `dim_tags` and the like; or the pair
            (dim, number of axes). Without `shape` it is {batch, time, dim}, or {batch, time} if sparse.
        default_input, default_target: the keys that layers use if they name none.

    >>> extern = rf.ExternData({"data": {"dim": 40}, "classes": {"dim": 100, "sparse": True}})
    >>> [dim.name for dim in extern.get_data("data").dims], extern.get_data("classes").dtype
    (['batch', 'data', 'feature'], 'int32')

    Raises NetworkError for an unknown option.
    """

    @guarded
    def __init__(
        self,
        data: Mapping[str, object] | None = None,
        default_input: str = "data",
        default_target: str = "classes",
    ):
        self.default_input, self.default_target = default_input, default_target
        self.axes = NetworkDims()
        self.data: dict[str, DataKey] = {}
        self.register_data_from_dict(data or {})

    def register_data_from_dict(self, data: Mapping[str, object]) -> None:
        """Adds data keys."""
        previous = dict(self.data)
        try:
            for key, described in data.items():
                if not isinstance(key, str):
                    raise NetworkError("extern_data: a key is not a string", got=repr(key)[:60], expected="a string")
                self.data[key] = self._described(key, _as_dict(key, described))
        except Exception:
            self.data = previous
            raise
        self.data = {key: described.with_dims(self.axes.of) for key, described in self.data.items()}

    def register_data(self, data: DataKey) -> None:
        """Adds a data key, or replaces it: the one that is the name of the description."""
        self.data[data.name] = data

    def init_from_config(self, config: Mapping[str, Any], auto_create_placeholders: bool = False) -> None:
        """Adds the data keys of a config: those of `extern_data`.

        >>> extern = rf.ExternData()
        >>> extern.init_from_config({"extern_data": {"data": {"dim": 3}}})
        >>> list(extern)
        ['data']
        """
        self.register_data_from_dict(config.get("extern_data") or {})

    def has_data(self, name: str) -> bool:
        """Whether there is a key."""
        return name in self.data

    def get_data(self, name: str) -> DataKey:
        """The description of a key. Raises DataNotFound."""
        return entry_of(self.data, name, f"there is no data key {name!r}", DataNotFound)

    def get_default_input_data(self) -> DataKey:
        """The description of the default input."""
        return self.get_data(self.default_input)

    def get_default_target_data(self) -> DataKey:
        """The description of the default target."""
        return self.get_data(self.default_target)

    def get_sorted_data_items(self) -> list[tuple[str, DataKey]]:
        """All keys, sorted, with their descriptions."""
        return sorted(self.data.items())

    def get_data_description(self) -> str:
        """The keys with their dims in one line."""
        return ", ".join(f"{key} {show_dims(data.dims)}" for key, data in self.data.items())

    def get_all_dimension_tags(self, allow_same_feature_dim: bool = False) -> list[Dim]:
        """All dims of all keys, each once."""
        return list(dict.fromkeys(dim for data in self.data.values() for dim in data.dims))

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def tensors(self, batch: Mapping[str, object] | TensorDict) -> dict[str, Tensor]:
        """The Tensors of a batch, by key. Raises DataNotFound for a key that is not described."""
        values = batch.data if isinstance(batch, TensorDict) else batch
        tensors = {key: self.get_data(key).tensor(value) for key, value in values.items()}
        for x in tensors.values():
            bind_again(x.dims, x.lengths)  # another batch may have been made since
        return tensors

    def collate(self, samples: Sequence[Mapping[str, object]]) -> TensorDict:
        """A batch of samples, each a dict of arrays without batch axis: the `collate_fn` of torch's DataLoader.

        Keys that the samples lack are not in the batch. "seq_tag" is the name of a sequence.

        >>> extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 5, "sparse": True}})
        >>> samples = [{"data": np.zeros((n, 2), "float32"), "classes": [1, 4]} for n in (3, 1)]
        >>> extern.collate(samples)["data"].describe_dims()
        '{batch:2, data:1–3, feature:2}'

        Raises DimError if a sample does not fit, NetworkError if there is none.
        """
        if not samples:
            raise NetworkError("collate: there are no samples", expected='[{"data": array, …}, …]')
        entries = {}
        for key, data in self.data.items():
            if key in samples[0]:
                dims = batch_dim, *(dim for dim in data.dims if dim is not batch_dim)
                entries[key] = BatchEntry(dims, data.dtype, data.sparse_dim, data.feature_dim)
        return Collate(entries, tag="seq_tag" if "seq_tag" in samples[0] else None)(samples)

    def example(self, batch: int = 3, frames: int = 7, seed: int = 0) -> TensorDict:
        """Random data that fits: the first sequence has `frames` frames, the others fewer.

        >>> rf.ExternData({"data": {"dim": 2}}).example(batch=3, frames=4)["data"].describe_dims()
        '{batch:3, data:2–4, feature:2}'
        """
        draw = np.random.default_rng(seed)
        sizes: dict[Dim, list[int]] = {}
        tensors = {}
        for key, data in self.data.items():
            shape = []
            for dim in data.dims:
                if dim.is_batch_dim():
                    shape.append(batch)
                elif dim.dimension is None:
                    shape.append(frames)
                    sizes.setdefault(dim, [max(1, frames - i) for i in range(batch)])
                else:
                    shape.append(dim.dimension)
            lengths = {i: sizes[dim] for i, dim in enumerate(data.dims) if dim in sizes}
            is_whole = data.dtype.startswith(("int", "uint"))
            array = draw.integers(0, data.dim or 2, shape) if is_whole else draw.normal(size=shape)
            tensors[key] = data.tensor((array.astype(data.dtype), lengths))
        return TensorDict(tensors)

    def _described(self, key: str, given: dict[str, Any]) -> DataKey:
        for name, value in given.items():
            _check(key, name, value, *entry_of(KINDS, name, f"extern_data {key!r}: unknown option {name!r}"))
        for entry in given.get("dim_tags") or ():
            _check(key, "an entry of dim_tags", entry, Dim, optional=False)
        for entry in given.get("shape") or ():
            _check(key, "an entry of shape", entry, Positive, Dim)
        size, sparse = given.get("dim"), bool(given.get("sparse") or given.get("sparse_dim"))
        dtype = given.get("dtype") or ("int32" if sparse else "float32")
        available = given.get("available_for_inference", key == self.default_input)
        tags = given.get("dim_tags")
        dims = list(tags) if tags is not None else self._shape(key, given, sparse, size)
        for name in ("time_dim_axis", "feature_dim_axis"):
            at = given.get(name)
            if at is not None and not -len(dims) <= at < len(dims):
                fault = f"extern_data {key!r}: {name} is not an axis"
                raise NetworkError(fault, got=at, expected=f"0 to {len(dims) - 1}")
        if (at := given.get("time_dim_axis")) is not None:
            mark_time(dims[at])
        feature = given.get("feature_dim")
        if "feature_dim_axis" in given:
            at = given["feature_dim_axis"]
            feature = None if at is None else dims[at]
        elif feature is None and not sparse:
            features = [dim for dim in dims if dim.is_feature_dim()]
            fixed = [dim for dim in dims if dim.dimension is not None and not dim.is_batch_dim()]
            feature = next(reversed(fixed or features), None)
        if isinstance(shared_tags := given.get("same_dim_tags_as"), Mapping):
            dims, feature = self._same(key, dims, feature, shared_tags, own=tags is not None)
        label = given.get("sparse_dim") or (self.axes.feature(size) if sparse and size is not None else None)
        words = given.get("vocab")
        words = words.get("labels") if isinstance(words, Mapping) else words
        if label is not None and isinstance(words, list | tuple | str | Vocab):
            label = self.axes.labels(Dim(label.dimension, name=key, vocab=words))
        return DataKey(key, tuple(dims), dtype, label, feature, bool(available))

    def _shape(self, key: str, given: Mapping[str, Any], sparse: bool, size: int | None) -> list[Dim]:
        """The dims by the sizes of the axes, with the batch in its place."""
        shape: list[Any] = list(given.get("shape", (None,) if sparse else (None, size)))
        if (at := given.get("batch_dim_axis", 0)) is not None:
            shape.insert(at, batch_dim)
        reference = given.get("same_dim_tags_as")
        like = self.data.get(reference) if isinstance(reference, str) else None
        dynamic_dims = [dim for dim in like.dims if dim.dimension is None and not dim.is_batch_dim()] if like else []
        dims: list[Dim] = []
        dynamic = 0
        for i, entry in enumerate(shape):
            if isinstance(entry, Dim):
                dims.append(entry)
            elif entry is None:
                name = key if not dynamic else f"{key}{dynamic}"
                dim = dynamic_dims[dynamic] if dynamic < len(dynamic_dims) else Dim(None, name=name)
                dim.kind = "spatial"
                dims.append(self.axes.name(dim, f"time:var:extern_data:{key}"))
                dynamic += 1
            elif i == given.get("time_dim_axis"):
                dims.append(self.axes.time(entry, dims))
            elif i == len(shape) - 1 and not sparse:
                dims.append(self.axes.feature(entry, dims))
            else:
                dims.append(self.axes.static(entry, dims))
        return dims

    def _same(
        self, key: str, dims: list[Dim], feature: Dim | None, given: Mapping[object, object], *, own: bool
    ) -> tuple[list[Dim], Dim | None]:
        """The dims and the feature dim, with the given ones in the place of axes: {"T": dim}.

        own: whether a net dict may refer to the dims before; then they mean the same from now on.
        """
        for described, new in given.items():
            order = AxisOrder(dims, feature, self.axes.names_of)
            try:
                old = dims[described if isinstance(described, int) else order.one(str(described))]
            except (DimError, IndexError) as error:
                fault = f"extern_data {key!r}: same_dim_tags_as has no axis {described!r}"
                raise NetworkError(fault, got=show_dims(dims), expected='{"T": dim}') from error
            if not isinstance(new, Dim) or new.dimension not in (old.dimension, None):
                fault = f"extern_data {key!r}: same_dim_tags_as gives {described!r} something else"
                raise NetworkError(fault, got=repr(new)[:60], expected=f"a Dim for {old.describe()}")
            if new.dimension is None and old.dimension is not None:
                self.axes.make_same(new, old)
                continue
            if own:
                self.axes.make_same(old, new)
            for name in self.axes.names_of(old):
                self.axes.name(new, name)
            new.kind = new.kind or old.kind
            if is_marked_time(old):
                mark_time(new)
            feature = new if feature is old else feature
            dims[dims.index(old)] = new
        return dims, feature


def _as_dict(key: str, described: object) -> dict[str, object]:
    """The description as a dict; the pair of the dim and the number of axes is the older form."""
    if isinstance(described, Mapping):
        return dict(described)
    if isinstance(described, list | tuple) and len(described) == 2:
        size, axes = described
        _check(key, "the number of axes", axes, Positive, optional=False)
        return data_of_size(size, axes)
    raise NetworkError(f"extern_data {key!r} is not described", got=repr(described)[:60], expected='{"dim": …}')


def data_of_size(size: object, axes: int) -> dict[str, object]:
    """The description of data by the number of labels or features, and that of axes beside the batch."""
    if axes == 1:
        return {"dim": size, "sparse": True}
    return {"dim": size, "shape": (None,) * (axes - 1) + (size,)} if axes > 2 else {"dim": size}


def _check(key: str, name: str, value: object, *kinds: object, optional: bool = True) -> None:
    """Raises NetworkError if a value of a data description is of another kind."""
    if value is not None or not optional:
        try:
            checked(Option("value", REQUIRED, kinds), name, value)
        except NetworkError as error:
            error.what = f"extern_data {key!r}: {error.what}"
            raise


def _numbers(lengths: object) -> object:
    if isinstance(lengths, Tensor):
        return lengths
    if hasattr(lengths, "detach"):
        return backend_of_raw(lengths).to_numpy_raw(lengths)
    return np.asarray(lengths)
