"""Writes dims, sizes and lengths as tables, and reads them; identical objects share one entry."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from rfnb.core.dims import dim_math
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.tensor import pickling
from rfnb.core.vocab import Vocab
from rfnb.errors import RunFileError
from rfnb.trace.run.file.fields import MOST, Text, chosen, conform, count, get

LONGEST_NAME = 1000
"""Longest name of a derived dim, in characters. Names contain those of the parts, so they could grow exponentially."""

LARGEST_MASK = 2**28
"""Largest mask, in entries, that a tensor may lead to: {time} with a length for each sequence needs {batch, time}."""


class DimWriter:
    """Collects dims, sizes and lengths in tables, and returns the number of each entry."""

    def __init__(self) -> None:
        self.dims: list[object] = []
        self.sizes: list[object] = []
        self.lengths: list[object] = []
        self._dims: dict[Dim, int] = {}
        self._sizes: dict[Hashable, int] = {}
        self._lengths: dict[Hashable, int] = {}

    def json(self) -> dict[str, object]:
        """The three tables as JSON."""
        return {"dims": self.dims, "sizes": self.sizes, "lengths": self.lengths}

    def dim(self, dim: Dim | None) -> int | None:
        """The number of a dim in the table; adds the dim if it is new."""
        if dim is None:
            return None
        if dim not in self._dims:
            entry = self._describe(dim)  # adds the parts first
            self._dims[dim] = len(self.dims)
            self.dims.append(entry)
        return self._dims[dim]

    def _describe(self, dim: Dim) -> object:
        if dim in pickling.SHARED:
            return {"shared": pickling.SHARED.index(dim)}
        if dim.expr is not None and dim_math.make(*dim.expr) is dim:
            op, parts, numbers = dim.expr
            return {"op": op, "of": [self.dim(part) for part in parts], "numbers": [int(n) for n in numbers]}
        vocab: dict[str, object] = {"labels": None if dim.vocab is None else list(dim.vocab.labels)}
        if dim.vocab is not None and dim.vocab.aliases:
            vocab["aliases"] = dim.vocab.aliases
        key = list(pickling.key_of(dim))
        return {"key": key, "name": dim.name, "size": dim.dimension, "kind": dim.kind, **vocab}

    def size(self, size: Size | None) -> int | None:
        """The number of a size in the table; adds the size if it is new."""
        if size is None:
            return None
        dims = [self.dim(dim) for dim in size.dims]
        key = (tuple(dims), size.values.shape, size.values.tobytes(), None if size.tags is None else tuple(size.tags))
        if key not in self._sizes:
            self._sizes[key] = len(self.sizes)
            self.sizes.append({"dims": dims, "values": size.values.tolist(), "tags": size.tags})
        return self._sizes[key]

    def of(self, dims: Sequence[Dim], lengths: Lengths) -> int:
        """The number of the entry that holds the sizes of `dims` in `lengths`; adds it if it is new."""
        entry: dict[int, int] = {}
        open_ = [root for dim in dims for root in dim.roots.values()]
        while open_:
            dim = open_.pop()
            size = lengths.size(dim)
            number = self.dim(dim)
            if size is None or number is None or number in entry:
                continue
            entry[number] = self.size(size)  # type: ignore[assignment]
            open_ += [root for owner in size.dims for root in owner.roots.values()]
        pairs = tuple(sorted(entry.items()))
        if pairs not in self._lengths:
            self._lengths[pairs] = len(self.lengths)
            self.lengths.append([list(pair) for pair in pairs])
        return self._lengths[pairs]


class DimReader:
    """Reads the dims, sizes and lengths of a file. Dims that exist in this process are reused."""

    def __init__(self, data: object):
        self.dims: list[Dim] = []
        self._new: list[Dim] = []
        for entry in get(data, "dims", list):
            self.dims.append(self._dim(entry))
        self.sizes = [self._size(entry) for entry in get(data, "sizes", list)]
        self.lengths = [self._of(entry) for entry in get(data, "lengths", list)]

    def dim(self, number: object) -> Dim:
        """The dim with this number."""
        return chosen(self.dims, number, "dims")

    def dim_or_none(self, number: object) -> Dim | None:
        """The dim with this number; None for None."""
        return None if number is None else self.dim(number)

    def size_or_none(self, number: object) -> Size | None:
        """The size with this number; None for None."""
        return None if number is None else chosen(self.sizes, number, "sizes")

    def _dim(self, data: Mapping[str, object]) -> Dim:
        if "shared" in data:
            return chosen(pickling.SHARED, get(data, "shared", int), "shared")
        if "op" in data:
            return self._derived(data)
        size, kind = get(data, "size", int | None), get(data, "kind", str | None)
        name = get(data, "name", str)
        if size is not None:
            count(data, "size", 2**62)
        vocab = self._vocab(data)
        maker, serial = get(data, "key", list)
        key = (conform(maker, str, "key"), conform(serial, int, "key"))
        original = pickling.dim_by_key(key)
        if original is not None and (original.name, original.dimension, original.kind) == (name, size, kind):
            return original
        dim = Dim(size, name=name, kind=kind)
        dim.vocab, dim.made = vocab, None  # its tokenizer may have more labels
        self._new.append(dim)
        return dim if original is not None else pickling.remember(key, dim)

    def _vocab(self, data: Mapping[str, object]) -> Vocab | None:
        if data.get("labels") is None:
            return None
        labels, aliases = get(data, "labels", list[Text]), data.get("aliases", {})
        if not isinstance(aliases, dict):
            raise RunFileError("'aliases' in the file has the wrong type")
        for number in aliases.values():
            chosen(labels, number, "aliases")
        return Vocab.of_labels(labels, aliases)

    def _derived(self, data: object) -> Dim:
        op, numbers = get(data, "op", str), get(data, "numbers", list[int])
        parts = [self.dim(part) for part in get(data, "of", list)]
        if op not in dim_math.OPS or sum(len(part.name) for part in parts) > LONGEST_NAME:
            raise RunFileError("the file has a derived dim of an unknown kind", got=op)
        return dim_math.make(op, parts, numbers)

    def _size(self, data: object) -> Size:
        dims = [self.dim(number) for number in get(data, "dims", list)]
        values = np.array(get(data, "values", int | list))
        tags = get(data, "tags", list[Text] | None)
        if values.ndim != len(dims) or (values.size and (values.dtype.kind != "i" or values.min() < 0)):
            raise RunFileError("the lengths in the file are not valid")
        size = Size(dims, values, tags=tags)
        size.made = None
        if tags is not None and len(tags) != size.max:
            raise RunFileError("the file does not have a tag for each sequence", got=len(tags), expected=size.max)
        return size

    def _of(self, data: Iterable[tuple[object, object]]) -> Lengths:
        sizes = {self.dim(dim): chosen(self.sizes, size, "sizes") for dim, size in data}
        return EMPTY.bind(sizes) if sizes else EMPTY

    def bind(self, axis: Dim, size: Size) -> None:
        """Binds dims that are new in this process to the sizes of the file; existing dims keep their sizes."""
        for lengths in [*self.lengths, EMPTY.bind({axis: size})]:
            for dim in self._new:
                if dim.bound is None and dim.is_dynamic() and dim.serial in lengths.sizes:
                    dim.bound = lengths

    def _small(self, size: Size, dims: Sequence[Dim], shape: Sequence[int]) -> bool:
        """Whether a mask of these lengths is small, including the axes of sequences that the tensor does not have."""
        return all(owner in dims for owner in size.dims) or size.values.size * math.prod(shape) <= LARGEST_MASK

    def check(self, dims: Sequence[Dim], lengths: Lengths, shape: Sequence[int]) -> None:
        """Raises RunFileError if the shape of a tensor does not fit its dims; a mask of wrong lengths could be huge."""
        fits = len(dims) == len(shape) and (0 not in shape or max(shape) <= MOST)
        for dim, n in zip(dims, shape, strict=False):
            size = lengths.size(dim)
            fits = fits and size is not None and size.max <= n and self._small(size, dims, shape)
        if not fits:
            raise RunFileError(
                "the shape of a tensor in the file does not fit its dims",
                got=tuple(shape),
                expected="{" + ", ".join(lengths.describe(dim) for dim in dims) + "}",
            )
