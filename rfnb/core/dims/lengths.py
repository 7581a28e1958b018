"""The sizes of dims in one batch, and which entries of a tensor count by them.

They are kept apart from the dims, which stay the same for all batches.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.ground.hook import Hook
from rfnb.core.ground.source import Source, user_source
from rfnb.errors import DimError, DimRebound
from rfnb.printable import encodable, printable_name

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


LARGEST = 2**63 - 1
"""The largest size of a dim: sizes are integers of 64 bits."""
ENTRIES = 2**40
"""The number of entries from which on a tensor is not made because it is too large, whatever the memory."""


def check_size(name: str, size: int) -> int:
    """The size. Raises DimError if it is too large for a dim."""
    if size > LARGEST:
        raise DimError(f"Dim: {name} is too large", got=f"{size:.3g}", expected=f"at most {LARGEST:.3g}")
    return size


def too_large(what: str, dims: Sequence[Dim], shape: Sequence[int], error: Exception) -> Exception:
    """The error for a tensor that could not be made: a DimError if it has too many entries, else `error` itself."""
    if math.prod(shape) < ENTRIES:
        return error
    sizes = ", ".join(f"{dim.name}:{size}" for dim, size in zip(dims, shape, strict=True))
    return DimError(
        f"{what}: the tensor is too large",
        got=f"{{{sizes}}}: {math.prod(shape):.3g} entries",
        expected="smaller dims",
        dims=dims,
    )


_serials = itertools.count()
_JOINS = 64  # joined Lengths kept per Lengths, as a long-lived tensor meets many batches
_CACHED = 512  # derived sizes and masks kept per Lengths
_NUMBERS = (int, list, np.ndarray)
_DTYPES = ("int32", "int64")

symbolic_values: Hook[..., Any] = Hook("core.dims.lengths.symbolic_values", by="nn.bridge.symbolic")
"""Wraps the values of a size that is not a number yet, because torch is tracing, or there is no batch."""
symbolic_range: Hook[[Any], Any] = Hook("core.dims.lengths.symbolic_range", by="nn.bridge.symbolic")
"""The positions on an axis whose size is not a number yet."""


def frame_numbers(count: object) -> np.ndarray:
    """The positions on an axis of this size: 0, 1, …"""
    values: np.ndarray = np.arange(count) if isinstance(count, int) else symbolic_range(count)
    return values


def longest_of(values: Any) -> int:
    """The largest of these numbers of frames, which may be values of a size that torch traces."""
    longest: int = int(values.max(initial=0)) if isinstance(values, np.ndarray | np.generic) else values.longest
    return longest


class Size:
    """The size of a dim: one number, or one for each entry of `dims`.

    max: the length of the padded axis: that of the longest sequence, or the `capacity` of the dim. min: the shortest
    length. ragged: whether there is padding. traced: whether the values are not numbers yet. renamed: the size over the
    dims as they were before `replace_dim`, with the same values. dtype: that of the tensor that the lengths were given
    as, which `dyn_size_ext` has too; the values here are always int64. None: they were not given as a tensor.
    assumed: whether it is the capacity of a dim whose lengths are not known yet; any other size has precedence.
    """

    __slots__ = (
        "__weakref__", "assumed", "capacity", "dims", "dtype", "made", "max", "min", "ragged", "renamed", "tags",
        "traced", "values",
    )  # fmt: skip

    def __init__(
        self,
        dims: Sequence[Dim],
        values: object,
        *,
        tags: Sequence[str] | None = None,
        made: Source | None = None,
        renamed: Size | None = None,
        capacity: int | None = None,
        dtype: str | None = None,
        assumed: bool = False,
    ):
        self.dims = tuple(dims)
        self.assumed = assumed
        self.dtype = dtype if dtype in _DTYPES else None
        self.tags = None if tags is None else [str(tag) for tag in tags]
        self.made = made or user_source()
        self.renamed = renamed
        self.capacity = capacity
        self.traced = type(values) not in _NUMBERS and (hasattr(values, "longest") or hasattr(values, "__sym_max__"))
        if self.traced:
            self.values = symbolic_values(values)
            self.min, self.max, self.ragged = 0, self.values.longest, bool(self.values.ndim)
            return
        self.values = np.array(values, np.int64)  # a copy, because the original may change
        self.values.flags.writeable = False  # torch.compile supports this, unlike `setflags`
        flat = self.values.ravel().tolist()
        self.min, self.max = (min(flat), max(0, *flat)) if flat else (0, 0)
        self.ragged = self.values.ndim > 0 and self.min != self.max
        if capacity is not None and not self.traced:
            self.max = max(self.max, capacity)
            self.ragged = self.min != self.max

    @property
    def unknown(self) -> bool:
        """Whether it comes with a batch, and there is none."""
        return self.traced and bool(self.values.is_meta)

    def within_capacity(self, dim: Dim) -> Size:
        """This size, with the capacity of `dim` if it has one. Raises DimError if a sequence is longer."""
        capacity = dim.capacity
        if capacity in (None, self.capacity) or self.traced:
            return self
        longest = int(self.values.max(initial=0))
        if longest > capacity:
            raise DimError(
                f"{printable_name(dim.name)} has more frames than its capacity",
                got=longest,
                expected=f"{capacity} or less",
                hint=f"{printable_name(dim.name)}.capacity = {longest}",
                dims=[dim],
            )
        return self.bounded(capacity)

    def bounded(self, capacity: int | None) -> Size:
        """The same lengths on an axis with this capacity; None: on one as long as the longest sequence."""
        facts: dict[str, Any] = {"tags": self.tags, "made": self.made, "renamed": self.renamed, "dtype": self.dtype}
        return Size(self.dims, self.values, **facts, capacity=capacity)

    def agrees(self, other: Size) -> bool:
        """Whether both have the same lengths."""
        if self is other:
            return True
        for size, another in ((self, other), (other, self)):
            if size.traced:
                agree: bool = size.values.agrees(another.values)
                return agree
        if self.dims == other.dims:
            return np.array_equal(self.values, other.values)
        if len(self.dims) != len(other.dims) or any(dim not in self.dims for dim in other.dims):
            return False
        order = [other.dims.index(dim) for dim in self.dims]
        return np.array_equal(self.values, other.values.transpose(order))

    def before_renaming(self, other: Size) -> Size | None:
        """That of the two whose dims `replace_dim` replaced to make the other; None if there is no such relation."""
        for size, another in ((self, other), (other, self)):
            earlier = another.renamed
            while earlier is not None:
                if size.agrees(earlier):
                    return size
                earlier = earlier.renamed
        return None

    def over(self, dims: Sequence[Dim]) -> np.ndarray:
        """The lengths with an axis for each of `dims`, of size 1 for dims that they do not depend on."""
        values: np.ndarray = align.apply(align.move(self.dims, dims, trailing=False), self.values)
        return values

    def frames(self, dims: Sequence[Dim]) -> np.ndarray:
        """A mask of the positions that are frames, not padding. [dims…, longest]"""
        mask: np.ndarray = frame_numbers(self.max) < self.over(dims)[..., None]
        return mask

    def some_empty(self) -> bool:
        """Whether one of the sequences is, or may be, empty."""
        return self.min <= 0

    def is_number(self, number: int) -> bool:
        """Whether it is this number, which torch does not trace, without tags, a capacity, or a dtype."""
        plain = self.tags is self.capacity is self.dtype is None and not self.dims and not self.traced
        return plain and type(number) is int and self.max == number

    def place(self) -> str:
        """Where this size was bound, for messages: " (bound in model.py:31)"."""
        return f" (bound in {self.made.place()})" if self.made else ""

    def span(self) -> str:
        """The lengths in one word: "5", or "2–5" if the sequences differ."""
        if self.unknown:
            return "?"
        longest = self.max if self.capacity is None or self.traced else int(self.values.max(initial=0))
        span = str(longest) if self.min == longest or not (self.ragged or self.capacity) else f"{self.min}–{longest}"
        return span if self.capacity is None else f"{span} of {self.capacity}"

    def of_one(self, owner: Dim, index: int) -> Size:
        """The size for entry `index` of `owner` alone; the size itself if it does not depend on `owner`."""
        if owner not in self.dims:
            return self
        owners = [dim for dim in self.dims if dim is not owner]
        return Size(owners, self.values.take(index, self.dims.index(owner)), made=self.made)

    def __repr__(self) -> str:
        return self.span() if self.traced else str(self.values.tolist())


class Lengths:
    """Sizes of dims in one batch, by the dims' serial numbers. Immutable; a new batch has a new one.

    finite: whether the padding of tensors with these lengths is finite. It is, except after ops such as
        `where(mask, x, -inf)`: their results have `infinite()` lengths, and so has all that is computed from them.
    ragged: whether there is padding in this batch. owners: the dims that lengths depend on, usually the batch dim.
    """

    __slots__ = (
        "__weakref__", "_derived", "_infinite", "_joins", "cache", "finite", "owners", "ragged", "serial", "sizes",
    )  # fmt: skip

    def __init__(self, sizes: dict[int, Size]):
        self.sizes = sizes
        self.serial = next(_serials)
        self.finite = True
        self._infinite: Any = None  # a weak reference to the same lengths that are not finite; for those, to these
        self.cache: dict[Any, Any] = {}  # raw masks and sizes, by what and where
        self._joins: dict[tuple[int, int, int], Lengths] = {}
        self._derived: dict[int, Size] = {}
        self.ragged = False
        owners: list[Dim] = []
        for size in self.sizes.values():
            self.ragged = self.ragged or size.ragged
            owners += size.dims
        self.owners = frozenset(owners)

    def __copy__(self) -> Lengths:
        return self

    def __deepcopy__(self, memo: object) -> Lengths:
        return self

    def infinite(self) -> Lengths:
        """These lengths, for tensors whose padding may hold ∞ or NaN."""
        if not self.finite or not self.ragged:
            return self
        twin: Lengths | None = self._infinite and self._infinite()
        if twin is None:
            twin = Lengths(self.sizes)
            twin.finite, twin.cache, twin._infinite = False, self.cache, self
            self._infinite = weakref.ref(twin)
        return twin

    def made_finite(self) -> Lengths:
        """These lengths, for tensors whose padding is finite."""
        lengths: Lengths = self if self.finite else self._infinite
        return lengths

    @property
    def dtype(self) -> str | None:
        """The dtype of all lengths that were given as tensors; None if there are none, or if they differ."""
        dtypes = {size.dtype for size in self.sizes.values() if size.dtype is not None}
        return dtypes.pop() if len(dtypes) == 1 else None

    def size(self, dim: Dim) -> Size | None:
        """The size of `dim` in this batch; None if it is unknown."""
        size = self.sizes.get(dim.serial)
        if size is not None:
            return size
        if dim.dimension is not None:
            return dim.static_size
        if dim.expr is None:
            return None
        size = self._derived.get(dim.serial)
        if size is None and (size := dim.expr.evaluate(self.size)) is not None:
            if len(self._derived) >= _CACHED:
                self._derived.clear()
            self._derived[dim.serial] = size
        return size

    def __getitem__(self, dim: Dim) -> Size:
        """The size of `dim` in this batch. Raises DimError if it is unknown."""
        size = self.size(dim)
        if size is None:
            raise DimError(f"{dim.name} has no size here", expected="a Dim whose size is known")
        return size

    def describe(self, dim: Dim) -> str:
        """Name and size of a dim in one word: "time:5", "time:2–5", "feat:4", "time:?"."""
        size = self.size(dim)
        return encodable(f"{printable_name(dim.name)}:{'?' if size is None else size.span()}")

    def of_one(self, owner: Dim, index: int) -> Lengths:
        """The lengths for entry `index` of `owner` alone."""

        def make() -> Lengths:
            return Lengths({serial: size.of_one(owner, index) for serial, size in self.sizes.items()})

        lengths: Lengths = self.cached(("of_one", owner.serial, index), make)
        return lengths if self.finite else lengths.infinite()

    def bind(self, sizes: Mapping[Dim, Size]) -> Lengths:
        """These lengths, updated with `sizes`."""
        bound = Lengths({**self.sizes, **{dim.serial: size for dim, size in sizes.items()}})
        return bound if self.finite else bound.infinite()

    def cached(self, key: object, make: Callable[[], object]) -> Any:
        """The result of `make`, computed once for this batch."""
        value = self.cache.get(key)
        if value is None:
            value = self.keep(key, make())
        return value

    def keep(self, key: object, value: object) -> Any:
        """Stores a value for this batch; the cache is bounded."""
        if len(self.cache) >= _CACHED:
            self.cache.clear()
        self.cache[key] = value
        return value

    def join(self, other: Lengths, mine: align.Sig, theirs: align.Sig) -> Lengths:
        """The lengths of a result of two tensors with signatures `mine` and `theirs`.

        Lengths over a dim that `replace_dim` replaced in one of the tensors are those over the dim itself.

        Raises DimRebound if a dim that both tensors have differs in length.
        """
        if self is other or not other.sizes:
            return self
        if not self.sizes:
            return other
        key = (other.serial, mine.serial, theirs.serial)
        joined = self._joins.get(key)
        if joined is None:
            if len(self._joins) >= _JOINS:
                self._joins.clear()
            joined = self._join(other, mine.roots, theirs.roots)
            self._joins[key] = EMPTY if joined is self else joined  # a reference to itself would be a cycle
        return self if joined is EMPTY else joined

    def _join(self, other: Lengths, mine: Mapping[int, Dim], theirs: Mapping[int, Dim]) -> Lengths:
        sizes = dict(self.sizes)
        for serial, size in other.sizes.items():
            old = sizes.get(serial)
            if old is not None and old.assumed:
                sizes[serial] = size
            elif old is not None and serial in mine and serial in theirs:
                if not size.assumed:
                    sizes[serial] = _in_both(mine[serial], old, size)
            elif old is None or serial in theirs:
                sizes[serial] = size
        joined = self if sizes == self.sizes else other if sizes == other.sizes else Lengths(sizes)
        return joined if self.finite and other.finite else joined.infinite()


EMPTY = Lengths({})


def _in_both(dim: Dim, first: Size, second: Size) -> Size:
    """The size of a dim that two tensors have, with the tags of either. Raises DimRebound if they differ.

    One of them may be over fewer dims, as after merging the dim of equally long sequences, if the lengths are equal.
    """
    for size, other in ((first, second), (second, first)):
        fewer = set(size.dims) < set(other.dims) and size.max == other.max and not (size.traced or other.traced)
        if fewer and (size.over(other.dims) == other.values).all():
            return size if size.dims else other
    tagged = second if first.tags is None and second.tags is not None else first
    if (common := tagged if first.agrees(second) else first.before_renaming(second)) is None:
        raise rebound(dim, first, second)
    return common


def rebound(dim: Dim, first: Size, second: Size) -> DimRebound:
    """The error for two tensors whose `dim` was bound to different lengths."""
    return DimRebound(
        f"{dim.name} has different lengths in the two tensors",
        got=f"{first}{first.place()} and {second}{second.place()}",
        expected="tensors of the same batch",
        hint=f"new tensors use the most recent lengths of {dim.name}: run the cell that makes the older tensor again, "
        f"derive the new tensor from it (rf.zeros_like), or give each batch its own Dim (rf.replace_dim)",
        dims=[dim],
    )


def frames_mask(dims: Sequence[Dim], sizes: Iterable[tuple[Dim, Size]]) -> np.ndarray | None:
    """Which entries over `dims` are within their sequences; None without `sizes`.

    The mask has size 1 along dims on which it does not depend.

    sizes: the dims that may have padding, each with its size over some of `dims`.
    """
    mask: np.ndarray | None = None
    for dim, size in sizes:
        how = align.move((*size.dims, dim), dims, trailing=False)
        entries: np.ndarray = align.apply(how, size.frames(size.dims))
        mask = entries if mask is None else mask & entries
    return mask


def going_on_mask(dims: Sequence[Dim], steps: Size, step: int | np.ndarray) -> np.ndarray:
    """Which entries over `dims` are of sequences that take `step`; `steps` is the number of steps of each sequence.

    step: one, or several as an array with an axis of size 1 for each of `dims`.
    """
    going: np.ndarray = within(steps, dims).over(dims) > step
    return going


def within(size: Size, dims: Sequence[Dim]) -> Size:
    """The size over those of its dims that are in `dims`. Lengths over other dims become their maximum."""
    lost = tuple(axis for axis, dim in enumerate(size.dims) if dim not in dims)
    if not lost:
        return size
    owners = [dim for dim in size.dims if dim in dims]
    return Size(owners, size.values.max(axis=lost, initial=0), made=size.made, capacity=size.capacity)
