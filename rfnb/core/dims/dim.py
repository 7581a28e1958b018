"""A Dim: an axis with a name and an identity. Two dims are the same if they are the same object.

It may say what it counts (sequences, frames or features), and have a capacity: the size of its axis for all batches.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from rfnb.core.dims import dim_math
from rfnb.core.dims.binding import DATA, Bindable, GivenBy, current_lengths
from rfnb.core.dims.dim_math import Algebra, Expr, check_operand
from rfnb.core.dims.lengths import EMPTY, Lengths, Size, check_size
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source, public_function, user_source
from rfnb.core.ground.text import did_you_mean
from rfnb.core.vocab import Vocab, vocab_of
from rfnb.errors import DimError, DtypeError, ParameterError, TraceError

if TYPE_CHECKING:
    from rfnb.core.dims.dim_math import Expr
    from rfnb.core.tensor.tensor import Tensor


KINDS: tuple[Literal["batch", "spatial", "feature"], ...] = ("batch", "spatial", "feature")
BATCH = ("batch", "b")
FEATURE = ("feature", "features", "feat", "channel", "channels", "f", "c")


def kind_of_name(name: str | None) -> str | None:
    """What an axis counts that has no more than a name: `"batch"`, `"feature"`, or None."""
    word = (name or "").lower()
    return "batch" if word in BATCH else "feature" if word in FEATURE else None


def check_words(name: object, description: object, kind: object) -> None:
    """Raises ParameterError for names that are not strings, and for a kind that does not exist."""
    for word in (name, description, kind):
        if word is not None and not isinstance(word, str):
            raise ParameterError(
                "Dim: the name or the kind is not a string", got=type(word).__name__, expected='rf.Dim(4, name="feat")'
            )
    if kind is not None and kind not in KINDS:
        raise ParameterError(
            "Dim: unknown `kind`",
            got=repr(kind),
            expected=f"None or {' or '.join(map(repr, KINDS))}",
            hint=did_you_mean(str(kind), KINDS),
        )


class Kinds:
    """The part of Dim that says what it counts."""

    kind: str | None

    class Types:
        """The kinds of dims: what a dim counts."""

        Unspecified = None
        Batch = "batch"
        Spatial = "spatial"
        Time = "spatial"
        Feature = "feature"

    def is_batch_dim(self) -> bool:
        """Whether this dim counts sequences.

        >>> rf.batch_dim.is_batch_dim(), rf.Dim(None, name="time").is_batch_dim()
        (True, False)
        """
        return self.kind == "batch"

    def is_spatial_dim(self) -> bool:
        """Whether this dim counts frames or other positions.

        >>> rf.Dim(None, name="time", kind=rf.Dim.Types.Spatial).is_spatial_dim(), rf.batch_dim.is_spatial_dim()
        (True, False)
        """
        return self.kind == "spatial"

    def is_feature_dim(self) -> bool:
        """Whether this dim counts features.

        >>> rf.Dim(3, name="feat", kind=rf.Dim.Types.Feature).is_feature_dim(), rf.Dim(3, name="feat").is_feature_dim()
        (True, False)
        """
        return self.kind == "feature"


class Capacity:
    """The part of Dim about its capacity."""

    _capacity: int | None = None
    _bounded_by: Dim | None = None
    _bounds: weakref.WeakSet[Dim] | None = None
    _assumed: Lengths | None = None

    if TYPE_CHECKING:
        get_size_tensor: ClassVar[Any]  # these three are set by ops.mask
        dyn_size_ext: ClassVar[Any]
        dyn_size: ClassVar[Any]
        serial: int
        dimension: int | None
        expr: Expr | None
        bound: Lengths | None

        @property
        def size(self) -> Size:
            """The size in the current batch."""

        def bind(self, size: Size) -> Lengths:
            """Sets the size for a new batch."""

    @property
    def capacity(self) -> int | None:
        """The size of the axis, if it is fixed for all batches; derived dims have the one that follows from it.

        >>> time = rf.Dim([5, 2], name="time", capacity=8)
        >>> time, (time + 1).capacity, rf.zeros([rf.batch_dim, time]).raw_tensor.shape
        (Dim{time:2–5 of 8}, 9, torch.Size([2, 8]))

        Existing tensors keep their sizes when it is set. Raises DimError if a sequence has more frames.
        """
        if self.expr is not None:
            return self.expr.number(dim.capacity if dim.dimension is None else dim.dimension for dim in self.expr.dims)
        bound = self._bounded_by
        return bound.capacity if self._capacity is None and bound is not None else self._capacity

    @capacity.setter
    def capacity(self, size: int | None) -> None:
        self._set("_capacity", _checked(size))

    @property
    def assumed(self) -> Lengths | None:
        """The lengths before they are known, which are the whole capacity; None if there is none.

        >>> time = rf.Dim(None, name="time", capacity=8)
        >>> rf.zeros([time]).raw_tensor.shape, time.is_defined()
        (torch.Size([8]), False)
        """
        capacity = self.capacity
        if capacity is None:
            return None
        if self._assumed is None or self._assumed.sizes[self.serial].max != capacity:
            self._assumed = Lengths({self.serial: Size((), capacity, capacity=capacity, assumed=True)})
        return self._assumed

    @property
    def bounded_by(self) -> Dim | None:
        """A dim that is at least as long as this one, which has its capacity if it has none of its own.

        Raises DimError if that dim is bounded by this one.
        """
        return self._bounded_by

    @bounded_by.setter
    def bounded_by(self, other: Dim | None) -> None:
        if other is not None:
            check_operand(other)
            if other in self._following():
                raise DimError("Dim: `bounded_by` goes in a circle", got=f"{other.name}, which is bounded by this dim")
            bounds: weakref.WeakSet[Any] = other._bounds or weakref.WeakSet()
            bounds.add(self)
            other._bounds = bounds
        self._set("_bounded_by", other)

    def _set(self, name: str, value: object) -> None:
        """Sets an attribute, and binds all dims whose capacity depends on it again; if one cannot be, none is."""
        old, dims = getattr(self, name), self._following()
        setattr(self, name, value)
        try:
            for dim in dims:
                dim._bind_again()
        except DimError:
            setattr(self, name, old)
            for dim in dims:
                dim._bind_again()
            raise

    def _following(self) -> list[Capacity]:
        """This dim, and all that are bounded by it, directly or not."""
        bounded = [dim for dim in self._bounds or () if dim._bounded_by is self]
        return [self, *(follower for dim in bounded for follower in dim._following())]

    def _bind_again(self) -> None:
        """Binds the dim to the lengths that it has, with the capacity that it has now."""
        if self.dimension is None and self.expr is None and self.bound is not None:
            self.bind(self.size.bounded(None))


def _checked(size: object) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise DimError("Dim: the capacity is not a size", got=repr(size), expected="a whole number, or None")
    return int(size)


SHAPES = {"fixed": False, "generation": 0}
"""Whether code must not depend on the sizes of a batch, as for a CUDA graph, and how often that was switched on."""


def check_fixed(dim: Dim) -> None:
    """Raises DimError if sizes must not depend on the batch, as that of `dim` does."""
    if not SHAPES["fixed"] or dim.dimension is not None or dim.capacity is not None:
        return
    if dim.expr is not None or dim.size.capacity is None:
        raise DimError(
            f"{dim.name} has no fixed size, which code for rf.set_static_traceable_ctx() needs",
            got=dim.describe(),
            expected="a static dim, or one with a capacity",
            hint=f"{' and '.join(sorted(root.name for root in dim.roots.values()))}.capacity = …",
            dims=[dim],
        )


_serials = itertools.count()
DIMS: weakref.WeakValueDictionary[int, Dim] = weakref.WeakValueDictionary()
"""All existing dims, by serial number."""


class Dim(Bindable, Algebra, Capacity, Kinds, Shown):
    """An axis of tensors: `feat = Dim(40, name="feat")`, `time = Dim(None, name="time")`.

    Args:
        dimension: the size; None if it comes with the data or from `vocab`; or the lengths of the sequences
            (a Tensor {batch}, or numbers for the sequences of `batch_dim`). A Tensor without data says which dims the
            lengths will have: `Dim(Tensor("time", [batch_dim], "int32"))`. Setting `time.dyn_size_ext.raw_tensor`
            then binds the dim to a batch.
        name: the name that is shown in errors and views.
        vocab: labels for the entries of tensors that are sparse in this dim: a list of labels, a file with one
            label per line, a tokenizer, or anything else that `rf.Vocab` accepts.
        kind: one of `Dim.Types`: "batch", "spatial" or "feature".
        description: another name for `name`.
        capacity: the size of the axis for all batches; frames after the longest sequence are padding.
        dyn_size_ext: the lengths, as a Tensor.
        bounded_by: a dim that is at least as long as this one, whose capacity it has.

    Dims can be added, multiplied and divided: `time + 1`, `4 * feat`, `time.ceildiv_right(2)`. Equal expressions
    of the same dims are the same Dim, so `time + 1 - 1` is `time`.

    >>> feat, time = rf.Dim(3, name="feat"), rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor(np.ones((2, 5, 3)), dims=[rf.batch_dim, time, feat], lengths=[5, 2])
    >>> feat, time, time + 1
    (Dim{feat:3}, Dim{time:2–5}, Dim{time+1:3–6})
    """

    def __init__(
        self,
        dimension: int | Tensor | Sequence[int] | np.ndarray | None = None,
        *,
        name: str | None = None,
        vocab: Vocab | Sequence[str] | object | None = None,
        kind: str | None = None,
        description: str | None = None,
        capacity: int | None = None,
        dyn_size_ext: Tensor | None = None,
        bounded_by: Dim | None = None,
        **unknown: object,
    ):
        if unknown:
            raise DimError(
                f"Dim: unknown argument {', '.join(unknown)}",
                expected="name, vocab, kind, description, capacity, dyn_size_ext, bounded_by",
                hint="dim.copy(match_priority=1)" if "match_priority" in unknown else None,
            )
        check_words(name, description, kind)
        self.serial = next(_serials)
        DIMS[self.serial] = self
        lengths = dyn_size_ext if dimension is None else dimension
        self.name: str = name or description or _name_of(lengths) or f"dim{self.serial}"
        self.kind: str | None = kind
        self.description = self.name
        self.vocab: Vocab | None = vocab_of(vocab)
        self.expr: Expr | None = None
        self.made: Source | None = user_source()
        self.template: Tensor | None = None  # which dims the lengths have, before they are known
        self.awaiting: list[weakref.WeakMethod[Any]] = []  # called when the dim is bound
        self.changes_in: str | None = None  # the loop in which its size differs at every step
        self.dimension: int | None = None
        self.capacity, self.bounded_by = capacity, bounded_by
        if lengths is None and self.vocab is not None:
            lengths = len(self.vocab)
        if isinstance(lengths, str):
            hint = f'rf.Dim(None, name="{lengths}")'
            raise DimError("Dim: the first argument must be the size", got=repr(lengths), hint=hint)
        if isinstance(lengths, float):
            raise DimError(f"Dim: the size of {self.name} must be an integer", got=lengths)
        if isinstance(lengths, int | np.integer):
            self.dimension = self._checked_size(int(lengths))
        elif lengths is not None:
            self._set_lengths(lengths)

    def _checked_size(self, size: int) -> int:
        if size < 0:
            raise DimError(f"Dim: {self.name} cannot have a negative size", got=size, expected="0 or more")
        check_size(self.name, size)
        if self.vocab is not None and len(self.vocab) and not self.vocab.fits(size):
            raise DimError(
                f"Dim: the vocab of {self.name} has a different size", got=f"{len(self.vocab)} labels", expected=size
            )
        return size

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: object) -> Dim:
        return self  # identity is what a Dim is: the copy of a module has the same dims

    # -- what it is

    def is_static(self) -> bool:
        """Whether the size is fixed.

        >>> rf.Dim(3, name="feat").is_static(), rf.Dim(None, name="time").is_static()
        (True, False)
        """
        return self.dimension is not None

    def is_dynamic(self) -> bool:
        """Whether the size comes with the data.

        >>> rf.Dim([5, 2], name="time").is_dynamic(), rf.Dim(3, name="feat").is_dynamic()
        (True, False)
        """
        return self.dimension is None

    @property
    def match_priority(self) -> int:
        """Above 0 for the copy of a dim that stands for the other axis of a square matrix: ops match the copy first."""
        return self.expr.numbers[0] if self.expr is not None and self.expr.op == "copy" else 0

    @property
    def base(self) -> Dim:
        """The dim that this is a copy of, with another match priority; the dim itself if it is not a copy."""
        return self.expr.dims[0] if self.expr is not None and self.expr.op == "copy" else self

    @property
    def formula(self) -> str | None:
        """The expression of other dims that this dim is, such as "time+1"; None if it is not derived."""
        return None if self.expr is None else self.expr.text()

    @property
    def roots(self) -> dict[int, Dim]:
        """The dims that determine the size of this one, by serial number."""
        if self.dimension is not None:
            return {}
        return {self.serial: self} if self.expr is None else self._derived_roots  # caching the former makes a cycle

    @cached_property
    def _derived_roots(self) -> dict[int, Dim]:
        assert self.expr is not None
        return {serial: root for dim in self.expr.dims for serial, root in dim.roots.items()}

    @cached_property
    def static_size(self) -> Size:
        """The size of a static dim, as a `Size`.

        >>> rf.Dim(3, name="feat").static_size.max
        3
        """
        return Size((), self.dimension)

    # -- the current batch

    @property
    def lengths(self) -> Lengths:
        """The lengths that this dim was last bound to; EMPTY if it was never bound."""
        for root in self.roots.values():
            if (bound := root.bound) is not None:
                return bound
        return EMPTY

    @property
    def size(self) -> Size:
        """The size in the current batch. Raises DimError if there is none yet."""
        size = current_lengths([self]).size(self)
        if size is None:
            raise DimError(
                f"{self.name} has no size yet",
                expected="a Dim whose size is known",
                hint=f"make a tensor with it first: rf.convert_to_tensor(raw, dims=[…, {self.name}, …], lengths=…)"
                if self.template is None
                else f"{self.name}.dyn_size_ext.raw_tensor = torch.tensor([…])",
                dims=[self],
            )
        return size

    def bind(self, size: Size) -> Lengths:
        """Sets the size of the dim for a new batch. Existing tensors keep their sizes.

        >>> time, frames = rf.Dim([5, 2], name="time"), rf.Dim(None, name="frames")
        >>> _ = frames.bind(time.size)
        >>> frames
        Dim{frames:2–5}
        """
        context = current_lengths(size.dims)
        self.bound = bound = context.bind({self: size.within_capacity(self)})
        waiting, self.awaiting = self.awaiting, []
        for reference in waiting:
            if (notify := reference()) is not None:
                notify()
        return bound

    def _set_lengths(self, lengths: Any) -> None:
        """Binds the dim to lengths as given to a new Dim. A Tensor without data says which dims they will have."""
        if hasattr(lengths, "dims") and lengths.raw_tensor is None:
            lengths._as_lengths_of(self)
            self.template = lengths.copy_template()
        else:
            self.bind(size_from(lengths))

    def get_dim_value(self) -> int:
        """The size of the padded axis in the current batch.

        >>> rf.Dim([5, 2], name="time").get_dim_value(), rf.Dim(3, name="feat").get_dim_value()
        (5, 3)
        """
        if self.dimension is not None:
            return self.dimension
        changes_in = next((root.changes_in for root in self.roots.values() if root.changes_in), None)
        if changes_in is not None:
            raise TraceError(
                f"{changes_in}: the body reads the size of {self.name}, which differs at every step",
                hint="use an op such as rf.reduce_mean, or a state that counts",
            )
        check_fixed(self)
        return self.size.max

    def is_defined(self) -> bool:
        """Whether the size is known in the current batch.

        >>> time = rf.Dim(None, name="time")
        >>> before = time.is_defined()
        >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
        >>> before, time.is_defined()
        (False, True)
        """
        sizes = current_lengths([self]).sizes
        return all(serial in sizes and not sizes[serial].assumed for serial in self.roots)

    is_dim_known = is_defined

    def need_masking(self) -> bool:
        """Whether there may be padding, because each sequence has its own length.

        >>> rf.Dim([5, 2], name="time").need_masking(), rf.Dim(5, name="time").need_masking()
        (True, False)
        """
        return self.is_dynamic() and not (self.is_defined() and not self.size.dims)

    def reset_raw(self, *, only_self: bool = False, include_parents: bool = False) -> None:
        """Forgets the size of the last batch, also for dims derived from this one. Existing tensors keep theirs.

        include_parents: also forgets the sizes of the dims that this one is derived from.

        >>> time = rf.Dim([5, 2], name="time")
        >>> time.reset_raw()
        >>> time, time + 1
        (Dim{time:?}, Dim{time+1:?})
        """
        for dim in self.roots.values() if include_parents and not only_self else (self,):
            dim.bind_to(None, DATA)

    reset_eager = reset_batch_ctx = reset_batch_and_raw = reset_raw

    def is_free(self) -> bool:
        """Whether the dim has no size yet, neither given nor derived from other dims.

        >>> time = rf.Dim(None, name="time")
        >>> time.is_free(), (time + 1).is_free(), rf.Dim([5, 2], name="words").is_free()
        (True, False, False)
        """
        return self.dimension is None and self.expr is None and self.bound is None and self.given is DATA

    def define(self, size: Size, by: str, *, by_loop: bool = False) -> None:
        """Sets the size of an output dim. Only the op `by` may do so, and may do so again for a new batch.

        by_loop: whether it is the number of steps that a loop took.

        >>> pooled = rf.Dim(None, name="pooled")
        >>> pooled.define(rf.Dim([3, 1], name="time").size, by="my_pool")
        >>> pooled
        Dim{pooled:1–3}
        """
        if self.is_static() or self.expr is not None:
            old = current_lengths([self]).size(self)
            if old is not None and old.max != size.max:
                raise DimError(f"{by}: {self.name} has a different size", got=size, expected=old)
            return
        origin = self.given
        if origin.op not in (None, by) or (origin.op is None and self.bound is not None):
            raise DimError(
                f"{by}: {self.name} is already in use",
                got=f"a dim defined by {origin.op or 'data'}",
                expected="a new Dim(None), or one that this op defined",
            )
        self.bind_to(self.bound, GivenBy(by, by_loop))
        self.bind(size)

    def __repr__(self) -> str:
        return f"Dim{{{self.describe()}}}"

    def describe(self) -> str:
        """Name and current size in one word, for messages: "time:5", "time:2–5", "feat:4", "time:?".

        >>> rf.Dim([5, 2], name="time").describe(), rf.Dim(None, name="words").describe()
        ('time:2–5', 'words:?')
        """
        return current_lengths([self]).describe(self)


def check_dims(dims: object, what: str | None = None) -> None:
    """Raises DimError if `dims` is not a list of Dims.

    what: how the message begins; the rfnb function that the user called if not given.
    """
    if isinstance(dims, Dim):
        what = f"{what or public_function()}: one Dim, where a list of Dims is expected"
        raise DimError(what, got=dims.name, expected=f"[{dims.name}]")
    for dim in [dims] if isinstance(dims, str) or not hasattr(dims, "__iter__") else dims:
        if not isinstance(dim, Dim):
            raise DimError(
                f"{what or public_function()}: {dim!r} is not a Dim",
                got=type(dim).__name__,
                expected="Dims, which say what the axes are",
                hint=_made_of(dim),
            )


def as_dim(size: Dim | int, name: str) -> Dim:
    """A new Dim named `name` for a number; a Dim is returned unchanged."""
    return size if isinstance(size, Dim) else Dim(size, name=name)


def as_dims(dims: Dim | Sequence[Dim]) -> tuple[Dim, ...]:
    """One dim or several, as a tuple. A string, or what is not a list, is one entry, which `check_dims` rejects."""
    return tuple(dims) if not isinstance(dims, Dim | str) and hasattr(dims, "__iter__") else (dims,)  # type: ignore[return-value]


def _made_of(given: object) -> str | None:
    """A hint that shows how to make a Dim from what was given in its place."""
    if isinstance(given, str):
        return f'{given} = rf.Dim(None, name="{given}")'
    return f'rf.Dim({given}, name="…")' if isinstance(given, int) else None


@dim_math.derived_dim.register
def _derived(expr: Expr) -> Dim:
    dim = Dim(None, name=expr.text())
    dim.expr = expr
    dim_math.settle(dim)
    kinds = {part.kind for part in expr.dims}
    dim.kind = kinds.pop() if len(kinds) == 1 else None
    return dim


batch_dim = Dim(None, name="batch", kind="batch")
"""The dim that counts the sequences of a batch."""
batch_dim.made = None  # not created by user code

single_step_dim = Dim(1, name="single_step")
"""The `spatial_dim` that makes a recurrent module do a single step."""
single_step_dim.made = None


def _name_of(lengths: Any) -> str | None:
    """The name of a Tensor that describes lengths, which has no data."""
    return lengths.name if hasattr(lengths, "dims") and lengths.raw_tensor is None else None


def size_from(lengths: Any) -> Size:
    """The `Size` for lengths that are given as numbers, an array, or a Tensor of any dims."""
    if hasattr(lengths, "dims"):
        values = lengths.numpy()
        if values.dtype.kind == "f":
            raise DtypeError(f"{lengths.name}: lengths must be integers", got=values.dtype, expected="int32 or int64")
        return Size(lengths.dims, values, dtype=lengths.dtype)
    values = np.asarray(backend_of_raw(lengths).to_numpy_raw(lengths) if hasattr(lengths, "detach") else lengths)
    if values.dtype.kind not in "iu" and values.size:
        raise DimError(
            "Dim: the lengths are not whole numbers",
            got=f"{type(lengths).__name__} {lengths!r:.40}",
            expected="a number, the lengths of the sequences, or a Tensor with them",
        )
    if values.ndim:
        batch_dim.bind(Size([], len(values)))
    dtype = values.dtype.name if hasattr(lengths, "dtype") else None
    return Size([batch_dim] if values.ndim else [], values, dtype=dtype)
