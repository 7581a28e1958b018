"""A Dim: an axis with a name and an identity. Two dims are the same if they are the same object."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import dim_alias, dim_math
from rfnb.core.dims.binding import DATA, Bindable, GivenBy, current_lengths
from rfnb.core.dims.capacity import Capacity, check_fixed
from rfnb.core.dims.dim_algebra import Algebra
from rfnb.core.dims.dim_kind import Kinds, check_words
from rfnb.core.dims.dim_math import Expr
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.dims.size_limits import check_size
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source, public_function, user_source
from rfnb.core.vocab.vocab import Vocab, vocab_of
from rfnb.errors import DimError, DtypeError, TraceError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import Tensor

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


def check_dims(dims: Any, what: str | None = None) -> None:
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


def _made_of(given: Any) -> str | None:
    """A hint that shows how to make a Dim from what was given in its place."""
    if isinstance(given, str):
        return f'{given} = rf.Dim(None, name="{given}")'
    return f'rf.Dim({given}, name="…")' if isinstance(given, int) else None


@dim_math.derived_dim.register
def _derived(expr: Expr) -> Dim:
    dim = Dim(None, name=expr.text())
    dim.expr = expr
    dim_alias.settle(dim)
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
